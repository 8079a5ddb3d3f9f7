/**
 * The choices of one agent in its store: the policy of each with its generator, its known options, and the log of its decisions
 * with their propensities and rewards.
 *
 * Every change is part of the caller's `atomically`: a decision and the generator that it moved are durable together.
 */
import type { Bandit, SavedBandit, SavedHead } from '../../base/bandits/bandit.ts';
import { seeded } from '../../base/bandits/random.ts';
import { describePolicy, needsUnitRewards, type PolicySettings } from '../../base/bandits/settings.ts';
import { StoredBandits } from '../../base/bandits/stored.ts';
import type { Store } from '../../host/store/store.ts';
import type { Body } from '../../protocol/method.ts';
import { fail } from '../../wire/errors.ts';
import type { Components } from './components.ts';
import { failure } from './errors.ts';
import type { LearningLimits } from './limits.ts';
import type { LearnDecideReq, LearnDecideResp } from './messages.ts';
import { StoredLog } from './stored-log.ts';

/** The data of a choice beside its policy, which a rollback does not change. */
export interface StoredChoice {
  readonly rewardTimeoutS: number;
  readonly missingReward: number | null;
  readonly decisions: number;
  readonly rewarded: number;
  readonly pending: number;
  readonly missing: number;
  readonly late: number;
  /** No decision before this number waits for its reward. */
  readonly oldest: number;
  /** Every option that a decision named, in that order. */
  readonly options: readonly string[];
  /** Options that a refinement disabled. */
  readonly disabled: readonly string[];
}

/** A decision in the log. */
export interface DecisionRow {
  /** Its experience_id. */
  readonly id: string;
  readonly option: string;
  readonly options: readonly string[];
  readonly probabilities: readonly number[];
  readonly features?: readonly number[];
  readonly policy: string;
  /** Epoch seconds. */
  readonly at: number;
  readonly reward?: number;
  /** True: the reward did not arrive in time. */
  readonly missing?: true;
}

/** The policy of a choice and its learned state, which a refinement replaces and a rollback restores. */
export type ChoiceSnapshot = SavedBandit & Pick<StoredChoice, 'disabled'>;

/** The source of time, seeds and ids. */
export interface LearningSource {
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly seed: () => string;
  readonly id: () => string;
}

export const DEFAULT_POLICY: PolicySettings = { name: 'thompson_beta' };

export class Choices {
  readonly #store: Store;
  readonly #bandits: StoredBandits;
  readonly #components: Components;
  readonly #limits: LearningLimits;
  readonly #source: LearningSource;

  constructor(store: Store, components: Components, limits: LearningLimits, source: LearningSource) {
    this.#store = store;
    this.#bandits = new StoredBandits(store);
    this.#components = components;
    this.#limits = limits;
    this.#source = source;
  }

  /** Returns the names of all choices. Not inside `atomically`. */
  names(): string[] {
    return this.#store.list({ prefix: 'choice/', limit: this.#limits.maxChoices }).map(({ key }) => key.slice(7));
  }

  get(name: string): StoredChoice | undefined {
    return this.#store.get<StoredChoice>(`choice/${name}`);
  }

  /** Returns a choice. Throws `learning.unknown_choice`. */
  known(name: string): StoredChoice {
    const choice = this.get(name);
    if (choice === undefined) throw failure('unknown_choice', `there is no choice "${name}"`, { choice: name });
    return choice;
  }

