/**
 * The newest entries of one session, in memory. The in-memory journal consists of them, the SQLite journal buffers in
 * them entries that wait to be written.
 *
 * Every message of a session goes through `push`, so it is on the hottest path of the kernel. Entries are stored by
 * column: an object for each would live just long enough to be copied twice by the garbage collector, and evicting it
 * would read it again, long after it left the processor's caches. `push` allocates nothing.
 */
import { DEFAULT_RETENTION, type Gap, type JournalEntry, type Retention } from './journal.ts';
import { follows, outOfOrder } from './refusals.ts';

/** Bytes that count for a body that was never turned into text: measuring its real size is not worth the cost. */
export const OBJECT_BODY_BYTES = 256;
const FIRST_CAPACITY = 16;

const sizeOf = (body: string | object): number => (typeof body === 'string' ? body.length : OBJECT_BODY_BYTES);

/**
 * The newest entries of one session: a circular buffer that doubles up to the retention bound, then overwrites.
 * An empty ring has no slots. All of it is synchronous.
 */
export class SessionRing {
  readonly #retention: Retention;
  /** The columns have `#capacity` slots: 0 or a power of two, so that a position is a mask away. */
  #capacity = 0;
  #cursors: number[] = [];
  #times: number[] = [];
  #kinds: string[] = [];
  #requests: string[] = [];
  /** The bodies; undefined in a free slot, so that evicted bodies can be collected. */
  #bodies: (string | object | undefined)[] = [];
  #sizes: number[] = [];
  #head = 0;
  #count = 0;
  #bytes = 0;
  #last: number;
  #evicted: number;

  /** @param last the session's last cursor before this ring; everything up to it counts as evicted */
  constructor(retention: Retention = DEFAULT_RETENTION, last = 0) {
    this.#retention = retention;
    this.#last = last;
    this.#evicted = last;
  }

  /** Number of stored entries. */
  get length(): number {
    return this.#count;
  }

  /** Oldest stored cursor; `last + 1` when none is. */
  get first(): number {
    return this.#count === 0 ? this.#last + 1 : (this.#cursors[this.#head] as number);
  }

  /** The last cursor ever pushed; 0 before the first. */
  get last(): number {
    return this.#last;
  }

  /** The highest cursor that is no longer stored. */
  get evicted(): number {
    return this.#evicted;
  }

  /** Stored body bytes: the length of a text, {@link OBJECT_BODY_BYTES} for an object. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Appends an entry and evicts the oldest ones past the retention. An entry that alone is over `maxBytes` is evicted at
   * once. Throws `runtime_error` when its cursor is not an integer above {@link last}.
   */
  push({ cursor, ts, kind, request, body }: JournalEntry): void {
    if (!follows(cursor, this.#last)) throw outOfOrder(cursor, this.#last);
    const { maxEntries, maxBytes } = this.#retention;
    // Before storing, so that a full ring of 4,096 needs 4,096 places and not the next power of two.
    if (this.#count >= maxEntries && this.#count > 0) this.#evict();
    if (this.#count === this.#capacity) this.#grow();
    const slot = (this.#head + this.#count) & (this.#capacity - 1);
    const size = sizeOf(body);
    this.#cursors[slot] = cursor;
    this.#times[slot] = ts;
    this.#kinds[slot] = kind;
    this.#requests[slot] = request;
    this.#bodies[slot] = body;
    this.#sizes[slot] = size;
    this.#count += 1;
    this.#bytes += size;
    this.#last = cursor;
    if (this.#bytes > maxBytes || this.#count > maxEntries) this.retain(this.#retention);
  }

  /** Evicts the oldest entries past `retention`, for a ring that was made with a wider one. */
  retain({ maxEntries, maxBytes }: Retention): void {
    while ((this.#bytes > maxBytes || this.#count > maxEntries) && this.#count > 0) this.#evict();
  }

  /** Releases every entry and the columns: the entries are stored elsewhere now. */
  clear(): void {
    this.#capacity = 0;
    this.#cursors = [];
    this.#times = [];
    this.#kinds = [];
    this.#requests = [];
    this.#bodies = [];
    this.#sizes = [];
    this.#head = 0;
    this.#count = 0;
    this.#bytes = 0;
    this.#evicted = this.#last;
  }

  /** Returns the entries with `cursor > after`, oldest first, at most `limit`. Does not report a gap: see {@link gap}. */
  after(after: number, limit: number): JournalEntry[] {
    const mask = this.#capacity - 1;
    // Cursors grow but may jump, so the slot is searched for, not computed.
    let low = 0;
    let high = this.#count;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#cursors[(this.#head + middle) & mask] as number) > after) high = middle;
      else low = middle + 1;
    }
    const found: JournalEntry[] = [];
    for (; low < this.#count && found.length < limit; low += 1) found.push(this.#entry((this.#head + low) & mask));
    return found;
  }

  /** Returns the range above `after` that is no longer stored, or undefined when none is missing. */
  gap(after: number): Gap | undefined {
    return after < this.#evicted ? { kind: 'gap', from: after + 1, to: this.#evicted } : undefined;
  }

  #entry(slot: number): JournalEntry {
    return {
      cursor: this.#cursors[slot] as number,
      ts: this.#times[slot] as number,
      kind: this.#kinds[slot] as string,
      request: this.#requests[slot] as string,
      body: this.#bodies[slot] as string | object,
    };
  }

  #evict(): void {
    const head = this.#head;
    this.#bodies[head] = undefined;
    // An id is its peer's choice and may be as long as a message.
    this.#requests[head] = '';
    this.#bytes -= this.#sizes[head] as number;
    this.#evicted = this.#cursors[head] as number;
    this.#head = (head + 1) & (this.#capacity - 1);
    this.#count -= 1;
  }

  /** Doubles the columns and moves the oldest entry to slot 0. */
  #grow(): void {
    const places = this.#capacity === 0 ? FIRST_CAPACITY : this.#capacity * 2;
    const turned = <T>(column: T[], filler: T): T[] => {
      const longer = column.slice(this.#head).concat(column.slice(0, this.#head));
      while (longer.length < places) longer.push(filler);
      return longer;
    };
    this.#cursors = turned(this.#cursors, 0);
    // A fraction makes it an array of doubles: as integers these would be too large to be stored without an object each.
    this.#times = turned(this.#times, 0.5);
    this.#kinds = turned(this.#kinds, '');
    this.#requests = turned(this.#requests, '');
    this.#bodies = turned(this.#bodies, undefined);
    this.#sizes = turned(this.#sizes, 0);
    this.#capacity = places;
    this.#head = 0;
  }
}
