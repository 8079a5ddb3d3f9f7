/** A distribution in little memory: counts in steps of about two percent, so that a million values take no more than ten. */

const STEPS_PER_DOUBLING = 32;

export class Histogram {
  readonly #counts = new Map<number, number>();
  count = 0;
  sum = 0;
  most = 0;

  /** Adds a value ≥ 0. */
  add(value: number): void {
    const step = value <= 0 ? Number.NEGATIVE_INFINITY : Math.floor(Math.log2(value) * STEPS_PER_DOUBLING);
    this.#counts.set(step, (this.#counts.get(step) ?? 0) + 1);
    this.count += 1;
    this.sum += value;
    if (value > this.most) this.most = value;
  }

  get mean(): number {
    return this.count === 0 ? 0 : this.sum / this.count;
  }

  /** Returns the value that this share (0…1) does not exceed, to about two percent. */
  at(share: number): number {
    let left = Math.ceil(this.count * share);
    for (const [value, count] of this.steps()) {
      left -= count;
      if (left <= 0) return Math.min(value, this.most);
    }
    return this.most;
  }

  /** Returns the upper end of each step that holds values, with their number; lowest first. */
  steps(): (readonly [value: number, count: number])[] {
    return [...this.#counts]
      .sort(([left], [right]) => left - right)
      .map(([step, count]) => [step === Number.NEGATIVE_INFINITY ? 0 : 2 ** ((step + 1) / STEPS_PER_DOUBLING), count]);
  }
}
