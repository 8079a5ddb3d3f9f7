/**
 * The contents of refusals: the blocking tasks, the claim in force and the present revision. Pure. @see docs/planning.md#errors
 */
import { failure } from './errors.ts';
import type { TaskGraph } from './graph.ts';
import type { StoredClaim, StoredTask } from './stored.ts';

/** Tasks that a message names; `detail` has more of them. */
const NAMED = 3;

/** @param blocked ids of tasks that are not done */
export function blockedBy(graph: TaskGraph, { title }: StoredTask, blocked: readonly string[]) {
  const titles = blocked.slice(0, NAMED).map((id) => JSON.stringify(graph.get(id)?.title.slice(0, 80) ?? id));
  const more = blocked.length > NAMED ? `, and ${blocked.length - NAMED} more` : '';
  const count = blocked.length === 1 ? 'a task that is' : `${blocked.length} tasks that are`;
  const message = `${JSON.stringify(title.slice(0, 80))} waits for ${count} not done: ${titles.join(', ')}${more}`;
  return failure('blocked', message, { blocked_by: blocked.slice(0, 100) });
}

/** Returns the error for a fence that is not that of the claim in force. */
export function claimLost(task: StoredTask, fence: number, isDone: boolean) {
  const { task_id, title, status, revision, assignee, claim } = task;
  const now =
    claim !== null
      ? `${claim.agent} of ${claim.principal} has it now, with fence ${claim.fence}`
      : isDone
        ? `the task is in ${JSON.stringify(status)}`
        : 'claim the task again';
  const message =
    fence > task.fence
      ? `the task has no claim with fence ${fence}; its last one has fence ${task.fence}`
      : `the claim with fence ${fence} has ended; ${now}`;
  return failure('claim_lost', message, {
    yours: { fence },
    current: { task_id, title, status, revision, assignee, fence: task.fence, claim },
  });
}

/** @param expires_in_ms of its lease */
export function claimedBy(task_id: string, claim: StoredClaim, expires_in_ms: number) {
  const { principal, agent, fence, claimed_at } = claim;
  const seconds = Math.ceil(expires_in_ms / 1_000);
  const message = `${agent} of ${principal} has claimed the task ${task_id} for ${seconds} s more; claim another, or wait`;
  return failure('claimed', message, {
    claim: { principal, agent, fence, claimed_at, expires_in_ms },
    retry_after_ms: expires_in_ms,
  });
}

export function conflict(
  what: string,
  revision: number,
  yours: { readonly if_revision: number; readonly changes: object },
  current: object,
) {
  const advice = 'read it, merge your change, and repeat it with that revision';
  const message = `${what} has revision ${revision}, not ${yours.if_revision}; ${advice}`;
  return failure('conflict', message, { yours, current });
}
