/**
 * Links over WebSocket: the upgrade of a request of the HTTP server, and the dialling of `ws://` and `wss://`.
 *
 * A frame carries one or several messages with newlines between them; all messages of one turn leave in few frames. The
 * only file that loads `ws`, and only when a WebSocket is really used. The HTTP server checks Host and Origin before
 * the upgrade. The wire: docs/protocol/a2e.md#websocket.
 */

import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { ClientOptions, RawData, WebSocket, WebSocketServer } from 'ws';
import { clientAddress } from '../base/http/client-address.ts';
import { onceSucceeded } from '../base/once-succeeded.ts';
import { toAscii } from '../wire/ascii.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import { type BadLine, LineReader, type LineSink } from '../wire/frame.ts';
import {
  type CloseInfo,
  DEFAULT_MAX_MESSAGE_BYTES,
  type Link,
  type LinkMeter,
  type LinkReceiver,
  type Message,
  PRE_HANDSHAKE_MAX_MESSAGE_BYTES,
} from './link.ts';
import { MAX_REFUSAL_CHARS, noPeerText, refusalText } from './refusal-text.ts';
import { type OutboxTarget, SendBuffer } from './send-buffer.ts';
import { unsentBytes } from './unsent-bytes.ts';

const DEFAULT_GRACE_MS = 2000;
const DEFAULT_TIMEOUT_MS = 10_000;

/** Codes of an orderly end: normal, going away, and none given (RFC 6455, section 7.4.1). */
const CLEAN_CODES = [1000, 1001, 1005];

/** A reason may have 123 bytes of UTF-8; this many characters are surely no more. */
const MAX_REASON_CHARS = 40;

/** Bytes a peer may send while the limit for messages is that of the gate, framing included. */
const GATE_BYTES = 2 * PRE_HANDSHAKE_MAX_MESSAGE_BYTES;

/**
 * Returns the longest frame that is read. A frame packs several messages, each of which has its own limit; a peer
 * closes a pack long before it has this many, and the whole of a frame is put together in one turn.
 */
function maxFrameBytes(maxMessageBytes: number): number {
  return Math.max(4 * 1024 * 1024, maxMessageBytes + 1024 * 1024);
}

/** Options of both ends: no compression (it costs memory and time, and can be a bomb), and a bounded closing handshake. */
function commonOptions(maxMessageBytes: number) {
  return {
    perMessageDeflate: false,
    maxPayload: maxFrameBytes(maxMessageBytes),
    closeTimeout: DEFAULT_GRACE_MS,
    // One task for all frames of a chunk, so that answers to them are packed together.
    allowSynchronousEvents: true,
  };
}

/** The writing side of a link as its outbox sees it. */
class FrameTarget implements OutboxTarget {
  readonly #socket: WebSocket;
  readonly outbox = new SendBuffer(this);

  constructor(socket: WebSocket) {
    this.#socket = socket;
  }

  write(pack: string, isLast: boolean): void {
    // The pack is ASCII, so this is its UTF-8; as bytes it is neither measured nor encoded again.
    this.#socket.send(Buffer.from(toAscii(pack), 'latin1'), { binary: false, fin: isLast }, this.outbox.written);
  }

  get pending(): number {
    return this.#socket.bufferedAmount;
  }
}

/** A link over an open WebSocket. Binary frames are read like text frames: as UTF-8, checked line by line. */
class WebSocketLink implements Link, LineSink {
  readonly transport = 'websocket';
  readonly peer: string;
  readonly text = true;
  readonly #socket: WebSocket;
  /** The connection below. */
  readonly #raw: Socket;
  /** True on the accepting side. */
  readonly #accepted: boolean;
  readonly #reader: LineReader;
  #outbox: SendBuffer | undefined;
  #receiver: LinkReceiver | undefined;
  #paused = false;
  /** The reader has had its share of this turn. */
  #behind = false;
  #gateBytes = 0;
  #meter: LinkMeter | undefined;
  /** Bytes since the last frame that became whole. */
  #incomplete = 0;
  #wholeFrames = false;
  /** Bytes of the longest frame that the listener reads of anyone. */
  readonly #listenerFrameBytes: number;
  /** Bytes of the longest frame of this link, while they are fewer. */
  #maxFrameBytes: number | undefined;
  #closing: { promise: Promise<void>; resolve: () => void; reason: string } | undefined;
  #timer: NodeJS.Timeout | undefined;
  #problem: string | undefined;
  #dropped = false;
  #cause: CloseInfo | undefined;

