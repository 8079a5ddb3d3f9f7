/**
 * A policy that chooses among named options and learns from rewards: a state machine whose state is plain JSON, the
 * random generator included. Saving, ending the process and restoring at any point changes no later decision.
 *
 * A decision is made in two steps: the policy gives each option a probability, then one number is drawn. So the
 * propensity that is logged is the one that was used, for every policy.
 * @see docs/learning.md#policies
 */
import { fail } from '../../wire/errors.ts';
import { type Posterior, probabilitiesOfBest } from './best.ts';
import { LinearModel, type SavedLinear } from './linear.ts';
import { Random, type RandomState, seeded } from './random.ts';
import { type PolicySettings, parameterOf } from './settings.ts';

/** Totals over all rewards of one option. */
export interface ArmTotals {
  readonly count: number;
  readonly sum: number;
  readonly squares: number;
}

export interface SavedArm extends ArmTotals {
  /** For `discounted_ucb`: count and sum as they were worth after reward number `at`. */
  readonly faded?: { readonly count: number; readonly sum: number; readonly at: number };
  readonly linear?: SavedLinear;
}

/** A bandit without its options. */
export interface SavedHead {
  readonly policy: PolicySettings;
  readonly random: RandomState;
  /** Rewards learned. */
  readonly steps: number;
  /** Number of features, once known. */
  readonly features?: number;
  /** For `sliding_window_ucb`: the newest rewards, oldest first. */
  readonly window?: readonly (readonly [option: string, reward: number])[];
}

export interface SavedBandit extends SavedHead {
  readonly arms: Readonly<Record<string, SavedArm>>;
}

export interface Situation {
  /** At least one, each once. */
  readonly options: readonly string[];
  readonly features?: readonly number[];
  /** Expected reward of an option before anything is known of it; counts like two rewards. Not used by `linucb`. */
  readonly weights?: ReadonlyMap<string, number>;
}

export interface Decision {
  readonly option: string;
  /** The probability with which this option was chosen. */
  readonly propensity: number;
  /** Of every option, in the order of the request. */
  readonly probabilities: readonly number[];
}

/** The number of rewards that a weight counts for. */
const WEIGHT_COUNT = 2;
/** `thompson_gaussian`: the belief before the first reward, equal to one reward of 0 with a variance of 1. */
const PRIOR = { count: 1, mean: 0, variance: 1 };
/** ξ of sliding-window and discounted UCB, as Garivier and Moulines (2011) chose it. */
const FORGETTING_XI = 0.6;
const NOTHING: ArmTotals = { count: 0, sum: 0, squares: 0 };

interface Arm {
  count: number;
  sum: number;
  squares: number;
  faded?: { readonly count: number; readonly sum: number; readonly at: number };
  linear?: LinearModel;
}

export class Bandit {
  readonly policy: PolicySettings;
  readonly #random: Random;
  readonly #arms = new Map<string, Arm>();
  readonly #window: (readonly [string, number])[];
  #steps: number;
  #features: number | undefined;
  /** Counts and sums of the window; made again after each reward, in the same order, so that they do not drift. */
  #windowed: Map<string, { count: number; sum: number }> | undefined;

  /** @param head the state of a saved bandit; {@link start} makes that of a new one */
  constructor(head: SavedHead, arms: Iterable<readonly [string, SavedArm]> = []) {
    this.policy = head.policy;
    this.#random = new Random(head.random);
    this.#steps = head.steps;
    this.#features = head.features;
    this.#window = [...(head.window ?? [])];
    for (const [option, { linear, ...totals }] of arms) {
      this.#arms.set(option, { ...totals, ...(linear && { linear: LinearModel.restore(linear) }) });
    }
  }

  /** Creates a bandit that knows nothing. @param seed an integer or a text: equal seeds give equal decisions */
  static start(policy: PolicySettings, seed: number | string): Bandit {
    return new Bandit({ policy, random: seeded(seed), steps: 0 });
  }

  static restore({ arms, ...head }: SavedBandit): Bandit {
    return new Bandit(head, Object.entries(arms));
  }