  logOf(name: string): StoredLog<DecisionRow> {
    return new StoredLog(this.#store, logNameOf(name), this.#limits.logRows);
  }

  /** Returns the choice and the row of a decision. */
  static decisionOf(store: Store, experienceId: string): { readonly choice: string; readonly seq: number } | undefined {
    const found = StoredLog.find(store, experienceId);
    return found?.log.startsWith('["') ? { choice: (JSON.parse(found.log) as [string])[0], seq: found.seq } : undefined;
  }

  /** Throws `learning.full` if a new choice would exceed the limit. Not inside `atomically`. */
  checkRoom(name: string): void {
    const { maxChoices } = this.#limits;
    if (this.get(name) !== undefined || this.names().length < maxChoices) return;
    throw failure('full', `there are ${maxChoices} choices already; delete one with learn/forget/req`, {
      limit: 'max_choices',
    });
  }

  decide(request: Body<LearnDecideReq>): Body<LearnDecideResp> {
    const { choice: name, experience_id: id = this.#source.id() } = request;
    this.#checkRequest(request);
    const repeated = this.#repeated(name, id);
    if (repeated !== undefined) return repliedDecision(repeated);
    const at = this.#source.now() / 1000;
    const choice = this.#settled(name, this.get(name) ?? this.#started(request), at);
    const known = this.#withOptions(choice.options, request.options);
    const enabled = request.options.filter((option) => !choice.disabled.includes(option));
    const options = enabled.length === 0 ? request.options : enabled;
    const bandit = this.banditOf(name, options);
    const weights = this.weightsOf(options);
    const { option, probabilities } = bandit.decide({ options, weights, ...given(request.features) });
    const policy = describePolicy(bandit.policy);
    const row = { id, option, options, probabilities, ...given(request.features), policy, at };
    const { evicted } = this.logOf(name).append(row);
    this.#bandits.setHead(name, bandit.head);
    const lost = evicted !== undefined && isPending(evicted.row) ? 1 : 0;
    this.#save(name, {
      ...choice,
      options: known,
      decisions: choice.decisions + 1,
      pending: choice.pending + 1 - lost,
      missing: choice.missing + lost,
    });
    return repliedDecision(row);
  }

  /** Stores the reward of a decision. Returns false when it has one already. Throws `learning.reward_range`. */
  reward(name: string, seq: number, reward: number): boolean {
    const at = this.#source.now() / 1000;
    const known = this.get(name);
    if (known === undefined) return false;
    const choice = this.#settled(name, known, at);
    const log = this.logOf(name);
    const row = log.get(seq);
    if (row === undefined || row.reward !== undefined) return false;
    log.replace(seq, { ...row, reward });
    const learns = row.missing === undefined || choice.missingReward === null;
    if (learns) this.#learn(name, row, reward);
    const counted =
      row.missing === undefined
        ? { pending: choice.pending - 1, rewarded: choice.rewarded + 1 }
        : { late: choice.late + 1 };
    this.#save(name, { ...choice, ...counted });
    return true;
  }

  /** Counts the rewards that did not arrive in time as missing. */
  settle(name: string): void {
    const choice = this.get(name);
    if (choice === undefined) return;
    const settled = this.#settled(name, choice, this.#source.now() / 1000);
    if (settled !== choice) this.#save(name, settled);
  }

  headOf(name: string): SavedHead {
    const head = this.#bandits.head(name);
    if (head === undefined) throw failure('unknown_choice', `there is no choice "${name}"`, { choice: name });
    return head;
  }

  /** Returns the policy of a choice with its learned state for these options. */
  banditOf(name: string, options: readonly string[]): Bandit {
    return this.#bandits.restore(name, this.headOf(name), options);
  }

  weightsOf(options: readonly string[]): ReadonlyMap<string, number> {
    const weights = options.map((option) => [option, this.#components.weightOf(option)] as const);
    return new Map(weights.filter((entry): entry is readonly [string, number] => entry[1] !== undefined));
  }

  /** Returns everything that a rollback restores. */
  snapshot(name: string): ChoiceSnapshot {
    const { disabled, options } = this.known(name);
    return { ...this.banditOf(name, options).save(), disabled };
  }

  /** Replaces the present state by a snapshot. */
  restore(name: string, { disabled, ...saved }: ChoiceSnapshot): void {
    const choice = this.known(name);
    this.#bandits.replace(name, saved, choice.options);
    this.#save(name, { ...choice, disabled });
  }

  /** Deletes a choice. Not inside `atomically`: it is one itself. */
  async forget(name: string): Promise<boolean> {
    const choice = this.get(name);
    if (choice === undefined) return false;
    const keys = [`choice/${name}`, ...this.#bandits.keys(name, choice.options), ...this.logOf(name).keys()];
    await this.#store.atomically(() => {
      for (const key of keys) void this.#store.delete(key);
    });
    return true;
  }

  #learn(name: string, row: DecisionRow, reward: number): void {
    const bandit = this.banditOf(name, [row.option]);
    checkReward(bandit.policy, reward);
    bandit.learn(row.option, reward, row.features);
    this.#bandits.setHead(name, bandit.head);
    this.#bandits.setArm(name, row.option, bandit.savedArm(row.option));
  }

