/** `MultiDiscrete`: an array of integers, each with a separate count and start. */
import { Generator, randomSeed } from '../../../base/random/generator.ts';
import { fail } from '../../../wire/errors.ts';
import { Box } from './box.ts';
import { maskedChoice } from './mask.ts';
import { dtypeOf, flatten, type Nested, nest, nestedSchema, shapeOf, sizeOf } from './numbers.ts';
import type { Sampler, Space } from './space.ts';

export class MultiDiscrete implements Space<Nested> {
  readonly kind = 'MultiDiscrete';
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly #counts: readonly number[];
  readonly #starts: readonly number[];

  constructor(nvec: Nested, { start, dtype = 'int64' }: { readonly start?: Nested; readonly dtype?: string } = {}) {
    this.shape = shapeOf(nvec);
    this.dtype = dtype;
    const { kind, min, max } = dtypeOf(dtype);
    const counts = flatten(nvec, this.shape);
    const starts = start === undefined ? counts?.map(() => 0) : flatten(start, this.shape);
    const fits = (count: number, first: number): boolean =>
      Number.isSafeInteger(count) &&
      count > 0 &&
      Number.isSafeInteger(first) &&
      first >= min &&
      first + count - 1 <= max;
    if (kind !== 'integer' || !counts || !starts || !counts.every((count, at) => fits(count, starts[at]!)))
      throw fail(
        'schema_violation',
        `a MultiDiscrete space needs counts of 1 or more and starts alike, within ${dtype}`,
      );
    this.#counts = counts;
    this.#starts = starts;
  }

  describe() {
    const { shape, dtype } = this;
    const start = this.#starts.some((value) => value !== 0) && { start: nest(this.#starts, shape) };
    return { type: 'MultiDiscrete', nvec: nest(this.#counts, shape), ...start, dtype };
  }

  jsonSchema() {
    return nestedSchema(this.shape, (at) =>
      at === undefined
        ? { type: 'integer' }
        : { type: 'integer', minimum: this.#starts[at], maximum: this.#starts[at]! + this.#counts[at]! - 1 },
    );
  }

  contains(value: unknown): value is Nested {
    const flat = flatten(value, this.shape);
    const within = (item: number, at: number): boolean =>
      Number.isInteger(item) && item >= this.#starts[at]! && item < this.#starts[at]! + this.#counts[at]!;
    return flat?.every(within) === true;
  }

  /** Returns a sampler, whose `mask` is nested by the shape, with a mask of as many numbers as the element has values. */
  sampler(seed?: number | null): Sampler<Nested> {
    return this.samplerOf(new Generator(seed ?? randomSeed()));
  }

  samplerOf(generator: Generator): Sampler<Nested> {
    return (mask) => {
      const masks = mask === undefined || mask === null ? undefined : this.#masks(mask);
      const flat = this.#counts.map((count, at) =>
        masks === undefined ? Math.floor(generator.double() * count) : maskedChoice(generator, masks[at], count),
      );
      return nest(
        flat.map((value, at) => value + this.#starts[at]!),
        this.shape,
      );
    };
  }

  batched(count: number): Box {
    const highs = this.#starts.map((start, at) => start + this.#counts[at]! - 1);
    const rows = (flat: readonly number[]): Nested => Array.from({ length: count }, () => nest(flat, this.shape));
    return new Box(rows(this.#starts), rows(highs), { shape: [count, ...this.shape], dtype: this.dtype });
  }

  toWire(value: Nested): unknown {
    return value;
  }

  fromWire(value: unknown): Nested | undefined {
    return this.contains(value) ? value : undefined;
  }

  #masks(mask: unknown): unknown[] {
    let leaves: unknown[] = [mask];
    for (const length of this.shape) {
      if (!leaves.every((part) => Array.isArray(part) && part.length === length))
        throw fail('schema_violation', 'the mask of a MultiDiscrete sample is nested by its shape');
      leaves = leaves.flat();
    }
    return leaves.length === sizeOf(this.shape) ? leaves : [];
  }
}
