/**
 * The learning capability of an agent: `agent.learning`. Present only when the agent asked for `learning`.
 */
import type { PolicySettings } from '../../base/bandits/settings.ts';
import type { Call, CallOptions, MethodCaller } from '../../connection/call.ts';
import { answered, type Body, type Envelope } from '../../protocol/method.ts';
import * as replies from './learning.replies.generated.ts';
import {
  type ChoiceStats,
  type ComponentPerformanceRecord,
  type Experience,
  type Feedback,
  type LearnAdaptResp,
  type LearnDecideResp,
  type LearnEvaluateResp,
  type LearnExperienceResp,
  type LearnFeedbackResp,
  type LearnRecordsResp,
  type LearnRefinementApplyResp,
  type LearnRefinementPlanResp,
  type LearnRefinementReviewResp,
  type LearnRefinementRollbackResp,
  type LearnStatsResp,
  learnAdapt,
  learnDecide,
  learnEvaluate,
  learnExperience,
  learnFeedback,
  learnForget,
  learnRecords,
  learnRefinementApply,
  learnRefinementHistory,
  learnRefinementPlan,
  learnRefinementReview,
  learnRefinementRollback,
  learnStats,
} from './messages.ts';

const calls = {
  adapt: answered(learnAdapt, replies.LearnAdaptResp),
  decide: answered(learnDecide, replies.LearnDecideResp),
  evaluate: answered(learnEvaluate, replies.LearnEvaluateResp),
  experience: answered(learnExperience, replies.LearnExperienceResp),
  feedback: answered(learnFeedback, replies.LearnFeedbackResp),
  forget: answered(learnForget, replies.LearnForgetResp),
  records: answered(learnRecords, replies.LearnRecordsResp),
  plan: answered(learnRefinementPlan, replies.LearnRefinementPlanResp),
  review: answered(learnRefinementReview, replies.LearnRefinementReviewResp),
  apply: answered(learnRefinementApply, replies.LearnRefinementApplyResp),
  rollback: answered(learnRefinementRollback, replies.LearnRefinementRollbackResp),
  history: answered(learnRefinementHistory, replies.LearnRefinementHistoryResp),
  stats: answered(learnStats, replies.LearnStatsResp),
};

/** The parts of an agent that the learning client needs. */
export interface LearningAgent {
  readonly calls: MethodCaller;
  /** Throws `capability_missing` when learning was asked for but not granted. */
  require(capability: 'learning'): void;
}

/** Selects another agent of the same principal, whose learned state is read and changed. */
export interface OfAgent {
  /** Its name. */
  readonly ofAgent?: string;
}

export interface DecideOptions extends CallOptions {
  /** Numbers that describe the situation, for `linucb`; always the same number of them. */
  readonly features?: readonly number[];
  /** A repeated call with this id returns the same decision. */
  readonly experienceId?: string;
  /** Policy of a new choice. Default `thompson_beta`. */
  readonly policy?: PolicySettings;
  /** Seed of a new choice. Default random. */
  readonly seed?: number | string;
  /** Of a new choice: seconds after which a reward counts as missing. */
  readonly rewardTimeoutS?: number;
  /** Of a new choice: the value learned for a missing reward, 0 to 1. Default: nothing. */
  readonly missingReward?: number;
}

/** A decision. */
export interface Decided {
  readonly experienceId: string;
  readonly option: string;
  /** The probability with which this option was chosen. */
  readonly propensity: number;
  readonly probabilities: Readonly<Record<string, number>>;
  /** The policy that ran, with its parameters. */
  readonly policy: string;
}

export interface RewardOptions extends CallOptions {
  /** Duration, for the record of the component. */
  readonly durationMs?: number;
  /** Default: true for a reward above 0. */
  readonly success?: boolean;
}

