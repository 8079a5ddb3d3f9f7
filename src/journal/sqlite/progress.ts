/**
 * The time that a journal has been in use: the clock of retention. It counts the time that is known to have passed, and
 * so it does not follow the wall clock, which may be set forward by weeks and back again.
 *
 * While a process has the journal open, monotonic time counts. Time in which none had it, or the machine slept, is
 * known from the wall clock alone: of each such pause only a part counts, and none of it twice.
 *
 * When sessions expire, it is stored in the file.
 */

/** The parts of a clock that are stored. */
export interface ProgressState {
  /** Milliseconds in use. */
  readonly progress: number;
  /** The wall time up to which all was counted, epoch milliseconds; 0 before the first. It never decreases. */
  readonly seenAt: number;
}

const DAY_MS = 86_400_000;
/** Most that a pause may count, as a share of the longest age, and at all. */
const PAUSE_SHARE = 8;

export class Progress {
  readonly #wall: () => number;
  readonly #monotonic: () => number;
  readonly #maxPauseMs: number;
  #state: ProgressState;
  #at: number;

  /**
   * @param wall epoch milliseconds
   * @param monotonic milliseconds of a clock that is never set
   */
  constructor(state: ProgressState, maxAgeMs: number, wall: () => number, monotonic: () => number) {
    this.#state = state;
    this.#wall = wall;
    this.#monotonic = monotonic;
    this.#maxPauseMs = Math.min(DAY_MS, maxAgeMs / PAUSE_SHARE);
    this.#at = monotonic();
  }

  /** Returns the present state of the clock, to be stored. */
  advance(): ProgressState {
    const at = this.#monotonic();
    const wall = this.#wall();
    const passed = at - this.#at;
    const { progress, seenAt } = this.#state;
    const expected = seenAt === 0 ? wall : seenAt + passed;
    const pause = Math.max(0, wall - expected);
    this.#at = at;
    this.#state = {
      progress: Math.round(progress + passed + Math.min(pause, this.#maxPauseMs)),
      seenAt: Math.round(Math.max(expected, wall)),
    };
    return this.#state;
  }
}
