/**
 * Drops whole sessions from the SQLite journal: those without a new entry for `maxAgeMs`, and the oldest above
 * `maxSessions`. `retention.ts` decides which entries of a remaining session stay.
 *
 * Sessions are in the order of their last write, so those to drop are the first ones. Age is measured by how long the
 * journal has been in use (`progress.ts`), never by the times of entries: a clock that is set forward must not cost
 * young sessions. A sweep runs a slice per turn of the event loop, so that no other work waits for it.
 */

import { Slices } from './slices.ts';

/** The rule for dropping sessions. */
export interface SessionExpiry {
  /** Age without a new entry at which a session is dropped. Milliseconds; 0 = none is dropped for its age. */
  readonly maxAgeMs: number;
  /** Of more sessions than this, those written to longest ago go, of owners with more than an equal part of them. */
  readonly maxSessions: number;
  /** Returns true for a session that must stay: a live one, or one with another owner. It is not counted either. */
  readonly retains: (session: string) => boolean;
}

/** A session and which append of the whole journal was its last. */
export interface WrittenSession {
  readonly session: string;
  readonly written: number;
  readonly owner: string;
}

/** Members of the store that a sweep uses. All except `failed` may throw errors of SQLite. */
export interface ExpirySource {
  /** Returns at most `limit` sessions after this one, or the first ones, in the order of their last write. */
  names(limit: number, after?: WrittenSession): readonly WrittenSession[];
  /**
   * Returns the newest append that is known to be older than this age; 0 when none is. Also stores the time of the
   * newest one.
   */
  writtenBefore(ageMs: number): number;
  /** Returns true while a reader or writer uses it, or when it was written to after the append `written`. */
  busy(session: WrittenSession): boolean;
  /** Forgets them in one transaction. False when that could not be done. */
  drop(sessions: readonly string[]): boolean;
  /** Called when a sweep ended early; the next one tries again. */
  failed(thrown: unknown): void;
}

/** Delay of the first sweep, so that it does not slow the start of the process. */
const FIRST_MS = 1000;
const EVERY_MS = 3_600_000;
/** Sessions looked at in a slice, and so in memory. */
const PAGE = 1024;
/** Sessions dropped in a slice. */
const SLICE_DROPS = 16;

/** A sweep under way. */
interface Sweep {
  /** Append up to which the last writes of sessions are too old. */
  readonly oldest: number;
  /** Sessions of each owner that are young enough and not retained. */
  readonly counts: Map<string, number>;
  /** Number of these sessions that are too many. */
  excess: number;
}

export class Expiry {
  readonly #source: ExpirySource;
  readonly #rule: SessionExpiry;
  readonly #slices: Slices;
  #timer: NodeJS.Timeout | undefined;

  /** Sweeps start a second from now and repeat every hour. */
  constructor(source: ExpirySource, rule: SessionExpiry) {
    this.#source = source;
    this.#rule = rule;
    this.#slices = new Slices((thrown) => source.failed(thrown));
    this.#wait(FIRST_MS);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#slices.stop();
  }

  #wait(ms: number): void {
    this.#timer = setTimeout(() => {
      this.#wait(EVERY_MS);
      // A sweep that still runs continues.
      if (!this.#slices.waiting) this.#slices.run(() => this.#start());
    }, ms).unref();
  }

  #start(): void {
    const { maxAgeMs, maxSessions } = this.#rule;
    const oldest = maxAgeMs === 0 ? 0 : this.#source.writtenBefore(maxAgeMs);
    this.#count({ oldest, counts: new Map(), excess: -maxSessions });
  }

  /** Counts the sessions of the next page, and drops some when all are counted. */
  #count(sweep: Sweep, after?: WrittenSession): void {
    const page = this.#source.names(PAGE, after);
    for (const { session, written, owner } of page) {
      if (written <= sweep.oldest || this.#rule.retains(session)) continue;
      sweep.counts.set(owner, (sweep.counts.get(owner) ?? 0) + 1);
      sweep.excess += 1;
    }
    if (page.length < PAGE) this.#find(sweep);
    else this.#slices.next(() => this.#count(sweep, page.at(-1)));
  }

  /** Drops sessions of the next page that are too old, or too many. */
  #find(sweep: Sweep, after?: WrittenSession): void {
    const page = this.#source.names(PAGE, after);
    const last = page.at(-1);
    const isLast = page.length < PAGE || last === undefined || (sweep.excess <= 0 && last.written > sweep.oldest);
    this.#slice(
      page.filter((session) => this.#isDue(session, sweep)),
      isLast ? undefined : () => this.#find(sweep, last),
    );
  }

  /**
   * Returns true if a session is dropped. If too many exist, those of owners with more than an equal part are: a
   * dropped session is counted out.
   */
  #isDue({ session, written, owner }: WrittenSession, sweep: Sweep): boolean {
    if (this.#rule.retains(session)) return false;
    if (written <= sweep.oldest) return true;
    const { counts } = sweep;
    const count = counts.get(owner) ?? 0;
    if (sweep.excess <= 0 || count <= this.#rule.maxSessions / counts.size) return false;
    counts.set(owner, count - 1);
    sweep.excess -= 1;
    return true;
  }

  /** Drops the next few and continues in the next turn, at last with `then`. */
  #slice(left: readonly WrittenSession[], then: (() => void) | undefined): void {
    const drops = left.slice(0, SLICE_DROPS);
    // Between two slices a client may have used a session again.
    const free = drops.filter((each) => !this.#rule.retains(each.session) && !this.#source.busy(each));
    if (free.length > 0 && !this.#source.drop(free.map(({ session }) => session))) return;
    if (left.length > SLICE_DROPS) this.#slices.next(() => this.#slice(left.slice(SLICE_DROPS), then));
    else if (then !== undefined) this.#slices.next(then);
  }
}
