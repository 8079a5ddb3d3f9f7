/**
 * The tasks an orchestrator works on: their records in memory, and the writing of these to the store. Every change goes through
 * the task machine here; a change that is wanted on disk is written with all other changes of the same moment.
 *
 * One write per task is under way at a time, each over the revision of the one before. A record that another orchestrator has
 * written is dropped here: two orchestrators on one store never both continue a task.
 */

import type { Log } from '../../base/log.ts';
import { type Clock, TimerQueue } from '../../base/timer-queue.ts';
import { asError, fail, type HandfastError } from '../../wire/errors.ts';
import type { Stored, TaskRecord, TaskState, TaskStore } from './task.ts';
import type { Advanced, TaskEvent } from './task-events.ts';
import { advance, isEnded } from './task-machine.ts';

/** Longest time that a change without a waiting caller may stay in memory, milliseconds. */
const SOFT_MS = 200;
/** Pause before a store that failed is tried again, milliseconds. */
const RETRY_MS = 1000;

/** A task in memory. */
export interface TrackedTask {
  readonly id: string;
  record: TaskRecord;
  /** Number of changes since it was loaded, and of those on disk. */
  version: number;
  stored: number;
  revision: number;
  /** Another orchestrator took it over, or it was never stored. */
  superseded: boolean;
  writing: boolean;
  queued: boolean;
  waiter: PromiseWithResolvers<void> | undefined;
  /** Callers that need it in memory although it has ended. */
  pins: number;
  /** Tokens of the attempt under way, as last reported. */
  tokensSoFar: number;
  /** Its dispatch is on its way. */
  sending: boolean;
}

export interface TaskRegistryOptions {
  readonly store: Pick<TaskStore, 'get' | 'put'>;
  readonly clock: Clock;
  readonly now: () => number;
  readonly log: Log;
  /** Called when a task has changed; `before` is its record before the event. */
  changed(tracked: TrackedTask, before: TaskRecord, event: TaskEvent): void;
  /** Called when another orchestrator has written a task: it now belongs to that one. */
  superseded(tracked: TrackedTask): void;
  /** Called when a task that ended is on disk and leaves the memory. */
  settled(tracked: TrackedTask): void;
  /** Called when the store writes again. */
  recovered(): void;
}

const DONE = Promise.resolve();

export class TaskRegistry {
  readonly #options: TaskRegistryOptions;
  readonly #tracked = new Map<string, TrackedTask>();
  readonly #loading = new Map<string, Promise<TrackedTask | undefined>>();
  readonly #soft: TimerQueue<TrackedTask>;
  readonly #retry: TimerQueue<'retry'>;
  readonly #counts = new Map<TaskState | 'parked', number>();
  #queue: TrackedTask[] = [];
  #writing = 0;
  #idle: PromiseWithResolvers<void> | undefined;
  #open = 0;
  readonly #openBySubmitter = new Map<string, number>();
  #failure: HandfastError | undefined;

  constructor(options: TaskRegistryOptions) {
    this.#options = options;
    this.#soft = new TimerQueue(options.clock, (tracked) => void this.save(tracked));
    this.#retry = new TimerQueue(options.clock, () => this.#again());
  }

  /** Tasks that have not ended. */
  get openCount(): number {
    return this.#open;
  }

  /** The same by submitter. */
  get openBySubmitter(): ReadonlyMap<string, number> {
    return this.#openBySubmitter;
  }

  /** Reason why the store cannot be written at present. */
  get failure(): HandfastError | undefined {
    return this.#failure;
  }

  /** Number of open tasks by state, and of parked ones. */
  get counts(): ReadonlyMap<TaskState | 'parked', number> {
    return this.#counts;
  }

  get(taskId: string): TrackedTask | undefined {
    return this.#tracked.get(taskId);
  }

  all(): IterableIterator<TrackedTask> {
    return this.#tracked.values();
  }

