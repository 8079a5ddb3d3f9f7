/** The limits of one agent's stored data: the options of the capability, with their defaults. */

export interface LearningLimits {
  /** Choices of one agent. */
  readonly maxChoices: number;
  /** Options of one choice. */
  readonly maxOptions: number;
  /** Features of one decision. */
  readonly maxFeatures: number;
  /** Components of one agent. */
  readonly maxComponents: number;
  /** Newest decisions of one choice, and newest experiences and feedbacks of one agent, that are stored. */
  readonly logRows: number;
  /** Newest refinements that can be rolled back. */
  readonly rollbacks: number;
  /** Seconds after which a reward counts as missing, if the choice has no value. */
  readonly rewardTimeoutS: number;
  /** Bytes of one agent. */
  readonly quotaBytes: number;
}

export const DEFAULT_LIMITS: LearningLimits = {
  maxChoices: 100,
  maxOptions: 64,
  maxFeatures: 64,
  maxComponents: 1000,
  logRows: 10_000,
  rollbacks: 20,
  rewardTimeoutS: 86_400,
  quotaBytes: 64 * 1024 * 1024,
};
