/**
 * The outgoing half of a connection: calls waiting for their reply, the caller's concurrency limit, deadlines, cancels,
 * and event streams that outlive their call.
 *
 * A call is sent in the microtask after it was made, so that the code that made it can still start iterating it. It
 * settles exactly once: by its reply, its deadline, its signal, or the end of the connection.
 */

import { Deadlines } from '../base/deadlines.ts';
import { Fifo } from '../base/fifo.ts';
import type { Body, Method } from '../protocol/method.ts';
import { violation } from '../wire/check.ts';
import type { Incoming, Message, MessageId } from '../wire/codec.ts';
import { asError, fail, HandfastError, mayHaveRun } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import { type Call, type CallEvent, type CallOptions, EventStream, noEvents } from './call.ts';
import { OpenById } from './open-by-id.ts';
import type { Gap } from './reconnect.ts';

/** Members of a connection that its calls use. */
export interface CallWire {
  /** Returns a fresh message id. */
  id(): MessageId;
  /** Returns true for requests that take no capacity and are not counted: pings. */
  isFree(method: Method): boolean;
  /**
   * Sends a request and records its sent form in it; without a link it does nothing (the request is sent again after a
   * resume).
   */
  request(call: PendingCall): void;
  /** Requests of the peer that run here. */
  questions(): number;
  /** Sends that a request is cancelled. Does nothing where cancel was not agreed. */
  cancel(id: MessageId): void;
}

export interface CallLimits {
  /** Calls in flight at once; more wait here, in order. */
  maxParallel: number;
  /** Calls waiting at most; past it a call fails with `over_capacity`. */
  queueLimit: number;
  /**
   * Calls in flight that may wait at the peer (`Method.waits`) and take no place of `maxParallel` there. Undefined: the peer
   * counts them like all others.
   */
  maxWaiting?: number | undefined;
  /** Time limit of calls that bring none, in milliseconds. 0 = none. */
  timeoutMs: number;
}

/** A call under way. */
export class PendingCall {
  readonly id: MessageId;
  /** Its key among the open calls. */
  readonly key: unknown;
  readonly method: Method;
  readonly body: Message;
  readonly options: CallOptions;
  readonly select: (reply: never) => unknown;
  deadlineAt = Number.POSITIVE_INFINITY;
  /** Number of the message in the session, counting from 1; 0 = never sent, or not counted. */
  ordinal = 0;
  /** Characters of its message; 0 by reference. */
  size = 0;
  /** Takes no capacity: pings. */
  readonly free: boolean;
  /** May wait at the peer and takes no place there. */
  waits = false;
  streaming: boolean;
  sent = false;
  settled = false;
  events: EventStream | undefined;
  /** Number of the next event. */
  nextSeq = 0;
  /** Entries of the session that are lost, some of which may have been events of this call. */
  doubt = 0;
  /** The object that the caller has; its `gaps` are set when a gap exists. */
  handle: { gaps: readonly Gap[] } | undefined;
  iterated = false;
  resolve!: (value: unknown) => void;
  reject!: (error: HandfastError) => void;
  onAbort: (() => void) | undefined;

  constructor(
    id: MessageId,
    key: unknown,
    free: boolean,
    method: Method,
    body: Message,
    options: CallOptions,
    select: (reply: never) => unknown,
  ) {
    this.id = id;
    this.key = key;
    this.free = free;
    this.method = method;
    this.body = body;
    this.options = options;
    this.select = select;
    this.streaming = options.streaming ?? options.onEvent !== undefined;
  }
}

/** Calls under one limit: the number in flight, and those that wait until fewer are. */
class Line {
  open = 0;
  readonly queue = new Fifo<PendingCall>();
}

/** The gaps of a call that has none. */
const noGaps: readonly Gap[] = [];
const identity = (reply: never): unknown => reply;
/** The kind of the event that ends a stream which outlived its request. */
export const STREAM_END = 'end';
/** The key of the record behind a call's promise. */
const record = Symbol('handfast.call');
interface WithRecord {
  [record]: PendingCall;
}

