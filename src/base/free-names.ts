/**
 * Unique names: each name is given once, and equal ones get a number. Linear in their number and length, also where
 * many look alike, because strangers choose them. Pure.
 */
import { trimmedEnd } from './trim-end.ts';

/** Room for the number behind a name that is cut. */
const NUMBER = 8;

export interface FreeNamesOptions {
  /** Returns true for names that are not given. */
  readonly isReserved?: (name: string) => boolean;
  /** Characters of a name at most, where a stem may have as many. */
  readonly longest?: number;
}

/** Gives each name once. */
export class FreeNames {
  readonly #isReserved: (name: string) => boolean;
  readonly #longest: number;
  readonly #taken = new Set<string>();
  /** The next number of each stem. */
  readonly #counts = new Map<string, number>();

  constructor({ isReserved = () => false, longest = Number.POSITIVE_INFINITY }: FreeNamesOptions = {}) {
    this.#isReserved = isReserved;
    this.#longest = longest;
  }

  /** Returns the first name if it is free, else the stem with a number. */
  take(stem: string, first = stem): string {
    let name = first;
    if (!this.#isFree(name)) {
      const short = stem.slice(0, this.#longest - NUMBER);
      let count = this.#counts.get(short) ?? 2;
      for (; ; count += 1) {
        name = `${short}_${count}`;
        if (this.#isFree(name)) break;
      }
      this.#counts.set(short, count + 1);
    }
    this.#taken.add(name);
    return name;
  }

  #isFree(name: string): boolean {
    return !this.#taken.has(name) && !this.#isReserved(name);
  }
}

/** Returns the letters, digits and `_` of a text, without `_` at its ends. */
export const lettersOf = (text: string): string => trimmedEnd(text.replaceAll(/\W+/g, '_').replace(/^_+/, ''), '_');
