/** `Text`: strings of a character set, between two lengths. Characters are code points, as in Python. */
import { Generator, randomSeed } from '../../../base/random/generator.ts';
import { fail } from '../../../wire/errors.ts';
import type { Sampler, Space } from './space.ts';

/** Gymnasium's default character set, in the order it samples from. */
export const ALPHANUMERIC = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

interface TextOptions {
  readonly minLength?: number;
  /** Absent: letters and digits. Null: every character; samples are then letters and digits. */
  readonly charset?: string | null;
}

export class Text implements Space<string> {
  readonly kind = 'Text';
  readonly minLength: number;
  readonly maxLength: number;
  /** Distinct characters in the given order; null accepts every character. */
  readonly charset: string | null;
  readonly #characters: readonly string[];
  readonly #set: ReadonlySet<string> | undefined;

  constructor(maxLength: number, { minLength = 1, charset = ALPHANUMERIC }: TextOptions = {}) {
    if (
      !(Number.isSafeInteger(maxLength) && Number.isSafeInteger(minLength) && minLength >= 0 && minLength <= maxLength)
    )
      throw fail(
        'schema_violation',
        `a Text space needs 0 <= min_length <= max_length; got ${minLength}, ${maxLength}`,
      );
    this.minLength = minLength;
    this.maxLength = maxLength;
    this.#characters = [...new Set(charset ?? ALPHANUMERIC)];
    this.#set = charset === null ? undefined : new Set(this.#characters);
    this.charset = charset === null ? null : this.#characters.join('');
    if (this.#characters.length === 0 && maxLength > 0)
      throw fail('schema_violation', 'a Text space without characters has max_length 0');
  }

  describe() {
    return { type: 'Text', min_length: this.minLength, max_length: this.maxLength, charset: this.charset };
  }

  jsonSchema() {
    return { type: 'string', minLength: this.minLength, maxLength: this.maxLength };
  }

  contains(value: unknown): value is string {
    // A string has at most as many code points as units, so a long one is refused before it is split.
    if (typeof value !== 'string' || value.length > this.maxLength * 2) return false;
    const characters = [...value];
    const fits = characters.length >= this.minLength && characters.length <= this.maxLength;
    return fits && (this.#set === undefined || characters.every((character) => this.#set!.has(character)));
  }

  sampler(seed?: number | null): Sampler<string> {
    const generator = new Generator(seed ?? randomSeed());
    const weights = this.#characters.map(() => 1 / this.#characters.length);
    return () => {
      const length = generator.integer(this.minLength, this.maxLength + 1);
      return Array.from({ length }, () => this.#characters[generator.weighted(weights)]!).join('');
    };
  }

  toWire(value: string): unknown {
    return value;
  }

  fromWire(value: unknown): string | undefined {
    return this.contains(value) ? value : undefined;
  }
}
