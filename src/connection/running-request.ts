/**
 * One incoming request while it runs: its signal, its deadline, its events, its one reply, and the stream of events
 * that may outlive the reply.
 *
 * `connection/incoming-requests.ts` starts and ends it. Edges extend it for their handlers, as `host/call.ts` does.
 */
import { nextTurn } from '../base/next-turn.ts';
import type { Method } from '../protocol/method.ts';
import { violation } from '../wire/check.ts';
import type { Incoming, Message, MessageId } from '../wire/codec.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import { STREAM_END } from './outgoing-calls.ts';

/** The handler of a request type. */
export interface Route {
  readonly method: Method;
  /**
   * True for reading the journal: its events are not journaled again, or two readers would send each other their own events
   * without end. They are lost with their link, so the request ends with it.
   */
  readonly unrecorded?: boolean;
  /**
   * Returns true when a request ends only by a cancel. It ends with the input of its peer, which may have disappeared:
   * over some transports the end of the input is the only sign of that.
   */
  endless?(body: unknown): boolean;
  /** True for requests that end work or only look: up to twice the concurrency limit they run although it is reached. */
  readonly exempt?: boolean;
  /**
   * Returns the reason why a session may not make this request; called for running ones when the rights of their
   * session have changed.
   */
  refuses?(body: unknown, session: unknown): HandfastError | undefined;
  /** Returns true when repeating this request has no more effect than running it once. Absent: as the method declares. */
  isIdempotent?(body: unknown, session: unknown): boolean | undefined;
  /**
   * Does the work: returns the reply's fields (without the base fields), or a promise of them. An error that it throws
   * becomes the error reply.
   */
  run(body: unknown, request: RunningRequest): unknown;
}

/** Sends one event; `fields` are those that only the method has, beside `kind`, `data` and `seq`. */
export type Emit = (kind: string, data: Record<string, unknown>, fields?: object) => Promise<void> | undefined;

/** Members of a connection that a running request uses. */
export interface RequestChannel {
  /** True while events should wait for the reader. */
  readonly congested: boolean;
  /** True while not even an event that nothing waits for may be queued. */
  readonly overflowing: boolean;
  /** Resolves when the reader has caught up or the link is lost. */
  drained(): Promise<void>;
  /** Sends one event; throws, and uses no cursor up, when it cannot be written or exceeds the message size limit. */
  sendEvent(request: RunningRequest, kind: string, data: object, seq: number, fields?: object): void;
  readonly requests: RequestCounts;
}

/** The counts of a connection's running requests. */
export interface RequestCounts {
  /** Called when a running request's deadline was moved forward. */
  watch(deadlineAt: number): void;
  /** Counts a stream that will outlive its request. Throws `over_capacity`. */
  openStream(request: RunningRequest): void;
  /** Called when its stream has ended. */
  closeStream(request: RunningRequest): void;
  /** Gives up its place while it only waits for a later message of its peer; the returned function ends that. */
  yieldSlot(request: RunningRequest): () => void;
}

/**
 * After this many events a handler that awaits them waits for a turn of the event loop. Otherwise a handler that only emits, to
 * a link that accepts everything or is lost, would block every cancel.
 */
const EVENTS_PER_TURN = 1024;

export class RunningRequest {
  readonly channel: RequestChannel;
  readonly incoming: Incoming;
  readonly route: Route;
  /** Its key among the open requests; set when it is admitted. */
  key: unknown;
  /** Monotonic milliseconds. */
  deadlineAt = Number.POSITIVE_INFINITY;
  startedAt = 0;
  /** True once the reply was sent: only a stream may follow it. */
  done = false;
  /** True when repeating it does no more than running it once; handlers set it where that depends on the request. */
  idempotent: boolean;
  /** True while events may follow the reply. */
  subscribed = false;
  /** True while its handler, which did not stop in time, still counts against the concurrency limit. */
  lingering = false;
  /** True when its method may wait for a later message of the peer; set when it is admitted. */
  mayWait = false;
  /** Waits that it is in; while it is in one, it takes no place of the concurrency limit. */
  waits = 0;
  /** Reason of the abort. */
  reason: HandfastError | undefined;
  #controller: AbortController | undefined;
  #seq = 0;
  #emitted = 0;
  #emit: Emit | undefined;
  #afterReply: (() => void)[] | undefined;
  /** The newest progress while the reader is behind. */
  #progress: Record<string, unknown> | undefined;
  readonly #streaming: boolean;

  constructor(channel: RequestChannel, incoming: Incoming, route: Route) {
    this.channel = channel;
    this.incoming = incoming;
    this.route = route;
    const { streaming, idempotent = false } = route.method;
    this.idempotent = idempotent;
    this.#streaming = streaming === undefined || streaming(incoming.body as never);
  }

  get id(): MessageId {
    return this.incoming.id;
  }

  /** The whole message. */
  get message(): Message {
    return this.incoming.message as Message;
  }

