/**
 * The events of a task, and the outcome of an event: the vocabulary of the task machine (`task-machine.ts`).
 */
import type { TaskQuestion, TaskResult } from '../../protocol/fleet.ts';
import type { Explanation } from '../route/profile.ts';
import type { TaskRecord } from './task.ts';

/** A worker reports. */
export interface ResultEvent {
  readonly type: 'result';
  /** The sender that the transport authenticated, not the one named in the message. */
  readonly worker: string;
  /** Number of the attempt; null where the worker names none: its only one without a report. */
  readonly attempt: number | null;
  /** The fence it was reported under; null or absent where the worker names none. */
  readonly fence?: number | null;
  /** The attempt whose dispatch went over this link and was not acknowledged; null or absent: none. */
  readonly unacknowledged?: number | null;
  readonly result: TaskResult;
}

/** The events of a task. Times are epoch milliseconds. */
export type TaskEvent =
  /** Routing found no worker for it, or the policy has it wait. */
  | {
      readonly type: 'decided';
      readonly explanation: Explanation;
      readonly not_before?: number | null;
      /** It waits by the policy, which counts that. */
      readonly cause?: 'retry';
    }
  /** A worker is chosen; the row is written before anything is sent. Starts an attempt. */
  | {
      readonly type: 'reserved';
      readonly worker: string;
      readonly mode: 'structured' | 'inline' | 'plain';
      readonly incarnation?: string | null;
      readonly explanation?: Explanation | null;
    }
  /** The bus has it, or may have it. */
  | { readonly type: 'sent' }
  /** A worker of the pool it was offered to has it. */
  | {
      readonly type: 'claimed';
      readonly worker: string;
      readonly attempt?: number;
      readonly incarnation?: string | null;
    }
  /** Its worker has it in its journal. */
  | { readonly type: 'accepted'; readonly attempt?: number }
  /** Its worker works on it. */
  | { readonly type: 'started'; readonly attempt?: number }
  /** The attempt ended without having started: the worker is unreachable, busy, or never received it. */
  | {
      readonly type: 'released';
      readonly outcome: 'unreachable' | 'busy' | 'unknown';
      readonly reason: string;
      /** The worker is excluded until its next announce: the marker of its present one. */
      readonly exclude?: string;
      /** The step of the policy it was: the counts, and the other workers to ask, follow from it. */
      readonly cause?: 'reroute' | 'retry';
      readonly not_before?: number | null;
    }
  | ResultEvent
  /** The lease ran out, or the worker returned without knowing how it ended. */
  | { readonly type: 'lost'; readonly reason: string; readonly result?: TaskResult }
  /** It is tried again. `operator` may also do so with a task that has ended. */
  | {
      readonly type: 'requeued';
      readonly cause: 'reroute' | 'retry' | 'operator';
      readonly not_before?: number | null;
      readonly exclude?: { readonly worker: string; readonly marker: string };
      /** Operator only: this worker and no other. */
      readonly only?: string | null;
    }
  /** It waits for an operator. */
  | { readonly type: 'parked'; readonly reason: string }
  /** It will not be tried again: permanently refused, its dependency failed, its deadline passed, an operator dropped it. */
  | { readonly type: 'failed'; readonly reason: string }
  | { readonly type: 'cancel_requested' }
  | { readonly type: 'canceled'; readonly reason: string }
  | { readonly type: 'asked'; readonly question: TaskQuestion }
  | { readonly type: 'answered'; readonly question_id: string }
  /** The commit its worker's repository was at before the attempt was sent. */
  | { readonly type: 'based'; readonly attempt: number; readonly commit: string }
  /** Tokens of its budget that go to a child task; negative: the tokens that the child did not need. */
  | { readonly type: 'granted'; readonly tokens: number }
  | { readonly type: 'verified'; readonly verified: 'yes' | 'no' | 'not_checked'; readonly reasons: readonly string[] };

/**
 * Reason why a result gives its sender no credit: the task was never given to it; it names no attempt and may be of several;
 * its fence is that of another attempt; the attempt was not accepted.
 */
export type StaleReason = 'not_given' | 'no_attempt' | 'other_fence' | 'not_accepted';

/** Outcome of an event. */
export interface Advanced {
  /** The same object when nothing changed. */
  readonly record: TaskRecord;
  /**
   * `changed`: as asked. `late`: a result that no longer counts was stored beside the record. `duplicate`: it was known
   * already. `refused`: not in this state, nothing changed.
   */
  readonly outcome: 'changed' | 'late' | 'duplicate' | 'refused';
  /** Reason of a refusal, in a few words. */
  readonly why?: string;
  /** For a result that was refused: the reason why it counts for nothing. */
  readonly stale?: StaleReason;
}
