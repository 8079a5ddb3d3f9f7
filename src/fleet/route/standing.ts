/**
 * Whether a task that nobody can take now is worth waiting with: what is full, busy or away passes by itself; a requirement
 * that no worker meets does not, and somebody should hear of it.
 *
 * Pure; called by `orchestrator/dispatcher.ts` when a decision has chosen nobody.
 * @see docs/fleet.md#what-happens-to-a-refused-task
 */
import { reasonsAgainst } from './filters.ts';
import type { Profile, RoutePolicy, RouteTask } from './profile.ts';

/** Reasons that pass by themselves. */
const PASSING = new Set([
  'excluded',
  'draining',
  'circuit_open',
  'at_capacity',
  'context_busy',
  'profile_expired',
  'unreachable',
]);

/** Reasons that may pass: the policy tries again for a while. */
const MAY_PASS = new Set(['unhealthy_mcp', 'dirty_repo']);

/**
 * The reason code to refuse the task with: that of the worker that comes nearest. Undefined when there are no workers at
 * all, or one of them will be able to take it.
 */
export function standingCode(task: RouteTask, profiles: Iterable<Profile>, policy: RoutePolicy): string | undefined {
  let nearest: readonly string[] | undefined;
  for (const profile of profiles) {
    const codes = reasonsAgainst(task, profile, policy).map((reason) => reason.split(':', 1)[0] as string);
    const standing = codes.filter((code) => !PASSING.has(code));
    if (standing.length === 0) return undefined;
    const distance = (each: readonly string[]): number =>
      each.length + (each.every((code) => MAY_PASS.has(code)) ? 0 : 100);
    if (nearest === undefined || distance(standing) < distance(nearest)) nearest = standing;
  }
  return nearest?.[0];
}
