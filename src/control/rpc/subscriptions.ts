/**
 * The events of one connection: all of them, as 1.0.0 has it, or those of its subscriptions, which begin anywhere in the
 * past. Replay and live meet without a hole and without a double, and a slow reader costs no memory: a subscription that
 * is behind is not fed but reads the journal as its link drains.
 *
 * Order within a session is that of its sequence numbers, always. What is sent live precedes the answer of the request
 * that caused it; a subscription that is catching up gets it when it has caught up.
 *
 * Owned by `connected-client.ts`. @see docs/protocol/session-rpc.md#subscriptions
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

/** Events read from the journal at once. A connection holds one page at a time, whatever its subscriptions. */
const PAGE_EVENTS = 128;
/** Pages in a row, a little later each, that may bring nothing although the journal says there is something. */
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
  /** Sends one event, written before. */
  event(event: PublishedEvent): void;
  /** Sends a notification. */
  notify(method: string, params: object): void;
}

/** Follows one session (or `''`, the server) from a place in its past. There is at most one for a session. */
class EventSubscription {
  /** Undefined for a replay that ends when it has caught up. */
  readonly id: string | undefined;
  readonly session: string;
  readonly role: Role;
  /** Undefined = every type. */
  readonly filter: EventFilter | undefined;
  /** Everything up to here was sent, or is not wanted, or is gone and was told so. */
  cursor: number;
  /** True while it reads the journal; what happens meanwhile is there too. */
  lagging = true;
  /** Another one took its place, or nobody wants it any more. */
  ended = false;
  /** A page that was read before it began. */
  first: EventPage | undefined;
  /** Who waits until it has caught up. */
  waiting: PromiseWithResolvers<number> | undefined;
  /** Pages in a row that brought nothing although there is something. */
  stalls = 0;

  constructor(session: string, cursor: number, kept: Partial<Pick<EventSubscription, 'id' | 'role' | 'filter'>> = {}) {
    this.session = session;
    this.cursor = cursor;
    this.id = kept.id;
    this.role = kept.role ?? 'observer';
    this.filter = kept.filter;
  }
}

export class ConnectionEvents implements EventSubscriber {
  readonly #connection: EventReceiver;
  readonly #fanOut: EventFanOut;
  readonly #readers = new Map<string, EventSubscription>();
  readonly #lagging = new Set<EventSubscription>();
  #pumping = false;
  /** Every event of every session is wanted: until the first subscription, unless the handshake said otherwise. */
  #all = true;
  #opened = false;
  #closed = false;
  #optedOut: EventFilter | undefined;
  #subscribed = false;
  #count = 0;
  /** `session.debug` is wanted. */
  debug = false;

  constructor(connection: EventReceiver, fanOut: EventFanOut) {
    this.#connection = connection;
    this.#fanOut = fanOut;
  }

  /** Events may come from now on. */
  open(): void {
    this.#opened = true;
    this.#listen();
  }

