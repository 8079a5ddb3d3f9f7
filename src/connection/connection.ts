/**
 * One conversation with one peer over whatever link it has at the moment: reads messages, sends them, keeps the two
 * halves (`outgoing-calls.ts` out, `incoming-requests.ts` in), feels backpressure, and settles everything when it ends.
 *
 * The link can be replaced while calls and requests go on: that is what resuming is. Who may talk, what is granted and
 * where entries are journaled is the owner's business: `session/session.ts` on the host, `agent/agent.ts` at the agent.
 *
 * @see docs/architecture.md#connection-rules
 */
import { versionFits } from '../protocol/a2e.ts';
import type { Method } from '../protocol/method.ts';
import type { CloseInfo, Link, LinkReceiver, Malformed } from '../transport/link.ts';
import { type A2EWriter, errorBody, errorOf } from '../wire/a2e.ts';
import { toAscii } from '../wire/ascii.ts';
import { violation } from '../wire/check.ts';
import { parseNested } from '../wire/depth.ts';
import { fail, HandfastError } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import { IncomingRequests, type RequestLimits, type RequestOwner } from './incoming-requests.ts';
import { type CallLimits, type CallWire, OutgoingCalls } from './outgoing-calls.ts';
import type { Route, RunningRequest } from './running-request.ts';
import { HIGH_WATER_BYTES, LOW_WATER_BYTES, SlowConsumerGuard, type SlowReaderLimits } from './slow-consumer.ts';

export type Message = Record<string, unknown>;

export interface ConnectionLimits extends RequestLimits, SlowReaderLimits {
  /** Nesting of a message at most. */
  readonly maxDepth: number;
  /** Longest message sent, in bytes on the wire; a longer answer becomes the error `too_large`. */
  readonly maxMessageBytes: number;
}

/** What is left of the message of an error that is too long to be sent, in characters. */
const SHORT_MESSAGE = 1000;

/** Who a connection works for. */
export interface ConnectionOwner {
  /** Who serves this type, an error to answer with, or undefined for a type nobody knows. */
  route(type: string, message: Message): Route | HandfastError | undefined;
  /** Makes the running request (so that owners can extend it). */
  incoming(message: Message, route: Route, size: number): RunningRequest;
  /** Session-level messages that are no requests. True = handled. */
  control(type: string, message: Message): boolean;
  /** Input that was no message. `raw` is undefined when the link had refused it before it was text. */
  unreadable(error: HandfastError, raw: string | undefined): void;
  /** What a handler threw, as the error its caller is told. */
  failed(request: RunningRequest, thrown: unknown): HandfastError;
  /** A request has its answer. `size` = characters of the answer, 0 by reference. */
  answered(request: RunningRequest, error: HandfastError | undefined, size: number): void;
  /** A handler was given up and still runs (`+1`), or such a one has settled. */
  abandoned(change: 1 | -1): void;
  /** The peer sends nothing more but still reads. */
  ended(): void;
  /** The link is gone. */
  linkLost(cause: CloseInfo): void;
}

/** Writes down what passes; see `session/session.ts`. */
export interface Recorder {
  record(cursor: number, kind: string, request: string, body: string | Message): void;
}

export class Connection implements LinkReceiver, RequestOwner, CallWire {
  readonly writer: A2EWriter;
  readonly limits: ConnectionLimits;
  readonly #owner: ConnectionOwner;
  #link: Link | undefined;
  #text = true;
  #calls: OutgoingCalls | undefined;
  #requests: IncomingRequests | undefined;
  /** Watches a reader that has been behind. */
  #slow: SlowConsumerGuard | undefined;
  #drained: Promise<void> | undefined;
  /** Set while a link without its missed entries is on its way here. */
  #replay: PromiseWithResolvers<void> | undefined;

  /** The last cursor given out. Grows by one for each entry recorded. */
  cursor = 0;
  /** True when the peer agreed to resume: answers and events then carry their cursor. */
  stamped = false;
  record: Recorder | undefined;
  /** How long the host has been running; told to peers that agreed to an extension and so know more than plain A2E. */
  hostUptimeMs: (() => number) | undefined;
  /** Messages read from the peer since the handshake, pings left out; tells a resuming peer what was lost. */
  received = 0;
  /** Messages sent by us since the handshake, counted the same way. */
  sent = 0;
  /** Set by every message; the idle sweep clears it. */
  active = true;
  /** Messages dropped because nobody here waits for them: late answers, events and answers of no request. */
  dropped = 0;

