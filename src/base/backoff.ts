/**
 * The delay before a failed operation is tried again: twice as long each time, up to a bound, with jitter.
 *
 * The only place that computes delays of retries: of links that are dialled again, of requests of the HTTP binding, and
 * of all other work that retries.
 */

/** A link that stayed open for this long counts as a success, milliseconds. One that opens and ends at once is a failure each time. */
export const STEADY_MS = 5_000;

/** All optional. */
export interface BackoffOptions {
  /** Milliseconds before the first retry. Default 250. */
  readonly firstDelayMs?: number;
  /** Longest delay, milliseconds. Default 30,000. */
  readonly maxDelayMs?: number;
  /**
   * Share of each delay that is random, 0 to 1. Default 0.5, so that many that lost the same peer do not return together.
   * 0 where a test or a specification fixes the delay.
   */
  readonly jitter?: number;
  /** 0 ≤ x < 1. */
  readonly random?: () => number;
}

/** Failures after which a delay no longer grows, for any bound: 2 to this power is a number of days. */
const MAX_DOUBLINGS = 30;

/** Returns the milliseconds to wait after `failures` earlier failures in a row; 0 gives the first delay. */
export function backoffMs(failures: number, options: BackoffOptions = {}): number {
  const { firstDelayMs = 250, maxDelayMs = 30_000, jitter = 0.5, random = Math.random } = options;
  const fullMs = Math.min(Math.max(firstDelayMs, maxDelayMs), firstDelayMs * 2 ** Math.min(failures, MAX_DOUBLINGS));
  return jitter === 0 ? fullMs : fullMs * (1 - jitter + jitter * random());
}

/** The delays of one operation that is tried again until it succeeds, or opened again whenever it has ended. */
export class Backoff {
  readonly #options: BackoffOptions;
  readonly #now: () => number;
  #failures = 0;
  #openedAt: number | undefined;

  /** @param now monotonic milliseconds */
  constructor(options: BackoffOptions = {}, now: () => number = () => performance.now()) {
    this.#options = options;
    this.#now = now;
  }

  /** Failures since the last success. */
  get failures(): number {
    return this.#failures;
  }

  /** Counts a failure and gives the milliseconds to wait now. */
  next(): number {
    if (this.#openedAt !== undefined && this.#now() - this.#openedAt >= STEADY_MS) this.reset();
    this.#openedAt = undefined;
    return backoffMs(this.#failures++, this.#options);
  }

  /** Sets the longest delay from now on: retrying soon would not help. */
  longest(): void {
    this.#failures = Math.max(this.#failures, MAX_DOUBLINGS);
  }

  /** Records that the link is open. If it stays open for {@link STEADY_MS}, the next failure counts as the first again. */
  opened(): void {
    this.#openedAt = this.#now();
  }

  /** Makes the next failure count as the first again. */
  reset(): void {
    this.#failures = 0;
  }
}
