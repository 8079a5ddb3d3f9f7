/**
 * A chain as a file, as one schema: the nodes of `chain/req`, with the settings of its runs. `npm run generate` writes it as data
 * (`chain-file.generated.ts`); nothing imports this file at run time.
 */
import type { Settings } from '../../../config/setting.ts';
import { anything, choice, group, integer, list, optional, text, word } from '../../../config/shared.schema.ts';
import { type Static, Type } from '../../../wire/schema.ts';
import { NODE_KINDS } from '../definition/kinds.ts';

const LARGEST = Number.MAX_SAFE_INTEGER;
const mayText = (description: string, expected = 'a text', example?: string) =>
  optional(text(description, expected, example));
const mayInteger = (description: string, least = 0) => optional(integer(description, [least, LARGEST]));
const number = (description: string, minimum: number, maximum?: number) =>
  optional(Type.Number({ description, minimum, ...(maximum !== undefined && { maximum }) }));
const aNode = 'the id of a node';

const retry = group('When it runs again after it failed.', {
  max_attempts: mayInteger('Runs in all, the first included.', 1),
  delay_ms: mayInteger('Delay before the second run, in milliseconds. Default 1,000.'),
  factor: number('The factor by which the delay grows after each run. Default 2.', 1),
  max_delay_ms: mayInteger('Longest delay, in milliseconds. Default 30,000.'),
  jitter: number('Part of the delay that is random, 0 to 1. Default 0.5.', 0, 1),
  codes: optional(
    list({ description: 'Only for these error codes. Default: those that say retryable.' }, word('An error code.')),
  ),
});

const node = group('One node.', {
  node_id: text('Its name in the chain.', 'a text'),
  kind: choice('The kind of its work.', NODE_KINDS),
  name: mayText(
    'The target of its call: the tool, skill, MCP tool or memory operation; of agent and task the kind of subagent, empty: the first.',
  ),
  description: mayText('For people.'),
  input: optional(anything('Its input, where it has no input_map.')),
  input_map: optional(anything('Input field → `$.path` into the context, {jmespath: …}, or any other value as it is.')),
  condition: mayText('Of a branch: which way. Of others: false skips the node. CEL, or `$.path op literal`.'),
  true_node: mayText('Of a branch: the next node when the condition holds.', aNode),
  false_node: mayText('Of a branch: the next node when it does not.', aNode),
  items_path: optional(
    group(
      { description: 'Of a map: its list, as `$.path` or as JMESPath.', short: 'path', either: ['path', 'jmespath'] },
      { path: mayText('`$.path`.'), jmespath: mayText('A JMESPath expression.') },
    ),
  ),
  map_node: mayText('Of a map: the node that runs for each item.', aNode),
  parallel: mayInteger('Of a map: items at once. Default 1.', 1),
  next_node: mayText('The node behind it.', aNode),
  after: optional(list({ description: 'Nodes that must have ended before it starts.' }, text('A node.', aNode))),
  on_error: mayText('abort, skip, compensate, or a node to continue with. Default abort.'),
  compensate: mayText('The node that undoes it.', aNode),
  retry: optional(retry),
  timeout_ms: mayInteger('Longest run of one attempt, in milliseconds.', 1),
  idempotent: optional(Type.Boolean({ description: 'Running it again does no more than running it once.' })),
  output_schema: optional(anything('JSON Schema that its output must fit.')),
  reduce: optional(
    group(
      { description: 'Of a reduce: the value it makes of the outputs before it.', short: 'jmespath' },
      {
        jmespath: text('A JMESPath expression; `@` has the gathered outputs.', 'a JMESPath expression'),
      },
    ),
  ),
  wait: optional(
    group('Of a wait: what it waits for, one of these.', {
      ms: mayInteger('A duration, in milliseconds.'),
      until: mayText('A point in time, RFC 3339 with an offset.', 'a time'),
      approval: mayText('A question to a person.'),
      by: optional(
        list(
          'Of an approval: the principals that may answer, never the one that runs the chain.',
          text('A principal.', 'reviewer'),
        ),
      ),
      event: mayText('The name of an event.'),
    }),
  ),
});

const budget = group('The budget of a run.', {
  nodes: mayInteger('Runs of nodes, items of maps and retries included.', 1),
  tokens: mayInteger('Tokens of models, where nodes report them.'),
  usd: number('Cost in US dollars, where nodes report it.', 0),
});

export const chainFile = group('A chain.', {
  name: mayText('Its name in the store of a host. Left out: that of the file.'),
  description: mayText('For people and models.'),
  entry_node: mayText('The first node. Left out: all that no other leads to.', aNode),
  timeout: number('Longest run, in seconds. Default 300.', 0),
  max_parallel: mayInteger('Nodes at once. Default 8.', 1),
  deadline: mayText('When a run must have ended, RFC 3339 with an offset.', 'a time'),
  budget: optional(budget),
  nodes: list({ minItems: 1, description: 'The nodes.' }, node),
});

export type ChainFileSettings = Settings<Static<typeof chainFile>>;
