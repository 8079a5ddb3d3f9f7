/**
 * The in-memory journal, and the ring of one session it is made of.
 *
 * The session layer keeps one `SessionRing` per session and pushes every message into it, so `push` is on the hottest
 * path of the kernel: it stores the object it is given and allocates nothing else. `memoryJournal` is many rings under
 * the contract of `journal.ts`; nothing of it outlives the process.
 */
import { type Followable, Follower } from './follow.ts';
import {
  DEFAULT_RETENTION,
  type Gap,
  type Journal,
  type JournalEntry,
  type JournalSession,
  type NewEntry,
  type Page,
  type Retention,
} from './journal.ts';
import { follows, journalClosed, outOfOrder } from './refusals.ts';

/** What a body that was never turned into text counts for, in bytes: its real size is not worth finding out. */
export const OBJECT_BODY_BYTES = 256;
/** Entries a follower takes from its session at a time. They stay in memory while it stands still. */
const FOLLOW_PAGE = 16;
const FIRST_CAPACITY = 16;

const sizeOf = (body: string | object): number => (typeof body === 'string' ? body.length : OBJECT_BODY_BYTES);

/**
 * The newest entries of one session: a circular buffer that doubles up to the retention bound, then overwrites.
 * An empty ring holds no slots. All of it is synchronous.
 */
export class SessionRing {
  readonly #retention: Retention;
  /** Length is 0 or a power of two, so that a position is a mask away. */
  #slots: (JournalEntry | undefined)[] = [];
  #head = 0;
  #count = 0;
  #bytes = 0;
  #last: number;
  #evicted: number;

  /** `last` is where the session stood before this ring; everything up to it counts as evicted. */
  constructor(retention: Retention = DEFAULT_RETENTION, last = 0) {
    this.#retention = retention;
    this.#last = last;
    this.#evicted = last;
  }

  /** Entries held. */
  get length(): number {
    return this.#count;
  }

  /** Oldest cursor held; `last + 1` when none is. */
  get first(): number {
    return this.#count === 0 ? this.#last + 1 : (this.#slots[this.#head] as JournalEntry).cursor;
  }

  /** The last cursor ever pushed; 0 before the first. */
  get last(): number {
    return this.#last;
  }

