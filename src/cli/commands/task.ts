/**
 * `handfast task …`: hands tasks to a fleet, looks at them and acts on them, from any terminal.
 */
import { counted } from '../../base/counted.ts';
import { builtinCapabilities } from '../../capabilities/index.ts';
import { parseDeadline } from '../../config/parse-deadline.ts';
import { loadTaskBatch } from '../../config/task-batch.ts';
import type { TaskRecord, TaskSpec, TaskState } from '../../fleet/orchestrator/task.ts';
import { typedObject } from '../../packages/command-values.ts';
import { asError, fail } from '../../wire/errors.ts';
import type { ControlFlags } from '../connect/open-control.ts';
import { type FleetForCommand, openTasks, resolveTask, withFleet } from '../connect/open-fleet.ts';
import { liveView } from '../output/live-view.ts';
import { answerHint, contentOfWords } from '../output/question-text.ts';
import {
  adviceAfter,
  eventLine,
  printTasks,
  showOutcome,
  showTask,
  stateOf,
  taskLines,
} from '../output/task-output.ts';
import type { Terminal } from '../output/terminal.ts';
import { amount, oneLine } from '../output/tool-summary.ts';
import { textOf } from '../read-text.ts';

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
  readonly environmentCapability?: readonly string[];
  readonly environmentTool?: readonly string[];
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
    const task = await fleet.submit(await withTasksMeant(fleet, spec));
    if (flags.wait) {
      if (!terminal.json) terminal.note(`task ${task.task_id}`);
      return watched({ fleet, signal }, task, terminal, { isShort: true });
    }
    if (terminal.json) {
      terminal.document(task);
      return 0;
    }
    terminal.line(task.task_id);
    const over = task.parked || task.ended_at !== null;
    terminal.note(`${stateOf(task)}; ${over ? 'see' : 'follow it with'}: handfast task watch ${task.task_id}`);
    return 0;
  });
}

/** Returns the specification with whole ids for `last` and the beginnings of ids. */
async function withTasksMeant(fleet: FleetForCommand['fleet'], spec: TaskSpec): Promise<TaskSpec> {
  const whole = async (id: string): Promise<string> => (await resolveTask(fleet, id)).task_id;
  const { after, parent_task_id } = spec;
  return {
    ...spec,
    ...(after && { after: await Promise.all(after.map(whole)) }),
    ...(parent_task_id && { parent_task_id: await whole(parent_task_id) }),
  };
}

/** Returns the task that a command line asks for. */
export async function specOf(words: readonly string[], flags: SubmitFlags): Promise<TaskSpec> {
  const brief = await textOf(words.join(' '));
  if (brief.trim() === '') throw fail('usage', 'the brief is empty; give a text, @FILE, or - for standard input');
  const { answerSchema, deadline } = flags;
  return {
    brief,
    ...(flags.id !== undefined && { task_id: flags.id }),
    ...(flags.priority && { priority: flags.priority }),
    ...(flags.reply && { reply_schema: flags.reply }),
    ...(answerSchema !== undefined && {
      answer_schema: typedObject(await textOf(answerSchema), 'the schema of the answer must be a JSON object'),
    }),
    ...(flags.budget !== undefined && { token_budget: flags.budget }),
    ...(deadline !== undefined && { deadline: parseDeadline(deadline, Date.now()) }),
    ...(flags.requireMcp && { required_mcp: flags.requireMcp }),
    ...(flags.require && { required_capabilities: flags.require }),
    ...(flags.minTier && { min_tier: flags.minTier }),
    ...(flags.minContext !== undefined && { min_context_window: flags.minContext }),
    ...(flags.access && { access: flags.access }),
    ...(flags.worktree && { worktree: true }),
    ...(flags.environmentCapability && { environment_capabilities: flags.environmentCapability }),
    ...(flags.environmentTool && { environment_tools: flags.environmentTool }),
    ...(flags.context && { context_id: flags.context }),
    ...(flags.retrySafe && { retry_safe: true }),
    ...(flags.after && { after: flags.after }),
    ...(flags.parent && { parent_task_id: flags.parent }),
    ...(flags.pool && { pool: flags.pool }),
    ...(flags.worker && { worker: flags.worker }),
  };
}

export interface BatchFlags extends ControlFlags {
  readonly wait?: boolean;
}

