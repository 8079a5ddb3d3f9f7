/**
 * Off-policy estimates against problems whose truth is known: bias, and the share of intervals that cover the truth.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Bandit } from '../../../src/base/bandits/bandit.ts';
import { type EvaluatedRow, estimate } from '../../../src/base/bandits/estimates.ts';
import { Random, seeded } from '../../../src/base/bandits/random.ts';
import type { PolicySettings } from '../../../src/base/bandits/settings.ts';

const options = ['a', 'b', 'c'];
/** Returns mean rewards: the best option depends on the feature. */
const meansOf = ([x = 0]: readonly number[]): number[] => [0.3 + 0.3 * x, 0.5, 0.7 - 0.4 * x];
/** Returns the evaluated policy, which prefers `a` for high features, else `c`. */
const targetOf = ([x = 0]: readonly number[]): number[] => (x > 0.5 ? [0.8, 0.1, 0.1] : [0.1, 0.1, 0.8]);

/** The reward that the evaluated policy earns: the integral over the feature, uniform from 0 to 1. */
const truth = (() => {
  let sum = 0;
  for (let step = 0; step < 10_000; step++) {
    const features = [(step + 0.5) / 10_000];
    const means = meansOf(features);
    sum += targetOf(features).reduce((total, share, at) => total + share * means[at]!, 0);
  }
  return sum / 10_000;
})();

/** Returns the log of a policy that runs, and learns, for some rows. */
function logOf(policy: PolicySettings, rows: number, seed: string): EvaluatedRow[] {
  const world = new Random(seeded(`world ${seed}`));
  const bandit = Bandit.start(policy, seed);
  return Array.from({ length: rows }, () => {
    const features = [world.unit()];
    const { option, probabilities } = bandit.decide({ options, features });
    const reward = world.unit() < meansOf(features)[options.indexOf(option)]! ? 1 : 0;
    bandit.learn(option, reward, features);
    return { option, options, logged: probabilities, target: targetOf(features), reward, features };
  });
}

/** Returns, for many logs: the share of 95 % intervals that contain the truth, and the mean of the estimates. */
function judged(policy: PolicySettings, logs: number, rows: number) {
  const names = ['ips', 'snips', 'dr'] as const;
  const covered = { ips: 0, snips: 0, dr: 0 };
  const means = { ips: 0, snips: 0, dr: 0 };
  const widths = { ips: 0, snips: 0, dr: 0 };
  for (let log = 0; log < logs; log++) {
    const estimates = estimate(logOf(policy, rows, `${policy.name} ${log}`), 0.95);
    for (const name of names) {
      const { value, low, high } = estimates[name];
      if (low <= truth && truth <= high) covered[name] += 1 / logs;
      means[name] += value / logs;
      widths[name] += (high - low) / logs;
    }
  }
  return { covered, means, widths };
}

for (const policy of [
  { name: 'uniform' },
  { name: 'softmax', temperature: 0.3 },
  { name: 'thompson_beta', explore: 0.2 },
  { name: 'linucb', explore: 0.2 },
] as const satisfies readonly PolicySettings[]) {
  test(`intervals cover the truth as often as they say, from the log of ${policy.name}`, () => {
    // Thompson sampling integrates at every row: fewer logs for it.
    const { covered, means, widths } = judged(policy, policy.name === 'thompson_beta' ? 60 : 300, 400);
    for (const name of ['ips', 'snips', 'dr'] as const) {
      // 300 logs measure a coverage of 0.95 to ± 0.025; the rows of a policy that learns are not independent.
      assert.ok(covered[name] >= 0.9 && covered[name] <= 1, `${name} covers ${covered[name].toFixed(3)}`);
      assert.ok(Math.abs(means[name] - truth) < 0.015, `${name} is ${means[name]} on average, not ${truth}`);
    }
    assert.ok(widths.dr <= widths.ips, 'the model makes the interval narrower');
  });
}

test('a policy that logs no alternative is found out: the share it cannot say anything of is reported', () => {
  const rows = logOf({ name: 'ucb1' }, 200, 'ucb1');
  const { unsupported, effectiveRows } = estimate(rows, 0.95);
  assert.ok(unsupported > 0.3, String(unsupported));
  assert.ok(effectiveRows < 200);
});

test('without rows there is nothing to estimate, and one row is no interval', () => {
  const zero = { value: 0, low: 0, high: 0, standardError: 0 };
  assert.deepEqual(estimate([], 0.95).dr, zero);
  const [row] = logOf({ name: 'uniform' }, 1, 'one');
  assert.ok(Number.isFinite(estimate([row!], 0.95).snips.value));
});
