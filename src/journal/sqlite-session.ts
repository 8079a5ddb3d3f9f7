/**
 * One session inside the SQLite journal: its counters as last committed, the entries that wait for the next commit, and
 * retention. `sqlite-store.ts` owns it and decides when a commit happens.
 *
 * Retention costs no query per append. The cursors and sizes of the next candidates are read sixty-four at a time; an
 * eviction moves `evicted` forward in the `sessions` row, and the rows below it are deleted sixty-four at a time too.
 */
import { fail, type HandfastError } from '../wire/errors.ts';
import type { Followable, Follower } from './follow.ts';
import type { JournalEntry, Page, Retention } from './journal.ts';
import { type Counters, decode, type JournalRows, type StoredEntry } from './sqlite-rows.ts';

/** Candidates for eviction read at a time, and evicted rows that may wait for their deletion. */
const EVICTION_CHUNK = 64;
/** Evicted rows are also deleted once they hold this share of the session's bytes. */
const LINGERING_SHARE = 8;
/** What a follower takes at a time, and so what one that stands still keeps in memory. */
const FOLLOW_PAGE = 64;
const FOLLOW_PAGE_BYTES = 256 * 1024;

const NOTHING: Counters = Object.freeze({ first: 1, last: 0, evicted: 0, entries: 0, bytes: 0 });

/** What becomes true of a session when the transaction under way commits. */
interface Staged {
  readonly counters: Counters;
  readonly candidates: readonly { cursor: number; size: number }[];
  readonly lingering: { entries: number; bytes: number };
}

export class SqliteSession implements Followable {
  readonly id: string;
  readonly #rows: JournalRows;
  readonly #retention: Retention;
  #committed: Counters;
  #pending: StoredEntry[] = [];
  /** Oldest entries after `committed.evicted`, as far as they were looked up; empty when unknown. */
  #candidates: Staged['candidates'] = [];
  /** Evicted rows not yet deleted, as far as this process knows. */
  #lingering: Staged['lingering'] = { entries: 0, bytes: 0 };
  #staged: Staged | undefined;
  #followers: Set<Follower> | null = null;

  /** `counters` are those of the `sessions` table; undefined for a session that is not in it yet. */
  constructor(id: string, rows: JournalRows, retention: Retention, counters: Counters | undefined) {
    this.id = id;
    this.#rows = rows;
    this.#retention = retention;
    this.#committed = counters ?? NOTHING;
  }

  /** The last cursor, with the entries that are not committed yet. */
  get last(): number {
    return this.#pending.at(-1)?.entry.cursor ?? this.#committed.last;
  }

  /** True when nothing is lost by forgetting this object: it can be loaded again. */
  get idle(): boolean {
    return this.#pending.length === 0 && this.#followers === null;
  }

  /** Takes entries in for the next commit; they are readable from now on. */
  add(entries: readonly StoredEntry[]): void {
    for (const entry of entries) this.#pending.push(entry);
    for (const follower of this.#followers ?? []) follower.wake();
  }

  /** As `Journal.read`; stops early once the bodies passed `maxBytes`. Throws what SQLite throws. */
  page(after: number, limit = FOLLOW_PAGE, maxBytes = FOLLOW_PAGE_BYTES): Page {
    const { evicted, last } = this.#committed;
    const from = Math.max(after, evicted);
    const entries: JournalEntry[] = from < last && limit > 0 ? this.#rows.page(this.id, from, limit, maxBytes) : [];
    if ((entries.at(-1)?.cursor ?? from) >= last) {
      for (const stored of this.#pending) {
        if (entries.length >= limit) break;
        if (stored.entry.cursor > from) entries.push(decode(stored));
      }
    }
    return {
      entries,
      gap: after < evicted ? { kind: 'gap', from: after + 1, to: evicted } : undefined,
      last: this.last,
    };
  }

  /** Writes the waiting entries and what retention makes of them, inside the transaction under way. */
  write(written: number): void {
    for (const stored of this.#pending) this.#rows.insert(this.id, stored);
    this.#staged = this.#retain();
    this.#rows.put(this.id, written, this.#staged.counters);
  }

  /** The transaction committed. */
  settle(): void {
    this.#pending = [];
    if (this.#staged === undefined) return;
    this.#committed = this.#staged.counters;
    this.#candidates = this.#staged.candidates;
    this.#lingering = this.#staged.lingering;
    this.#staged = undefined;
  }

  /** The transaction failed: what waited is gone, followers that saw it are told. */
  takeBack(failure: HandfastError): void {
    this.#pending = [];
    this.#staged = undefined;
    for (const follower of this.#followers ?? []) follower.takeBack(this.#committed.last, failure);
  }

  join(follower: Follower): void {
    this.#followers ??= new Set();
    this.#followers.add(follower);
  }

  leave(follower: Follower): void {
    this.#followers?.delete(follower);
    if (this.#followers?.size === 0) this.#followers = null;
  }

  /** Ends every follower: the session was deleted or the journal closes. */
  end(): void {
    this.#pending = [];
    for (const follower of this.#followers ?? []) follower.end();
  }

  #retain(): Staged {
    const { maxEntries, maxBytes } = this.#retention;
    const counters: Counters = { ...this.#committed, last: this.last };
    if (counters.entries === 0) counters.first = this.#pending[0]?.entry.cursor ?? counters.last + 1;
    counters.entries += this.#pending.length;
    for (const { text } of this.#pending) counters.bytes += text.length;
    const lingering = { ...this.#lingering };
    const candidates = new Candidates(this.#rows, this.id, this.#candidates);
    while (counters.entries > 0 && (counters.entries > maxEntries || counters.bytes > maxBytes)) {
      const oldest = candidates.peek(counters.evicted);
      candidates.drop();
      counters.evicted = oldest.cursor;
      counters.entries -= 1;
      counters.bytes -= oldest.size;
      counters.first = counters.entries === 0 ? counters.last + 1 : candidates.peek(oldest.cursor).cursor;
      lingering.entries += 1;
      lingering.bytes += oldest.size;
    }
    if (lingering.entries >= EVICTION_CHUNK || lingering.bytes > maxBytes / LINGERING_SHARE) {
      this.#rows.trim(this.id, counters.evicted);
      lingering.entries = 0;
      lingering.bytes = 0;
    }
    return { counters, candidates: candidates.rest(), lingering };
  }
}

/** The oldest entries of a session in order, looked up in chunks. */
class Candidates {
  readonly #rows: JournalRows;
  readonly #session: string;
  #known: Staged['candidates'];
  #index = 0;

  constructor(rows: JournalRows, session: string, known: Staged['candidates']) {
    this.#rows = rows;
    this.#session = session;
    this.#known = known;
  }

  /** The oldest entry above `evicted`. */
  peek(evicted: number): { cursor: number; size: number } {
    if (this.#index === this.#known.length) {
      this.#known = this.#rows.oldest(this.#session, evicted, EVICTION_CHUNK);
      this.#index = 0;
    }
    const oldest = this.#known[this.#index];
    if (oldest === undefined) throw fail('journal_corrupt', 'the journal file is damaged: a session lacks entries');
    return oldest;
  }

  drop(): void {
    this.#index += 1;
  }

  rest(): Staged['candidates'] {
    return this.#known.slice(this.#index);
  }
}
