/**
 * Batch files: several tasks in one YAML (or JSON) file, which may name each other in `after`. Problems are told by line and
 * column before anything is handed in.
 *
 * Called by `handfast task batch`.
 */
import { basename, extname } from 'node:path';
import type { Access, Priority, ReplySchema } from '../protocol/fleet.ts';
import { PRIORITIES, REPLY_SCHEMAS } from '../protocol/fleet.ts';
import { HandfastError } from '../wire/errors.ts';
import { anything, choice, flag, group, integer, listOf, text } from './config-fields.ts';
import { openConfig } from './config-reading.ts';
import { parseDeadline } from './parse-deadline.ts';

const word = (about: string) => text(about, { required: true, expected: 'a word' });

const task = group('One task.', {
  id: text('Its id; needed where others name it in `after`.', { expected: 'an id' }),
  brief: text('What is to be done.', { required: true, expected: 'a text' }),
  priority: choice('How soon.', PRIORITIES, {}),
  reply: choice('What is wanted back.', REPLY_SCHEMAS, {}),
  answer_schema: anything('JSON Schema of the answer.'),
  budget: integer('Tokens.', { min: 1, max: Number.MAX_SAFE_INTEGER }),
  deadline: text('30m, 2h, or a date and time with an offset.', { expected: 'a time' }),
  require_mcp: listOf('MCP servers that must be alive.', word('A server.'), {}),
  require: listOf('Capabilities.', word('A capability.'), {}),
  min_tier: text('The least tier.', { expected: 'a tier' }),
  min_context: integer('The least context window, tokens.', { min: 1, max: 1_000_000_000 }),
  access: choice('Whether it changes the repository.', ['read', 'write'], {}),
  worktree: flag('In a git worktree of its own.', {}),
  context: text('The conversation it belongs to.', { expected: 'an id' }),
  retry_safe: flag('Doing it twice does no harm.', {}),
  after: listOf('Tasks that must be done first.', word('The id of a task.'), {}),
  pool: text('Only workers of this pool.', { expected: 'a pool' }),
  worker: text('Only this worker.', { expected: 'a worker' }),
});

const batch = group('Tasks that are handed in together.', {
  name: text('The name of the batch. Left out: that of the file.', { expected: 'a name' }),
  tasks: listOf('The tasks.', task, { required: true, atLeast: 1 }),
});

/** A task of a batch, in the words of the wire. */
export interface BatchTask {
  readonly task_id?: string;
  readonly brief: string;
  readonly priority?: Priority;
  readonly reply_schema?: ReplySchema;
  readonly answer_schema?: Readonly<Record<string, unknown>>;
  readonly token_budget?: number;
  readonly deadline?: string;
  readonly required_mcp?: readonly string[];
  readonly required_capabilities?: readonly string[];
  readonly min_tier?: string;
  readonly min_context_window?: number;
  readonly access?: Access;
  readonly worktree?: boolean;
  readonly context_id?: string;
  readonly retry_safe?: boolean;
  readonly after?: readonly string[];
  readonly pool?: string;
  readonly worker?: string;
  readonly batch: string;
}

/** Reads a batch file. Fails with `config_invalid`. @param now epoch milliseconds, for deadlines like `2h` */
export async function loadTaskBatch(file: string, now: number, cwd = process.cwd()): Promise<BatchTask[]> {
  const opened = await openConfig(file, batch, cwd);
  const { said, item, problem } = opened;
  const name = said.name ?? basename(file, extname(file));
  const tasks = (said.tasks ?? []).map((each, index): BatchTask => {
    const path = item('tasks', index);
    const given = each ?? ({} as typeof each);
    const schema = given.answerSchema ?? {};
    return {
      ...defined({
        task_id: given.id,
        priority: given.priority,
        reply_schema: given.reply,
        answer_schema: Object.keys(schema).length === 0 ? undefined : schema,
        token_budget: given.budget,
        deadline: deadlineOf(given.deadline, now, (message) => problem(`${path}.deadline`, message)),
        required_mcp: given.requireMcp,
        required_capabilities: given.require,
        min_tier: given.minTier,
        min_context_window: given.minContext,
        access: given.access,
        worktree: given.worktree,
        context_id: given.context,
        retry_safe: given.retrySafe,
        after: given.after,
        pool: given.pool,
        worker: given.worker,
      }),
      brief: given.brief,
      batch: name,
    };
  });
  opened.finish();
  return tasks;
}

function deadlineOf(text: string | undefined, now: number, problem: (message: string) => void): string | undefined {
  if (text === undefined) return undefined;
  try {
    return parseDeadline(text, now);
  } catch (error) {
    problem(error instanceof HandfastError ? error.message : String(error));
    return undefined;
  }
}

function defined<T extends object>(value: T): { [Key in keyof T]?: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as {
    [Key in keyof T]?: Exclude<T[Key], undefined>;
  };
}
