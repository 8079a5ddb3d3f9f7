/**
 * The methods of the learning capability: what `client.ts` calls and `plugin.ts` serves.
 *
 * @see docs/protocol/a2e.md#learning-messages
 */
import { method } from '../../protocol/method.ts';
import * as checks from './learning.generated.ts';
import type * as Wire from './learning.schema.ts';

const base = { capability: 'learning', event: 'learn/event' } as const;

export type {
  ChoiceStats,
  ComponentPerformanceRecord,
  Estimate,
  Experience,
  Feedback,
  LearnAdaptReq,
  LearnAdaptResp,
  LearnDecideReq,
  LearnDecideResp,
  LearnEvaluateReq,
  LearnEvaluateResp,
  LearnExperienceReq,
  LearnExperienceResp,
  LearnFeedbackReq,
  LearnFeedbackResp,
  LearnForgetReq,
  LearnForgetResp,
  LearnRefinementApplyReq,
  LearnRefinementApplyResp,
  LearnRefinementHistoryReq,
  LearnRefinementHistoryResp,
  LearnRefinementPlanReq,
  LearnRefinementPlanResp,
  LearnRefinementReviewReq,
  LearnRefinementReviewResp,
  LearnRefinementRollbackReq,
  LearnRefinementRollbackResp,
  LearnStatsReq,
  LearnStatsResp,
  OptionStats,
  Policy,
  RatedTurn,
  Recommendation,
} from './learning.schema.ts';

export const learnFeedback = method<Wire.LearnFeedbackReq, Wire.LearnFeedbackResp>({
  ...base,
  request: 'learn/feedback/req',
  reply: 'learn/feedback/resp',
  checkRequest: checks.LearnFeedbackReq,
});

export const learnExperience = method<Wire.LearnExperienceReq, Wire.LearnExperienceResp>({
  ...base,
  request: 'learn/experience/req',
  reply: 'learn/experience/resp',
  checkRequest: checks.LearnExperienceReq,
});

export const learnDecide = method<Wire.LearnDecideReq, Wire.LearnDecideResp>({
  ...base,
  request: 'learn/decide/req',
  reply: 'learn/decide/resp',
  checkRequest: checks.LearnDecideReq,
});

export const learnAdapt = method<Wire.LearnAdaptReq, Wire.LearnAdaptResp>({
  ...base,
  request: 'learn/adapt/req',
  reply: 'learn/adapt/resp',
  checkRequest: checks.LearnAdaptReq,
});

export const learnStats = method<Wire.LearnStatsReq, Wire.LearnStatsResp>({
  ...base,
  request: 'learn/stats/req',
  reply: 'learn/stats/resp',
  idempotent: true,
  checkRequest: checks.LearnStatsReq,
});

export const learnRefinementPlan = method<Wire.LearnRefinementPlanReq, Wire.LearnRefinementPlanResp>({
  ...base,
  request: 'learn/refinement/plan/req',
  reply: 'learn/refinement/plan/resp',
  idempotent: true,
  checkRequest: checks.LearnRefinementPlanReq,
});

export const learnRefinementReview = method<Wire.LearnRefinementReviewReq, Wire.LearnRefinementReviewResp>({
  ...base,
  request: 'learn/refinement/review/req',
  reply: 'learn/refinement/review/resp',
  idempotent: true,
  checkRequest: checks.LearnRefinementReviewReq,
});

export const learnRefinementApply = method<Wire.LearnRefinementApplyReq, Wire.LearnRefinementApplyResp>({
  ...base,
  request: 'learn/refinement/apply/req',
  reply: 'learn/refinement/apply/resp',
  checkRequest: checks.LearnRefinementApplyReq,
});

export const learnRefinementRollback = method<Wire.LearnRefinementRollbackReq, Wire.LearnRefinementRollbackResp>({
  ...base,
  request: 'learn/refinement/rollback/req',
  reply: 'learn/refinement/rollback/resp',
  checkRequest: checks.LearnRefinementRollbackReq,
});

export const learnRefinementHistory = method<Wire.LearnRefinementHistoryReq, Wire.LearnRefinementHistoryResp>({
  ...base,
  request: 'learn/refinement/history/req',
  reply: 'learn/refinement/history/resp',
  idempotent: true,
  checkRequest: checks.LearnRefinementHistoryReq,
});

export const learnEvaluate = method<Wire.LearnEvaluateReq, Wire.LearnEvaluateResp>({
  ...base,
  request: 'learn/evaluate/req',
  reply: 'learn/evaluate/resp',
  idempotent: true,
  checkRequest: checks.LearnEvaluateReq,
});

export const learnForget = method<Wire.LearnForgetReq, Wire.LearnForgetResp>({
  ...base,
  request: 'learn/forget/req',
  reply: 'learn/forget/resp',
  idempotent: true,
  checkRequest: checks.LearnForgetReq,
});
