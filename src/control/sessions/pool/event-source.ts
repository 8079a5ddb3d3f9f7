/**
 * The events that connections get: live ones from the hub, stored ones from the journal, by sequence number.
 */
import { Turns } from '../../../base/turns.ts';
import type { Journal } from '../../../journal/journal.ts';
import type { EventPage, EventSource, PublishedEvent } from '../../contract/events.ts';
import type { EventHub } from '../log/event-hub.ts';
import { streamOf } from '../log/open-session.ts';
import { cursorOf, isEventCursor, StoredEvent, seqAt } from '../log/published.ts';
import { SERVER_STREAM, type ServerEventLog } from '../log/server-events.ts';
import { sessionHolder } from '../store/store-images.ts';
import { type SessionPool, unknownSession } from './session-pool.ts';

/** Entries read from the journal at a time. */
const READ_ENTRIES = 512;
/** Bytes read at a time: any event may be long. A page of events has about as many. */
const READ_BYTES = 1024 * 1024;

/** All reads together take no more of a turn than one. */
const turns = new Turns();

export class SessionEvents implements EventSource {
  readonly #pool: SessionPool;
  readonly #journal: Journal;
  readonly #hub: EventHub;
  readonly #server: ServerEventLog;

  constructor(pool: SessionPool, journal: Journal, hub: EventHub, server: ServerEventLog) {
    this.#pool = pool;
    this.#journal = journal;
    this.#hub = hub;
    this.#server = server;
  }

  listen(listener: (event: PublishedEvent) => void, wantsDebug?: () => boolean): () => void {
    return this.#hub.listen(listener, wantsDebug);
  }

  async read(session: string, after: number, limit: number): Promise<EventPage> {
    const owner = this.ownerOf(session);
    if (owner === undefined) throw unknownSession(session);
    // The journal has events that are not on disk yet: no client may know them.
    const known = this.lastSeq(session);
    const isServer = session === '';
    const stream = isServer ? SERVER_STREAM : streamOf(session);
    const from = Math.max(0, Math.floor(after));
    const shelf = this.#pool.parts.store.images.shelf(sessionHolder(session));
    const events: StoredEvent[] = [];
    // Numbers have no gaps: where one is missing, its event was evicted or lost.
    let next = from + 1;
    let gap: EventPage['gap'];
    let cursor = isServer ? from : cursorOf(next) - 1;
    let bytes = 0;
    while (events.length < limit && bytes < READ_BYTES) {
      // Entries that are no events may be many, and long.
      while (turns.over) await turns.next();
      const page = await this.#journal.read(
        stream,
        cursor,
        Math.min(limit - events.length, READ_ENTRIES) + 1,
        READ_BYTES,
      );
      for (const entry of page.entries) {
        cursor = entry.cursor;
        if (!isServer && !isEventCursor(cursor)) continue;
        const seq = isServer ? cursor : seqAt(cursor);
        if (seq > known) return { events, gap, last: known };
        if (seq !== next) {
          // A page ends before a gap further on; the next page begins with the gap.
          if (events.length > 0) return { events, gap, last: known };
          gap = { from_seq: next, to_seq: seq - 1 };
        }
        next = seq + 1;
        const whose = isServer ? entry.request : owner;
        const text = textOf(entry.body);
        bytes += text.length;
        events.push(new StoredEvent(session, whose, entry.kind, seq, text, isServer ? undefined : shelf));
        if (events.length === limit) break;
      }
      if (page.entries.length > 0) continue;
      // A crash, or a disk that failed, lost the newest ones.
      if (events.length === 0 && gap === undefined && known >= next) gap = { from_seq: next, to_seq: known };
      break;
    }
    return { events, gap, last: known };
  }

  lastSeq(session: string): number {
    return session === '' ? this.#server.seq : this.#pool.seqOf(session);
  }

  settled(session?: string): Promise<unknown> | undefined {
    return this.#pool.settled(session);
  }

  ownerOf(session: string): string | undefined {
    return session === '' ? '' : this.#pool.ownerOf(session);
  }
}

const textOf = (body: string | object): string => (typeof body === 'string' ? body : JSON.stringify(body));
