/**
 * Whether a task that no worker can accept now should wait: a worker that is full, busy or unreachable for a moment recovers by
 * itself; a requirement that no worker meets does not, and an operator should know.
 *
 * Pure; called by `orchestrator/dispatcher.ts` when a decision has chosen no worker.
 * @see docs/fleet.md#blocked-task-policy
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
  'joining',
  'profile_expired',
  'unreachable',
]);

/** Reasons that may pass: the policy tries again for a while. */
const MAY_PASS = new Set(['unhealthy_mcp', 'dirty_repo']);

/** A worker, as it is or as it last announced itself. */
export interface WorkerCandidate {
  readonly profile: Profile;
  /** Whether it is disconnected or unresponsive, and for so long that tasks no longer wait for it. */
  readonly absence: 'none' | 'short' | 'long';
}

/** What follows when no worker can accept a task. */
export type WaitDecision =
  /** `worker` will be able to accept it; null: any worker that joins. */
  | { readonly waits: true; readonly worker: string | null }
  /** The reason code to refuse it with. */
  | { readonly waits: false; readonly code: string };

/** What is left of the reasons against a worker when those that pass by themselves have. */
export function nonTransientReasons(reasons: readonly string[]): string[] {
  return reasons.map((reason) => reason.split(':', 1)[0] as string).filter((code) => !PASSING.has(code));
}

/**
 * Whether one of these workers will be able to accept the task, a connected one before others, or the reason code to
 * refuse it with: that of the worker that comes nearest. Where one is named, only that one counts; where there are none at all, the task waits for one to join.
 */
export function decideWait(task: RouteTask, prospects: Iterable<WorkerCandidate>, policy: RoutePolicy): WaitDecision {
  let nearest: readonly string[] | undefined;
  let away: string | undefined;
  let named = false;
  for (const { profile, absence } of prospects) {
    if (task.only !== null && profile.agent_id !== task.only) continue;
    named = true;
    if (absence === 'long') continue;
    const standing = nonTransientReasons(reasonsAgainst(task, profile, policy));
    if (standing.length === 0) {
      if (absence === 'none') return { waits: true, worker: profile.agent_id };
      away ??= profile.agent_id;
    } else if (nearest === undefined || distanceOf(standing) < distanceOf(nearest)) nearest = standing;
  }
  if (away !== undefined) return { waits: true, worker: away };
  if (nearest !== undefined) return { waits: false, code: nearest[0] as string };
  if (task.only === null) return { waits: true, worker: null };
  return { waits: false, code: named ? 'unreachable' : 'unknown_worker' };
}

function distanceOf(standing: readonly string[]): number {
  return standing.length + (standing.every((code) => MAY_PASS.has(code)) ? 0 : 100);
}