  /** The connection is gone: everything that waits is settled. */
  close(): void {
    this.#closed = true;
    this.#fanOut.leaveAll(this);
    for (const reader of [...this.#readers.values()]) {
      this.#remove(reader, fail('connection_lost', 'the connection ended'));
    }
    this.#lagging.clear();
  }

  /** What the handshake said: all events or none before the first subscription, and types that never come. */
  choose(all: boolean | undefined, optedOut: readonly string[] | undefined): void {
    if (optedOut !== undefined) this.#optedOut = optedOut.length === 0 ? undefined : new EventFilter(optedOut);
    if (all === undefined || this.#subscribed) return;
    this.#all = all;
    this.#listen();
  }

  /** For `system.clients`. */
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
      if (this.#connection.link.buffered > this.#connection.limits.pullBytes) return this.#lag(reader);
      this.#give(reader, event);
    } else if (this.#all && this.#maySee(event.owner) && this.#wants(event.type)) this.#connection.event(event);
  }

  // Subscriptions.

  /**
   * Begins a subscription; one of the same session that there was ends. Its first event comes behind the answer.
   * Fails with `session_not_found`, `schema_violation`, `over_capacity`, and as reading the journal does.
   */
  async subscribe(asked: Asked, call: RpcCall): Promise<Answer> {
    const session = asked.session_id ?? '';
    this.#mustSee(session);
    const replaces = this.#readers.get(session)?.id !== undefined;
    if (!replaces && this.list().length >= this.#connection.limits.maxSubscriptions) {
      throw fail('over_capacity', 'this connection has too many subscriptions', {
        max_subscriptions: this.#connection.limits.maxSubscriptions,
      });
    }
    const { source } = this.#fanOut;
    const filter = filterOf(asked.types);
    const after = startOf(asked.after_seq, source.lastSeq(session));
    const page = after < source.lastSeq(session) ? await source.read(session, after, PAGE_EVENTS) : undefined;
    if (call.signal.aborted) throw call.signal.reason;
    const gap = page?.gap ?? null;
    const id = `${this.#connection.id}.${++this.#count}`;
    const reader = new EventSubscription(session, Math.max(after, gap?.to_seq ?? 0), { id, filter, role: asked.role });
    reader.first = page;
    this.#subscribed = true;
    this.#all = false;
    this.#listen();
    this.#add(reader);
    call.afterAnswer(() => this.#begin(reader));
    return {
      subscription_id: id,
      session_id: session || null,
      after_seq: after,
      last_seq: source.lastSeq(session),
      gap: gap === null ? null : { from_seq: gap.from_seq, to_seq: gap.to_seq },
    };
  }

  /** Ends a subscription. False: there is none of this id. */
  unsubscribe(id: string): boolean {
    const reader = this.#readers.values().find((each) => each.id === id);
    if (reader === undefined) return false;
    this.#remove(reader, fail('superseded', 'the subscription was ended'));
    return true;
  }

  /** See `RpcCall.replay`. A subscription of the session begins again at its beginning, and stays. */
  async replay(session: string, signal: AbortSignal): Promise<number> {
    this.#mustSee(session);
    signal.throwIfAborted();
    const reader = new EventSubscription(session, 0, this.#readers.get(session));
    reader.waiting = Promise.withResolvers<number>();
    this.#add(reader);
    this.#lag(reader);
    const stop = (): void => {
      if (reader.id === undefined) return this.#remove(reader, asError(signal.reason));
      // The subscription goes on; only nobody waits for it any more.
      reader.waiting?.reject(asError(signal.reason));
      reader.waiting = undefined;
    };
    signal.addEventListener('abort', stop, { once: true });
    return reader.waiting.promise.finally(() => signal.removeEventListener('abort', stop));
  }

  // Where events go.

  #listen(): void {
    if (this.#opened && this.#all && !this.#closed) this.#fanOut.followAll(this);
    else this.#fanOut.leaveAll(this);
  }

  /** Sends one event of a reader that is next in its order. */
  #give(reader: EventSubscription, event: PublishedEvent): void {
    reader.cursor = event.seq;
    const { filter } = reader;
    // Not every event of the server is for everybody.
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

  /** Somebody else's session and no session look the same from outside. */
  #mustSee(session: string): void {
    if (session === '') return;
    const owner = this.#fanOut.source.ownerOf(session);
    if (owner === undefined || !this.#maySee(owner)) {
      throw fail('session_not_found', `unknown session: ${session}`, { session_id: session });
    }
  }

  #add(reader: EventSubscription): void {
    const before = this.#readers.get(reader.session);
    if (before !== undefined) this.#remove(before, fail('superseded', 'the events of this session begin anew'));
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

  /** The answer that announced a subscription has left. */
  #begin(reader: EventSubscription): void {
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

  /** Gives the readers that are behind one page each, in turn, until none is. Never rejects. */
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
    await this.#room();
    if (reader.ended) return;
    const { first, cursor } = reader;
    reader.first = undefined;
    const page = first ?? (await this.#fanOut.source.read(reader.session, cursor, PAGE_EVENTS));
    if (reader.ended) return;
    if (page.gap !== undefined && page.gap.to_seq > reader.cursor) {
      // The one of the first page is in the answer.
      if (first === undefined) this.#tellGap(reader, Math.max(page.gap.from_seq, reader.cursor + 1), page.gap.to_seq);
      reader.cursor = page.gap.to_seq;
    }
    for (const event of page.events) {
      if (event.seq <= reader.cursor) continue;
      if (this.#connection.link.buffered > this.#connection.limits.pullBytes) await this.#room();
      if (reader.ended) return;
      this.#give(reader, event);
    }
    // Numbers up to `last` that no event has: nothing will come for them.
    if (page.events.length === 0) reader.cursor = Math.max(reader.cursor, page.last);
    if (this.#caughtUp(reader) || first !== undefined || reader.cursor > cursor) reader.stalls = 0;
    else if (++reader.stalls > MAX_STALLS) throw fail('runtime_error', 'the journal does not go on');
    // What was emitted while the page was read is in the next one, or in one after it where writing takes its time.
    else await new Promise((resolve) => setTimeout(resolve, reader.stalls));
  }

  /** In the turn in which nothing newer exists, what happens next comes from the fan-out: no hole, no double. */
  #caughtUp(reader: EventSubscription): boolean {
    if (reader.cursor < this.#fanOut.source.lastSeq(reader.session)) return false;
    this.#lagging.delete(reader);
    reader.lagging = false;
    reader.first = undefined;
    const { waiting } = reader;
    reader.waiting = undefined;
    if (reader.id === undefined) this.#remove(reader, fail('superseded', 'the replay is over'));
    waiting?.resolve(reader.cursor);
    return true;
  }

  /** Waits until the link has room for events. */
  async #room(): Promise<void> {
    const { link, limits } = this.#connection;
    while (!this.#closed && link.buffered > limits.pullBytes) await link.drained(limits.pullBytes / 2);
  }

  /** A subscription that cannot go on says so: silence would look like nothing happened. */
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

  #tellGap(reader: EventSubscription, from_seq: number, to_seq: number): void {
    this.#note('events.gap', reader, { from_seq, to_seq }, to_seq);
  }

  /** An event about this connection's events. */
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

/** Where a subscription begins: behind `after`, or now. A number nobody was given would hide what is to come. */
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
