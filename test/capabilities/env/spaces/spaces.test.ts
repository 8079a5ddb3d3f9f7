/** Spaces: samples equal to Gymnasium's, membership, the encodings of the wire, hostile descriptions. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { JsonSchemas } from '../../../../src/base/json-schema.ts';
import { Generator } from '../../../../src/base/random/generator.ts';
import { Box } from '../../../../src/capabilities/env/spaces/box.ts';
import { Dict, OneOf, Sequence, Tuple } from '../../../../src/capabilities/env/spaces/composite.ts';
import { Discrete } from '../../../../src/capabilities/env/spaces/discrete.ts';
import { Graph } from '../../../../src/capabilities/env/spaces/graph.ts';
import { MultiBinary } from '../../../../src/capabilities/env/spaces/multi-binary.ts';
import { MultiDiscrete } from '../../../../src/capabilities/env/spaces/multi-discrete.ts';
import type { Space } from '../../../../src/capabilities/env/spaces/space.ts';
import { spaceOf } from '../../../../src/capabilities/env/spaces/space-of.ts';
import { Text } from '../../../../src/capabilities/env/spaces/text.ts';
import type { JsonObject } from '../../../../src/wire/json.ts';

interface Recorded {
  readonly samples: readonly {
    readonly space: JsonObject;
    readonly seed: number;
    readonly samples: readonly unknown[];
  }[];
  readonly masked: readonly {
    readonly space: JsonObject;
    readonly seed: number;
    readonly mask: unknown;
    readonly samples: readonly unknown[];
  }[];
}

const vectors = join(import.meta.dirname, '../../../vectors/gymnasium/spaces.json');
const recorded = JSON.parse(readFileSync(vectors, 'utf8')) as Recorded;

/** Returns true for values that are equal except for the last digits of numbers. */
function close(actual: unknown, expected: unknown): boolean {
  if (typeof actual === 'number' && typeof expected === 'number')
    return Math.abs(actual - expected) <= 1e-12 * Math.max(1, Math.abs(expected));
  if (Array.isArray(actual) && Array.isArray(expected))
    return actual.length === expected.length && actual.every((item, at) => close(item, expected[at]));
  if (actual && expected && typeof actual === 'object' && typeof expected === 'object')
    return close(Object.entries(actual).sort(), Object.entries(expected).sort());
  return Object.is(actual, expected);
}

const name = (space: JsonObject): string => JSON.stringify(space).slice(0, 100);

/**
 * Returns true for a space with exact samples: an unbounded element is drawn by logarithms, whose last digit depends on the
 * platform.
 */
const isExact = (space: JsonObject): boolean => !JSON.stringify(space).includes('Infinity');

for (const { space: description, seed, samples } of recorded.samples) {
  test(`samples of ${name(description)} with seed ${seed} are Gymnasium's`, () => {
    const space = spaceOf(description);
    const sample = space.sampler(seed);
    const ours = samples.map(() => space.toWire(sample()));
    if (isExact(description)) assert.deepEqual(ours, samples);
    else assert.ok(close(ours, samples), `${JSON.stringify(ours)} is not ${JSON.stringify(samples)}`);
  });
}

for (const { space: description, seed, mask, samples } of recorded.masked) {
  test(`masked samples of ${name(description)} are Gymnasium's`, () => {
    const sample = spaceOf(description).sampler(seed);
    assert.deepEqual(
      samples.map(() => sample(mask)),
      samples,
    );
  });
}

/** Returns a random space, of any kind, nested at most `depth` deep. */
function randomSpace(generator: Generator, depth: number): Space {
  const number = (low: number, high: number): number => generator.integer(low, high);
  const several = <Item>(make: () => Item): Item[] => Array.from({ length: number(1, 4) }, make);
  const inner = (): Space => randomSpace(generator, depth - 1);
  const bound = (): number => (number(0, 3) === 0 ? Infinity : number(0, 50));
  const simple = [
    () => new Discrete(number(1, 300), { start: number(-5, 5), dtype: generator.choice(['int64', 'int32', 'int16']) }),
    () => {
      const shape = several(() => number(1, 4)).slice(0, number(0, 3));
      return new Box(-bound(), bound(), { shape, dtype: generator.choice(['float32', 'float64', 'int64', 'int8']) });
    },
    () => new MultiDiscrete(several(() => number(1, 9))),
    () => new MultiBinary(several(() => number(1, 4))),
    () => new Text(number(0, 9), { minLength: 0, charset: generator.choice(['ab', 'xyz🌱', '0']) }),
  ];
  const nested = [
    () => new Tuple(several(inner)),
    () => new Dict(Object.fromEntries(several(inner).map((space, at) => [`k${at}`, space]))),
    () => new OneOf(several(inner)),
    () => new Sequence(inner()),
    () => new Graph(inner(), number(0, 2) === 0 ? null : inner()),
  ];
  return generator.choice(depth > 0 ? [...simple, ...nested] : simple)();
}

