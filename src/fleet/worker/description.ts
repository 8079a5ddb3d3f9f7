/**
 * Makes the announce of a worker from its configuration and the probed facts.
 */
import { type Feature, FLEET_VERSION, type SessionAnnounce } from '../../protocol/fleet.ts';
import { announceMessage } from '../messages/encode.ts';
import { executorReason } from '../phases/preflight.ts';
import type { FactsNow } from './facts.ts';
import type { WorkerOptions } from './worker-options.ts';

/** Lifetime of a description, seconds. */
const ANNOUNCE_TTL_S = 900;

export interface DescriptionInput {
  readonly options: WorkerOptions;
  readonly facts: FactsNow;
  readonly features: readonly Feature[];
  readonly pools: readonly string[];
  readonly maxConcurrent: number;
  /** Tokens of an empty first turn; null = unknown. */
  readonly overheadTokens: number | null;
  readonly activeTasks: number;
  readonly incarnation: string;
  readonly draining: boolean;
  /** The context it is announced for; null = none. */
  readonly contextId: string | null;
}

/** Returns the announce, without number and envelope. */
export function descriptionOf(input: DescriptionInput): SessionAnnounce {
  const { options, facts, overheadTokens, pools, contextId } = input;
  const { agentId, model, modelTier, contextWindow, executor, worktree } = options;
  const { tools, mcp_servers, mcp_health, repo_state, head } = facts;
  const notReady = executorReason(facts.executor_present, facts.executor_authenticated);
  return announceMessage({
    worker: {
      agent_id: agentId,
      ...(model != null && { model }),
      ...(modelTier != null && { model_tier: modelTier }),
      ...(contextWindow != null && { context_window: contextWindow }),
      protocol_versions: [FLEET_VERSION],
      features: input.features,
      max_concurrent: input.maxConcurrent,
      ...(overheadTokens !== null && { overhead_tokens: overheadTokens }),
      ...(pools.length > 0 && { pools }),
    },
    capabilities: { tools, mcp_servers },
    mcp_health: Object.fromEntries(mcp_health),
    session: {
      context_id: contextId,
      active_tasks: input.activeTasks,
      // With a separate worktree a task starts from the committed files: its tree is clean.
      repo_state: repo_state === null ? null : { ...repo_state, ...(worktree === 'always' && { clean: true }), head },
      ...(contextId !== null && { session_fresh: !executor.hasConversation(contextId) }),
      incarnation: input.incarnation,
      ttl_s: ANNOUNCE_TTL_S,
      draining: input.draining,
      ...(notReady !== undefined && { not_ready: notReady }),
    },
  });
}