  /** Characters of the request; 0 when it arrived by reference. */
  get size(): number {
    return this.incoming.size;
  }

  /** Aborts on cancel, deadline, lost link, shutdown; its reason is a `HandfastError`. Made when first asked for. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.reason !== undefined) this.#controller.abort(this.reason);
    }
    return this.#controller.signal;
  }

  /** Returns the milliseconds left until the deadline; `Infinity` without one. */
  remainingMs(): number {
    return Math.max(0, this.deadlineAt - performance.now());
  }

  /** Gives up its place in the concurrency limit while it only waits; see `CallContext.yieldSlot`. */
  yieldSlot(): () => void {
    return this.channel.requests.yieldSlot(this);
  }

  /** Brings the deadline forward to `ms` after the start; a later one than it has is ignored. */
  limit(ms: number): void {
    const at = this.startedAt + ms;
    if (at >= this.deadlineAt) return;
    this.deadlineAt = at;
    this.channel.requests.watch(at);
  }

  /** Aborts the handler's signal; the first reason counts. */
  abort(reason: HandfastError): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    this.#controller?.abort(reason);
  }

  /** Runs `work` right behind the reply, when that was sent or journaled. It must not throw. */
  afterReply(work: () => void): void {
    this.#afterReply ??= [];
    this.#afterReply.push(work);
  }

  /** Runs the works that were to follow the reply; called by the connection. */
  replied(): void {
    const works = this.#afterReply;
    this.#afterReply = undefined;
    if (works !== undefined) for (const work of works) work();
  }

  /**
   * Keeps the stream of events open behind the reply, until {@link endStream}, a cancel of the caller or the end of the
   * connection; the signal aborts then. An error reply ends it too. Throws `over_capacity`.
   */
  keepStream(): void {
    if (this.done || this.subscribed) return;
    this.channel.requests.openStream(this);
    this.subscribed = true;
  }

  /** Ends the stream: events emitted later are not sent. */
  endStream(): void {
    if (!this.subscribed) return;
    this.#flushProgress();
    this.subscribed = false;
    this.channel.requests.closeStream(this);
  }

  /** Ends the stream from this side; edges that report this to the caller do so here. */
  finishStream(_error?: HandfastError): void {
    this.endStream();
  }

  /** Sends one event; see `CallContext.emit`. May be taken off its object, as handlers do that destructure. */
  get emit(): Emit {
    this.#emit ??= (kind, data, fields) => this.#event(kind, data, fields);
    return this.#emit;
  }

  #event(kind: string, data: Record<string, unknown>, fields?: object): Promise<void> | undefined {
    const ended = this.done && !this.subscribed;
    // A request that was cancelled: this ends a handler that does not check its signal.
    if (ended && this.reason !== undefined) throw this.reason;
    if (ended || !this.#streaming) return this.#turn();
    const { channel } = this;
    if (channel.congested) {
      if (kind === 'progress') {
        if (this.#progress === undefined) void channel.drained().then(() => this.#flushProgress());
        this.#progress = data;
        return channel.drained();
      }
      // One for each stream: the number of streams is its bound.
      if (channel.overflowing && kind !== STREAM_END) {
        const error = fail('slow_consumer', 'the reader is too slow and the handler did not await its events');
        this.abort(error);
        throw error;
      }
    }
    this.#flushProgress();
    if (fields !== undefined) this.#checkFields(kind, data, fields);
    channel.sendEvent(this, kind, data, this.#seq, fields);
    this.#seq++;
    return channel.congested ? channel.drained() : this.#turn();
  }

  /** Checks the fields of an event: one that breaks its schema fails in the handler, not at the caller. */
  #checkFields(kind: string, data: object, fields: object): void {
    const { method } = this.route;
    const { checkEvent } = method;
    if (checkEvent === undefined) throw fail('usage', `${method.event} has no fields of its own: declare checkEvent`);
    const event = { ...fields, type: method.event, kind, data, seq: this.#seq };
    if (!checkEvent(event)) throw violation(method.event, checkEvent.errors);
  }

  /**
   * Returns undefined if no wait is needed; at every `EVENTS_PER_TURN` events, a promise of the next turn of the event
   * loop.
   */
  #turn(): Promise<void> | undefined {
    if (++this.#emitted % EVENTS_PER_TURN !== 0) return undefined;
    return new Promise(nextTurn);
  }

  /** Sends the progress that was held back; also called right before the reply. */
  flush(): void {
    this.#flushProgress();
  }

  #flushProgress(): void {
    const data = this.#progress;
    if (data === undefined || (this.done && !this.subscribed)) return;
    this.#progress = undefined;
    try {
      this.channel.sendEvent(this, 'progress', data, this.#seq);
      this.#seq++;
    } catch {
      // A buffered progress may be dropped: its `emit` has returned, so no caller can get the error.
    }
  }
}
