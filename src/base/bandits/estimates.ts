/**
 * The reward that another policy would have earned, estimated from the log of the policy that ran: inverse propensity
 * scoring (IPS), its self-normalised form (SNIPS), and the doubly robust estimate (DR), each with a confidence
 * interval.
 *
 * All need the propensity that was logged at each decision. Intervals are normal approximations over rows: sound for a
 * few hundred rows whose weights are bounded.
 * @see docs/learning.md#estimates
 */
import { LinearModel } from './linear.ts';

/** A decision with its reward, and the other policy's decision in the same situation. */
export interface EvaluatedRow {
  readonly option: string;
  readonly options: readonly string[];
  /** With which probability each option was chosen, in the order of `options`. */
  readonly logged: ArrayLike<number>;
  /** With which probability the other policy would choose each. */
  readonly target: ArrayLike<number>;
  readonly reward: number;
  readonly features?: readonly number[];
}

export interface Estimated {
  readonly value: number;
  readonly low: number;
  readonly high: number;
  readonly standardError: number;
}

export interface Estimates {
  readonly ips: Estimated;
  readonly snips: Estimated;
  readonly dr: Estimated;
  /** The reward that the policy of the log earned. */
  readonly logged: Estimated;
  /** The number of equally weighted rows that the weights are worth: `(Σw)² / Σw²`. */
  readonly effectiveRows: number;
  /** Share of the other policy's decisions that the log cannot have: those of propensity 0. */
  readonly unsupported: number;
}

/** Number of parts into which the rows are split: the reward model for each part learns from the others. */
const FOLDS = 5;

/** Returns the estimates; zeros for no rows. @param confidence of the intervals, e.g. 0.95 */
export function estimate(rows: readonly EvaluatedRow[], confidence: number): Estimates {
  const z = normalQuantile((1 + confidence) / 2);
  const weights = rows.map(weightOf);
  const total = sumOf(weights);
  const snips = total === 0 ? 0 : sumOf(rows.map(({ reward }, at) => weights[at]! * reward)) / total;
  const spread = sumOf(rows.map(({ reward }, at) => (weights[at]! * (reward - snips)) ** 2));
  return {
    ips: meanWith(
      rows.map(({ reward }, at) => weights[at]! * reward),
      z,
    ),
    snips: around(snips, total === 0 ? 0 : Math.sqrt(spread) / total, z),
    dr: meanWith(doublyRobust(rows, weights), z),
    logged: meanWith(
      rows.map(({ reward }) => reward),
      z,
    ),
    effectiveRows: total === 0 ? 0 : total ** 2 / sumOf(weights.map((weight) => weight * weight)),
    unsupported: rows.length === 0 ? 0 : sumOf(rows.map(unsupportedOf)) / rows.length,
  };
}

function weightOf({ option, options, logged, target }: EvaluatedRow): number {
  const at = options.indexOf(option);
  return logged[at]! > 0 ? target[at]! / logged[at]! : 0;
}

const unsupportedOf = ({ options, logged, target }: EvaluatedRow): number =>
  sumOf(options.map((_, at) => (logged[at]! > 0 ? 0 : target[at]!)));

/** Returns the term of each row: the model's expectation for the other policy, corrected by the model's error on the row. */
function doublyRobust(rows: readonly EvaluatedRow[], weights: readonly number[]): number[] {
  const terms = new Array<number>(rows.length);
  for (let fold = 0; fold < FOLDS; fold++) {
    const model = rewardModel(rows.filter((_, at) => at % FOLDS !== fold));
    rows.forEach(({ option, options, target, reward, features = [] }, at) => {
      if (at % FOLDS !== fold) return;
      const expected = sumOf(
        options.map((one, index) => (target[index] === 0 ? 0 : target[index]! * model(one, features))),
      );
      terms[at] = expected + (weights[at] === 0 ? 0 : weights[at]! * (reward - model(option, features)));
    });
  }
  return terms;
}

/**
 * Returns a function that gives the expected reward of an option: ridge regression on the features, for each option by
 * itself, about the mean of all.
 */
function rewardModel(rows: readonly EvaluatedRow[]): (option: string, features: readonly number[]) => number {
  const mean = rows.length === 0 ? 0 : sumOf(rows.map(({ reward }) => reward)) / rows.length;
  const models = new Map<string, LinearModel>();
  for (const { option, reward, features = [] } of rows) {
    let model = models.get(option);
    if (model === undefined) {
      model = new LinearModel(features.length + 1, 1);
      models.set(option, model);
    }
    if (features.length + 1 === model.size) model.learn([...features, 1], reward - mean);
  }
  return (option, features) => {
    const model = models.get(option);
    return model?.size === features.length + 1 ? mean + model.mean([...features, 1]) : mean;
  };
}

function meanWith(values: readonly number[], z: number): Estimated {
  const count = values.length;
  if (count === 0) return around(0, 0, z);
  const mean = sumOf(values) / count;
  const squares = sumOf(values.map((value) => (value - mean) ** 2));
  return around(mean, count < 2 ? 0 : Math.sqrt(squares / (count - 1) / count), z);
}

const around = (value: number, standardError: number, z: number): Estimated => ({
  value,
  low: value - z * standardError,
  high: value + z * standardError,
  standardError,
});

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

/**
 * Returns the normal quantile by bisection of its distribution function (Zelen and Severo): exact to 1e-6 for
 * confidences in use.
 */
function normalQuantile(probability: number): number {
  let low = 0;
  let high = 8;
  for (let round = 0; round < 50; round++) {
    const middle = (low + high) / 2;
    if (upperTail(middle) > 1 - probability) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** Returns the probability above `z >= 0`, by formula 26.2.17 of Abramowitz and Stegun. */
function upperTail(z: number): number {
  const t = 1 / (1 + 0.2316419 * z);
  const series = t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  return (Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI)) * series;
}
