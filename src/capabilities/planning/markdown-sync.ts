/**
 * Merges a Markdown document with a plan, both ways. Each task has three sides: the document, the plan, and the plan at the
 * revision that the document names, which the history knows. A field that one side changed is taken from it; a field that both
 * changed differently is a conflict with both sides, and nothing of that task changes.
 *
 * A document is read in turns, merged within one operation on the plan, and written in turns.
 */
import { inTurns, type Turns } from '../../base/turns.ts';
import { HandfastError } from '../../wire/errors.ts';
import type { Limits } from './limits.ts';
import {
  type AppendedTask,
  type MarkdownDocument,
  type MarkdownTask,
  parsingMarkdown,
  renderingMarkdown,
  type TaskText,
} from './markdown.ts';
import type { PlanState, TaskFields } from './plan-state.ts';
import type { MarkdownReq, MarkdownResp } from './planning.schema.ts';
import type { Actor, StoredEntry, StoredTask } from './stored.ts';

export interface SyncDeps {
  readonly state: PlanState;
  readonly actor: Actor;
  readonly newId: () => string;
  /** Yields the history of a task, newest first. */
  readonly chain: (from: number) => Iterable<StoredEntry>;
  readonly limits: Limits;
}

/** Entries of the history that one document may need, for all of its tasks. */
const MAX_READ = 1_000;
/** Characters of an id, a revision and the Markdown around a title. */
const ID_CHARS = 50;

/** Reads a document. Fails with `planning.full` for one that is too large. */
export async function readDocument(
  text: string,
  planId: string,
  limits: Limits,
  turns: Turns,
): Promise<MarkdownDocument> {
  let lines = 1;
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) lines += 1;
  limits.document('lines', lines);
  const document = await inTurns(parsingMarkdown(text, planId), turns);
  limits.document('tasks', document.tasks.length);
  limits.document('chars', text.length + document.tasks.filter(({ taskId }) => taskId === undefined).length * ID_CHARS);
  return document;
}

/** The outcome of a merge: its reply, whose text is still to be written. */
export interface Merged {
  readonly outcome: Omit<Outcome, 'text'>;
  readonly text: (turns: Turns) => Promise<string>;
}

type Outcome = Omit<MarkdownResp, 'type' | 'req_id' | 'id' | 'a2e' | 'version' | 'ts' | 'cursor'>;
type Conflict = Outcome['conflicts'][number];

/** The part of a task that a document shows. */
interface Shown {
  readonly title: string;
  readonly done: boolean;
}

/** Merges the whole document or nothing. */
export function syncMarkdown(
  document: MarkdownDocument,
  request: Pick<MarkdownReq, 'text' | 'prefer' | 'append' | 'dry_run'>,
  deps: SyncDeps,
): Merged {
  const { text, prefer, append = true, dry_run = false } = request;
  const { state, actor, newId, limits } = deps;
  const { plan } = state;
  const { marker } = document;
  const read = { left: MAX_READ };
  const rewritten = new Map<number, TaskText>();
  const conflicts: Conflict[] = [];
  const unknown: string[] = [];
  const updated: string[] = [];
  const added: string[] = [];
  const pending: { at: number; task: StoredTask; fields: TaskFields; shown: Shown }[] = [];
  const [doneColumn = 'done'] = plan.rules.done;
  const openColumn = plan.columns.includes('todo') ? 'todo' : (plan.columns[0] as string);
  const shownOf = (task: StoredTask): Shown => ({ title: task.title.trim(), done: state.graph.isDone(task) });
  const seen = new Set<string>();

  for (const [at, item] of document.tasks.entries()) {
    if (item.taskId === undefined) continue;
    const task = state.graph.get(item.taskId);
    // A copied item has the id of another: only the first one is the task.
    if (task === undefined || seen.has(item.taskId)) {
      unknown.push(item.taskId);
      continue;
    }
    seen.add(item.taskId);
    const current = shownOf(task);
    const base = shownAt(task, item.revision, deps, read);
    const title = pick('title', item, base, current, prefer);
    const done = pick('done', item, base, current, prefer);
    if (title === undefined || done === undefined) {
      const yours = { title: item.title, done: item.done };
      const message = 'the document and the plan changed it differently';
      conflicts.push({ task_id: task.task_id, code: 'planning.conflict', message, yours, current: { ...current } });
      continue;
    }
    const fields: TaskFields = {
      ...(title !== current.title && { title: title as string }),
      ...(done !== current.done && { status: done === true ? doneColumn : openColumn }),
    };
    const shown = { title: title as string, done: done as boolean };
    if (Object.keys(fields).length > 0) pending.push({ at, task, fields, shown });
    else rewritten.set(at, { taskId: task.task_id, revision: task.revision, ...shown });
  }
  const adding = document.tasks.flatMap((item, at) => (item.taskId === undefined ? [{ item, at }] : []));
  const missing = marker === undefined ? [] : tasksLacking(state, seen).filter(({ first }) => first <= marker.seq);
  if (dry_run) {
    const outcome = {
      added: adding.map(({ item }) => item.title),
      updated: pending.map(({ task }) => task.task_id),
      missing: missing.map(taskIdOf),
      unknown,
      conflicts,
    };
    return { outcome, text: () => Promise.resolve(text) };
  }
  limits.changes(pending.length + adding.length, 'merge the document in parts');
  const behind = marker?.seq ?? 0;
  const others = append ? tasksLacking(state, seen).filter(({ first }) => first > behind) : [];
  const more = nested(others, shownOf);
  const appendedChars = more.reduce((sum, { title, depth }) => sum + title.length + depth * 2 + ID_CHARS, 0);
  limits.document('chars', text.length + adding.length * ID_CHARS + appendedChars);

  // Parts are written below the tasks that they are parts of, and end first.
  for (const { at, task, fields, shown } of pending.toReversed()) {
    attempt(task.task_id, fields, () => {
      const { revision } = state.updateTask(task.task_id, fields, actor);
      rewritten.set(at, { taskId: task.task_id, revision, ...shown });
      updated.unshift(task.task_id);
    });
  }
  const ids = document.tasks.map(({ taskId }) => (taskId !== undefined && seen.has(taskId) ? taskId : undefined));
  for (const { item, at } of adding) {
    attempt('', { title: item.title }, () => {
      const parent = item.parent === undefined ? '' : (ids[item.parent] ?? '');
      const task = state.addTask(newId(), newTask(item, item.done ? doneColumn : openColumn, parent), actor);
      rewritten.set(at, { taskId: task.task_id, revision: task.revision, title: item.title, done: item.done });
      ids[at] = task.task_id;
      seen.add(task.task_id);
      added.push(task.task_id);
    });
  }
  // After a partial append, the remaining tasks would look as if they had been removed from the document.
  const seq = append || marker === undefined ? state.seq : marker.seq;
  return {
    outcome: { added, updated, missing: missing.map(taskIdOf), unknown, conflicts },
    text: (turns) => inTurns(renderingMarkdown(document, rewritten, more, { planId: plan.plan_id, seq }), turns),
  };

  function attempt(taskId: string, yours: object, change: () => void): void {
    try {
      change();
    } catch (error) {
      if (!(error instanceof HandfastError) || !error.code.startsWith('planning.')) throw error;
      conflicts.push({ task_id: taskId, code: error.code, message: error.message, yours: { ...yours } });
    }
  }
}

