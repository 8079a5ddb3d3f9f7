/**
 * The rules of a plan for its columns: the columns that end a task, the column that a claim moves it to, and the allowed moves.
 *
 * Pure. @see docs/planning.md#columns-and-rules
 */
import { failure } from './errors.ts';
import type { Rules } from './planning.schema.ts';

export const DEFAULT_COLUMNS: readonly string[] = ['backlog', 'todo', 'in_progress', 'done'];

/** Returns the rules of a plan: those given, the others by the columns. Fails with `planning.invalid`. */
export function rulesFor(columns: readonly string[], given: Partial<Rules> = {}, before?: Rules): Rules {
  const done = given.done ?? stillThere(before?.done, columns) ?? [columns.includes('done') ? 'done' : columns.at(-1)!];
  // A column that ended no tasks before may end tasks now.
  const [active] = stillThere(before && [before.active], columns)?.filter((name) => !done.includes(name)) ?? [];
  const rules: Rules = {
    done,
    active: given.active ?? active ?? activeOf(columns, done),
    moves: given.moves === undefined ? (before?.moves ?? null) : given.moves,
    deps: given.deps ?? before?.deps ?? 'enforced',
  };
  const named = [...rules.done, ...(rules.active === '' ? [] : [rules.active])];
  const moves = Object.entries(rules.moves ?? {}).flatMap(([from, to]) => [from, ...to]);
  const unknown = [...named, ...moves].find((column) => !columns.includes(column));
  if (unknown !== undefined) {
    throw failure(
      'invalid',
      `the rules name ${JSON.stringify(unknown)}, which is not a column of the plan; it has ${columns.join(', ')}`,
      {
        field: 'rules',
        columns,
      },
    );
  }
  if (rules.done.length === 0) throw failure('invalid', 'a plan needs a column that ends tasks', { field: 'rules' });
  if (rules.done.includes(rules.active)) {
    throw failure('invalid', 'the active column cannot end tasks', { field: 'rules' });
  }
  return rules;
}

const stillThere = (names: readonly string[] | undefined, columns: readonly string[]): string[] | undefined =>
  names?.every((name) => name === '' || columns.includes(name)) ? [...names] : undefined;

function activeOf(columns: readonly string[], done: readonly string[]): string {
  if (columns.includes('in_progress') && !done.includes('in_progress')) return 'in_progress';
  const last = columns.length > 2 ? columns.at(-2) : undefined;
  return last === undefined || done.includes(last) ? '' : last;
}

/** Returns the column of new tasks that name none. */
export const firstColumn = (columns: readonly string[]): string =>
  columns.includes('backlog') ? 'backlog' : (columns[0] as string);

/** Fails with `planning.not_allowed` for a move that the rules do not have. */
export function mustAllowMove(
  rules: Rules,
  columns: readonly string[],
  from: string,
  to: string,
  force: boolean,
): void {
  if (rules.moves === null || from === to) return;
  const allowed = force ? columns : Object.hasOwn(rules.moves, from) ? (rules.moves[from] as readonly string[]) : [];
  if (allowed.includes(to)) return;
  throw failure(
    'not_allowed',
    `a task cannot move from ${JSON.stringify(from)} to ${JSON.stringify(to)} in this plan`,
    {
      from,
      to,
      allowed,
    },
  );
}
