/**
 * The reference algorithm of routing: chooses the worker for a task, ranks the other eligible ones, and gives the reasons
 * against the rest. The same input gives the same output on every machine: integers only, no clock, no randomness.
 *
 * `router.ts` gives the same output for fleets too large to check worker by worker; tests compare the two.
 * @see docs/fleet.md#routing
 */
import { ageMsOf, NO_EXCLUSIONS, reasonsAgainst, taskReason, withHooked } from './filters.ts';
import type { Profile, Ranked, Route, RouteHooks, RoutePolicy, RouteTask } from './profile.ts';
import { compareRankKeys, type RankKey, rankKeyOf, scoreOf } from './score.ts';

export interface RouteOptions {
  /** Epoch milliseconds; the deadline is compared with it. */
  readonly nowMs: number;
  /** Workers left out for this task, by name. */
  readonly excluded?: ReadonlySet<string>;
  readonly hooks?: RouteHooks;
}

/** Reason of a route without a worker, when no worker is eligible. */
export const NO_ELIGIBLE_WORKER = 'no_eligible_worker';

/** Returns the route of a task over these workers. Their names must differ. */
export function route(
  task: RouteTask,
  profiles: Iterable<Profile>,
  policy: RoutePolicy,
  { nowMs, excluded = NO_EXCLUSIONS, hooks }: RouteOptions,
): Route {
  const reason = taskReason(task, policy, nowMs);
  if (reason !== null) return { chosen: null, reason };
  const workers = function* () {
    for (const profile of profiles) yield { profile };
  };
  return routeAmong(task, workers(), policy, { excluded, hooks, ageMs: ({ profile }) => ageMsOf(profile) });
}

/** Routes as `route`, for a task that may be routed, over workers that have a profile; `ageMs` is the age it has now. */
export function routeAmong<Worker extends { readonly profile: Profile }>(
  task: RouteTask,
  workers: Iterable<Worker>,
  policy: RoutePolicy,
  {
    excluded,
    hooks,
    ageMs,
  }: {
    readonly excluded: ReadonlySet<string>;
    readonly hooks?: RouteHooks | undefined;
    readonly ageMs: (worker: Worker) => number;
  },
): Route {
  const left: [string, readonly string[]][] = [];
  const found: { ranked: Ranked; key: RankKey }[] = [];
  for (const worker of workers) {
    const { profile } = worker;
    // A task that names a worker needs no reasons against the others.
    if (task.only !== null && profile.agent_id !== task.only) continue;
    const age = ageMs(worker);
    const reasons = withHooked(reasonsAgainst(task, profile, policy, excluded, age), hooks, task, profile);
    if (reasons.length > 0) left.push([profile.agent_id, reasons]);
    else {
      const ranked = scoreOf(task, profile, policy, hooks, age);
      found.push({ ranked, key: rankKeyOf(profile, ranked.score, policy, age) });
    }
  }
  found.sort((one, other) => compareRankKeys(one.key, other.key, policy.unverified));
  const best = found[0];
  const rejected = Object.fromEntries(left);
  if (best === undefined) return { chosen: null, reason: NO_ELIGIBLE_WORKER, rejected };
  const ranking = found.map(({ ranked }) => ranked);
  return { chosen: best.key.agent_id, verified: best.key.verified, ranking, rejected };
}
