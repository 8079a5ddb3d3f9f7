/**
 * One incoming request while it runs: its signal, its deadline, its events, its one answer.
 *
 * `connection/incoming-requests.ts` makes and ends it; `host/call.ts` extends it into what plugins see.
 */
import type { Method } from '../protocol/method.ts';
import { quote } from '../wire/a2e.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import type { Connection } from './connection.ts';

type Message = Record<string, unknown>;

/** Who serves a request type. */
export interface Route {
  readonly method: Method;
  /**
   * True for reading the journal: its events are not written down again, or two readers would tell each other for ever
   * what they told each other. They are lost with their link, so the request ends with it.
   */
  readonly unrecorded?: boolean;
  /** Does the work: the answer's own fields, or a promise of them. What it throws becomes the `error` answer. */
  run(message: Message, request: RunningRequest): object | Promise<object>;
}

/**
 * Every so many events a handler that awaits them waits for a turn of the event loop. Else one that does nothing but
 * emit, to a link that takes everything or is gone, would never let the news in that it should stop.
 */
const EVENTS_PER_TURN = 1024;

export class RunningRequest {
  readonly connection: Connection;
  readonly message: Message;
  readonly route: Route;
  readonly id: string;
  /** Size of the request as it came, in characters; 0 when it came by reference. */
  readonly size: number;
  /** Monotonic milliseconds. */
  deadlineAt = Number.POSITIVE_INFINITY;
  startedAt = 0;
  /** True once the answer has left: nothing may follow it. */
  done = false;
  /** Set when it was aborted before anybody asked for the signal. */
  #reason: HandfastError | undefined;
  #controller: AbortController | undefined;
  #seq = 0;
  #emitted = 0;
  #emit: ((kind: string, data: Record<string, unknown>) => Promise<void> | undefined) | undefined;
  #quoted = '';
  /** The newest progress while the reader is behind. */
  #progress: Record<string, unknown> | undefined;
  readonly #streaming: boolean;

  constructor(connection: Connection, message: Message, route: Route, size: number) {
    this.connection = connection;
    this.message = message;
    this.route = route;
    this.id = message.id as string;
    this.size = size;
    const streaming = route.method.streaming;
    this.#streaming = streaming === undefined || streaming(message as never);
  }

  /** The id as JSON text. */
  get quotedId(): string {
    if (this.#quoted === '') this.#quoted = quote(this.id);
    return this.#quoted;
  }

  /** Aborts on cancel, deadline, lost link, shutdown; its reason is a `HandfastError`. Made when first asked for. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** Milliseconds left until the deadline; `Infinity` without one. */
  remainingMs(): number {
    return Math.max(0, this.deadlineAt - performance.now());
  }

  /** Brings the deadline forward to `ms` after the start; a later one than it has is ignored. */
  limit(ms: number): void {
    const at = this.startedAt + ms;
    if (at >= this.deadlineAt) return;
    this.deadlineAt = at;
    this.connection.requests.watch(at);
  }

  /** Tells the handler to stop. */
  abort(reason: HandfastError): void {
    this.#reason ??= reason;
    this.#controller?.abort(reason);
  }

  /** Sends one event; see `CallContext.emit`. May be taken off its object, as handlers do that destructure. */
  get emit(): (kind: string, data: Record<string, unknown>) => Promise<void> | undefined {
    this.#emit ??= (kind, data) => this.#event(kind, data);
    return this.#emit;
  }

  #event(kind: string, data: Record<string, unknown>): Promise<void> | undefined {
    // A call that was given up: this ends a handler that does not look at its signal.
    if (this.done && this.#reason !== undefined) throw this.#reason;
    if (this.done || !this.#streaming) return this.#turn();
    const { connection } = this;
    if (connection.congested) {
      if (kind === 'progress') {
        if (this.#progress === undefined) void connection.drained().then(() => this.#flushProgress());
        this.#progress = data;
        return connection.drained();
      }
      if (connection.overflowing) {
        const error = fail('slow_consumer', 'the reader is too far behind and the handler did not wait for it');
        this.abort(error);
        throw error;
      }
    }
    this.#flushProgress();
    connection.sendEvent(this, kind, data, this.#seq);
    this.#seq++;
    return connection.congested ? connection.drained() : this.#turn();
  }

  /** Nothing to wait for, or now and then the next turn of the event loop. */
  #turn(): Promise<void> | undefined {
    if (++this.#emitted % EVENTS_PER_TURN !== 0) return undefined;
    return new Promise((resolve) => setImmediate(resolve));
  }

  /** Sends the progress that was held back; also called right before the answer. */
  flush(): void {
    this.#flushProgress();
  }

  #flushProgress(): void {
    const data = this.#progress;
    if (data === undefined || this.done) return;
    this.#progress = undefined;
    try {
      this.connection.sendEvent(this, 'progress', data, this.#seq);
      this.#seq++;
    } catch {
      // Held back, it may be dropped; there is no caller left who could be told that it cannot be written.
    }
  }
}
