/**
 * The tasks a worker has accepted and not ended: from the moment they are in the journal to the moment their result is.
 *
 * `worker.ts` decides about acceptance.
 */

import type { Log } from '../../base/log.ts';
import { sleep } from '../../base/sleep.ts';
import type { Clock } from '../../base/timer-queue.ts';
import type { TaskResult } from '../../protocol/fleet.ts';
import { asError } from '../../wire/errors.ts';
import type { DispatchOutcome, Lease, ReplyChannel } from '../bus/reply-channel.ts';
import { refused } from './admission.ts';
import type { Facts } from './facts.ts';
import type { WorkerJournal } from './journal.ts';
import type { Outbox } from './outbox.ts';
import type { TreeOwner } from './repository/tree-owner.ts';
import type { Stop } from './task-report.ts';
import type { TaskRun } from './task-run.ts';

/** A task that was accepted and not started for this time, in milliseconds, is dropped: the bus that accepted it has failed. */
const BEGIN_MS = 60_000;
/** A result that cannot be written is tried again after this. */
const REWRITE_MS = 5000;
/** Time after which to ask again, where the usual length of tasks is unknown, and at most. */
const BUSY_S = 30;

export interface RunningTasksOptions {
  readonly agentId: string;
  readonly journal: WorkerJournal;
  readonly outbox: Outbox;
  readonly facts: Facts;
  readonly owner: TreeOwner;
  readonly log: Log;
  readonly clock: Clock;
  /** A task of this context is about to start. */
  readonly serving: (contextId: string) => void;
  /** The tree may look different now. */
  readonly changed: () => void;
  /** Aborts when the worker stops. */
  readonly signal: AbortSignal;
}

export class RunningTasks {
  readonly #options: RunningTasksOptions;
  readonly #runs = new Map<string, TaskRun>();
  /** Contexts with a turn that runs or is about to, and its task. */
  readonly #contexts = new Map<string, string>();
  /** Tasks that are being stored. */
  readonly #taking = new Map<string, Promise<void>>();
  readonly #idle = new Set<() => void>();
  /** A moving average of how long tasks take, milliseconds. */
  #taskMs = 0;

  constructor(options: RunningTasksOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#runs.size;
  }

  get(taskId: string): TaskRun | undefined {
    return this.#runs.get(taskId);
  }

  all(): Iterable<TaskRun> {
    return this.#runs.values();
  }

  /** Resolves when a task that was accepted is on disk; false: it could not be stored, and was not accepted after all. */
  async isWritten(taskId: string): Promise<boolean> {
    try {
      await this.#taking.get(taskId);
      return true;
    } catch {
      return false;
    }
  }

  /** True while a task of this context is accepted or runs. */
  isBusy(contextId: string): boolean {
    return this.#contexts.has(contextId);
  }

  /** Time after which a task may have ended: the usual length of a task, seconds. */
  get busyS(): number {
    return this.#taskMs === 0 ? BUSY_S : Math.min(BUSY_S, Math.max(1, Math.ceil(this.#taskMs / 1000)));
  }

  /** Stores a task; nothing else can come between the decision and this. Never rejects. */
  async take(run: TaskRun, channel: ReplyChannel, crashes: number): Promise<DispatchOutcome> {
    const { journal, outbox, log, agentId, clock } = this.#options;
    const { taskId, attempt, dispatch, contextId } = run;
    const { context_id, correlation_id, message_id } = dispatch.envelope;
    this.#runs.set(taskId, run);
    this.#contexts.set(contextId, taskId);
    const written = journal.accept({
      taskId,
      attempt,
      digest: dispatch.digest,
      outlet: channel.name,
      crashes,
      about: {
        context_id: context_id ?? null,
        ...(correlation_id !== undefined && { correlation_id }),
        ...(message_id !== undefined && { causation_id: message_id }),
        access: dispatch.access,
      },
    });
    this.#taking.set(taskId, written);
    try {
      await written;
    } catch (thrown) {
      this.#release(run);
      const reason = { code: 'busy', detail: asError(thrown).message, retryable: true, missing: [] };
      return { kind: 'refused', result: refused({ dispatch, agentId, busyS: BUSY_S }, reason) };
    } finally {
      this.#taking.delete(taskId);
    }
    // Removes the result of an earlier dispatch that numbered no attempts and was not started.
    outbox.remove(taskId, attempt);
    const abandon = async (): Promise<void> => {
      cancelTimer();
      if (!run.claim()) return;
      await journal.forget(taskId, attempt).catch(() => {});
      this.#release(run);
    };
    const cancelTimer = clock.timer(() => {
      log.warn('accepted task was never started; dropped', { task_id: taskId });
      void abandon();
    }, BEGIN_MS);
    const begin = (lease: Lease): void => {
      cancelTimer();
      if (run.claim()) void this.#perform(run, channel, lease);
    };
    return { kind: 'accepted', start: begin, abandon };
  }

