/**
 * Bytes to and from a target, over every transport. The links of this library are not used here: they repair and number
 * messages, and a case must see the target's reaction to exactly the sent bytes.
 */

import { connect as connectSocket, type NetConnectOpts, type Socket } from 'node:net';
import { cannotStart, startChild } from '../base/child.ts';
import { within } from '../base/race.ts';
import { trimmedEnd } from '../base/trim-end.ts';
import { parseTcpAddress, parseUnixAddress } from '../transport/socket.ts';
import { splitCommand } from '../transport/subprocess.ts';
import { fail } from '../wire/errors.ts';
import { bodyText, Lines } from './bounded.ts';

/** The transport to a target. */
export type Binding = 'stdio' | 'tcp' | 'unix' | 'websocket' | 'http';

/** Puts bytes on one transport. */
export interface Carrier {
  readonly binding: Binding;
  /** Writes bytes unchanged on a byte stream; as one frame on WebSocket, as one body on HTTP. */
  write(bytes: Uint8Array): void;
  /** Ends the output of this side only; absent if the transport cannot signal that. */
  end?(): void;
  /** Drops the connection. Resolves when everything it had is released; never rejects. */
  close(): Promise<void>;
}

/** Events of a carrier. */
export interface CarrierSink {
  /** Receives part of the output of the target; `\n` ends a line. */
  text(chunk: string): void;
  /** Called when the target ended the connection, or it broke. `exitCode` of a child. */
  gone(exitCode?: number | null): void;
  /** HTTP: the status of the answer to a body. */
  status?(code: number): void;
  /** A child: bytes on its stderr. */
  noise?(bytes: number): void;
}

/** The forms of addresses that {@link openCarrier} knows; for messages. */
export const TARGET_FORMS =
  'stdio:COMMAND, tcp://host:port, unix:///path, ws(s)://host:port/path or http(s)://host:port';

/** Returns the binding of an address. Throws `usage` for another form. */
export function bindingOf(address: string): Binding {
  const scheme = /^([a-z]+):/.exec(address)?.[1] ?? '';
  const bindings: Readonly<Record<string, Binding>> = {
    stdio: 'stdio',
    tcp: 'tcp',
    unix: 'unix',
    ws: 'websocket',
    wss: 'websocket',
    http: 'http',
    https: 'http',
  };
  const binding = bindings[scheme];
  if (binding === undefined) throw fail('usage', `expected ${TARGET_FORMS}, got ${JSON.stringify(address)}`);
  return binding;
}

/** Opens a carrier; a child gets `env` in addition to this process's environment. Fails with `unreachable`, `usage`, `timeout`. */
export async function openCarrier(
  address: string,
  sink: CarrierSink,
  timeoutMs: number,
  env: Readonly<Record<string, string>> = {},
): Promise<Carrier> {
  const abandoned = new AbortController();
  const opening = openers[bindingOf(address)](address, sink, env, abandoned.signal);
  const carrier = await within(opening, timeoutMs);
  if (carrier !== undefined) return carrier;
  // A connection that the target leaves open in silence would keep this process alive.
  abandoned.abort();
  void opening.then((late) => late.close()).catch(() => {});
  throw fail('timeout', `${address} did not accept a connection within ${timeoutMs} ms`);
}

/** `abandoned`: the time to connect has passed. */
type Opener = (
  address: string,
  sink: CarrierSink,
  env: Readonly<Record<string, string>>,
  abandoned: AbortSignal,
) => Promise<Carrier>;

const openers: Readonly<Record<Binding, Opener>> = {
  stdio: openChild,
  tcp: (address, sink, _env, abandoned) => openSocket('tcp', parseTcpAddress(address), sink, abandoned),
  unix: (address, sink, _env, abandoned) => openSocket('unix', { path: parseUnixAddress(address) }, sink, abandoned),
  websocket: (address, sink, _env, abandoned) => openWebSocket(address, sink, abandoned),
  http: (address, sink, _env, abandoned) => openHttp(address, sink, abandoned),
};

/** Time a child has to end once its input has ended, before it is killed. */
const CHILD_GRACE_MS = 5_000;

async function openChild(address: string, sink: CarrierSink, env: Readonly<Record<string, string>>): Promise<Carrier> {
  const [command, ...args] = splitCommand(address.slice('stdio:'.length));
  if (command === undefined) throw fail('usage', 'stdio: needs a command, e.g. stdio:handfast stdio');
  const child = startChild({ argv: [command, ...args], env: { ...process.env, ...env }, stdin: 'pipe' });
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => sink.text(chunk));
  child.stderr.on('data', (chunk: Buffer) => sink.noise?.(chunk.length));
  void child.exited.then(({ code }) => setImmediate(() => sink.gone(code)));
  try {
    await child.started;
  } catch (error) {
    throw cannotStart(command, error);
  }
  return {
    binding: 'stdio',
    write: (bytes) => void child.stdin?.write(bytes),
    end: () => void child.stdin?.end(),
    async close() {
      child.stdin?.end();
      await within(child.exited, CHILD_GRACE_MS);
      await child.kill();
    },
  };
}

