/**
 * Options of an orchestrator, and its interface for operators: the command line and other clients through session RPC, programs
 * through `handfast/fleet`.
 */

import type { Pairs } from '../../base/bandits/stored.ts';
import type { Closable } from '../../base/lifetime.ts';
import type { Log } from '../../base/log.ts';
import type { ShareUsage } from '../../base/share-usage.ts';
import type { Timer } from '../../base/timer-queue.ts';
import type { Journal } from '../../journal/journal.ts';
import type { TaskAnswer, TaskQuestion, TaskResult } from '../../protocol/fleet.ts';
import type { BlockedPolicy } from '../blocked-policy.ts';
import type { Binding, BusOutage, DispatchMode, OrchestratorBus } from '../bus/peer.ts';
import type { Announced } from '../messages/decoded.ts';
import type { PolicyHook } from '../route/hooks.ts';
import type { Explanation, Profile, RoutePolicy } from '../route/profile.ts';
import type { SubmitterLimits } from './submitter-shares.ts';
import type { Submitter, TaskQuery, TaskRecord, TaskSpec, TaskStore } from './task.ts';

export interface OrchestratorOptions {
  readonly name: string;
  readonly store: TaskStore;
  /** The events of each task, a stream `task:<number>:<task_id>` each; for `task watch` and other clients. */
  readonly journal: Journal;
  readonly buses: readonly OrchestratorBus[];
  readonly routePolicy?: Partial<RoutePolicy>;
  readonly blockedPolicy?: Partial<BlockedPolicy>;
  readonly hooks?: readonly PolicyHook[];
  /** Outcomes of tasks choose among workers within 50 points of the best score. Default false. */
  readonly learn?: boolean;
  /** Store of the outcomes that `learn` uses. Default: in memory, so that it ends with the process. */
  readonly learnedIn?: Pairs;
  /** Form of a task for plain peers: hints in the text (default), or the bare brief. */
  readonly inlineHints?: boolean;
  /** Seconds a lease holds. Default 45; renewed every 15. */
  readonly leaseTtlS?: number;
  /** Longest turn of a peer that sends no progress, seconds: its lease. Default 3,600. */
  readonly plainPeerTimeoutS?: number;
  /** Folders of workers' repositories this machine can see, by peer id: for verifying `done`. */
  readonly repositories?: ReadonlyMap<string, string>;
  /** Looks for the repository of a worker that joined and is not named there; undefined: it is not on this machine. */
  readonly findRepository?: (worker: string) => Promise<string | undefined>;
  /**
   * The session in which a task that its worker has started can be watched; undefined: none. Its events name it. Never rejects.
   * Default: tasks have no sessions.
   */
  readonly sessionOf?: (task: TaskRecord) => Promise<string | undefined>;
  /** Asks a person; default: questions of workers wait in `questions` for `answer`. */
  readonly askUser?: (
    question: TaskQuestion,
    task: TaskRecord,
    signal: AbortSignal,
  ) => Promise<Omit<TaskAnswer, 'type' | 'protocol_version' | 'envelope'>>;
  /**
   * Longest time that workers may take to join after the start before a task is refused because none meets its requirements,
   * milliseconds. Default 5,000.
   */
  readonly joinGraceMs?: number;
  /** Maximum number of tasks that have not ended. Default 100,000; past it `over_capacity`. */
  readonly maxOpenTasks?: number;
  /**
   * Shares of submitters that do not operate the fleet. Default: they have none.
   * @internal
   */
  readonly submitterLimits?: SubmitterLimits;
  /** Retention of ended tasks, milliseconds, and their maximum number. Default 30 days, 100,000. */
  readonly retainMs?: number;
  readonly maxTasks?: number;
  readonly log: Log;
  readonly now?: () => number;
  readonly monotonic?: () => number;
  /**
   * Calls `run` once after a number of milliseconds; returns the function that cancels it. Default: the timers of the process.
   */
  readonly timer?: Timer;
  /** Calls `run` when the event loop has served everything else that is due. Default: `setImmediate`. */
  readonly nextTurn?: (run: () => void) => void;
  readonly newId?: () => string;
  /** 0…1, for jitter. */
  readonly random?: () => number;
}

