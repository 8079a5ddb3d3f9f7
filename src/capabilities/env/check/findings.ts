/**
 * The rules of `handfast env check`: the expectation of each and the way to mend an environment that breaks it. The checks of
 * this process (`check.ts`) and of Python (`python/gym_check.py`) report by these names.
 *
 * docs/environments.md#checking-an-environment compares each with Gymnasium's own checker.
 */

interface Rule {
  /** The property of a correct environment. */
  readonly expected: string;
  readonly mend: string;
}

export const checkRules = {
  spaces: {
    expected: 'both spaces are spaces, and contain what they sample',
    mend: 'declare action_space and observation_space with the spaces of the library, sizes above 0 and low below high',
  },
  raises: {
    expected: 'reset and step accept every seed and every action of the action space',
    mend: 'handle the actions that the space has, or make the space smaller',
  },
  result: {
    expected: 'reset returns observation and info; step returns observation, reward, terminated, truncated and info',
    mend: 'return all of them, in this form',
  },
  observation: {
    expected: 'every observation is an element of the observation space',
    mend: 'return values of the declared kind, shape and bounds, or widen the space',
  },
  dtype: {
    expected: 'every observation has the dtype of its space',
    mend: 'round to the dtype before returning (Math.fround, or numpy.asarray with the dtype), or declare the dtype that is returned',
  },
  reward: { expected: 'the reward is a finite number', mend: 'return one number, neither NaN nor infinite' },
  flags: {
    expected: 'terminated and truncated are booleans',
    mend: 'return true or false: comparisons of arrays and numbers are none',
  },
  info: {
    expected: 'info is an object of plain data',
    mend: 'return an object (in Python a dict), {} where there is nothing',
  },
  reuse: {
    expected: 'what was returned is not changed later',
    mend: 'return a copy each time: callers store what they get',
  },
  owned: {
    expected: 'what was returned, and the action, belong to the caller',
    mend: 'copy the state before returning it, and the action before storing it',
  },
  'action-changed': { expected: 'the action is not changed', mend: 'copy the action before changing it' },
  'same-seed': {
    expected: 'the same seed leads to the same first observation and info',
    mend: 'draw from the generator that reset seeds only; no clock, no random numbers of the process',
  },
  'next-reset': {
    expected: 'a reset without a seed continues the generator of the last seed',
    mend: 'draw from the same generator with and without a seed; do not seed it again without one',
  },
  'same-steps': {
    expected: 'the same seed and actions lead to the same steps',
    mend: 'draw from the generator that reset seeds only; no clock, no random numbers of the process, no order of a set',
  },
  leftover: {
    expected: 'reset leaves nothing of the episode before',
    mend: 'set every member of the state in reset, also counters and caches',
  },
  'other-process': {
    expected: 'another process with the same seed has the same episode',
    mend: 'do not depend on hash() of texts, on the order of sets, nor on ids of objects',
  },
  'seed-argument': {
    expected: 'reset takes a keyword argument seed, None by default',
    mend: 'declare reset(self, *, seed=None, options=None)',
  },
  'seed-unused': {
    expected: 'reset(seed) seeds np_random',
    mend: 'call super().reset(seed=seed) first in reset, and draw from self.np_random',
  },
  'options-argument': {
    expected: 'reset takes a keyword argument options, None by default',
    mend: 'declare reset(self, *, seed=None, options=None)',
  },
  suggestions: {
    expected: 'every suggested action is an element of the action space',
    mend: 'suggest only actions that step accepts',
  },
  render: {
    expected: 'every declared mode draws: a text, or rows of 8-bit red, green and blue',
    mend: 'return what the mode promises, or take the mode off the list',
  },
  'render-changes': {
    expected: 'drawing changes nothing',
    mend: 'draw no random numbers and change no state while rendering',
  },
  snapshot: {
    expected: 'a snapshot is JSON, and another environment continues from it exactly',
    mend: 'put the whole state and the generator into the snapshot, and nothing that is not JSON',
  },
  close: { expected: 'closing twice is fine', mend: 'make the second close() do nothing' },
  gymnasium: { expected: "Gymnasium's own checker passes", mend: 'see its message' },
} as const satisfies Readonly<Record<string, Rule>>;

export type CheckRule = keyof typeof checkRules;

/** The rules that one seed always leads to one result; a fault in these breaks all other comparisons. */
export const DETERMINISM: readonly CheckRule[] = ['same-seed', 'next-reset', 'same-steps'];

/** One rule that an environment breaks, at the first place where it does. */
export interface Finding {
  readonly rule: CheckRule;
  /** The step of the check: 0 is the first reset. Null: of no step. */
  readonly step: number | null;
  readonly expected: string;
  readonly found: string;
  readonly mend: string;
}

/** The verdict of Gymnasium's own checker about an environment of Python. */
export type GymnasiumVerdict = {
  /** The exception of the checker; null: the environment passed. */
  readonly problem: string | null;
  readonly warnings: readonly string[];
};

export interface CheckReport {
  readonly findings: Finding[];
  readonly gymnasium?: GymnasiumVerdict;
}

/** The extent of a check. */
export interface CheckRequest {
  /** 0 to 2^53 - 1. */
  readonly seed: number;
  /** Number of steps of each rollout. */
  readonly steps: number;
  readonly signal?: AbortSignal | undefined;
}

/** Longest description of a finding. */
const MAX_FOUND = 300;

/** Returns a finding of a rule, in the words of its row. */
export function finding(rule: CheckRule, step: number | null, found: string): Finding {
  const { expected, mend } = checkRules[rule];
  const short = found.length > MAX_FOUND ? `${found.slice(0, MAX_FOUND)}…` : found;
  return { rule, step, expected, found: short, mend };
}

/** The first finding of each rule, in the order of their discovery. */
export class Findings {
  readonly #byRule = new Map<CheckRule, Finding>();

  add(rule: CheckRule, step: number | null, found: string): void {
    if (!this.#byRule.has(rule)) this.#byRule.set(rule, finding(rule, step, found));
  }

  has(...rules: readonly CheckRule[]): boolean {
    return rules.some((rule) => this.#byRule.has(rule));
  }

  get all(): Finding[] {
    return [...this.#byRule.values()];
  }
}
