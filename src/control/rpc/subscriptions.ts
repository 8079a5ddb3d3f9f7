/**
 * Sends the events of one connection: all of them, as 1.0.0 does, or those of its subscriptions, which may start in the past.
 * Replay continues into live events without a gap or a duplicate. A slow reader costs no memory: its subscription is not fed
 * but reads the journal as its link drains.
 *
 * Events of a session are always sent in the order of their sequence numbers. A live event precedes the reply of the request
 * that caused it; a lagging subscription gets it from the journal later.
 *
 * @see docs/protocol/session-rpc.md#subscriptions
 */

import type { Log } from '../../base/log.ts';
import { type ParamsOf, type ResultOf, wrongParam } from '../../protocol/rpc-reader.ts';
import type { ConnectionEventPayloads } from '../../protocol/session-events.ts';
import { eventsSubscribe } from '../../protocol/session-rpc.ts';
import type { Principal } from '../../session/principal.ts';
import { may } from '../../session/rights.ts';
import type { Link } from '../../transport/link.ts';
import { asError, fail, type HandfastError } from '../../wire/errors.ts';
import type { EventPage, PublishedEvent } from '../contract/events.ts';
import type { RpcCall } from '../contract/handlers.ts';
import type { EventFanOut, EventSubscriber } from './event-fan-out.ts';
import { EventFilter, MAX_PATTERN_CHARS, MAX_PATTERNS } from './event-filter.ts';
import type { RpcLimits } from './rpc-limits.ts';

/** Events in one page of the journal. A connection has one page in memory, for any number of subscriptions. */
const PAGE_EVENTS = 128;
/** Consecutive empty pages, each read a little later, although the journal reports newer events. */
const MAX_STALLS = 30;

type Asked = ParamsOf<typeof eventsSubscribe>;
type Answer = ResultOf<typeof eventsSubscribe>;
type Role = NonNullable<Asked['role']>;

/** The client that gets the events. */
export interface EventReceiver {
  readonly id: string;
  readonly link: Link;
  readonly principal: Principal;
  readonly limits: Pick<RpcLimits, 'pullBytes' | 'maxSubscriptions'>;
  readonly log: Log;
  readonly now: () => number;
  /** Sends one event that is serialised already. */
  event(event: PublishedEvent): void;
  /** Sends a notification. */
  notify(method: string, params: object): void;
}

/** Follows one session (or `''`, the server) from a sequence number. A connection has at most one for each session. */
class EventSubscription {
  /** Undefined for a replay that ends when it has caught up. */
  readonly id: string | undefined;
  readonly session: string;
  readonly role: Role;
  /** Undefined = every type. */
  readonly filter: EventFilter | undefined;
  /** Last handled number: every event up to it was sent, filtered out, or reported as a gap. */
  cursor: number;
  /** True while it reads the journal, which also has the events emitted meanwhile. */
  lagging = true;
  /** True when it was replaced or ended. */
  ended = false;
  /** A page that was read before the subscription started. */
  first: EventPage | undefined;
  /** Settles when it has caught up, for a caller of `replay`. */
  waiting: PromiseWithResolvers<number> | undefined;
  /** Consecutive empty pages although newer events exist. */
  stalls = 0;

  constructor(session: string, cursor: number, from: Partial<Pick<EventSubscription, 'id' | 'role' | 'filter'>> = {}) {
    this.session = session;
    this.cursor = cursor;
    this.id = from.id;
    this.role = from.role ?? 'observer';
    this.filter = from.filter;
  }
}

export class ConnectionEvents implements EventSubscriber {
  readonly #connection: EventReceiver;
  readonly #fanOut: EventFanOut;
  readonly #readers = new Map<string, EventSubscription>();
  readonly #lagging = new Set<EventSubscription>();
  #pumping = false;
  /** Send every event of every session: until the first subscription, unless the handshake disabled it. */
  #all = true;
  #opened = false;
  #closed = false;
  #optedOut: EventFilter | undefined;
  #subscribed = false;
  #count = 0;
  /** Send `session.debug` too. */
  debug = false;

