/**
 * The input and output types of routing. Everything here is data; `route.ts` is the algorithm, `router.ts` the same for
 * thousands of workers.
 * @see docs/fleet.md#routing
 */
import type { Access, Priority } from '../../protocol/fleet.ts';
import type * as schemas from '../../protocol/fleet-records.schema.ts';
import type { Wire } from '../../wire/schema.ts';
import type { RepoState } from '../messages/decoded.ts';

/** A worker as the orchestrator knows it now, from its last announce and its connection. */
export interface Profile {
  readonly agent_id: string;
  /** The worker announced itself; otherwise only `reachable` is known. */
  readonly verified: boolean;
  /** Seconds since that announce. */
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
  /** Counts over the last 20 results. */
  readonly recent_ok: number;
  readonly recent_total: number;
  /** Dispatches sent that `active_tasks` does not include yet. */
  readonly outstanding: number;
  /** Contexts in which a turn runs. */
  readonly busy_contexts: readonly string[];
  readonly circuit: 'open' | 'closed';
  readonly draining: boolean;
  readonly reachable: boolean;
  /** True when it is connected and has not announced itself yet: until then it is not eligible. Absent: false. */
  readonly joining?: boolean;
  /** Lifetime of the profile, seconds; null: the default of the policy. */
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
  /** Only this worker: the operator named it. */
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

/** Policy hooks as routing calls them; compiled by `hooks.ts`. Both functions are pure. */
export interface RouteHooks {
  /** Reasons to leave this worker out for this task; empty: none. */
  reject(task: RouteTask, profile: Profile): readonly string[];
  /** Returns the number added to its score, −1000…1000, an integer. */
  prefer(task: RouteTask, profile: Profile): number;
}

export type Ranked = Wire<typeof schemas.Ranked>;
export type Learned = Wire<typeof schemas.Learned>;
/** Parts of a score; each is an integer. */
export type Components = Ranked['components'];

/** The outcome of routing. */
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

/** A decision as it is stored with its task: the chosen worker or none, and the reasons. */
export type Explanation = Wire<typeof schemas.Explanation>;
