/**
 * The plainest way to move message texts over each transport: no limits, no backpressure, no error handling.
 *
 * `bare` and `limit` are built on it, and so are peers without a transport. A carrier is `plain` (one write or
 * WebSocket frame a message) or `coalesced` (all messages of one turn of the event loop in one).
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, connect as openSocket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { WebSocket, WebSocketServer } from 'ws';
import { LOOPBACK, MAX_MESSAGE_BYTES, type Served, type Target } from './contender.ts';

/** Moves whole texts both ways. */
export interface Carrier {
  send(text: string): void;
  /** Starts delivery. Called once, at once after the carrier was made. */
  receive(onText: (text: string) => void): void;
  close(): Promise<void>;
}

const NEWLINE = 10;
/** As much waiting text is written before the turn ends. 8,192 to 16,384 measured best on all three transports. */
const EARLY_WRITE_CHARACTERS = 8192;

/** Splits a byte stream at newlines with `Buffer.indexOf`; a line that spans chunks is joined once. */
export function lineScanner(onText: (text: string) => void): (chunk: Buffer) => void {
  let pending: Buffer[] = [];
  return (chunk) => {
    let start = 0;
    let end = chunk.indexOf(NEWLINE);
    if (end !== -1 && pending.length > 0) {
      pending.push(chunk.subarray(0, end));
      onText(Buffer.concat(pending).toString());
      pending = [];
      start = end + 1;
      end = chunk.indexOf(NEWLINE, start);
    }
    while (end !== -1) {
      onText(chunk.toString('utf8', start, end));
      start = end + 1;
      end = chunk.indexOf(NEWLINE, start);
    }
    if (start < chunk.length) pending.push(chunk.subarray(start));
  };
}

/**
 * Returns a writer: one write a message, or one write a turn. The flush is a tick, which runs when the turn's promises
 * are done. A turn with much output writes early: with one large write the reader starts only when the writer has
 * ended, and the two processes take turns instead of working at the same time (measured: half the rate at the same CPU
 * time a message).
 */
function writer(write: (text: string) => void, separator: string, coalesced: boolean): (text: string) => void {
  if (!coalesced) return write;
  let pending = '';
  const flush = (): void => {
    const text = pending;
    pending = '';
    if (text !== '') write(text);
  };
  return (text) => {
    if (pending === '') {
      pending = text;
      process.nextTick(flush);
      return;
    }
    pending += separator + text;
    if (pending.length >= EARLY_WRITE_CHARACTERS) flush();
  };
}

function pipeCarrier(input: Readable, output: Writable, coalesced: boolean, close: () => Promise<void>): Carrier {
  // A peer that is ended by force shows as a reset; the caller sees it as a call that never settles, which is bounded.
  input.on('error', () => {});
  output.on('error', () => {});
  return {
    send: writer((text) => output.write(`${text}\n`), '\n', coalesced),
    receive: (onText) => input.on('data', lineScanner(onText)),
    close,
  };
}

function webSocketCarrier(socket: WebSocket, coalesced: boolean): Carrier {
  socket.on('error', () => {});
  const receive = coalesced
    ? (onText: (text: string) => void) =>
        socket.on('message', (data: Buffer) => {
          for (const text of data.toString().split('\n')) onText(text);
        })
    : (onText: (text: string) => void) => socket.on('message', (data: Buffer) => onText(data.toString()));
  return {
    send: writer((text) => socket.send(text), '\n', coalesced),
    receive,
    close: async () => {
      const closed = once(socket, 'close');
      socket.close();
      await closed;
    },
  };
}

/** Ends a child by closing its input, by its own pid if that is not enough within two seconds. */
export async function endChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.stdin?.end();
  const timer = setTimeout(() => child.kill('SIGKILL'), 2000);
  await exited;
  clearTimeout(timer);
}

/** Opens a carrier to a server that {@link serveCarriers} runs. */
export async function openCarrier(target: Target, coalesced: boolean): Promise<Carrier> {
  if (target.transport === 'stdio') {
    const child = spawn(target.command, target.args, { stdio: ['pipe', 'pipe', 'inherit'] });
    await once(child, 'spawn');
    return pipeCarrier(child.stdout, child.stdin, coalesced, () => endChild(child));
  }
  if (target.transport === 'tcp') {
    const socket = openSocket({ port: target.port, host: LOOPBACK, noDelay: true });
    await once(socket, 'connect');
    return pipeCarrier(socket, socket, coalesced, async () => {
      const closed = once(socket, 'close');
      socket.end();
      await closed;
    });
  }
  if (target.transport === 'websocket') {
    const socket = new WebSocket(`ws://${LOOPBACK}:${target.port}`, { perMessageDeflate: false });
    await once(socket, 'open');
    return webSocketCarrier(socket, coalesced);
  }
  throw new Error(`no carrier for ${target.transport}`);
}

/** Serves one transport, giving each link's carrier to `accept`. */
export async function serveCarriers(
  transport: Target['transport'],
  coalesced: boolean,
  accept: (carrier: Carrier) => void,
): Promise<Served> {
  if (transport === 'stdio') {
    accept(pipeCarrier(process.stdin, process.stdout, coalesced, async () => {}));
    return {};
  }
  if (transport === 'tcp') {
    const server = createServer({ noDelay: true }, (socket) => {
      accept(pipeCarrier(socket, socket, coalesced, async () => {}));
    });
    return listening(server);
  }
  if (transport === 'websocket') {
    const server = new WebSocketServer({ port: 0, host: LOOPBACK, maxPayload: MAX_MESSAGE_BYTES });
    server.on('connection', (socket) => accept(webSocketCarrier(socket, coalesced)));
    await once(server, 'listening');
    return { port: portOf(server) };
  }
  throw new Error(`no carrier for ${transport}`);
}

/** Binds a server to an ephemeral loopback port. */
export async function listening(server: import('node:net').Server): Promise<Served> {
  server.listen({ port: 0, host: LOOPBACK, backlog: 4096 });
  await once(server, 'listening');
  return { port: portOf(server) };
}

function portOf(server: { address(): unknown }): number {
  const address = server.address();
  if (typeof address !== 'object' || address === null || !('port' in address)) throw new Error('no port was bound');
  return Number(address.port);
}
