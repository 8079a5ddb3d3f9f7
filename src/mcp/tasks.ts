/**
 * Calls of tools that a server runs as tasks (the generation with sessions, 2025-11-25): the call returns a task, which
 * is polled until it has ended; then its result is requested. A cancel is forwarded.
 *
 * Tasks of the generation without sessions are in `stateless-tasks.ts`, which has the same bounds.
 */
import { sleep } from '../base/sleep.ts';
import { asError, fail } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import type { McpProgress, McpResult, McpTool } from './definition.ts';

/** Makes a request of the server. Rejects as the client does. */
export type TaskRequest = (method: string, params: Record<string, unknown>, signal: AbortSignal) => Promise<unknown>;

export interface TaskCallOptions {
  readonly signal: AbortSignal;
  /** Longest time without a change of the task. */
  readonly timeoutMs: number;
  readonly onProgress?: ((progress: McpProgress) => void) | undefined;
}

/** Interval between polls of a task, milliseconds: within these bounds as its server demands. */
const MIN_POLL_MS = 100;
const MAX_POLL_MS = 5_000;
const POLL_MS = 1_000;
/** Time after which the server need not store the result of a task. */
const TTL_MS = 24 * 3_600_000;
/** Longest cancel. */
const CANCEL_MS = 5_000;

interface Task {
  readonly taskId: string;
  readonly status: string;
  readonly statusMessage?: string;
  readonly pollInterval?: number;
}

/** Returns the milliseconds to wait before a task is polled again, if its server demands `ms`. */
export const pollDelay = (ms: unknown): number =>
  Math.min(MAX_POLL_MS, Math.max(MIN_POLL_MS, typeof ms === 'number' ? ms : POLL_MS));

/** Returns true if the server runs this tool only as a task. */
export const needsTask = ({ execution }: McpTool): boolean => execution?.taskSupport === 'required';

/**
 * Calls a tool as a task. Rejects as the requests do, with `timeout` when the task does not change for too long, and
 * with the reason of the signal; the task is cancelled then. A failure after the task was created has `may_have_run`.
 */
export async function callAsTask(
  request: TaskRequest,
  name: string,
  args: Readonly<Record<string, unknown>>,
  { signal, timeoutMs, onProgress }: TaskCallOptions,
): Promise<McpResult> {
  const params = { name, arguments: { ...args }, task: { ttl: TTL_MS } };
  const made = await request('tools/call', params, signal);
  const first = taskOf(isObject(made) ? made.task : undefined);
  const { taskId } = first;
  try {
    const shown = (message: string, progress: number): void => onProgress?.({ progress, message });
    await ended(request, first, { signal, timeoutMs, shown });
    // The request waits for the end itself, and delivers the task's questions meanwhile.
    return (await request('tasks/result', { taskId }, signal)) as McpResult;
  } catch (thrown) {
    const failure = signal.aborted ? thrown : failureOf(thrown, timeoutMs);
    if (signal.aborted || (failure as { code?: unknown }).code === 'timeout') {
      await request('tasks/cancel', { taskId }, AbortSignal.timeout(CANCEL_MS)).catch(() => {});
    }
    throw failure;
  }
}

/** Resolves when the task has ended, or asks for something. */
async function ended(
  request: TaskRequest,
  first: Task,
  { signal, timeoutMs, shown }: { signal: AbortSignal; timeoutMs: number; shown: (m: string, at: number) => void },
): Promise<void> {
  let changedAt = performance.now();
  let seen = '';
  let changes = 0;
  for (let task = first; ; ) {
    const { status, statusMessage = '' } = task;
    if (status !== 'working') return;
    if (seen !== statusMessage) {
      seen = statusMessage;
      changes += 1;
      changedAt = performance.now();
      shown(statusMessage, changes);
    }
    if (performance.now() - changedAt > timeoutMs) throw late(timeoutMs);
    await sleep(pollDelay(task.pollInterval), signal);
    signal.throwIfAborted();
    task = taskOf(await request('tasks/get', { taskId: task.taskId }, signal));
  }
}

/** Parses a task. Fails with `schema_violation` for any other value. */
function taskOf(value: unknown): Task {
  if (isObject(value) && typeof value.taskId === 'string' && typeof value.status === 'string') {
    return value as unknown as Task;
  }
  throw fail('schema_violation', 'the server should have replied with a task');
}

const late = (timeoutMs: number): Error =>
  fail('timeout', `the task has not changed within ${timeoutMs} ms`, { may_have_run: true });

/** Returns the failure of a task: an error of the protocol belongs to the task; a lost request may have run. */
function failureOf(thrown: unknown, timeoutMs: number): unknown {
  const { code } = thrown as { readonly code?: unknown };
  if (typeof code === 'number' || code === 'timeout' || code === 'schema_violation') return thrown;
  if (code === 'REQUEST_TIMEOUT') return late(timeoutMs);
  const { message } = asError(thrown);
  return fail(
    'connection_lost',
    `${message}; the tool may or may not have taken effect`,
    { may_have_run: true },
    thrown,
  );
}
