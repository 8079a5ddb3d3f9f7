/**
 * The score of a worker for a task: seven parts that add up to at most 1000, as integers, and the ranking by it.
 *
 * Pure. `route.ts` scores whole profiles with it. `router.ts` computes the task-independent parts once per profile.
 * @see docs/fleet.md#routing
 */
import { ageMsOf, byCodeUnit, capacityOf, loadOf, sameContext, ttlMsOf } from './filters.ts';
import type { Profile, Ranked, RouteHooks, RoutePolicy, RouteTask } from './profile.ts';
import { DEAREST, rankOf, tierPercent, wantedRank } from './tiers.ts';

/** Weights of the parts that depend on how urgent a task is. */
export interface Weights {
  readonly tier: number;
  readonly load: number;
  readonly affinity: number;
}

/** For an urgent task an idle worker counts more, and a cached conversation less. */
const NORMAL: Weights = { tier: 300, load: 250, affinity: 200 };
const URGENT: Weights = { tier: 250, load: 400, affinity: 100 };
const RELIABILITY = 100;
export const FRESHNESS = 50;
const MCP = 50;
const MCP_EACH = 10;
const REPO = 50;

/** Weights for a task of this urgency. */
export function weightsOf(urgent: boolean): Weights {
  return urgent ? URGENT : NORMAL;
}

/** Returns the part for the tier; unverified workers get half of the maximum. */
export function tierPart({ verified, model_tier }: Profile, task: RouteTask, policy: RoutePolicy): number {
  const { tier } = weightsOf(task.priority === 'urgent');
  return verified ? tierPoints(tier, rankOf(model_tier, policy), wantedRank(task, policy)) : Math.floor(tier / 2);
}

/** Returns the points of a rank, of at most `most`. */
export function tierPoints(most: number, rank: number | undefined, wanted: number): number {
  return Math.floor((most * tierPercent(rank, wanted)) / 100);
}

/** Returns the part for free capacity. */
export function loadPart(most: number, load: number, capacity: number): number {
  return Math.max(0, Math.floor((most * (capacity - load)) / capacity));
}

/** Returns the part for the conversation: continuing one is worth most when the worker still has its session. */
export function affinityPart(most: number, { verified, session_fresh }: Profile, same: boolean): number {
  if (!verified) return 0;
  if (same) return Math.floor((most * (session_fresh === false ? 100 : 60)) / 100);
  const percent = session_fresh === null ? 35 : session_fresh ? 50 : 25;
  return Math.floor((most * percent) / 100);
}

/** Returns the part for the outcome of recent tasks; adds one success and one failure, so that a new worker gets half. */
export function reliabilityPart({ recent_ok, recent_total }: Profile): number {
  return Math.floor((RELIABILITY * (recent_ok + 1)) / (recent_total + 2));
}

/** Returns the part for the age of the profile. */
export function freshnessPart(ageMs: number, ttlMs: number): number {
  return ageMs >= ttlMs ? 0 : Math.floor((FRESHNESS * (ttlMs - ageMs)) / ttlMs);
}

/** Returns the part for the MCP servers: an unhealthy one hints at a bad environment, even where the task does not need it. */
export function mcpPart({ verified, mcp_servers, mcp_health }: Profile): number {
  if (!verified) return 0;
  let unhealthy = 0;
  for (const name of mcp_servers) if (mcp_health.get(name) !== 'ok') unhealthy += 1;
  return Math.max(0, MCP - MCP_EACH * unhealthy);
}

/** Returns the part for a clean working tree. */
export function repoPart({ verified, repo_state }: Profile): number {
  if (!verified || repo_state === null) return REPO / 2;
  return repo_state.clean ? REPO : 0;
}

/** Returns the score of one worker for one task. `ageMs`: age of the profile, where it differs from `age_s`. */
export function scoreOf(
  task: RouteTask,
  profile: Profile,
  policy: RoutePolicy,
  hooks?: RouteHooks,
  ageMs = ageMsOf(profile),
): Ranked {
  const weights = weightsOf(task.priority === 'urgent');
  const tier = tierPart(profile, task, policy);
  const load = loadPart(weights.load, loadOf(profile), capacityOf(profile, policy));
  const affinity = affinityPart(weights.affinity, profile, sameContext(task, profile));
  const reliability = reliabilityPart(profile);
  const freshness = profile.verified ? freshnessPart(ageMs, ttlMsOf(profile, policy)) : 0;
  const mcp = mcpPart(profile);
  const repo = repoPart(profile);
  const score = tier + load + affinity + reliability + freshness + mcp + repo;
  const components = { tier, load, affinity, reliability, freshness, mcp, repo };
  const preferred = hooks?.prefer(task, profile) ?? 0;
  if (preferred === 0) return { agent_id: profile.agent_id, score, components };
  return { agent_id: profile.agent_id, score: score + preferred, components: { ...components, hooks: preferred } };
}

/** The sort key of a worker in a ranking. */
export interface RankKey {
  readonly agent_id: string;
  readonly verified: boolean;
  readonly score: number;
  readonly load: number;
  /** Infinity for an unverified worker, which never announced itself. */
  readonly ageMs: number;
  readonly rank: number;
}

/** Returns the sort key of a worker with this score. `ageMs`: age of the profile, where it differs from `age_s`. */
export function rankKeyOf(profile: Profile, score: number, policy: RoutePolicy, ageMs = ageMsOf(profile)): RankKey {
  return {
    agent_id: profile.agent_id,
    verified: profile.verified,
    score,
    load: loadOf(profile),
    ageMs: profile.verified ? ageMs : Number.POSITIVE_INFINITY,
    rank: (profile.verified ? rankOf(profile.model_tier, policy) : undefined) ?? DEAREST,
  };
}

/**
 * Sorts the better one first: verified (unless the policy treats both alike), higher score, lower load, younger profile,
 * cheaper tier, name.
 */
export function compareRankKeys(left: RankKey, right: RankKey, unverified: RoutePolicy['unverified']): number {
  if (unverified !== 'allow' && left.verified !== right.verified) return left.verified ? -1 : 1;
  if (left.score !== right.score) return right.score - left.score;
  if (left.load !== right.load) return left.load - right.load;
  if (left.ageMs !== right.ageMs) return left.ageMs < right.ageMs ? -1 : 1;
  if (left.rank !== right.rank) return left.rank - right.rank;
  return byCodeUnit(left.agent_id, right.agent_id);
}
