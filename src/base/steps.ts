/**
 * A bound of work that no expression can miss: every value that an evaluation visits, compares or makes is a step, and
 * texts count by their length. A step is 10 to 30 ns, so the time and the memory of an evaluation are bounded at any
 * load.
 *
 * It bounds conditions (`expressions.ts`) and the JMESPath of chains.
 * @see docs/decisions/0050-expressions-within-counted-work.md
 */

/** Steps of one evaluation by default: about 10 ms. */
export const MAX_STEPS = 500_000;

/** Characters of text that count as one step. */
const CHARS_PER_STEP = 8;

/** The default error of {@link Steps}: the evaluator catches it. */
export class OutOfSteps extends Error {
  override readonly name = 'OutOfSteps';
}

export class Steps {
  readonly #limit: number;
  readonly #beyond: (limit: number) => Error;
  #left: number;

  /**
   * @param limit steps at most
   * @param beyond makes the error that is thrown past the limit
   */
  constructor(limit = MAX_STEPS, beyond: (limit: number) => Error = (max) => new OutOfSteps(`more than ${max} steps`)) {
    this.#limit = limit;
    this.#beyond = beyond;
    this.#left = limit;
  }

  /** Counts steps. Throws when they exceed the limit. */
  count(steps = 1): void {
    this.#left -= steps;
    if (this.#left < 0) throw this.#beyond(this.#limit);
  }

  /** Counts the making or reading of a text. */
  countText(chars: number): void {
    this.count(1 + Math.floor(chars / CHARS_PER_STEP));
  }

  /** Counts every value and every name inside a value, so that a shared part counts each time. */
  countAll(value: unknown): void {
    if (typeof value === 'string') this.countText(value.length);
    else this.count();
    if (Array.isArray(value)) for (const item of value) this.countAll(item);
    else if (typeof value === 'object' && value !== null) {
      for (const name of this.keys(value)) {
        this.countText(name.length);
        this.countAll((value as Readonly<Record<string, unknown>>)[name]);
      }
    }
  }

  /** Returns the names of the members of an object, and counts them. */
  keys(value: object): readonly string[] {
    const names = Object.keys(value);
    this.count(names.length * STEPS_PER_NAME);
    return names;
  }
}

/** Listing the names of a large object costs this much for each. */
const STEPS_PER_NAME = 10;
