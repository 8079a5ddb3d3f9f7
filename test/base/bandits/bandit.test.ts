import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Bandit } from '../../../src/base/bandits/bandit.ts';
import { probabilitiesOfBest } from '../../../src/base/bandits/best.ts';
import { LinearModel } from '../../../src/base/bandits/linear.ts';
import { Random, seeded } from '../../../src/base/bandits/random.ts';
import { POLICY_NAMES, type PolicySettings } from '../../../src/base/bandits/settings.ts';
import fc from '../../support/properties.ts';

const close = (got: number, wanted: number, by: number) =>
  assert.ok(Math.abs(got - wanted) <= by, `${got} is not ${wanted} ± ${by}`);

test('the generator gives the numbers of the reference implementation', () => {
  const random = new Random([1, 2, 3, 4]);
  const numbers = Array.from({ length: 10 }, () => random.bits());
  assert.deepEqual(
    numbers,
    [11520, 0, 5927040, 70819200, 2031721883, 1637235492, 1287239034, 3734860849, 3729100597, 4258142804],
  );
});

test('seeds are numbers or texts, and differ', () => {
  const states = [0, 1, -1, 2 ** 40, 'a', 'b'].map((seed) => JSON.stringify(seeded(seed)));
  assert.equal(new Set(states).size, states.length);
  const random = new Random(seeded('mean'));
  let sum = 0;
  for (let at = 0; at < 10_000; at++) sum += random.unit();
  close(sum / 10_000, 0.5, 0.02);
});

test('the probability of being best agrees with drawing from the posteriors', () => {
  const random = new Random(seeded(7));
  // A Beta of whole parameters is an order statistic of uniform numbers.
  const beta = (a: number, b: number) =>
    Array.from({ length: a + b - 1 }, () => random.unit()).sort((left, right) => left - right)[a - 1]!;
  for (const shapes of [
    [
      [3, 5],
      [4, 4],
    ],
    [
      [1, 1],
      [1, 30],
      [2, 20],
    ],
    [
      [40, 60],
      [4, 4],
      [1, 1],
    ],
  ] as const) {
    const wins = shapes.map(() => 0);
    for (let round = 0; round < 20_000; round++) {
      const drawn = shapes.map(([a, b]) => beta(a, b));
      wins[drawn.indexOf(Math.max(...drawn))]! += 1;
    }
    const computed = probabilitiesOfBest(shapes.map(([a, b]) => ({ a, b })));
    for (const [at, share] of computed.entries()) close(share, wins[at]! / 20_000, 0.015);
  }
  const [worse = 0, better = 0] = probabilitiesOfBest([
    { mean: 0, deviation: 1 },
    { mean: 1, deviation: 1 },
  ]);
  close(better, 0.7602, 0.002);
  close(worse + better, 1, 1e-12);
});

test('a linear model learns what ridge regression computes', () => {
  const random = new Random(seeded(3));
  const model = new LinearModel(2, 1);
  const gram = [1, 0, 0, 1];
  const sums = [0, 0];
  for (let row = 0; row < 50; row++) {
    const x = [random.normal(), random.normal()];
    const reward = 0.5 * x[0]! - 0.2 * x[1]! + 0.1 * random.normal();
    model.learn(x, reward);
    for (let at = 0; at < 4; at++) gram[at]! += x[at >> 1]! * x[at & 1]!;
    for (let at = 0; at < 2; at++) sums[at]! += reward * x[at]!;
  }
  const [a, b, c, d] = gram as [number, number, number, number];
  const weights = [(d * sums[0]! - b * sums[1]!) / (a * d - b * c), (a * sums[1]! - c * sums[0]!) / (a * d - b * c)];
  close(model.mean([1, 0]), weights[0]!, 1e-9);
  close(model.mean([0, 1]), weights[1]!, 1e-9);
  close(model.width([1, 0]), Math.sqrt(d / (a * d - b * c)), 1e-9);
});

const options = ['a', 'b', 'c'];
/** Events of a bandit: decisions and rewards, of which some arrive late. */
const events = fc.array(
  fc.record({
    features: fc.tuple(fc.double({ min: -1, max: 1, noNaN: true }), fc.double({ min: -1, max: 1, noNaN: true })),
    reward: fc.double({ min: 0, max: 1, noNaN: true }),
    delay: fc.nat(3),
    without: fc.nat(3),
  }),
  { maxLength: 40 },
);
const policies = fc.record({
  name: fc.constantFrom(...POLICY_NAMES),
  explore: fc.constantFrom(0, 0.1),
  window: fc.constantFrom(2, 10),
  discount: fc.constantFrom(0.9, 1),
});

