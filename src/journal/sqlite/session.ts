/**
 * One session inside the SQLite journal: its counters as last committed, the entries that wait to be written, and the
 * writing. The store decides when entries are written.
 *
 * Durable and volatile entries wait in one queue, so that they reach the file in the order of their cursors.
 */
import type { HandfastError } from '../../wire/errors.ts';
import type { Followable, Follower } from '../follow.ts';
import type { JournalEntry, Page, Retention } from '../journal.ts';
import { SessionRing } from '../ring.ts';
import type { Amount } from '../shares.ts';
import { BLOCK_ENTRIES, BlockPacker, PageBuilder, textOf } from './block.ts';
import { evict, NOTHING_KNOWN, type OldestKnown } from './retention.ts';
import type { Counters, JournalRows } from './rows.ts';

/** Entries a follower reads at a time, and so the memory of one that reads nothing. */
const FOLLOW_PAGE = BLOCK_ENTRIES;
const FOLLOW_PAGE_BYTES = 256 * 1024;
/**
 * Cursors reserved at a time, in the file, before volatile entries use them. A crash costs the numbers, never their
 * uniqueness; a busy session reserves more every minute or so, which is one synced commit.
 */
export const RESERVED_CURSORS = 1024 * 1024;

const EMPTY: Counters = Object.freeze({
  written: 0,
  first: 1,
  last: 0,
  evicted: 0,
  entries: 0,
  bytes: 0,
  reserved: 0,
  owner: '',
  record: '',
});
const NOTHING: Amount = Object.freeze({ bytes: 0, entries: 0 });
/** Waiting entries are not evicted by appending to them: see {@link SqliteSession.addVolatile}. */
const UNBOUNDED: Retention = { maxEntries: Number.POSITIVE_INFINITY, maxBytes: Number.POSITIVE_INFINITY };

/** A durable entry ready to be stored: the text of an object body is made when it is appended. */
export interface DurableEntry {
  /** With the text as its body. */
  readonly entry: JournalEntry & { readonly body: string };
  /** 1 when the text encodes an object. */
  readonly encoded: 0 | 1;
}

/** Changes of a session that apply when the open transaction commits. */
interface Staged {
  readonly counters: Counters;
  readonly oldest: OldestKnown;
  /** Volatile entries that turned out not to be JSON. */
  readonly unwritable: number;
}

export class SqliteSession implements Followable {
  readonly id: string;
  /** Number of its last append in the whole journal. Set by the store that appends. */
  written: number;
  /** Counts of the waiting entries that the write-behind maintains for itself. */
  readonly counted = { behind: false, entries: 0, bytes: 0 };
  readonly #rows: JournalRows;
  readonly #retention: Retention;
  #owner: string;
  #record: string;
  /** The amount that the next write evicts at least, for the share of its owner. */
  #surplus: Amount = NOTHING;
  #committed: Counters;
  #oldest = NOTHING_KNOWN;
  #waiting: SessionRing;
  /** The durable entries among the waiting ones, with their `encoded`; null when none wait. */
  #promised: Map<number, 0 | 1> | null = null;
  /** Volatile entries before the waiting ones that were abandoned, up to this cursor; 0 when none were. */
  #lostTo = 0;
  #reserved: number;
  /** Its writer expects no more entries soon. */
  #released = false;
  #staged: Staged | undefined;
  #followers: Set<Follower> | null = null;

  /** @param counters those of the `sessions` table; undefined for a session that is not in it yet */
  constructor(id: string, rows: JournalRows, retention: Retention, counters: Counters = EMPTY) {
    this.id = id;
    this.#rows = rows;
    this.#retention = retention;
    this.#committed = counters;
    this.#owner = counters.owner;
    this.#record = counters.record;
    this.written = counters.written;
    this.#reserved = counters.reserved;
    this.#waiting = new SessionRing(UNBOUNDED, counters.last);
  }

  /** The last cursor, with the entries that are not committed yet. */
  get last(): number {
    return this.#waiting.last;
  }

  /** The owner in whose share it counts; `''` = in none. */
  get owner(): string {
    return this.#owner;
  }

