/**
 * The incoming half of a connection: the requests that run at once, the bounded queue behind them, deadlines, cancels,
 * streams that outlive their request, and the drain at the end. Every request admitted here gets exactly one reply.
 *
 * @see docs/architecture.md#concurrency-limit and docs/architecture.md#deadlines-and-cancel
 */

import { counted } from '../base/counted.ts';
import { Deadlines } from '../base/deadlines.ts';
import { Fifo } from '../base/fifo.ts';
import type { Capacity, MessageId } from '../wire/codec.ts';
import { fail, type HandfastError, mayHaveRun } from '../wire/errors.ts';
import { OpenById } from './open-by-id.ts';
import type { RequestCounts, RunningRequest } from './running-request.ts';
import { mayStart } from './start-share.ts';

export interface RequestLimits {
  /** Requests of the session that run at once. */
  maxParallel: number;
  /** Requests that wait behind them; past it they are refused with `over_capacity`. */
  queueLimit: number;
  /**
   * Open requests that may wait for a later message of the peer (`Method.waits`); past it they are refused with
   * `over_capacity`. While they wait they take no place of `maxParallel`. Default 256.
   */
  maxWaiting?: number;
  /**
   * Time for an aborted request to reply by itself, in milliseconds; it counts against `maxParallel` until its handler
   * settles. Absent: it gets its error reply at once, and no longer counts.
   */
  settleMs?: number;
  /** Streams that outlive their request, at once. Default 256. */
  maxStreams?: number;
}

/** Members of a connection that the incoming half uses. */
export interface RequestOwner {
  /** False where several open requests may have the same id. */
  readonly uniqueIds: boolean;
  /** Sends the reply and notifies the owner of the connection. */
  reply(request: RunningRequest, reply: unknown, error: HandfastError | undefined): void;
  /** Turns an error that a handler threw into the error that its caller gets. */
  failed(request: RunningRequest, thrown: unknown): HandfastError;
  /** Returns the reason to accept no request although capacity is left. */
  backlog(request: RunningRequest): HandfastError | undefined;
  /** Returns the error for a request beyond the limits. */
  overCapacity(capacity: Capacity): HandfastError;
  /** Called when an abandoned handler has settled (`-1`), or one was just abandoned (`+1`). */
  abandoned(change: 1 | -1): void;
}

/** Time that a client should wait before it tries again. */
export const RETRY_AFTER_MS = 100;
const MAX_STREAMS = 256;
export const MAX_WAITING = 256;

