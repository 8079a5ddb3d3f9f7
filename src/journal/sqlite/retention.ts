/**
 * Retention of one session inside the SQLite journal, part of the transaction that `session.ts` writes.
 *
 * It costs no query per append. Summaries of the oldest blocks are read sixty-four at a time; an eviction moves `evicted`
 * forward in the `sessions` row, block by block where it can and entry by entry where part of a block stays, and the
 * rows below are deleted many at a time too.
 */
import type { Retention } from '../journal.ts';
import { type Sized, sizesIn } from './block.ts';
import type { BlockSummary, Counters, JournalRows } from './rows.ts';

/** Blocks read at a time, and evicted entries whose rows may wait for their deletion. */
const CHUNK = 64;
/** Evicted rows are also deleted once they make up this share of the session's bytes. */
const LINGERING_SHARE = 8;

/**
 * The known facts about a session's oldest entries between two commits. Never changed, so that a failed commit costs
 * nothing.
 */
export interface OldestKnown {
  /** The oldest blocks that are not wholly evicted, as far as they were looked up; empty when unknown. */
  readonly blocks: readonly BlockSummary[];
  /** The entries left of the first of `blocks`, when some of it is evicted and it was unpacked. */
  readonly front: readonly Sized[] | undefined;
  /** Evicted entries whose rows are not deleted yet, as far as this process knows. */
  readonly lingering: { readonly entries: number; readonly bytes: number };
}

export const NOTHING_KNOWN: OldestKnown = Object.freeze({
  blocks: [],
  front: undefined,
  lingering: Object.freeze({ entries: 0, bytes: 0 }),
});

/** Evicts until `counters` are within `retention`, changing them; returns the facts about the oldest entries afterwards. */
export function evict(
  rows: JournalRows,
  session: string,
  counters: Counters,
  { maxEntries, maxBytes }: Retention,
  known: OldestKnown,
): OldestKnown {
  const over = () => counters.entries > maxEntries || counters.bytes > maxBytes;
  if (!over() || counters.entries === 0) return known;
  const { entries: entriesBefore, bytes: bytesBefore } = counters;
  const oldest = new Oldest(rows, session, known);
  while (over() && counters.entries > 0) {
    const block = oldest.block(counters.evicted);
    if (block === undefined) {
      // The file has fewer rows than its counters; reading reports the gap. Nothing is left to evict.
      counters.entries = 0;
      counters.bytes = 0;
      break;
    }
    const spare = counters.entries - block.entries >= maxEntries || counters.bytes - block.size > maxBytes;
    const whole = counters.evicted <= block.after;
    const sizes = whole && (spare || block.entries <= 1) ? undefined : oldest.front(counters.evicted);
    if (sizes === undefined) {
      // Also a block that is too damaged to be unpacked: then some of it may have been counted before.
      counters.entries = Math.max(0, counters.entries - block.entries);
      counters.bytes = Math.max(0, counters.bytes - block.size);
      counters.evicted = block.last;
    } else {
      for (const { cursor, size } of sizes) {
        if (!over()) break;
        counters.entries -= 1;
        counters.bytes -= size;
        counters.evicted = cursor;
      }
    }
  }
  // A lost range with no entry before it is evicted too.
  for (let next = oldest.block(counters.evicted); next?.entries === 0; next = oldest.block(counters.evicted)) {
    counters.evicted = next.last;
  }
  counters.first = counters.entries === 0 ? counters.last + 1 : oldest.first(counters.evicted);
  let lingering = {
    entries: known.lingering.entries + entriesBefore - counters.entries,
    bytes: known.lingering.bytes + bytesBefore - counters.bytes,
  };
  if (lingering.entries >= CHUNK || lingering.bytes > maxBytes / LINGERING_SHARE) {
    rows.trim(session, counters.evicted);
    lingering = { entries: 0, bytes: 0 };
  }
  return oldest.known(counters.evicted, lingering);
}

/** The oldest blocks of a session in order, looked up in chunks. */
class Oldest {
  readonly #rows: JournalRows;
  readonly #session: string;
  #blocks: readonly BlockSummary[];
  #index = 0;
  #front: readonly Sized[] | undefined;

  constructor(rows: JournalRows, session: string, known: OldestKnown) {
    this.#rows = rows;
    this.#session = session;
    this.#blocks = known.blocks;
    this.#front = known.front;
  }

  /** Returns the oldest block that ends above `evicted`. */
  block(evicted: number): BlockSummary | undefined {
    for (;;) {
      const block = this.#blocks[this.#index];
      if (block === undefined) {
        this.#blocks = this.#rows.summaries(this.#session, evicted, CHUNK);
        this.#index = 0;
        if (this.#blocks.length === 0) return undefined;
      } else if (block.last <= evicted) {
        this.#index += 1;
        this.#front = undefined;
      } else return block;
    }
  }

  /** Returns the entries of that block above `evicted`; undefined when it is too damaged to be unpacked. */
  front(evicted: number): readonly Sized[] | undefined {
    const block = this.block(evicted);
    if (block === undefined) return undefined;
    const left =
      this.#front?.filter(({ cursor }) => cursor > evicted) ??
      sizesIn(this.#rows.heads(this.#session, block.last), evicted);
    this.#front = left?.length === 0 ? undefined : left;
    return this.#front;
  }

  /** Returns the oldest cursor above `evicted`. */
  first(evicted: number): number {
    const block = this.block(evicted);
    if (block === undefined) return evicted + 1;
    return evicted <= block.after ? block.first : (this.front(evicted)?.[0]?.cursor ?? block.last);
  }

  known(evicted: number, lingering: OldestKnown['lingering']): OldestKnown {
    const block = this.block(evicted);
    const front = block === undefined || evicted <= block.after ? undefined : this.front(evicted);
    return { blocks: this.#blocks.slice(this.#index), front, lingering };
  }
}
