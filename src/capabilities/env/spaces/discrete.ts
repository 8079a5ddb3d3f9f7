/** `Discrete`: the integers from `start` to `start + n - 1`, as in most actions and the states of grid worlds. */
import { Generator, randomSeed } from '../../../base/random/generator.ts';
import { fail } from '../../../wire/errors.ts';
import { maskedChoice } from './mask.ts';
import { MultiDiscrete } from './multi-discrete.ts';
import { dtypeOf } from './numbers.ts';
import type { Sampler, Space } from './space.ts';

export class Discrete implements Space<number> {
  readonly kind = 'Discrete';
  readonly n: number;
  readonly start: number;
  readonly dtype: string;
  readonly #bits: number;

  constructor(n: number, { start = 0, dtype = 'int64' }: { readonly start?: number; readonly dtype?: string } = {}) {
    const { kind, bits, min, max } = dtypeOf(dtype);
    if (kind !== 'integer') throw fail('schema_violation', `a Discrete space has an integer dtype, not ${dtype}`);
    if (!(Number.isSafeInteger(n) && n > 0 && Number.isSafeInteger(start) && start >= min && start + n - 1 <= max))
      throw fail(
        'schema_violation',
        `a Discrete space needs n of 1 or more within ${dtype}; got n ${n}, start ${start}`,
      );
    this.n = n;
    this.start = start;
    this.dtype = dtype;
    this.#bits = bits;
  }

  describe() {
    const { n, start, dtype } = this;
    return { type: 'Discrete', n, start, ...(dtype !== 'int64' && { dtype }) };
  }

  jsonSchema() {
    return { type: 'integer', minimum: this.start, maximum: this.start + this.n - 1 };
  }

  contains(value: unknown): value is number {
    return Number.isInteger(value) && (value as number) >= this.start && (value as number) < this.start + this.n;
  }

  /**
   * Returns a sampler, whose `mask` has `n` numbers, 1 for the values that a sample may have; a mask without a 1 gives `start`.
   */
  sampler(seed?: number | null): Sampler<number> {
    return this.samplerOf(new Generator(seed ?? randomSeed()));
  }

  samplerOf(generator: Generator): Sampler<number> {
    const { n, start } = this;
    return (mask) => {
      if (mask !== undefined && mask !== null) return start + maskedChoice(generator, mask, n);
      if (this.#bits <= 16) return start + generator.narrow(1, n, this.#bits as 8 | 16)[0]!;
      return start + generator.integer(0, n);
    };
  }

  /** Returns the space of `count` values together, which Gymnasium draws in another way than one by one. */
  batched(count: number): MultiDiscrete {
    const all = (value: number): number[] => new Array<number>(count).fill(value);
    return new MultiDiscrete(all(this.n), { start: all(this.start), dtype: this.dtype });
  }

  toWire(value: number): unknown {
    return value;
  }

  fromWire(value: unknown): number | undefined {
    return this.contains(value) ? value : undefined;
  }
}
