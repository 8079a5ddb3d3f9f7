/**
 * The tasks an orchestrator works on: their records in memory, and how these reach the store. Every change goes through the
 * task machine here; what is wanted on disk is written with whatever else changed in the same moment.
 *
 * One write per task is under way at a time, each over the revision of the one before. A record that somebody else has
 * written is let go: two orchestrators on one store never both go on with a task.
 */

import type { Log } from '../../base/log.ts';
import { type Clock, TimerQueue } from '../../base/timer-queue.ts';
import { asError, fail, type HandfastError } from '../../wire/errors.ts';
import type { Stored, TaskRecord, TaskState, TaskStore } from './task.ts';
import type { Advanced, TaskEvent } from './task-events.ts';
import { advance, isEnded } from './task-machine.ts';

/** How long a change that nobody waits for may stay in memory, milliseconds. */
const SOFT_MS = 200;
/** Pause before a store that failed is tried again, milliseconds. */
const RETRY_MS = 1000;

/** A task in memory. */
export interface TrackedTask {
  readonly id: string;
  record: TaskRecord;
  /** Changes since it was taken in, and how many of them are on disk. */
  version: number;
  kept: number;
  revision: number;
  /** Somebody else goes on with it. */
  gone: boolean;
  writing: boolean;
  queued: boolean;
  waiter: PromiseWithResolvers<void> | undefined;
  /** Those who need it in memory although it has ended. */
  pins: number;
  /** Tokens of the attempt under way, as its worker told last. */
  tokensSoFar: number;
  /** Its dispatch is on its way. */
  sending: boolean;
}

export interface LedgerOptions {
  readonly store: TaskStore;
  readonly clock: Clock;
  readonly now: () => number;
  readonly log: Log;
  /** A task has changed; `before` is its record before the event. */
  changed(held: TrackedTask, before: TaskRecord, event: TaskEvent): void;
  /** Somebody else has written a task: it is not ours any more. */
  superseded(held: TrackedTask): void;
  /** A task that ended is on disk and leaves the memory. */
  settled(held: TrackedTask): void;
  /** The store writes again. */
  recovered(): void;
}

const DONE = Promise.resolve();

export class TaskRegistry {
  readonly #options: LedgerOptions;
  readonly #held = new Map<string, TrackedTask>();
  readonly #loading = new Map<string, Promise<TrackedTask | undefined>>();
  readonly #soft: TimerQueue<TrackedTask>;
  readonly #retry: TimerQueue<'retry'>;
  readonly #counts = new Map<TaskState | 'parked', number>();
  #queue: TrackedTask[] = [];
  #writing = 0;
  #idle: PromiseWithResolvers<void> | undefined;
  #open = 0;
  #failure: HandfastError | undefined;

  constructor(options: LedgerOptions) {
    this.#options = options;
    this.#soft = new TimerQueue(options.clock, (held) => void this.save(held));
    this.#retry = new TimerQueue(options.clock, () => this.#again());
  }

  /** Tasks that have not ended. */
  get openCount(): number {
    return this.#open;
  }

  /** Why the store cannot be written at present. */
  get failure(): HandfastError | undefined {
    return this.#failure;
  }

  /** Open tasks by state, and how many of them are parked. */
  get counts(): ReadonlyMap<TaskState | 'parked', number> {
    return this.#counts;
  }

  get(taskId: string): TrackedTask | undefined {
    return this.#held.get(taskId);
  }

  all(): IterableIterator<TrackedTask> {
    return this.#held.values();
  }

  /** A new task; `save` keeps it. */
  add(record: TaskRecord): TrackedTask {
    return this.#take(record, 0, 1);
  }

  /** A task out of the store. */
  adopt({ record, revision }: Stored): TrackedTask {
    return this.#held.get(record.task_id) ?? this.#take(record, revision, 0);
  }

  /** The task, out of the store where it has ended. `release` it when done. */
  async pin(taskId: string): Promise<TrackedTask | undefined> {
    const held = this.#held.get(taskId) ?? (await this.#load(taskId));
    if (held !== undefined) held.pins += 1;
    return held;
  }

  release(held: TrackedTask): void {
    held.pins -= 1;
    this.#settle(held);
  }

