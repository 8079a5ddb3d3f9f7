/**
 * The error codes of the planning capability, each with the row of the error table it behaves like. Requests of A2E 1.0 are
 * refused with `success: false` and the error beside it; all others with an error message. @see docs/planning.md#errors
 */
import { capabilityErrors } from '../../wire/errors.ts';

export const failure = capabilityErrors('planning', {
  /** This principal and agent have no such plan. */
  unknown_plan: 'not_found',
  /** The plan has no such task; also for a dependency or parent that it does not have. */
  unknown_task: 'not_found',
  /** The change would make tasks wait for each other; `detail.cycle` has their ids in order. */
  cycle: 'denied',
  /** The rules of the plan do not allow the move; `detail.allowed` has the allowed moves. */
  not_allowed: 'denied',
  /** Dependencies or parts are not done; `detail.blocked_by` has their ids. */
  blocked: 'denied',
  /** The revision is another one; `detail.yours` and `detail.current` have both sides. */
  conflict: 'duplicate_conflict',
  /** Another agent has claimed the task; `detail.claim` describes the claim. */
  claimed: 'session_busy',
  /** The fence belongs to a claim that has ended; `detail.current` has the present task. */
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
