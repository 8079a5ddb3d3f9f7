/**
 * Bounds the lines that one principal adds to the audit, so that a flood by one token cannot push out the lines of
 * others.
 *
 * A principal has a budget of lines, refilled with time; once it is used up, its further requests are counted by type,
 * outcome and error, and each count is one line. Every request is recorded: only time, tool, session and `by` of the
 * single request are lost.
 */
import type { AuditRecord } from './record.ts';

/** Minutes of lines that a principal may write at once. */
const BURST_MINUTES = 100;
/** Counts of one principal that are open at a time; further ones go under one name. */
const MAX_COUNTS = 64;
/** Type of a count past that. */
const OTHERS = 'audit/others';

/** The lines that one principal has left, and its counted records. */
interface Budget {
  lines: number;
  /** Monotonic milliseconds. */
  refilledAt: number;
  readonly counts: Map<string, Count>;
}

/** A line that grows until it is written. */
type Count = { -readonly [Key in keyof AuditRecord]: AuditRecord[Key] } & { count: number };

export class Repeats {
  readonly #linesPerMinute: number;
  readonly #now: () => number;
  readonly #budgets = new Map<string, Budget>();
  /** Budgets with counts. */
  readonly #counting = new Set<Budget>();
  #counted = 0;

  /** @param now monotonic milliseconds */
  constructor(linesPerMinute: number, now: () => number = () => performance.now()) {
    this.#linesPerMinute = linesPerMinute;
    this.#now = now;
  }

  /** Number of records that were counted and got no line. */
  get counted(): number {
    return this.#counted;
  }

  /** True while counts wait to become lines. */
  get waiting(): boolean {
    return this.#counting.size > 0;
  }

  /** Returns true when the record gets its own line; else it is counted. */
  admit(record: AuditRecord): boolean {
    if (this.#linesPerMinute === Number.POSITIVE_INFINITY) return true;
    const budget = this.#budgetOf(record.principal);
    if (budget.lines >= 1) {
      budget.lines -= 1;
      return true;
    }
    this.#counted += 1;
    this.#count(budget, record);
    return false;
  }

  /** Takes the counts as lines. */
  take(): AuditRecord[] {
    const lines: AuditRecord[] = [];
    for (const budget of this.#counting) {
      lines.push(...budget.counts.values());
      budget.lines -= budget.counts.size;
      budget.counts.clear();
    }
    this.#counting.clear();
    return lines;
  }

  #budgetOf(principal: string): Budget {
    const now = this.#now();
    const most = this.#linesPerMinute * BURST_MINUTES;
    let budget = this.#budgets.get(principal);
    if (budget === undefined) {
      budget = { lines: most, refilledAt: now, counts: new Map() };
      this.#budgets.set(principal, budget);
    }
    const refill = ((now - budget.refilledAt) / 60_000) * this.#linesPerMinute;
    budget.lines = Math.min(most, budget.lines + refill);
    budget.refilledAt = now;
    return budget;
  }

  #count(budget: Budget, record: AuditRecord): void {
    const { time, principal, outcome, error_code, reason } = record;
    const { counts } = budget;
    let type = record.type;
    let key = `${type}\n${outcome}\n${error_code}\n${reason}`;
    if (counts.size >= MAX_COUNTS && !counts.has(key)) {
      type = OTHERS;
      key = `${type}\n${outcome}`;
    }
    let count = counts.get(key);
    if (count === undefined) {
      const sums = { request_bytes: 0, reply_bytes: 0, duration_ms: 0, count: 0 };
      const why = type === OTHERS ? {} : { ...(error_code && { error_code }), ...(reason && { reason }) };
      count = { time, since: time, session: '', principal, type, outcome, ...why, ...sums };
      counts.set(key, count);
      this.#counting.add(budget);
    }
    count.time = time;
    count.count += 1;
    count.request_bytes += record.request_bytes;
    count.reply_bytes += record.reply_bytes;
    count.duration_ms += record.duration_ms;
  }
}
