/**
 * The file of a task batch as one schema. `npm run generate` writes it as data (`task-batch.generated.ts`); nothing
 * imports this file at run time. `task-batch.ts` turns its tasks into those of the wire.
 */
import { PRIORITIES, REPLY_SCHEMAS } from '../protocol/fleet.ts';
import { type Static, Type } from '../wire/schema.ts';
import type { Settings } from './setting.ts';
import { anything, choice, group, integer, list, optional, text, word } from './shared.schema.ts';

const optionalFlag = (description: string) => optional(Type.Boolean({ description }));
const optionalText = (description: string, expected: string) => optional(text(description, expected));
const words = (description: string, item: string) => optional(list({ description }, word(item)));

const task = group('One task.', {
  id: optionalText('Its id; needed where others name it in `after`.', 'an id'),
  brief: text('The work, in words.', 'a text'),
  priority: optional(choice('Its place among other tasks.', PRIORITIES)),
  reply: optional(choice('The shape of the result.', REPLY_SCHEMAS)),
  answer_schema: optional(anything('JSON Schema of the result.')),
  budget: optional(integer('Tokens.', [1, Number.MAX_SAFE_INTEGER])),
  deadline: optionalText('30m, 2h, or a date and time with an offset.', 'a time'),
  require_mcp: words('MCP servers that must be alive.', 'A server.'),
  require: words('Capabilities.', 'A capability.'),
  min_tier: optionalText('The lowest tier.', 'a tier'),
  min_context: optional(integer('The smallest context window, in tokens.', [1, 1_000_000_000])),
  access: optional(choice('Whether it changes the repository.', ['read', 'write'])),
  worktree: optionalFlag('In a git worktree of its own.'),
  environment_capabilities: words(
    'The capabilities of the environment of the worker that its executor may use.',
    'A capability.',
  ),
  environment_tools: words('Tools of that environment it may call; * stands for any letters.', 'A tool.'),
  context: optionalText('The conversation it belongs to.', 'an id'),
  retry_safe: optionalFlag('A second run does no harm.'),
  after: words('Tasks that must be done first.', 'The id of a task.'),
  pool: optionalText('Only workers of this pool.', 'a pool'),
  worker: optionalText('Only this worker.', 'a worker'),
});

export const taskBatch = group('Tasks that are submitted together.', {
  name: optionalText('The name of the batch. Left out: that of the file.', 'a name'),
  tasks: list({ minItems: 1, description: 'The tasks.' }, task),
});

export type TaskBatchSettings = Settings<Static<typeof taskBatch>>;
