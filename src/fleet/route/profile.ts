/**
 * What routing looks at and what it answers. Everything here is data; `route.ts` is the algorithm, `router.ts` the same for
 * thousands of workers.
 * @see docs/fleet.md#routing
 */
import type { Access, Priority } from '../../protocol/fleet.ts';
import type * as schemas from '../../protocol/fleet-records.schema.ts';
import type { Wire } from '../../wire/schema.ts';
import type { RepoState } from '../messages/decoded.ts';

/** A worker as the orchestrator knows it now. */
export interface Profile {
  readonly agent_id: string;
  /** It described itself; otherwise nothing but `reachable` is known. */
  readonly verified: boolean;
  /** Seconds since it did. */
  readonly age_s: number;
  readonly model_tier: string;
  readonly context_window: number | null;
  readonly tools: readonly string[];
  readonly mcp_servers: readonly string[];
  readonly mcp_health: ReadonlyMap<string, string>;
  readonly active_tasks: number;
  readonly max_concurrent: number | null;
  readonly repo_state: RepoState | null;
  readonly session_fresh: boolean | null;
  readonly context_id: string | null;
  readonly overhead_tokens: number | null;
  /** Of the last 20 results. */
  readonly recent_ok: number;
  readonly recent_total: number;
  /** Dispatches sent that its own count does not hold yet. */
  readonly outstanding: number;
  /** Contexts a turn runs in. */
  readonly busy_contexts: readonly string[];
  readonly circuit: 'open' | 'closed';
  readonly draining: boolean;
  readonly reachable: boolean;
  /** It has come and is about to describe itself: until then nothing is known of it, and it gets nothing. Absent: no. */
  readonly joining?: boolean;
  /** Lifetime of its description, seconds; null: the policy's. */
  readonly ttl_s: number | null;
  readonly pools: readonly string[];
}

/** A task as routing sees it. */
export interface RouteTask {
  readonly task_id: string;
  readonly priority: Priority;
  readonly token_budget: number | null;
  readonly required_mcp: readonly string[];
  readonly required_capabilities: readonly string[];
  /** Epoch milliseconds. */
  readonly deadlineMs: number | null;
  readonly brief_bytes: number;
  readonly min_tier: string | null;
  readonly min_context_window: number | null;
  readonly access: Access;
  readonly context_id: string | null;
  /** Only workers of this pool. */
  readonly pool: string | null;
  /** Only this worker: an operator said so. */
  readonly only: string | null;
}

export interface RoutePolicy {
  readonly policy_id: string;
  readonly ttl_s: number;
  readonly default_max_concurrent: number;
  readonly min_lead_s: number;
  readonly unverified: 'last_resort' | 'never' | 'allow';
  /** Tier → rank, beside haiku 1, sonnet 2, opus 3. */
  readonly tiers: ReadonlyMap<string, number>;
}

export const DEFAULT_ROUTE_POLICY: RoutePolicy = {
  policy_id: 'default',
  ttl_s: 900,
  default_max_concurrent: 3,
  min_lead_s: 30,
  unverified: 'last_resort',
  tiers: new Map(),
};

/** Policy hooks as routing calls them; compiled by `hooks.ts`. Both are pure. */
export interface RouteHooks {
  /** Reasons to leave this worker out for this task; empty: none. */
  reject(task: RouteTask, profile: Profile): readonly string[];
  /** What is added to its score, −1000…1000, a whole number. */
  prefer(task: RouteTask, profile: Profile): number;
}

export type Ranked = Wire<typeof schemas.Ranked>;
/** Parts of a score; each is a whole number. */
export type Components = Ranked['components'];

/** What routing answers. */
export type Route =
  | {
      readonly chosen: string;
      readonly verified: boolean;
      readonly ranking: readonly Ranked[];
      readonly rejected: Readonly<Record<string, readonly string[]>>;
    }
  | {
      readonly chosen: null;
      /** `invalid_dispatch`, `deadline_passed`, `deadline_too_close`, or `no_eligible_worker`. */
      readonly reason: string;
      readonly rejected?: Readonly<Record<string, readonly string[]>>;
    };

/** A decision as it is stored with its task: why it went to a worker, or to none. */
export type Explanation = Wire<typeof schemas.Explanation>;