  constructor(connection: EventReceiver, fanOut: EventFanOut) {
    this.#connection = connection;
    this.#fanOut = fanOut;
  }

  /** Starts sending events. */
  open(): void {
    this.#opened = true;
    this.#listen();
  }

  /** Settles everything that waits, after the connection has ended. */
  close(): void {
    this.#closed = true;
    this.#fanOut.leaveAll(this);
    for (const reader of [...this.#readers.values()]) {
      this.#remove(reader, fail('connection_lost', 'the connection ended'));
    }
    this.#lagging.clear();
  }

  /** Ends the subscriptions of sessions that the principal may no longer read. */
  rightsChanged(): void {
    for (const reader of [...this.#readers.values()]) {
      try {
        this.#mustSee(reader.session);
      } catch (error) {
        this.#broken(reader, asError(error));
      }
    }
  }

  /** Applies the handshake: all events or none before the first subscription, and the types never to send. */
  choose(all: boolean | undefined, optedOut: readonly string[] | undefined): void {
    if (optedOut !== undefined) this.#optedOut = optedOut.length === 0 ? undefined : new EventFilter(optedOut);
    if (all === undefined || this.#subscribed) return;
    this.#all = all;
    this.#listen();
  }

  /** Lists the subscriptions for `system.clients`. */
  list(): { session_id: string | null; role: string }[] {
    return [...this.#readers.values()]
      .filter(({ id }) => id !== undefined)
      .map(({ session, role }) => ({ session_id: session || null, role }));
  }

  // EventSubscriber.

  take(event: PublishedEvent): void {
    const reader = this.#readers.size === 0 ? undefined : this.#readers.get(event.session);
    if (reader !== undefined) {
      if (reader.lagging || event.seq <= reader.cursor) return;
      // Events between were dropped: the disk failed.
      if (event.seq > reader.cursor + 1) this.#reportGap(reader, reader.cursor + 1, event.seq - 1);
      if (this.#connection.link.buffered > this.#connection.limits.pullBytes) return this.#lag(reader);
      this.#send(reader, event);
    } else if (this.#all && this.#maySee(event.owner) && this.#wants(event.type)) this.#connection.event(event);
  }

  // Subscriptions.

  /**
   * Starts a subscription; it replaces an earlier one of the same session. Its first event follows the reply.
   * Fails with `session_not_found`, `schema_violation`, `over_capacity`, and as reading the journal does.
   */
  async subscribe(asked: Asked, call: RpcCall): Promise<Answer> {
    const session = asked.session_id ?? '';
    this.#mustSee(session);
    this.#mustHavePlace(session);
    const { source } = this.#fanOut;
    const filter = filterOf(asked.types);
    const after = startOf(asked.after_seq, source.lastSeq(session));
    const page = after < source.lastSeq(session) ? await source.read(session, after, PAGE_EVENTS) : undefined;
    if (call.signal.aborted) throw call.signal.reason;
    // Others may have subscribed while this one read.
    this.#mustHavePlace(session);
    const gap = page?.gap ?? null;
    const id = `${this.#connection.id}.${++this.#count}`;
    const reader = new EventSubscription(session, Math.max(after, gap?.to_seq ?? 0), { id, filter, role: asked.role });
    reader.first = page;
    this.#subscribed = true;
    this.#all = false;
    this.#listen();
    this.#add(reader);
    call.afterAnswer(() => this.#start(reader));
    return {
      subscription_id: id,
      session_id: session || null,
      after_seq: after,
      last_seq: source.lastSeq(session),
      gap: gap === null ? null : { from_seq: gap.from_seq, to_seq: gap.to_seq },
    };
  }

  #mustHavePlace(session: string): void {
    const replaces = this.#readers.get(session)?.id !== undefined;
    const { maxSubscriptions } = this.#connection.limits;
    if (replaces || this.list().length < maxSubscriptions) return;
    throw fail('over_capacity', 'this connection has too many subscriptions', { max_subscriptions: maxSubscriptions });
  }

  /** Ends a subscription. False: no subscription has this id. */
  unsubscribe(id: string): boolean {
    const reader = this.#readers.values().find((each) => each.id === id);
    if (reader === undefined) return false;
    this.#remove(reader, fail('superseded', 'the subscription was ended'));
    return true;
  }

  /** See `RpcCall.replay`. An existing subscription of the session restarts behind `after` and stays. */
  async replay(session: string, signal: AbortSignal, after = 0): Promise<number> {
    this.#mustSee(session);
    signal.throwIfAborted();
    const cursor = Math.min(Math.max(0, Math.floor(after)), this.#fanOut.source.lastSeq(session));
    const reader = new EventSubscription(session, cursor, this.#readers.get(session));
    reader.waiting = Promise.withResolvers<number>();
    this.#add(reader);
    this.#lag(reader);
    const stop = (): void => {
      if (reader.id === undefined) return this.#remove(reader, asError(signal.reason));
      // The subscription continues; only the wait of the caller ends.
      reader.waiting?.reject(asError(signal.reason));
      reader.waiting = undefined;
    };
    signal.addEventListener('abort', stop, { once: true });
    return reader.waiting.promise.finally(() => signal.removeEventListener('abort', stop));
  }

  // Sending.

  #listen(): void {
    if (this.#opened && this.#all && !this.#closed) this.#fanOut.followAll(this);
    else this.#fanOut.leaveAll(this);
  }

  /** Sends the next event of a reader. */
  #send(reader: EventSubscription, event: PublishedEvent): void {
    reader.cursor = event.seq;
    const { filter } = reader;
    // Events of the server may belong to one principal.
    if (!this.#maySee(event.owner) || !this.#wants(event.type)) return;
    if (filter === undefined || filter.matches(event.type)) this.#connection.event(event);
  }

  #wants(type: string): boolean {
    if (type === 'session.debug' && !this.debug) return false;
    return this.#optedOut === undefined || !this.#optedOut.matches(type);
  }

  #maySee(owner: string): boolean {
    return may(this.#connection.principal, 'read', owner === '' ? undefined : owner);
  }

  /** Fails with the same error for a session of another principal and for an unknown session. */
  #mustSee(session: string): void {
    if (session === '') return;
    const owner = this.#fanOut.source.ownerOf(session);
    if (owner === undefined || !this.#maySee(owner)) {
      throw fail('session_not_found', `unknown session: ${session}`, { session_id: session });
    }
  }

  #add(reader: EventSubscription): void {
    const before = this.#readers.get(reader.session);
    if (before !== undefined)
      this.#remove(before, fail('superseded', 'a newer subscription of this session replaced this one'));
    this.#readers.set(reader.session, reader);
    this.#fanOut.follow(reader.session, this);
  }

  #remove(reader: EventSubscription, reason: HandfastError): void {
    if (reader.ended) return;
    reader.ended = true;
    this.#lagging.delete(reader);
    if (this.#readers.get(reader.session) === reader) {
      this.#readers.delete(reader.session);
      this.#fanOut.leave(reader.session, this);
    }
    reader.waiting?.reject(reason);
  }

  /** Starts a subscription, after the reply that announced it was sent. */
  #start(reader: EventSubscription): void {
    if (!reader.ended && !this.#caughtUp(reader)) this.#lag(reader);
  }

  // Reading the journal.

  #lag(reader: EventSubscription): void {
    reader.lagging = true;
    this.#lagging.add(reader);
    if (this.#pumping) return;
    this.#pumping = true;
    void this.#pump();
  }

  /** Sends one page to each lagging reader, in turn, until none lags. Never rejects. */
  async #pump(): Promise<void> {
    while (this.#lagging.size > 0) {
      for (const reader of [...this.#lagging]) {
        try {
          await this.#page(reader);
        } catch (thrown) {
          this.#broken(reader, asError(thrown));
        }
      }
    }
    this.#pumping = false;
  }

  async #page(reader: EventSubscription): Promise<void> {
    await this.#belowLimit();
    if (reader.ended) return;
    const { first, cursor } = reader;
    reader.first = undefined;
    const page = first ?? (await this.#fanOut.source.read(reader.session, cursor, PAGE_EVENTS));
    if (reader.ended) return;
    if (page.gap !== undefined && page.gap.to_seq > reader.cursor) {
      // The reply has reported the gap of the first page.
      if (first === undefined) this.#reportGap(reader, Math.max(page.gap.from_seq, reader.cursor + 1), page.gap.to_seq);
      reader.cursor = page.gap.to_seq;
    }
    for (const event of page.events) {
      if (event.seq <= reader.cursor) continue;
      if (this.#connection.link.buffered > this.#connection.limits.pullBytes) await this.#belowLimit();
      if (reader.ended) return;
      this.#send(reader, event);
    }
    // No event has the numbers up to `last`, so skip them.
    if (page.events.length === 0) reader.cursor = Math.max(reader.cursor, page.last);
    if (this.#caughtUp(reader) || first !== undefined || reader.cursor > cursor) reader.stalls = 0;
    else if (++reader.stalls > MAX_STALLS) throw fail('runtime_error', 'the journal lacks events that it reports');
    // Events emitted during the read are in the next page, or in a later one if the journal writes slowly.
    else await new Promise((resolve) => setTimeout(resolve, reader.stalls));
  }

  /** Switches to live events in the turn of the event loop in which no newer event exists, without gap or duplicate. */
  #caughtUp(reader: EventSubscription): boolean {
    if (reader.cursor < this.#fanOut.source.lastSeq(reader.session)) return false;
    this.#lagging.delete(reader);
    reader.lagging = false;
    reader.first = undefined;
    const { waiting } = reader;
    reader.waiting = undefined;
    if (reader.id === undefined) this.#remove(reader, fail('superseded', 'the replay has ended'));
    waiting?.resolve(reader.cursor);
    return true;
  }

  /** Waits until the unsent bytes of the link are below the low-water mark. */
  async #belowLimit(): Promise<void> {
    const { link, limits } = this.#connection;
    while (!this.#closed && link.buffered > limits.pullBytes) await link.drained(limits.pullBytes / 2);
  }

  /** Ends a subscription that cannot continue, and reports it: silence would look like a quiet session. */
  #broken(reader: EventSubscription, error: HandfastError): void {
    if (reader.ended) return;
    const expected = error.code === 'session_not_found';
    const { log } = this.#connection;
    if (!expected) log.error('events cannot be read from the journal', { session: reader.session, error });
    const waited = reader.waiting !== undefined;
    this.#remove(reader, error);
    if (waited) return;
    this.#note('events.ended', reader, { kind: error.code, message: expected ? error.message : 'the journal failed' });
  }

  #reportGap(reader: EventSubscription, from_seq: number, to_seq: number): void {
    this.#note('events.gap', reader, { from_seq, to_seq }, to_seq);
  }

  /** Sends an event about this connection's events. */
  #note<Type extends keyof ConnectionEventPayloads>(
    type: Type,
    reader: EventSubscription,
    facts: Omit<ConnectionEventPayloads[Type], 'session_id' | 'subscription_id'>,
    seq?: number,
  ): void {
    const payload = { session_id: reader.session || null, subscription_id: reader.id, ...facts };
    const params = { type, timestamp: new Date(this.#connection.now()).toISOString(), payload, seq };
    this.#connection.notify('event', params);
  }
}

function filterOf(types: readonly string[] | undefined): EventFilter | undefined {
  if (types === undefined) return undefined;
  if (types.length > MAX_PATTERNS || types.some((type) => type.length > MAX_PATTERN_CHARS)) {
    const most = `at most ${MAX_PATTERNS} names of at most ${MAX_PATTERN_CHARS} characters`;
    throw wrongParam(eventsSubscribe.name, 'types', most);
  }
  return new EventFilter(types);
}

/**
 * Returns the first number of a subscription: after `after`, or now. A number that was never issued would hide later events.
 */
function startOf(after: number | undefined, last: number): number {
  if (after === undefined) return last;
  if (!Number.isInteger(after) || after < 0) throw wrongParam(eventsSubscribe.name, 'after_seq', 'a whole number');
  if (after > last) {
    throw fail('schema_violation', `invalid params for ${eventsSubscribe.name}: \`after_seq\` was never given out`, {
      field: 'after_seq',
      last_seq: last,
    });
  }
  return after;
}
