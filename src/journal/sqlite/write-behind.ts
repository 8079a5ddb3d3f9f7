/**
 * The write-behind of the SQLite journal: the sessions with waiting volatile entries, and the time of their writing.
 *
 * They are written a while after the first of them was appended, all sessions in one round, a slice of it per turn of
 * the event loop. `store.ts` runs the transactions.
 */
import type { HandfastError } from '../../wire/errors.ts';
import type { SqliteSession } from './session.ts';

/** Time that a volatile entry waits while the disk is fast enough: the entries that a crash may cost. */
export const WRITE_BEHIND_MS = 100;
/** After a failed write. */
const RETRY_MS = 1000;
/** The pause after a round is at least this many times the writing time, so that a slow disk uses a tenth of the loop. */
const PAUSE_FACTOR = 9;
const MAX_PAUSE_MS = 1000;
/** A slice ends with the session that exceeds one of these: a few milliseconds of the loop. */
const SLICE_ENTRIES = 2048;
const SLICE_BYTES = 1024 * 1024;
/** With more than this waiting in one session, which is more than its default retention, its round starts in the next turn. */
const LARGE_ENTRIES = 4096;
const LARGE_BYTES = 2 * 1024 * 1024;
/** With more than this waiting in all, a slice is written within the append; where that fails, all of it is abandoned. */
export const MAX_WAITING_ENTRIES = 32_768;
export const MAX_WAITING_BYTES = 16 * 1024 * 1024;

/** Members of the store that the write-behind uses. */
export interface BehindWriter {
  /** Commits the durable batch; afterwards no durable entry waits in any session. */
  commit(): void;
  /** Writes the waiting entries of these sessions, in one transaction without a sync; returns the reason of a failure. */
  write(sessions: readonly SqliteSession[]): HandfastError | undefined;
}

export class WriteBehind {
  readonly #writer: BehindWriter;
  readonly #now: () => number;
  readonly #sessions = new Set<SqliteSession>();
  #entries = 0;
  #bytes = 0;
  #timer: NodeJS.Timeout | NodeJS.Immediate | undefined;
  /** True when the timer ends this turn. */
  #soon = false;
  /** Sessions of the current round that are still to be written. */
  #roundLeft = 0;
  /** Writing time since the last pause was decided. */
  #spentMs = 0;
  /** End of the last pause that writing has earned. */
  #restUntil = 0;
  /** Delay of the timer. */
  #pauseMs = 0;
  #failure: HandfastError | undefined;
  #failures = 0;

  /** @param now counts milliseconds */
  constructor(writer: BehindWriter, now: () => number) {
    this.#writer = writer;
    this.#now = now;
  }

  /** Entries lost so far. */
  get failures(): number {
    return this.#failures;
  }

  /**
   * The reason why the last write failed; undefined after one that did not. While set, entries wait in memory within
   * their bounds.
   */
  get failure(): HandfastError | undefined {
    return this.#failure;
  }

  /** Reports how long writing blocked the event loop. */
  spent(ms: number): void {
    this.#spentMs += ms;
  }

  /** Entries that turned out not to be storable. */
  lost(entries: number): void {
    this.#failures += entries;
  }

