/**
 * The learned state of one agent, and every request about it: the part of the plugin that knows no session.
 *
 * Each request makes one from the agent's store; nothing is held in memory between requests, so ending the process at any point
 * loses nothing that was acknowledged. Writes of a request are durable together or not at all.
 */
import { describePolicy, type PolicyName, type PolicySettings } from '../../base/bandits/settings.ts';
import { counted } from '../../base/counted.ts';
import { pageOf } from '../../base/page.ts';
import type { Store } from '../../host/store/store.ts';
import type { Body } from '../../protocol/method.ts';
import { fail } from '../../wire/errors.ts';
import { Choices, type LearningSource } from './choices.ts';
import { Components } from './components.ts';
import { evaluated } from './evaluate.ts';
import type { LearningLimits } from './limits.ts';
import type {
  ChoiceStats,
  Experience,
  Feedback,
  LearnAdaptReq,
  LearnAdaptResp,
  LearnDecideReq,
  LearnDecideResp,
  LearnEvaluateReq,
  LearnEvaluateResp,
  LearnExperienceResp,
  LearnFeedbackResp,
  LearnRecordsReq,
  LearnRecordsResp,
  LearnRefinementApplyResp,
  LearnRefinementRollbackResp,
  LearnStatsResp,
} from './messages.ts';
import { optionStats, recommendation } from './recommend.ts';
import { Refinements } from './refinements.ts';
import { StoredLog } from './stored-log.ts';

/** Strategies of the wire that are policies here. */
const STRATEGIES: Readonly<Record<string, PolicyName>> = {
  ucb1: 'ucb1',
  epsilon_greedy: 'epsilon_greedy',
  softmax: 'softmax',
};
/** Scores of unscored feedback. */
const POLARITY_SCORES = { positive: 1, negative: -1, neutral: 0, corrective: -0.5 } as const;

/** The field of a record's id in its message. */
const ID_FIELDS = { experience: 'experience_id', feedback: 'feedback_id' } as const;
/** Prefix of a record's id in the store, where all ids are of one kind; experiences share theirs with decisions. */
const ID_PREFIXES = { experience: '', feedback: 'feedback ' } as const;

export class Learned {
  readonly #store: Store;
  readonly #limits: LearningLimits;
  readonly #source: LearningSource;
  readonly #components: Components;
  readonly #choices: Choices;
  readonly refinements: Refinements;

