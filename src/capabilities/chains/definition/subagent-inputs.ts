/**
 * The inputs of `agent` and `task` nodes: their members, and the meaning of these for `multi_agent`. Pure.
 *
 * Definitions are checked against the schemas when they are read, the values of their expressions when the node is called.
 */
import { type JsonSchema, lazyCheck } from '../../../base/json-schema.ts';
import { parseTimestamp, TIMESTAMP_FORM } from '../../../base/timestamp.ts';
import { PRIORITIES, REPLY_SCHEMAS } from '../../../protocol/fleet-words.ts';
import { issuePath, issueText } from '../../../wire/check.ts';
import { fail } from '../../../wire/errors.ts';
import { isObject } from '../../../wire/json.ts';

/** The kinds of nodes that are tasks of subagents. */
export type SubagentNodeKind = 'agent' | 'task';

const text = { type: 'string' } as const;
const texts = { type: 'array', items: text } as const;
const object = { type: 'object' } as const;
const amount = { type: 'number', minimum: 0 } as const;
const flag = { type: 'boolean' } as const;
const count = { type: 'integer', minimum: 1 } as const;

const common = {
  task: { description: 'The work to do: a text. Any other value is given as JSON.' },
  criteria: { ...texts, description: 'When it is done.' },
  role: { ...text, description: 'Its purpose.' },
  system_prompt: { ...text, description: 'Instructions beside the task.' },
  metadata: { ...object, description: 'Free facts.' },
  budget: {
    ...object,
    description: 'Its budget, within the rest of the run’s budget.',
    properties: { tokens: amount, usd: amount },
    additionalProperties: false,
  },
  deadline: { ...text, description: 'When it must have ended, RFC 3339 with an offset; the run may end earlier.' },
} as const;

/** The demands of a fleet task on its worker, by the names of the fleet. */
const contract = {
  priority: { enum: [...PRIORITIES] },
  reply_schema: { enum: [...REPLY_SCHEMAS] },
  answer_schema: { ...object, description: 'JSON Schema of `answer` in the result.' },
  required_mcp: { ...texts, description: 'MCP servers that must be configured and healthy.' },
  required_capabilities: { ...texts, description: 'Tools the worker must have.' },
  min_tier: text,
  min_context_window: count,
  access: { enum: ['read', 'write'] },
  worktree: flag,
  context_id: { ...text, description: 'The conversation it continues.' },
  retry_safe: flag,
  pool: text,
  worker: text,
  batch: text,
} as const;

/** JSON Schemas of the inputs. */
export const SUBAGENT_INPUTS: Readonly<Record<SubagentNodeKind, JsonSchema>> = {
  agent: {
    ...object,
    required: ['task'],
    additionalProperties: false,
    properties: {
      ...common,
      model: { ...text, description: 'The model, where its kind has a choice.' },
      capabilities: { ...texts, description: 'Capabilities it may use, of those that may be delegated.' },
      tool_scope: { enum: ['shared', 'restricted', 'isolated'] },
      memory_scope: text,
      max_steps: { ...count, description: 'Steps after which it ends. Default 20.' },
    },
  },
  task: { ...object, required: ['task'], additionalProperties: false, properties: { ...common, ...contract } },
};

export const isSubagentNode = (kind: string): kind is SubagentNodeKind => Object.hasOwn(SUBAGENT_INPUTS, kind);

/** The parsed input of a node. */
export interface SubagentInput {
  readonly instruction: string;
  readonly criteria: readonly string[];
  readonly role: string;
  readonly systemPrompt: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly budget: { readonly tokens?: number; readonly usd?: number };
  /** Epoch milliseconds; Infinity: none. */
  readonly deadline: number;
  /** The members of its kind alone, as given. */
  readonly own: Readonly<Record<string, unknown>>;
}

const checks = {
  agent: lazyCheck(SUBAGENT_INPUTS.agent),
  task: lazyCheck(SUBAGENT_INPUTS.task),
};

/** Reads the input of a node. Throws `schema_violation`. */
export function subagentInput(kind: SubagentNodeKind, input: Readonly<Record<string, unknown>>): SubagentInput {
  const given = inputOf(input);
  const check = checks[kind];
  if (!check(given)) {
    const [issue] = check.errors ?? [];
    const what = issue === undefined ? '' : `: ${issuePath(issue) || 'it'} ${issueText(issue)}`;
    throw fail('schema_violation', `the input does not fit a node of the kind ${kind}${what}`, {
      ...(issue !== undefined && { path: issuePath(issue) }),
    });
  }
  const { task, criteria, role, system_prompt, metadata, budget, deadline, ...own } = given as Record<string, never>;
  const instruction = typeof task === 'string' ? task : JSON.stringify(task);
  if (instruction.trim() === '') throw fail('schema_violation', 'the task is empty', { path: '/task' });
  const until = deadline === undefined ? Number.POSITIVE_INFINITY : parseTimestamp(deadline);
  if (until === undefined) {
    throw fail('schema_violation', `deadline: expected a time of ${TIMESTAMP_FORM}`, { path: '/deadline' });
  }
  return {
    instruction,
    criteria: criteria ?? [],
    role: role ?? '',
    systemPrompt: system_prompt ?? '',
    metadata: metadata ?? {},
    budget: budget ?? {},
    deadline: until,
    own,
  };
}

/** Returns the task of an item of a map without an input map: the item is the task, with its members, or as any other value. */
function inputOf(input: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { item, ...rest } = input;
  if (!Object.hasOwn(input, 'item') || Object.keys(rest).length > 0) return input;
  return isObject(item) && Object.hasOwn(item, 'task') ? item : { task: item };
}
