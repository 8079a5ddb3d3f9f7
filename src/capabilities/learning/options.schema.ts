/** The members of `options` of the `learning` plugin in `handfast.yaml`; never imported at run time. */
import { group, integer } from '../../config/shared.schema.ts';
import { DEFAULT_LIMITS } from './limits.ts';

const most = (description: string, ceiling: number, value: number) => integer(description, [1, ceiling], value);

export const options = group('The choices that each agent may learn.', {
  max_choices: most('Choices of one agent.', 10_000, DEFAULT_LIMITS.maxChoices),
  max_options: most('Options of one choice.', 1024, DEFAULT_LIMITS.maxOptions),
  max_features: most('Features of one decision.', 512, DEFAULT_LIMITS.maxFeatures),
  max_components: most('Components of one agent.', 100_000, DEFAULT_LIMITS.maxComponents),
  log_rows: most(
    'Newest decisions of one choice, and newest experiences and feedbacks of one agent, that are stored.',
    1_000_000,
    DEFAULT_LIMITS.logRows,
  ),
  rollbacks: most('Newest refinements of one agent that can be rolled back.', 1000, DEFAULT_LIMITS.rollbacks),
  reward_timeout_s: most(
    'Seconds after which a reward counts as missing, where a choice does not say.',
    31_536_000,
    DEFAULT_LIMITS.rewardTimeoutS,
  ),
  quota_bytes: integer('Bytes that are stored for one agent.', [65_536, 2 ** 40], DEFAULT_LIMITS.quotaBytes),
});