export class OutgoingCalls {
  readonly #wire: CallWire;
  readonly limits: CallLimits;
  readonly #pending = new OpenById<PendingCall>();
  /** Calls with a reply whose events continue. */
  #streams: Map<unknown, PendingCall> | undefined;
  /** Calls in flight, and those that wait here until fewer are. */
  readonly #line = new Line();
  /** Calls that wait at the peer and take no place there, in flight and here. */
  readonly #waits = new Line();
  #unsent: PendingCall[] = [];
  #closed: ((sent: boolean) => HandfastError) | undefined;
  readonly #deadlines = new Deadlines<PendingCall>(
    () => this.#all(),
    (call) => this.#cancel(call, this.#late(call)),
  );

  constructor(wire: CallWire, limits: CallLimits) {
    this.#wire = wire;
    this.limits = limits;
  }

  /** Calls sent or waiting. */
  get size(): number {
    return this.#pending.size + this.#line.queue.size + this.#waits.queue.size;
  }

  /** Finds the call of this side with this id, while it is open or its events continue. */
  find(id: MessageId): PendingCall | undefined {
    // Without calls the peer's ids must not decide the form of the keys.
    if (this.#pending.size === 0 && this.#streams === undefined) return undefined;
    const key = this.#pending.keyOf(id);
    return this.#pending.get(key) ?? this.#streams?.get(key);
  }

  /** Calls sent and not yet settled, the oldest first. */
  get open(): Iterable<PendingCall> {
    return this.#pending.values();
  }

  /**
   * Makes a call.
   * @param select turns the answer into the result; by default the answer's own fields
   */
  call<Request extends object, Reply extends object, Result = Body<Reply>>(
    method: Method<Request, Reply>,
    body: Body<Request>,
    options: CallOptions = {},
    select: (reply: Reply) => Result = identity as (reply: Reply) => Result,
  ): Call<Result> {
    const id = this.#wire.id();
    const call = new PendingCall(
      id,
      this.#pending.keyOf(id),
      this.#wire.isFree(method as Method),
      method as Method,
      body as Message,
      options,
      select as (r: never) => unknown,
    );
    const promise = new Promise<unknown>((resolve, reject) => {
      call.resolve = resolve;
      call.reject = reject;
    }) as Promise<unknown> & WithRecord & { calls: OutgoingCalls; id: MessageId };
    promise[record] = call;
    promise.id = id;
    promise.calls = this;
    // Own properties instead of a subclass: awaiting a plain promise skips two turns of the microtask queue.
    const result = promise as unknown as Omit<Call<Result>, 'gaps'> & {
      [Symbol.asyncIterator]: () => AsyncIterator<CallEvent>;
      gaps: readonly Gap[];
    };
    result[Symbol.asyncIterator] = iterate;
    result.cancel = cancel;
    result.gaps = noGaps;
    call.handle = result;
    this.#admit(call);
    return result;
  }

  #admit(call: PendingCall): void {
    const { signal } = call.options;
    if (this.#closed !== undefined) return this.#settle(call, this.#closed(false));
    if (signal !== undefined) {
      if (signal.aborted) return this.#settle(call, cancelled(signal.reason));
      call.onAbort = () => this.#cancel(call, cancelled(signal.reason));
      signal.addEventListener('abort', call.onAbort, { once: true });
    }
    call.waits = this.limits.maxWaiting !== undefined && call.method.waits?.(call.body as never) === true;
    const line = this.#lineOf(call);
    if (call.free || this.#hasPlace(line)) return this.#start(call);
    if (line.queue.size >= this.limits.queueLimit) {
      return this.#settle(call, fail('over_capacity', 'the call queue is full'));
    }
    line.queue.push(call);
    this.#time(call, performance.now());
  }

  #late(call: PendingCall): HandfastError {
    const { method, options, sent } = call;
    const within = `within ${options.timeoutMs ?? this.limits.timeoutMs} ms`;
    if (sent) return withoutReply(call, fail('timeout', `${method.request} got no reply ${within}`));
    // A call whose turn came because earlier calls were late, too, is about to be sent.
    const away = this.#pending.get(call.key) === call && !this.#unsent.includes(call);
    const why = away ? 'there is no link to the peer' : 'the calls before it still run';
    return fail('timeout', `${method.request} was not sent ${within}: ${why}`);
  }

  /** Starts a call's time limit, once. */
  #time(call: PendingCall, now: number): void {
    const { timeoutMs = this.limits.timeoutMs } = call.options;
    if (timeoutMs <= 0 || call.deadlineAt !== Number.POSITIVE_INFINITY) return;
    call.deadlineAt = now + timeoutMs;
    this.#deadlines.watch(call.deadlineAt);
  }

  /** Handles the arrival of a question of the peer: its call takes no place until the question is answered. */
  asked(): void {
    if (this.limits.maxWaiting !== undefined) this.#startNext(this.#line);
  }

  #hasPlace(line: Line): boolean {
    const { maxParallel, maxWaiting } = this.limits;
    if (line === this.#waits) return line.open < (maxWaiting ?? maxParallel);
    return line.open < maxParallel || (maxWaiting !== undefined && line.open < maxParallel + this.#wire.questions());
  }

  #lineOf(call: PendingCall): Line {
    return call.waits ? this.#waits : this.#line;
  }

  #all(): PendingCall[] {
    return [...this.#pending.values(), ...this.#line.queue, ...this.#waits.queue];
  }

  #start(call: PendingCall): void {
    if (!call.free) this.#lineOf(call).open++;
    this.#pending.set(call.key, call);
    this.#unsent.push(call);
    if (this.#unsent.length === 1) queueMicrotask(() => this.flush());
  }

  /** Sends the calls that were made and not sent yet, at once: where something that is sent next must arrive after them. */
  flush(): void {
    const calls = this.#unsent;
    this.#unsent = [];
    const now = performance.now();
    for (const call of calls) {
      if (call.settled) continue;
      this.#time(call, now);
      this.#send(call);
    }
  }

  #send(call: PendingCall): void {
    const body = call.body;
    if (call.method.streaming !== undefined) body.streaming = call.streaming;
    try {
      this.#wire.request(call);
    } catch (error) {
      this.#settle(call, asError(error, 'schema_violation')); // Arguments that JSON cannot carry.
    }
  }

  /** Handles the reply to an open call. */
  reply(call: PendingCall, { type, body }: Pick<Incoming, 'type' | 'body'>): void {
    const check = call.method.checkReply;
    if (check !== undefined && type === call.method.reply && !check(body)) {
      this.#settle(call, violation(call.method.reply, check.errors));
    } else this.#settle(call, undefined, body);
  }

  /**
   * Handles a reply without `req_id`: some hosts leave it out, as the Python SDK's does. Returns false if not exactly
   * one call waits for its type.
   */
  unaddressed(reply: Pick<Incoming, 'type' | 'body'>): boolean {
    const { type } = reply;
    const [call, other] = this.#pending.values().filter(({ method }) => type !== '' && method.reply === type);
    if (call === undefined || other !== undefined) return false;
    this.reply(call, reply);
    return true;
  }

  /** Settles an open call that failed on the other side. */
  failure(call: PendingCall, error: HandfastError): void {
    this.#settle(call, error);
  }

  /** Handles an event of an open call. */
  event(call: PendingCall, { body }: Incoming): void {
    const { kind, data, seq } = body as Message;
    if (kind === STREAM_END && call.settled) return void this.endStream(call, endOf(data));
    const { checkEvent, event: type } = call.method;
    if (checkEvent?.(body) === false) return this.#cancel(call, violation(type, checkEvent.errors));
    const event: CallEvent = {
      kind: (kind ?? 'status') as string,
      data: (data ?? {}) as Record<string, unknown>,
      seq: (seq ?? 0) as number,
      ...(checkEvent !== undefined && { fields: body as Message }),
    };
    if (call.doubt > 0) this.#resolveDoubt(call, event.seq - 1);
    call.nextSeq = event.seq + 1;
    this.#deliver(call, event);
    const gap = call.method.gapOf?.(event.data);
    if (gap !== undefined) noteGap(call, gap);
  }

  #deliver(call: PendingCall, event: CallEvent): void {
    if (call.options.onEvent !== undefined) call.options.onEvent(event);
    if (call.streaming && (call.iterated || call.options.onEvent === undefined)) {
      call.events ??= new EventStream(() => this.#cancel(call, cancelled(undefined)));
      if (!call.events.push(event)) {
        this.#cancel(call, fail('slow_consumer', 'the events of this call are not being read'));
      }
    }
  }

  /**
   * Entries of the session are lost, `count` of them, while these calls were open: from their next event, or their reply,
   * it is known whether events of theirs were among them.
   */
  doubtEvents(known: ReadonlySet<MessageId>, count: number): void {
    for (const call of this.#pending.values()) if (call.streaming && known.has(call.id)) call.doubt += count;
  }

  /** @param last number of the last event that can be missing */
  #resolveDoubt(call: PendingCall, last: number): void {
    call.doubt = 0;
    if (last < call.nextSeq) return;
    const gap = { from: call.nextSeq, to: last };
    noteGap(call, gap);
    this.#deliver(call, { kind: 'gap', data: gap, seq: last });
  }

  /**
   * Fails the calls whose request has more than `limit` characters: the peer could not read a message of that length
   * and will never reply.
   */
  failLonger(limit: number, error: HandfastError): void {
    for (const call of this.#pending.values()) if (call.size > limit) this.#settle(call, error);
  }

  /**
   * Sends, over a new link, the requests that the peer never got. `received` = the messages of this side that it had
   * read before. Pings are not counted and not stored there, and may be sent twice.
   */
  resend(received: number): void {
    for (const call of this.#pending.values()) {
      const unread = !call.sent || call.free || call.ordinal > received;
      if (unread && !this.#unsent.includes(call)) this.#send(call);
    }
  }

  /** Ids of the calls the peer has read: to be asked before {@link resend}. */
  readIds(received: number): Set<MessageId> {
    const read = this.#pending.values().filter((call) => call.sent && !call.free && call.ordinal <= received);
    return new Set(read.map((call) => call.id));
  }

  /**
   * Fails calls after a replay with a gap: calls of `known` that are still open and not `running` there had their reply
   * in the gap. They fail with `reply_lost`; running them again could do their work twice.
   */
  failLost(known: ReadonlySet<MessageId>, running: ReadonlySet<MessageId>): void {
    for (const call of this.#pending.values()) {
      if (known.has(call.id) && !running.has(call.id)) {
        // A repeatable call is repeated: its second reply is equally valid.
        const lost = new HandfastError('reply_lost', 'the host no longer stores the reply', { retryable: true });
        this.#settle(call, withoutReply(call, lost));
      }
    }
  }

  /** Handles the loss of the peer's session: calls sent in it fail, calls not yet sent are sent in the new one. */
  failSent(error: HandfastError): void {
    for (const call of this.#pending.values()) if (call.sent) this.#settle(call, withoutReply(call, error));
    for (const call of [...(this.#streams?.values() ?? [])]) this.endStream(call, error);
  }

  /** Ends the streams of calls up to a number, which their peer no longer has. */
  endStreams(upTo: number, error: HandfastError): void {
    for (const call of [...(this.#streams?.values() ?? [])]) if (call.ordinal <= upTo) this.endStream(call, error);
  }

  /** Settles everything; later calls fail at once. `error` gets whether the call was sent. */
  close(error: (sent: boolean) => HandfastError): void {
    this.#closed = error;
    const open = this.#all();
    this.#line.queue.clear();
    this.#waits.queue.clear();
    for (const call of open) this.#settle(call, withoutReply(call, error(call.sent)));
    for (const call of [...(this.#streams?.values() ?? [])]) this.endStream(call, error(true));
    this.#deadlines.clear();
  }

  iterator(call: PendingCall): EventStream {
    if (!call.sent && call.options.streaming === undefined) call.streaming = true;
    call.iterated = true;
    if (call.events === undefined) {
      call.events = new EventStream(() => this.#cancel(call, cancelled(undefined)));
      const ended = call.settled && this.#streams?.has(call.key) !== true;
      if (ended || !call.streaming) call.events.end(call.streaming ? undefined : noEvents());
    }
    return call.events;
  }

  cancel(call: PendingCall): void {
    this.#cancel(call, cancelled(undefined));
  }

  #cancel(call: PendingCall, error: HandfastError): void {
    if (call.settled) {
      if (!this.endStream(call, error.code === 'cancelled' ? undefined : error)) return;
      this.#wire.cancel(call.id);
      return;
    }
    if (call.sent) this.#wire.cancel(call.id);
    this.#settle(call, error);
  }

  /** Ends the events of a call that has its reply, with an error or in order. Returns false if it has no events. */
  endStream(call: PendingCall, error?: HandfastError): boolean {
    if (this.#streams?.delete(call.key) !== true) return false;
    if (call.onAbort !== undefined) call.options.signal?.removeEventListener('abort', call.onAbort);
    call.events?.end(error);
    return true;
  }

  #settle(call: PendingCall, error: HandfastError | undefined, reply?: unknown): void {
    if (call.settled) return;
    call.settled = true;
    const goesOn = error === undefined && call.options.keepStream === true;
    if (call.onAbort !== undefined && !goesOn) call.options.signal?.removeEventListener('abort', call.onAbort);
    const line = this.#lineOf(call);
    if (this.#pending.delete(call.key)) {
      if (!call.free) line.open--;
      this.#startNext(line);
    } else line.queue.delete(call);
    if (this.#pending.size === 0) this.#deadlines.rest();
    if (error === undefined) {
      if (call.doubt > 0) this.#resolveDoubt(call, call.nextSeq + call.doubt - 1);
      // Events first: a reader of both sees the stream end before the result.
      if (!goesOn) call.events?.end();
      else {
        this.#streams ??= new Map();
        this.#streams.set(call.key, call);
      }
      try {
        call.resolve(call.select(reply as never));
      } catch (thrown) {
        call.reject(asError(thrown));
      }
    } else {
      call.events?.end(error);
      call.reject(error);
    }
  }

  #startNext(line: Line): void {
    while (line.queue.size > 0 && this.#hasPlace(line)) this.#start(line.queue.shift() as PendingCall);
  }
}

/** Returns the error of a call that has no reply: once it was sent, its work may be done. */
function withoutReply({ sent, method, options }: PendingCall, error: HandfastError): HandfastError {
  const { idempotent = method.idempotent === true } = options;
  return sent && !idempotent ? mayHaveRun(error) : error;
}

function noteGap(call: PendingCall, gap: Gap): void {
  if (call.handle !== undefined) call.handle.gaps = [...call.handle.gaps, gap];
  call.options.onGap?.(gap);
}

/** Returns the reason why the other side ended a stream; undefined when the stream was complete. */
function endOf(data: unknown): HandfastError | undefined {
  const { error } = (data ?? {}) as Message;
  if (!isObject(error)) return undefined;
  const { code, message, detail, retryable } = error;
  return new HandfastError(String(code), String(message), {
    detail: isObject(detail) ? detail : {},
    retryable: retryable === true,
  });
}

function iterate(this: Promise<unknown> & WithRecord & { calls: OutgoingCalls }): EventStream {
  this.catch(() => {}); // The iterator reports the failure too: a caller that only iterates has handled it.
  return this.calls.iterator(this[record]);
}

function cancel(this: Promise<unknown> & WithRecord & { calls: OutgoingCalls }): void {
  this.calls.cancel(this[record]);
}

function cancelled(reason: unknown): HandfastError {
  return fail('cancelled', 'the call was cancelled by its caller', undefined, reason);
}