  /** Sets the owner in whose share it counts, before it has a row in the file. */
  ownedBy(owner: string): void {
    if (!this.stored && this.#owner === '') this.#owner = owner;
  }

  /** Sets the record that the next write stores beside the entries. */
  describe(record: string): void {
    this.#record = record;
  }

  /** Makes the next write evict at least this amount. */
  shrink(surplus: Amount): void {
    this.#surplus = surplus;
  }

  /** The amount that the last {@link write} adds to the file, until it is settled. */
  get growth(): Amount {
    const { counters = this.#committed } = this.#staged ?? {};
    return { bytes: counters.bytes - this.#committed.bytes, entries: counters.entries - this.#committed.entries };
  }

  /** True once it has a row in the file. */
  get stored(): boolean {
    return this.#committed.last > 0;
  }

  /** The cursor up to which volatile entries may go: see {@link reserve}. */
  get reserved(): number {
    return this.#reserved;
  }

  /** Entries that wait to be written. */
  get waitingEntries(): number {
    return this.#waiting.length;
  }

  get waitingBytes(): number {
    return this.#waiting.bytes;
  }

  /** True when dropping this object loses nothing: it can be loaded again. */
  get idle(): boolean {
    const { record } = this.#committed;
    return this.#waiting.length === 0 && this.#lostTo === 0 && this.#followers === null && record === this.#record;
  }

  /**
   * Marks that none of its entries is stored, but cursors up to `cursor` may have been used: they read as a gap. Must
   * run before its first entry.
   */
  startAfter(cursor: number): void {
    this.#committed = { ...EMPTY, first: cursor + 1, last: cursor, evicted: cursor };
    this.#waiting = new SessionRing(UNBOUNDED, cursor);
  }

  /** True from {@link release} until the next entry. */
  get released(): boolean {
    return this.#released;
  }

  /**
   * Ends the reservation with the next write, since its writer expects no more entries soon. That write comes after
   * those of the entries the reservation was for, so a crash that undoes these undoes it too.
   */
  release(): void {
    this.#released = true;
    this.#reserved = 0;
  }

  /** Takes durable entries in for the next commit; they are readable from now on. */
  addDurable(entries: readonly DurableEntry[]): void {
    this.#released = false;
    this.#promised ??= new Map();
    for (const { entry, encoded } of entries) {
      this.#promised.set(entry.cursor, encoded);
      this.#waiting.push(entry);
    }
    this.#wake();
  }

  /** Buffers volatile entries; those that retention would evict before the write are never written. */
  addVolatile(entries: readonly JournalEntry[]): void {
    this.#released = false;
    for (const entry of entries) this.#waiting.push(entry);
    // A waiting durable entry may be rolled back, and the entries it had evicted would have to be restored with it.
    if (this.#promised === null) this.#waiting.retain(this.#retention);
    if (this.#followers !== null) this.#wake();
  }

  /**
   * Reserves cursors: from the next commit on, those up to some way above `cursor` count as used, whether or not their
   * entries reach the file. For a session without a row the reservation need not be on disk before they are used: it
   * would be lost together with them.
   */
  reserve(cursor: number): void {
    // Its writer is active again: the store must not drop an object to which entries are about to be added.
    this.#released = false;
    this.#reserved = Math.min(cursor + RESERVED_CURSORS, Number.MAX_SAFE_INTEGER);
  }

  /** Reads as `Journal.read`; stops early once the bodies passed `maxBytes`. Throws errors of SQLite. */
  page(after: number, limit = FOLLOW_PAGE, maxBytes = FOLLOW_PAGE_BYTES): Page {
    const page = new PageBuilder(after, limit, maxBytes);
    const overrun = this.#overrun;
    page.lost(overrun || this.#committed.evicted);
    if (!page.full && page.at < this.#committed.last) this.#rows.fill(page, this.id, this.#committed.last);
    if (!page.full && page.at < this.#lostTo) page.lost(this.#lostTo);
    if (!page.full) {
      for (const entry of this.#waiting.after(page.at, limit - page.entries.length)) page.add(this.#decoded(entry), 0);
    }
    return { entries: page.entries, gap: page.gap, last: this.last };
  }

  /** Writes the waiting entries and applies retention, inside the open transaction. */
  write(): void {
    const overrun = this.#overrun;
    const before = this.#committed;
    const counters: Counters = {
      ...before,
      written: this.written,
      last: this.last,
      reserved: this.#reserved,
      owner: this.#owner,
      record: this.#record,
    };
    let oldest = this.#oldest;
    if (overrun > 0) {
      // All entries in the file are older than entries that are evicted already.
      this.#rows.trim(this.id, before.last);
      Object.assign(counters, { evicted: overrun, entries: 0, bytes: 0 });
      oldest = NOTHING_KNOWN;
    }
    const packer = new BlockPacker(overrun || before.last, (block) => this.#rows.insert(this.id, block));
    if (this.#lostTo > 0 && overrun === 0) packer.lost(this.#lostTo);
    const unwritable = this.#pack(packer, counters);
    oldest = evict(this.#rows, this.id, counters, this.#bounds(counters), oldest);
    if (counters.entries === 0) Object.assign(counters, { first: counters.last + 1, evicted: counters.last });
    this.#rows.put(this.id, counters, before);
    this.#staged = { counters, oldest, unwritable };
  }

  /** Returns the bounds within which its entries may stay. */
  #bounds({ bytes, entries }: Counters): Retention {
    const { maxBytes, maxEntries } = this.#retention;
    const surplus = this.#surplus;
    if (surplus === NOTHING) return this.#retention;
    this.#surplus = NOTHING;
    return {
      maxBytes: Math.min(maxBytes, Math.max(0, bytes - surplus.bytes)),
      maxEntries: Math.min(maxEntries, Math.max(0, entries - surplus.entries)),
    };
  }

  /**
   * Handles the commit of the transaction. Returns the number of volatile entries that were lost because they are not
   * JSON.
   */
  settle(): number {
    const staged = this.#staged;
    if (staged === undefined) return 0;
    this.#staged = undefined;
    this.#committed = staged.counters;
    this.#oldest = staged.oldest;
    this.#waiting.clear();
    this.#promised = null;
    this.#lostTo = 0;
    return staged.unwritable;
  }

  /**
   * Handles the failure of the transaction. Durable entries are lost, and followers that saw one are notified; volatile
   * ones still wait, even those that arrived later.
   */
  rollBack(failure: HandfastError): void {
    this.#staged = undefined;
    const promised = this.#promised;
    if (promised === null) return;
    this.#promised = null;
    const remaining = this.#waiting.after(0, this.#waiting.length).filter(({ cursor }) => !promised.has(cursor));
    this.#waiting = new SessionRing(UNBOUNDED, this.#waiting.evicted);
    for (const entry of remaining) this.#waiting.push(entry);
    const [first = 0] = promised.keys();
    for (const follower of this.#followers ?? []) follower.rollBack(first - 1, failure);
  }

  /** Lets go of the waiting entries, all of them volatile, to make room; readers find a gap. Returns their number. */
  abandon(): number {
    const { length, last } = this.#waiting;
    if (length === 0) return 0;
    this.#lostTo = last;
    this.#waiting = new SessionRing(UNBOUNDED, last);
    return length;
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
    this.#waiting.clear();
    this.#promised = null;
    this.#lostTo = 0;
    for (const follower of this.#followers ?? []) follower.end();
  }

  /** The last waiting entry that retention evicted, and so the last evicted one of the session; 0 when none was. */
  get #overrun(): number {
    const { evicted } = this.#waiting;
    return evicted > Math.max(this.#committed.last, this.#lostTo) ? evicted : 0;
  }

  #pack(packer: BlockPacker, counters: Counters): number {
    const promised = this.#promised;
    let unwritable = 0;
    for (const entry of this.#waiting.after(0, this.#waiting.length)) {
      const { cursor, body } = entry;
      const encoded = promised?.get(cursor);
      let text = '';
      if (typeof body === 'string') text = body;
      else {
        try {
          text = textOf(body);
        } catch {
          packer.lost(cursor);
          unwritable += 1;
          continue;
        }
      }
      if (counters.entries === 0) counters.first = cursor;
      counters.entries += 1;
      counters.bytes += text.length;
      const isAlone = encoded !== undefined && !this.#rows.sparing;
      if (isAlone) packer.close();
      packer.add(entry, text, encoded ?? (typeof body === 'string' ? 0 : 1));
      if (isAlone) packer.close();
    }
    packer.close();
    return unwritable;
  }

  /**
   * Returns a waiting entry in the form for readers: a durable object is a copy, so that later changes to the original
   * do not show.
   */
  #decoded(entry: JournalEntry): JournalEntry {
    if (this.#promised?.get(entry.cursor) !== 1) return entry;
    return { ...entry, body: JSON.parse(entry.body as string) as object };
  }

  #wake(): void {
    for (const follower of this.#followers ?? []) follower.wake();
  }
}
