/**
 * Random numbers are NumPy's: published vectors of PCG64, and the numbers that NumPy drew for the recorder.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Generator, randomSeed } from '../../../src/base/random/generator.ts';
import { Pcg64, type Pcg64State } from '../../../src/base/random/pcg64.ts';
import { seedWords } from '../../../src/base/random/seed-sequence.ts';

interface Recorded {
  readonly seeds: readonly {
    readonly seed: number;
    readonly words: readonly number[];
    readonly raw: readonly string[];
    readonly doubles: readonly number[];
    readonly uniform: readonly number[];
    readonly mixed: readonly (readonly [span: number, integer: number, double: number])[];
    readonly bytes: readonly { readonly span: number; readonly drawn: readonly number[] }[];
    readonly choice: readonly string[];
    readonly weighted: readonly number[];
    readonly normal: readonly number[];
    readonly exponential: readonly number[];
    readonly geometric: readonly number[];
    readonly state: Pcg64State;
  }[];
  readonly entropy: readonly { readonly entropy: readonly number[]; readonly words: readonly number[] }[];
}

const vectors = join(import.meta.dirname, '../../vectors/gymnasium/random.json');
const recorded = JSON.parse(readFileSync(vectors, 'utf8')) as Recorded;

const times = <Value>(count: number, draw: () => Value): Value[] => Array.from({ length: count }, draw);

function raw(bits: Pcg64): string {
  bits.draw();
  return ((BigInt(bits.high) << 32n) | BigInt(bits.low)).toString();
}

/** Asserts equality with NumPy's numbers except in the last places: logarithms and tables are computed by another library. */
function assertClose(actual: readonly number[], expected: readonly number[]): void {
  assert.equal(actual.length, expected.length);
  for (const [at, value] of actual.entries()) {
    assert.ok(Math.abs(value - expected[at]!) <= 1e-12 * Math.abs(value), `${value} is not ${expected[at]}`);
  }
}

test('a seed sequence gives the words of NumPy, also for entropy of more words than its pool', () => {
  for (const { seed, words } of recorded.seeds) assert.deepEqual([...seedWords(seed, 8)], words);
  for (const { entropy, words } of recorded.entropy) assert.deepEqual([...seedWords(entropy, 8)], words);
});

test('PCG64 draws the published vectors of its reference and the bits of NumPy', () => {
  // Rows 0, 1 and 999 of pcg64-testset-1.csv and pcg64-testset-2.csv, which NumPy publishes.
  const published = [
    [0xdeadbeaf, '60d24054e17a0698', 'd5e79d89856e4f12', 'a5cb380b8de10d10'],
    [0, 'a30febcfd9c2825f', '4510bdf882d9d721', '6148329042f743b0'],
  ] as const;
  for (const [seed, ...rows] of published) {
    const bits = new Pcg64(seed);
    const drawn = times(1000, () => BigInt(raw(bits)).toString(16));
    assert.deepEqual([drawn[0], drawn[1], drawn[999]], rows);
  }
  for (const { seed, raw: expected } of recorded.seeds) {
    const bits = new Pcg64(seed);
    assert.deepEqual(
      times(expected.length, () => raw(bits)),
      expected,
    );
  }
});

for (const vector of recorded.seeds) {
  test(`seed ${vector.seed}: doubles, bounded integers, bytes and choices are NumPy's`, () => {
    const fresh = () => new Generator(vector.seed);
    let generator = fresh();
    assert.deepEqual(
      times(16, () => generator.double()),
      vector.doubles,
    );
    generator = fresh();
    assert.deepEqual(
      times(16, () => generator.uniform(-0.05, 0.05)),
      vector.uniform,
    );
    generator = fresh();
    // Integers of 32 and of 64 bits take turns with doubles: half a draw is left over in between.
    for (const [span, integer, double] of vector.mixed) {
      assert.deepEqual([generator.integer(0, span), generator.double()], [integer, double], `below ${span}`);
    }
    for (const { span, drawn } of vector.bytes) assert.deepEqual(fresh().narrow(drawn.length, span, 8), drawn);
    generator = fresh();
    assert.deepEqual(
      times(vector.choice.length, () => generator.choice(['C', 'D', 'H', 'S'])),
      vector.choice,
    );
    generator = fresh();
    assert.deepEqual(
      times(vector.weighted.length, () => generator.weighted([0.2, 0.5, 0.3])),
      vector.weighted,
    );
  });

  test(`seed ${vector.seed}: normal, exponential and geometric numbers are NumPy's but for the last places`, () => {
    let generator = new Generator(vector.seed);
    assertClose(times(3000, () => generator.normal()).slice(-40), vector.normal);
    generator = new Generator(vector.seed);
    assertClose(times(3000, () => generator.exponential()).slice(-40), vector.exponential);
    generator = new Generator(vector.seed);
    assert.deepEqual(
      times(vector.geometric.length, () => generator.geometric(0.25)),
      vector.geometric,
    );
  });

  test(`seed ${vector.seed}: the state is what NumPy reports, and a stream continues from it`, () => {
    const generator = new Generator(vector.seed);
    generator.integer(0, 5);
    assert.deepEqual(generator.state, vector.state);
    const copy = new Generator(1);
    copy.state = JSON.parse(JSON.stringify(generator.state)) as Pcg64State;
    const draw = (from: Generator) => () => [from.integer(0, 10), from.double(), from.normal()];
    assert.deepEqual(times(50, draw(copy)), times(50, draw(generator)));
  });
}

test('integers are in their range and even, for any span', () => {
  const generator = new Generator(randomSeed());
  for (let round = 0; round < 2000; round += 1) {
    const low = generator.integer(-1000, 1000);
    const span = generator.integer(1, 2 ** generator.integer(1, 52) + 1);
    const drawn = generator.integer(low, low + span);
    assert.ok(Number.isSafeInteger(drawn) && drawn >= low && drawn < low + span, `${drawn} of ${span} from ${low}`);
  }
  const even = new Generator(3);
  const counts = new Array<number>(6).fill(0);
  times(60_000, () => (counts[even.integer(0, 6)]! += 1));
  // Six standard deviations of a binomial distribution.
  for (const count of counts) assert.ok(Math.abs(count - 10_000) < 6 * Math.sqrt(60_000 * (1 / 6) * (5 / 6)));
});

test('a random seed is a safe integer, and another one each time', () => {
  const seeds = new Set(times(100, randomSeed));
  assert.equal(seeds.size, 100);
  for (const seed of seeds) assert.ok(Number.isSafeInteger(seed) && seed >= 0);
});