/** Returns the decisions of a bandit over these events; `between` may replace it after each step. */
function decisionsOf(policy: PolicySettings, given: readonly Event[], between: (bandit: Bandit) => Bandit): string[] {
  let bandit = Bandit.start(policy, 5);
  const late: { at: number; option: string; reward: number; features: readonly number[] }[] = [];
  const log: string[] = [];
  given.forEach(({ features, reward, delay, without }, at) => {
    const decision = bandit.decide({ options: options.filter((_, index) => index !== without), features });
    log.push(`${decision.option} ${decision.propensity}`);
    bandit = between(bandit);
    late.push({ at: at + delay, option: decision.option, reward, features });
    for (const due of late.filter((one) => one.at === at)) {
      bandit.learn(due.option, due.reward, due.features);
      bandit = between(bandit);
    }
  });
  return [...log, JSON.stringify(bandit.save())];
}
type Event = typeof events extends fc.Arbitrary<(infer One)[]> ? One : never;

test('saving and restoring after every step changes no decision and no state', () => {
  fc.assert(
    fc.property(policies, events, (policy, given) => {
      const straight = decisionsOf(policy, given, (bandit) => bandit);
      const restored = decisionsOf(policy, given, (bandit) =>
        Bandit.restore(JSON.parse(JSON.stringify(bandit.save()))),
      );
      assert.deepEqual(restored, straight);
    }),
    { numRuns: 300 },
  );
});

test('probabilities add up to one, and the propensity is that of the chosen option', () => {
  fc.assert(
    fc.property(policies, events, (policy, given) => {
      const bandit = Bandit.start(policy, 1);
      for (const { features, reward } of given) {
        const { option, propensity, probabilities } = bandit.decide({ options, features });
        close(
          probabilities.reduce((sum, share) => sum + share, 0),
          1,
          1e-9,
        );
        assert.equal(propensity, probabilities[options.indexOf(option)]);
        assert.ok(propensity > 0);
        if (policy.explore > 0) for (const share of probabilities) assert.ok(share >= policy.explore / 3 - 1e-12);
        bandit.learn(option, reward, features);
      }
    }),
    { numRuns: 200 },
  );
});

test('options are chosen as often as their probabilities say', () => {
  const bandit = Bandit.start({ name: 'softmax', temperature: 0.5 }, 11);
  for (const [option, reward] of [
    ['a', 1],
    ['b', 0.5],
    ['c', 0],
  ] as const)
    bandit.learn(option, reward);
  const { probabilities } = bandit.decide({ options });
  const counts = options.map(() => 0);
  for (let round = 0; round < 20_000; round++) counts[options.indexOf(bandit.decide({ options }).option)]! += 1;
  for (const [at, count] of counts.entries()) close(count / 20_000, probabilities[at]!, 0.015);
});

test('every learning policy finds the best of three options', () => {
  const means = [0.2, 0.5, 0.8];
  for (const name of POLICY_NAMES.filter((one) => one !== 'uniform')) {
    const world = new Random(seeded(`world ${name}`));
    const bandit = Bandit.start({ name }, 3);
    let best = 0;
    for (let round = 0; round < 2000; round++) {
      const { option } = bandit.decide({ options });
      const at = options.indexOf(option);
      if (round >= 1000 && at === 2) best += 1;
      bandit.learn(option, world.unit() < means[at]! ? 1 : 0);
    }
    assert.ok(best > 700, `${name} chose the best ${best} of 1000 times`);
  }
});

test('a change is noticed by the policies that forget', () => {
  for (const name of ['sliding_window_ucb', 'discounted_ucb'] as const) {
    const world = new Random(seeded(`drift ${name}`));
    const bandit = Bandit.start({ name, window: 300, discount: 0.99 }, 3);
    let best = 0;
    for (let round = 0; round < 6000; round++) {
      const means = round < 3000 ? [0.9, 0.5, 0.1] : [0.1, 0.5, 0.9];
      const { option } = bandit.decide({ options });
      const at = options.indexOf(option);
      if (round >= 5000 && at === 2) best += 1;
      bandit.learn(option, world.unit() < means[at]! ? 1 : 0);
    }
    assert.ok(best > 600, `${name} chose the new best ${best} of 1000 times`);
  }
});

test('a weight stands for two rewards, and rewards outweigh it', () => {
  const weights = new Map([
    ['a', 0.9],
    ['b', 0.1],
    ['c', 0.1],
  ]);
  const bandit = Bandit.start({ name: 'thompson_beta' }, 1);
  const [first = 0] = bandit.probabilities({ options, weights });
  assert.ok(first > 0.5);
  for (let round = 0; round < 50; round++) {
    bandit.learn('a', 0);
    bandit.learn('b', 1);
  }
  assert.ok(bandit.probabilities({ options, weights })[1]! > 0.99);
});

test('another number of features than before is refused', () => {
  const bandit = Bandit.start({ name: 'linucb' }, 1);
  bandit.decide({ options, features: [1, 2] });
  assert.throws(() => bandit.decide({ options, features: [1] }), { code: 'schema_violation' });
  assert.throws(() => bandit.learn('a', 1, [1, 2, 3]), { code: 'schema_violation' });
});