  constructor(owner: ConnectionOwner, writer: A2EWriter, limits: ConnectionLimits) {
    this.#owner = owner;
    this.writer = writer;
    this.limits = limits;
  }

  get link(): Link | undefined {
    return this.#link;
  }

  get requests(): IncomingRequests {
    this.#requests ??= new IncomingRequests(this, this.limits);
    return this.#requests;
  }

  /** Requests that run or wait; 0 before the first one. */
  get busy(): number {
    return this.#requests === undefined ? 0 : this.#requests.running + this.#requests.waiting;
  }

  /** The outgoing half. The first use may set its limits. */
  calls(limits: CallLimits = { maxParallel: 4, queueLimit: 1024, timeoutMs: 60_000 }): OutgoingCalls {
    this.#calls ??= new OutgoingCalls(this, limits);
    return this.#calls;
  }

  /**
   * A new link is given what the old one missed. Until it is attached, or {@link endReplay}, events wait: they go into the
   * journal, where retention would otherwise overtake what is being read from it.
   */
  beginReplay(): void {
    this.#replay ??= Promise.withResolvers();
  }

  /** Nobody has to be waited for any more. */
  endReplay(): void {
    this.#replay?.resolve();
    this.#replay = undefined;
  }

  /** Takes a link over; what arrives on it comes here from now on. */
  attach(link: Link): void {
    this.endReplay();
    this.#link = link;
    this.#text = link.text;
    link.open(this);
  }

  /** Lets the link go without touching calls or requests; what it still says is ignored. */
  detach(): Link | undefined {
    const link = this.#link;
    this.#link = undefined;
    this.#notSlow();
    link?.open(silent);
    return link;
  }

  /** Ends both halves: every call and request is settled with the error. The link is the owner's to close. */
  settle(error: () => HandfastError): void {
    this.#calls?.close(error);
    if (this.busy > 0) this.#requests?.stopAll(error());
    else this.#requests?.rest();
  }

  // Receiver: what the link delivers.

  message(raw: string | Message): string | undefined {
    this.active = true;
    let message: unknown = raw;
    let size = 0;
    if (typeof raw === 'string') {
      size = raw.length;
      try {
        message = parseNested(raw, this.limits.maxDepth);
      } catch (thrown) {
        const notJson = thrown instanceof SyntaxError;
        return this.#unreadable(notJson ? fail('parse_error', 'the line is not JSON') : (thrown as HandfastError), raw);
      }
      if (!isObject(message)) {
        return this.#unreadable(fail('invalid_message', 'a message is a JSON object'), raw);
      }
    }
    this.#read(message as Message, size, raw);
    return undefined;
  }

