/**
 * The newest entries of one session, in memory. The in-memory journal consists of them, the SQLite journal holds in them
 * what waits to be written.
 *
 * Every message of a session goes through `push`, so it is on the hottest path of the kernel: it stores the object it is
 * given and allocates nothing else.
 */
import { DEFAULT_RETENTION, type Gap, type JournalEntry, type Retention } from './journal.ts';
import { follows, outOfOrder } from './refusals.ts';

/** What a body that was never turned into text counts for, in bytes: its real size is not worth finding out. */
export const OBJECT_BODY_BYTES = 256;
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

  /** The highest cursor that is no longer held. */
  get evicted(): number {
    return this.#evicted;
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

  /** Evicts the oldest entries past `retention`, for a ring that was made with a wider one. */
  retain({ maxEntries, maxBytes }: Retention): void {
    while ((this.#bytes > maxBytes || this.#count > maxEntries) && this.#count > 0) this.#evict();
  }

  /** Lets go of every entry and of the slots: they are kept elsewhere now. */
  clear(): void {
    this.#slots = [];
    this.#head = 0;
    this.#count = 0;
    this.#bytes = 0;
    this.#evicted = this.#last;
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
