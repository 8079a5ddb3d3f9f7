/**
 * `handfast task …`: hands tasks to a fleet, looks at them and acts on them, from any terminal.
 */

import type { TaskRecord, TaskSpec, TaskState } from '../../fleet/orchestrator/task.ts';
import { loadTaskBatch } from '../../host/task-batch.ts';
import { timeOf } from '../../host/time-of.ts';
import { fail } from '../../wire/errors.ts';
import type { ControlFlags } from '../open-control.ts';
import { type FleetForCommand, taskMeant, withFleet } from '../open-fleet.ts';
import { textOf } from '../read-text.ts';
import { eventLine, showTask, stateOf, TASK_HEADINGS, taskRow, tokensOf } from '../task-output.ts';
import type { Terminal } from '../terminal.ts';

/** Exit code of a command whose task did not come to be done. */
const NOT_DONE = 5;

export interface SubmitFlags extends ControlFlags {
  readonly id?: string;
  readonly priority?: TaskSpec['priority'];
  readonly reply?: TaskSpec['reply_schema'];
  readonly answerSchema?: string;
  readonly budget?: number;
  readonly deadline?: string;
  readonly requireMcp?: readonly string[];
  readonly require?: readonly string[];
  readonly minTier?: string;
  readonly minContext?: number;
  readonly access?: TaskSpec['access'];
  readonly worktree?: boolean;
  readonly context?: string;
  readonly retrySafe?: boolean;
  readonly after?: readonly string[];
  readonly parent?: string;
  readonly pool?: string;
  readonly worker?: string;
  readonly wait?: boolean;
}

export async function taskSubmit(words: readonly string[], flags: SubmitFlags, terminal: Terminal): Promise<number> {
  const spec = await specOf(words, flags);
  return withFleet(flags, terminal, async ({ fleet, signal }) => {
    const task = await fleet.submit(spec);
    if (!flags.wait) {
      if (terminal.json) terminal.document(task);
      else terminal.line(task.task_id);
      if (!terminal.json) terminal.note(`${stateOf(task)}; follow it with: handfast task watch ${task.task_id}`);
      return 0;
    }
    if (!terminal.json) terminal.note(`task ${task.task_id}`);
    return watched({ fleet, signal }, task, terminal);
  });
}

/** What a command line asks for. */
export async function specOf(words: readonly string[], flags: SubmitFlags): Promise<TaskSpec> {
  const brief = await textOf(words.join(' '));
  const { answerSchema, deadline } = flags;
  return {
    brief,
    ...(flags.id !== undefined && { task_id: flags.id }),
    ...(flags.priority && { priority: flags.priority }),
    ...(flags.reply && { reply_schema: flags.reply }),
    ...(answerSchema !== undefined && { answer_schema: schemaOf(await textOf(answerSchema)) }),
    ...(flags.budget !== undefined && { token_budget: flags.budget }),
    ...(deadline !== undefined && { deadline: timeOf(deadline, Date.now()) }),
    ...(flags.requireMcp && { required_mcp: flags.requireMcp }),
    ...(flags.require && { required_capabilities: flags.require }),
    ...(flags.minTier && { min_tier: flags.minTier }),
    ...(flags.minContext !== undefined && { min_context_window: flags.minContext }),
    ...(flags.access && { access: flags.access }),
    ...(flags.worktree && { worktree: true }),
    ...(flags.context && { context_id: flags.context }),
    ...(flags.retrySafe && { retry_safe: true }),
    ...(flags.after && { after: flags.after }),
    ...(flags.parent && { parent_task_id: flags.parent }),
    ...(flags.pool && { pool: flags.pool }),
    ...(flags.worker && { worker: flags.worker }),
  };
}

function schemaOf(text: string): Readonly<Record<string, unknown>> {
  try {
    const schema: unknown = JSON.parse(text);
    if (typeof schema === 'object' && schema !== null && !Array.isArray(schema))
      return schema as Record<string, unknown>;
  } catch (error) {
    throw fail('usage', 'the schema of the answer is no JSON', {}, error);
  }
  throw fail('usage', 'the schema of the answer is a JSON object');
}