/** Returns the side of a field that counts; undefined: both changed it differently. */
function pick(
  field: keyof Shown,
  document: Shown,
  base: Shown | undefined,
  plan: Shown,
  prefer: MarkdownReq['prefer'],
): string | boolean | undefined {
  if (document[field] === plan[field] || document[field] === base?.[field]) return plan[field];
  if (plan[field] === base?.[field]) return document[field];
  return prefer === 'text' ? document[field] : prefer === 'plan' ? plan[field] : undefined;
}

/**
 * Returns the title and state of a task at a revision by undoing later changes. Undefined: the task never had that revision, or
 * has changed too often since.
 */
function shownAt(
  task: StoredTask,
  revision: number,
  { state, chain }: SyncDeps,
  read: { left: number },
): Shown | undefined {
  if (revision > task.revision) return undefined;
  let { title, status } = task;
  if (revision < task.revision) {
    for (const entry of chain(task.seq)) {
      if (entry.revision <= revision) break;
      read.left -= 1;
      if (read.left < 0) return undefined;
      title = (entry.changes.title?.[0] as string | undefined) ?? title;
      status = (entry.changes.status?.[0] as string | undefined) ?? status;
    }
  }
  return { title: title.trim(), done: state.graph.isDone({ status }) };
}

/** Returns the tasks of the plan that are not archived and not in the document, by age. */
const tasksLacking = (state: PlanState, seen: ReadonlySet<string>): StoredTask[] =>
  [...state.graph.tasks()].filter(({ archived, task_id }) => !archived && !seen.has(task_id));

const taskIdOf = ({ task_id }: StoredTask): string => task_id;

const newTask = ({ title }: MarkdownTask, status: string, parent: string) => ({
  title,
  status,
  parent,
  description: '',
  assignee: '',
  deps: [],
  metadata: {},
  priority: 0,
  key: '',
});

/** Returns tasks with their parts nested below them. */
function nested(tasks: readonly StoredTask[], shownOf: (task: StoredTask) => Shown): AppendedTask[] {
  const ids = new Set(tasks.map(taskIdOf));
  const parts = Map.groupBy(tasks, ({ parent }) => (ids.has(parent) ? parent : ''));
  const lines: AppendedTask[] = [];
  const open = (parts.get('') ?? []).map((task) => ({ task, depth: 0 })).reverse();
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { task, depth } = next;
    lines.push({ taskId: task.task_id, revision: task.revision, depth, ...shownOf(task) });
    open.push(...(parts.get(task.task_id) ?? []).map((part) => ({ task: part, depth: depth + 1 })).reverse());
  }
  return lines;
}
