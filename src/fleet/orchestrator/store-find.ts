/**
 * The SQL of a page of tasks: the index for each query.
 *
 * A page costs the same however many tasks have ended. Open tasks are bounded by `max_open_tasks` and are filtered one by one;
 * ended ones come from an index that has every filter of the query, one state at a time, already in order.
 */
import { TASK_STATES } from '../../protocol/fleet.ts';
import type { TaskQuery } from './task.ts';

/** A statement and its values. */
export interface FindStatement {
  readonly sql: string;
  readonly values: readonly (string | number)[];
}

/** Conditions, all of which hold. */
type Conditions = readonly (readonly [sql: string, ...values: (string | number)[]])[];

/**
 * Returns the statement for the numbers of the tasks that a query asks for, newest first, at most `limit`; undefined where none
 * can exist.
 */
export function findStatement(query: TaskQuery, limit: number): FindStatement | undefined {
  const { batch, worker, submitter, parked, before, states } = query;
  const given: Conditions = [
    ...(batch === undefined ? [] : [['batch = ?', batch] as const]),
    ...(worker === undefined ? [] : [['worker = ?', worker] as const]),
    ...(submitter === undefined ? [] : [['submitter = ?', submitter] as const]),
    ...(parked === undefined ? [] : [[`parked = ${parked ? 1 : 0}`] as const]),
    ...(before === undefined ? [] : [['number < ?', before] as const]),
  ];
  const wanted = states === undefined ? TASK_STATES : TASK_STATES.filter((state) => states.includes(state));
  if (wanted.length === 0) return undefined;
  const ofStates: Conditions =
    states === undefined ? [] : [[`state IN (${wanted.map(() => '?').join(', ')})`, ...wanted] as const];
  const index = parked ? 'parked_tasks' : batch !== undefined ? 'batches' : undefined;
  if (index !== undefined) return select(`tasks INDEXED BY ${index}`, [...given, ...ofStates], limit);
  const ended =
    worker !== undefined ? 'ended_by_worker' : submitter !== undefined ? 'ended_by_submitter' : 'ended_by_state';
  if (ended === 'ended_by_state' && states === undefined) return select('tasks', given, limit);
  const branches = [
    select('tasks INDEXED BY open_tasks', [['ended_at IS NULL'], ...given, ...ofStates], limit),
    ...wanted.map((state) =>
      select(`tasks INDEXED BY ${ended}`, [['ended_at IS NOT NULL'], ['state = ?', state], ...given], limit),
    ),
  ];
  return {
    sql: `${branches.map(({ sql }) => `SELECT number FROM (${sql})`).join(' UNION ALL ')} ORDER BY number DESC LIMIT ?`,
    values: [...branches.flatMap(({ values }) => values), limit],
  };
}

function select(table: string, conditions: Conditions, limit: number): FindStatement {
  const filter = conditions.length === 0 ? '' : ` WHERE ${conditions.map(([sql]) => sql).join(' AND ')}`;
  const values = conditions.flatMap(([, ...given]) => given);
  return { sql: `SELECT number FROM ${table}${filter} ORDER BY number DESC LIMIT ?`, values: [...values, limit] };
}
