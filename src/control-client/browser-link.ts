/**
 * A link over the WebSocket that browsers have. Node uses `transport/websocket.ts`, which can do more.
 */
import { DEFAULT_MAX_MESSAGE_BYTES, type Link, type Message, type Receiver } from '../transport/link.ts';
import { fail } from '../wire/errors.ts';

/** How often the queue of a socket is looked at while somebody waits for it; browsers do not tell. */
const LOOK_AGAIN_MS = 20;

/** What is used of the browser's WebSocket. */
interface BrowserSocket {
  readonly bufferedAmount: number;
  onopen: (() => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onerror: (() => void) | null;
  onclose: ((event: { code: number; reason: string; wasClean: boolean }) => void) | null;
  send(text: string): void;
  close(code?: number, reason?: string): void;
}

/** Dials with the browser's own WebSocket. Rejects with `unreachable` or `cancelled`. */
export function connectBrowser(url: string, signal?: AbortSignal, timeoutMs = 10_000): Promise<Link> {
  const Socket = (globalThis as unknown as { WebSocket: new (url: string) => BrowserSocket }).WebSocket;
  return new Promise((resolve, reject) => {
    const socket = new Socket(url);
    const peer = url.replace(/[?#].*$/, '');
    const refuse = (error: Error): void => {
      settled();
      reject(error);
      socket.close();
    };
    const aborted = (): void => refuse(fail('cancelled', `connecting to ${peer} was given up`));
    const timer = setTimeout(() => refuse(fail('unreachable', `no answer from ${peer} in ${timeoutMs} ms`)), timeoutMs);
    const settled = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', aborted);
      socket.onerror = null;
      socket.onclose = null;
    };
    signal?.addEventListener('abort', aborted, { once: true });
    if (signal?.aborted) return aborted();
    socket.onerror = () => refuse(fail('unreachable', `nobody answers at ${peer}`));
    socket.onclose = () => refuse(fail('unreachable', `${peer} closed the connection`));
    socket.onopen = () => {
      settled();
      resolve(new BrowserLink(socket, peer));
    };
  });
}

class BrowserLink implements Link {
  readonly transport = 'websocket';
  readonly text = true;
  readonly peer: string;
  readonly #socket: BrowserSocket;
  #receiver: Receiver | undefined;
  /** What came before anybody listened, or while reading is paused. */
  #waiting: string[] = [];
  #paused = false;
  #maxBytes = DEFAULT_MAX_MESSAGE_BYTES * 64;
  #outgoing: string[] = [];
  #reason = '';
  readonly #gone = Promise.withResolvers<void>();
  #over = false;

  constructor(socket: BrowserSocket, peer: string) {
    this.#socket = socket;
    this.peer = peer;
    socket.onmessage = ({ data }) => {
      if (typeof data === 'string') this.#arrived(data);
    };
    socket.onclose = ({ reason, wasClean }) => {
      this.#over = true;
      this.#receiver?.closed({ clean: wasClean, reason: this.#reason || reason || 'the connection was closed' });
      this.#gone.resolve();
    };
  }

  open(receiver: Receiver): void {
    this.#receiver = receiver;
    this.#deliver();
  }

  send(message: string | Message): void {
    if (this.#over) return;
    this.#outgoing.push(message as string);
    // Messages of one turn of the event loop leave in one frame.
    if (this.#outgoing.length === 1) queueMicrotask(() => this.#flush());
  }

  get buffered(): number {
    return this.#socket.bufferedAmount;
  }

  async drained(lowWaterBytes = 0): Promise<void> {
    while (!this.#over && this.buffered > lowWaterBytes) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
    }
  }

  pause(paused: boolean): void {
    this.#paused = paused;
    this.#deliver();
  }

  setMaxMessageBytes(bytes: number): void {
    this.#maxBytes = bytes;
  }

  close(reason = ''): Promise<void> {
    this.#flush();
    this.#reason = reason;
    this.#socket.close(1000);
    return this.#gone.promise;
  }

  destroy(reason = ''): void {
    this.#outgoing = [];
    void this.close(reason);
  }

  #flush(): void {
    if (this.#outgoing.length === 0) return;
    this.#socket.send(this.#outgoing.join('\n'));
    this.#outgoing = [];
  }

  #arrived(frame: string): void {
    for (const line of frame.split('\n')) {
      if (line.trim() !== '') this.#waiting.push(line);
    }
    this.#deliver();
  }

  #deliver(): void {
    while (this.#receiver !== undefined && !this.#paused && this.#waiting.length > 0) {
      const line = this.#waiting.shift() as string;
      if (line.length > this.#maxBytes) this.#receiver.malformed({ reason: 'too_large', limit: this.#maxBytes });
      else this.#receiver.message(line);
    }
  }
}
