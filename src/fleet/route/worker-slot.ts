/**
 * A worker as the router stores it: its profile and everything that profile and policy determine for all tasks. It is computed
 * once per profile, so that a decision only adds the task-dependent part.
 */
import type { Placed } from '../../base/heap.ts';
import { ageMsOf, capacityOf, loadOf, ttlMsOf } from './filters.ts';
import type { Profile, RoutePolicy } from './profile.ts';
import { affinityPart, loadPart, mcpPart, reliabilityPart, repoPart, weightsOf } from './score.ts';
import { DEAREST, rankOf } from './tiers.ts';

/** Both kinds of weights: most tasks, urgent tasks. */
export const URGENCIES = [false, true] as const;

export interface WorkerSlot extends Placed {
  /** Its index in every set of bits. */
  readonly slot: number;
  readonly agent_id: string;
  profile: Profile;
  verified: boolean;
  /** Time when it announced itself, on the clock of the router, whole milliseconds; negative infinity if unverified. */
  bornMs: number;
  ttlMs: number;
  /** Time when its profile expires; infinity: never. */
  expiresAtMs: number;
  /** Time to check for expiry. Not moved with each renewal, so that a frequent announce does not reorder the heap. */
  checkAtMs: number;
  rank: number | undefined;
  /** `rank`, or `DEAREST` without one; the cheaper worker wins a tie. */
  price: number;
  load: number;
  capacity: number;
  /** Score without tier and freshness, for a task of another context; by urgency. */
  readonly bases: [number, number];
  /** Names of its unhealthy servers → since when, on the clock of the router. */
  unhealthySinceMs: ReadonlyMap<string, number>;
}

/** Returns a slot without data; `describe` fills it. */
export function emptySlot(slot: number, profile: Profile): WorkerSlot {
  return {
    slot,
    agent_id: profile.agent_id,
    profile,
    verified: false,
    bornMs: Number.NEGATIVE_INFINITY,
    ttlMs: 0,
    expiresAtMs: Number.POSITIVE_INFINITY,
    checkAtMs: Number.POSITIVE_INFINITY,
    rank: undefined,
    price: DEAREST,
    load: 0,
    capacity: 0,
    bases: [0, 0],
    unhealthySinceMs: new Map(),
    heapIndex: -1,
  };
}

/** Applies a profile as of `atMs`. */
export function describe(worker: WorkerSlot, profile: Profile, atMs: number, policy: RoutePolicy): void {
  worker.unhealthySinceMs = unhealthySince(worker, profile, atMs);
  worker.profile = profile;
  worker.verified = profile.verified;
  worker.ttlMs = ttlMsOf(profile, policy);
  worker.bornMs = profile.verified ? atMs - ageMsOf(profile) : Number.NEGATIVE_INFINITY;
  worker.expiresAtMs = profile.verified ? worker.bornMs + worker.ttlMs : Number.POSITIVE_INFINITY;
  worker.rank = profile.verified ? rankOf(profile.model_tier, policy) : undefined;
  worker.price = worker.rank ?? DEAREST;
  worker.capacity = capacityOf(profile, policy);
  reckon(worker);
}

/** Computes the load and the scores that depend on it. */
export function reckon(worker: WorkerSlot): void {
  const { profile, capacity } = worker;
  worker.load = loadOf(profile);
  for (const urgent of URGENCIES) {
    const weights = weightsOf(urgent);
    worker.bases[urgent ? 1 : 0] =
      loadPart(weights.load, worker.load, capacity) +
      affinityPart(weights.affinity, profile, false) +
      reliabilityPart(profile) +
      mcpPart(profile) +
      repoPart(profile);
  }
}

/** Returns the age of its profile at `nowMs`, milliseconds. */
export function ageMsAt({ verified, bornMs }: WorkerSlot, nowMs: number): number {
  return verified ? nowMs - bornMs : 0;
}

/** Returns its profile with the age it has at `nowMs`. */
export function profileAt({ profile, bornMs, verified }: WorkerSlot, nowMs: number): Profile {
  return verified ? { ...profile, age_s: (nowMs - bornMs) / 1000 } : profile;
}

/** Returns the times since when each server is unhealthy. A server that stays in the same state retains its time. */
function unhealthySince(
  { profile: before, unhealthySinceMs }: WorkerSlot,
  profile: Profile,
  atMs: number,
): ReadonlyMap<string, number> {
  if (before !== profile && sameServers(before, profile)) return unhealthySinceMs;
  const since = new Map<string, number>();
  for (const name of profile.mcp_servers) {
    const state = profile.mcp_health.get(name);
    if (state === 'ok') continue;
    const earlier = before.mcp_health.get(name) === state ? unhealthySinceMs.get(name) : undefined;
    since.set(name, earlier ?? atMs);
  }
  return since;
}

function sameServers(left: Profile, right: Profile): boolean {
  return left.mcp_health === right.mcp_health && left.mcp_servers === right.mcp_servers;
}

/**
 * Returns whether two profiles of a worker meet the same requirements, by cheap comparisons only. A heartbeat without changes
 * is by far the most frequent update and must not rebuild the indexes.
 */
export function sameFacts(left: Profile, right: Profile): boolean {
  return (
    sameServers(left, right) &&
    left.tools === right.tools &&
    left.pools === right.pools &&
    left.verified === right.verified &&
    left.model_tier === right.model_tier &&
    left.context_window === right.context_window &&
    left.overhead_tokens === right.overhead_tokens &&
    left.context_id === right.context_id &&
    left.repo_state?.clean === right.repo_state?.clean &&
    left.busy_contexts.length === right.busy_contexts.length &&
    left.busy_contexts.every((context, at) => context === right.busy_contexts[at])
  );
}
