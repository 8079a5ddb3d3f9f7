/**
 * The transports as plain bytes: sockets, child processes, WebSocket frames, HTTP bodies, and objects in memory. Each
 * function dials one host and returns the carrier of one peer.
 */
import type { ChildProcess } from 'node:child_process';
import { Agent, type IncomingMessage, request } from 'node:http';
import { type NetConnectOpts, connect as netConnect, type Socket } from 'node:net';
import { WebSocket } from 'ws';
import type { Link } from '../../src/transport/link.ts';
import { memoryPair } from '../../src/transport/memory.ts';
import { parseTcpAddress } from '../../src/transport/socket.ts';
import { Peer } from './peer.ts';

/** Waits until a socket is connected. */
function connected(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('error', reject);
  });
}

/** Dials TCP and Unix sockets. */
export async function dialSocket(options: NetConnectOpts): Promise<Peer> {
  const socket = netConnect({ ...options, allowHalfOpen: true, noDelay: true } as NetConnectOpts);
  await connected(socket);
  return new Peer((sink) => {
    socket.on('error', () => {});
    socket.on('data', (chunk) => sink.bytes(chunk));
    // A host that closes ends its side and waits for this one.
    socket.on('end', () => {
      sink.gone();
      socket.end();
    });
    socket.on('close', () => sink.gone());
    return {
      write: (bytes) => void socket.write(bytes),
      end: () => void socket.end(),
      // An ordinary end would look like one finished side; only TCP can signal a reset, and not in the same turn as the
      // end.
      cut: () => void ('path' in options || socket.writableEnded ? socket.destroy() : socket.resetAndDestroy()),
      pause: (paused) => void (paused ? socket.pause() : socket.resume()),
      pending: () => socket.writableLength,
    };
  });
}

/** Returns a peer of a host that was started as a child and uses its stdin and stdout. */
export function overStdio(child: ChildProcess): Peer {
  const { stdin, stdout } = child;
  if (stdin === null || stdout === null) throw new Error('the child was started without pipes');
  return new Peer((sink) => {
    stdin.on('error', () => {});
    stdout.on('data', (chunk: Buffer) => sink.bytes(chunk));
    stdout.on('end', () => {
      sink.gone();
      stdin.end();
    });
    return {
      write: (bytes) => void stdin.write(bytes),
      end: () => void stdin.end(),
      cut: () => {
        stdin.destroy();
        stdout.destroy();
      },
      pause: (paused) => void (paused ? stdout.pause() : stdout.resume()),
    };
  });
}

/** Dials with one frame for each write: text if the bytes are UTF-8, else binary, because a text frame must not hold them. */
export async function dialWebSocket(url: string): Promise<Peer> {
  const { isUtf8 } = await import('node:buffer');
  const socket = new WebSocket(url, { perMessageDeflate: false });
  await new Promise<void>((resolve, reject) => {
    socket.once('open', resolve);
    socket.once('error', reject);
  });
  return new Peer((sink) => {
    socket.on('error', () => {});
    socket.on('message', (data) => sink.bytes(`${data}\n`));
    socket.on('close', () => sink.gone());
    return {
      write: (bytes) => socket.send(bytes, { binary: !isUtf8(bytes) }),
      cut: () => socket.terminate(),
      pause: (paused) => void (paused ? socket.pause() : socket.resume()),
    };
  });
}

/** Dials the HTTP + SSE binding as a plain client does: a session, one stream, and one body for each write, in order. */
export async function dialHttp(origin: string): Promise<Peer> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const fetchBody = (method: string, path: string, headers: Record<string, string>, body?: Buffer) =>
    new Promise<IncomingMessage & { text: string }>((resolve, reject) => {
      const outgoing = request(`${origin}${path}`, { method, agent, headers }, async (response) => {
        let text = '';
        for await (const chunk of response) text += chunk;
        resolve(Object.assign(response, { text }));
      });
      outgoing.on('error', reject);
      outgoing.end(body);
    });
  const created = await fetchBody('POST', '/session', {});
  if (created.statusCode !== 200) throw new Error(`POST /session answered ${created.statusCode}: ${created.text}`);
  const headers = { 'X-Session-Id': JSON.parse(created.text).session_id as string, 'Content-Type': 'text/plain' };
  const stream = request(`${origin}/stream`, { headers, agent: false });
  const events = await new Promise<IncomingMessage>((resolve, reject) => {
    stream.on('response', resolve).on('error', reject).end();
  });
  return new Peer((sink) => {
    let queue = Promise.resolve();
    let partial = '';
    const gone = (): void => {
      agent.destroy();
      sink.gone();
    };
    events.setEncoding('latin1');
    events.on('data', (chunk: string) => {
      const lines = (partial + chunk).split('\n');
      partial = lines.pop() as string;
      for (const line of lines) if (line.startsWith('data: ')) sink.bytes(`${line.slice('data: '.length)}\n`);
    });
    events.on('error', gone);
    events.on('end', gone);
    return {
      write(bytes) {
        queue = queue.then(async () => {
          // A session that is over replies 404, or its connection has already ended; the stream has the reason.
          const response = await fetchBody('POST', '/send', headers, bytes).catch(() => undefined);
          sink.status(response?.statusCode ?? 0);
        });
      },
      cut: () => {
        stream.destroy();
        gone();
      },
      pause: (paused) => void (paused ? events.pause() : events.resume()),
    };
  });
}

/** Dials with objects by reference: JSON goes as a value, any other text as text. */
export function dialMemory(accept: (link: Link) => void): Peer {
  const [ours, theirs] = memoryPair();
  accept(theirs);
  return new Peer((sink) => {
    ours.open({
      message: (message) => sink.bytes(`${typeof message === 'string' ? message : JSON.stringify(message)}\n`),
      malformed() {},
      ended: () => void ours.close(),
      closed: () => sink.gone(),
    });
    return {
      write(bytes) {
        for (const line of bytes.toString().split('\n')) {
          if (line.trim() === '') continue;
          let value: unknown = line;
          try {
            value = JSON.parse(line);
          } catch {}
          ours.send(
            typeof value === 'object' && value !== null && !Array.isArray(value)
              ? (value as object as Record<string, unknown>)
              : line,
          );
        }
      },
      end: () => void ours.close(),
      cut: () => ours.destroy('cut'),
    };
  });
}

/** Dials `tcp://`, `ws://` or `http://`. */
export function dialAddress(address: string): Promise<Peer> {
  if (address.startsWith('tcp:')) return dialSocket(parseTcpAddress(address));
  return address.startsWith('ws:') ? dialWebSocket(address) : dialHttp(address);
}
