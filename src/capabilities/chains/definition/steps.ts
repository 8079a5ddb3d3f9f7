/**
 * What one evaluation of an expression may cost. Every value that an expression visits, compares or makes is a step, so the
 * time and the memory of an evaluation are bounded for every expression.
 */
import { failure } from '../errors.ts';

/** Steps of one evaluation by default: more than enough to map a million items. */
export const MAX_STEPS = 2_500_000;

/** Characters of text that count as one step. */
const CHARS_PER_STEP = 8;

export class Steps {
  readonly #limit: number;
  #left: number;

  /** @param limit steps at most */
  constructor(limit = MAX_STEPS) {
    this.#limit = limit;
    this.#left = limit;
  }

  /** Counts steps. Fails with chains.expression, reason `steps`, when there are too many. */
  count(steps = 1): void {
    this.#left -= steps;
    if (this.#left < 0) {
      const message = `the expression takes more than ${this.#limit} steps`;
      throw failure('expression', message, { reason: 'steps', limit: this.#limit });
    }
  }

  /** Counts the making or reading of a text. */
  countText(chars: number): void {
    this.count(1 + Math.floor(chars / CHARS_PER_STEP));
  }

  /** Counts every value inside a value, so that what is shared inside of it counts each time. */
  countAll(value: unknown): void {
    if (typeof value === 'string') this.countText(value.length);
    else this.count();
    if (Array.isArray(value)) for (const item of value) this.countAll(item);
    else if (typeof value === 'object' && value !== null)
      for (const member of Object.values(value)) this.countAll(member);
  }
}
