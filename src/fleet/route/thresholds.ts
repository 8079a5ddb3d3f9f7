/**
 * The different values a number has over a fleet (context windows, start-up costs), sorted. Two limits with no value
 * between them let the same workers pass, so they share one set of them in the router.
 */
export class Thresholds {
  readonly #values: number[] = [];
  readonly #counts = new Map<number, number>();

  add(value: number): void {
    const count = this.#counts.get(value) ?? 0;
    this.#counts.set(value, count + 1);
    if (count === 0) this.#values.splice(this.#firstNotBelow(value), 0, value);
  }

  remove(value: number): void {
    const count = this.#counts.get(value) ?? 0;
    if (count > 1) this.#counts.set(value, count - 1);
    else if (count === 1) {
      this.#counts.delete(value);
      this.#values.splice(this.#firstNotBelow(value), 1);
    }
  }

  /** Smallest value that is not below the limit; infinity: none. */
  notBelow(limit: number): number {
    return this.#values[this.#firstNotBelow(limit)] ?? Number.POSITIVE_INFINITY;
  }

  /** Largest value that is not above the limit; minus infinity: none. */
  notAbove(limit: number): number {
    const at = this.#firstNotBelow(limit);
    if (this.#values[at] === limit) return limit;
    return this.#values[at - 1] ?? Number.NEGATIVE_INFINITY;
  }

  #firstNotBelow(limit: number): number {
    let low = 0;
    let high = this.#values.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#values[middle]! < limit) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
