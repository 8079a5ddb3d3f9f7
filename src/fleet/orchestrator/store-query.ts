/**
 * The part that all task stores share: their refusals, and the reading of a query.
 */
import { fail, type HandfastError } from '../../wire/errors.ts';
import type { TaskQuery, TaskRecord } from './task.ts';

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 1000;

/** Returns the maximum number of records of a query. */
export function pageLimit({ limit = DEFAULT_LIMIT }: TaskQuery): number {
  return Math.max(0, Math.min(Math.floor(limit), MAX_LIMIT));
}

/** Returns whether a query asks for this record. */
export function matches(record: TaskRecord, query: TaskQuery): boolean {
  const { states, parked, batch, worker, submitter, before } = query;
  return (
    (states === undefined || states.includes(record.state)) &&
    (parked === undefined || record.parked === parked) &&
    (batch === undefined || record.spec.batch === batch) &&
    (worker === undefined || record.worker === worker) &&
    (submitter === undefined || record.submitter === submitter) &&
    (before === undefined || record.number < before)
  );
}

/**
 * Returns the refusal of a put: another orchestrator has written the task, or (`number`) has given this number to another one.
 */
export function superseded(taskId: string, number?: number): HandfastError {
  const what = number === undefined ? `task ${taskId} was written` : `number ${number} was given`;
  return fail('superseded', `${what} by another orchestrator`, { task_id: taskId, ...(number && { number }) });
}