  save(): SavedBandit {
    const arms = [...this.#arms.keys()].map((option) => [option, this.savedArm(option)!] as const);
    return { ...this.head, arms: Object.fromEntries(arms) };
  }

  /** The state that {@link save} gives without the options, which a store has one by one. */
  get head(): SavedHead {
    return {
      policy: this.policy,
      random: this.#random.state,
      steps: this.#steps,
      ...(this.#features !== undefined && { features: this.#features }),
      ...(this.#window.length > 0 && { window: [...this.#window] }),
    };
  }

  savedArm(option: string): SavedArm | undefined {
    const arm = this.#arms.get(option);
    if (arm === undefined) return undefined;
    const { linear, ...totals } = arm;
    return { ...totals, ...(linear && { linear: linear.save() }) };
  }

  /** Returns the totals over all rewards of an option. */
  totals(option: string): ArmTotals {
    return this.#arms.get(option) ?? NOTHING;
  }

  get options(): readonly string[] {
    return [...this.#arms.keys()];
  }

  /** Chooses, and moves the generator by one number. Throws `schema_violation` where the number of features differs. */
  decide(situation: Situation): Decision {
    const probabilities = this.probabilities(situation);
    const index = this.#random.pick(probabilities);
    return { option: situation.options[index]!, propensity: probabilities[index]!, probabilities: [...probabilities] };
  }

  /** Returns the probability of each option; changes nothing. */
  probabilities(situation: Situation): Float64Array {
    const count = situation.options.length;
    const explore = parameterOf(this.policy, 'explore');
    const chosen = this.#chosen(situation);
    if (explore > 0) for (let at = 0; at < count; at++) chosen[at] = (1 - explore) * chosen[at]! + explore / count;
    return chosen;
  }

  /** Learns the reward of one option. Throws `schema_violation` where the number of features differs. */
  learn(option: string, reward: number, features: readonly number[] = []): void {
    let arm = this.#arms.get(option);
    if (arm === undefined) {
      arm = { ...NOTHING };
      this.#arms.set(option, arm);
    }
    if (this.policy.name === 'linucb') this.#linear(arm).learn(this.#input(features), reward);
    this.#steps += 1;
    arm.count += 1;
    arm.sum += reward;
    arm.squares += reward * reward;
    if (this.policy.name === 'discounted_ucb') {
      const { count, sum } = this.#faded(arm);
      arm.faded = { count: count + 1, sum: sum + reward, at: this.#steps };
    }
    if (this.policy.name === 'sliding_window_ucb') {
      this.#window.push([option, reward]);
      if (this.#window.length > parameterOf(this.policy, 'window')) this.#window.shift();
      this.#windowed = undefined;
    }
  }

  /** Removes the totals of an option. */
  forget(option: string): void {
    this.#arms.delete(option);
  }

  /** Returns the belief about the mean reward of an option, under any policy: for recommendations. */
  posterior(option: string, weight?: number): Posterior {
    const totals = withWeight(this.totals(option), weight);
    return this.policy.name === 'thompson_beta' ? betaOf(totals) : gaussianOf(totals);
  }

  #chosen(situation: Situation): Float64Array {
    const { options, features = [], weights } = situation;
    const count = options.length;
    const totals = () => options.map((option) => withWeight(this.totals(option), weights?.get(option)));
    switch (this.policy.name) {
      case 'uniform':
        return new Float64Array(count).fill(1 / count);
      case 'thompson_beta':
        return probabilitiesOfBest(totals().map(betaOf));
      case 'thompson_gaussian':
        return probabilitiesOfBest(totals().map(gaussianOf));
      case 'linucb': {
        const input = this.#input(features);
        const alpha = parameterOf(this.policy, 'alpha');
        return bestOf(options.map((option) => this.#upper(option, input, alpha)));
      }
      case 'ucb1': {
        const counts = totals();
        // ξ = 2 with the factor in front is the bound of Auer, Cesa-Bianchi and Fischer (2002).
        return this.#upperBounds(counts, sumOf(counts), 2);
      }
      case 'sliding_window_ucb': {
        const windowed = this.#inWindow();
        const counts = options.map((option) => withWeight(windowed.get(option) ?? NOTHING, weights?.get(option)));
        return this.#upperBounds(counts, sumOf(counts), FORGETTING_XI);
      }
      case 'discounted_ucb': {
        const counts = options.map((option) => withWeight(this.#faded(this.#arms.get(option)), weights?.get(option)));
        return this.#upperBounds(counts, sumOf(counts), FORGETTING_XI);
      }
      case 'epsilon_greedy': {
        const epsilon = parameterOf(this.policy, 'epsilon');
        return bestOf(totals().map(meanOf)).map((share) => (1 - epsilon) * share + epsilon / count);
      }
      case 'softmax': {
        const means = totals().map(meanOf);
        const greatest = Math.max(...means);
        const temperature = parameterOf(this.policy, 'temperature');
        const parts = Float64Array.from(means, (mean) => Math.exp((mean - greatest) / temperature));
        const total = parts.reduce((sum, part) => sum + part, 0);
        return parts.map((part) => part / total);
      }
    }
  }

  /**
   * Returns a uniform choice among the options with the highest upper bound `mean + alpha √(factor ln(total) / count)`;
   * options without a reward come first.
   */
  #upperBounds(counts: readonly { count: number; sum: number }[], total: number, factor: number): Float64Array {
    if (counts.some(({ count }) => count === 0)) return bestOf(counts.map(({ count }) => (count === 0 ? 1 : 0)));
    const alpha = parameterOf(this.policy, 'alpha');
    const growth = Math.log(Math.max(total, 1));
    return bestOf(counts.map(({ count, sum }) => sum / count + alpha * Math.sqrt((factor * growth) / count)));
  }

  #upper(option: string, input: readonly number[], alpha: number): number {
    const known = this.#arms.get(option)?.linear;
    const model = known ?? new LinearModel(input.length, parameterOf(this.policy, 'ridge'));
    return model.mean(input) + alpha * model.width(input);
  }

  #linear(arm: Arm): LinearModel {
    const intercept = this.policy.intercept === false ? 0 : 1;
    arm.linear ??= new LinearModel((this.#features ?? 0) + intercept, parameterOf(this.policy, 'ridge'));
    return arm.linear;
  }

  /** Returns the features in the form that the models take. The first call fixes their number. */
  #input(features: readonly number[]): readonly number[] {
    this.#features ??= features.length;
    if (features.length !== this.#features) {
      throw fail('schema_violation', `expected ${this.#features} features, got ${features.length}`, {
        path: '/features',
      });
    }
    return this.policy.intercept === false ? features : [...features, 1];
  }

  #faded(arm: Arm | undefined): { count: number; sum: number } {
    if (arm?.faded === undefined) return { count: 0, sum: 0 };
    const worth = parameterOf(this.policy, 'discount') ** (this.#steps - arm.faded.at);
    return { count: arm.faded.count * worth, sum: arm.faded.sum * worth };
  }

  #inWindow(): ReadonlyMap<string, { count: number; sum: number }> {
    if (this.#windowed !== undefined) return this.#windowed;
    const windowed = new Map<string, { count: number; sum: number }>();
    for (const [option, reward] of this.#window) {
      const found = windowed.get(option);
      if (found === undefined) windowed.set(option, { count: 1, sum: reward });
      else {
        found.count += 1;
        found.sum += reward;
      }
    }
    this.#windowed = windowed;
    return windowed;
  }
}

const sumOf = (counts: readonly { readonly count: number }[]): number =>
  counts.reduce((sum, { count }) => sum + count, 0);

const meanOf = ({ count, sum }: { readonly count: number; readonly sum: number }): number =>
  count === 0 ? 0 : sum / count;

function withWeight(
  { count, sum, squares = 0 }: { readonly count: number; readonly sum: number; readonly squares?: number },
  weight: number | undefined,
): ArmTotals {
  if (weight === undefined) return { count, sum, squares };
  return {
    count: count + WEIGHT_COUNT,
    sum: sum + WEIGHT_COUNT * weight,
    squares: squares + WEIGHT_COUNT * weight * weight,
  };
}

/** Rewards from 0 to 1 as shares of a success, after a uniform prior. */
const betaOf = ({ count, sum }: ArmTotals): Posterior => ({ a: 1 + sum, b: 1 + Math.max(0, count - sum) });

/** Returns the posterior of the mean of a normal distribution of unknown variance, approximated as normal. */
function gaussianOf({ count, sum, squares }: ArmTotals): Posterior {
  const all = PRIOR.count + count;
  const mean = (PRIOR.count * PRIOR.mean + sum) / all;
  const spread = PRIOR.variance + PRIOR.count * PRIOR.mean ** 2 + squares - all * mean * mean;
  return { mean, deviation: Math.sqrt(Math.max(spread, 1e-12) / all / all) };
}

/** Shares of the options with the highest value, equal among ties. */
function bestOf(values: readonly number[]): Float64Array {
  const greatest = Math.max(...values);
  const ties = values.filter((value) => value === greatest).length;
  return Float64Array.from(values, (value) => (value === greatest ? 1 / ties : 0));
}
