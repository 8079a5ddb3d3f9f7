/**
 * Recommends an option by the rewards of a choice, under any policy: the probability of each option to be best, and a sentence
 * with the numbers. Pure.
 */
import type { Bandit } from '../../base/bandits/bandit.ts';
import { probabilitiesOfBest } from '../../base/bandits/best.ts';
import { describePolicy } from '../../base/bandits/settings.ts';
import type { OptionStats, Recommendation } from './messages.ts';

/** Returns the statistics of each option, in the given order. */
export function optionStats(
  bandit: Bandit,
  options: readonly string[],
  disabled: readonly string[],
  weights: ReadonlyMap<string, number>,
): OptionStats[] {
  const best = probabilitiesOfBest(options.map((option) => bandit.posterior(option, weights.get(option))));
  return options.map((option, at) => {
    const { count, sum } = bandit.totals(option);
    return {
      option,
      rewards: count,
      mean_reward: count === 0 ? 0 : sum / count,
      probability_best: best[at]!,
      disabled: disabled.includes(option),
    };
  });
}

export function recommendation(choice: string, bandit: Bandit, stats: readonly OptionStats[]): Recommendation {
  const policy = describePolicy(bandit.policy);
  const [best, next] = stats
    .filter(({ rewards, disabled }) => rewards > 0 && !disabled)
    .toSorted((left, right) => right.probability_best - left.probability_best);
  if (best === undefined) return { choice, option: '', confidence: 0, why: 'no rewards yet', policy };
  const than = next === undefined ? 'no other option has rewards' : `next is ${numbersOf(next)}`;
  const why = `${numbersOf(best)}; ${than}; probability of being best ${best.probability_best.toFixed(3)}${contextNote(bandit)}`;
  return { choice, option: best.option, confidence: best.probability_best, why, policy };
}

const numbersOf = ({ option, rewards, mean_reward }: OptionStats): string =>
  `${option} with mean reward ${mean_reward.toFixed(3)} over ${rewards}`;

const contextNote = ({ policy }: Bandit): string =>
  policy.name === 'linucb' ? ', over all situations: linucb decides by the features of each' : '';