export interface AdaptOptions extends CallOptions, OfAgent {
  /** Default `ppo`, which no host runs: the present policy stays, and the message says so. */
  readonly strategy?: 'ppo' | 'ucb1' | 'epsilon_greedy' | 'softmax' | 'custom';
  /** With strategy `custom`: the policy to use from now on. */
  readonly policy?: PolicySettings;
}

export interface EvaluateOptions extends CallOptions, OfAgent {
  /** Estimate always choosing this option … */
  readonly option?: string;
  /** … or this policy. */
  readonly policy?: PolicySettings;
  /** Confidence of the intervals. Default 0.95. */
  readonly confidence?: number;
}

type Proposal = Readonly<Record<string, unknown>>;

/**
 * Chooses among named options and learns from rewards. Calls reject with `learning.unknown_choice`, `learning.full`,
 * `learning.reward_range`, `learning.id_in_use`, `learning.denied`, `schema_violation`, `quota_exceeded`.
 */
export class LearningClient {
  readonly #agent: LearningAgent;

  constructor(agent: LearningAgent) {
    this.#agent = agent;
  }

  /**
   * Chooses one of the options. Send its outcome with {@link reward}.
   *
   * @example
   * const { option, experienceId } = await agent.learning.decide('search', ['lexical', 'vector', 'hybrid']);
   * await agent.learning.reward(experienceId, found ? 1 : 0);
   */
  decide(choice: string, options: readonly string[], more: DecideOptions = {}): Call<Decided> {
    const { features, experienceId, policy, seed, rewardTimeoutS, missingReward } = more;
    const body = {
      choice,
      options: [...options],
      ...(features && { features }),
      ...(experienceId !== undefined && { experience_id: experienceId }),
      ...(policy && { policy }),
      ...(seed !== undefined && { seed }),
      ...(rewardTimeoutS !== undefined && { reward_timeout_s: rewardTimeoutS }),
      ...(missingReward !== undefined && { missing_reward: missingReward }),
    };
    return this.#calls.call(calls.decide, body, more, decided);
  }

  /** Sends the reward of a decision. Resolves with false if the decision has one already, or is no longer known. */
  reward(experienceId: string, reward: number, more: RewardOptions = {}): Call<boolean> {
    const { durationMs, success } = more;
    const action = {
      ...(durationMs !== undefined && { duration_ms: durationMs }),
      ...(success !== undefined && { success }),
    };
    const experiences = [{ experience_id: experienceId, reward, action }];
    return this.#calls.call(calls.experience, { experiences }, more, ({ rewarded }) => rewarded === 1);
  }

  /** Stores experiences, all or none. */
  experience(experiences: readonly Experience[], options: CallOptions = {}): Call<Body<LearnExperienceResp>> {
    return this.#calls.call(calls.experience, { experiences: [...experiences] }, options, bodyOf);
  }

  /** Records judgements, all or none. */
  feedback(feedbacks: readonly Feedback[], options: CallOptions = {}): Call<Body<LearnFeedbackResp>> {
    return this.#calls.call(calls.feedback, { feedbacks: [...feedbacks] }, options, bodyOf);
  }

  /** Plans, reviews and applies the changes that the rewards of one component, or of all, suggest, and reports. */
  adapt(component = '', options: AdaptOptions = {}): Call<Body<LearnAdaptResp>> {
    const { strategy, policy } = options;
    const body = {
      component_name: component,
      ...(strategy && { strategy }),
      ...(policy && { policy }),
      ...of(options),
    };
    return this.#calls.call(calls.adapt, body, options, bodyOf);
  }

  /** Returns the records of one component and the choices it is an option of, or of all. */
  stats(
    component = '',
    options: CallOptions & OfAgent = {},
  ): Call<{ readonly components: readonly ComponentPerformanceRecord[]; readonly choices: readonly ChoiceStats[] }> {
    const read = ({ components = [], choices = [] }: LearnStatsResp) => ({ components, choices });
    return this.#calls.call(calls.stats, { component_name: component, ...of(options) }, options, read);
  }

