/**
 * Batch files: several tasks in one YAML (or JSON) file, which may name each other in `after`. Problems are reported by
 * line and column before a task is submitted.
 */
import { basename, extname } from 'node:path';
import type { Access, Priority, ReplySchema } from '../protocol/fleet.ts';
import { HandfastError } from '../wire/errors.ts';
import { openConfig } from './open-config.ts';
import { parseDeadline } from './parse-deadline.ts';
import { taskBatch } from './task-batch.generated.ts';
import type { TaskBatchSettings } from './task-batch.schema.ts';

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
  readonly environment_capabilities?: readonly string[];
  readonly environment_tools?: readonly string[];
  readonly context_id?: string;
  readonly retry_safe?: boolean;
  readonly after?: readonly string[];
  readonly pool?: string;
  readonly worker?: string;
  readonly batch: string;
}

/** Reads a batch file. Fails with `config_invalid`. @param now epoch milliseconds, for deadlines like `2h` */
export async function loadTaskBatch(file: string, now: number, cwd = process.cwd()): Promise<BatchTask[]> {
  const opened = await openConfig<TaskBatchSettings>(file, taskBatch, cwd);
  const { settings, item, problem } = opened;
  const name = settings.name ?? basename(file, extname(file));
  const tasks = (settings.tasks ?? []).map((each, index): BatchTask => {
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
        environment_capabilities: given.environmentCapabilities,
        environment_tools: given.environmentTools,
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
