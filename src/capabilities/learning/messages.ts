/**
 * The methods of the learning capability, with their checks and options.
 *
 * @see docs/protocol/a2e.md#learning-messages
 */
import { methodsOf } from '../../protocol/method.ts';
import * as checks from './learning.generated.ts';
import type * as Wire from './learning.schema.ts';

const learning = methodsOf({ capability: 'learning', event: 'learn/event' });
const read = { idempotent: true } as const;

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
  LearnRecordsReq,
  LearnRecordsResp,
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

export const learnFeedback = learning<Wire.LearnFeedbackReq, Wire.LearnFeedbackResp>(
  'learn/feedback/req',
  checks.LearnFeedbackReq,
);
export const learnExperience = learning<Wire.LearnExperienceReq, Wire.LearnExperienceResp>(
  'learn/experience/req',
  checks.LearnExperienceReq,
);
export const learnDecide = learning<Wire.LearnDecideReq, Wire.LearnDecideResp>(
  'learn/decide/req',
  checks.LearnDecideReq,
);
export const learnAdapt = learning<Wire.LearnAdaptReq, Wire.LearnAdaptResp>('learn/adapt/req', checks.LearnAdaptReq);
export const learnStats = learning<Wire.LearnStatsReq, Wire.LearnStatsResp>(
  'learn/stats/req',
  checks.LearnStatsReq,
  read,
);
export const learnRecords = learning<Wire.LearnRecordsReq, Wire.LearnRecordsResp>(
  'learn/records/req',
  checks.LearnRecordsReq,
  read,
);
export const learnRefinementPlan = learning<Wire.LearnRefinementPlanReq, Wire.LearnRefinementPlanResp>(
  'learn/refinement/plan/req',
  checks.LearnRefinementPlanReq,
  read,
);
export const learnRefinementReview = learning<Wire.LearnRefinementReviewReq, Wire.LearnRefinementReviewResp>(
  'learn/refinement/review/req',
  checks.LearnRefinementReviewReq,
  read,
);
export const learnRefinementApply = learning<Wire.LearnRefinementApplyReq, Wire.LearnRefinementApplyResp>(
  'learn/refinement/apply/req',
  checks.LearnRefinementApplyReq,
);
export const learnRefinementRollback = learning<Wire.LearnRefinementRollbackReq, Wire.LearnRefinementRollbackResp>(
  'learn/refinement/rollback/req',
  checks.LearnRefinementRollbackReq,
);
export const learnRefinementHistory = learning<Wire.LearnRefinementHistoryReq, Wire.LearnRefinementHistoryResp>(
  'learn/refinement/history/req',
  checks.LearnRefinementHistoryReq,
  read,
);
export const learnEvaluate = learning<Wire.LearnEvaluateReq, Wire.LearnEvaluateResp>(
  'learn/evaluate/req',
  checks.LearnEvaluateReq,
  read,
);
export const learnForget = learning<Wire.LearnForgetReq, Wire.LearnForgetResp>(
  'learn/forget/req',
  checks.LearnForgetReq,
  read,
);
