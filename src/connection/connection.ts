/**
 * Protocol state for one peer. Owns outgoing calls (`outgoing-calls.ts`) and incoming requests
 * (`incoming-requests.ts`), numbers and journals sent messages, applies backpressure, and settles everything on close.
 * A resume replaces its link. It knows no dialect: its codec reads, writes, and has the rules that differ between
 * dialects. Its owner decides which peers may talk, their capabilities and where entries are journaled:
 * `session/session.ts`, `agent/agent.ts`, `control/rpc/`.
 *
 * @see docs/architecture.md#connection-rules
 */
import { type Method, untyped } from '../protocol/method.ts';
import type { CloseInfo, Link, LinkReceiver, Malformed } from '../transport/link.ts';
import { type Check, violation } from '../wire/check.ts';
import type { Address, Capacity, Codec, Encoded, Incoming, Message, MessageId } from '../wire/codec.ts';
import { fail, HandfastError, mayHaveRun } from '../wire/errors.ts';
import type { ConnectionLimits, ConnectionOwner, EntryKind, Recorder } from './contract.ts';
import { HeldOutput } from './held-output.ts';
import { IncomingRequests, RETRY_AFTER_MS, type RequestOwner } from './incoming-requests.ts';
import { joined } from './joined.ts';
import type { KeptReplies } from './kept-replies.ts';
import { fits, isFarTooLarge, mustFit, tooLong } from './message-size.ts';
import { type CallLimits, type CallWire, OutgoingCalls, type PendingCall } from './outgoing-calls.ts';
import { LONG_CHARS, PAUSED_BY, Reading } from './reading.ts';
import { type RequestChannel, RunningRequest } from './running-request.ts';
import { HIGH_WATER_BYTES, LOW_WATER_BYTES, SlowConsumerGuard } from './slow-consumer.ts';
import type { Throttled, Traffic } from './traffic.ts';

export type { ConnectionLimits, ConnectionOwner, EntryKind, Recorder } from './contract.ts';
export type { Message };

/** Length to which the message of an error is cut that is too long to be sent, in characters. */
const SHORT_MESSAGE = 1000;

export class Connection implements LinkReceiver, RequestOwner, RequestChannel, CallWire, Throttled {
  readonly codec: Codec;
  readonly limits: ConnectionLimits;
  readonly #owner: ConnectionOwner;
  #link: Link | undefined;
  #text = true;
  #calls: OutgoingCalls | undefined;
  #requests: IncomingRequests | undefined;
  /** Watches a reader that has been behind. */
  #slow: SlowConsumerGuard | undefined;
  #drained: Promise<void> | undefined;
  /** Output that waits for replies that are being stored. */
  #held: HeldOutput | undefined;
  /** Set while the entries that the old link missed are sent over the new one. */
  #replay: PromiseWithResolvers<void> | undefined;
  #ignoring = false;
  /** Number of notices whose handling is under way. */
  #inbox = 0;
  /** Created at the first reason not to read. */
  #reading: Reading | undefined;
  /** Characters of notices queued since the link is above `sendBufferBytes`. */
  #piled = 0;

  /** The last cursor assigned; at the side that journals nothing, the last one received. */
  cursor = 0;
  /** True when the peer agreed to resume: journaled messages then carry their cursor. */
  stamped = false;
  /** True when the peer understands `cancel`. */
  cancels: boolean;
  record: Recorder | undefined;
  /** The shares of its principal. Set before the first link is attached, if at all. */
  traffic: Traffic | undefined;
  /** Returns the members of a pong beside the age of the connection. */
  pongFacts: (() => Message) | undefined;
  /** The shape of a ping, where the dialect has one. */
  checkPing: Check | undefined;
  /** Messages received since the handshake, pings and pongs left out; shows a resuming peer which messages were lost. */
  received = 0;
  /** Messages sent since the handshake, counted the same way. */
  sent = 0;
  /** Number of all arrivals, also pings and input that was no message. Two equal readings = silence between them. */
  arrivals = 0;
  /** The replies stored at the side that journals nothing: see `kept-replies.ts`. */
  keptReplies: KeptReplies | undefined;
  /** Messages dropped because nothing waits for them: late replies, events and replies of no request. */
  dropped = 0;

