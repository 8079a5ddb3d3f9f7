/**
 * Counters of a memory database: entries and bytes of each part and tier, entries of a part that hold, vectors of an embedder.
 * They are written once at the end of a write, in its transaction.
 *
 * Triggers are not used: each would make the full-text index write its changes row by row.
 */
import type { StatementSync } from 'node:sqlite';

/** A time after all others, for an entry without an end. */
export const NEVER = 9e15;

/** The times that decide when a version holds. Epoch seconds. */
export interface Times {
  readonly starts: number;
  readonly ends: number;
  readonly expires: number;
  readonly stored_at: number;
}

/**
 * Returns the condition that a row of an entry holds at a time, both as SQL. An entry that began before it was stored has begun
 * at any time.
 */
export const holdsSql = (row: string, at: string): string =>
  `(${row}.starts <= ${at} OR ${row}.starts <= ${row}.stored_at) AND ${row}.ends > ${at} AND ${row}.expires > ${at}`;

const holds = ({ starts, ends, expires, stored_at: storedAt }: Times, at: number): number =>
  Number((starts <= at || starts <= storedAt) && ends > at && expires > at);

/** Counts entries of a part by time alone, after `?2` up to `?3`: those that began, ended or expired. */
const PASSED = `SELECT count(*) AS passed, coalesce(sum((${holdsSql('entry', '?3')}) - (${holdsSql('entry', '?2')})), 0) AS difference
  FROM entry WHERE id IN (
    SELECT id FROM entry INDEXED BY entry_ends WHERE part = ?1 AND ends < ${NEVER} AND ends > ?2 AND ends <= ?3
    UNION SELECT id FROM entry INDEXED BY entry_expires WHERE part = ?1 AND expires < ${NEVER} AND expires > ?2 AND expires <= ?3
    UNION SELECT id FROM entry INDEXED BY entry_future WHERE part = ?1 AND starts > stored_at AND starts > ?2 AND starts <= ?3)`;

/** A counter of a part that is further ahead of the clock is recounted. */
const MAX_AHEAD_S = 60;

/** The sums that a write adds to the counters of a part. */
interface Difference {
  /** The time for which the part has counted the entries that hold. */
  readonly countedAt: number;
  entries: number;
  bytes: number;
  holding: number;
}

type Sql = (text: string) => StatementSync;

export class Counters {
  readonly #sql: Sql;
  readonly #parts = new Map<number, Difference>();
  readonly #vectors = new Map<number, number>();

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Counts a version that was stored, or deleted with `sign` -1. */
  count(part: number, row: Times & { readonly bytes: number }, sign: 1 | -1 = 1): void {
    const difference = this.#of(part);
    difference.entries += sign;
    difference.bytes += sign * row.bytes;
    difference.holding += sign * holds(row, difference.countedAt);
  }

  /** Counts a change of a version's times. */
  move(part: number, before: Times, after: Times): void {
    const difference = this.#of(part);
    difference.holding += holds(after, difference.countedAt) - holds(before, difference.countedAt);
  }

  /** Counts a vector of an embedder that was stored, or deleted with `more` -1. */
  vectors(embedder: number, more: 1 | -1): void {
    this.#vectors.set(embedder, (this.#vectors.get(embedder) ?? 0) + more);
  }

  /** Adds the sums of the write under way to the database, inside its transaction. */
  write(): void {
    for (const [part, { entries, bytes, holding }] of this.#parts) {
      this.#sql('UPDATE part SET entries = entries + ?, bytes = bytes + ?, holding = holding + ? WHERE part = ?').run(
        entries,
        bytes,
        holding,
        part,
      );
      this.#sql(
        'UPDATE amount SET entries = entries + ?, bytes = bytes + ? WHERE tier = (SELECT substr(name, 1, 1) FROM part WHERE part = ?)',
      ).run(entries, bytes, part);
    }
    for (const [embedder, more] of this.#vectors)
      this.#sql('UPDATE embedder SET vectors = vectors + ? WHERE id = ?').run(more, embedder);
    this.undo();
  }

  /** Drops the sums of a write that was undone. */
  undo(): void {
    this.#parts.clear();
    this.#vectors.clear();
  }

  /**
   * Returns the number of entries of a part that hold at a time, and the number of changes by time alone since the counter was
   * last updated. Undefined for a time before that update.
   */
  holding(part: number, at: number): { count: number; passed: number } | undefined {
    const row = this.#sql('SELECT counted_at, holding FROM part WHERE part = ?').get(part) as
      | { counted_at: number; holding: number }
      | undefined;
    if (row === undefined || at < row.counted_at) return undefined;
    const { passed, difference } = this.#sql(PASSED).get(part, row.counted_at, at) as {
      passed: number;
      difference: number;
    };
    return { count: row.holding + difference, passed };
  }

  /** Updates the counter of a part, so that later reads have less to add. Inside a write. */
  advance(part: number, at: number): void {
    this.write();
    const counted = this.holding(part, at);
    if (counted !== undefined) {
      this.#sql('UPDATE part SET counted_at = ?, holding = ? WHERE part = ?').run(at, counted.count, part);
      return;
    }
    // The clock once stood far ahead: the part is recounted, since otherwise no list of it would be fast until that time.
    this.#sql(
      `UPDATE part SET counted_at = ?1, holding = (SELECT count(*) FROM entry WHERE entry.part = ?2 AND ${holdsSql('entry', '?1')})
       WHERE part = ?2 AND counted_at > ?1 + ${MAX_AHEAD_S}`,
    ).run(at, part);
  }

  #of(part: number): Difference {
    let difference = this.#parts.get(part);
    if (difference === undefined) {
      const row = this.#sql('SELECT counted_at FROM part WHERE part = ?').get(part);
      difference = { countedAt: (row?.counted_at as number) ?? 0, entries: 0, bytes: 0, holding: 0 };
      this.#parts.set(part, difference);
    }
    return difference;
  }
}
