/** `MultiBinary`: an array of zeros and ones. */
import { Generator, randomSeed } from '../../../base/random/generator.ts';
import { fail } from '../../../wire/errors.ts';
import { Box } from './box.ts';
import { flatten, type Nested, nest, nestedSchema, numberFromWire, sizeOf } from './numbers.ts';
import type { Sampler, Space } from './space.ts';

export class MultiBinary implements Space<Nested> {
  readonly kind = 'MultiBinary';
  readonly shape: readonly number[];
  readonly #n: number | readonly number[];

  /** @param n the length, or the lengths of several axes */
  constructor(n: number | readonly number[]) {
    this.#n = n;
    this.shape = typeof n === 'number' ? [n] : n;
    if (!this.shape.every((length) => Number.isSafeInteger(length) && length > 0))
      throw fail('schema_violation', 'the lengths of a MultiBinary space are 1 or more');
  }

  describe() {
    return { type: 'MultiBinary', n: this.#n };
  }

  jsonSchema() {
    return nestedSchema(this.shape, () => ({ enum: [0, 1] }));
  }

  contains(value: unknown): value is Nested {
    return flatten(value, this.shape)?.every((item) => item === 0 || item === 1) === true;
  }

  /** Returns a sampler, whose `mask` has the shape of the space; 0 and 1 are taken over, 2 is drawn. */
  sampler(seed?: number | null): Sampler<Nested> {
    return this.samplerOf(new Generator(seed ?? randomSeed()));
  }

  samplerOf(generator: Generator): Sampler<Nested> {
    return (mask) => {
      const drawn = generator.narrow(sizeOf(this.shape), 2, 8);
      if (mask === undefined || mask === null) return nest(drawn, this.shape);
      const chosen = flatten(mask, this.shape);
      if (!chosen?.every((item) => item === 0 || item === 1 || item === 2))
        throw fail('schema_violation', 'the mask of a MultiBinary sample has its shape, and 0, 1 or 2 in each place');
      return nest(
        chosen.map((item, at) => (item === 2 ? drawn[at]! : item)),
        this.shape,
      );
    };
  }

  batched(count: number): Box {
    return new Box(0, 1, { shape: [count, ...this.shape], dtype: 'int8' });
  }

  toWire(value: Nested): unknown {
    return value;
  }

  fromWire(value: unknown): Nested | undefined {
    const flat = flatten(value, this.shape, numberFromWire);
    return flat?.every((item) => item === 0 || item === 1) ? nest(flat, this.shape) : undefined;
  }
}