  /** Stops all of them; a task that was not started is reported as not started. */
  stop(stop: Stop): void {
    for (const run of this.#runs.values()) {
      run.stop(stop);
      if (run.claim()) void this.#keep(run, run.notStarted(stop), undefined);
    }
  }

  /** Resolves when no task runs. */
  async whenIdle(): Promise<void> {
    while (this.#runs.size > 0) {
      await new Promise<void>((resolve) => {
        const done = (): void => {
          this.#idle.delete(done);
          resolve();
        };
        this.#idle.add(done);
      });
    }
  }

  async #perform(run: TaskRun, origin: ReplyChannel, lease: Lease): Promise<void> {
    const { facts, owner, clock, serving, changed } = this.#options;
    const { dispatch, stopping } = run;
    if (stopping !== undefined) return this.#keep(run, run.notStarted(stopping), origin, lease);
    const context = dispatch.envelope.context_id ?? null;
    const startedAt = clock.monotonic();
    if (context !== null) serving(context);
    const writes = dispatch.access === 'write' && !dispatch.worktree && !facts.noRepository;
    if (writes) owner.begin(context, facts.now().repo_state?.clean ?? true);
    const { result, changes } = await run.run(lease);
    if (writes) {
      owner.end(context, changes?.clean ?? false);
      facts.treeChanged();
    }
    this.#taskMs += (clock.monotonic() - startedAt - this.#taskMs) / 8;
    await this.#keep(run, result, origin, lease);
    if (writes) changed();
  }

  /** Stores a result, frees its slot, and sends it. Never rejects. */
  async #keep(run: TaskRun, result: TaskResult, origin: ReplyChannel | undefined, lease?: Lease): Promise<void> {
    const { outbox } = this.#options;
    const { taskId, attempt, channelName } = run;
    const kept = await this.#journaled(run, result);
    this.#release(run);
    if (kept) await outbox.add(channelName, taskId, attempt, result, outbox.channel(channelName) ? undefined : origin);
    await lease?.release?.().catch(() => {});
  }

  /** True when it is on disk; false when the other end stored it though the journal could not. */
  async #journaled({ taskId, attempt, channelName }: TaskRun, result: TaskResult): Promise<boolean> {
    const { journal, outbox, log, signal, clock } = this.#options;
    for (;;) {
      try {
        await journal.end(taskId, attempt, result);
        return true;
      } catch (thrown) {
        log.error('result could not be stored', { task_id: taskId, error: asError(thrown).message });
      }
      try {
        const now = outbox.channel(channelName);
        if (now !== undefined) {
          await now.deliverResult(result);
          return false;
        }
      } catch {
        // Neither stored nor delivered: it stays in memory, and both are tried again.
      }
      if (signal.aborted) return false;
      await sleep(REWRITE_MS, signal, clock.timer);
    }
  }

  #release(run: TaskRun): void {
    run.budget.end();
    if (this.#runs.get(run.taskId) === run) this.#runs.delete(run.taskId);
    if (this.#contexts.get(run.contextId) === run.taskId) this.#contexts.delete(run.contextId);
    if (this.#runs.size === 0) for (const done of [...this.#idle]) done();
  }
}
