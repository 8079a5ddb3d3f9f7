/**
 * Reads TASK_DISPATCH: a task and what must hold for it.
 *
 * Called by `decode.ts`.
 * @see docs/protocol/fleet.md#task_dispatch
 */
import {
  type Access,
  type Envelope,
  PRIORITIES,
  type Priority,
  REPLY_SCHEMAS,
  type TaskDispatch,
} from '../../protocol/fleet.ts';
import type { Dispatched } from './decoded.ts';
import { digestOf } from './digest.ts';
import { ROOT_FIELDS } from './envelope.ts';
import type { Findings } from './findings.ts';
import { flag, id, name, names, object, oneOf, optional, positive, prompt, required, text, timestamp } from './read.ts';
import type { Members } from './strict-json.ts';

const ROOT = new Set<string>([...ROOT_FIELDS, 'task', 'requirements', 'deadline', 'brief']);
const TASK = new Set([
  'task_id',
  'priority',
  'reply_schema',
  'token_budget',
  'answer_schema',
  'retry_safe',
  'parent_task_id',
]);
const REQUIREMENTS = new Set([
  'required_mcp',
  'required_capabilities',
  'min_tier',
  'min_context_window',
  'access',
  'worktree',
]);

const replySchema = oneOf(REPLY_SCHEMAS);
const access = oneOf<Access>(['read', 'write']);

/** Capabilities that change nothing in a repository. */
const READING = new Set(['browser', 'search', 'read', 'web', 'fetch']);

const NOTHING: Members = Object.freeze({});

/** What a task does to the repository when it does not say: `write`, unless all it asks for only reads. */
const accessOf = (capabilities: readonly string[]): Access =>
  capabilities.length > 0 && capabilities.every((capability) => READING.has(capability)) ? 'read' : 'write';

function readPriority(task: Members, found: Findings): Priority {
  const word = optional(text, task, 'priority', found, '/task');
  if (word === null) return 'normal';
  if ((PRIORITIES as readonly string[]).includes(word)) return word as Priority;
  found.warn('W_UNKNOWN_ENUM', '/task', 'priority');
  return 'normal';
}

/** The dispatch, normalised. Of use only when nothing was found wrong. */
export function readDispatch(
  message: Members,
  version: string,
  envelope: Envelope,
  found: Findings,
  nowMs: number,
): Dispatched {
  found.unknown(message, ROOT, '');
  const asked = required(object, message, 'task', found, '');
  const task = asked ?? NOTHING;
  found.unknown(task, TASK, '/task');
  const taskId = asked && required(id, task, 'task_id', found, '/task');

  const requirements = optional(object, message, 'requirements', found, '') ?? NOTHING;
  const where = '/requirements';
  found.unknown(requirements, REQUIREMENTS, where);
  const capabilities = optional(names, requirements, 'required_capabilities', found, where) ?? [];

  const deadline = optional(timestamp, message, 'deadline', found, '');
  if (deadline !== null && Date.parse(deadline) <= nowMs) found.warn('W_DEADLINE_PAST', '', 'deadline');
  return {
    type: 'TASK_DISPATCH',
    protocol_version: version,
    task_id: taskId ?? '',
    priority: readPriority(task, found),
    reply_schema: optional(replySchema, task, 'reply_schema', found, '/task') ?? 'structured',
    token_budget: optional(positive, task, 'token_budget', found, '/task'),
    required_mcp: optional(names, requirements, 'required_mcp', found, where) ?? [],
    required_capabilities: capabilities,
    deadline,

    brief: required(prompt, message, 'brief', found, '') ?? '',
    min_tier: optional(name, requirements, 'min_tier', found, where),
    min_context_window: optional(positive, requirements, 'min_context_window', found, where),
    access: optional(access, requirements, 'access', found, where) ?? accessOf(capabilities),
    worktree: optional(flag, requirements, 'worktree', found, where) ?? false,
    answer_schema: optional(object, task, 'answer_schema', found, '/task'),
    retry_safe: optional(flag, task, 'retry_safe', found, '/task') ?? false,
    parent_task_id: optional(id, task, 'parent_task_id', found, '/task'),
    envelope,
    // Over the message as it came, with the members nobody here knows.
    digest: found.errors.length === 0 ? digestOf(message as unknown as TaskDispatch) : '',
  };
}
