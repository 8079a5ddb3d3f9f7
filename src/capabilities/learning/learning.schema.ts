/**
 * The messages of the learning capability as schemas.
 *
 * Messages of A2E first; `learn/decide`, `learn/records`, `learn/evaluate` and `learn/forget`, and the fields marked
 * "Handfast", are additions.
 * @see docs/protocol/a2e.md#learning-messages
 */
import { PARAMETERS, POLICY_NAMES } from '../../base/bandits/settings.ts';
import { answer, base, fromAgent, fromHost } from '../../protocol/a2e.schema.ts';
import { anyObject, flag, may, number, oneOf, orNull, shape, text } from '../../protocol/shapes.schema.ts';
import { Type, type Wire } from '../../wire/schema.ts';

const integer = (description: string) => Type.Integer({ minimum: 0, description });
/** Returns the schema of a name: Ajv counts characters for maxLength with a separate run-time part, so it is a pattern. */
const name = (description: string) => Type.String({ pattern: '^[^\\u0000-\\u001f]{1,100}$', description });
const nameOrEmpty = (description: string) => Type.String({ pattern: '^[^\\u0000-\\u001f]{0,100}$', description });
const component = may(nameOrEmpty('One component; empty for all.'));
const ofAgent = {
  of_agent: may(
    nameOrEmpty('Handfast: read and change what another agent of the same principal learned, by its name.'),
  ),
};
const unit = (description: string) => Type.Number({ minimum: 0, maximum: 1, description });

export const RatedTurn = shape('A turn that feedback is about.', {
  prompt: text('The prompt.'),
  response: text('The reply.'),
  model: text('The model that replied.'),
  environment: may(Type.Unknown({ description: 'Where, or null.' })),
  version: may(orNull(text('Version of the prompt or skill, or null.'))),
});

export const Feedback = shape('A judgement of a turn or of a decision.', {
  feedback_id: may(name('A second feedback of the same id is not recorded. Default: generated.')),
  correlation_id: may(text('Its subject: the experience_id of a decision makes it the reward of that decision.')),
  session_id: may(text('The session it is about.')),
  rated_turn: may(orNull(RatedTurn)),
  polarity: oneOf(['positive', 'negative', 'neutral', 'corrective'], 'corrective needs a correction.'),
  score: may(Type.Number({ minimum: -1, maximum: 1, description: '0, the default: by polarity.' })),
  dimension: may(oneOf(['correctness', 'helpfulness', 'safety', 'tone', 'plan_quality'], 'Default helpfulness.')),
  confidence: may(unit('Its weight in the running score. Default 1.')),
  comment: may(text('Free text.')),
  correction: may(text('The right answer.')),
  correction_span: may(
    orNull(Type.Array(Type.Integer(), { minItems: 2, maxItems: 2, description: 'Characters it is about.' })),
  ),
  source: may(oneOf(['human', 'env', 'self'], 'Default human.')),
  annotator_id: may(text('The annotator that judged.')),
  ts: may(number('When, epoch seconds.')),
});

export const Experience = shape('The outcome of an action. With the experience_id of a decision it is its reward.', {
  experience_id: may(name('A second experience of the same id is not stored. Default: generated.')),
  state: may(anyObject('The situation.')),
  action: may(anyObject('component_name names what acted; success and duration_ms, where given, count in its record.')),
  reward: may(number('Higher is better. A decision takes 0 to 1, but for thompson_gaussian. Default 0.')),
  next_state: may(anyObject('The situation afterwards.')),
  done: may(flag('The episode ended.')),
  episode_id: may(text('The episode.')),
  step: may(Type.Integer({ description: 'Its step.' })),
  ts: may(number('When, epoch seconds.')),
});

export const ComponentPerformanceRecord = shape('The record of one tool, skill, model or prompt.', {
  component_name: text('Its name: the option of decisions.'),
  calls_total: integer('Experiences.'),
  calls_success: integer('Those with success, or with a reward above 0.'),
  calls_failed: integer('The others.'),
  avg_duration_ms: number('Over those that gave a duration.'),
  avg_score: number('Mean of rewards, clamped to −1 to 1, and of feedback by its confidence.'),
  last_called: number('Epoch seconds; 0 for never.'),
  p95_duration_ms: number('Of the last 128 durations.'),
  weight: may(orNull(number('Handfast: its weight `router.weights.<name>`, set by a refinement; null for none.'))),
});

