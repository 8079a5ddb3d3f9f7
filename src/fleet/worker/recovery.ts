/**
 * The first step of a worker: it finds the tasks that an earlier process of it accepted and did not end, ends the processes
 * they left running, and reports them. It does not continue them by itself.
 *
 * Recovery runs before any task is accepted.
 * @see docs/fleet.md#failure-semantics
 */
import { posix } from 'node:path';
import { readableName } from '../../base/git-output.ts';
import type { Log } from '../../base/log.ts';
import type { Envelope, TaskResult } from '../../protocol/fleet.ts';
import { asError } from '../../wire/errors.ts';
import { type Body, resultMessage } from '../messages/encode.ts';
import type { JournaledTask, WorkerJournal } from './journal.ts';
import { endGroup } from './process-identity.ts';
import type { RepositoryReader } from './repository/git.ts';

/** A brief during which the worker died this often is not tried again. */
export const MAX_CRASHES = 2;
/** Paths of a dirty tree that are named. */
const MAX_PATHS = 200;

export interface RecoveryOptions {
  readonly journal: WorkerJournal;
  readonly repository: Pick<RepositoryReader, 'treeState' | 'placeIn'>;
  readonly agentId: string;
  readonly log: Log;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly newId: () => string;
}

/** Reports the tasks that an earlier process left; resolves when the reports are on disk. They wait for delivery then. */
export async function recover(options: RecoveryOptions): Promise<void> {
  const tasks = options.journal.unfinished();
  await Promise.all(
    tasks.map((task) => (task.state === 'accepted' ? notStarted(task, options) : interrupted(task, options))),
  );
}

/** Reports a task that was accepted and not started: the orchestrator may send it anywhere. */
async function notStarted(task: JournaledTask, options: RecoveryOptions): Promise<void> {
  const { journal, log } = options;
  log.warn('accepted task was not started before the worker ended', { task_id: task.taskId });
  const detail = 'the worker restarted before the task was started';
  const body: Body<TaskResult> = {
    task_id: task.taskId,
    status: 'blocked',
    tokens_spent: 0,
    next_steps: [],
    blocked_reason: `draining: ${detail}`,
    blocked: { code: 'draining', retryable: true },
  };
  await journal.end(task.taskId, task.attempt, resultMessage(body, envelopeOf(task, options)), task.crashes);
}

/** Reports a task that was started; its progress is unknown. */
async function interrupted(task: JournaledTask, options: RecoveryOptions): Promise<void> {
  const { journal, log } = options;
  const { taskId, processes } = task;
  const crashes = task.crashes + 1;
  const ended = await Promise.all(processes.map((process) => endGroup(process)));
  const poisoned = crashes >= MAX_CRASHES;
  log.warn('worker ended while it ran a task', {
    task_id: taskId,
    crashes,
    ended: ended.filter(Boolean).length,
  });
  const body: Body<TaskResult> = {
    task_id: taskId,
    status: 'error',
    error_summary: poisoned ? 'crashed the worker twice' : 'worker restarted during the task',
    next_steps: poisoned
      ? ['Find out what in this task ends the worker before it is tried again.']
      : ['Look at what the task left behind, then decide whether it is to be run again.'],
    tokens_spent: null,
    usage: { source: 'unknown' },
    artifacts: { crashes, ...(await leftBehind(task, options)) },
  };
  await journal.end(taskId, task.attempt, resultMessage(body, envelopeOf(task, options)), crashes);
}

/** Returns the tree as the task left it. */
async function leftBehind(
  { about, taskId }: JournaledTask,
  { repository, log }: RecoveryOptions,
): Promise<Record<string, unknown>> {
  const { cwd, base_commit, worktree } = about;
  if (cwd === undefined) return {};
  try {
    const tree = await repository.treeState(cwd);
    if (tree === null || tree.bare) return {};
    const { branch, head, clean, dirty } = tree;
    const { top, prefix } = await repository.placeIn(cwd);
    return {
      ...(base_commit !== undefined && { base_commit }),
      head_commit: head,
      branch,
      clean,
      // Not all of it need be this task's: others may have worked in the same folder.
      dirty_files: dirty.slice(0, MAX_PATHS).map((path) => readableName(posix.relative(prefix, path))),
      ...(dirty.length > MAX_PATHS && { dirty_files_count: dirty.length }),
      ...(worktree === true && { worktree: top }),
    };
  } catch (thrown) {
    log.warn('tree that a task left could not be read', { task_id: taskId, error: asError(thrown).message });
    return {};
  }
}

function envelopeOf({ about, attempt }: JournaledTask, { agentId, now, newId }: RecoveryOptions): Envelope {
  const { context_id, correlation_id, causation_id } = about;
  return {
    message_id: newId(),
    ...(context_id !== null && { context_id }),
    ...(correlation_id !== undefined && { correlation_id }),
    ...(causation_id !== undefined && { causation_id }),
    sent_at: new Date(now()).toISOString(),
    sender: agentId,
    attempt,
  };
}