  constructor(owner: ConnectionOwner, codec: Codec, limits: ConnectionLimits) {
    this.#owner = owner;
    this.codec = codec;
    this.limits = limits;
    this.cancels = codec.cancels;
  }

  get link(): Link | undefined {
    return this.#link;
  }

  get requests(): IncomingRequests {
    this.#requests ??= new IncomingRequests(this, this.limits);
    return this.#requests;
  }

  /** Requests without a reply; 0 before the first one. */
  get busy(): number {
    return this.#requests?.busy ?? 0;
  }

  /** False while the link is not read from, so that its silence proves nothing. */
  get reading(): boolean {
    return this.#reading?.open !== false;
  }

  get #flow(): Reading {
    this.#reading ??= new Reading(() => this.#link);
    return this.#reading;
  }

  /** Returns the outgoing half. The first use may set its limits. */
  calls(limits: CallLimits = { maxParallel: 4, queueLimit: 1024, timeoutMs: 60_000 }): OutgoingCalls {
    this.#calls ??= new OutgoingCalls(this, limits);
    return this.#calls;
  }

  /**
   * Asks the peer for a sign of life. Resolves when its pong arrives; rejects with `timeout`, with `connection_lost`, or with
   * `usage` in a dialect without pings (`codec.pingType`).
   */
  async ping(timeoutMs: number): Promise<void> {
    const { pingType } = this.codec;
    if (pingType === undefined) throw fail('usage', 'this protocol has no pings');
    await this.calls().call(untyped(pingType), {}, { timeoutMs, streaming: false, idempotent: true });
  }

  /** Sends a ping and does not wait: `arrivals` grows with its pong. Does nothing in a dialect without pings. */
  probe(): void {
    const { pingType } = this.codec;
    if (pingType !== undefined) this.#transmit(this.codec.request(this.#text, pingType, this.codec.id(), {}, 0));
  }

  // Its link.

  /**
   * Marks that entries which the old link missed are being sent over a new one. Until that link is attached, or
   * {@link endReplay}, events wait: in the journal, retention would otherwise overtake the replay that reads from it.
   */
  startReplay(): void {
    this.#replay ??= Promise.withResolvers();
  }

  /** Marks that no event has to wait for a replay any more. */
  endReplay(): void {
    this.#replay?.resolve();
    this.#replay = undefined;
  }

  /** Attaches a link; messages that arrive on it come here from now on. */
  attach(link: Link): void {
    this.endReplay();
    this.#link = link;
    this.#text = link.text;
    link.open(this);
    this.traffic?.join(this, link);
  }

  /** Detaches the link without touching calls or requests; later input on it is ignored. */
  detach(): Link | undefined {
    const link = this.#link;
    this.#release();
    link?.open(silent);
    return link;
  }

  #release(): void {
    this.#link = undefined;
    this.#held?.clear();
    this.traffic?.leave(this);
    this.#piled = 0;
    this.#reading?.release();
    this.#slow?.stop();
    this.#slow = undefined;
  }

  throttle(paused: boolean): void {
    this.#flow.pause(PAUSED_BY.share, paused);
  }

  /** Reads no message before `work` has settled, or the link was replaced. `work` never rejects. */
  readAfter(work: Promise<void>): void {
    this.#flow.pause(PAUSED_BY.preparing, true);
    void work.then(() => this.#flow.pause(PAUSED_BY.preparing, false));
  }

  /** Reads no further message; running requests continue. */
  ignoreInput(): void {
    this.#ignoring = true;
  }

  /** Ends both halves: every call and request is settled with the error. The link is the owner's to close. */
  settle(error: () => HandfastError): void {
    this.#calls?.close(error);
    if (this.busy > 0 || this.#requests?.streaming === true) this.#requests?.stopAll(error());
    else this.#requests?.rest();
  }

  // LinkReceiver: input from the link.

  message(raw: Encoded): string | undefined {
    this.arrivals++;
    const { separator } = this.codec;
    if (separator === undefined || typeof raw !== 'string') return this.#read(raw);
    if (raw.length <= LONG_CHARS && !raw.includes(separator)) return this.#read(raw);
    this.#flow.lines(raw, separator, (line) => this.#read(line));
    return undefined;
  }

  malformed(problem: Malformed): void {
    this.arrivals++;
    if (!this.#ignoring) this.#owner.malformed(this.codec.malformed(problem), undefined);
  }

  ended(): void {
    this.#flow.end(() => this.#owner.ended());
  }

  closed(cause: CloseInfo): void {
    this.#release();
    this.#owner.linkLost(cause);
  }

  #read(raw: Encoded): string | undefined {
    if (this.#ignoring) return undefined;
    const incoming = this.codec.read(raw, this.limits.maxDepth, this.limits.maxValues);
    if (incoming === undefined) return undefined;
    const { kind, ref, cursor, error } = incoming;
    if (incoming.message === undefined) {
      const problem = error as HandfastError;
      this.#owner.malformed(
        problem,
        typeof raw === 'string' ? raw : undefined,
        incoming.id === '' ? undefined : incoming,
      );
      return problem.code;
    }
    if (kind !== 'ping' && kind !== 'pong') this.received++;
    // The side that journals numbers the entries itself.
    if (cursor > 0 && this.record === undefined) this.cursor = cursor;
    const calls = this.#calls;
    if (calls !== undefined && ref !== undefined && kind !== 'cancel') {
      const call = calls.find(ref);
      if (call !== undefined) {
        if (kind === 'event') calls.event(call, incoming);
        else if (kind === 'failure') calls.failure(call, error as HandfastError);
        else calls.reply(call, incoming);
        return undefined;
      }
    }
    switch (kind) {
      case 'request':
        this.#request(incoming, raw);
        break;
      case 'cancel':
        if (this.cancels) this.requests.cancel(ref as MessageId);
        else this.#request(incoming, raw);
        break;
      case 'ping':
        this.#pong(incoming);
        break;
      case 'notice':
        this.#notice(incoming);
        break;
      case 'invalid':
        this.refuse(incoming, error as HandfastError);
        break;
      case 'refusal':
        this.#refused(error as HandfastError);
        break;
      default:
        if (kind !== 'reply' || ref !== undefined) this.dropped++;
        else if (this.#owner.asRequest?.(incoming)) this.#request(incoming, raw);
        else if (calls?.unaddressed(incoming) !== true) this.dropped++;
    }
    return undefined;
  }

  #request(incoming: Incoming, raw: Encoded): void {
    const { id, type } = incoming;
    const route = this.#owner.route(incoming);
    if (route === 'ignore') return;
    if (route === undefined) return this.refuse(incoming, this.codec.unknownType(type));
    if (!('run' in route)) return this.refuse(incoming, route);
    const objection = this.codec.objection(incoming);
    if (objection !== undefined) return this.refuse(incoming, objection);
    const { requests } = this;
    if (this.uniqueIds && requests.has(id)) {
      return this.refuse(incoming, fail('invalid_message', 'a request with this id is still running'));
    }
    const { checkRequest, capability, stored } = route.method;
    if (!checkRequest(incoming.body)) return this.refuse(incoming, violation(type, checkRequest.errors), capability);
    const unstorable = route.exempt || route.unrecorded ? undefined : this.record?.refuses?.();
    const refusal = unstorable ?? this.traffic?.admit(route.exempt === true);
    if (refusal !== undefined) return this.refuse(incoming, refusal, capability);
    const entry = stored === undefined ? raw : (stored(incoming.body as never) as Message);
    this.record?.record(++this.cursor, 'request', id as string, entry);
    requests.admit(this.#owner.request?.(incoming, route) ?? new RunningRequest(this, incoming, route));
    this.#calls?.asked();
  }

  /** Hands a notice on, and reads no faster than the owner handles them. */
  #notice(incoming: Incoming): void {
    this.traffic?.arrived();
    if (this.#owner.notice === undefined) {
      this.dropped++;
      return;
    }
    const handled = this.#owner.notice(incoming);
    if (handled === undefined) return;
    const { inboxLimit = Number.POSITIVE_INFINITY } = this.limits;
    const shared = this.traffic?.started() !== false;
    if (++this.#inbox > inboxLimit || !shared) this.#flow.pause(PAUSED_BY.inbox, true);
    const done = (): void => {
      this.traffic?.ended();
      if (--this.#inbox <= inboxLimit / 2) this.#reading?.pause(PAUSED_BY.inbox, false);
    };
    handled.then(done, done);
  }

  #refused(error: HandfastError): void {
    const { limit, unit = 'bytes' } = error.detail;
    if (error.code === 'too_large' && unit === 'bytes' && typeof limit === 'number')
      this.#calls?.failLonger(limit, error);
    if (this.#owner.refused === undefined) this.dropped++;
    else this.#owner.refused(error);
  }

  #pong(ping: Incoming): void {
    const objection = this.codec.objection(ping);
    if (objection !== undefined) return this.refuse(ping, objection);
    if (this.checkPing?.(ping.body) === false) return this.refuse(ping, violation(ping.type, this.checkPing.errors));
    this.traffic?.arrived();
    const uptime_seconds = Math.round(performance.now() - this.#openedAt) / 1000;
    this.#transmit(this.codec.pong(this.#text, ping, { uptime_seconds, ...this.pongFacts?.() }));
  }

  readonly #openedAt = performance.now();

  // RequestOwner: members for incoming requests.

  get uniqueIds(): boolean {
    return this.codec.uniqueIds;
  }

  failed(request: RunningRequest, thrown: unknown): HandfastError {
    return this.#owner.failed(request, thrown);
  }

  abandoned(change: 1 | -1): void {
    this.#owner.abandoned?.(change);
  }

  overCapacity(capacity: Capacity): HandfastError {
    return this.codec.overCapacity(capacity);
  }

  backlog({ route }: RunningRequest): HandfastError | undefined {
    const { maxSendBufferBytes } = this.limits;
    if (maxSendBufferBytes === undefined || this.#slow === undefined || route.exempt === true) return undefined;
    if ((this.#link?.buffered ?? 0) <= maxSendBufferBytes) return undefined;
    return fail('over_capacity', 'the replies so far have not been read', { retry_after_ms: RETRY_AFTER_MS });
  }

  reply(request: RunningRequest, reply: unknown, error: HandfastError | undefined): void {
    if (request.done) return;
    request.flush();
    request.done = true;
    this.traffic?.ended();
    const cursor = this.record === undefined ? 0 : ++this.cursor;
    const stamp = this.stamped ? cursor : 0;
    const { method } = request.route;
    let failure = error;
    let out: Encoded = '';
    if (failure === undefined) {
      try {
        const limit = this.limits.maxMessageBytes;
        let written = this.#written(request, reply, stamp);
        let isShort = fits(written, limit);
        const less = isShort ? undefined : method.shorten?.(reply as never, limit);
        if (less !== undefined) {
          written = this.#written(request, less, stamp);
          isShort = fits(written, limit);
        }
        if (isShort) out = written as Encoded;
        else failure = tooLong('answer', written, limit);
      } catch (thrown) {
        failure =
          this.#owner.unwritable?.(request, thrown) ??
          fail('runtime_error', 'the reply cannot be written as JSON', undefined, thrown);
      }
    }
    if (failure !== undefined) {
      request.endStream();
      out = this.#failure(request, failure, stamp);
    }
    this.sent++;
    this.keptReplies?.add(out, this.#link === undefined ? Number.POSITIVE_INFINITY : this.sent);
    this.#put(failure === undefined ? 'reply' : 'error', request.incoming.id, out, cursor, request);
    this.#owner.replied?.(request, failure, typeof out === 'string' ? out.length : 0);
    if (this.#link !== undefined || cursor > 0) request.replied();
  }

  /** Writes a reply; undefined if it is so long that it was not written. */
  #written({ route: { method }, incoming }: RunningRequest, reply: unknown, stamp: number): Encoded | undefined {
    const isText = this.#text;
    if (isText && method.writeReply === undefined && isFarTooLarge(reply, this.limits.maxMessageBytes))
      return undefined;
    return this.codec.reply(isText, method.reply, incoming, reply, stamp, method.writeReply);
  }

  /** Sends, over a new link, the replies that the peer, which has read `received` messages of this side, never got. */
  resendReplies(received: number): void {
    for (const out of this.keptReplies?.takeLost(received) ?? []) {
      this.keptReplies?.add(out, ++this.sent);
      this.#transmit(out);
    }
  }

  /** Replies to something that did not become a request: an error with the id it had, if any. */
  refuse(to: Address, error: HandfastError, capability: string = error.capability): void {
    const cursor = this.record === undefined ? 0 : ++this.cursor;
    const out = this.codec.failure(this.#text, to, error, this.stamped ? cursor : 0, capability);
    this.sent++;
    this.#put('error', to.id, out, cursor);
    this.#flow.refused();
  }

  /** Writes an error reply that can always be sent: detail that JSON cannot carry or no message may hold is left out. */
  #failure(request: RunningRequest, failure: HandfastError, stamp: number): Encoded {
    const write = (error: HandfastError): Encoded => {
      const capability = error.capability || request.route.method.capability;
      return this.codec.failure(this.#text, request.incoming, error, stamp, capability);
    };
    try {
      const out = write(failure);
      if (fits(out, this.limits.maxMessageBytes)) return out;
    } catch {
      // Handlers may put anything into the detail of their errors.
    }
    const { code, message, retryable, capability } = failure;
    return write(new HandfastError(code, message.slice(0, SHORT_MESSAGE), { retryable, capability }));
  }

  // RequestChannel: members for a running request.

  sendEvent(request: RunningRequest, kind: string, data: object, seq: number, fields?: object): void {
    const { incoming, route } = request;
    const cursor = this.record === undefined || route.unrecorded === true ? 0 : this.cursor + 1;
    const stamp = this.stamped ? cursor : 0;
    const { event } = route.method;
    const out =
      fields === undefined
        ? this.codec.event(this.#text, event, incoming, kind, data, seq, stamp)
        : this.codec.reply(this.#text, event, incoming, { ...fields, kind, data, seq }, stamp);
    mustFit('event', out, this.limits.maxMessageBytes);
    if (cursor > 0) this.cursor = cursor;
    this.sent++;
    this.#put('event', incoming.id, out, cursor);
  }

  // CallWire: members for this side's calls.

  id(): MessageId {
    return this.codec.id();
  }

  isFree({ request }: Method): boolean {
    return request === this.codec.pingType;
  }

  questions(): number {
    return this.#requests?.running ?? 0;
  }

  request(call: PendingCall): void {
    const { method, id, body, free } = call;
    const recorded = this.record !== undefined && !free;
    const stamp = recorded && this.stamped ? this.cursor + 1 : 0;
    const out = this.codec.request(this.#text, method.request, id, body, stamp);
    mustFit('request', out, this.limits.maxMessageBytes);
    if (typeof out === 'string') call.size = out.length;
    // A journaled request reaches the peer by replay, also when no link exists at the moment.
    if (this.#link === undefined && !recorded) return;
    call.sent = true;
    if (!free) call.ordinal = ++this.sent;
    this.#put('call', id, out, recorded ? ++this.cursor : 0);
  }

  cancel(id: MessageId): void {
    if (!this.cancels || (this.#link === undefined && this.record === undefined)) return;
    this.sent++;
    this.#put('notice', id, this.codec.cancel(this.#text, id), this.record === undefined ? 0 : ++this.cursor);
  }

  // Notices.

  /**
   * Sends a message that belongs to no request, journaled if this side journals. Throws errors of `JSON.stringify`, and
   * `too_large`.
   */
  notify(type: string, body: object): void {
    const cursor = this.record === undefined ? 0 : this.cursor + 1;
    const out = this.codec.notice(this.#text, type, body, this.stamped ? cursor : 0);
    mustFit('notice', out, this.limits.maxMessageBytes);
    if (cursor > 0) this.cursor = cursor;
    this.sent++;
    if (cursor > 0) this.record?.record(cursor, 'notice', '', out);
    this.forward(out);
  }

  /**
   * Sends a notice that was written before, as a fan-out does. Notices are sent whether they are read or not: above its
   * bound the link is dropped as `slow_consumer`.
   */
  forward(out: Encoded): void {
    const link = this.#link;
    if (link === undefined) return;
    const { sendBufferBytes, maxSendBufferBytes = 8 * sendBufferBytes } = this.limits;
    if (link.buffered <= sendBufferBytes) this.#piled = 0;
    else {
      this.#piled += typeof out === 'string' ? out.length : NOMINAL_CHARS;
      if (this.#piled > maxSendBufferBytes) return link.destroy('slow_consumer');
    }
    this.#transmit(out);
  }

  /** True when the link takes text: the form in which {@link forward} expects its messages. */
  get text(): boolean {
    return this.#text;
  }

  // Backpressure.

  /** True while events should wait for the reader. */
  get congested(): boolean {
    return this.#link === undefined ? this.#replay !== undefined : this.#link.buffered > HIGH_WATER_BYTES;
  }

  /** True while not even an event that no code waits for may be queued. */
  get overflowing(): boolean {
    return this.#link !== undefined && this.#link.buffered > this.limits.sendBufferBytes;
  }

  /** Resolves when the reader has caught up or the link is lost. */
  drained(): Promise<void> {
    if (this.#link === undefined) return this.#replay?.promise ?? Promise.resolve();
    this.#drained ??= this.#link.drained(LOW_WATER_BYTES).finally(() => {
      this.#drained = undefined;
    });
    return this.#drained;
  }

  /** @param of the request to which `out` is the reply */
  #put(kind: EntryKind, request: MessageId, out: Encoded, cursor: number, of?: RunningRequest): void {
    if (cursor > 0) {
      const body = typeof out === 'string' ? joined(out) : out;
      const stored = this.record?.record(cursor, kind, String(request), body, of !== undefined);
      if (stored !== undefined && of !== undefined && this.#link !== undefined) return this.#hold(out, stored, of);
    }
    this.#transmit(out);
  }

  #hold(out: Encoded, stored: Promise<void>, of: RunningRequest): void {
    this.#held ??= new HeldOutput((each) => this.#sendNow(each));
    this.#held.hold(out, stored, (error) => {
      const message = `the reply could not be stored, and so it was not sent: ${error.message}`;
      const unsent = new HandfastError(error.code, message, { cause: error });
      return this.#failure(of, of.idempotent || of.startedAt === 0 ? unsent : mayHaveRun(unsent), 0);
    });
  }

  /** Resolves when all replies that wait for the disk were sent; undefined when none does. */
  get held(): Promise<void> | undefined {
    return this.#held?.waiting === true ? this.#held.sent : undefined;
  }

  #transmit(out: Encoded): void {
    if (this.#held?.waiting === true) this.#held.push(out);
    else this.#sendNow(out);
  }

  #sendNow(out: Encoded): void {
    const link = this.#link;
    if (link === undefined) return;
    link.send(out);
    const { buffered } = link;
    if (buffered > HIGH_WATER_BYTES || buffered > this.limits.sendBufferBytes) {
      this.#slow ??= new SlowConsumerGuard(link, this.limits, (paused) =>
        this.#flow.pause(PAUSED_BY.slowConsumer, paused),
      );
      this.#slow.onBuffered(buffered);
    }
  }
}

/** Ignores everything: for links that were detached. */
const silent: LinkReceiver = { message() {}, malformed() {}, ended() {}, closed() {} };

/** Size a notice counts with where it has no text. */
const NOMINAL_CHARS = 256;
