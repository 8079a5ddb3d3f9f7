/**
 * What a worker and an orchestrator of a simulation say to each other: the parts of the messages that matter, without the
 * text they would be written in.
 */

import type { Announced, Dispatched } from '../src/fleet/messages/decoded.ts';
import type { JournaledTask } from '../src/fleet/worker/journal.ts';
import type { TaskResult } from '../src/protocol/fleet.ts';
import type { Run } from './run.ts';
import type { Site } from './site.ts';
import type { SimTask } from './workload.ts';

/** How long an attempt may be silent. */
export const LEASE_MS = 45_000;

/** A result without what every result begins with. */
export type ResultBody = Omit<TaskResult, 'type' | 'protocol_version' | 'task_id'>;

/** `busy`: for now; `in_flight`: another attempt at the same task is under way there. */
export type AckState = 'accepted' | 'running' | 'unknown' | 'busy' | 'in_flight';

/** What an orchestrator hears. `incarnation` and `active` as in the message. */
export interface SimMessageSink {
  announce(site: Site, announced: Announced): void;
  /** Answers the tasks whose leases it renewed. */
  heartbeat(site: Site, incarnation: string, active: number): readonly string[];
  ack(site: Site, taskId: string, attempt: number, state: AckState): void;
  started(site: Site, taskId: string, attempt: number): void;
  result(site: Site, attempt: number, result: TaskResult, run: Run | undefined): void;
  /** The connection broke: it was noticed at this end. */
  left(site: Site): void;
}

/** What is checked, and measured, at the worker itself. */
export interface SimObserver {
  started(run: Run): void;
  ended(run: Run): void;
  refused(task: SimTask, attempt: number, result: TaskResult): void;
  /** A dispatch that could not be done there had arrived; `spent`: it was found out the expensive way. */
  deadOnArrival(task: SimTask, spent: boolean): void;
}

/** How a task that is taken is told. */
export function stateOf({ state }: JournaledTask): 'accepted' | 'running' {
  return state === 'started' ? 'running' : 'accepted';
}

/** What an announce is worth sending for. */
export function descriptionOf({ mcp_health, repo_state, context_id }: Announced): string {
  return `${[...mcp_health.values()].join()} ${repo_state?.clean} ${context_id}`;
}

/** A dispatch as it is read at the worker. */
export function dispatchedOf({ task_id, route, spec }: SimTask, attempt: number): Dispatched {
  return {
    type: 'TASK_DISPATCH',
    protocol_version: '2.0',
    task_id,
    priority: spec.priority,
    reply_schema: spec.reply_schema,
    token_budget: route.token_budget,
    required_mcp: route.required_mcp,
    required_capabilities: route.required_capabilities,
    deadline: spec.deadline,
    brief: spec.brief,
    min_tier: route.min_tier,
    min_context_window: route.min_context_window,
    access: route.access,
    worktree: false,
    answer_schema: null,
    retry_safe: spec.retry_safe,
    parent_task_id: null,
    envelope: { attempt, context_id: route.context_id, lease: { ttl_s: LEASE_MS / 1000, fence: attempt } },
    digest: task_id,
  };
}

/** How a run is reported. */
export function reportOf({ end, spent }: Run): ResultBody {
  switch (end) {
    case 'done':
      return { status: 'done', tokens_spent: spent };
    case 'budget':
    case 'deadline':
      return { status: 'partial', next_steps: [`the ${end} ran out`], tokens_spent: spent };
    case 'unmet':
    case 'server_died':
      return { status: 'error', error_summary: 'an MCP server it needs does not answer', tokens_spent: spent };
    default:
      return { status: 'error', error_summary: `the run ${end}`, tokens_spent: spent };
  }
}