  #unreadable(error: HandfastError, raw: string): string {
    this.#owner.unreadable(error, raw);
    return error.code;
  }

  malformed(problem: Malformed): void {
    this.active = true;
    this.#owner.unreadable(unreadable(problem), undefined);
  }

  ended(): void {
    this.#owner.ended();
  }

  closed(cause: CloseInfo): void {
    this.#link = undefined;
    this.#notSlow();
    this.#owner.linkLost(cause);
  }

  #read(message: Message, size: number, raw: string | Message): void {
    const { type, req_id } = message;
    const calls = this.#calls;
    const call = calls === undefined || typeof req_id !== 'string' ? undefined : calls.find(req_id);
    if (calls !== undefined && call !== undefined) {
      if (typeof message.cursor === 'number') this.cursor = message.cursor;
      if (type === 'error') calls.failure(call, errorOf(message));
      else if (typeof type === 'string' && type.endsWith('/event')) calls.event(call, message);
      else calls.reply(call, message);
      return;
    }
    if (type === 'ping') return this.#pong(message);
    this.received++;
    if (typeof type !== 'string' || type === '') {
      return this.refuse(message, fail('invalid_message', '"type" must be a non-empty string'));
    }
    const route = this.#owner.route(type, message);
    if (route === undefined || !('run' in route)) {
      const handled = route === undefined && this.#owner.control(type, message);
      if (handled || (route === undefined && isAnswer(type))) {
        if (typeof message.cursor === 'number') this.cursor = message.cursor;
        if (!handled) this.dropped++;
        return;
      }
      return this.refuse(message, route ?? fail('unknown_type', `unsupported message type ${shown(type)}`));
    }
    const { id } = message;
    if (typeof id !== 'string' || id === '') {
      return this.refuse(message, fail('invalid_message', 'a request needs an id, a text that is not empty'));
    }
    if (!versionFits(message.a2e) || !versionFits(message.version)) {
      return this.refuse(message, fail('version_mismatch', 'this host speaks A2E 1.x'));
    }
    const requests = this.requests;
    if (requests.has(id)) {
      return this.refuse(message, fail('invalid_message', 'a request with this id is still running'));
    }
    const check = route.method.checkRequest;
    if (!check(message)) return this.refuse(message, violation(type, check.errors), route.method.capability);
    this.record?.record(++this.cursor, 'request', id, raw);
    requests.admit(this.#owner.incoming(message, route, size));
  }

  // What is sent.

  /** Answers something that did not become a request: `error` with whatever id it had. */
  refuse(message: Message, error: HandfastError, capability: string = error.capability): void {
    const id = typeof message.id === 'string' ? message.id : '';
    const cursor = this.record === undefined ? 0 : ++this.cursor;
    const out = this.writer.reply(
      this.#text,
      'error',
      JSON.stringify(id),
      id,
      errorBody(error, capability),
      this.stamped ? cursor : 0,
    );
    this.#put('error', id, out, cursor);
  }

  /** Sends one event; throws, and uses no cursor up, when it cannot be written or is longer than a message may be. */
  sendEvent(request: RunningRequest, kind: string, data: object, seq: number): void {
    const { unrecorded, method } = request.route;
    const cursor = this.record === undefined || unrecorded === true ? 0 : this.cursor + 1;
    const type = method.event;
    const stamp = this.stamped ? cursor : 0;
    const out = this.writer.event(
      this.#text,
      type,
      this.#text ? request.quotedId : '',
      request.id,
      kind,
      data,
      seq,
      stamp,
    );
    if (!this.#fits(out)) throw this.#tooLong('event', out);
    if (cursor > 0) this.cursor = cursor;
    this.#put('event', request.id, out, cursor);
  }

  answer(request: RunningRequest, reply: object | undefined, error: HandfastError | undefined): void {
    if (request.done) return;
    request.flush();
    request.done = true;
    const cursor = this.record === undefined ? 0 : ++this.cursor;
    const stamp = this.stamped ? cursor : 0;
    const { method } = request.route;
    let failure = error;
    let out: string | Message = '';
    if (failure === undefined) {
      try {
        out = this.writer.reply(
          this.#text,
          method.reply,
          this.#text ? request.quotedId : '',
          request.id,
          reply ?? {},
          stamp,
          method.writeReply,
        );
        if (!this.#fits(out)) failure = this.#tooLong('answer', out);
      } catch (thrown) {
        failure = fail('runtime_error', 'the answer cannot be written as JSON', undefined, thrown);
      }
    }
    if (failure !== undefined) out = this.#failure(request, failure, stamp);
    this.#put(failure === undefined ? 'reply' : 'error', request.id, out, cursor);
    this.#owner.answered(request, failure, typeof out === 'string' ? out.length : 0);
  }

  /** An error answer that can always be sent: detail that JSON cannot carry or no message may hold is left out. */
  #failure(request: RunningRequest, failure: HandfastError, stamp: number): string | Message {
    const write = (error: HandfastError): string | Message =>
      this.writer.reply(
        this.#text,
        'error',
        this.#text ? request.quotedId : '',
        request.id,
        errorBody(error, error.capability || request.route.method.capability),
        stamp,
      );
    try {
      const out = write(failure);
      if (this.#fits(out)) return out;
    } catch {
      // Handlers may put anything into the detail of their errors.
    }
    const { code, message, retryable, capability } = failure;
    return write(new HandfastError(code, message.slice(0, SHORT_MESSAGE), { retryable, capability }));
  }

  /** True when the peer's limit lets it through. A character above ASCII takes six bytes on the wire. */
  #fits(out: string | Message): boolean {
    const { maxMessageBytes } = this.limits;
    return typeof out !== 'string' || out.length * 6 <= maxMessageBytes || toAscii(out).length <= maxMessageBytes;
  }

  #tooLong(what: string, out: string | Message): HandfastError {
    return fail('too_large', `the ${what} is longer than a message may be`, {
      limit: this.limits.maxMessageBytes,
      size: toAscii(out as string).length,
    });
  }

  failed(request: RunningRequest, thrown: unknown): HandfastError {
    return this.#owner.failed(request, thrown);
  }

  abandoned(change: 1 | -1): void {
    this.#owner.abandoned(change);
  }

  /** Sends a message that is neither request nor answer; `cursor` 0 = not journaled. */
  push(type: string, body: object): void {
    this.#transmit(this.writer.message(this.#text, type, this.writer.id(), body));
  }

  // CallWire: what our own calls need.

  id(): string {
    return this.writer.id();
  }

  request(method: Method, id: string, body: object): number | undefined {
    const out = this.writer.message(this.#text, method.request, id, body);
    if (!this.#fits(out)) throw this.#tooLong('request', out);
    if (this.#link === undefined) return undefined;
    const ordinal = method.request === 'ping' ? 0 : ++this.sent;
    this.#transmit(out);
    return ordinal;
  }

  cancel(id: string): void {
    if (!this.cancels || this.#link === undefined) return;
    this.sent++;
    this.push('cancel', { req_id: id });
  }

  /** True when the peer agreed to `cancel`. */
  cancels = false;

  // Backpressure.

  /** True while events should wait for the reader. */
  get congested(): boolean {
    return this.#link === undefined ? this.#replay !== undefined : this.#link.buffered > HIGH_WATER_BYTES;
  }

  /** True while not even an unawaited event may be queued. */
  get overflowing(): boolean {
    return this.#link !== undefined && this.#link.buffered > this.limits.sendBufferBytes;
  }

  /** Resolves when the reader has caught up or the link is gone. */
  drained(): Promise<void> {
    if (this.#link === undefined) return this.#replay?.promise ?? Promise.resolve();
    this.#drained ??= this.#link.drained(LOW_WATER_BYTES).finally(() => {
      this.#drained = undefined;
    });
    return this.#drained;
  }

  #pong(message: Message): void {
    const id = typeof message.id === 'string' ? message.id : '';
    const body: Record<string, number> = { uptime_seconds: Math.round(performance.now() - this.#openedAt) / 1000 };
    if (this.hostUptimeMs !== undefined) body.host_uptime_seconds = Math.round(this.hostUptimeMs()) / 1000;
    this.#transmit(this.writer.reply(this.#text, 'pong', JSON.stringify(id), id, body, 0));
  }

  readonly #openedAt = performance.now();

  #put(kind: string, request: string, out: string | Message, cursor: number): void {
    if (cursor > 0) this.record?.record(cursor, kind, request, typeof out === 'string' ? joined(out) : out);
    this.#transmit(out);
  }

  /** Sends text or an object that was recorded before, in whichever form this link takes. */
  replay(body: string | object): void {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    this.#transmit(this.#text ? text : ((typeof body === 'string' ? JSON.parse(body) : body) as Message));
  }

  #transmit(out: string | Message): void {
    const link = this.#link;
    if (link === undefined) return;
    link.send(out);
    const { buffered } = link;
    if (buffered > HIGH_WATER_BYTES || buffered > this.limits.sendBufferBytes) {
      this.#slow ??= new SlowConsumerGuard(link, this.limits);
      this.#slow.onBuffered(buffered);
    }
  }

  #notSlow(): void {
    this.#slow?.stop();
    this.#slow = undefined;
  }
}

