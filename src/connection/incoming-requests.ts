/**
 * The incoming half of a connection: the window of requests that run at once, the bounded queue behind it, deadlines,
 * cancels and the drain at the end. Every request admitted here gets exactly one answer.
 *
 * @see docs/architecture.md#the-window and docs/architecture.md#deadlines-and-cancel
 */

import { Deadlines } from '../base/deadlines.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import type { RunningRequest } from './running-request.ts';

export interface RequestLimits {
  /** Requests of the session that run at once. */
  maxParallel: number;
  /** Requests that wait for a place; past it they are refused with `over_capacity`. */
  queueLimit: number;
}

/** What the incoming half needs from its connection. */
export interface RequestOwner {
  /** Sends the answer and tells the session about it. */
  answer(request: RunningRequest, reply: object | undefined, error: HandfastError | undefined): void;
  /** What a handler threw, as the error its caller is told. */
  failed(request: RunningRequest, thrown: unknown): HandfastError;
  /** A handler that had been given up has settled, or (`+1`) one was just given up. */
  abandoned(change: 1 | -1): void;
}

/** What a client is told to wait before it tries again. */
const RETRY_AFTER_MS = 100;

export class IncomingRequests {
  readonly #owner: RequestOwner;
  readonly limits: RequestLimits;
  /** Everything admitted and not yet answered, running or waiting, in arrival order. */
  readonly #open = new Map<string, RunningRequest>();
  #running = 0;
  #queue: RunningRequest[] = [];
  #queueHead = 0;
  #starting = false;
  #draining: { resolve: () => void; promise: Promise<void> } | undefined;
  #refusal: HandfastError | undefined;
  readonly #deadlines = new Deadlines<RunningRequest>(
    () => this.#open.values(),
    (request) => this.#stop(request, fail('timeout', 'the deadline passed before the work was done')),
  );

  constructor(owner: RequestOwner, limits: RequestLimits) {
    this.#owner = owner;
    this.limits = limits;
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#queue.length - this.#queueHead;
  }

  /** Ids of everything not yet answered. */
  ids(): string[] {
    return [...this.#open.keys()];
  }

  /** True while a request of this id has no answer yet. */
  has(id: string): boolean {
    return this.#open.has(id);
  }

  /** Takes a request in: runs it, queues it, or answers it with the reason it cannot. */
  admit(request: RunningRequest): void {
    if (this.#refusal !== undefined) return this.#owner.answer(request, undefined, this.#refusal);
    const now = performance.now();
    const limitMs = request.route.method.limitMs?.(request.message as never);
    if (limitMs !== undefined) {
      request.deadlineAt = now + limitMs;
      this.#deadlines.watch(request.deadlineAt);
    }
    if (this.#running < this.limits.maxParallel) return this.#start(request, now);
    if (this.waiting >= this.limits.queueLimit) {
      const detail = {
        retry_after_ms: RETRY_AFTER_MS,
        max_parallel: this.limits.maxParallel,
        queue_limit: this.limits.queueLimit,
      };
      return this.#owner.answer(
        request,
        undefined,
        fail('over_capacity', 'too many requests are running and waiting', detail),
      );
    }
    this.#open.set(request.id, request);
    this.#queue.push(request);
  }

  /** A running request's deadline came forward. */
  watch(deadlineAt: number): void {
    this.#deadlines.watch(deadlineAt);
  }

  /** Gives a request up for its caller. False when it is unknown or answered already. */
  cancel(id: string): boolean {
    const request = this.#open.get(id);
    if (request === undefined) return false;
    this.#stop(request, fail('cancelled', 'the request was cancelled by its caller'));
    return true;
  }

  /** Ends the requests whose events cannot be given again once their link is gone. */
  stopUnrecorded(error: HandfastError): void {
    for (const request of [...this.#open.values()]) if (request.route.unrecorded === true) this.#stop(request, error);
  }

  /** Refuses what comes from now on with `refusal` and resolves when everything admitted is answered. */
  drain(refusal: HandfastError): Promise<void> {
    this.#refusal ??= refusal;
    if (this.#open.size === 0) return Promise.resolve();
    this.#draining ??= Promise.withResolvers<void>();
    return this.#draining.promise;
  }

  /** Resolves when nothing runs or waits; new requests are still taken. */
  idle(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    this.#draining ??= Promise.withResolvers<void>();
    return this.#draining.promise;
  }

  /** Stops everything, answering each with `error`. */
  stopAll(error: HandfastError): void {
    this.#refusal ??= error;
    this.#queue = [];
    this.#queueHead = 0;
    for (const request of [...this.#open.values()]) this.#stop(request, error);
    this.#deadlines.clear();
  }

  /** Nothing is open and nothing will come: lets go of the timer, which would hold all of this until it fires. */
  rest(): void {
    this.#deadlines.clear();
  }

  #start(request: RunningRequest, now: number): void {
    this.#open.set(request.id, request);
    this.#running++;
    request.startedAt = now;
    let outcome: object | Promise<object>;
    try {
      outcome = request.route.run(request.message, request);
    } catch (error) {
      return this.#finish(request, undefined, this.#owner.failed(request, error));
    }
    if (typeof (outcome as Promise<object> | undefined)?.then !== 'function')
      return this.#finish(request, outcome, undefined);
    (outcome as Promise<object>).then(
      (reply) => this.#finish(request, reply, undefined),
      (error) => this.#finish(request, undefined, this.#owner.failed(request, error)),
    );
  }

  #finish(request: RunningRequest, reply: object | undefined, error: HandfastError | undefined): void {
    if (request.done) return this.#owner.abandoned(-1);
    this.#answer(request, reply, error);
  }

  /** Answers a request before its handler did. A handler that runs on is counted until it settles. */
  #stop(request: RunningRequest, error: HandfastError): void {
    request.abort(error);
    if (request.done) return;
    if (request.startedAt > 0) this.#owner.abandoned(1);
    this.#answer(request, undefined, error);
  }

  #answer(request: RunningRequest, reply: object | undefined, error: HandfastError | undefined): void {
    this.#open.delete(request.id);
    if (request.startedAt > 0) this.#running--;
    else {
      const at = this.#queue.indexOf(request, this.#queueHead);
      if (at >= 0) this.#queue.splice(at, 1);
    }
    this.#owner.answer(request, reply, error);
    // A handler that answers at once comes back here from #start; the outer loop goes on, so the stack stays flat.
    if (!this.#starting) this.#startNext();
    if (this.#open.size > 0) return;
    this.#deadlines.rest();
    if (this.#draining !== undefined) {
      this.#draining.resolve();
      this.#draining = undefined;
    }
  }

  #startNext(): void {
    this.#starting = true;
    while (this.#queueHead < this.#queue.length && this.#running < this.limits.maxParallel) {
      const next = this.#queue[this.#queueHead++] as RunningRequest;
      if (this.#queueHead > 512 && this.#queueHead * 2 > this.#queue.length) {
        this.#queue = this.#queue.slice(this.#queueHead);
        this.#queueHead = 0;
      }
      this.#start(next, performance.now());
    }
    this.#starting = false;
  }
}