  /** Returns the choice after every overdue reward was counted as missing. */
  #settled(name: string, choice: StoredChoice, at: number): StoredChoice {
    const log = this.logOf(name);
    const { first, next } = log.span;
    let { pending, missing } = choice;
    let oldest = Math.max(choice.oldest, first);
    for (; oldest < next; oldest++) {
      const row = log.get(oldest);
      if (row === undefined || !isPending(row)) continue;
      if (row.at + choice.rewardTimeoutS > at) break;
      log.replace(oldest, { ...row, missing: true });
      if (choice.missingReward !== null) this.#learn(name, row, choice.missingReward);
      pending -= 1;
      missing += 1;
    }
    return oldest === choice.oldest ? choice : { ...choice, oldest, pending, missing };
  }

  #started({ choice: name, policy = DEFAULT_POLICY, seed = this.#source.seed(), ...settings }: Body<LearnDecideReq>) {
    this.#bandits.setHead(name, { policy, random: seeded(seed), steps: 0 });
    return {
      rewardTimeoutS: settings.reward_timeout_s ?? this.#limits.rewardTimeoutS,
      missingReward: settings.missing_reward ?? null,
      decisions: 0,
      rewarded: 0,
      pending: 0,
      missing: 0,
      late: 0,
      oldest: 1,
      options: [],
      disabled: [],
    } satisfies StoredChoice;
  }

  #repeated(name: string, id: string): DecisionRow | undefined {
    const found = StoredLog.find(this.#store, id);
    if (found === undefined) return undefined;
    const row = found.log === logNameOf(name) ? this.logOf(name).get(found.seq) : undefined;
    if (row !== undefined) return row;
    throw failure('id_in_use', `the experience_id "${id}" is in use elsewhere`, { path: '/experience_id' });
  }

  /** Returns the known options of a choice and those of a decision. Throws `learning.full`. */
  #withOptions(known: readonly string[], now: readonly string[]): readonly string[] {
    const more = now.filter((option) => !known.includes(option));
    if (more.length === 0) return known;
    const { maxOptions } = this.#limits;
    if (known.length + more.length <= maxOptions) return [...known, ...more];
    throw failure('full', `a choice has at most ${maxOptions} options`, { limit: 'max_options' });
  }

  #checkRequest({ options, features = [] }: Body<LearnDecideReq>): void {
    const { maxFeatures } = this.#limits;
    if (features.length > maxFeatures) {
      throw failure('full', `a decision has at most ${maxFeatures} features`, { limit: 'max_features' });
    }
    if (new Set(options).size < options.length) {
      throw fail('schema_violation', 'every option may be named once', { path: '/options' });
    }
  }

  #save(name: string, choice: StoredChoice): void {
    void this.#store.set(`choice/${name}`, choice);
  }
}

const given = (features: readonly number[] | undefined) => (features === undefined ? {} : { features });

const logNameOf = (choice: string): string => JSON.stringify([choice]);

const isPending = ({ reward, missing }: DecisionRow): boolean => reward === undefined && missing === undefined;

function repliedDecision({ id, option, options, probabilities, policy }: DecisionRow): Body<LearnDecideResp> {
  return {
    experience_id: id,
    option,
    propensity: probabilities[options.indexOf(option)]!,
    probabilities: Object.fromEntries(options.map((one, at) => [one, probabilities[at]!])),
    policy,
  };
}

/** Throws `learning.reward_range` for a reward that the policy cannot take. */
export function checkReward(policy: PolicySettings, reward: number): void {
  if (!needsUnitRewards(policy) || (reward >= 0 && reward <= 1)) return;
  throw failure(
    'reward_range',
    `${policy.name} takes rewards from 0 to 1, got ${reward}; use thompson_gaussian for others`,
    {
      reward,
    },
  );
}