  /** Counts the volatile entries that a session has got. */
  appended(session: SqliteSession): void {
    const { counted } = session;
    this.#entries += session.waitingEntries - counted.entries;
    this.#bytes += session.waitingBytes - counted.bytes;
    counted.entries = session.waitingEntries;
    counted.bytes = session.waitingBytes;
    if (!counted.behind) {
      counted.behind = true;
      this.#sessions.add(session);
    }
    if (this.#entries > MAX_WAITING_ENTRIES || this.#bytes > MAX_WAITING_BYTES) this.#relieve();
    else if (this.#timer === undefined) this.#wait();
    else if (!this.#soon && this.#urgent(counted)) {
      this.#stopWaiting();
      this.#next();
    }
  }

  /** Removes a session without waiting entries: they were written or deleted. */
  settled(session: SqliteSession): void {
    const { counted } = session;
    if (!counted.behind) return;
    this.#entries -= counted.entries;
    this.#bytes -= counted.bytes;
    counted.behind = false;
    counted.entries = 0;
    counted.bytes = 0;
    this.#sessions.delete(session);
  }

  /** Writes all waiting entries, now. Returns the reason of a failure; then the remaining entries still wait. */
  flush(): HandfastError | undefined {
    let failure: HandfastError | undefined;
    while (this.#sessions.size > 0 && failure === undefined) failure = this.#slice();
    return failure;
  }

  /** Writes the waiting entries, abandons those that cannot be written, and stops. Returns the reason of a failure. */
  close(): HandfastError | undefined {
    const failure = this.flush();
    if (failure !== undefined) this.#abandon();
    this.#stopWaiting();
    return failure;
  }

  #wait(): void {
    this.#pauseMs = Math.max(WRITE_BEHIND_MS, this.#restUntil - this.#now());
    this.#timer = setTimeout(this.#round, this.#pauseMs);
    // Waiting entries hold the process open until they are written, a failing disk does not.
    if (this.#failure !== undefined) this.#timer.unref();
  }

  /**
   * Returns true when the pause should end in this turn. A failing disk is left alone, a slow one while the bounds
   * allow it.
   */
  #urgent(counted: SqliteSession['counted']): boolean {
    if (this.#failure !== undefined) return false;
    if (this.#entries > MAX_WAITING_ENTRIES / 2 || this.#bytes > MAX_WAITING_BYTES / 2) return true;
    return this.#pauseMs === WRITE_BEHIND_MS && (counted.entries > LARGE_ENTRIES || counted.bytes > LARGE_BYTES);
  }

  #next(): void {
    this.#soon = true;
    this.#timer = setImmediate(this.#round);
  }

  #stopWaiting(): void {
    if (this.#soon) clearImmediate(this.#timer as NodeJS.Immediate);
    else clearTimeout(this.#timer as NodeJS.Timeout | undefined);
    this.#timer = undefined;
    this.#soon = false;
  }

  /** One slice of a round; the next follows in the next turn. */
  readonly #round = (): void => {
    this.#timer = undefined;
    this.#soon = false;
    if (this.#roundLeft === 0) this.#roundLeft = this.#sessions.size;
    const started = this.#now();
    const failure = this.#slice(this.#roundLeft);
    const now = this.#now();
    this.spent(now - started);
    if (failure === undefined && this.#roundLeft > 0 && this.#sessions.size > 0) return this.#next();
    this.#roundLeft = 0;
    const earnedMs = Math.min(this.#spentMs * PAUSE_FACTOR, MAX_PAUSE_MS);
    this.#restUntil = now + (failure === undefined ? earnedMs : RETRY_MS);
    this.#spentMs = 0;
    if (this.#sessions.size > 0) this.#wait();
  };

  /** Writes the sessions that have waited longest, as many as fit a slice, `most` at most. */
  #slice(most = Number.POSITIVE_INFINITY): HandfastError | undefined {
    // First, so that no durable entry is written without its sync, or before an earlier deletion.
    this.#writer.commit();
    const slice: SqliteSession[] = [];
    let entries = 0;
    let bytes = 0;
    for (const session of this.#sessions) {
      slice.push(session);
      entries += session.counted.entries;
      bytes += session.counted.bytes;
      if (slice.length >= most || entries >= SLICE_ENTRIES || bytes >= SLICE_BYTES) break;
    }
    if (slice.length === 0) return undefined;
    this.#roundLeft = Math.max(0, this.#roundLeft - slice.length);
    this.#failure = this.#writer.write(slice);
    return this.#failure;
  }

  /** Frees memory at once when too many entries wait: by writing or by dropping them. */
  #relieve(): void {
    // While the disk fails it is tried once in a while, not at every append.
    const failure = this.#failure ?? this.#slice();
    if (failure !== undefined) {
      this.#restUntil = this.#now() + RETRY_MS;
      this.#abandon();
    }
    if (this.#timer === undefined && this.#sessions.size > 0) this.#wait();
  }

  #abandon(): void {
    // Durable entries are not abandoned here; they belong to the commit of this turn.
    this.#writer.commit();
    for (const session of this.#sessions) {
      this.#failures += session.abandon();
      session.counted.entries = 0;
      session.counted.bytes = 0;
    }
    this.#entries = 0;
    this.#bytes = 0;
  }
}
