/**
 * A worker and a task as plain as they come, for tests of routing and its benchmark: a test names only the members that matter
 * to it.
 */
import type { Profile, RouteTask } from '../../../src/fleet/route/profile.ts';

/** Makes a verified, idle worker that was described just now. */
export function sampleProfile(changes: Partial<Profile> = {}): Profile {
  return {
    agent_id: 'claude-1',
    verified: true,
    age_s: 0,
    model_tier: 'sonnet',
    context_window: 200_000,
    tools: ['terminal'],
    mcp_servers: ['context_mode'],
    mcp_health: new Map([['context_mode', 'ok']]),
    active_tasks: 0,
    max_concurrent: 3,
    repo_state: { branch: 'main', clean: true },
    session_fresh: true,
    context_id: null,
    overhead_tokens: null,
    recent_ok: 0,
    recent_total: 0,
    outstanding: 0,
    busy_contexts: [],
    circuit: 'closed',
    draining: false,
    reachable: true,
    ttl_s: null,
    pools: [],
    ...changes,
  };
}

/** Makes a task that requires nothing. */
export function sampleTask(changes: Partial<RouteTask> = {}): RouteTask {
  return {
    task_id: 't-17',
    priority: 'normal',
    token_budget: null,
    required_mcp: [],
    required_capabilities: [],
    deadlineMs: null,
    brief_bytes: 100,
    min_tier: null,
    min_context_window: null,
    access: 'write',
    context_id: null,
    pool: null,
    only: null,
    ...changes,
  };
}
