/**
 * The shapes inside the chain messages: nodes, stored chains, runs and their nodes, entries of the history of a run. The schema
 * of chain files has the same nodes.
 */
import { anyObject, flag, may, number, oneOf, orNull, shape, text } from '../../protocol/shapes.schema.ts';
import { type Static, Type } from '../../wire/schema.ts';
import { NODE_KINDS } from './definition/kinds.ts';

const { Array: list, Unknown: unknown } = Type;
export const integer = (description: string, minimum = 0) => Type.Integer({ minimum, description });
export const mayInteger = (description: string, minimum = 0) => may(integer(description, minimum));
export const mayText = (description: string) => may(text(description));
export const mayFlag = (description: string) => may(flag(description));
export const texts = (description: string) => list(Type.String(), { description });

export const RetryPolicy = shape('When a node that failed runs again.', {
  max_attempts: mayInteger('Runs in all, the first included.', 1),
  delay_ms: mayInteger('Delay before the second run, in milliseconds. Default 1,000.'),
  factor: may(
    Type.Number({ minimum: 1, description: 'The factor by which the delay grows after each run. Default 2.' }),
  ),
  max_delay_ms: mayInteger('Longest delay, in milliseconds. Default 30,000.'),
  jitter: may(
    Type.Number({ minimum: 0, maximum: 1, description: 'Part of the delay that is random. Default 0.5; 0: none.' }),
  ),
  codes: may(texts('Only for these error codes. Default: errors that say retryable.')),
});

export const WaitFor = shape('The condition of a wait node: one of these.', {
  ms: mayInteger('A duration, in milliseconds.'),
  until: mayText('A point in time, RFC 3339 with an offset.'),
  approval: mayText('A question that is approved or denied by chain/approve/req.'),
  by: may(
    texts(
      'Of an approval: the principals that may answer. The principal that runs the chain may not, even if it is named. Default: each agent that reaches the run.',
    ),
  ),
  event: mayText('The name of an event that chain/deliver/req delivers.'),
});

/** A question of a run that the requester may answer. */
export const ChainApproval = shape('A question of a run that waits for an answer.', {
  chain_id: text('The run.'),
  owner: text('The principal that runs it.'),
  name: text('The stored chain; empty: none.'),
  node_id: text('The wait node that asks.'),
  approval: text('The question.'),
});

export const Jmespath = shape('A JMESPath expression over the context.', { jmespath: text('The expression.') });

/** The members of a node; those of A2E 1.0 first. */
const nodeMembers = {
  node_id: text('Unique in the chain; 128 characters at most.'),
  kind: oneOf(NODE_KINDS, 'The kind of its work.'),
  name: mayText(
    'The target of its call: the tool, skill, MCP tool or memory operation; of agent and task the kind of subagent, empty: the first.',
  ),
  input: may(anyObject('Its input where input_map is empty.')),
  input_map: may(
    anyObject('Input field → `$.path` into the context, {"jmespath": …}, or any other JSON value as it is.'),
  ),
  condition: mayText(
    'Of a branch: which way. Of others: false skips the node. `$.path op literal` of A2E 1.0, otherwise CEL. Empty: true.',
  ),
  true_node: mayText('Of a branch: the next node when the condition holds.'),
  false_node: mayText('Of a branch: the next node when it does not.'),
  items_path: may(
    Type.Union([Type.String(), Jmespath], {
      description: 'Of a map: its list. Empty: `$`. A value that is no list is one item.',
    }),
  ),
  map_node: mayText('Of a map: the node that runs for each item.'),
  next_node: mayText('The node behind it. Empty: none.'),
  on_error: mayText('abort, skip, compensate, or a node to continue with. Default abort.'),
};

