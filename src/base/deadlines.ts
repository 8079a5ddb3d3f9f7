/**
 * Deadlines of many items with one timer: the timer is set to the earliest deadline, and items that end earlier cost
 * nothing.
 */

/** An item with a moment after which it is late. */
export interface Timed {
  /** Monotonic milliseconds (`performance.now()`); `Infinity` = never. */
  deadlineAt: number;
}

/** Longest delay setTimeout accepts, in milliseconds; a longer one would fire at once. */
export const MAX_DELAY_MS = 2 ** 31 - 1;

export class Deadlines<T extends Timed> {
  readonly #items: () => Iterable<T>;
  readonly #expire: (item: T) => void;
  #timer: NodeJS.Timeout | undefined;
  #armedAt = Number.POSITIVE_INFINITY;
  #resting = false;

  /**
   * @param items returns the waiting items; called only when the timer fires
   * @param expire called for each item whose deadline has passed; must take it out of `items`
   */
  constructor(items: () => Iterable<T>, expire: (item: T) => void) {
    this.#items = items;
    this.#expire = expire;
  }

  /** Notes a new or an earlier deadline. Costs a comparison unless it is the earliest of all. */
  watch(deadlineAt: number): void {
    if (deadlineAt < this.#armedAt) this.#arm(deadlineAt, performance.now());
    else if (this.#resting) this.#timer?.ref?.();
    this.#resting = false;
  }

  /** Marks that no item waits now: the timer stays set and does not hold the process open. */
  rest(): void {
    this.#timer?.unref?.(); // A browser's timer is a number.
    this.#resting = true;
  }

  /** Stops the timer for good measure; watching again starts it again. */
  clear(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#armedAt = Number.POSITIVE_INFINITY;
  }

  #arm(deadlineAt: number, now: number): void {
    clearTimeout(this.#timer);
    this.#armedAt = deadlineAt;
    const delay = Math.min(Math.max(deadlineAt - now, 0), MAX_DELAY_MS);
    this.#timer = setTimeout(this.#fire, delay);
  }

  readonly #fire = (): void => {
    this.clear();
    const now = performance.now();
    let next = Number.POSITIVE_INFINITY;
    const late: T[] = [];
    for (const item of this.#items()) {
      // Timers may fire a fraction of a millisecond early; half a millisecond is not worth another round.
      if (item.deadlineAt <= now + 0.5) late.push(item);
      else if (item.deadlineAt < next) next = item.deadlineAt;
    }
    // A timer that fires late finds several: they end in the order they should have.
    if (late.length > 1) late.sort((a, b) => a.deadlineAt - b.deadlineAt);
    for (const item of late) this.#expire(item);
    if (next < this.#armedAt) this.#arm(next, now);
    if (this.#resting) this.#timer?.unref?.();
  };
}