export async function taskBatch(file: string, flags: ControlFlags, terminal: Terminal): Promise<void> {
  const specs = await loadTaskBatch(file, Date.now());
  await withFleet(flags, terminal, async ({ fleet }) => {
    const tasks = await fleet.submitBatch(specs);
    if (terminal.json) return terminal.document(tasks);
    for (const task of tasks) terminal.line(task.task_id);
    terminal.note(`${tasks.length} tasks taken; see them with: handfast task ls --batch ${tasks[0]?.spec.batch ?? ''}`);
  });
}

export interface ListFlags extends ControlFlags {
  readonly state?: readonly TaskState[];
  readonly open?: boolean;
  readonly parked?: boolean;
  readonly batch?: string;
  readonly worker?: string;
  readonly limit?: number;
}

const OPEN: readonly TaskState[] = ['queued', 'reserved', 'sent', 'accepted', 'running', 'blocked', 'lost'];

export async function taskList(flags: ListFlags, terminal: Terminal): Promise<void> {
  const { state, open, parked, batch, worker, limit } = flags;
  await withFleet(flags, terminal, async ({ fleet }) => {
    const tasks = await fleet.list({ states: state ?? (open ? OPEN : undefined), parked, batch, worker, limit });
    if (terminal.json) return terminal.document(tasks);
    if (tasks.length === 0) return terminal.note('no tasks; hand one in with: handfast task submit "…"');
    const now = Date.now();
    terminal.table(
      TASK_HEADINGS,
      tasks.map((task) => taskRow(task, now)),
    );
  });
}

export async function taskShow(id: string, flags: ControlFlags, terminal: Terminal): Promise<void> {
  await withFleet(flags, terminal, async ({ fleet }) => {
    const task = await taskMeant(fleet, id);
    if (terminal.json) terminal.document(task);
    else showTask(task, terminal);
  });
}

/** Follows a task until it has ended; without one, a live list of those that have not. */
export async function taskWatch(id: string | undefined, flags: ControlFlags, terminal: Terminal): Promise<number> {
  return withFleet(flags, terminal, async (opened) => {
    if (id !== undefined) return watched(opened, await taskMeant(opened.fleet, id), terminal);
    const { fleet, signal } = opened;
    for (;;) {
      const tasks = await fleet.list({ states: OPEN, limit: 100 });
      if (terminal.json) terminal.document(tasks);
      else {
        const now = Date.now();
        const rows = tasks.map((task) => taskRow(task, now));
        terminal.screen([
          `${tasks.length} open ${tasks.length === 1 ? 'task' : 'tasks'}`,
          ...terminal.columns(TASK_HEADINGS, rows),
        ]);
      }
      if (!terminal.live) return 0;
      await pause(signal);
    }
  });
}

/** Time between two looks of a live view. */
const LOOK_MS = 1000;

/** Resolves after a moment; rejects on Ctrl-C. */
export function pause(signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', aborted);
      resolve();
    }, LOOK_MS);
    const aborted = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    signal.addEventListener('abort', aborted, { once: true });
  });
}

/** Prints what happens to a task; resolves with the exit code when it has ended. */
async function watched(
  { fleet, signal }: FleetForCommand,
  { task_id }: TaskRecord,
  terminal: Terminal,
): Promise<number> {
  const events = fleet.follow(task_id, { signal });
  for (;;) {
    const { value, done } = await events.next();
    if (done) {
      if (terminal.json) terminal.document(value);
      else summarise(value, terminal);
      return value.state === 'done' ? 0 : NOT_DONE;
    }
    if (terminal.json) terminal.document({ task_id, ...value });
    else if ('from' in value) terminal.note(`· events ${value.from} to ${value.to} are no longer kept`);
    else if (value.kind === 'progress') terminal.passing(eventLine(value));
    else terminal.note(eventLine(value));
  }
}