export class IncomingRequests implements RequestCounts {
  readonly #owner: RequestOwner;
  readonly #uniqueIds: boolean;
  readonly limits: RequestLimits;
  /** Requests that are admitted and not yet replied to, running or waiting, in arrival order. */
  readonly #open = new OpenById<RunningRequest>();
  /** Number of admitted requests. If ids need not be unique, it is the key of a request. */
  #admitted = 0;
  /** Requests with a reply whose stream of events continues. They count from `keepStream` on. */
  #streams: Map<unknown, RunningRequest> | undefined;
  #running = 0;
  /** Number of open requests whose method may wait. */
  #waiters = 0;
  /** Questions that running requests have asked the peer: each of them waits for an answer, and takes no place meanwhile. */
  #questions = 0;
  readonly #queue = new Fifo<RunningRequest>();
  #starting = false;
  #draining: PromiseWithResolvers<void> | undefined;
  #refusal: HandfastError | undefined;
  readonly #deadlines = new Deadlines<RunningRequest>(
    () => this.#open.values(),
    (request) => {
      const stopped = this.#stopped(request);
      if (stopped !== undefined) this.#abandon(request, stopped);
      else this.#stop(request, fail('timeout', 'the deadline passed before the work was done'));
    },
  );

  constructor(owner: RequestOwner, limits: RequestLimits) {
    this.#owner = owner;
    this.#uniqueIds = owner.uniqueIds;
    this.limits = limits;
  }

  /** Requests that take a place of the concurrency limit. */
  get running(): number {
    return this.#running;
  }

  /** Requests that are queued. */
  get waiting(): number {
    return this.#queue.size;
  }

  /** Requests without a reply, also those that wait for a later message, and handlers that still count although they were replied to. */
  get busy(): number {
    return Math.max(this.#open.size, this.#running + this.#queue.size);
  }

  /** True while streams outlive their requests. */
  get streaming(): boolean {
    return (this.#streams?.size ?? 0) > 0;
  }

  /** Ids of everything not yet replied to. */
  ids(): MessageId[] {
    return this.#open.values().map(({ id }) => id);
  }

  /** True while a request of this id has no reply yet, or its stream continues. */
  has(id: MessageId): boolean {
    const key = this.#open.keyOf(id);
    return this.#open.get(key) !== undefined || this.#streams?.has(key) === true;
  }

  /** Accepts a request: runs it, queues it, or replies with the reason it cannot. */
  admit(request: RunningRequest): void {
    request.key = this.#uniqueIds ? this.#open.keyOf(request.id) : this.#admitted++;
    if (this.#refusal !== undefined) return this.#owner.reply(request, undefined, this.#refusal);
    const now = performance.now();
    const limitMs = request.route.method.limitMs?.(request.incoming.body as never);
    if (limitMs !== undefined) {
      request.deadlineAt = now + limitMs;
      this.#deadlines.watch(request.deadlineAt);
    }
    const { maxParallel, queueLimit, maxWaiting = MAX_WAITING } = this.limits;
    request.mayWait = request.route.method.waits?.(request.incoming.body as never) === true;
    if (request.mayWait && this.#waiters >= maxWaiting) {
      const message = `${counted(maxWaiting, 'request of this session waits', 'requests of this session wait')} already; await or cancel some of them`;
      return this.#owner.reply(request, undefined, fail('over_capacity', message, { max_waiting: maxWaiting }));
    }
    // Queued requests may wait for the next turn although places are free.
    const hasPlace = this.#running < this.#places && this.#queue.size === 0;
    if (hasPlace || (request.route.exempt === true && this.#running < 2 * maxParallel)) {
      const backlog = this.#owner.backlog(request);
      if (backlog !== undefined) return this.#owner.reply(request, undefined, backlog);
      this.#add(request);
      return this.#start(request, now);
    }
    if (this.#queue.size >= queueLimit) {
      const refusal = this.#owner.overCapacity({ maxParallel, queueLimit, retryAfterMs: RETRY_AFTER_MS });
      return this.#owner.reply(request, undefined, refusal);
    }
    this.#add(request);
    this.#queue.push(request);
  }

  /**
   * Gives up the place of a running request that only waits for a later message of its peer. The returned function
   * takes the place again at once, even if another request has it: a request that continued later could hold a result
   * that others wait for.
   */
  yieldSlot(request: RunningRequest): () => void {
    const { maxWaiting = MAX_WAITING } = this.limits;
    if (request.done || (!request.mayWait && request.waits === 0 && this.#waiters >= maxWaiting)) return () => {};
    if (request.waits++ === 0) {
      if (!request.mayWait) this.#waiters++;
      this.#running--;
      this.startNext();
    }
    let waits = true;
    return () => {
      if (!waits) return;
      waits = false;
      if (--request.waits > 0 || request.done) return;
      if (!request.mayWait) this.#waiters--;
      this.#running++;
    };
  }

  /** Counts that a running request asked the peer a question, or (`-1`) has its answer. */
  asked(change: 1 | -1): void {
    this.#questions += change;
    if (change > 0) this.startNext();
  }

  get #places(): number {
    return this.limits.maxParallel + this.#questions;
  }

  #add(request: RunningRequest): void {
    this.#open.set(request.key, request);
    if (request.mayWait) this.#waiters++;
  }

  /** Called when a running request's deadline was moved forward. */
  watch(deadlineAt: number): void {
    this.#deadlines.watch(deadlineAt);
  }

  /** Withdraws a request for its caller, or ends its stream. False when it is unknown or has its reply already. */
  cancel(id: MessageId): boolean {
    let found = false;
    for (const request of this.#withId(id)) {
      found = true;
      this.#stop(request, fail('cancelled', 'the request was cancelled by its caller'));
    }
    const stream = this.#streams?.get(this.#open.keyOf(id));
    if (found || stream === undefined || !stream.done) return found;
    this.#endStream(stream, fail('cancelled', 'the stream was cancelled by its caller'));
    return true;
  }

  #withId(id: MessageId): readonly RunningRequest[] {
    if (!this.#uniqueIds) return this.#open.values().filter((request) => request.id === id);
    const request = this.#open.get(this.#open.keyOf(id));
    return request === undefined ? [] : [request];
  }

  /** Ends the requests and streams that may not, or cannot, continue: those that `why` gives an error for. */
  stopWhere(why: (request: RunningRequest) => HandfastError | undefined): void {
    for (const request of this.#open.values()) {
      const error = why(request);
      if (error !== undefined) this.#stop(request, error);
    }
    for (const stream of this.#ongoing()) {
      const error = why(stream);
      if (error === undefined) continue;
      stream.finishStream(error);
      stream.abort(error);
    }
  }

  /** Refuses later requests with `refusal` and resolves when every admitted request has its reply. */
  drain(refusal: HandfastError): Promise<void> {
    this.#refusal ??= refusal;
    return this.idle();
  }

  /** Resolves when nothing runs or waits; new requests are still accepted. */
  idle(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    this.#draining ??= Promise.withResolvers<void>();
    return this.#draining.promise;
  }

  /** Aborts all requests; running ones get `settleMs`. New requests are still accepted. */
  interrupt(error: HandfastError): void {
    for (const request of this.#open.values()) this.#stop(request, error);
  }

  /** Ends everything at once, replying to each request with `error`, and refuses later requests. */
  stopAll(error: HandfastError): void {
    this.#refusal ??= error;
    this.#queue.clear();
    for (const request of this.#open.values()) {
      request.abort(error);
      this.#abandon(request, request.reason ?? error);
    }
    for (const stream of this.#ongoing()) this.#endStream(stream, error);
    this.#deadlines.clear();
  }

  /** Clears the timer when nothing is open and nothing can arrive, because it would retain this object until it fires. */
  rest(): void {
    this.#deadlines.clear();
  }

  // Streams that outlive their request.

  /** Counts a stream that continues after its reply. Throws `over_capacity`. */
  openStream(request: RunningRequest): void {
    const { maxStreams = MAX_STREAMS } = this.limits;
    this.#streams ??= new Map();
    if (this.#streams.size >= maxStreams) {
      throw fail('over_capacity', 'too many streams are open', { max_streams: maxStreams });
    }
    this.#streams.set(request.key, request);
  }

  /** Removes a stream that has ended. */
  closeStream(request: RunningRequest): void {
    this.#streams?.delete(request.key);
  }

  /** Streams behind their reply; those before it end with their request. */
  #ongoing(): readonly RunningRequest[] {
    return this.#streams === undefined ? [] : [...this.#streams.values()].filter(({ done }) => done);
  }

  #endStream(request: RunningRequest, error: HandfastError): void {
    request.endStream();
    request.abort(error);
  }

  // Running.

  #start(request: RunningRequest, now: number): void {
    this.#running++;
    request.startedAt = now;
    let outcome: unknown;
    try {
      outcome = request.route.run(request.incoming.body, request);
    } catch (error) {
      return this.#finish(request, undefined, this.#owner.failed(request, error));
    }
    if (typeof (outcome as Promise<unknown> | null | undefined)?.then !== 'function')
      return this.#finish(request, outcome, undefined);
    (outcome as Promise<unknown>).then(
      (reply) => this.#finish(request, reply, undefined),
      // An aborted handler failed because of the abort, with any exception.
      (error) => this.#finish(request, undefined, this.#stopped(request) ?? this.#owner.failed(request, error)),
    );
  }

  /** Returns the reason of the abort, if the handler may still reply by itself. */
  #stopped({ reason }: RunningRequest): HandfastError | undefined {
    return this.limits.settleMs === undefined ? undefined : reason;
  }

  /** Handles the end of a handler. */
  #finish(request: RunningRequest, reply: unknown, error: HandfastError | undefined): void {
    if (!request.done) return this.#reply(request, reply, error);
    this.#owner.abandoned(-1);
    if (!request.lingering) return;
    request.lingering = false;
    this.#running--;
    this.startNext();
  }

  /** Aborts a request. Without `settleMs`, or before its handler runs, the reply is sent at once. */
  #stop(request: RunningRequest, error: HandfastError): void {
    const { settleMs = 0 } = this.limits;
    if (settleMs === 0 || request.startedAt === 0) {
      request.abort(error);
      this.#abandon(request, error);
    } else if (request.reason === undefined) {
      request.abort(error);
      request.deadlineAt = performance.now() + settleMs;
      this.#deadlines.watch(request.deadlineAt);
    }
  }

  /** Replies for a handler that did not. A handler that runs on is counted until it settles. */
  #abandon(request: RunningRequest, error: HandfastError): void {
    if (request.done) return;
    if (request.startedAt > 0) this.#owner.abandoned(1);
    request.lingering = request.startedAt > 0 && request.waits === 0 && this.limits.settleMs !== undefined;
    this.#reply(request, undefined, error);
  }

  #reply(request: RunningRequest, reply: unknown, error: HandfastError | undefined): void {
    this.#open.delete(request.key);
    const waiting = request.waits > 0;
    if (request.mayWait || waiting) this.#waiters--;
    if (request.startedAt > 0) {
      if (!request.lingering && !waiting) this.#running--;
    } else this.#queue.delete(request);
    // Its handler was stopped at any point of its work.
    const stopped = error?.retryable === true && request.startedAt > 0 && request.reason !== undefined;
    this.#owner.reply(request, reply, stopped && !request.idempotent ? mayHaveRun(error) : error);
    this.startNext();
    if (this.#open.size > 0) return;
    this.#deadlines.rest();
    if (this.#draining !== undefined) {
      this.#draining.resolve();
      this.#draining = undefined;
    }
  }

  /** Starts queued requests, some of them in each turn of the event loop. */
  startNext(): void {
    // A handler that returns at once calls this again from #start; the outer loop continues, so the stack stays flat.
    if (this.#starting || this.#queue.size === 0) return;
    this.#starting = true;
    while (this.#queue.size > 0 && this.#running < this.#places) {
      const now = performance.now();
      if (!mayStart(this, now)) break;
      this.#start(this.#queue.shift() as RunningRequest, now);
    }
    this.#starting = false;
  }
}