const moreNodeMembers = {
  after: may(texts('Nodes that must have ended before it starts. A chain that has it runs as a graph.')),
  parallel: mayInteger('Of a map: items at once. Default 1.', 1),
  timeout_ms: mayInteger('Longest run of one attempt, in milliseconds.', 1),
  retry: may(RetryPolicy),
  compensate: mayText(
    'The node that undoes it; runs when a chain fails, or is stopped, whose failed or running node says on_error compensate.',
  ),
  idempotent: mayFlag('Running it again does no more than running it once: an interrupted run may be repeated.'),
  output_schema: may(anyObject('JSON Schema that its output must fit.')),
  reduce: may(Jmespath),
  wait: may(WaitFor),
  description: mayText('For people.'),
};

export const ChainNode = shape('A node of a chain. A2E 1.0 has the first twelve members.', {
  ...nodeMembers,
  ...moreNodeMembers,
});

export const Budget = shape(
  'The budget of a run in all, before it was resumed too. Once it is used up, the run ends with chains.budget.',
  {
    nodes: mayInteger('Runs of nodes, items of maps and retries included.', 1),
    tokens: mayInteger('Tokens of models, where nodes report them.'),
    usd: may(Type.Number({ minimum: 0, description: 'Cost in US dollars, where nodes report it.' })),
  },
);

/** The settings of a run, beside its nodes. */
export const runMembers = {
  entry_node: mayText('The first node. Empty: all nodes that no other leads to.'),
  timeout: may(number('Longest run, in seconds. Default 300.')),
  max_parallel: mayInteger('Nodes at once. Default 8.', 1),
  deadline: mayText('When the run must have ended, RFC 3339 with an offset.'),
  budget: may(Budget),
};

/** Returns the schema of a list of nodes whose members `readChain` checks, so that every problem is reported with its node. */
export const nodes = (description: string) =>
  list(Type.Unsafe<Static<typeof ChainNode>>({ type: 'object' }), { description });

export const ChainRef = shape('A stored chain.', {
  name: text('Its name.'),
  version: mayInteger('Its version. Default: the newest.', 1),
});

export const ChainProblem = shape('Something wrong in a chain.', {
  code: text(
    'chain_cycle, unknown_node, duplicate_node, unreachable_node, bad_entry, bad_expression, bad_type, bad_node, too_large.',
  ),
  message: text('For people.'),
  node_id: text('The node; empty: the chain itself.'),
  field: text('The member of the node, as a path: `input_map.text`. Empty: the node itself.'),
  index: mayInteger('The place of the node in the list of nodes, from 0.'),
});

export const ChainError = shape('Why a run failed.', {
  code: text('chain_cycle, chain_node_error, bad_entry, timeout, chain_error, or a code of docs/chains.md.'),
  message: text('For people.'),
  detail: may(anyObject('More facts: node_id, problems, the error of the node.')),
});

export const StoredChain = shape('A stored chain, one version of it.', {
  name: text('Its name.'),
  version: integer('Counts from 1.', 1),
  description: text('For people and models.'),
  nodes: may(nodes('ChainNode objects. Absent in lists.')),
  ...runMembers,
  versions: mayInteger('How many versions are stored.', 1),
  created_at: number('When this version was stored, epoch seconds.'),
  digest: text('SHA-256 of its definition, in hexadecimal.'),
});

const RUN_STATES = ['running', 'waiting', 'paused', 'done', 'failed', 'cancelled', 'interrupted'] as const;
const NODE_STATES = [
  'pending',
  'running',
  'waiting',
  'done',
  'skipped',
  'failed',
  'cancelled',
  'interrupted',
  'compensated',
] as const;

export const ChainUsage = shape('The usage of a run.', {
  nodes: integer('Runs of nodes, items of maps and retries included.'),
  tokens: mayInteger('Tokens of models, as far as nodes reported them.'),
  usd: may(number('Cost in US dollars, as far as nodes reported it.')),
});

export const FailedItem = shape('An item of a map that failed.', {
  index: integer('Its place in the list, from 0.'),
  error: ChainError,
});