export const Policy = shape('Handfast: a policy, with those of its parameters that differ from the defaults.', {
  name: oneOf(POLICY_NAMES, 'Which policy.'),
  alpha: may(Type.Number({ ...bounds('alpha'), description: 'Factor of the bonus of linucb and the UCB policies.' })),
  ridge: may(Type.Number({ ...bounds('ridge'), description: 'Penalty of linucb.' })),
  intercept: may(flag('linucb: adds a constant feature. Default true.')),
  window: may(Type.Integer({ ...bounds('window'), description: 'Newest rewards that sliding_window_ucb counts.' })),
  discount: may(
    Type.Number({ ...bounds('discount'), description: 'discounted_ucb: worth of a reward per later one.' }),
  ),
  epsilon: may(Type.Number({ ...bounds('epsilon'), description: 'Share of uniform decisions of epsilon_greedy.' })),
  temperature: may(Type.Number({ ...bounds('temperature'), description: 'softmax: higher explores more.' })),
  explore: may(Type.Number({ ...bounds('explore'), description: 'Any policy: share of uniform decisions.' })),
});

function bounds(parameter: keyof typeof PARAMETERS) {
  const { minimum, maximum, default: value } = PARAMETERS[parameter];
  return { minimum, maximum, default: value };
}

export const Recommendation = shape('Handfast: what the rewards of one choice say.', {
  choice: text('The choice.'),
  option: text('The option with the highest probability of being best; empty without rewards.'),
  confidence: number('That probability, 0 to 1.'),
  why: text('The numbers behind it, for people.'),
  policy: text('The policy that decides here, with its parameters.'),
});

export const OptionStats = shape('Handfast: one option of a choice.', {
  option: text('Its name.'),
  rewards: integer('Rewards learned.'),
  mean_reward: number('Their mean; 0 without any.'),
  probability_best: number('Probability that its mean reward is the highest.'),
  disabled: flag('Taken out by a refinement.'),
});

export const ChoiceStats = shape('Handfast: one choice.', {
  choice: text('Its name.'),
  policy: Policy,
  decisions: integer('Decisions made.'),
  rewarded: integer('Those whose reward arrived in time.'),
  pending: integer('Those that wait for their reward.'),
  missing: integer('Those whose reward did not arrive in time.'),
  late: integer('Rewards that arrived after their time.'),
  logged: integer('Decisions in the log, for learn/evaluate.'),
  options: Type.Array(OptionStats, { description: 'Its options by name.' }),
});

export const LearnFeedbackReq = Type.Object(
  {
    ...base,
    type: Type.Literal('learn/feedback/req'),
    feedbacks: Type.Array(Feedback, { maxItems: 1000, description: 'Recorded together, or none.' }),
  },
  { ...fromAgent, description: 'Records judgements.' },
);

export const LearnFeedbackResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('learn/feedback/resp'),
    recorded: may(integer('How many were new.')),
    new_score: may(orNull(number('Running score of the component of the last one, or null where it names none.'))),
    rewarded: may(integer('Handfast: how many became the reward of a decision.')),
  },
  { ...fromHost, description: 'Stored on disk.' },
);

export const LearnExperienceReq = Type.Object(
  {
    ...base,
    type: Type.Literal('learn/experience/req'),
    experiences: may(Type.Array(Experience, { maxItems: 1000, description: 'Stored together, or none.' })),
  },
  { ...fromAgent, description: 'Stores the outcomes of actions, the rewards of decisions among them.' },
);

export const LearnExperienceResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('learn/experience/resp'),
    stored: may(integer('How many were new.')),
    rewarded: may(integer('Handfast: how many became the reward of a decision.')),
  },
  { ...fromHost, description: 'Stored on disk.' },
);

export const LearnDecideReq = Type.Object(
  {
    ...base,
    type: Type.Literal('learn/decide/req'),
    choice: name('The choice, e.g. search. The name under which rewards are learned.'),
    options: Type.Array(name('An option.'), { minItems: 1, description: 'The options there are now.' }),
    features: may(Type.Array(Type.Number(), { description: 'Numbers that describe the situation, for linucb.' })),
    experience_id: may(name('Repeating a request with the same id gives the same decision. Default: generated.')),
    policy: may(Policy),
    seed: may(
      Type.Unsafe<number | string>({
        type: ['number', 'string'],
        description: 'Of a new choice: seeds its generator. Default: random.',
      }),
    ),
    reward_timeout_s: may(
      Type.Number({
        minimum: 1,
        maximum: 31_536_000,
        description: 'Of a new choice: when a reward counts as missing.',
      }),
    ),
    missing_reward: may(
      orNull(unit('Of a new choice: what is learned for a missing reward; null, the default: nothing.')),
    ),
  },
  { ...fromAgent, description: 'Handfast: chooses an option. `policy` and what follows it are for a new choice.' },
);