/** Listens to nothing: for links that were let go. */
const silent: LinkReceiver = { message() {}, malformed() {}, ended() {}, closed() {} };

/** Types that answer or announce; a receiver with no use for one ignores it. */
export function isAnswer(type: string): boolean {
  return type === 'error' || type === 'pong' || /\/(resp|event|push)$|^SUBAGENT_(\w+_RESP|EVENT)$/.test(type);
}

/** The error for input a link could not turn into a message. */
export function unreadable(problem: Malformed): HandfastError {
  return problem.reason === 'bad_utf8'
    ? fail('parse_error', 'the line is not valid UTF-8')
    : fail('too_large', 'the line exceeds the message size limit', { limit: problem.limit, unit: 'bytes' });
}

/** A type name as it may be told back: short, printable. */
export function shown(type: string): string {
  return JSON.stringify(type.length > 64 ? `${type.slice(0, 64)}…` : type);
}

/** Texts up to this length are joined before they are kept; a longer one has few pieces, and joining would copy it. */
const JOINED_CHARS = 16 * 1024;

/**
 * The same text in one piece. A text that was put together is a tree of its parts until somebody looks at a character;
 * kept for a while as such, its twenty parts cost the garbage collector more than all the rest of a call.
 */
function joined(text: string): string {
  return text.length > JOINED_CHARS || text.charCodeAt(0) !== 0 ? text : '';
}
