/**
 * The error codes of the multi_agent capability, each with the row of the error table it behaves like. Failed tasks carry one
 * as `code`. @see docs/multi-agent.md#errors
 */
import { capabilityErrors } from '../../wire/errors.ts';

export const failure = capabilityErrors('multi_agent', {
  /** No such subagent exists below this agent. */
  unknown: { row: 'not_found', code: 'unknown_subagent' },
  /** No such kind is configured, or granted. */
  unknown_kind: 'not_found',
  /** No kind of subagent is configured at all. */
  not_configured: 'not_configured',
  /** The subagent has a task. */
  busy: 'session_busy',
  /** The subagent has ended and accepts no task. */
  ended: 'session_closed',
  /** No task was delegated yet. */
  no_task: 'not_found',
  /** The grant does not include it. */
  denied: 'denied',
  /** A limit of the host or of the grant; `detail.limit` names it. */
  limit: 'quota_exceeded',
  /** Tokens, cost or steps are spent; `detail.unit` names the unit. */
  budget_spent: 'budget_spent',
  /** A field does not fit; `detail.field` names it. */
  invalid: 'schema_violation',
  /** The subagent could not be started. */
  not_started: 'tool_error',
  /** The subagent was lost while it had a task. */
  lost: 'tool_error',
  /** The subagent reported that the task failed. */
  failed: 'tool_error',
  /** The result does not fit the schema of the task; `detail.problems` lists the places. */
  invalid_result: 'schema_violation',
  /** The task exceeded its timeout. */
  timeout: 'timeout',
  /** The agent above cancelled the task. */
  cancelled: 'cancelled',
  /** The subagent was ended while it had the task. */
  terminated: 'cancelled',
  /** The host ended while the task ran. */
  interrupted: 'interrupted',
});
