/**
 * Whether a task that nobody can take now is worth waiting with: what is full, busy or away for a moment passes by itself; a
 * requirement that no worker meets does not, and somebody should hear of it.
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
  'joining',
  'profile_expired',
  'unreachable',
]);

/** Reasons that may pass: the policy tries again for a while. */
const MAY_PASS = new Set(['unhealthy_mcp', 'dirty_repo']);

/** A worker, as it is or as it last described itself. */
export interface WorkerCandidate {
  readonly profile: Profile;
  /** It is not here, or does not answer: not any more, or for so long that nobody counts on it. */
  readonly absence: 'none' | 'short' | 'long';
}

/** What nobody being able to take a task comes to. */
export type WaitDecision =
  /** `worker` will be able to take it; null: there is no worker whose coming could be told. */
  | { readonly waits: true; readonly worker: string | null }
  /** The reason code to refuse it with. */
  | { readonly waits: false; readonly code: string };

/** What is left of the reasons against a worker when those that pass by themselves have. */
export function nonTransientReasons(reasons: readonly string[]): string[] {
  return reasons.map((reason) => reason.split(':', 1)[0] as string).filter((code) => !PASSING.has(code));
}

/**
 * Whether one of these workers will be able to take the task, one that is here before one that is not, or the reason code to
 * refuse it with: that of the worker that comes nearest. Where one is named, only that one counts; where there are none at all, somebody is waited for.
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
