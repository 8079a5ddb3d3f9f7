/**
 * Plays a policy against a problem and sums its regret: in each round, the highest mean reward minus that of the option
 * it chose. So the regret of a drifting problem is against the best option of each round.
 */
import { Bandit } from '../../src/base/bandits/bandit.ts';
import { Random, seeded } from '../../src/base/bandits/random.ts';
import type { PolicySettings } from '../../src/base/bandits/settings.ts';
import type { Problem } from './problems.ts';

/** A policy, or the option that is best over the whole run, known only afterwards. */
export type Contender = { readonly label: string; readonly policy: PolicySettings | 'best fixed' };

export const contenders: readonly Contender[] = [
  { label: 'uniform', policy: { name: 'uniform' } },
  { label: 'best fixed option', policy: 'best fixed' },
  { label: 'ε-greedy (0.1)', policy: { name: 'epsilon_greedy' } },
  { label: 'UCB1', policy: { name: 'ucb1' } },
  { label: 'Thompson, Beta', policy: { name: 'thompson_beta' } },
  { label: 'Thompson, Gaussian', policy: { name: 'thompson_gaussian' } },
  { label: 'sliding-window UCB (500)', policy: { name: 'sliding_window_ucb' } },
  { label: 'discounted UCB (0.998)', policy: { name: 'discounted_ucb' } },
  { label: 'LinUCB', policy: { name: 'linucb' } },
];

/** Returns the cumulative regret at each mark. */
export function regretOf(problem: Problem, policy: Contender['policy'], seed: number, marks: number): Float64Array {
  const { rounds, options } = problem;
  // Situations and luck are those of the seed, the same for every policy.
  const world = new Random(seeded(`world ${problem.name} ${seed}`));
  const bandit = policy === 'best fixed' ? undefined : Bandit.start(policy, seed);
  const situations = Array.from({ length: rounds }, () => problem.features(world));
  const fixed = bandit === undefined ? bestFixed(problem, situations) : 0;
  const result = new Float64Array(marks + 1);
  let regret = 0;
  for (let round = 0; round < rounds; round++) {
    const features = situations[round]!;
    const means = problem.means(round, features);
    const luck = world.unit();
    const at = bandit === undefined ? fixed : options.indexOf(bandit.decide({ options, features }).option);
    regret += Math.max(...means) - means[at]!;
    bandit?.learn(options[at]!, luck < means[at]! ? 1 : 0, features);
    if ((round + 1) % (rounds / marks) === 0) result[((round + 1) * marks) / rounds] = regret;
  }
  return result;
}

function bestFixed(problem: Problem, situations: readonly (readonly number[])[]): number {
  const sums = problem.options.map(() => 0);
  for (const [round, features] of situations.entries()) {
    for (const [at, mean] of problem.means(round, features).entries()) sums[at]! += mean;
  }
  return sums.indexOf(Math.max(...sums));
}

export interface Band {
  readonly label: string;
  /** By mark: mean over the seeds, and half the width of its 95 % confidence interval. */
  readonly means: readonly number[];
  readonly halves: readonly number[];
}

/** Returns mean and 95 % confidence interval over runs. */
export function bandOf(label: string, runs: readonly ArrayLike<number>[]): Band {
  const count = runs.length;
  const means: number[] = [];
  const halves: number[] = [];
  for (let mark = 0; mark < runs[0]!.length; mark++) {
    const mean = runs.reduce((sum, run) => sum + run[mark]!, 0) / count;
    const squares = runs.reduce((sum, run) => sum + (run[mark]! - mean) ** 2, 0);
    means.push(mean);
    halves.push(count < 2 ? 0 : 1.96 * Math.sqrt(squares / (count - 1) / count));
  }
  return { label, means, halves };
}