/** A worker as an operator sees it. */
export interface WorkerView {
  readonly peer_id: string;
  readonly binding: Binding;
  readonly address: string;
  /**
   * `ready`, `asleep` (shut down in order), `gone` (connection lost), `unreachable` (never responded), `joining` (has not
   * announced itself yet), `unverified` (never announces itself), `stale` (its profile expired), `draining`, `circuit_open`,
   * `unknown` (its bus carries nothing now), or the reason its executor cannot work: `executor_missing`, `auth_required`.
   */
  readonly status: string;
  /** Time since when its bus carries nothing, epoch milliseconds; null: it works. */
  readonly unknown_since: number | null;
  readonly mode: DispatchMode;
  readonly version: string | null;
  readonly warning: string | null;
  readonly claimed_agent_id: string | null;
  readonly profile: Profile | null;
  readonly announced: Announced | null;
  /** Ids of tasks it has now. */
  readonly tasks: readonly string[];
  readonly last_seen_at: number;
}

/** Everything an operator can do. Every method fails with `not_found` for a task or worker that is not there. */
export interface Orchestrator extends Closable {
  start(): Promise<void>;
  /**
   * Takes a task; resolves when it is on disk. The same id with the same content returns the existing task. Fails with
   * `duplicate_conflict`, `schema_violation`, `over_capacity`, `denied` (a hook refused it).
   */
  submit(spec: TaskSpec, submitter?: Submitter): Promise<TaskRecord>;
  /** Takes many at once, in one commit; tasks may name each other in `after`. All or none. */
  submitBatch(specs: readonly TaskSpec[], submitter?: Submitter): Promise<readonly TaskRecord[]>;
  get(taskId: string): Promise<TaskRecord>;
  find(query: TaskQuery): Promise<readonly TaskRecord[]>;
  /** Stops it wherever it is. Idempotent; resolves with the record as it is then, which may not have ended yet. */
  cancel(taskId: string, reason?: string): Promise<TaskRecord>;
  /** Tries a parked or ended task again now; `worker`: only there. Fails with `invalid_message` while it is under way. */
  retry(taskId: string, worker?: string): Promise<TaskRecord>;
  /** Ends a parked task for good. */
  drop(taskId: string, reason?: string): Promise<TaskRecord>;
  /** Sends more input for a running task. Fails with `capability_missing` where its worker accepts none. */
  steer(taskId: string, text: string): Promise<void>;
  answer(taskId: string, questionId: string, answer: Pick<TaskAnswer, 'allowed' | 'content' | 'reason'>): Promise<void>;
  /** Resolves with its result when the task has ended, or was parked for an operator; rejects with the signal's reason. */
  result(
    taskId: string,
    signal?: AbortSignal,
  ): Promise<{ readonly record: TaskRecord; readonly result: TaskResult | null }>;
  /** True when it is done and still being verified: `verified` of its record follows. */
  verifying(taskId: string): boolean;
  /** Returns the place where a task would go now, and the reasons. Also for a task that was never submitted. */
  explain(task: string | TaskSpec): Promise<Explanation>;
  workers(): readonly WorkerView[];
  /** Buses that carry nothing now; empty: all work. */
  down(): readonly BusOutage[];
  /** Gives this worker no more tasks (`on` false: tasks again). */
  drain(peerId: string, on?: boolean): Promise<void>;
  /**
   * Returns the usage that submitters have of their shares, by share.
   * @internal
   */
  shares(): Promise<Readonly<Record<string, ShareUsage>>>;
  /** Counts for `fleet top` and metrics. */
  counts(): Readonly<Record<string, number>>;
  /** Accepts no more tasks and leaves the open ones in the store for the next process. Bounded, never rejects. */
  close(): Promise<void>;
}
