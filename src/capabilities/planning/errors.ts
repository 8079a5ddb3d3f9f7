/**
 * The error codes of the planning capability, each with the row of the error table it behaves like. Requests of A2E 1.0 are
 * refused with `success: false` and the error beside it; all others with an error message.
 *
 * Thrown by the plugin and the plans behind it. @see docs/planning.md#errors
 */
import { capabilityErrors } from '../../wire/errors.ts';

export const failure = capabilityErrors('planning', {
  /** There is no such plan for this principal and agent. */
  unknown_plan: 'not_found',
  /** The plan has no such task; also for a dependency or parent that it does not have. */
  unknown_task: 'not_found',
  /** The change would make tasks wait for each other; `detail.cycle` has their ids in order. */
  cycle: 'denied',
  /** The rules of the plan do not allow the move; `detail.allowed` has those they allow. */
  not_allowed: 'denied',
  /** Dependencies or parts are not done; `detail.blocked_by` has their ids. */
  blocked: 'denied',
  /** The revision is another one; `detail.yours` and `detail.current` have both sides. */
  conflict: 'duplicate_conflict',
  /** Another agent has the task claimed; `detail.claim` says which. */
  claimed: 'session_busy',
  /** The fence belongs to a claim that has ended; `detail.current` has the task as it is now. */
  claim_lost: 'lease_lost',
  /** The plan or task is archived: restore it first. */
  archived: 'denied',
  /** Only the owner, or a principal it shares the plan with for writing, may do this. */
  read_only: 'unauthorized',
  /** A limit of the host is reached; `detail.limit` names it. */
  full: 'quota_exceeded',
  /** A field does not fit: too long, empty, or contradicting; `detail.field` names it. */
  invalid: 'schema_violation',
});