test('of any space: samples are elements, pass its schema, survive the wire, and depend on the seed alone', async () => {
  const generator = new Generator(2026);
  const schemas = new JsonSchemas();
  for (let round = 0; round < 150; round += 1) {
    const space = randomSpace(generator, 2);
    const seed = generator.integer(0, 2 ** 53);
    const described = JSON.stringify(space.describe());
    const read = spaceOf(JSON.parse(described));
    assert.equal(JSON.stringify(read.describe()), described);
    const check = await schemas.compile(JSON.parse(JSON.stringify(space.jsonSchema())), 'value');
    const [sample, again] = [space.sampler(seed), read.sampler(seed)];
    for (let draw = 0; draw < 3; draw += 1) {
      const value = sample();
      assert.ok(space.contains(value), `${described}: ${JSON.stringify(value)}`);
      const wire = JSON.parse(JSON.stringify(space.toWire(value)));
      check(wire);
      assert.deepEqual(space.fromWire(wire), value);
      assert.deepEqual(again(), value);
    }
  }
});

test('a value outside of a space is no element of it, nor is its JSON', () => {
  const refused: readonly [Space, readonly unknown[]][] = [
    [new Discrete(2), [2, -1, 0.5, '0', null, [0], true, NaN]],
    [new Discrete(3, { start: -1 }), [-2, 2]],
    [new Box(-1, 1, { shape: [2] }), [[0], [0, 0, 0], [0, 1.1], [0, NaN], 0, [[0], [0]], ['0', 0], null]],
    [new Box(0, 255, { shape: [1], dtype: 'uint8' }), [[256], [-1], [0.5]]],
    [new MultiDiscrete([2, 3]), [[0, 3], [2, 0], [0], [0, 0.5], 0]],
    [new MultiBinary(2), [[0, 2], [0], 0, [[0, 1]]]],
    [new Tuple([new Discrete(2), new Discrete(2)]), [[0], [0, 2], [0, 1, 0], { 0: 0, 1: 1 }]],
    [new Dict({ a: new Discrete(2) }), [{}, { a: 2 }, { a: 0, b: 0 }, [0], null]],
    [new Text(2, { charset: 'ab' }), ['', 'abc', 'ac', 1]],
    [new Sequence(new Discrete(2)), [[2], 0, { length: 0 }]],
    [new OneOf([new Discrete(2), new Text(1)]), [[0, 'a'], [2, 0], [0], 0, [1, 'ab']]],
    [
      new Graph(new Discrete(2), new Discrete(2)),
      [
        { nodes: [2], edges: null, edge_links: null },
        { nodes: [1], edges: [1], edge_links: [[0, 1]] },
        { nodes: [1], edges: [1], edge_links: null },
        { nodes: [1], edges: [1, 1], edge_links: [[0, 0]] },
        {},
      ],
    ],
  ];
  for (const [space, values] of refused) {
    for (const value of values) {
      assert.equal(space.contains(value), false, `${space.kind} ${JSON.stringify(value)}`);
      if (value !== true) assert.equal(space.fromWire(value), undefined, `${space.kind} ${JSON.stringify(value)}`);
    }
  }
});

test('infinities cross the wire as strings, and float32 arrives as the float32 it is', () => {
  const space = new Box([-Infinity, 0], [Infinity, 1], { dtype: 'float32' });
  assert.deepEqual(space.describe(), {
    type: 'Box',
    low: ['-Infinity', 0],
    high: ['Infinity', 1],
    shape: [2],
    dtype: 'float32',
  });
  assert.deepEqual(space.toWire([-Infinity, NaN]), ['-Infinity', 'NaN']);
  assert.deepEqual(space.fromWire(['-Infinity', 0.1]), [-Infinity, Math.fround(0.1)]);
  assert.equal(space.fromWire(['NaN', 0.1]), undefined);
  assert.ok(new Box(0, 0.1, { shape: [1] }).contains([0.1]), 'the bound is rounded as the element is');
});

test('a description that is none, or too large, is refused as a schema violation', () => {
  let deep: unknown = { type: 'Discrete', n: 2 };
  for (let level = 0; level < 40; level += 1) deep = { type: 'Tuple', spaces: [deep] };
  const refused: unknown[] = [
    null,
    [],
    {},
    { type: 'Cube' },
    { type: 'Discrete' },
    { type: 'Discrete', n: 0 },
    { type: 'Discrete', n: 2, start: '1' },
    { type: 'Discrete', n: 2, dtype: 'float32' },
    { type: 'Discrete', n: 2, dtype: 'constructor' },
    { type: 'Box', low: 0 },
    { type: 'Box', low: 0, high: 'much' },
    { type: 'Box', low: 1, high: 0, shape: [1] },
    { type: 'Box', low: 'NaN', high: 1, shape: [1] },
    { type: 'Box', low: 0, high: 1, shape: [1e9] },
    { type: 'Box', low: 0, high: 1, shape: [-1] },
    { type: 'Box', low: [0, 0], high: [1], shape: [2] },
    { type: 'Box', low: '-Infinity', high: 1, shape: [1], dtype: 'uint8' },
    { type: 'Box', low: -129, high: 1, shape: [1], dtype: 'int8' },
    { type: 'MultiDiscrete', nvec: [2, 0] },
    { type: 'MultiDiscrete', nvec: [2, 2], start: [1] },
    { type: 'MultiBinary', n: 0 },
    { type: 'MultiBinary' },
    { type: 'Tuple' },
    { type: 'Tuple', spaces: [null] },
    { type: 'Dict', spaces: [] },
    { type: 'OneOf', spaces: [] },
    { type: 'Text', max_length: 2, min_length: 3 },
    { type: 'Text', max_length: 1e9 },
    { type: 'Text' },
    { type: 'Sequence' },
    { type: 'Graph' },
    deep,
  ];
  for (const description of refused)
    assert.throws(() => spaceOf(description), { code: 'schema_violation' }, JSON.stringify(description));
});