  constructor(socket: WebSocket, raw: Socket, options: { peer: string; maxMessageBytes: number; accepted: boolean }) {
    this.#socket = socket;
    this.peer = options.peer;
    this.#raw = raw;
    this.#accepted = options.accepted;
    this.#listenerFrameBytes = maxFrameBytes(options.maxMessageBytes);
    this.#reader = new LineReader(this, options.maxMessageBytes);
    // Nothing is read before the link is opened.
    socket.pause();
    socket.on('message', (data) => this.#frame(data));
    // Each is answered by a pong.
    socket.on('ping', () => this.#reader.spend(1));
    socket.on('error', (error) => {
      this.#problem ??= error.message;
    });
    socket.on('close', (code, reason) => this.#closed(code, reason.toString()));
  }

  open(receiver: LinkReceiver): void {
    const first = this.#receiver === undefined;
    this.#receiver = receiver;
    if (!first) return;
    const cause = this.#cause;
    if (cause !== undefined) process.nextTick(() => this.#receiver?.closed(cause));
    else if (!this.#paused) this.#socket.resume();
  }

  send(message: string | Message): void {
    if (this.#closing !== undefined || this.#dropped || this.#cause !== undefined) return;
    this.#outbox ??= new FrameTarget(this.#socket).outbox;
    this.#outbox.send(message as string);
  }

  get buffered(): number {
    return this.#outbox === undefined || this.#dropped || this.#cause !== undefined ? 0 : this.#outbox.buffered;
  }

  get progress(): number {
    return this.#outbox === undefined ? 0 : this.#outbox.handed - unsentBytes(this.#raw);
  }

  get meter(): LinkMeter | undefined {
    return this.#meter;
  }

  set meter(meter: LinkMeter | undefined) {
    this.#meter = meter;
    this.#watchFrames();
  }

  /** Measures the bytes of frames. A frame is buffered until it is whole, so its parts are counted below it. */
  #watchFrames(): void {
    this.#raw.removeListener('data', this.#measure);
    if (this.#meter !== undefined || this.#maxFrameBytes !== undefined) this.#raw.on('data', this.#measure);
  }

  /** Runs after the frames of the chunk were delivered. */
  readonly #measure = (chunk: Buffer): void => {
    this.#incomplete = this.#wholeFrames ? 0 : this.#incomplete + chunk.length;
    this.#wholeFrames = false;
    this.#meter?.(chunk.length, this.#incomplete);
    const most = this.#maxFrameBytes;
    if (most !== undefined && this.#incomplete > most) this.#drop(`a frame of more than ${most} bytes`);
  };

  get isClosed(): boolean {
    return this.#cause !== undefined;
  }

  /** Bytes received; those of incomplete frames, and of pongs, count too. */
  get received(): number | undefined {
    return this.#paused || this.#receiver === undefined ? undefined : this.#raw.bytesRead;
  }

  /** Sends a ping frame, which every WebSocket answers by itself. */
  probe(): void {
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.ping();
  }

  drained(lowWaterBytes = 0): Promise<void> {
    return this.#outbox === undefined ? Promise.resolve() : this.#outbox.drained(lowWaterBytes);
  }

  pause(paused: boolean): void {
    this.#paused = paused;
    this.#reader.pause(paused);
    this.#flow();
  }

  /** Reads on, or does not, as the owner of the link and the reader want it. */
  #flow(): void {
    if (this.#receiver === undefined || this.#closing !== undefined) return;
    if (this.#paused || this.#behind) this.#socket.pause();
    else this.#socket.resume();
  }

  setMaxMessageBytes(bytes: number): void {
    this.#reader.setMaxBytes(bytes);
    // A frame is buffered until it is whole. Before the handshake a peer must not fill this process's memory in this
    // way.
    this.#raw.removeListener('data', this.#countGate);
    if (this.#accepted && bytes <= PRE_HANDSHAKE_MAX_MESSAGE_BYTES) this.#raw.on('data', this.#countGate);
    // Others of this listener may send longer frames.
    this.#maxFrameBytes = maxFrameBytes(bytes) < this.#listenerFrameBytes ? maxFrameBytes(bytes) : undefined;
    this.#watchFrames();
  }

  close(reason = 'closed', graceMs = DEFAULT_GRACE_MS): Promise<void> {
    if (this.#closing !== undefined) return this.#closing.promise;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#closing = { promise, resolve, reason };
    if (this.#cause !== undefined) resolve();
    if (this.#cause !== undefined || this.#dropped) return promise;
    this.#timer = setTimeout(() => this.#drop(`the peer did not finish within ${graceMs} ms`), graceMs);
    this.#reader.stop();
    this.#outbox?.flushAll();
    this.#socket.close(1000, reason.slice(0, MAX_REASON_CHARS));
    // The rest of the input is read and dropped, so that the peer's close frame is seen.
    this.#socket.resume();
    return promise;
  }

  destroy(reason = 'dropped'): void {
    if (this.#cause === undefined) this.#drop(reason);
  }

  line(text: string): void {
    this.#receiver?.message(text);
  }

  malformed(problem: BadLine): void {
    this.#receiver?.malformed(problem);
  }

  behind(behind: boolean): void {
    this.#behind = behind;
    this.#flow();
  }

  readonly #countGate = (chunk: Buffer): void => {
    this.#gateBytes += chunk.length;
    if (this.#gateBytes > GATE_BYTES) this.#drop('too much before the handshake');
  };

  #frame(data: RawData): void {
    // The only form that a server or client socket delivers by default.
    this.#reader.frame(data as Buffer);
    this.#incomplete = 0;
    this.#wholeFrames = true;
  }

  #drop(reason: string): void {
    if (this.#dropped) return;
    this.#dropped = true;
    this.#problem = reason;
    this.#reader.stop();
    this.#outbox?.close();
    this.#socket.terminate();
  }

  #closed(code: number, text: string): void {
    clearTimeout(this.#timer);
    this.#reader.stop();
    this.#outbox?.close();
    const clean = this.#problem === undefined && CLEAN_CODES.includes(code);
    const reported = text === '' ? `closed with code ${code}` : text;
    this.#cause = {
      clean,
      reason: this.#problem ?? this.#closing?.reason ?? (code === 1006 ? 'the link was lost' : reported),
    };
    this.#receiver?.closed(this.#cause);
    this.#closing?.resolve();
  }
}

export interface WebSocketAcceptorOptions {
  /** Longest message accepted, in bytes. Default 1 MiB. A frame may be 1 MiB longer, and at least 4 MiB. */
  readonly maxMessageBytes?: number;
}

/** Turns upgrade requests into links. */
export interface WebSocketAcceptor {
  /** Answers the upgrade and calls `accept` with the link; a request that is no proper WebSocket upgrade gets 400. */
  handle(request: IncomingMessage, socket: Duplex, head: Buffer, accept: (link: Link) => void): void;
}

/** Returns the accepting side. It loads `ws` with the first upgrade. */
export function webSocketAcceptor(options: WebSocketAcceptorOptions = {}): WebSocketAcceptor {
  const { maxMessageBytes = DEFAULT_MAX_MESSAGE_BYTES } = options;
  const load = onceSucceeded(async (): Promise<WebSocketServer> => {
    const { WebSocketServer } = await import('ws');
    return new WebSocketServer({ ...commonOptions(maxMessageBytes), noServer: true, clientTracking: false });
  });
  return {
    handle(request, socket, head, accept) {
      socket.on('error', () => socket.destroy());
      load().then(
        (loaded) =>
          loaded.handleUpgrade(request, socket, head, (webSocket) => {
            const peer = `ws:${clientAddress(request)}:${request.socket.remotePort}`;
            accept(new WebSocketLink(webSocket, request.socket, { peer, maxMessageBytes, accepted: true }));
          }),
        () => socket.destroy(),
      );
    },
  };
}

export interface WebSocketConnectOptions {
  /** Time for connecting and upgrading, in milliseconds. Default 10,000. */
  readonly timeoutMs?: number;
  readonly maxMessageBytes?: number;
  /** Gives the attempt up; a link that was returned is not touched by it. */
  readonly signal?: AbortSignal;
  /** Sent with the upgrade request. */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Dials a `ws://` or `wss://` URL.
 *
 * @throws unreachable when no server responds before the timeout or the response is not an upgrade (`detail.status`) · auth_failed (401) ·
 *   unauthorized (403) · cancelled · usage
 */
export async function connectWebSocket(url: string, options: WebSocketConnectOptions = {}): Promise<Link> {
  const { timeoutMs = DEFAULT_TIMEOUT_MS, maxMessageBytes = DEFAULT_MAX_MESSAGE_BYTES, signal, headers } = options;
  const parsed = URL.parse(url);
  if (parsed === null || !/^wss?:$/.test(parsed.protocol)) {
    throw fail('usage', `expected ws://host:port/path, got ${JSON.stringify(url)}`);
  }
  parsed.hash = '';
  // Query and credentials may be secrets.
  const peer = `${parsed.protocol}//${parsed.host}${parsed.pathname}`;
  const { WebSocket } = await import('ws');
  const clientOptions: ClientOptions = { ...commonOptions(maxMessageBytes), headers };
  return new Promise((resolve, reject) => {
    const cancelled = (): HandfastError => fail('cancelled', `connecting to ${peer} was cancelled`);
    if (signal?.aborted) return reject(cancelled());
    const socket = new WebSocket(parsed, clientOptions);
    const settled = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', aborted);
    };
    const refuse = (error: HandfastError): void => {
      settled();
      reject(error);
      socket.terminate();
    };
    const aborted = (): void => refuse(cancelled());
    const timer = setTimeout(
      () => refuse(fail('unreachable', `no response from ${peer} within ${timeoutMs} ms`, { address: peer })),
      timeoutMs,
    );
    signal?.addEventListener('abort', aborted, { once: true });
    // Tearing an attempt down reports an error too, so this stays; the promise settles only once.
    socket.on('error', (error) => {
      settled();
      reject(fail('unreachable', noPeerText(peer, error), { address: peer }, error));
    });
    socket.once('unexpected-response', (_request, response) => {
      const status = response.statusCode ?? 0;
      const code = status === 401 ? 'auth_failed' : status === 403 ? 'unauthorized' : 'unreachable';
      let body = '';
      const end = (): void =>
        refuse(fail(code, `${peer} ${refusalText(status, body)}, and opened no WebSocket`, { address: peer, status }));
      // Its reason is one packet; a longer body is not read to its end, and one that never ends meets the time limit.
      response.setEncoding('utf8').on('data', (text: string) => {
        body += text;
        if (body.length > MAX_REFUSAL_CHARS) end();
      });
      response.on('end', end).on('error', end);
    });
    let raw: Socket;
    socket.once('upgrade', (response) => {
      raw = response.socket;
    });
    socket.once('open', () => {
      settled();
      resolve(new WebSocketLink(socket, raw, { peer, maxMessageBytes, accepted: false }));
    });
  });
}
