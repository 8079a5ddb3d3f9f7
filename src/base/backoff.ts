/**
 * How long to wait before the next try at something that failed: twice as long each time, with jitter, up to a bound.
 *
 * Used by both ends of stream links for connecting again, and by the HTTP dialect for replies that were not taken.
 */

/** All optional. */
export interface BackoffOptions {
  /** Milliseconds before the first try again. Default 250. */
  readonly firstDelayMs?: number;
  /** Longest delay, milliseconds. Default 30,000. */
  readonly maxDelayMs?: number;
  /** 0…1. */
  readonly random?: () => number;
}

export class Backoff {
  readonly #firstDelayMs: number;
  readonly #maxDelayMs: number;
  readonly #random: () => number;
  #failures = 0;

  constructor({ firstDelayMs = 250, maxDelayMs = 30_000, random = Math.random }: BackoffOptions = {}) {
    this.#firstDelayMs = firstDelayMs;
    this.#maxDelayMs = Math.max(firstDelayMs, maxDelayMs);
    this.#random = random;
  }

  /** Failures since the last success. */
  get failures(): number {
    return this.#failures;
  }

  /** Milliseconds to wait now. Half of it is jitter, so that many who lost the same peer do not come back together. */
  next(): number {
    const full = Math.min(this.#maxDelayMs, this.#firstDelayMs * 2 ** Math.min(this.#failures, 30));
    this.#failures++;
    return full / 2 + (full / 2) * this.#random();
  }

  /** The longest delay from now on: trying again soon would not help. */
  longest(): void {
    this.#failures = 30;
  }

  /** It worked. */
  reset(): void {
    this.#failures = 0;
  }
}

/**
 * What `promise` gives, unless `ms` pass before it settles: then it fails with what `late` makes. The promise itself goes on.
 */
export function withTimeout<T>(promise: Promise<T>, ms: number, late: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), ms);
    promise.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (error) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}
