/**
 * The digits data set as a contextual bandit: a row is a picture of 64 features, the options are the ten digits, the
 * reward is 1 for the right one. The rows, their orders and the results of `mabwiser` come from `digits.py`.
 */
import { Bandit } from '../../src/base/bandits/bandit.ts';
import type { PolicySettings } from '../../src/base/bandits/settings.ts';
import { type Band, bandOf } from './play.ts';

export interface DigitsFile {
  /** Features from 0 to 1. */
  readonly rows: readonly (readonly number[])[];
  readonly labels: readonly number[];
  /** One order of the rows for each seed. */
  readonly orders: readonly (readonly number[])[];
  /** Mean reward of `mabwiser` LinUCB (alpha, ridge as below) over all rows, in each order. */
  readonly mabwiser: Readonly<Record<string, readonly number[]>>;
}

const options = Array.from({ length: 10 }, (_, digit) => String(digit));
const MARKS = 60;

/** Returns the rewards of one pass over the rows: mean so far at each mark, the last over all rows. */
export function digitsRun(file: DigitsFile, policy: PolicySettings, seed: number): number[] {
  const bandit = Bandit.start(policy, seed);
  const order = file.orders[seed]!;
  const marks = [0];
  let sum = 0;
  for (const [at, row] of order.entries()) {
    const features = file.rows[row]!;
    const { option } = bandit.decide({ options, features });
    const reward = option === String(file.labels[row]) ? 1 : 0;
    bandit.learn(option, reward, features);
    sum += reward;
    if (at + 1 >= (marks.length * order.length) / MARKS) marks.push(sum / (at + 1));
  }
  return marks;
}

export function playDigits(file: DigitsFile): Band[] {
  const ours: readonly (readonly [string, PolicySettings])[] = [
    ['uniform', { name: 'uniform' }],
    ['Thompson, no features', { name: 'thompson_beta' }],
    ['LinUCB α 1', { name: 'linucb', alpha: 1, intercept: false }],
    ['LinUCB α 0.25', { name: 'linucb', alpha: 0.25, intercept: false }],
  ];
  const bands = ours.map(([label, policy]) =>
    bandOf(
      label,
      file.orders.map((_, seed) => digitsRun(file, policy, seed)),
    ),
  );
  for (const [alpha, means] of Object.entries(file.mabwiser)) {
    const flat = means.map((mean) => Array.from({ length: MARKS + 1 }, () => mean));
    bands.push(bandOf(`mabwiser α ${alpha}, at the end`, flat));
  }
  return bands;
}
