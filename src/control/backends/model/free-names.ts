/** Names of letters, digits and `_` for the names of strangers. Linear in their number and length, also where many look alike. Pure. */
import { trimmedEnd } from '../../../base/trim-end.ts';

/** Gives each name once. */
export class FreeNames {
  readonly #isReserved: (name: string) => boolean;
  readonly #taken = new Set<string>();
  /** The next number of each stem. */
  readonly #counts = new Map<string, number>();

  /** @param isReserved true for names that are not given */
  constructor(isReserved: (name: string) => boolean = () => false) {
    this.#isReserved = isReserved;
  }

  /** The stem where it is free, else the stem with a number. */
  take(stem: string): string {
    let count = this.#counts.get(stem) ?? 1;
    let name = stem;
    for (; ; count += 1) {
      if (count > 1) name = `${stem}_${count}`;
      if (!this.#taken.has(name) && !this.#isReserved(name)) break;
    }
    this.#counts.set(stem, count + 1);
    this.#taken.add(name);
    return name;
  }
}

/** The letters, digits and `_` of a text, without `_` at its ends. */
export const lettersOf = (text: string): string => trimmedEnd(text.replaceAll(/\W+/g, '_').replace(/^_+/, ''), '_');
