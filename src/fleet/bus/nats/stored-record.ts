/**
 * Reads the task records in a bucket. Other users of the account may write there, so each member is checked before an
 * orchestrator works with the record.
 *
 * Pure.
 */
import { TASK_STATES } from '../../../protocol/fleet-words.ts';
import { fail } from '../../../wire/errors.ts';
import { isObject } from '../../../wire/json.ts';
import type { TaskRecord } from '../../orchestrator/task.ts';
import { fullSpec } from '../../orchestrator/task-record.ts';
import { MAX_RECORD_BYTES, unpack } from './payload.ts';
import { tokenOf } from './subjects.ts';

/** A stored record. */
export interface Written {
  /** Another for each write. */
  readonly write: string;
  readonly record: TaskRecord;
}

type Check = (value: unknown) => boolean;

const isText: Check = (value) => typeof value === 'string';
const isNumber: Check = (value) => Number.isFinite(value);
const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isFlag: Check = (value) => typeof value === 'boolean';
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
const orAbsent =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);

const isAttempt: Check = (value) =>
  isObject(value) && isCount(value.attempt) && isText(value.worker) && isText(value.mode) && isNumber(value.sent_at);

const checks: { readonly [Name in keyof TaskRecord]-?: Check } = {
  task_id: (value) => isText(value) && value !== '',
  number: (value) => isCount(value) && value !== 0,
  submitter: orAbsent(isText),
  spec: (value) => isObject(value) && orAbsent(listOf(isText))(value.after),
  state: (value) => (TASK_STATES as readonly unknown[]).includes(value),
  parked: isFlag,
  attempt: isCount,
  worker: orNull(isText),
  attempts: listOf(isAttempt),
  reroutes: isCount,
  retries: isCount,
  excluded: (value) => isObject(value) && Object.values(value).every(isText),
  not_before: orNull(isNumber),
  created_at: isNumber,
  updated_at: isNumber,
  ended_at: orNull(isNumber),
  explanation: orNull(isObject),
  result: orNull(isObject),
  late_results: listOf(isObject),
  tokens_spent: orNull(isNumber),
  granted_tokens: orAbsent(isNumber),
  verified: orNull(isText),
  verification: listOf(isText),
  dead_letter: orNull(isText),
  cancel_requested: isFlag,
  questions: listOf(isObject),
};

/** Reads the value under this key; a value that the writer `own` wrote needs no checks. Fails with `journal_corrupt`. */
export function readWritten(key: string, value: Uint8Array, own: string): Written {
  let found: unknown;
  try {
    found = JSON.parse(Buffer.from(unpack(value, MAX_RECORD_BYTES)).toString());
  } catch (error) {
    throw fail('journal_corrupt', 'a task record cannot be read', {}, error);
  }
  const { write, record } = isObject(found) ? found : {};
  if (typeof write !== 'string' || !isObject(record)) throw wrongForm('');
  if (write.startsWith(`${own}#`)) return found as Written;
  for (const [name, check] of Object.entries(checks)) if (!check(record[name])) throw wrongForm(`: ${name}`);
  const checked = record as unknown as TaskRecord;
  if (tokenOf(checked.task_id) !== key) throw wrongForm(': the key is that of another task');
  try {
    // An earlier version may have left out members that have a default now.
    const spec = { ...fullSpec(checked.task_id, checked.spec), ...checked.spec };
    return { write, record: { ...checked, spec } };
  } catch (error) {
    throw wrongForm(`: spec: ${(error as Error).message}`, error);
  }
}

const wrongForm = (place: string, cause?: unknown): Error =>
  fail('journal_corrupt', `a task record has the wrong form${place}`, {}, cause);