  /** Body bytes held: the length of a text, {@link OBJECT_BODY_BYTES} for an object. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Appends an entry and evicts the oldest ones past the retention. An entry that alone is over `maxBytes` is evicted at
   * once. Throws `runtime_error` when its cursor is not an integer above {@link last}.
   */
  push(entry: JournalEntry): void {
    if (!follows(entry.cursor, this.#last)) throw outOfOrder(entry.cursor, this.#last);
    const { maxEntries, maxBytes } = this.#retention;
    // Before storing, so that a full ring of 4,096 needs 4,096 slots and not the next power of two.
    if (this.#count >= maxEntries && this.#count > 0) this.#evict();
    if (this.#count === this.#slots.length) this.#grow();
    this.#slots[(this.#head + this.#count) & (this.#slots.length - 1)] = entry;
    this.#count += 1;
    this.#bytes += sizeOf(entry.body);
    this.#last = entry.cursor;
    while ((this.#bytes > maxBytes || this.#count > maxEntries) && this.#count > 0) this.#evict();
  }

  /** The entries with `cursor > after`, oldest first, at most `limit`. Says nothing of a gap: see {@link gap}. */
  after(after: number, limit: number): JournalEntry[] {
    const mask = this.#slots.length - 1;
    // Cursors grow but may jump, so the place is searched for, not computed.
    let low = 0;
    let high = this.#count;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#slots[(this.#head + middle) & mask] as JournalEntry).cursor > after) high = middle;
      else low = middle + 1;
    }
    const found: JournalEntry[] = [];
    for (let place = low; place < this.#count && found.length < limit; place += 1) {
      found.push(this.#slots[(this.#head + place) & mask] as JournalEntry);
    }
    return found;
  }

  /** What of the cursors above `after` is no longer held, or undefined when nothing is missing. */
  gap(after: number): Gap | undefined {
    return after < this.#evicted ? { kind: 'gap', from: after + 1, to: this.#evicted } : undefined;
  }

  #evict(): void {
    const entry = this.#slots[this.#head] as JournalEntry;
    this.#slots[this.#head] = undefined;
    this.#head = (this.#head + 1) & (this.#slots.length - 1);
    this.#count -= 1;
    this.#bytes -= sizeOf(entry.body);
    this.#evicted = entry.cursor;
  }

  #grow(): void {
    const old = this.#slots;
    const slots = new Array<JournalEntry | undefined>(old.length === 0 ? FIRST_CAPACITY : old.length * 2);
    for (let place = 0; place < this.#count; place += 1) {
      slots[place] = old[(this.#head + place) & (old.length - 1)];
    }
    this.#slots = slots;
    this.#head = 0;
  }
}

/** A journal that lives and dies with the process. `append` returns `undefined`: there is nothing to wait for. */
export function memoryJournal(options: { retention?: Partial<Retention> } = {}): Journal {
  return new MemoryJournal({ ...DEFAULT_RETENTION, ...options.retention });
}

class MemorySession implements Followable {
  readonly ring: SessionRing;
  /** Null while nobody follows: all that an append has to look at. */
  followers: Set<Follower> | null = null;
  /** Which append of the whole journal was this session's last; orders `sessions()`. */
  written = 0;
  readonly #abandoned: () => void;

  /** `abandoned` is called when the last follower left and nothing was ever written. */
  constructor(retention: Retention, abandoned: () => void) {
    this.ring = new SessionRing(retention);
    this.#abandoned = abandoned;
  }

  page(after: number, limit = FOLLOW_PAGE): Page {
    const { ring } = this;
    return { entries: ring.after(after, limit), gap: ring.gap(after), last: ring.last };
  }

  join(follower: Follower): void {
    this.followers ??= new Set();
    this.followers.add(follower);
  }

  leave(follower: Follower): void {
    this.followers?.delete(follower);
    if (this.followers?.size !== 0) return;
    this.followers = null;
    if (this.ring.last === 0) this.#abandoned();
  }

  end(): void {
    for (const follower of this.followers ?? []) follower.end();
  }
}

class MemoryJournal implements Journal {
  readonly #retention: Retention;
  readonly #sessions = new Map<string, MemorySession>();
  #appends = 0;
  #closed = false;

  constructor(retention: Retention) {
    this.#retention = retention;
  }

  append(session: string, entries: readonly NewEntry[]): Promise<void> | undefined {
    if (this.#closed) return Promise.reject(journalClosed());
    let held = this.#sessions.get(session);
    // All are checked before one is pushed: a batch is kept whole or not at all.
    let last = held === undefined ? 0 : held.ring.last;
    for (const entry of entries) {
      if (!follows(entry.cursor, last)) return Promise.reject(outOfOrder(entry.cursor, last));
      last = entry.cursor;
    }
    if (entries.length === 0) return undefined;
    held ??= this.#create(session);
    for (const entry of entries) held.ring.push(entry);
    this.#appends += 1;
    held.written = this.#appends;
    if (held.followers !== null) for (const follower of held.followers) follower.wake();
    return undefined;
  }

  async read(session: string, after: number, limit = 256): Promise<Page> {
    if (this.#closed) throw journalClosed();
    return this.#sessions.get(session)?.page(Math.max(0, after), limit) ?? { entries: [], last: 0 };
  }

  follow(session: string, after: number, signal?: AbortSignal): AsyncIterable<JournalEntry | Gap> {
    const open = () => {
      if (this.#closed) throw journalClosed();
      return this.#sessions.get(session) ?? this.#create(session);
    };
    return new Follower(open, after, signal);
  }

  async sessions(limit = 256): Promise<readonly JournalSession[]> {
    if (this.#closed) throw journalClosed();
    return [...this.#sessions]
      .filter(([, { ring }]) => ring.last > 0)
      .sort(([, one], [, other]) => other.written - one.written)
      .slice(0, Math.max(0, limit))
      .map(([session, { ring }]) => ({ session, first: ring.first, last: ring.last, bytes: ring.bytes }));
  }

  async delete(session: string): Promise<void> {
    if (this.#closed) throw journalClosed();
    const held = this.#sessions.get(session);
    this.#sessions.delete(session);
    held?.end();
  }

  async close(): Promise<void> {
    this.#closed = true;
    const held = [...this.#sessions.values()];
    this.#sessions.clear();
    for (const session of held) session.end();
  }

  /** Followed before it was written to, a session has a place here too; it goes when its last follower leaves. */
  #create(session: string): MemorySession {
    const created = new MemorySession(this.#retention, () => this.#sessions.delete(session));
    this.#sessions.set(session, created);
    return created;
  }
}
