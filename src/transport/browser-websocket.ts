/**
 * A link over the WebSocket of browsers. Node uses `transport/websocket.ts`. A browser gives no backpressure to the
 * peer, so messages that arrive while this link is paused are buffered.
 *
 * Implements the contract of `transport/link.ts`.
 */

import { fail } from '../wire/errors.ts';
import { type CloseInfo, DEFAULT_MAX_MESSAGE_BYTES, type Link, type LinkReceiver, type Message } from './link.ts';

/** Polling interval of `bufferedAmount` in `drained`, milliseconds; browsers have no event for it. */
const DRAIN_POLL_MS = 20;
const DEFAULT_GRACE_MS = 2000;

/** The used members of the browser's WebSocket. */
interface BrowserSocket {
  readonly bufferedAmount: number;
  onopen: (() => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onerror: (() => void) | null;
  onclose: ((event: { code: number; reason: string; wasClean: boolean }) => void) | null;
  send(text: string): void;
  close(code?: number): void;
}

export interface BrowserConnectOptions {
  /** Cancels connecting. */
  readonly signal?: AbortSignal;
  /** Time for connecting, in milliseconds. Default 10,000. */
  readonly timeoutMs?: number;
  /** Longest message accepted. Handfast's servers send ASCII, so its characters are its bytes. Default 1 MiB. */
  readonly maxMessageBytes?: number;
}

/** Connects with the browser's own WebSocket. Rejects with `unreachable`, `cancelled`, or `usage` for an invalid URL. */
export function connectBrowser(url: string, options: BrowserConnectOptions = {}): Promise<Link> {
  const { signal, timeoutMs = 10_000, maxMessageBytes = DEFAULT_MAX_MESSAGE_BYTES } = options;
  // Query and credentials may be secrets.
  const peer = url.replace(/[?#].*$/, '').replace(/\/\/[^/@]*@/, '//');
  const { promise, resolve, reject } = Promise.withResolvers<Link>();
  const cancelled = (): Error => fail('cancelled', `connecting to ${peer} was cancelled`);
  if (signal?.aborted) return Promise.reject(cancelled());
  let socket: BrowserSocket;
  try {
    const Socket = (globalThis as unknown as { WebSocket: new (url: string) => BrowserSocket }).WebSocket;
    socket = new Socket(url);
  } catch (error) {
    return Promise.reject(fail('usage', `expected ws://host:port/path, got ${JSON.stringify(peer)}`, {}, error));
  }
  const settled = (): void => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', aborted);
    socket.onopen = null;
    socket.onerror = null;
    socket.onclose = null;
  };
  const refuse = (error: Error): void => {
    settled();
    reject(error);
    socket.close();
  };
  const aborted = (): void => refuse(cancelled());
  const timer = setTimeout(
    () => refuse(fail('unreachable', `no response from ${peer} within ${timeoutMs} ms`)),
    timeoutMs,
  );
  signal?.addEventListener('abort', aborted, { once: true });
  // A browser gives no reason: no listener, a refused origin and a response without an upgrade look alike.
  socket.onerror = () => refuse(fail('unreachable', `${peer} cannot be reached`));
  socket.onclose = () => refuse(fail('unreachable', `${peer} closed the connection`));
  socket.onopen = () => {
    settled();
    resolve(new BrowserLink(socket, peer, maxMessageBytes));
  };
  return promise;
}

class BrowserLink implements Link {
  readonly transport = 'websocket';
  readonly text = true;
  readonly peer: string;
  readonly #socket: BrowserSocket;
  #receiver: LinkReceiver | undefined;
  /** Messages that arrived before `open`, or while reading is paused. */
  #waiting: string[] = [];
  #scheduled = false;
  #paused = false;
  /** Frames received so far. */
  #frames = 0;
  #maxBytes: number;
  #outgoing: string[] = [];
  #closing: (PromiseWithResolvers<void> & { readonly reason: string }) | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #cause: CloseInfo | undefined;

  constructor(socket: BrowserSocket, peer: string, maxMessageBytes: number) {
    this.#socket = socket;
    this.peer = peer;
    this.#maxBytes = maxMessageBytes;
    socket.onmessage = ({ data }) => this.#arrived(data);
    socket.onclose = ({ code, reason, wasClean }) => {
      const given = reason === '' ? `closed with code ${code}` : reason;
      this.#closed({ clean: wasClean, reason: this.#closing?.reason ?? (code === 1006 ? 'the link was lost' : given) });
    };
  }

  open(receiver: LinkReceiver): void {
    this.#receiver = receiver;
    this.#schedule();
  }

  send(message: string | Message): void {
    if (this.#closing !== undefined || this.#cause !== undefined) return;
    this.#outgoing.push(message as string);
    // Messages of one turn of the event loop leave in one frame.
    if (this.#outgoing.length === 1) queueMicrotask(() => this.#flush());
  }

  get buffered(): number {
    return this.#cause === undefined ? this.#socket.bufferedAmount : 0;
  }

  get isClosed(): boolean {
    return this.#cause !== undefined;
  }

  get received(): number | undefined {
    return this.#paused || this.#receiver === undefined ? undefined : this.#frames;
  }

  async drained(lowWaterBytes = 0): Promise<void> {
    this.#flush();
    while (this.buffered > lowWaterBytes) await new Promise((resolve) => setTimeout(resolve, DRAIN_POLL_MS));
  }

  pause(paused: boolean): void {
    this.#paused = paused;
    this.#schedule();
  }

  setMaxMessageBytes(bytes: number): void {
    this.#maxBytes = bytes;
  }

  close(reason = 'closed', graceMs = DEFAULT_GRACE_MS): Promise<void> {
    if (this.#closing !== undefined) return this.#closing.promise;
    this.#flush();
    this.#closing = { ...Promise.withResolvers<void>(), reason };
    this.#waiting = [];
    if (this.#cause !== undefined) this.#closing.resolve();
    else {
      // A browser may wait much longer for a peer that does not respond.
      this.#timer = setTimeout(() => this.destroy(`the peer did not finish within ${graceMs} ms`), graceMs);
      this.#socket.close(1000);
    }
    return this.#closing.promise;
  }

  destroy(reason = 'dropped'): void {
    this.#outgoing = [];
    this.#waiting = [];
    this.#socket.close();
    this.#closed({ clean: false, reason });
  }

  #closed(cause: CloseInfo): void {
    if (this.#cause !== undefined) return;
    this.#cause = cause;
    clearTimeout(this.#timer);
    this.#socket.onmessage = null;
    this.#socket.onclose = null;
    this.#closing?.resolve();
    this.#schedule();
  }

  #flush(): void {
    if (this.#outgoing.length === 0) return;
    this.#socket.send(this.#outgoing.join('\n'));
    this.#outgoing = [];
  }

  #arrived(frame: unknown): void {
    this.#frames += 1;
    if (this.#closing !== undefined) return;
    // Handfast's servers send text only.
    if (typeof frame !== 'string') return this.#receiver?.malformed({ reason: 'bad_utf8' });
    for (const line of frame.split('\n')) if (line.trim() !== '') this.#waiting.push(line);
    if (!this.#scheduled) this.#deliver();
  }

  /** Delivers in a microtask: a caller of `open` or `pause(false)` gets no message before that call has returned. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#deliver();
    });
  }

  #deliver(): void {
    while (this.#receiver !== undefined && !this.#paused && this.#waiting.length > 0) {
      const line = this.#waiting.shift() as string;
      if (line.length > this.#maxBytes) this.#receiver.malformed({ reason: 'too_large', limit: this.#maxBytes });
      else this.#receiver.message(line);
    }
    const isRead = this.#waiting.length === 0 || this.#closing !== undefined;
    if (this.#cause === undefined || this.#receiver === undefined || !isRead) return;
    const { closed } = this.#receiver;
    closed.call(this.#receiver, this.#cause);
    this.#receiver = undefined;
  }
}