async function openSocket(
  binding: 'tcp' | 'unix',
  options: NetConnectOpts,
  sink: CarrierSink,
  abandoned: AbortSignal,
): Promise<Carrier> {
  const socket = connectSocket({ ...options, allowHalfOpen: true, noDelay: true } as NetConnectOpts);
  abandoned.addEventListener('abort', () => socket.destroy(), { once: true });
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('error', (error) => reject(fail('unreachable', error.message, {}, error)));
  });
  return socketCarrier(binding, socket, sink);
}

/** Returns a carrier over a socket that is connected, also one that the target has opened. */
export function socketCarrier(binding: 'tcp' | 'unix', socket: Socket, sink: CarrierSink): Carrier {
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  socket.setEncoding('utf8').on('data', (chunk: unknown) => sink.text(String(chunk)));
  socket.on('error', () => {});
  socket.resume();
  // A target that closes ends its side and waits for this one.
  socket.once('end', () => {
    sink.gone();
    socket.end();
  });
  socket.once('close', () => sink.gone());
  return {
    binding,
    write: (bytes) => void socket.write(bytes),
    end: () => void socket.end(),
    async close() {
      socket.destroy();
      await closed;
    },
  };
}

async function openWebSocket(address: string, sink: CarrierSink, abandoned: AbortSignal): Promise<Carrier> {
  const socket = new WebSocket(address);
  abandoned.addEventListener('abort', () => socket.close(), { once: true });
  socket.binaryType = 'arraybuffer';
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener('open', () => resolve(), { once: true });
    const refused = (): void => reject(fail('unreachable', `${address} accepts no WebSocket connection`));
    socket.addEventListener('error', refused, { once: true });
  });
  const closed = new Promise<void>((resolve) => socket.addEventListener('close', () => resolve(), { once: true }));
  socket.addEventListener('message', ({ data }) =>
    sink.text(`${typeof data === 'string' ? data : Buffer.from(data as ArrayBuffer).toString()}\n`),
  );
  socket.addEventListener('error', () => {});
  void closed.then(() => sink.gone());
  return {
    binding: 'websocket',
    write(bytes) {
      const text = Buffer.from(bytes);
      // A text frame must be UTF-8; other bytes are sent as a binary one.
      const isText = Buffer.from(text.toString()).equals(text);
      if (socket.readyState === WebSocket.OPEN) socket.send(isText ? text.toString() : Uint8Array.from(bytes));
    },
    async close() {
      socket.close();
      await within(closed, CHILD_GRACE_MS);
    },
  };
}

/**
 * Opens a carrier over the HTTP and SSE binding as a plain client speaks it: a session, one stream, one body for each
 * write, in order.
 */
async function openHttp(origin: string, sink: CarrierSink, abandoned: AbortSignal): Promise<Carrier> {
  const stop = new AbortController();
  const { signal } = stop;
  abandoned.addEventListener('abort', () => stop.abort(), { once: true });
  const base = trimmedEnd(origin, '/');
  const id = await createSession(base, signal);
  const headers = { 'X-Session-Id': id, 'Content-Type': 'text/plain' };
  const stream = await fetch(`${base}/stream`, { headers: { 'X-Session-Id': id }, signal });
  if (!stream.ok || stream.body === null) throw fail('unreachable', `GET /stream answered ${stream.status}`);
  const reading = readEvents(stream.body, sink).finally(() => sink.gone());
  reading.catch(() => {});
  let queue = Promise.resolve();
  return {
    binding: 'http',
    write(bytes) {
      queue = queue.then(async () => {
        // A session that is over replies 404, or its connection has ended; the stream has the reason.
        const body = Uint8Array.from(bytes);
        const response = await fetch(`${base}/send`, { method: 'POST', headers, body, signal }).catch(() => undefined);
        if (response !== undefined) await bodyText(response).catch(() => {});
        sink.status?.(response?.status ?? 0);
      });
    },
    async close() {
      stop.abort();
      await within(Promise.allSettled([reading, queue]), CHILD_GRACE_MS);
      // Not part of the binding, and harmless where it is not offered.
      await fetch(`${base}/session`, {
        method: 'DELETE',
        headers: { 'X-Session-Id': id },
        signal: AbortSignal.timeout(CHILD_GRACE_MS),
      })
        .then(bodyText)
        .catch(() => {});
    },
  };
}

/** Sends `POST /session` and returns the id. Fails with `unreachable`. */
export async function createSession(base: string, signal: AbortSignal): Promise<string> {
  const response = await fetch(`${base}/session`, { method: 'POST', signal }).catch((error: Error) => {
    throw fail('unreachable', `POST /session: ${(error.cause as Error | undefined)?.message ?? error.message}`);
  });
  const text = await bodyText(response);
  const id = (() => {
    try {
      return (JSON.parse(text) as { session_id?: unknown }).session_id;
    } catch {
      return undefined;
    }
  })();
  if (!response.ok || typeof id !== 'string')
    throw fail('unreachable', `POST /session answered ${response.status}: ${text.slice(0, 200)}`);
  return id;
}

/** Hands over the data of each event as a line. */
async function readEvents(body: ReadableStream<Uint8Array>, sink: CarrierSink): Promise<void> {
  const decoder = new TextDecoder();
  const lines = new Lines();
  for await (const chunk of body) {
    for (const line of lines.push(decoder.decode(chunk, { stream: true }))) {
      if (line.startsWith('data:')) sink.text(`${line.slice('data:'.length).replace(/^ /, '').replace(/\r$/, '')}\n`);
    }
  }
}
