/**
 * A task as the orchestrator stores it, and the contract of task stores. Names of members follow the wire.
 *
 * States and their changes are in `task-machine.ts`; `store-sqlite.ts` and `bus/nats/` store records.
 */
import type * as schemas from '../../protocol/fleet-records.schema.ts';
import type { Wire } from '../../wire/schema.ts';

/** State of a task. One that waits for an operator is `blocked` or `lost` with `parked` set. */
export type TaskState = Wire<typeof schemas.TaskState>;
/** The request. All members but the brief may be left out. */
export type TaskSpec = Wire<typeof schemas.TaskSpec>;
/** One try at a task. */
export type Attempt = Wire<typeof schemas.Attempt>;
/** A result that came when it no longer counted; stored and shown. */
export type LateResult = Wire<typeof schemas.LateResult>;
/** A task, whole. Plain JSON. */
export type TaskRecord = Wire<typeof schemas.TaskRecord>;

/** A record with the number its store gives to its present form. */
export interface Stored {
  readonly record: TaskRecord;
  readonly revision: number;
}

/** The submitter of a task. */
export interface Submitter {
  /** Name of the principal; stored with the task. */
  readonly name: string;
  /** True: tasks of others do not exist for it, neither to wait for nor to take a budget from. */
  readonly ownOnly: boolean;
}

/** Filters of `find`. */
export interface TaskQuery {
  readonly states?: readonly TaskState[];
  readonly parked?: boolean;
  readonly batch?: string;
  readonly worker?: string;
  /** Submitted by this principal. */
  readonly submitter?: string;
  /** Numbers below this one: the next page. */
  readonly before?: number;
  /** Default 50, at most 1,000. Newest first. */
  readonly limit?: number;
}

/** Storage of the tasks of a submitter. */
export interface SubmitterUsage {
  readonly submitter: string;
  readonly bytes: number;
  readonly tasks: number;
}

/**
 * Stores task records. `put` is compare-and-set, so that two orchestrators on one store cannot both continue a task.
 * `test/contract/task-store.test.ts` holds every implementation to this.
 */
export interface TaskStore {
  /**
   * Stores a record; resolves with its new revision when it is on disk. Many puts of one moment are one commit.
   * `revision` 0: it must be new. Fails with `superseded` when the stored revision is another one, `disk_full`.
   */
  put(record: TaskRecord, revision: number): Promise<number>;
  get(taskId: string): Promise<Stored | undefined>;
  /** Yields all tasks that have not ended, in order of their number. */
  open(): AsyncIterable<Stored>;
  find(query: TaskQuery): Promise<readonly TaskRecord[]>;
  /** Returns highest number given so far. */
  lastNumber(): Promise<number>;
  /**
   * Removes tasks that ended before this time (epoch milliseconds), and of more than `maxTasks` the oldest; where submitters
   * are counted, those of submitters with more than an equal part.
   */
  prune(before: number, maxTasks: number): Promise<number>;
  /**
   * Returns the storage of the tasks of each submitter; `''` = tasks without one. Absent: this store does not count.
   * @internal
   */
  usage?(): Promise<readonly SubmitterUsage[]>;
  /**
   * Removes the oldest ended tasks of a submitter, until at least `bytes` bytes of them are gone or none is left.
   * @internal
   */
  evict?(submitter: string, bytes: number): Promise<void>;
  close(): Promise<void>;
}
