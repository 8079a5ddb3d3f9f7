/**
 * A task as the orchestrator keeps it, and the contract of whoever keeps it. Names of members follow the wire.
 *
 * States and their changes are in `task-machine.ts`; `store-sqlite.ts` and `bus/nats/` keep records.
 */
import type { Access, Priority, ReplySchema, TaskQuestion, TaskResult } from '../../protocol/fleet.ts';
import type { Explanation } from '../route/profile.ts';

/**
 * `queued → reserved → sent → accepted → running → {done | partial | blocked | error | lost | canceled}`. `blocked` and
 * `lost` go back to `queued` by policy, with the next attempt. A task that waits for an operator is `blocked` or `lost` with
 * `parked` set.
 */
export type TaskState =
  | 'queued'
  | 'reserved'
  | 'sent'
  | 'accepted'
  | 'running'
  | 'done'
  | 'partial'
  | 'blocked'
  | 'error'
  | 'lost'
  | 'canceled';

/** What is asked for. All but the brief may be left out. */
export interface TaskSpec {
  /** Chosen by the caller for idempotence; the same id with the same content is the same task. */
  readonly task_id?: string;
  readonly brief: string;
  readonly priority?: Priority;
  readonly reply_schema?: ReplySchema;
  readonly answer_schema?: Readonly<Record<string, unknown>> | null;
  readonly token_budget?: number | null;
  readonly required_mcp?: readonly string[];
  readonly required_capabilities?: readonly string[];
  readonly min_tier?: string | null;
  readonly min_context_window?: number | null;
  readonly access?: Access;
  readonly worktree?: boolean;
  /** RFC 3339. */
  readonly deadline?: string | null;
  readonly context_id?: string | null;
  readonly retry_safe?: boolean;
  /** Tasks that must be `done` first. One that ends otherwise ends this one as `blocked`. */
  readonly after?: readonly string[];
  readonly parent_task_id?: string | null;
  readonly pool?: string | null;
  /** Only this worker. */
  readonly worker?: string | null;
  /** Names the batch it came with. */
  readonly batch?: string | null;
}

/** One try at a task. */
export interface Attempt {
  readonly attempt: number;
  readonly worker: string;
  /** How it was sent. */
  readonly mode: 'structured' | 'inline' | 'plain';
  /** Epoch milliseconds. */
  readonly sent_at: number;
  readonly started_at?: number;
  readonly ended_at?: number;
  /** How it ended: a status, `lost`, `canceled`, `unreachable`, `busy`. */
  readonly outcome?: string;
  readonly reason?: string;
  readonly tokens_spent?: number | null;
  /** Incarnation of the worker when it was sent. */
  readonly incarnation?: string | null;
  /** Commit of the worker's repository when it was sent, where the orchestrator can see it. */
  readonly base_commit?: string;
}

/** A result that came when it no longer counted; kept and shown. */
export interface LateResult {
  readonly received_at: number;
  readonly worker: string;
  readonly attempt: number;
  readonly why: 'old_attempt' | 'after_deadline' | 'already_ended' | 'duplicate';
  readonly result: TaskResult;
}

/** A task, whole. Plain JSON. */
export interface TaskRecord {
  readonly task_id: string;
  /** Order of submission, strictly growing. */
  readonly number: number;
  readonly spec: Required<Omit<TaskSpec, 'task_id'>>;
  readonly state: TaskState;
  /** Waits for an operator: retry, give to somebody, drop. */
  readonly parked: boolean;
  readonly attempt: number;
  readonly worker: string | null;
  readonly attempts: readonly Attempt[];
  readonly reroutes: number;
  readonly retries: number;
  /** Worker → incarnation and seq of the announce it refused under; it is asked again after a newer one. */
  readonly excluded: Readonly<Record<string, string>>;
  /** Epoch milliseconds before which it is not routed. */
  readonly not_before: number | null;
  readonly created_at: number;
  readonly updated_at: number;
  readonly ended_at: number | null;
  /** The latest decision. */
  readonly explanation: Explanation | null;
  /** The accepted result. */
  readonly result: TaskResult | null;
  readonly late_results: readonly LateResult[];
  /** Sum over all attempts; null when one of them is unknown. */
  readonly tokens_spent: number | null;
  /** Tokens of its budget that were given to tasks it is the parent of. */
  readonly granted_tokens?: number;
  readonly verified: 'yes' | 'no' | 'not_checked' | null;
  readonly verification: readonly string[];
  /** Why it will not be tried again by itself. */
  readonly dead_letter: string | null;
  readonly cancel_requested: boolean;
  /** Questions that wait for an answer. */
  readonly questions: readonly TaskQuestion[];
}

/** A record with the number its store gives to its present form. */
export interface Stored {
  readonly record: TaskRecord;
  readonly revision: number;
}

/** What `find` filters by. */
export interface TaskQuery {
  readonly states?: readonly TaskState[];
  readonly parked?: boolean;
  readonly batch?: string;
  readonly worker?: string;
  /** Numbers below this one: the next page. */
  readonly before?: number;
  /** Default 50, at most 1,000. Newest first. */
  readonly limit?: number;
}

/**
 * Keeps task records. `put` is compare-and-set, so that two orchestrators on one store cannot both go on.
 * `test/contract/task-store.test.ts` holds every implementation to this.
 */
export interface TaskStore {
  /**
   * Keeps a record; resolves with its new revision when it is on disk. Many puts of one moment are one commit.
   * `revision` 0: it must be new. Fails with `superseded` when the kept revision is another one, `disk_full`.
   */
  put(record: TaskRecord, revision: number): Promise<number>;
  get(taskId: string): Promise<Stored | undefined>;
  /** All tasks that have not ended for good, in order of their number. */
  open(): AsyncIterable<Stored>;
  find(query: TaskQuery): Promise<readonly TaskRecord[]>;
  /** Highest number given so far. */
  lastNumber(): Promise<number>;
  /** Forgets tasks that ended before this time (epoch milliseconds), and the oldest over `maxTasks`. */
  prune(before: number, maxTasks: number): Promise<number>;
  close(): Promise<void>;
}
