/**
 * `Tuple`, `Dict`, `OneOf` and `Sequence`: spaces made of others, each of which draws its samples with a separate generator.
 */
import { Generator, randomSeed } from '../../../base/random/generator.ts';
import { fail } from '../../../wire/errors.ts';
import { isObject, type JsonObject } from '../../../wire/json.ts';
import type { Sampler, Space } from './space.ts';

/** Seeds of the parts are below this, as in Gymnasium. */
const MAX_PART_SEED = 2 ** 31 - 1;

/** Returns the samplers of the parts, seeded by the generator of the whole. */
function partSamplers(spaces: readonly Space[], seed: number | null | undefined): Sampler<unknown>[] {
  const generator = new Generator(seed ?? randomSeed());
  return spaces.map((space) => space.sampler(generator.integer(0, MAX_PART_SEED)));
}

/** Returns the results of all parts, or undefined if one of them is undefined. */
function all<Value>(values: readonly (Value | undefined)[]): Value[] | undefined {
  return values.includes(undefined) ? undefined : (values as Value[]);
}

/** Values of several spaces side by side. */
export class Tuple implements Space<readonly unknown[]> {
  readonly kind = 'Tuple';
  readonly spaces: readonly Space[];

  constructor(spaces: readonly Space[]) {
    this.spaces = spaces;
  }

  describe() {
    return { type: 'Tuple', spaces: this.spaces.map((space) => space.describe()) };
  }

  jsonSchema() {
    const length = this.spaces.length;
    const items = length > 0 && { prefixItems: this.spaces.map((space) => space.jsonSchema()) };
    return { type: 'array', minItems: length, maxItems: length, ...items };
  }

  contains(value: unknown): value is readonly unknown[] {
    return this.#fits(value) && this.spaces.every((space, at) => space.contains(value[at]));
  }

  /** Returns a sampler, whose `mask` has a mask or null for each part. */
  sampler(seed?: number | null): Sampler<readonly unknown[]> {
    const samplers = partSamplers(this.spaces, seed);
    return (mask) => samplers.map((sample, at) => sample(maskAt(mask, at, this.spaces.length)));
  }

  toWire(value: readonly unknown[]): unknown {
    return this.spaces.map((space, at) => space.toWire(value[at]));
  }

  fromWire(value: unknown): readonly unknown[] | undefined {
    return this.#fits(value) ? all(this.spaces.map((space, at) => space.fromWire(value[at]))) : undefined;
  }

  #fits(value: unknown): value is unknown[] {
    return Array.isArray(value) && value.length === this.spaces.length;
  }
}

/** Named values. Gymnasium sorts the names of a plain dictionary; here they have the given order. */
export class Dict implements Space<JsonObject> {
  readonly kind = 'Dict';
  readonly spaces: Readonly<Record<string, Space>>;
  readonly #entries: readonly [string, Space][];

  constructor(spaces: Readonly<Record<string, Space>>) {
    this.spaces = spaces;
    this.#entries = Object.entries(spaces);
  }

