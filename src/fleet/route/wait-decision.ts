/**
 * Decides whether a task that no worker can accept now should wait. A worker that is full, busy or briefly unreachable recovers
 * by itself. A requirement that no worker meets does not change by itself, so the task is refused.
 *
 * Pure. It follows a decision that has chosen no worker.
 * @see docs/fleet.md#blocked-task-policy
 */
import { reasonsAgainst } from './filters.ts';
import type { Profile, RoutePolicy, RouteTask } from './profile.ts';

/** Reasons that end by themselves. */
const TRANSIENT = new Set([
  'excluded',
  'draining',
  'circuit_open',
  'at_capacity',
  'context_busy',
  'joining',
  'profile_expired',
  'unreachable',
]);

/** Reasons that may end: the policy retries a few times. */
const MAYBE_TRANSIENT = new Set(['unhealthy_mcp', 'dirty_repo']);

/** A worker, as it is or as it last announced itself. */
export interface WorkerCandidate {
  readonly profile: Profile;
  /** `short`: unreachable, and tasks still wait for it; `long`: unreachable for longer. */
  readonly absence: 'none' | 'short' | 'long';
}

/** The decision about a task that no worker can accept. */
export type WaitDecision =
  /** `worker` will be able to accept it; null: any worker that joins. */
  | { readonly waits: true; readonly worker: string | null }
  /** The reason code to refuse it with. */
  | { readonly waits: false; readonly code: string };

/** Returns the codes of the reasons against a worker that do not end by themselves. */
export function nonTransientReasons(reasons: readonly string[]): string[] {
  return reasons.map((reason) => reason.split(':', 1)[0] as string).filter((code) => !TRANSIENT.has(code));
}

/**
 * Returns whether one of these workers will be able to accept the task, connected ones first; otherwise the reason code to
 * refuse it with, from the worker with the fewest obstacles. A task that names a worker considers only that one. Without any
 * worker the task waits for one to join.
 */
export function decideWait(task: RouteTask, candidates: Iterable<WorkerCandidate>, policy: RoutePolicy): WaitDecision {
  let nearest: readonly string[] | undefined;
  let unreachable: string | undefined;
  let named = false;
  for (const { profile, absence } of candidates) {
    if (task.only !== null && profile.agent_id !== task.only) continue;
    named = true;
    if (absence === 'long') continue;
    const lasting = nonTransientReasons(reasonsAgainst(task, profile, policy));
    if (lasting.length === 0) {
      if (absence === 'none') return { waits: true, worker: profile.agent_id };
      unreachable ??= profile.agent_id;
    } else if (nearest === undefined || distanceOf(lasting) < distanceOf(nearest)) nearest = lasting;
  }
  if (unreachable !== undefined) return { waits: true, worker: unreachable };
  if (nearest !== undefined) return { waits: false, code: nearest[0] as string };
  if (task.only === null) return { waits: true, worker: null };
  return { waits: false, code: named ? 'unreachable' : 'unknown_worker' };
}

function distanceOf(lasting: readonly string[]): number {
  return lasting.length + (lasting.every((code) => MAYBE_TRANSIENT.has(code)) ? 0 : 100);
}