  /** Adds a new task; `save` stores it. */
  add(record: TaskRecord): TrackedTask {
    return this.#take(record, 0, 1);
  }

  /** Adds a task out of the store. */
  adopt({ record, revision }: Stored): TrackedTask {
    return this.#tracked.get(record.task_id) ?? this.#take(record, revision, 0);
  }

  /** Returns the task, out of the store where it has ended. `release` it when done. */
  async pin(taskId: string): Promise<TrackedTask | undefined> {
    const tracked = this.#tracked.get(taskId) ?? (await this.#load(taskId));
    if (tracked !== undefined) tracked.pins += 1;
    return tracked;
  }

  release(tracked: TrackedTask): void {
    tracked.pins -= 1;
    this.#settle(tracked);
  }

  /** Applies an event without writing it; the change is on disk soon, or when `save` resolves. */
  apply(tracked: TrackedTask, event: TaskEvent): Advanced {
    const before = tracked.record;
    const advanced = advance(before, event, this.#options.now());
    if (advanced.record === before) return advanced;
    this.#replace(tracked, advanced.record);
    this.#options.changed(tracked, before, event);
    return advanced;
  }

  /** Gives another number to a new task that could not be stored. */
  renumber(tracked: TrackedTask, number: number): void {
    this.#replace(tracked, { ...tracked.record, number });
  }

  /** Resolves when the current record is on disk. Rejects with `superseded`, `disk_full`, or as the store rejects. */
  save(tracked: TrackedTask): Promise<void> {
    if (tracked.superseded)
      return Promise.reject(
        fail('superseded', `another orchestrator took over task ${tracked.id}`, { task_id: tracked.id }),
      );
    if (tracked.version === tracked.stored) return DONE;
    if (tracked.waiter === undefined) {
      tracked.waiter = Promise.withResolvers();
      // A rejection that no caller waits for is no unhandled one.
      tracked.waiter.promise.catch(() => {});
    }
    if (!tracked.queued && !tracked.writing) {
      tracked.queued = true;
      if (this.#queue.length === 0) queueMicrotask(this.#flush);
      this.#queue.push(tracked);
    }
    return tracked.waiter.promise;
  }

  /** Removes a task that was never stored. */
  drop(tracked: TrackedTask): void {
    tracked.superseded = true;
    this.#soft.clear(tracked);
    if (this.#tracked.delete(tracked.id)) this.#count(tracked.record, -1);
  }

  /** Writes the records that were not written yet. Resolves when that is done, or has failed. */
  async flush(): Promise<void> {
    for (const tracked of this.#tracked.values()) if (tracked.version !== tracked.stored) void this.save(tracked);
    while (this.#writing > 0 || this.#queue.length > 0) {
      this.#idle ??= Promise.withResolvers();
      await this.#idle.promise;
    }
  }

  stop(): void {
    this.#soft.stop();
    this.#retry.stop();
  }

  #take(record: TaskRecord, revision: number, version: number): TrackedTask {
    const tracked: TrackedTask = {
      id: record.task_id,
      record,
      version,
      stored: 0,
      revision,
      superseded: false,
      writing: false,
      queued: false,
      waiter: undefined,
      pins: 0,
      tokensSoFar: 0,
      sending: false,
    };
    this.#tracked.set(tracked.id, tracked);
    this.#count(record, 1);
    return tracked;
  }

  #load(taskId: string): Promise<TrackedTask | undefined> {
    const loading = this.#loading.get(taskId);
    if (loading !== undefined) return loading;
    const load = this.#options.store
      .get(taskId)
      .then((stored) => (stored === undefined ? undefined : this.adopt(stored)))
      .finally(() => this.#loading.delete(taskId));
    this.#loading.set(taskId, load);
    return load;
  }

  #replace(tracked: TrackedTask, record: TaskRecord): void {
    this.#count(tracked.record, -1);
    tracked.record = record;
    tracked.version += 1;
    this.#count(record, 1);
    if (this.#soft.at(tracked) === undefined) this.#soft.set(tracked, this.#options.clock.monotonic() + SOFT_MS);
  }

  #count(record: TaskRecord, by: 1 | -1): void {
    if (isEnded(record)) return;
    this.#open += by;
    if (record.submitter !== undefined) this.#countSubmitter(record.submitter, by);
    this.#counts.set(record.state, (this.#counts.get(record.state) ?? 0) + by);
    if (record.parked) this.#counts.set('parked', (this.#counts.get('parked') ?? 0) + by);
  }

  #countSubmitter(submitter: string, by: 1 | -1): void {
    const open = (this.#openBySubmitter.get(submitter) ?? 0) + by;
    if (open === 0) this.#openBySubmitter.delete(submitter);
    else this.#openBySubmitter.set(submitter, open);
  }

  readonly #flush = (): void => {
    const queue = this.#queue;
    this.#queue = [];
    for (const tracked of queue) {
      tracked.queued = false;
      this.#write(tracked);
    }
  };

  #write(tracked: TrackedTask): void {
    const { waiter, version, record } = tracked;
    if (tracked.superseded || tracked.version === tracked.stored) {
      tracked.waiter = undefined;
      waiter?.resolve();
      return this.#rest();
    }
    tracked.waiter = undefined;
    tracked.writing = true;
    this.#writing += 1;
    this.#soft.clear(tracked);
    this.#options.store.put(record, tracked.revision).then(
      (revision) => this.#wrote(tracked, revision, version, waiter),
      (thrown: unknown) => this.#failed(tracked, asError(thrown), waiter),
    );
  }

  #wrote(tracked: TrackedTask, revision: number, version: number, waiter: TrackedTask['waiter']): void {
    tracked.writing = false;
    tracked.revision = revision;
    tracked.stored = version;
    this.#writing -= 1;
    if (this.#failure !== undefined) {
      this.#failure = undefined;
      this.#options.recovered();
    }
    waiter?.resolve();
    if (tracked.waiter !== undefined) this.#write(tracked);
    else this.#settle(tracked);
    this.#rest();
  }

  #failed(tracked: TrackedTask, error: HandfastError, waiter: TrackedTask['waiter']): void {
    tracked.writing = false;
    this.#writing -= 1;
    const next = tracked.waiter;
    tracked.waiter = undefined;
    if (error.code === 'superseded') {
      // A number given twice is no reason to drop the task.
      if (error.detail.number === undefined) {
        this.drop(tracked);
        this.#options.superseded(tracked);
      }
    } else {
      if (this.#failure === undefined) {
        this.#options.log.error('task store cannot be written', { code: error.code, error: error.message });
      }
      this.#failure = error;
      if (this.#retry.at('retry') === undefined) this.#retry.set('retry', this.#options.clock.monotonic() + RETRY_MS);
    }
    waiter?.reject(error);
    next?.reject(error);
    this.#rest();
  }

  /** Tries the store again: one write shows whether it is back; the others follow it. */
  #again(): void {
    for (const tracked of this.#tracked.values()) {
      if (tracked.version === tracked.stored) continue;
      this.save(tracked).then(
        () => {
          for (const other of this.#tracked.values()) if (other.version !== other.stored) void this.save(other);
        },
        () => {},
      );
      return;
    }
    // Nothing is left to write: the next task will show it.
    this.#failure = undefined;
    this.#options.recovered();
  }

  #settle(tracked: TrackedTask): void {
    if (
      !isEnded(tracked.record) ||
      tracked.pins > 0 ||
      tracked.writing ||
      tracked.version !== tracked.stored ||
      tracked.superseded
    )
      return;
    if (this.#tracked.delete(tracked.id)) this.#options.settled(tracked);
  }

  #rest(): void {
    if (this.#writing > 0 || this.#queue.length > 0) return;
    this.#idle?.resolve();
    this.#idle = undefined;
  }
}