export const NodeState = shape('A node in a run.', {
  node_id: text('The node.'),
  state: oneOf(
    NODE_STATES,
    'failed: its last attempt failed. cancelled: the run ended before it had. interrupted: it had started when the run stopped, and may have run. done, with an error: it could not be undone.',
  ),
  attempts: integer('How often it started.'),
  started_at: may(orNull(number('Its first start, epoch seconds; null: it did not start.'))),
  ended_at: may(orNull(number('When it ended, epoch seconds; null: it has not.'))),
  error: may(orNull(ChainError)),
  waits_for: may(WaitFor),
  items: mayInteger('Of a map: its items.'),
  items_done: mayInteger('Of a map: items that have ended.'),
  items_failed: mayInteger('Of a map: items that failed. Its output has none of them.'),
  items_skipped: mayInteger('Of a map: items that the condition of its node skipped. Its output has none of them.'),
  failed_items: may(list(FailedItem, { description: 'The first items that failed, 20 at most, by their places.' })),
});

export const ChainFailure = shape('A node that failed, or a map with items that failed.', {
  node_id: text('The node.'),
  error: ChainError,
  items: mayInteger('Of a map: its items.'),
  items_failed: mayInteger('Of a map: items that failed; error is that of the first.'),
  places: may(list(Type.Integer(), { description: 'Of a map: the places of the first items that failed, from 0.' })),
});

export const ChainRun = shape('A run of a chain.', {
  chain_id: text('The run.'),
  name: text('Of the stored chain; empty: its nodes came with the request.'),
  version: integer('Of the stored chain; 0: none.'),
  state: oneOf(
    RUN_STATES,
    'waiting: only wait nodes are left to end. interrupted: its host ended, and it was not resumed.',
  ),
  durable: flag('It is journalled, and continues after its host was killed.'),
  nodes_total: integer('Nodes of the chain.'),
  nodes_ended: integer('Nodes that are done, skipped or failed.'),
  started_at: number('Epoch seconds.'),
  ended_at: orNull(number('Epoch seconds; null: it has not ended.')),
  error: orNull(ChainError),
  usage: ChainUsage,
});

export const ChainEntry = shape('One entry of the history of a run.', {
  seq: integer('Its place in the history, from 1.', 1),
  at: number('Epoch seconds.'),
  phase: text(
    'run, start, spent, done, skip, retry, error, cancel, wait, deliver, pause, resume, stop, compensate, end.',
  ),
  node_id: text('The node; empty: the run itself.'),
  attempt: mayInteger('Which attempt of the node, from 1.'),
  index: mayInteger('The item of a map, from 0.'),
  data: may(anyObject('Details of the phase: output, error, delay_ms, cause, tokens, usd.')),
});

export const Sample = shape('The input of a node in a dry run.', {
  node_id: text('The node.'),
  state: oneOf(NODE_STATES, 'done: it would run. skipped: its condition is false, or no path leads to it.'),
  input: may(anyObject('Its input.')),
  condition: may(orNull(flag('The value of its condition; null: it has none.'))),
  output: may(unknown({ description: 'The sample, or what the node computes.' })),
  items: mayInteger('Of a map: how many items there are.'),
  error: mayText('Why it failed.'),
});

export type Budget = Static<typeof Budget>;
export type ChainApproval = Static<typeof ChainApproval>;
export type ChainEntry = Static<typeof ChainEntry>;
export type ChainError = Static<typeof ChainError>;
export type ChainFailure = Static<typeof ChainFailure>;
export type ChainNode = Static<typeof ChainNode>;
export type ChainProblem = Static<typeof ChainProblem>;
export type ChainRef = Static<typeof ChainRef>;
export type ChainRun = Static<typeof ChainRun>;
export type ChainUsage = Static<typeof ChainUsage>;
export type Jmespath = Static<typeof Jmespath>;
export type NodeState = Static<typeof NodeState>;
export type RetryPolicy = Static<typeof RetryPolicy>;
export type Sample = Static<typeof Sample>;
export type StoredChain = Static<typeof StoredChain>;
export type WaitFor = Static<typeof WaitFor>;
