/**
 * A host with faults: lines pass between the client and a real host, and a fault changes them on the way. Without a fault it is
 * the host itself.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import type { TestContext } from 'node:test';

// biome-ignore lint/suspicious/noExplicitAny: plain JSON, as it arrived
export type Line = any;

/** A fault's access to its connection. */
export interface FaultSide {
  /** Sends a line to the client, or to the host. */
  toClient(line: Line): void;
  toHost(line: Line): void;
  /** Drops the connection. */
  drop(): void;
  /** Data that a fault stores: for this connection, and for all of them. */
  readonly own: Record<string, Line>;
  readonly all: Record<string, Line>;
}

export interface Fault {
  /** The fault of this host. */
  readonly name: string;
  /** Cases of which each must fail. */
  readonly caught: readonly string[];
  /** Handles a chunk of bytes that the client sent; returns the bytes that are read. */
  readonly bytes?: (chunk: Buffer, side: FaultSide) => Buffer;
  /** Handles a message of the client; returns the message that the host reads, or undefined. */
  readonly incoming?: (message: Line, side: FaultSide) => Line | undefined;
  /** Handles a line of the client that is no JSON object; returns the line that the host reads, or undefined. */
  readonly strange?: (line: string, side: FaultSide) => string | undefined;
  /** Handles a message of the host; returns the messages for the client: one, several, or none. */
  readonly outgoing?: (message: Line, side: FaultSide) => Line | readonly Line[] | undefined;
  /** Writes a message. Default: as the host does. */
  readonly written?: (message: Line) => string;
}

const ascii = (text: string): string =>
  text.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** One side of a relay. */
interface Pipe {
  readonly readable: Readable;
  readonly writable: Writable;
  drop(): void;
}

/** Passes lines between a client and a host, changed by the fault, until both have ended. */
export function relay(client: Pipe, host: Pipe, fault: Fault, all: Record<string, Line> = {}): void {
  const write = (message: Line): void => {
    if (!client.writable.writable) return;
    client.writable.write(`${(fault.written ?? ((line) => ascii(JSON.stringify(line))))(message)}\n`);
  };
  const toHost = (text: string): void => void (host.writable.writable && host.writable.write(`${text}\n`));
  const side: FaultSide = {
    toClient: write,
    toHost: (line) => toHost(JSON.stringify(line)),
    drop: () => {
      client.drop();
      host.drop();
    },
    own: {},
    all,
  };
  lines(client.readable, fault.bytes && ((chunk) => fault.bytes!(chunk, side)), (text) => {
    const message = objectOf(text);
    const line =
      message === undefined
        ? (fault.strange ?? ((same: string) => same))(text, side)
        : fault.incoming === undefined
          ? text
          : asText(fault.incoming(message, side));
    if (line !== undefined) toHost(line);
  });
  lines(host.readable, undefined, (text) => {
    const changed = (fault.outgoing ?? ((same: Line) => same))(JSON.parse(text), side);
    for (const message of changed === undefined ? [] : [changed].flat()) write(message);
  });
  client.readable.on('end', () => host.writable.end());
  host.readable.on('end', () => client.writable.end());
}

/** Puts a host behind a fault and resolves with its address; ends with the test. `all` is the fault's shared data. */
export async function faultyRelay(
  t: TestContext,
  port: number,
  fault: Fault,
  all: Record<string, Line> = {},
): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    const host = dial({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
    for (const [socket, other] of [
      [client, host],
      [host, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => other.destroy());
    }
    const pipe = (socket: Socket): Pipe => ({ readable: socket, writable: socket, drop: () => socket.destroy() });
    relay(pipe(client), pipe(host), fault, all);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const asText = (value: Line | undefined): string | undefined =>
  value === undefined ? undefined : JSON.stringify(value);

/** Calls back with each line, in the received bytes. */
function lines(readable: Readable, read: ((chunk: Buffer) => Buffer) | undefined, take: (line: string) => void): void {
  let partial = Buffer.alloc(0);
  readable.on('data', (chunk: Buffer) => {
    partial = Buffer.concat([partial, read === undefined ? chunk : read(chunk)]);
    for (let at = partial.indexOf(10); at >= 0; at = partial.indexOf(10)) {
      const line = partial.subarray(0, at).toString('utf8');
      partial = partial.subarray(at + 1);
      take(line);
    }
  });
}

function objectOf(text: string): Line | undefined {
  try {
    const value = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
