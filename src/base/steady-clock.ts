/**
 * Decides whether wall-clock time may decide that a record is old enough to be deleted. A clock that was set ahead by a
 * year, and is corrected within the hour, must not cost young records: it is not trusted for an hour after it jumped,
 * nor for the first hour of a process that finds it more than a day ahead of the newest stored record. Bounds of
 * numbers and bytes hold meanwhile.
 *
 * The journal counts its time in use instead.
 */

/**
 * Time by which the wall clock may run ahead of monotonic time between two calls. More: it was set ahead, or the
 * machine slept.
 */
const JUMP_MS = 60_000;
const DOUBT_MS = 3_600_000;
/** A pause of this length between two processes needs no doubt. */
const PAUSE_MS = 86_400_000;

export class SteadyClock {
  readonly #wall: () => number;
  readonly #monotonic: () => number;
  readonly #startedAt: number;
  #ahead: number;
  #doubtedUntil = Number.NEGATIVE_INFINITY;

  /**
   * @param wall epoch milliseconds
   * @param monotonic milliseconds of a clock that is never set
   */
  constructor(wall: () => number = () => Date.now(), monotonic: () => number = () => performance.now()) {
    this.#wall = wall;
    this.#monotonic = monotonic;
    this.#startedAt = monotonic();
    this.#ahead = wall() - this.#startedAt;
  }

  /**
   * Returns true if the age of records may be computed from the wall clock.
   * @param newestMs epoch milliseconds of the newest record of earlier processes; undefined: not known, 0: none exists
   */
  trusts(newestMs?: number): boolean {
    const monotonic = this.#monotonic();
    const wall = this.#wall();
    const ahead = wall - monotonic;
    if (ahead - this.#ahead > JUMP_MS) this.#doubtedUntil = monotonic + DOUBT_MS;
    this.#ahead = ahead;
    if (monotonic < this.#doubtedUntil) return false;
    if (monotonic - this.#startedAt >= DOUBT_MS || newestMs === 0) return true;
    return newestMs !== undefined && wall - newestMs <= PAUSE_MS;
  }
}