  /** Applies an event. Nothing is written by it; the change is on disk soon, or when `save` resolves. */
  apply(held: TrackedTask, event: TaskEvent): Advanced {
    const before = held.record;
    const advanced = advance(before, event, this.#options.now());
    if (advanced.record === before) return advanced;
    this.#replace(held, advanced.record);
    this.#options.changed(held, before, event);
    return advanced;
  }

  /** Gives a new task that could not be kept another number. */
  renumber(held: TrackedTask, number: number): void {
    this.#replace(held, { ...held.record, number });
  }

  /** Resolves when the record as it is now is on disk. Rejects with `superseded`, `disk_full`, or what the store says. */
  save(held: TrackedTask): Promise<void> {
    if (held.gone) return Promise.reject(fail('superseded', `task ${held.id} was taken over`, { task_id: held.id }));
    if (held.version === held.kept) return DONE;
    if (held.waiter === undefined) {
      held.waiter = Promise.withResolvers();
      // Who does not wait for it is not told.
      held.waiter.promise.catch(() => {});
    }
    if (!held.queued && !held.writing) {
      held.queued = true;
      if (this.#queue.length === 0) queueMicrotask(this.#flush);
      this.#queue.push(held);
    }
    return held.waiter.promise;
  }

  /** Forgets a task that was never kept. */
  drop(held: TrackedTask): void {
    held.gone = true;
    this.#soft.clear(held);
    if (this.#held.delete(held.id)) this.#count(held.record, -1);
  }

  /** Writes what was not written yet. Resolves when that is done, or has failed. */
  async flush(): Promise<void> {
    for (const held of this.#held.values()) if (held.version !== held.kept) void this.save(held);
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
    const held: TrackedTask = {
      id: record.task_id,
      record,
      version,
      kept: 0,
      revision,
      gone: false,
      writing: false,
      queued: false,
      waiter: undefined,
      pins: 0,
      tokensSoFar: 0,
      sending: false,
    };
    this.#held.set(held.id, held);
    this.#count(record, 1);
    return held;
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

  #replace(held: TrackedTask, record: TaskRecord): void {
    this.#count(held.record, -1);
    held.record = record;
    held.version += 1;
    this.#count(record, 1);
    if (this.#soft.at(held) === undefined) this.#soft.set(held, this.#options.clock.monotonic() + SOFT_MS);
  }

  #count(record: TaskRecord, by: 1 | -1): void {
    if (isEnded(record)) return;
    this.#open += by;
    this.#counts.set(record.state, (this.#counts.get(record.state) ?? 0) + by);
    if (record.parked) this.#counts.set('parked', (this.#counts.get('parked') ?? 0) + by);
  }

  readonly #flush = (): void => {
    const queue = this.#queue;
    this.#queue = [];
    for (const held of queue) {
      held.queued = false;
      this.#write(held);
    }
  };

  #write(held: TrackedTask): void {
    const { waiter, version, record } = held;
    if (held.gone || held.version === held.kept) {
      held.waiter = undefined;
      waiter?.resolve();
      return this.#rest();
    }
    held.waiter = undefined;
    held.writing = true;
    this.#writing += 1;
    this.#soft.clear(held);
    this.#options.store.put(record, held.revision).then(
      (revision) => this.#wrote(held, revision, version, waiter),
      (thrown: unknown) => this.#failed(held, asError(thrown), waiter),
    );
  }

  #wrote(held: TrackedTask, revision: number, version: number, waiter: TrackedTask['waiter']): void {
    held.writing = false;
    held.revision = revision;
    held.kept = version;
    this.#writing -= 1;
    if (this.#failure !== undefined) {
      this.#failure = undefined;
      this.#options.recovered();
    }
    waiter?.resolve();
    if (held.waiter !== undefined) this.#write(held);
    else this.#settle(held);
    this.#rest();
  }

  #failed(held: TrackedTask, error: HandfastError, waiter: TrackedTask['waiter']): void {
    held.writing = false;
    this.#writing -= 1;
    const next = held.waiter;
    held.waiter = undefined;
    if (error.code === 'superseded') {
      // A number given twice is no reason to let go of the task.
      if (error.detail.number === undefined) {
        this.drop(held);
        this.#options.superseded(held);
      }
    } else {
      if (this.#failure === undefined) {
        this.#options.log.error('the task store cannot be written', { code: error.code, error: error.message });
      }
      this.#failure = error;
      if (this.#retry.at('retry') === undefined) this.#retry.set('retry', this.#options.clock.monotonic() + RETRY_MS);
    }
    waiter?.reject(error);
    next?.reject(error);
    this.#rest();
  }

  /** One write shows whether the store is back; the others follow it. */
  #again(): void {
    for (const held of this.#held.values()) {
      if (held.version === held.kept) continue;
      this.save(held).then(
        () => {
          for (const other of this.#held.values()) if (other.version !== other.kept) void this.save(other);
        },
        () => {},
      );
      return;
    }
    // Nothing is left to write: the next task will show it.
    this.#failure = undefined;
    this.#options.recovered();
  }

  #settle(held: TrackedTask): void {
    if (!isEnded(held.record) || held.pins > 0 || held.writing || held.version !== held.kept || held.gone) return;
    if (this.#held.delete(held.id)) this.#options.settled(held);
  }

  #rest(): void {
    if (this.#writing > 0 || this.#queue.length > 0) return;
    this.#idle?.resolve();
    this.#idle = undefined;
  }
}
