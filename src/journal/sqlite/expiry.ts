/**
 * Drops whole sessions from the SQLite journal: those without a new entry for `maxAgeMs`, and the oldest above `maxSessions`.
 * `retention.ts` decides which entries of a remaining session stay.
 *
 * `store.ts` owns one when it is asked for. A sweep walks over the sessions from the one written to longest ago and
 * ends at the first that is young enough. It runs a slice per turn of the event loop, so that no other work waits for it.
 */

/** Which sessions are dropped. */
export interface SessionExpiry {
  /** Sessions whose newest entry is older than this go. Milliseconds; 0 = none goes for its age. */
  readonly maxAgeMs: number;
  /** Of more sessions than this, those written to longest ago go. */
  readonly maxSessions: number;
  /** True for a session that must stay: a live one, or one with another owner. It is not counted either. */
  readonly retains: (session: string) => boolean;
}

/** What a sweep needs of its store. All but `failed` may throw what SQLite throws. */
export interface ExpirySource {
  /** Every session in the file, the one written to longest ago first. */
  names(): readonly string[];
  /** When the newest entry of a session was appended, epoch milliseconds; undefined when the file does not store it. */
  newestAt(session: string): number | undefined;
  /** True while a reader or writer uses it. */
  busy(session: string): boolean;
  /** Forgets them in one transaction. False when that could not be done. */
  drop(sessions: readonly string[]): boolean;
  /** A sweep ended early; the next one tries again. */
  failed(thrown: unknown): void;
}

/** Delay of the first sweep, so that it does not slow the start of the process. */
const FIRST_MS = 1000;
const EVERY_MS = 3_600_000;
/** A slice ends when this many sessions were found to drop, or were looked at. */
const SLICE_DROPS = 16;
const SLICE_LOOKS = 128;
/** An entry from further in the future than this was written by a wrong clock: its time is ignored. */
const FUTURE_MS = 86_400_000;

/** A running sweep. */
interface Sweep {
  /** Sessions that may be dropped, in order. */
  readonly names: readonly string[];
  /** The first so many of them go for being too many. */
  readonly excess: number;
  /** How many have been looked at. */
  at: number;
  /** Those without a time: they go with the next one that is too old, because they were written to before it. */
  undated: string[];
}

export class Expiry {
  readonly #source: ExpirySource;
  readonly #rule: SessionExpiry;
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;
  #turn: NodeJS.Immediate | undefined;

  /** `now` is epoch milliseconds. Sweeps start a second from now and repeat every hour. */
  constructor(source: ExpirySource, rule: SessionExpiry, now: () => number) {
    this.#source = source;
    this.#rule = rule;
    this.#now = now;
    this.#wait(FIRST_MS);
  }

  stop(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#turn);
  }

  #wait(ms: number): void {
    this.#timer = setTimeout(() => {
      this.#wait(EVERY_MS);
      // A sweep that still runs continues.
      if (this.#turn === undefined) this.#guarded(() => this.#slice(this.#start()));
    }, ms).unref();
  }

  #start(): Sweep {
    const { maxSessions, retains } = this.#rule;
    const names = this.#source.names().filter((name) => !retains(name));
    return { names, excess: Math.max(0, names.length - maxSessions), at: 0, undated: [] };
  }

  /** Drops the next few, and continues in the next turn unless all that is left is young. */
  #slice(sweep: Sweep): void {
    const end = Math.min(sweep.names.length, sweep.at + SLICE_LOOKS);
    const drops: string[] = [];
    let young = false;
    while (sweep.at < end && drops.length < SLICE_DROPS && !young) {
      const name = sweep.names[sweep.at] as string;
      const age = sweep.at < sweep.excess ? 'old' : this.#ageOf(name);
      if (age === 'young') young = true;
      else if (age === 'unknown') sweep.undated.push(name);
      else drops.push(...sweep.undated.splice(0), name);
      sweep.at += 1;
    }
    // Between two slices a client may have used a session again.
    const { retains } = this.#rule;
    const free = drops.filter((name) => !retains(name) && !this.#source.busy(name));
    if (free.length > 0 && !this.#source.drop(free)) return;
    if (young || sweep.at === sweep.names.length) return;
    this.#turn = setImmediate(() => this.#guarded(() => this.#slice(sweep)));
    this.#turn.unref();
  }

  #ageOf(name: string): 'young' | 'old' | 'unknown' {
    const { maxAgeMs } = this.#rule;
    if (maxAgeMs === 0) return 'young';
    const at = this.#source.newestAt(name);
    const now = this.#now();
    if (at === undefined || at > now + FUTURE_MS) return 'unknown';
    return now - at > maxAgeMs ? 'old' : 'young';
  }

  #guarded(work: () => void): void {
    this.#turn = undefined;
    try {
      work();
    } catch (thrown) {
      this.#source.failed(thrown);
    }
  }
}
