/**
 * Routing, whole and plain: which worker gets a task, in what order the others follow, and what spoke against the rest.
 * The same input gives the same answer on every machine: whole numbers only, no clock, no chance.
 *
 * `router.ts` answers the same for fleets too large to look at one by one; tests hold the two together.
 * @see docs/fleet.md#routing
 */
import { NOBODY, reasonsAgainst, taskReason, withHooked } from './filters.ts';
import type { Profile, Ranked, Route, RouteHooks, RoutePolicy, RouteTask } from './profile.ts';
import { compareRankKeys, type RankKey, rankKeyOf, scoreOf } from './score.ts';

export interface RouteOptions {
  /** Epoch milliseconds: what the deadline is compared with. */
  readonly nowMs: number;
  /** Workers left out for this task, by name. */
  readonly excluded?: ReadonlySet<string>;
  readonly hooks?: RouteHooks;
}

/** Reason of a route that leads nowhere because nobody qualifies. */
export const NO_ELIGIBLE_WORKER = 'no_eligible_worker';

/** The route of a task over these workers. Their names must differ. */
export function route(
  task: RouteTask,
  profiles: Iterable<Profile>,
  policy: RoutePolicy,
  { nowMs, excluded = NOBODY, hooks }: RouteOptions,
): Route {
  const reason = taskReason(task, policy, nowMs);
  if (reason !== null) return { chosen: null, reason };
  const left: [string, readonly string[]][] = [];
  const found: { ranked: Ranked; standing: RankKey }[] = [];
  for (const profile of profiles) {
    // Where one is named, nobody asks about the others.
    if (task.only !== null && profile.agent_id !== task.only) continue;
    const reasons = withHooked(reasonsAgainst(task, profile, policy, excluded), hooks, task, profile);
    if (reasons.length > 0) left.push([profile.agent_id, reasons]);
    else {
      const ranked = scoreOf(task, profile, policy, hooks);
      found.push({ ranked, standing: rankKeyOf(profile, ranked.score, policy) });
    }
  }
  found.sort((one, other) => compareRankKeys(one.standing, other.standing, policy.unverified));
  const best = found[0];
  const rejected = Object.fromEntries(left);
  if (best === undefined) return { chosen: null, reason: NO_ELIGIBLE_WORKER, rejected };
  const ranking = found.map(({ ranked }) => ranked);
  return { chosen: best.standing.agent_id, verified: best.standing.verified, ranking, rejected };
}
