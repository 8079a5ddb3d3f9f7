/**
 * The link of a process that serves its parent: messages on stdin and stdout.
 *
 * It must be opened once, early. From then on stdout belongs to the link; output of plugins and their dependencies goes
 * to stderr, because one stray line in between would be read as a message.
 */
import { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import type { Link } from './link.ts';
import { type ReadTarget, readInto, StreamLink } from './stream.ts';

export interface StdioLinkOptions {
  /** Longest message accepted, in bytes. Default 1 MiB. */
  readonly maxMessageBytes?: number;
  /** A carriage return alone ends a message too, as session RPC has it. Default false. */
  readonly loneReturns?: boolean;
}

/**
 * Opens the link over this process's stdin and stdout, of any kind: pipes, sockets, files, a terminal.
 *
 * Prints that go through `console` or `process.stdout` from now on reach stderr. Out of reach are streams copied from
 * `process.stdout` before the call, writes to file descriptor 1, and children that inherit it.
 */
export function stdioLink(options: StdioLinkOptions = {}): Link {
  const target: ReadTarget = {};
  const readable = openInput(target);
  const writable = openOutput();
  const link = new StreamLink({
    transport: 'stdio',
    peer: 'stdio',
    readable,
    writable,
    maxMessageBytes: options.maxMessageBytes,
    loneReturns: options.loneReturns,
    // Stdout ends only when this process exits, so its end is not awaited.
    closesAlone: true,
  });
  target.link = link;
  return link;
}

/** Pipes and sockets are read into shared memory; Node's own stream knows how to read everything else. */
function openInput(target: ReadTarget): Readable {
  try {
    const input = new Socket({ fd: 0, readable: true, writable: false, onread: readInto(target) });
    return input.pause();
  } catch {
    return process.stdin;
  }
}

/** Pipes and sockets are written asynchronously, so that a slow reader is felt; files and terminals as Node does it. */
function openOutput(): Writable {
  let output: Writable;
  try {
    output = new Socket({ fd: 1, readable: false, writable: true });
  } catch {
    output = process.stdout;
  }
  Object.defineProperty(process, 'stdout', { configurable: true, enumerable: true, get: () => process.stderr });
  // The console uses the stream that it found at its first use.
  Object.defineProperty(console, '_stdout', { configurable: true, get: () => process.stderr });
  return output;
}
