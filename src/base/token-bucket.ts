/**
 * A rate limit: a number of units a second; the units of one second may be used at once.
 *
 * The clock is read only when the bucket is empty, so a unit costs a comparison and a subtraction. A refill keeps the
 * rest, which allows at most one more second's worth.
 */
export class TokenBucket {
  readonly #perSecond: () => number;
  readonly #now: () => number;
  /** Below zero: a debt, which is repaid first. */
  #left: number;
  #filledAt: number;

  /**
   * @param perSecond units a second, above 0; called at each refill, so the value may change
   * @param now monotonic milliseconds
   */
  constructor(perSecond: () => number, now: () => number = () => performance.now()) {
    this.#perSecond = perSecond;
    this.#now = now;
    this.#left = perSecond();
    this.#filledAt = now();
  }

  /** Takes units while anything is left, also more than that. False: nothing is left, and nothing was taken. */
  take(units = 1): boolean {
    if (this.#left <= 0 && !this.#fill()) return false;
    this.#left -= units;
    return true;
  }

  /** Takes units that were used already. False: nothing is left now. */
  spend(units: number): boolean {
    this.#left -= units;
    return this.#left > 0 || this.#fill();
  }

  /** The part of one second's units that is used now. */
  get used(): number {
    this.#fill();
    return Math.round(this.#perSecond() - this.#left);
  }

  /** Milliseconds until a unit is left, rounded up. */
  get waitMs(): number {
    if (this.#left > 0 || this.#fill()) return 0;
    return Math.floor((-this.#left * 1000) / this.#perSecond()) + 1;
  }

  #fill(): boolean {
    const now = this.#now();
    const perSecond = this.#perSecond();
    this.#left = Math.min(perSecond, this.#left + ((now - this.#filledAt) * perSecond) / 1000);
    this.#filledAt = now;
    return this.#left > 0;
  }
}