  constructor(store: Store, limits: LearningLimits, source: LearningSource) {
    this.#store = store;
    this.#limits = limits;
    this.#source = source;
    this.#components = new Components(store, limits.maxComponents);
    this.#choices = new Choices(store, this.#components, limits, source);
    this.refinements = new Refinements(store, this.#choices, this.#components, limits, source);
  }

  async decide(request: Body<LearnDecideReq>): Promise<Body<LearnDecideResp>> {
    this.#choices.checkRoom(request.choice);
    return this.#store.atomically(() => this.#choices.decide(request));
  }

  async recordExperiences(experiences: readonly Experience[]): Promise<Body<LearnExperienceResp>> {
    return this.#store.atomically(() => {
      let stored = 0;
      let rewarded = 0;
      for (const one of experiences) {
        const outcome = this.#recordExperience(one);
        if (outcome !== 'duplicate') stored += 1;
        if (outcome === 'reward') rewarded += 1;
      }
      return { stored, rewarded };
    });
  }

  async recordFeedback(feedbacks: readonly Feedback[]): Promise<Body<LearnFeedbackResp>> {
    const incomplete = feedbacks.findIndex(({ polarity, correction }) => polarity === 'corrective' && !correction);
    if (incomplete !== -1) {
      throw fail('schema_violation', 'corrective feedback needs a correction', {
        path: `/feedbacks/${incomplete}/correction`,
      });
    }
    return this.#store.atomically(() => {
      let recorded = 0;
      let rewarded = 0;
      let component: string | undefined;
      for (const one of feedbacks) {
        const outcome = this.#recordFeedback(one);
        component = outcome.component;
        if (outcome.isNew) recorded += 1;
        if (outcome.isReward) rewarded += 1;
      }
      const new_score = component === undefined ? null : (this.#components.get(component)?.avg_score ?? null);
      return { recorded, new_score, rewarded };
    });
  }

  async stats(component = ''): Promise<Body<LearnStatsResp>> {
    const choices = this.#choicesWith(component);
    await this.#settle(choices);
    return { components: this.#records(component), choices: choices.map((name) => this.#choiceStats(name)) };
  }

  /** Returns experiences or feedback as they were sent, newest first. */
  records({ kind, before = 0, limit = 100 }: Body<LearnRecordsReq>): Body<LearnRecordsResp> {
    const log: StoredLog<(Experience | Feedback) & { readonly id: string }> =
      kind === 'feedback' ? this.#feedback() : this.#experiences();
    const { page, more } = pageOf(log.newest(before), limit);
    const { first, next } = log.span;
    const sent = page.map(({ row: { id, ...one } }) => ({
      [ID_FIELDS[kind]]: id.slice(ID_PREFIXES[kind].length),
      ...one,
    }));
    return {
      experiences: kind === 'experience' ? (sent as Experience[]) : [],
      feedbacks: kind === 'feedback' ? (sent as Feedback[]) : [],
      next: more ? page.at(-1)!.seq : 0,
      total: next - first,
    };
  }

  /** Plans, reviews, applies and reports in one step. */
  async adapt({
    component_name: component = '',
    strategy = 'ppo',
    policy,
  }: Body<LearnAdaptReq>): Promise<Body<LearnAdaptResp>> {
    if (strategy === 'custom' && policy === undefined) {
      throw fail('schema_violation', 'strategy custom needs a policy', { path: '/policy' });
    }
    const choices = this.#choicesWith(component);
    await this.#settle(choices);
    const planned = this.refinements.plan(component, 'global');
    const wanted = strategy === 'custom' ? policy : STRATEGIES[strategy] && { name: STRATEGIES[strategy] };
    const edits = [...this.#policyEdits(choices, wanted), ...planned].filter(
      (edit) => this.refinements.review(edit).approved,
    );
    const applied = edits.length === 0 ? undefined : await this.apply({ edits });
    const recommendations = choices.map((name) => this.#recommendation(name));
    const updated = this.#records(component);
    return {
      updated,
      message: adaptMessage(strategy, recommendations, applied, updated.length),
      recommendations,
      refinement_id: applied?.refinement_id ?? '',
    };
  }

  apply(proposal: Readonly<Record<string, unknown>>): Promise<Body<LearnRefinementApplyResp>> {
    return this.#store.atomically(() => this.refinements.apply(proposal));
  }

  rollback(id: string): Promise<Body<LearnRefinementRollbackResp>> {
    return this.#store.atomically(() => this.refinements.rollback(id));
  }

  evaluate(request: Body<LearnEvaluateReq>): Body<LearnEvaluateResp> {
    this.#choices.known(request.choice);
    const rows = [...this.#choices.logOf(request.choice).rows()].map(({ row }) => row);
    return evaluated(rows, request);
  }

  /** Deletes one choice, or everything. */
  async forget(choice: string): Promise<boolean> {
    if (choice !== '') return this.#choices.forget(choice);
    await this.#store.clear();
    return true;
  }

  #recordExperience(one: Experience): 'reward' | 'experience' | 'duplicate' {
    const { experience_id: id = this.#source.id(), action = {}, reward = 0 } = one;
    const at = one.ts ?? this.#source.now() / 1000;
    const decision = Choices.decisionOf(this.#store, id);
    let component = typeof action.component_name === 'string' ? action.component_name : '';
    if (decision !== undefined) {
      component = this.#choices.logOf(decision.choice).get(decision.seq)?.option ?? component;
      if (!this.#choices.reward(decision.choice, decision.seq, reward)) return 'duplicate';
    } else {
      if (StoredLog.find(this.#store, id) !== undefined) return 'duplicate';
      this.#experiences().append({ ...one, id, ts: at });
    }
    if (component !== '') {
      const success = typeof action.success === 'boolean' ? action.success : reward > 0;
      const durationMs = typeof action.duration_ms === 'number' ? action.duration_ms : undefined;
      this.#components.recordCall(component.slice(0, MAX_NAME), { success, reward, durationMs, at });
    }
    return decision === undefined ? 'experience' : 'reward';
  }

  #recordFeedback(one: Feedback): { isNew: boolean; isReward: boolean; component: string | undefined } {
    const { feedback_id: id = this.#source.id(), correlation_id = '', polarity, confidence = 1 } = one;
    const decision = correlation_id === '' ? undefined : Choices.decisionOf(this.#store, correlation_id);
    const row = decision && this.#choices.logOf(decision.choice).get(decision.seq);
    const component =
      (row?.option ?? one.rated_turn?.version ?? one.rated_turn?.model)?.slice(0, MAX_NAME) || undefined;
    const key = ID_PREFIXES.feedback + id;
    if (StoredLog.find(this.#store, key) !== undefined) return { isNew: false, isReward: false, component };
    const ts = one.ts ?? this.#source.now() / 1000;
    this.#feedback().append({ ...one, id: key, ts });
    const score = one.score || POLARITY_SCORES[polarity];
    if (component !== undefined) this.#components.recordScore(component, score, confidence);
    const isReward = decision !== undefined && this.#choices.reward(decision.choice, decision.seq, (score + 1) / 2);
    return { isNew: true, isReward, component };
  }

  #experiences(): StoredLog<Experience & { readonly id: string }> {
    return new StoredLog(this.#store, 'experience', this.#limits.logRows);
  }

  #feedback(): StoredLog<Feedback & { readonly id: string }> {
    return new StoredLog(this.#store, 'feedback', this.#limits.logRows);
  }

  #choicesWith(component: string): string[] {
    const names = this.#choices.names();
    if (component === '') return names;
    return names.filter((name) => name === component || this.#choices.get(name)?.options.includes(component));
  }

  async #settle(choices: readonly string[]): Promise<void> {
    await this.#store.atomically(() => {
      for (const name of choices) this.#choices.settle(name);
    });
  }

  #records(component: string) {
    if (component === '') return this.#components.list();
    const named = this.#components.get(component);
    if (named !== undefined) return [named];
    // The name of a choice stands for its options.
    const options = this.#choices.get(component)?.options ?? [];
    return options.toSorted().flatMap((option) => this.#components.get(option) ?? []);
  }

  #statsOf(name: string) {
    const { options, disabled } = this.#choices.known(name);
    const bandit = this.#choices.banditOf(name, options);
    return { bandit, stats: optionStats(bandit, options, disabled, this.#choices.weightsOf(options)) };
  }

  #recommendation(name: string) {
    const { bandit, stats } = this.#statsOf(name);
    return recommendation(name, bandit, stats);
  }

  #choiceStats(name: string): ChoiceStats {
    const { decisions, rewarded, pending, missing, late } = this.#choices.known(name);
    const { bandit, stats } = this.#statsOf(name);
    const { first, next } = this.#choices.logOf(name).span;
    const options = stats.toSorted((left, right) => (left.option < right.option ? -1 : 1));
    return {
      choice: name,
      policy: bandit.policy,
      decisions,
      rewarded,
      pending,
      missing,
      late,
      logged: next - first,
      options,
    };
  }

  #policyEdits(choices: readonly string[], wanted: PolicySettings | undefined) {
    if (wanted === undefined) return [];
    return choices.flatMap((name) => {
      const { policy } = this.#choices.headOf(name);
      if (describePolicy(policy) === describePolicy(wanted)) return [];
      const path = `choices.${name}.policy`;
      return [{ target: 'choice_policy', op: 'update', path, old_value: policy, new_value: wanted }];
    });
  }
}

/** Names in free fields are cut to the maximum length of names. */
const MAX_NAME = 100;

/** Returns one text for people: the requested strategy, the policy that ran, the changes. */
function adaptMessage(
  strategy: string,
  recommendations: readonly { choice: string; option: string; confidence: number; why: string; policy: string }[],
  applied: Body<LearnRefinementApplyResp> | undefined,
  components: number,
): string {
  const parts: string[] = [];
  if (strategy === 'ppo')
    parts.push('ppo was not run: it trains a neural network, and this host has none; each policy stays as it is');
  for (const { choice, option, confidence, why, policy } of recommendations) {
    const said = option === '' ? why : `${option} is recommended, confidence ${confidence.toFixed(3)}: ${why}`;
    parts.push(`${choice}: ${policy} ran; ${said}`);
  }
  const changed = applied?.applied_edits ?? 0;
  if (components === 0 && recommendations.length === 0) parts.push('nothing was learned of it yet');
  else
    parts.push(
      changed === 0
        ? 'no edit was needed'
        : `${counted(changed, 'edit')} applied, refinement ${applied?.refinement_id}`,
    );
  return parts.join('. ');
}
