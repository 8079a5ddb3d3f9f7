/**
 * The limits of plans: the options of the capability as bounds, and the checks of texts and lists against them. @see
 * docs/planning.md#limits
 */
import { failure } from './errors.ts';

/** Characters of a column, a status, a name or an assignee. */
const MAX_LABEL = 100;
/** Characters of the title of a task. */
const MAX_TITLE = 1_000;
/** Characters of a description, a comment or metadata as JSON. */
const MAX_TEXT = 65_536;
const MAX_COLUMNS = 50;
/** Dependencies of one task. */
const MAX_DEPS = 200;
/** Dependencies of all tasks of a plan: a search for cycles may follow each of them. */
const MAX_PLAN_DEPS = 100_000;
/** Tasks that one request may change: it changes all of them together, or none. */
const MAX_CHANGES = 1_000;
/** Lines of a document, tasks of it, and its characters once its tasks have their ids. */
const DOCUMENT = { lines: 50_000, tasks: 5_000, chars: 768 * 1024 } as const;
/** Tasks of a reply whose request sets no limit. */
const MAX_LISTED = 5_000;

export interface LimitOptions {
  /** Plans of one principal. */
  readonly maxPlans: number;
  /** Tasks of one plan. */
  readonly maxTasks: number;
}

export class Limits {
  readonly maxPlans: number;
  readonly maxTasks: number;
  /** Other principals that may use one plan. */
  readonly maxShares = 100;

  constructor({ maxPlans, maxTasks }: LimitOptions) {
    this.maxPlans = maxPlans;
    this.maxTasks = maxTasks;
  }

  name(name: string): void {
    shorter('name', name, MAX_LABEL * 2);
  }

  label(field: string, label: string): void {
    shorter(field, label, MAX_LABEL);
  }

  title(title: string): void {
    if (title.trim() === '') throw failure('invalid', 'a task needs a title', { field: 'title' });
    shorter('title', title, MAX_TITLE);
    if (/[\r\n]/.test(title)) throw failure('invalid', 'a title is one line', { field: 'title' });
  }

  text(field: string, text: string): void {
    shorter(field, text, MAX_TEXT);
  }

  /**
   * Returns a copy of the metadata of a task, once it fits: metadata of the size of a whole message is neither merged nor
   * copied.
   */
  metadata(given: Readonly<Record<string, unknown>>): Record<string, unknown> {
    const text = JSON.stringify(given);
    this.text('metadata', text);
    return JSON.parse(text) as Record<string, unknown>;
  }

  deps(deps: readonly string[]): void {
    atMost('deps', MAX_DEPS, deps.length, `a task may depend on ${MAX_DEPS} tasks, got ${deps.length}`);
  }

  planDeps(count: number): void {
    atMost('plan_deps', MAX_PLAN_DEPS, count, `the tasks of a plan may have ${MAX_PLAN_DEPS} dependencies in all`);
  }

  /** @param hint tells the caller how to reach its goal with fewer changes per request */
  changes(count: number, hint: string): void {
    const problem = `this would change ${count} tasks, more than ${MAX_CHANGES} at once; ${hint}`;
    atMost('changed_tasks', MAX_CHANGES, count, problem);
  }

  document(what: keyof typeof DOCUMENT, count: number): void {
    const max = DOCUMENT[what];
    const of = what === 'chars' ? 'characters with the ids of its tasks' : what;
    const problem = `the document has ${count} ${of}, more than ${max}; split it, or append nothing`;
    atMost(`document_${what}`, max, count, problem);
  }

  listed(count: number): void {
    const problem = `there are more than ${MAX_LISTED} tasks; ask for them with a limit`;
    atMost('listed_tasks', MAX_LISTED, count, problem);
  }

  /** Returns the columns unchanged, each once. */
  columns(columns: readonly string[]): readonly string[] {
    if (columns.length === 0) throw failure('invalid', 'a plan needs a column', { field: 'columns' });
    const problem = `a plan may have ${MAX_COLUMNS} columns, got ${columns.length}`;
    atMost('columns', MAX_COLUMNS, columns.length, problem);
    for (const column of columns) {
      shorter('columns', column, MAX_LABEL);
      if (column.trim() === '') throw failure('invalid', 'a column needs a name', { field: 'columns' });
    }
    const twice = columns.find((column, at) => columns.indexOf(column) !== at);
    if (twice === undefined) return columns;
    throw failure('invalid', `two columns are named ${JSON.stringify(twice)}`, { field: 'columns' });
  }
}

/** Fails with `planning.full`, and names the limit, where `count` is above `max`. */
function atMost(limit: string, max: number, count: number, problem: string): void {
  if (count > max) throw failure('full', problem, { limit, max });
}

function shorter(field: string, text: string, max: number): void {
  if (text.length > max) {
    throw failure('invalid', `${field} has ${text.length} characters, more than ${max}`, { field, max });
  }
  if (!text.isWellFormed()) throw failure('invalid', `${field} is not valid Unicode`, { field });
}