export const LearnDecideResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('learn/decide/resp'),
    experience_id: text('Send the reward with it, by learn/experience/req.'),
    option: text('The option.'),
    propensity: number('The probability with which it was chosen.'),
    probabilities: anyObject('Option → its probability.'),
    policy: text('The policy that ran, with its parameters.'),
  },
  { ...fromHost, description: 'The decision, stored on disk with its propensity.' },
);

export const LearnAdaptReq = Type.Object(
  {
    ...base,
    ...ofAgent,
    type: Type.Literal('learn/adapt/req'),
    component_name: component,
    strategy: may(
      oneOf(
        ['ppo', 'ucb1', 'epsilon_greedy', 'softmax', 'custom'],
        'The policy to use from now on; ppo, the default, cannot be run and keeps the present one; custom: `policy`.',
      ),
    ),
    policy: may(Policy),
  },
  { ...fromAgent, description: 'Plans, reviews and applies a refinement, and reports.' },
);

export const LearnAdaptResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('learn/adapt/resp'),
    updated: may(Type.Array(ComponentPerformanceRecord, { description: 'The components that were looked at.' })),
    message: may(text('The work done and the policy that really ran, for people.')),
    recommendations: may(Type.Array(Recommendation, { description: 'Handfast: for each choice.' })),
    refinement_id: may(text('Handfast: the applied refinement, for learn/refinement/rollback/req; empty for nothing.')),
  },
  { ...fromHost, description: 'The findings from the rewards, and the changes made.' },
);

export const LearnStatsReq = Type.Object(
  { ...base, ...ofAgent, type: Type.Literal('learn/stats/req'), component_name: component },
  { ...fromAgent, description: 'Asks for records.' },
);

export const LearnStatsResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('learn/stats/resp'),
    components: may(Type.Array(ComponentPerformanceRecord, { description: 'By name.' })),
    choices: may(
      Type.Array(ChoiceStats, { description: 'Handfast: the choices that have the component as an option.' }),
    ),
  },
  { ...fromHost, description: 'Records of components and choices.' },
);

export const LearnRecordsReq = Type.Object(
  {
    ...base,
    ...ofAgent,
    type: Type.Literal('learn/records/req'),
    kind: oneOf(
      ['experience', 'feedback'],
      'experience: those that were not the reward of a decision. feedback: every one, that on decisions too.',
    ),
    before: may(integer('`next` of the page before; 0, the default: from the newest.')),
    limit: may(Type.Integer({ minimum: 1, maximum: 1000, default: 100, description: 'Records of a page.' })),
  },
  { ...fromAgent, description: 'Handfast: asks for experiences or feedback as they were sent.' },
);

export const LearnRecordsResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('learn/records/resp'),
    experiences: Type.Array(Experience, { description: 'Newest first, with generated ids and times.' }),
    feedbacks: Type.Array(Feedback, { description: 'The same.' }),
    next: integer('`before` of the next page; 0 for none.'),
    total: integer('How many are stored.'),
  },
  { ...fromHost, description: 'A page of records; one of the two lists is empty.' },
);

export const LearnRefinementPlanReq = Type.Object(
  {
    ...base,
    ...ofAgent,
    type: Type.Literal('learn/refinement/plan/req'),
    component_name: component,
    scope: may(text('local, the default: weights. global: policies and options of choices too.')),
  },
  { ...fromAgent, description: 'Asks for proposals; changes nothing.' },
);

export const LearnRefinementPlanResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('learn/refinement/plan/resp'),
    plan_id: may(text('Unique.')),
    proposals: may(Type.Array(anyObject('target, op, path, old_value, new_value, confidence, why.'))),
    status: may(text('ready, or empty.')),
  },
  { ...fromHost, description: 'Proposals, each for learn/refinement/apply/req.' },
);

