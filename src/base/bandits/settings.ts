/**
 * The available policies with their parameters: names as the wire has them, defaults and bounds.
 */

export type PolicyName =
  | 'thompson_beta'
  | 'thompson_gaussian'
  | 'linucb'
  | 'ucb1'
  | 'sliding_window_ucb'
  | 'discounted_ucb'
  | 'epsilon_greedy'
  | 'softmax'
  | 'uniform';

export const POLICY_NAMES: readonly PolicyName[] = [
  'thompson_beta',
  'thompson_gaussian',
  'linucb',
  'ucb1',
  'sliding_window_ucb',
  'discounted_ucb',
  'epsilon_greedy',
  'softmax',
  'uniform',
];

/** A policy with those of its parameters that differ from the defaults. */
export interface PolicySettings {
  readonly name: PolicyName;
  /** `linucb`: width of the bonus, default 1. The UCB policies: factor of the bonus, default 1, of those that forget 0.5. */
  readonly alpha?: number;
  /** `linucb`: ridge penalty. Default 1. */
  readonly ridge?: number;
  /** `linucb`: adds a constant feature. Default true. */
  readonly intercept?: boolean;
  /** `sliding_window_ucb`: newest rewards that count. Default 500. */
  readonly window?: number;
  /** `discounted_ucb`: the factor by which each later reward scales the weight of a reward. Default 0.998. */
  readonly discount?: number;
  /** `epsilon_greedy`: share of uniform decisions. Default 0.1. */
  readonly epsilon?: number;
  /** `softmax`: higher explores more. Default 0.1. */
  readonly temperature?: number;
  /** Every policy: share of decisions made uniformly, so that each option keeps a known least propensity. Default 0. */
  readonly explore?: number;
}

/** Parameter → least value, greatest value, default. */
export const PARAMETERS = {
  alpha: { minimum: 0, maximum: 100, default: 1 },
  ridge: { minimum: 1e-6, maximum: 1e6, default: 1 },
  window: { minimum: 2, maximum: 10_000, default: 500 },
  discount: { minimum: 0.5, maximum: 1, default: 0.998 },
  epsilon: { minimum: 0, maximum: 1, default: 0.1 },
  temperature: { minimum: 1e-3, maximum: 1e3, default: 0.1 },
  explore: { minimum: 0, maximum: 1, default: 0 },
} as const;

/**
 * `alpha` of the policies that forget, where none is given. 1 is the bound of their papers, which explores far more than
 * drifting rewards need: see `bench/learning.ts`.
 */
const FORGETTING_ALPHA = 0.5;

/** Returns the value of a parameter. */
export function parameterOf(policy: PolicySettings, name: keyof typeof PARAMETERS): number {
  const forgets = policy.name === 'sliding_window_ucb' || policy.name === 'discounted_ucb';
  return policy[name] ?? (name === 'alpha' && forgets ? FORGETTING_ALPHA : PARAMETERS[name].default);
}

/** Returns true for policies whose rewards are shares of a success: 0 to 1. */
export const needsUnitRewards = ({ name }: PolicySettings): boolean => name === 'thompson_beta';

/** Returns one line: the name, and the parameters that differ from the defaults. */
export function describePolicy({ name, ...parameters }: PolicySettings): string {
  const told = Object.entries(parameters).map(([parameter, value]) => `${parameter}=${value}`);
  return told.length === 0 ? name : `${name}(${told.join(', ')})`;
}