export async function taskBatch(file: string, flags: BatchFlags, terminal: Terminal): Promise<number> {
  const specs = await loadTaskBatch(file, Date.now());
  return withFleet(flags, terminal, async ({ fleet, signal }) => {
    const tasks = await fleet.submitBatch(specs);
    if (flags.wait) return allEnded({ fleet, signal }, tasks, terminal);
    if (terminal.json) terminal.document(tasks);
    else {
      for (const task of tasks) terminal.line(task.task_id);
      const [first] = tasks;
      terminal.note(
        `${counted(tasks.length, 'task')} accepted; see ${tasks.length === 1 ? 'it' : 'them'} with: handfast task ls --batch ${first?.spec.batch ?? ''}`,
      );
    }
    return 0;
  });
}

/** Prints how each task ends, in the order of the file; resolves with the exit code. */
async function allEnded(
  { fleet, signal }: FleetForCommand,
  tasks: readonly TaskRecord[],
  terminal: Terminal,
): Promise<number> {
  let code = 0;
  if (!terminal.json) {
    for (const { task_id, spec } of tasks) terminal.note(`task ${task_id}  ${oneLine(spec.brief, 100)}`);
  }
  for (const { task_id } of tasks) {
    const task = await fleet.ended(task_id, signal);
    if (task.state !== 'done') code = NOT_DONE;
    if (terminal.json) terminal.document(task);
    else showOutcome(task, terminal, true);
  }
  return code;
}

export interface ListFlags extends ControlFlags {
  readonly state?: readonly TaskState[];
  readonly open?: boolean;
  readonly parked?: boolean;
  readonly batch?: string;
  readonly worker?: string;
  readonly limit?: number;
}

/** Default number of listed tasks. */
const LISTED = 50;

export async function taskList(flags: ListFlags, terminal: Terminal): Promise<void> {
  const { state, open, parked, batch, worker, limit = LISTED } = flags;
  await withFleet(flags, terminal, async ({ fleet }) => {
    const query = { parked, batch, worker, limit };
    const tasks = await (open ? openTasks(fleet, query) : fleet.select({ ...query, states: state }));
    if (terminal.json) return terminal.document(tasks);
    if (tasks.length === 0) {
      const filtered = [state, open, parked, batch, worker].some((filter) => filter !== undefined);
      return terminal.note(filtered ? 'no such tasks' : 'no tasks; hand one in with: handfast task submit "…"');
    }
    terminal.page();
    printTasks(tasks, terminal, Date.now());
    if (tasks.length === limit) terminal.note(`the newest ${limit}; there may be more: --limit`);
  });
}

export async function taskShow(id: string, flags: ControlFlags, terminal: Terminal): Promise<void> {
  await withFleet(flags, terminal, async ({ fleet }) => {
    const task = await resolveTask(fleet, id);
    if (terminal.json) terminal.document(task);
    else {
      terminal.page();
      showTask(task, terminal, Date.now());
    }
  });
}

/** Follows a task until it has ended; without one, a live list of those that have not. */
export async function taskWatch(id: string | undefined, flags: ControlFlags, terminal: Terminal): Promise<number> {
  return withFleet(flags, terminal, async (opened) => {
    if (id !== undefined) return watched(opened, await resolveTask(opened.fleet, id), terminal);
    const { fleet, signal } = opened;
    await liveView(terminal, signal, async () => {
      const tasks = await openTasks(fleet, { limit: 100 });
      return {
        document: tasks,
        lines: () => [
          amount(tasks.length, 'open task'),
          ...(tasks.length === 0 ? [] : taskLines(tasks, terminal, Date.now())),
        ],
      };
    });
    return 0;
  });
}

/** Prints the events of a task; resolves with the exit code when it has ended. */
async function watched(
  { fleet, signal }: FleetForCommand,
  { task_id }: TaskRecord,
  terminal: Terminal,
  { isShort = false } = {},
): Promise<number> {
  const events = fleet.follow(task_id, { signal });
  try {
    for (;;) {
      const { value, done } = await events.next();
      if (done) {
        if (terminal.json) terminal.document(value);
        else showOutcome(value, terminal);
        return value.state === 'done' ? 0 : NOT_DONE;
      }
      if (terminal.json) terminal.document({ task_id, ...value });
      else if ('from' in value)
        terminal.note('· entries are missing here: retention removed them, or the fleet was killed');
      // A user who waits for a result follows the task here already.
      else if (isShort && value.kind === 'session') continue;
      else if (value.kind === 'progress') terminal.passing(eventLine(task_id, value));
      else {
        terminal.note(eventLine(task_id, value));
        const advice = adviceAfter(value);
        if (advice !== undefined) terminal.note(advice);
      }
    }
  } catch (error) {
    if (!terminal.json) terminal.note(`the task continues; follow it with: handfast task watch ${task_id}`);
    throw error;
  }
}

