/**
 * A worker's record of its tasks: the accepted ones, the started ones, their ends, and the results that the other end does not
 * have yet. A task is stored before it is acknowledged and marked started before anything runs, so that a worker that was
 * killed can report the tasks it had started and never starts them again by itself.
 *
 * The contract; `journal-sqlite.ts` implements it.
 */
import type { Access, TaskResult } from '../../protocol/fleet.ts';
import type { Refusal } from '../phases/preflight.ts';
import type { ProcessIdentity } from './process-identity.ts';

/** In order. */
export const STATES = ['accepted', 'started', 'ended'] as const;
export type TaskState = (typeof STATES)[number];

/** The part of a dispatch that a report after a crash needs. */
export interface TaskAbout {
  readonly context_id: string | null;
  readonly correlation_id?: string;
  readonly causation_id?: string;
  readonly fence?: number;
  readonly access: Access;
  /** Folder in which it works, once that is known. */
  readonly cwd?: string;
  readonly branch?: string | null;
  readonly base_commit?: string | null;
  readonly worktree?: boolean;
}

/** A task as the journal has it. */
export interface JournaledTask {
  readonly taskId: string;
  readonly digest: string;
  readonly attempt: number;
  readonly state: TaskState;
  /** Name of the reply channel its result goes to. */
  readonly outlet: string;
  readonly about: TaskAbout;
  readonly processes: readonly ProcessIdentity[];
  /** Number of deaths of the worker while it ran. */
  readonly crashes: number;
  readonly result: TaskResult | null;
  readonly delivered: boolean;
}

export type NewTask = Pick<JournaledTask, 'taskId' | 'digest' | 'attempt' | 'outlet' | 'about' | 'crashes'>;

/** A result that waits for its reply channel. */
export interface WaitingResult {
  readonly taskId: string;
  readonly attempt: number;
  readonly outlet: string;
}

/** Reason why an attempt was declined, as it is reported. */
export type DeclineReason = Pick<Refusal, 'code' | 'detail' | 'retryable' | 'missing'>;

/** An attempt that was answered without being accepted. The orchestrator may have given the task to another worker since. */
export interface DeclinedAttempt {
  /** This one, and all before it. */
  readonly attempt: number;
  /** Digest of the dispatch that was answered; null: none had come. */
  readonly digest: string | null;
  /** The reply; null: that the attempt is unknown here. */
  readonly reason: DeclineReason | null;
}

/** A declined attempt, with its task. */
export interface StoredDeclinedAttempt extends DeclinedAttempt {
  readonly taskId: string;
}

/** Maximum number of ended tasks, and of declined ones, that are stored; the oldest are removed beyond it. */
export const MAX_STORED = 10_000;

/**
 * The journal of one worker. A method that returns a promise resolves when the change is on disk and rejects when it could not
 * be written (`disk_full`, `runtime_error`); the change of a method that returns nothing is written soon, and at worst lost by
 * a crash.
 */
export interface WorkerJournal {
  /** Returns the latest attempt at this task that is on disk; one that is being written now may be missing. */
  find(taskId: string): JournaledTask | undefined;
  /** Returns the result of one attempt; null: none is stored. */
  result(taskId: string, attempt: number): TaskResult | null;
  /** Returns tasks that were accepted and have not ended, in the order they were accepted. */
  unfinished(): readonly JournaledTask[];
  /** Returns results the other end does not have yet, oldest first. */
  undelivered(): readonly WaitingResult[];
  /** Stores an attempt as accepted. Replaces the stored entry of the same attempt. */
  accept(task: NewTask): Promise<void>;
  /** Notes that work is about to start. */
  start(taskId: string, attempt: number, about: TaskAbout): Promise<void>;
  /** Stores the programs that run for it. */
  processes(taskId: string, attempt: number, processes: readonly ProcessIdentity[]): void;
  /** Stores its end. The result waits for delivery from then on. */
  end(taskId: string, attempt: number, result: TaskResult, crashes?: number): Promise<void>;
  /** Removes an attempt, as if it had never been accepted. */
  forget(taskId: string, attempt: number): Promise<void>;
  /** Notes that the other end has the result of this attempt. */
  delivered(taskId: string, attempt: number): void;
  /** Stores an attempt that must never start here. */
  decline(declined: StoredDeclinedAttempt): Promise<void>;
  /** Returns the latest attempt of each task that was declined, oldest first. */
  declined(): readonly StoredDeclinedAttempt[];
  /** Returns folders in worktrees whose tasks run, or have results the other end does not have yet. */
  worktrees(): readonly string[];
  /** Returns a value stored under a name, or undefined. */
  value(key: string): string | undefined;
  storeValue(key: string, value: string): void;
  /** Commits waiting changes and closes the file. Closing twice is fine. */
  close(): void;
}