  /** Yields the stored experiences, newest first; those that were the reward of a decision are in its choice instead. */
  experiences(options: CallOptions & OfAgent = {}): AsyncGenerator<Experience> {
    return this.#records('experience', ({ experiences }) => experiences, options);
  }

  /** Yields the recorded feedback, newest first. */
  feedbacks(options: CallOptions & OfAgent = {}): AsyncGenerator<Feedback> {
    return this.#records('feedback', ({ feedbacks }) => feedbacks, options);
  }

  /** Returns proposals; with `scope` `global` also for policies and options. */
  plan(component = '', scope = 'local', options: CallOptions & OfAgent = {}): Call<Body<LearnRefinementPlanResp>> {
    return this.#calls.call(calls.plan, { component_name: component, scope, ...of(options) }, options, bodyOf);
  }

  review(proposal: Proposal, options: CallOptions & OfAgent = {}): Call<Body<LearnRefinementReviewResp>> {
    return this.#calls.call(calls.review, { proposal, ...of(options) }, options, bodyOf);
  }

  apply(proposal: Proposal, options: CallOptions & OfAgent = {}): Call<Body<LearnRefinementApplyResp>> {
    return this.#calls.call(calls.apply, { proposal, ...of(options) }, options, bodyOf);
  }

  /** Restores exactly the state that a refinement replaced. */
  rollback(refinementId: string, options: CallOptions & OfAgent = {}): Call<Body<LearnRefinementRollbackResp>> {
    return this.#calls.call(calls.rollback, { refinement_id: refinementId, ...of(options) }, options, bodyOf);
  }

  /** Returns the refinements, oldest first. */
  history(options: CallOptions & OfAgent = {}): Call<readonly Proposal[]> {
    return this.#calls.call(calls.history, of(options), options, ({ entries = [] }) => entries);
  }

  /** Estimates from the log the reward that an option or another policy would have earned. */
  evaluate(choice: string, options: EvaluateOptions = {}): Call<Body<LearnEvaluateResp>> {
    const { option, policy, confidence } = options;
    const body = {
      choice,
      ...(option !== undefined && { option }),
      ...(policy && { policy }),
      ...(confidence !== undefined && { confidence }),
      ...of(options),
    };
    return this.#calls.call(calls.evaluate, body, options, bodyOf);
  }

  /** Deletes a choice; '' deletes everything this agent learned. Resolves with false if it does not exist. */
  forget(choice: string, options: CallOptions & OfAgent = {}): Call<boolean> {
    return this.#calls.call(calls.forget, { choice, ...of(options) }, options, ({ forgotten }) => forgotten);
  }

  async *#records<Item>(
    kind: 'experience' | 'feedback',
    read: (page: Body<LearnRecordsResp>) => readonly Item[],
    options: CallOptions & OfAgent,
  ): AsyncGenerator<Item> {
    for (let before = 0; ; ) {
      const page = await this.#calls.call(calls.records, { kind, before, ...of(options) }, options);
      yield* read(page);
      if (page.next === 0) return;
      before = page.next;
    }
  }

  get #calls(): MethodCaller {
    this.#agent.require('learning');
    return this.#agent.calls;
  }
}

/** Returns a reply without its envelope. */
function bodyOf<Reply extends object>(reply: Reply): Body<Reply> {
  const { type, id, a2e, version, ts, req_id, cursor, ...body } = reply as Reply & Record<Envelope, unknown>;
  return body as unknown as Body<Reply>;
}

const of = ({ ofAgent }: OfAgent) => (ofAgent === undefined ? {} : { of_agent: ofAgent });

const decided = ({ experience_id, option, propensity, probabilities, policy }: LearnDecideResp): Decided => ({
  experienceId: experience_id,
  option,
  propensity,
  probabilities: probabilities as Record<string, number>,
  policy,
});
