/**
 * Problems whose truth is known: the mean reward of each option in each round.
 */
import type { Random } from '../../src/base/bandits/random.ts';

export interface Problem {
  readonly name: string;
  readonly title: string;
  readonly rounds: number;
  readonly options: readonly string[];
  /** Returns the features of a round; none if the situation is always the same. */
  features(random: Random): readonly number[];
  /** Returns the mean reward of each option, 0 to 1. */
  means(round: number, features: readonly number[]): readonly number[];
}

const ROUNDS = 6000;
const options = ['a', 'b', 'c', 'd', 'e'];
const none = () => [];

/** The means stay. */
export const stationary: Problem = {
  name: 'stationary',
  title: 'Stationary: five options, mean rewards 0.40 to 0.60',
  rounds: ROUNDS,
  options,
  features: none,
  means: () => [0.4, 0.45, 0.5, 0.55, 0.6],
};

const PHASES = [
  [0.2, 0.35, 0.5, 0.65, 0.8],
  [0.8, 0.35, 0.5, 0.65, 0.2],
  [0.2, 0.8, 0.5, 0.35, 0.65],
  [0.5, 0.2, 0.65, 0.8, 0.35],
];

/** Every 1,500 rounds the means are those of other options; the best one was bad before. */
export const abrupt: Problem = {
  name: 'abrupt',
  title: 'Abrupt drift: other options are good every 1,500 rounds',
  rounds: ROUNDS,
  options,
  features: none,
  means: (round) => PHASES[Math.floor(round / 1500) % PHASES.length]!,
};

/** Each mean is a wave; the best option changes about every 600 rounds. */
export const gradual: Problem = {
  name: 'gradual',
  title: 'Gradual drift: mean rewards are waves, 0.2 to 0.8',
  rounds: ROUNDS,
  options,
  features: none,
  means: (round) => options.map((_, at) => 0.5 + 0.3 * Math.sin(2 * Math.PI * (round / 3000 + at / options.length))),
};

const WEIGHTS = [
  [0.5, -0.3, 0.1, 0],
  [-0.4, 0.4, 0, 0.1],
  [0, 0, 0.4, -0.4],
  [0.2, 0.2, -0.3, 0.2],
  [-0.2, -0.1, -0.2, 0.4],
];

/** The best option depends on four features. */
export const contextual: Problem = {
  name: 'contextual',
  title: 'Contextual: the best option depends on four features',
  rounds: ROUNDS,
  options,
  features: (random) => [0, 1, 2, 3].map(() => 2 * random.unit() - 1),
  means: (_, features) =>
    WEIGHTS.map((weights) => {
      const sum = weights.reduce((total, weight, at) => total + weight * features[at]!, 0);
      return Math.min(0.95, Math.max(0.05, 0.5 + sum / 2));
    }),
};

export const problems: readonly Problem[] = [stationary, abrupt, gradual, contextual];
