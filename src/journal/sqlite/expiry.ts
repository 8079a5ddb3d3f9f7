/**
 * Drops whole sessions from the SQLite journal: those without a new entry for `maxAgeMs`, and the oldest above `maxSessions`.
 * `retention.ts` decides which entries of a remaining session stay.
 *
 * `store.ts` owns one when it is asked for. Sessions are in the order of their last write, so those to drop are the first
 * ones. Age is measured by how long the journal has been in use (`progress.ts`), never by the times of entries: a clock that
 * is set forward must not cost what is young. A sweep runs a slice per turn of the event loop, so that no other work waits
 * for it.
 */

import { Slices } from './slices.ts';

/** Which sessions are dropped. */
export interface SessionExpiry {
  /** Sessions without a new entry for this long go. Milliseconds; 0 = none goes for its age. */
  readonly maxAgeMs: number;
  /** Of more sessions than this, those written to longest ago go, of owners with more than an equal part of them. */
  readonly maxSessions: number;
  /** True for a session that must stay: a live one, or one with another owner. It is not counted either. */
  readonly retains: (session: string) => boolean;
}

/** A session and which append of the whole journal was its last. */
export interface WrittenSession {
  readonly session: string;
  readonly written: number;
  readonly owner: string;
}

/** What a sweep needs of its store. All but `failed` may throw what SQLite throws. */
export interface ExpirySource {
  /** Every session in the file, the one written to longest ago first. */
  names(): readonly WrittenSession[];
  /** The newest append that is known to be older than this; 0 when none is. Also stores when the newest one was made. */
  writtenBefore(ageMs: number): number;
  /** True while a reader or writer uses it, or when it was written to after the append `written`. */
  busy(session: WrittenSession): boolean;
  /** Forgets them in one transaction. False when that could not be done. */
  drop(sessions: readonly string[]): boolean;
  /** A sweep ended early; the next one tries again. */
  failed(thrown: unknown): void;
}

/** Delay of the first sweep, so that it does not slow the start of the process. */
const FIRST_MS = 1000;
const EVERY_MS = 3_600_000;
/** A slice ends when this many sessions were found to drop. */
const SLICE_DROPS = 16;

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
      if (!this.#slices.waiting) this.#slices.run(() => this.#slice(this.#start()));
    }, ms).unref();
  }

  /** The sessions to drop. */
  #start(): readonly WrittenSession[] {
    const { maxAgeMs, maxSessions, retains } = this.#rule;
    const oldest = maxAgeMs === 0 ? 0 : this.#source.writtenBefore(maxAgeMs);
    const names = this.#source.names().filter(({ session }) => !retains(session));
    const old = names.filter(({ written }) => written <= oldest);
    return [...old, ...excessOf(names.slice(old.length), maxSessions)];
  }

  /** Drops the next few, and continues in the next turn. */
  #slice(left: readonly WrittenSession[]): void {
    const drops = left.slice(0, SLICE_DROPS);
    // Between two slices a client may have used a session again.
    const free = drops.filter((each) => !this.#rule.retains(each.session) && !this.#source.busy(each));
    if (free.length > 0 && !this.#source.drop(free.map(({ session }) => session))) return;
    if (left.length <= SLICE_DROPS) return;
    this.#slices.next(() => this.#slice(left.slice(SLICE_DROPS)));
  }
}

/** The sessions over `maxSessions`: the oldest ones of the owners with more than an equal part. */
function excessOf(sessions: readonly WrittenSession[], maxSessions: number): WrittenSession[] {
  let excess = sessions.length - maxSessions;
  if (excess <= 0) return [];
  const counts = new Map<string, number>();
  for (const { owner } of sessions) counts.set(owner, (counts.get(owner) ?? 0) + 1);
  const part = maxSessions / counts.size;
  return sessions.filter(({ owner }) => {
    const count = counts.get(owner) as number;
    if (excess === 0 || count <= part) return false;
    counts.set(owner, count - 1);
    excess -= 1;
    return true;
  });
}