export async function taskResult(id: string, flags: ControlFlags, terminal: Terminal): Promise<number> {
  return withFleet(flags, terminal, async ({ fleet, signal }) => {
    const { task_id } = await resolveTask(fleet, id);
    const task = await fleet.ended(task_id, signal);
    if (terminal.json) terminal.document(task.result ?? withoutResult(task));
    else showOutcome(task, terminal);
    return task.state === 'done' ? 0 : NOT_DONE;
  });
}

/** Returns the JSON of a task without a result: `status` and the reason have the places that they have in a result. */
const withoutResult = ({ task_id, state, tokens_spent, dead_letter }: TaskRecord): object => ({
  task_id,
  status: state,
  tokens_spent,
  blocked_reason: dead_letter,
});

/** Acts on one task and prints the outcome. */
async function acted(
  id: string,
  flags: ControlFlags,
  terminal: Terminal,
  act: (opened: FleetForCommand, taskId: string) => Promise<TaskRecord>,
): Promise<void> {
  await withFleet(flags, terminal, async (opened) => {
    const { task_id } = await resolveTask(opened.fleet, id);
    const task = await act(opened, task_id).catch((thrown) => {
      throw withWayOn(thrown, task_id);
    });
    if (terminal.json) terminal.document(task);
    else
      terminal.line(
        `${task.task_id}: ${stateOf(task)}${task.cancel_requested && task.ended_at === null ? ', stopping' : ''}`,
      );
  });
}

/** Returns the same error with the alternatives. */
function withWayOn(thrown: unknown, taskId: string): unknown {
  const { code, message, detail } = asError(thrown);
  if (code !== 'invalid_message') return thrown;
  return fail('invalid_message', `${message}; see: handfast task show ${taskId}`, detail, thrown);
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
): Promise<void> =>
  acted(id, flags, terminal, async ({ fleet }, taskId) => {
    const task = await fleet.retry(taskId, flags.worker);
    for (const { retryNote } of terminal.json ? [] : builtinCapabilities) {
      const note = retryNote?.(taskId);
      if (note !== undefined) terminal.note(note);
    }
    return task;
  });

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
  /** JSON object: the requested data. */
  readonly content?: string;
  readonly reason?: string;
}

/** Answers a question: of several that wait, the one whose id is or starts with the first word. */
export const taskAnswer = (
  id: string,
  words: readonly string[],
  { content, reason, ...flags }: AnswerFlags,
  terminal: Terminal,
): Promise<void> =>
  acted(id, flags, terminal, async ({ fleet }, taskId) => {
    const { questions } = await fleet.get(taskId);
    const { question, text } = questionMeant(taskId, questions, words);
    const given =
      content === undefined
        ? contentOfWords(text, question)
        : typedObject(await textOf(content), 'the content of an answer must be a JSON object');
    if (given === undefined && text !== 'yes' && text !== 'no') {
      throw fail('usage', `the answer must be ${answerHint(question)}, got ${JSON.stringify(text)}`);
    }
    await fleet.answer(taskId, question.question_id, {
      allowed: content !== undefined ? text !== 'no' : given !== undefined || text === 'yes',
      content: given,
      reason,
    });
    return fleet.get(taskId);
  });

function questionMeant(
  taskId: string,
  questions: TaskRecord['questions'],
  [first = '', ...rest]: readonly string[],
): { readonly question: TaskRecord['questions'][number]; readonly text: string } {
  if (rest.length > 0) {
    const found = questions.filter(({ question_id }) => question_id.startsWith(first));
    const exact = found.find(({ question_id }) => question_id === first) ?? (found.length === 1 ? found[0] : undefined);
    if (exact !== undefined) return { question: exact, text: rest.join(' ') };
  }
  const [only, ...others] = questions;
  if (only !== undefined && others.length === 0) return { question: only, text: [first, ...rest].join(' ') };
  const see = `see: handfast task show ${taskId}`;
  if (only === undefined) throw fail('not_found', `task ${taskId} asks nothing now; ${see}`);
  throw fail('usage', `task ${taskId} asks ${questions.length} questions: name one by its id; ${see}`);
}
