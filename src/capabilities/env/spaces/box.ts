/**
 * `Box`: arrays of numbers of one shape, each element between two bounds that may be infinite.
 *
 * `contains` is stricter than Gymnasium's in one point: an element of an integer dtype must be an integer, while Gymnasium
 * silently truncates it.
 */
import type { JsonSchema } from '../../../base/json-schema.ts';
import { Generator, randomSeed } from '../../../base/random/generator.ts';
import { fail } from '../../../wire/errors.ts';
import {
  dtypeOf,
  flatten,
  type Nested,
  nest,
  nestedSchema,
  nestedToWire,
  numberFromWire,
  numberToWire,
  shapeOf,
  sizeOf,
} from './numbers.ts';
import type { Sampler, Space } from './space.ts';

interface BoxOptions {
  /** Absent: the shape of the bounds, `[1]` for two numbers. */
  readonly shape?: readonly number[];
  readonly dtype?: string;
}

export class Box<Value extends Nested = Nested> implements Space<Value> {
  readonly kind = 'Box';
  readonly shape: readonly number[];
  readonly dtype: string;
  /** Bounds of the elements in order, in the dtype. An infinite bound of an integer dtype is the dtype's own. */
  readonly low: readonly number[];
  readonly high: readonly number[];
  readonly #below: readonly boolean[];
  readonly #above: readonly boolean[];
  readonly #isInteger: boolean;
  readonly #round: (value: number) => number;

  constructor(low: Nested, high: Nested, { shape, dtype = 'float32' }: BoxOptions = {}) {
    const { kind, min, max, round } = dtypeOf(dtype);
    const nested = typeof low === 'number' ? high : low;
    this.shape = shape ?? (typeof nested === 'number' ? [1] : shapeOf(nested));
    this.dtype = dtype;
    this.#isInteger = kind === 'integer';
    this.#round = round;
    const lows = this.#bounds(low);
    const highs = this.#bounds(high);
    this.#below = lows.map((value) => value !== -Infinity);
    this.#above = highs.map((value) => value !== Infinity);
    this.low = lows.map((value) => (this.#isInteger && value === -Infinity ? min : round(value)));
    this.high = highs.map((value) => (this.#isInteger && value === Infinity ? max : round(value)));
    const unsigned = this.#isInteger && min === 0;
    if (unsigned && !(this.#below.every(Boolean) && this.#above.every(Boolean)))
      throw fail('schema_violation', `a Box of ${dtype} has no infinite bounds`);
    const inRange = (value: number): boolean => Number.isInteger(value) && value >= min && value <= max;
    if (this.#isInteger && ![...this.low, ...this.high].every(inRange))
      throw fail('schema_violation', `the bounds of a Box of ${dtype} are integers from ${min} to ${max}`);
    if (this.low.some((value, at) => value > this.high[at]!))
      throw fail('schema_violation', 'a bound of the Box is lower above than below');
  }

  describe() {
    const { shape, dtype } = this;
    const low = this.low.map((value, at) => (this.#below[at] ? value : -Infinity));
    const high = this.high.map((value, at) => (this.#above[at] ? value : Infinity));
    return { type: 'Box', low: this.#bound(low), high: this.#bound(high), shape: [...shape], dtype };
  }

  jsonSchema() {
    const lowest = this.low.reduce((a, b) => Math.min(a, b), Infinity);
    const highest = this.high.reduce((a, b) => Math.max(a, b), -Infinity);
    return nestedSchema(this.shape, (at) =>
      at === undefined ? this.#element(lowest, highest) : this.#element(this.low[at]!, this.high[at]!),
    );
  }

  contains(value: unknown): value is Value {
    const flat = flatten(value, this.shape);
    return flat?.every((item, at) => this.#fits(this.#round(item), at)) === true;
  }

  sampler(seed?: number | null): Sampler<Value> {
    return this.samplerOf(new Generator(seed ?? randomSeed()));
  }

  /**
   * Returns a sampler. Bounded elements are uniform; those with one bound are exponential from it; unbounded ones are normal.
   * The normal ones are drawn first, then the exponential ones, upwards before downwards, then the uniform ones, as Gymnasium
   * draws them.
   */
  samplerOf(generator: Generator): Sampler<Value> {
    const { low, high } = this;
    const below = this.#below;
    const above = this.#above;
    const places = low.map((_, at) => at);
    // The integers up to the bound are the floors of the numbers below the next one.
    const end = this.#isInteger ? high.map((value) => value + 1) : high;
    const draws: readonly [places: number[], draw: (at: number) => number][] = [
      [places.filter((at) => !below[at] && !above[at]), () => generator.normal()],
      [places.filter((at) => below[at] && !above[at]), (at) => generator.exponential() + low[at]!],
      [places.filter((at) => !below[at] && above[at]), (at) => -generator.exponential() + end[at]!],
      [places.filter((at) => below[at] && above[at]), (at) => generator.uniform(low[at]!, end[at]!)],
    ];
    return () => {
      const flat = new Array<number>(low.length);
      for (const [chosen, draw] of draws) for (const at of chosen) flat[at] = draw(at);
      const round = this.#isInteger ? Math.floor : this.#round;
      return nest(
        flat.map((value, at) => Math.min(Math.max(round(value), low[at]!), high[at]!)),
        this.shape,
      ) as Value;
    };
  }

  /** Returns the space of `count` values together: Gymnasium draws them element by element, not value by value. */
  batched(count: number): Box {
    const rows = (flat: readonly number[]): Nested => Array.from({ length: count }, () => nest(flat, this.shape));
    return new Box(rows(this.low), rows(this.high), { shape: [count, ...this.shape], dtype: this.dtype });
  }

  toWire(value: Value): unknown {
    return nestedToWire(value);
  }

  fromWire(value: unknown): Value | undefined {
    const flat = flatten(value, this.shape, numberFromWire)?.map(this.#round);
    return flat?.every((item, at) => this.#fits(item, at)) ? (nest(flat, this.shape) as Value) : undefined;
  }

  #fits(value: number, at: number): boolean {
    return value >= this.low[at]! && value <= this.high[at]! && (!this.#isInteger || Number.isInteger(value));
  }

  #element(low: number, high: number): JsonSchema {
    const type = this.#isInteger ? 'integer' : 'number';
    const number = {
      type,
      ...(Number.isFinite(low) && { minimum: low }),
      ...(Number.isFinite(high) && { maximum: high }),
    };
    const infinities = [low, high].filter((bound) => !Number.isFinite(bound)).map(String);
    return infinities.length === 0 ? number : { anyOf: [number, { enum: infinities }] };
  }

  /** Returns bounds for the wire: one number if all are equal. */
  #bound(flat: readonly number[]): unknown {
    const [first] = flat;
    if (first !== undefined && flat.every((value) => value === first)) return numberToWire(first);
    return nestedToWire(nest(flat, this.shape));
  }

  #bounds(bound: Nested): number[] {
    const flat =
      typeof bound === 'number' ? new Array<number>(sizeOf(this.shape)).fill(bound) : flatten(bound, this.shape);
    if (flat === undefined || flat.some(Number.isNaN))
      throw fail('schema_violation', `the bounds of a Box are numbers of its shape [${this.shape.join(', ')}]`);
    return flat;
  }
}
