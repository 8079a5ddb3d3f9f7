/**
 * The tasks of the fleet of this process, for a submitter that acts for a principal: submits them, finds them again, follows
 * and cancels them. Tasks of other principals do not exist for it.
 */
import { orAborted } from '../../base/race.ts';
import type { Orchestrator } from '../../fleet/orchestrator/orchestrator-options.ts';
import type { TaskRecord, TaskSpec } from '../../fleet/orchestrator/task.ts';
import { taskStream } from '../../fleet/orchestrator/task-journal.ts';
import type { Journal } from '../../journal/journal.ts';
import { asError } from '../../wire/errors.ts';

/** An event of a task. */
export interface TaskNews {
  readonly kind: string;
  readonly body: Readonly<Record<string, unknown>>;
}

export interface FleetTasks {
  /** Fails as the orchestrator does. */
  submit(spec: TaskSpec, principal: string): Promise<TaskRecord>;
  /** Returns the task; undefined: this principal has no such task. */
  find(taskId: string, principal: string): Promise<TaskRecord | undefined>;
  cancel(taskId: string, reason: string): Promise<void>;
  /** Fails where its worker accepts no input. */
  steer(taskId: string, text: string): Promise<void>;
  /**
   * Calls `news` with the past and future events of a task, and resolves with its record when it has ended and was verified, or
   * was parked. Rejects with the signal's reason, and with `interrupted` when the fleet stops.
   */
  follow(task: TaskRecord, signal: AbortSignal, news: (one: TaskNews) => void): Promise<TaskRecord>;
}

/** Returns the tasks of this orchestrator. */
export function fleetTasks(orchestrator: Orchestrator, journal: Journal): FleetTasks {
  return {
    submit: (spec, name) => orchestrator.submit(spec, { name, ownOnly: true }),
    async find(taskId, principal) {
      const record = await orchestrator.get(taskId).catch((thrown: unknown) => {
        if (asError(thrown).code === 'not_found') return undefined;
        throw thrown;
      });
      return record?.submitter === principal ? record : undefined;
    },
    cancel: async (taskId, reason) => void (await orchestrator.cancel(taskId, reason)),
    steer: (taskId, text) => orchestrator.steer(taskId, text),
    async follow(task, signal, news) {
      const over = new AbortController();
      const verified = Promise.withResolvers<void>();
      const reading = read(journal, taskStream(task), AbortSignal.any([signal, over.signal]), (one) => {
        if (one.kind === 'verified') verified.resolve();
        news(one);
      }).finally(verified.resolve);
      try {
        const { record } = await orchestrator.result(task.task_id, signal);
        if (!orchestrator.verifying(task.task_id)) return record;
        await orAborted(verified.promise, signal);
        return await orchestrator.get(task.task_id);
      } finally {
        over.abort();
        await reading;
      }
    },
  };
}

/** Reads a stream until the signal aborts. Never rejects: the record says how the task ended. */
async function read(journal: Journal, stream: string, signal: AbortSignal, news: (one: TaskNews) => void) {
  try {
    for await (const entry of journal.follow(stream, 0, signal)) {
      if (!('body' in entry)) continue;
      const { kind, body } = entry;
      news({ kind, body: (typeof body === 'string' ? JSON.parse(body) : body) as TaskNews['body'] });
    }
  } catch {
    // The signal aborted, or the journal is closed.
  }
}
