/** The error codes of the learning capability, each with the row of the table that it behaves like. */
import { capabilityErrors } from '../../wire/errors.ts';

export const failure = capabilityErrors('learning', {
  /** `learning.unknown_choice`: no decision was made under this name. */
  unknown_choice: 'not_found',
  /** `learning.full`: one of the limits is reached; `detail.limit` names it. */
  full: 'quota_exceeded',
  /** `learning.reward_range`: the policy takes rewards from 0 to 1. */
  reward_range: 'schema_violation',
  /** `learning.id_in_use`: the experience_id belongs to another choice, or to an experience that was no decision. */
  id_in_use: 'schema_violation',
  /** `learning.denied`: the grant does not include it. */
  denied: 'denied',
});