  describe() {
    return { type: 'Dict', spaces: this.#each((space) => space.describe()) };
  }

  jsonSchema() {
    const required = this.#entries.map(([name]) => name);
    return {
      type: 'object',
      properties: this.#each((space) => space.jsonSchema()),
      required,
      additionalProperties: false,
    };
  }

  contains(value: unknown): value is JsonObject {
    return this.#fits(value) && this.#entries.every(([name, space]) => space.contains(value[name]));
  }

  /** Returns a sampler, whose `mask` has a mask or null by name. */
  sampler(seed?: number | null): Sampler<JsonObject> {
    const samplers = partSamplers(
      this.#entries.map(([, space]) => space),
      seed,
    );
    return (mask) => {
      if (mask !== undefined && mask !== null && !this.#fits(mask))
        throw fail('schema_violation', 'the mask of a Dict sample has the names of its space');
      return Object.fromEntries(
        this.#entries.map(([name], at) => [name, samplers[at]!((mask as JsonObject | undefined)?.[name])]),
      );
    };
  }

  toWire(value: JsonObject): unknown {
    return this.#each((space, name) => space.toWire(value[name]));
  }

  fromWire(value: unknown): JsonObject | undefined {
    if (!this.#fits(value)) return undefined;
    const read = this.#each((space, name) => space.fromWire(value[name]));
    return all(Object.values(read)) && read;
  }

  #each(change: (space: Space, name: string) => unknown): JsonObject {
    return Object.fromEntries(this.#entries.map(([name, space]) => [name, change(space, name)]));
  }

  #fits(value: unknown): value is JsonObject {
    return (
      isObject(value) &&
      Object.keys(value).length === this.#entries.length &&
      this.#entries.every(([name]) => Object.hasOwn(value, name))
    );
  }
}

/** A value of one of several spaces, with the index of that space: `[index, value]`. */
export class OneOf implements Space<readonly [number, unknown]> {
  readonly kind = 'OneOf';
  readonly spaces: readonly Space[];

  constructor(spaces: readonly Space[]) {
    if (spaces.length === 0) throw fail('schema_violation', 'a OneOf space has at least one space');
    this.spaces = spaces;
  }

  describe() {
    return { type: 'OneOf', spaces: this.spaces.map((space) => space.describe()) };
  }

  jsonSchema() {
    const pair = (space: Space, at: number) => [{ const: at }, space.jsonSchema()];
    return {
      oneOf: this.spaces.map((space, at) => ({
        type: 'array',
        minItems: 2,
        maxItems: 2,
        prefixItems: pair(space, at),
      })),
    };
  }

  contains(value: unknown): value is readonly [number, unknown] {
    return this.#spaceOf(value)?.contains((value as unknown[])[1]) === true;
  }

  /** Returns a sampler, whose `mask` has a mask or null for each space. */
  sampler(seed?: number | null): Sampler<readonly [number, unknown]> {
    const own = seed ?? randomSeed();
    const samplers = partSamplers(this.spaces, own);
    const generator = new Generator(own);
    return (mask) => {
      const at = generator.integer(0, this.spaces.length);
      return [at, samplers[at]!(maskAt(mask, at, this.spaces.length))];
    };
  }

  toWire([at, value]: readonly [number, unknown]): unknown {
    return [at, this.spaces[at]!.toWire(value)];
  }

  fromWire(value: unknown): readonly [number, unknown] | undefined {
    const space = this.#spaceOf(value);
    if (space === undefined) return undefined;
    const [at, inner] = value as [number, unknown];
    const read = space.fromWire(inner);
    return read === undefined ? undefined : [at, read];
  }

  #spaceOf(value: unknown): Space | undefined {
    return Array.isArray(value) && value.length === 2 && Number.isInteger(value[0]) ? this.spaces[value[0]] : undefined;
  }
}

/** Any number of values of one space. */
export class Sequence implements Space<readonly unknown[]> {
  readonly kind = 'Sequence';
  readonly space: Space;
  /** Gymnasium stacks the samples into one array; as JSON that is equal for Box and Discrete. */
  readonly stack: boolean;

  constructor(space: Space, { stack = false }: { readonly stack?: boolean } = {}) {
    this.space = space;
    this.stack = stack;
  }

  describe() {
    return { type: 'Sequence', space: this.space.describe(), stack: this.stack };
  }

  jsonSchema() {
    return { type: 'array', items: this.space.jsonSchema() };
  }

  contains(value: unknown): value is readonly unknown[] {
    return Array.isArray(value) && value.every((item) => this.space.contains(item));
  }

  /**
   * Returns a sampler, whose `mask` is `[length, mask]`; the length is a number, an array to choose from, or null for a random
   * one of 1 or more
   */
  sampler(seed?: number | null): Sampler<readonly unknown[]> {
    const own = seed ?? randomSeed();
    const [sample] = partSamplers([this.space], own);
    const generator = new Generator(own);
    return (mask) => {
      const [lengths, inner] = Array.isArray(mask) ? mask : [];
      const chosen = Array.isArray(lengths) ? generator.choice(lengths) : lengths;
      const length = Number(chosen ?? generator.geometric(0.25));
      if (!(Number.isSafeInteger(length) && length >= 0 && length <= MAX_SEQUENCE))
        throw fail('schema_violation', `the mask of a Sequence sample has a length from 0 to ${MAX_SEQUENCE}`);
      return Array.from({ length }, () => sample!(inner));
    };
  }

  toWire(value: readonly unknown[]): unknown {
    return value.map((item) => this.space.toWire(item));
  }

  fromWire(value: unknown): readonly unknown[] | undefined {
    return Array.isArray(value) ? all(value.map((item) => this.space.fromWire(item))) : undefined;
  }
}

/** Longest sequence that a mask may request. */
const MAX_SEQUENCE = 10_000;

function maskAt(mask: unknown, at: number, count: number): unknown {
  if (mask === undefined || mask === null) return undefined;
  if (Array.isArray(mask) && mask.length === count) return mask[at];
  throw fail('schema_violation', `the mask of this sample has ${count} parts, each a mask or null`);
}