export const LearnRefinementReviewReq = Type.Object(
  {
    ...base,
    ...ofAgent,
    type: Type.Literal('learn/refinement/review/req'),
    proposal: may(anyObject('An edit, or { edits: [...] }.')),
  },
  { ...fromAgent, description: 'Asks for a judgement of a proposal; changes nothing.' },
);

export const LearnRefinementReviewResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('learn/refinement/review/resp'),
    approved: may(flag('Every edit can be applied, and the rewards do not speak against one.')),
    confidence_adjusted: may(number('How far the rewards support it, 0 to 1.')),
    reasons: may(Type.Array(Type.String(), { description: 'For people.' })),
    risk_level: may(text('low, medium or high.')),
  },
  { ...fromHost, description: 'The judgement.' },
);

export const LearnRefinementApplyReq = Type.Object(
  {
    ...base,
    ...ofAgent,
    type: Type.Literal('learn/refinement/apply/req'),
    proposal: may(anyObject('An edit, or { edits: [...] }.')),
  },
  { ...fromAgent, description: 'Applies a proposal and stores the earlier state.' },
);

export const LearnRefinementApplyResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('learn/refinement/apply/resp'),
    refinement_id: may(text('For rollback; empty when no edit was applied.')),
    applied_edits: may(integer('Edits that were applied.')),
    failed_edits: may(integer('Edits that were not.')),
    rollback_available: may(flag('The earlier state is stored.')),
    error: may(text('Why edits failed; empty when none did.')),
  },
  { ...fromHost, description: 'The outcome of the refinement.' },
);

export const LearnRefinementRollbackReq = Type.Object(
  {
    ...base,
    ...ofAgent,
    type: Type.Literal('learn/refinement/rollback/req'),
    refinement_id: may(text('The refinement to undo.')),
  },
  { ...fromAgent, description: 'Puts back exactly what a refinement replaced, generators included.' },
);

export const LearnRefinementRollbackResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('learn/refinement/rollback/resp'),
    refinement_id: may(text('The refinement that was undone.')),
    rolled_back: may(flag('The state is that from before it.')),
    error: may(text('Why not, or "already rolled back".')),
    rewards_since: may(integer('Handfast: rewards learned since it, which the restored policies do not have.')),
  },
  { ...fromHost, description: 'The outcome of the rollback.' },
);

export const LearnRefinementHistoryReq = Type.Object(
  { ...base, ...ofAgent, type: Type.Literal('learn/refinement/history/req') },
  { ...fromAgent, description: 'Asks for the refinements.' },
);

export const LearnRefinementHistoryResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('learn/refinement/history/resp'),
    entries: may(Type.Array(anyObject('refinement_id, applied_edits, failed_edits, edits, ts, rolled_back_at.'))),
  },
  { ...fromHost, description: 'The refinements, oldest first.' },
);

export const Estimate = shape('Handfast: one estimate of a policy’s mean reward.', {
  estimator: text('ips, snips or dr (doubly robust).'),
  value: number('The estimate.'),
  low: number('Lower end of the confidence interval.'),
  high: number('Its upper end.'),
  standard_error: number('Of the estimate.'),
});

export const LearnEvaluateReq = Type.Object(
  {
    ...base,
    ...ofAgent,
    type: Type.Literal('learn/evaluate/req'),
    choice: name('The choice whose log is read.'),
    option: may(nameOrEmpty('Evaluate always choosing this option.')),
    policy: may(Policy),
    confidence: may(Type.Number({ minimum: 0.5, maximum: 0.999, description: 'Of the intervals. Default 0.95.' })),
  },
  { ...fromAgent, description: 'Handfast: estimates from the log what another option or policy would have earned.' },
);

export const LearnEvaluateResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('learn/evaluate/resp'),
    estimates: Type.Array(Estimate, { description: 'ips, snips, dr.' }),
    logged: Estimate,
    rows: integer('Decisions with a reward that were used.'),
    learned_from: integer('Earlier decisions that the policy learned from; 0 for an option.'),
    effective_rows: number('How many rows the weights are worth.'),
    unsupported: number('Share of rows in which the policy wants what was never possible to be logged.'),
    notes: Type.Array(Type.String(), { description: 'Cautions, for people.' }),
  },
  { ...fromHost, description: 'Estimates with confidence intervals, beside the earned rewards.' },
);

