/**
 * A task from its request: its first record, the part of it that routing sees, and the message its worker gets.
 */
import type { TaskDispatch } from '../../protocol/fleet.ts';
import { fail, type HandfastError } from '../../wire/errors.ts';
import { decodeValue } from '../messages/decode.ts';
import type { Dispatched } from '../messages/decoded.ts';
import { dispatchMessage } from '../messages/encode.ts';
import { isId } from '../messages/names.ts';
import type { RouteTask } from '../route/profile.ts';
import type { TaskRecord, TaskSpec } from './task.ts';
import { dispatchId } from './task-result.ts';

/** A request with its defaults filled in and its names in canonical form. */
export type FullSpec = TaskRecord['spec'];

/** Maximum number of tasks one task can wait for. */
const MAX_AFTER = 256;

/**
 * Reads a request as a worker would read its dispatch. Fails with `schema_violation`; `detail.errors` lists all that is
 * wrong, as code and JSON Pointer into the dispatch.
 */
export function fullSpec(taskId: string, spec: TaskSpec): FullSpec {
  const { context_id = null, pool = null, worker = null, batch = null } = spec;
  const after = spec.after ?? [];
  if (!Array.isArray(after) || !after.every((id) => typeof id === 'string' && isId(id)))
    throw fail('schema_violation', '`after` must be a list of task ids', { path: '/after' });
  if (after.length > MAX_AFTER) throw fail('schema_violation', `a task waits for at most ${MAX_AFTER} others`);
  for (const [path, id] of Object.entries({ context_id, pool, worker, batch })) {
    if (id !== null && (typeof id !== 'string' || !isId(id))) throw fail('schema_violation', `bad ${path}`, { path });
  }
  const decoded = decodeValue(messageFor(taskId, spec));
  if (!decoded.valid) {
    const [first] = decoded.errors;
    throw fail('schema_violation', `not a task: ${first?.code} at ${first?.path}`, {
      path: first?.path,
      errors: decoded.errors,
    });
  }
  const read = decoded.message as Dispatched;
  return {
    brief: read.brief,
    priority: read.priority,
    reply_schema: read.reply_schema,
    answer_schema: read.answer_schema,
    token_budget: read.token_budget,
    required_mcp: read.required_mcp,
    required_capabilities: read.required_capabilities,
    min_tier: read.min_tier,
    min_context_window: read.min_context_window,
    access: read.access,
    worktree: read.worktree,
    environment_capabilities: read.environment_capabilities,
    environment_tools: read.environment_tools,
    deadline: read.deadline,
    context_id,
    retry_safe: read.retry_safe,
    after: [...new Set(after)],
    parent_task_id: read.parent_task_id,
    pool,
    worker,
    batch,
  };
}

/** Returns the error of a task that does not exist, and of one that does not exist for its caller. */
export function unknownTask(taskId: string): HandfastError {
  return fail('not_found', `no task ${taskId}`, { task_id: taskId });
}

/** Returns the first record of a task. */
export function newRecord(taskId: string, spec: FullSpec, number: number, now: number, submitter?: string): TaskRecord {
  return {
    task_id: taskId,
    number,
    ...(submitter !== undefined && { submitter }),
    spec,
    state: 'queued',
    parked: false,
    attempt: 0,
    worker: null,
    attempts: [],
    reroutes: 0,
    retries: 0,
    excluded: {},
    not_before: null,
    created_at: now,
    updated_at: now,
    ended_at: null,
    explanation: null,
    result: null,
    late_results: [],
    tokens_spent: 0,
    verified: null,
    verification: [],
    dead_letter: null,
    cancel_requested: false,
    questions: [],
  };
}

/** Returns the part of a task that routing sees. */
export function routeTaskOf({ task_id, spec }: Pick<TaskRecord, 'task_id' | 'spec'>): RouteTask {
  return {
    task_id,
    priority: spec.priority,
    token_budget: spec.token_budget,
    required_mcp: spec.required_mcp,
    required_capabilities: spec.required_capabilities,
    deadlineMs: spec.deadline === null ? null : Date.parse(spec.deadline),
    brief_bytes: Buffer.byteLength(spec.brief),
    min_tier: spec.min_tier,
    min_context_window: spec.min_context_window,
    // Files written in a separate worktree do not mix with changes elsewhere.
    access: spec.worktree ? 'read' : spec.access,
    context_id: spec.context_id,
    pool: spec.pool,
    only: spec.worker,
  };
}

/** Returns the message for the attempt under way. The attempt is the fence: it only grows. */
export function dispatchOf(record: TaskRecord, sender: string, leaseTtlS: number, now: number): TaskDispatch {
  const { task_id, spec, attempt } = record;
  return messageFor(task_id, spec, {
    message_id: dispatchId(task_id, attempt),
    context_id: spec.context_id,
    correlation_id: spec.parent_task_id ?? task_id,
    sent_at: new Date(now).toISOString(),
    sender,
    attempt,
    lease: { ttl_s: leaseTtlS, fence: attempt },
  });
}

function messageFor(task_id: string, spec: TaskSpec, envelope?: TaskDispatch['envelope']): TaskDispatch {
  const { priority, reply_schema, token_budget, answer_schema, retry_safe, parent_task_id } = spec;
  const { required_mcp, required_capabilities, min_tier, min_context_window, access, worktree } = spec;
  const { environment_capabilities, environment_tools } = spec;
  return dispatchMessage(
    {
      task: { task_id, priority, reply_schema, token_budget, answer_schema, retry_safe, parent_task_id },
      requirements: {
        required_mcp,
        required_capabilities,
        min_tier,
        min_context_window,
        access,
        worktree,
        environment_capabilities,
        environment_tools,
      },
      deadline: spec.deadline,
      brief: spec.brief,
    },
    envelope,
  );
}