function summarise(task: TaskRecord, terminal: Terminal): void {
  const { result } = task;
  const why = result?.blocked_reason ?? result?.error_summary ?? result?.summary ?? task.dead_letter;
  terminal.line(`${stateOf(task)}, ${tokensOf(task.tokens_spent)} tokens${why ? `: ${why}` : ''}`);
  for (const step of result?.next_steps ?? []) terminal.line(`next: ${step}`);
  const files = result?.artifacts?.files_changed;
  if (Array.isArray(files) && files.length > 0) terminal.line(`files: ${files.join(', ')}`);
  if (task.verified !== null) terminal.line(`verified: ${task.verified}`);
  if (task.parked) {
    terminal.note(
      `it waits for you: handfast task retry|drop ${task.task_id}, or: handfast route explain ${task.task_id}`,
    );
  }
}

export async function taskResult(id: string, flags: ControlFlags, terminal: Terminal): Promise<number> {
  return withFleet(flags, terminal, async ({ fleet, signal }) => {
    const { task_id } = await taskMeant(fleet, id);
    const task = await fleet.ended(task_id, signal);
    if (terminal.json) terminal.document(task.result);
    else if (task.result === null) summarise(task, terminal);
    else {
      summarise(task, terminal);
      if (task.result.answer !== undefined && task.result.answer !== null) {
        terminal.line(JSON.stringify(task.result.answer, null, 2));
      } else if (task.result.prose) terminal.line(task.result.prose);
    }
    return task.state === 'done' ? 0 : NOT_DONE;
  });
}

/** Acts on one task and says what became of it. */
async function acted(
  id: string,
  flags: ControlFlags,
  terminal: Terminal,
  act: (opened: FleetForCommand, taskId: string) => Promise<TaskRecord>,
): Promise<void> {
  await withFleet(flags, terminal, async (opened) => {
    const { task_id } = await taskMeant(opened.fleet, id);
    const task = await act(opened, task_id);
    if (terminal.json) terminal.document(task);
    else
      terminal.line(
        `${task.task_id}: ${stateOf(task)}${task.cancel_requested && task.ended_at === null ? ', stopping' : ''}`,
      );
  });
}

export const taskCancel = (
  id: string,
  flags: ControlFlags & { readonly reason?: string },
  terminal: Terminal,
): Promise<void> => acted(id, flags, terminal, ({ fleet }, taskId) => fleet.cancel(taskId, flags.reason));

export const taskRetry = (
  id: string,
  flags: ControlFlags & { readonly worker?: string },
  terminal: Terminal,
): Promise<void> => acted(id, flags, terminal, ({ fleet }, taskId) => fleet.retry(taskId, flags.worker));

export const taskDrop = (
  id: string,
  flags: ControlFlags & { readonly reason?: string },
  terminal: Terminal,
): Promise<void> => acted(id, flags, terminal, ({ fleet }, taskId) => fleet.drop(taskId, flags.reason));

export const taskSteer = (id: string, text: string, flags: ControlFlags, terminal: Terminal): Promise<void> =>
  acted(id, flags, terminal, async ({ fleet }, taskId) => {
    await fleet.steer(taskId, await textOf(text));
    return fleet.get(taskId);
  });

export interface AnswerFlags extends ControlFlags {
  /** JSON object: what was asked for. */
  readonly content?: string;
  readonly reason?: string;
}

export const taskAnswer = (
  id: string,
  questionId: string,
  decision: string,
  { content, reason, ...flags }: AnswerFlags,
  terminal: Terminal,
): Promise<void> => {
  if (decision !== 'yes' && decision !== 'no')
    return Promise.reject(fail('usage', `the answer is yes or no, not ${JSON.stringify(decision)}`));
  return acted(id, flags, terminal, async ({ fleet }, taskId) => {
    const answer = content === undefined ? undefined : schemaOf(await textOf(content));
    await fleet.answer(taskId, questionId, { allowed: decision === 'yes', content: answer, reason });
    return fleet.get(taskId);
  });
};
