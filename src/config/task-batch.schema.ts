/**
 * The file of a task batch as one schema. `npm run generate` writes it as data (`task-batch.generated.ts`); nothing
 * imports this file at run time. `task-batch.ts` turns its tasks into those of the wire.
 */
import { PRIORITIES, REPLY_SCHEMAS } from '../protocol/fleet.ts';
import { type Static, Type } from '../wire/schema.ts';
import type { Settings } from './setting.ts';
import { anything, integer, text, word } from './shared.schema.ts';

const optionalFlag = (description: string) => Type.Optional(Type.Boolean({ description }));
const optionalText = (description: string, expected: string) => Type.Optional(text(description, expected));
const words = (description: string, item: string) => Type.Optional(Type.Array(word(item), { description }));

const task = Type.Object(
  {
    id: optionalText('Its id; needed where others name it in `after`.', 'an id'),
    brief: text('The work, in words.', 'a text'),
    priority: Type.Optional(Type.Enum(PRIORITIES, { description: 'Its place among other tasks.' })),
    reply: Type.Optional(Type.Enum(REPLY_SCHEMAS, { description: 'The shape of the result.' })),
    answer_schema: Type.Optional(anything('JSON Schema of the result.')),
    budget: Type.Optional(integer('Tokens.', { minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
    deadline: optionalText('30m, 2h, or a date and time with an offset.', 'a time'),
    require_mcp: words('MCP servers that must be alive.', 'A server.'),
    require: words('Capabilities.', 'A capability.'),
    min_tier: optionalText('The lowest tier.', 'a tier'),
    min_context: Type.Optional(
      integer('The smallest context window, in tokens.', { minimum: 1, maximum: 1_000_000_000 }),
    ),
    access: Type.Optional(Type.Enum(['read', 'write'], { description: 'Whether it changes the repository.' })),
    worktree: optionalFlag('In a git worktree of its own.'),
    context: optionalText('The conversation it belongs to.', 'an id'),
    retry_safe: optionalFlag('A second run does no harm.'),
    after: words('Tasks that must be done first.', 'The id of a task.'),
    pool: optionalText('Only workers of this pool.', 'a pool'),
    worker: optionalText('Only this worker.', 'a worker'),
  },
  { description: 'One task.' },
);

export const taskBatch = Type.Object(
  {
    name: optionalText('The name of the batch. Left out: that of the file.', 'a name'),
    tasks: Type.Array(task, { minItems: 1, description: 'The tasks.' }),
  },
  { description: 'Tasks that are submitted together.' },
);

export type TaskBatchSettings = Settings<Static<typeof taskBatch>>;