export const LearnForgetReq = Type.Object(
  {
    ...base,
    ...ofAgent,
    type: Type.Literal('learn/forget/req'),
    choice: may(nameOrEmpty('Delete this choice: policy, log, rewards. Empty: everything this agent learned.')),
  },
  { ...fromAgent, description: 'Handfast: deletes learned state.' },
);

export const LearnForgetResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('learn/forget/resp'),
    forgotten: flag('False: there is no such choice.'),
  },
  { ...fromHost, description: 'Deleted on disk.' },
);

/** Every message and shape, in the order in which the documentation shows them. */
export const learningSchemas = {
  LearnFeedbackReq,
  LearnFeedbackResp,
  Feedback,
  RatedTurn,
  LearnExperienceReq,
  LearnExperienceResp,
  Experience,
  LearnDecideReq,
  LearnDecideResp,
  Policy,
  LearnAdaptReq,
  LearnAdaptResp,
  ComponentPerformanceRecord,
  Recommendation,
  LearnStatsReq,
  LearnStatsResp,
  LearnRecordsReq,
  LearnRecordsResp,
  ChoiceStats,
  OptionStats,
  LearnRefinementPlanReq,
  LearnRefinementPlanResp,
  LearnRefinementReviewReq,
  LearnRefinementReviewResp,
  LearnRefinementApplyReq,
  LearnRefinementApplyResp,
  LearnRefinementRollbackReq,
  LearnRefinementRollbackResp,
  LearnRefinementHistoryReq,
  LearnRefinementHistoryResp,
  LearnEvaluateReq,
  LearnEvaluateResp,
  Estimate,
  LearnForgetReq,
  LearnForgetResp,
};

export type RatedTurn = Wire<typeof RatedTurn>;
export type Feedback = Wire<typeof Feedback>;
export type Experience = Wire<typeof Experience>;
export type ComponentPerformanceRecord = Wire<typeof ComponentPerformanceRecord>;
export type Policy = Wire<typeof Policy>;
export type Recommendation = Wire<typeof Recommendation>;
export type OptionStats = Wire<typeof OptionStats>;
export type ChoiceStats = Wire<typeof ChoiceStats>;
export type LearnFeedbackReq = Wire<typeof LearnFeedbackReq>;
export type LearnFeedbackResp = Wire<typeof LearnFeedbackResp>;
export type LearnExperienceReq = Wire<typeof LearnExperienceReq>;
export type LearnExperienceResp = Wire<typeof LearnExperienceResp>;
export type LearnDecideReq = Wire<typeof LearnDecideReq>;
export type LearnDecideResp = Wire<typeof LearnDecideResp>;
export type LearnAdaptReq = Wire<typeof LearnAdaptReq>;
export type LearnAdaptResp = Wire<typeof LearnAdaptResp>;
export type LearnStatsReq = Wire<typeof LearnStatsReq>;
export type LearnStatsResp = Wire<typeof LearnStatsResp>;
export type LearnRecordsReq = Wire<typeof LearnRecordsReq>;
export type LearnRecordsResp = Wire<typeof LearnRecordsResp>;
export type LearnRefinementPlanReq = Wire<typeof LearnRefinementPlanReq>;
export type LearnRefinementPlanResp = Wire<typeof LearnRefinementPlanResp>;
export type LearnRefinementReviewReq = Wire<typeof LearnRefinementReviewReq>;
export type LearnRefinementReviewResp = Wire<typeof LearnRefinementReviewResp>;
export type LearnRefinementApplyReq = Wire<typeof LearnRefinementApplyReq>;
export type LearnRefinementApplyResp = Wire<typeof LearnRefinementApplyResp>;
export type LearnRefinementRollbackReq = Wire<typeof LearnRefinementRollbackReq>;
export type LearnRefinementRollbackResp = Wire<typeof LearnRefinementRollbackResp>;
export type LearnRefinementHistoryReq = Wire<typeof LearnRefinementHistoryReq>;
export type LearnRefinementHistoryResp = Wire<typeof LearnRefinementHistoryResp>;
export type Estimate = Wire<typeof Estimate>;
export type LearnEvaluateReq = Wire<typeof LearnEvaluateReq>;
export type LearnEvaluateResp = Wire<typeof LearnEvaluateResp>;
export type LearnForgetReq = Wire<typeof LearnForgetReq>;
export type LearnForgetResp = Wire<typeof LearnForgetResp>;
