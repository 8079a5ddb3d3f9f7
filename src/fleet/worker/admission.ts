/**
 * The decision about a dispatch: first the journal (a task seen before), then phase 4, then the budget it takes a part of and
 * the conversation it belongs to. Nothing is started here, and nothing is written.
 *
 * A pure function.
 */

import type { Budget } from '../../base/budget.ts';
import type { TaskResult } from '../../protocol/fleet.ts';
import type { AlreadyTaken, DispatchOutcome } from '../bus/reply-channel.ts';
import type { Dispatched } from '../messages/decoded.ts';
import { type JournalFact, type PreflightFacts, preflight, type Refusal, refusalResult } from '../phases/preflight.ts';
import type { DeclinedAttempt, DeclineReason, JournaledTask } from './journal.ts';
import { MAX_CRASHES } from './recovery.ts';
import type { Unreadable } from './repository/git.ts';

/** An attempt that is accepted or runs. */
export type RunningAttempt = Pick<JournaledTask, 'digest' | 'attempt'> & Pick<AlreadyTaken, 'state' | 'lease'>;

export interface AdmissionInput {
  readonly dispatch: Dispatched;
  readonly agentId: string;
  readonly facts: Omit<PreflightFacts, 'journalEntry' | 'dispatchContextId' | 'ownWorktree'>;
  readonly nowMs: number;
  /** Time that the dispatch was under way, milliseconds. */
  readonly delayMs: number;
  /** The bus stores a dispatch that got `busy`, reports it to no orchestrator, and redelivers it. */
  readonly redelivers: boolean;
  /** The attempt at this task that is accepted or runs. */
  readonly running: RunningAttempt | undefined;
  /** The latest attempt the journal has. */
  readonly journaled: JournaledTask | undefined;
  /** The latest attempt at this task that was declined. */
  readonly denied: DeclinedAttempt | undefined;
  /** Another task of its context is accepted or runs. */
  readonly contextBusy: boolean;
  /** Budget of the task it is a part of, where that runs here. */
  readonly parent: Budget | undefined;
  /** The fault in the schema of its answer; null: none. */
  readonly schemaProblem: string | null;
  /** The reason against a worktree for it; undefined: git can make one. */
  readonly noWorktree: string | undefined;
  /** Reason why git cannot read the repository: it is unknown whether it has changes. */
  readonly unreadable: Unreadable | undefined;
  /** Reason why nothing new can be accepted, though the worker has capacity. */
  readonly full: string | undefined;
  /** Time after which to ask again, seconds. */
  readonly busyS: number;
}

export type AdmissionResult =
  | {
      readonly kind: 'answer';
      readonly reception: DispatchOutcome;
      /** To be stored before the reply. */
      readonly denial?: DeclinedAttempt;
    }
  | {
      readonly kind: 'take';
      /** Tokens; null = no limit. */
      readonly tokenBudget: number | null;
      /** Number of deaths of the worker during this task. */
      readonly crashes: number;
    };

export function decideAdmission(input: AdmissionInput): AdmissionResult {
  const { dispatch, journaled, parent, running } = input;
  const tokenBudget = sliceOf(dispatch.token_budget, parent?.left ?? null);
  const seen = seenAs(input);
  const verdict = preflight(
    { ...dispatch, token_budget: tokenBudget },
    {
      ...input.facts,
      ...(seen !== undefined && { journalEntry: seen }),
      dispatchContextId: dispatch.envelope.context_id ?? null,
      ownWorktree: dispatch.worktree,
    },
    input.nowMs,
  );
  if (!verdict.accept && verdict.code === 'in_flight') {
    if (running?.attempt !== attemptOf(dispatch)) return busy(input, 'in_flight');
    const { state, lease } = running;
    return { kind: 'answer', reception: { kind: 'taken', state, lease, retryAfterS: input.busyS } };
  }
  if (!verdict.accept && verdict.code === 'replay') return answer(input, replayed(input), IN_FLIGHT);
  // Another task under the same id: its earlier answer is no answer to this one.
  if (!verdict.accept && verdict.code === 'duplicate_conflict') return refusal(input, verdict);
  const earlier = earlierAnswer(input);
  if (earlier !== undefined) return refusal(input, earlier);
  const against = verdict.accept ? furtherReason(input, tokenBudget) : verdict;
  const passing = against === undefined || ['busy', 'dirty_repo'].includes(against.code);
  if (passing && input.contextBusy) return busy(input, 'context');
  if (against !== undefined) return refusal(input, against, against);
  const crashes = journaled?.digest === dispatch.digest ? journaled.crashes : 0;
  return { kind: 'take', tokenBudget, crashes };
}

const attemptOf = ({ envelope }: Pick<Dispatched, 'envelope'>): number => envelope.attempt ?? 1;

const passingReason = (code: string, detail: string): DeclineReason => ({ code, detail, retryable: true, missing: [] });

/** Another attempt is, or was, the answer to this one. */
const IN_FLIGHT = passingReason('in_flight', 'another attempt at this task is here');
const CONTEXT_BUSY = passingReason('busy', 'a turn of this context is running');
/** Reason for an attempt that was polled before it arrived. */
const UNKNOWN = passingReason('busy', 'this attempt was given back before it came');
/** Reason for an attempt that was started, whose end is unknown. */
const STARTED = passingReason('busy', 'this attempt was accepted before');

/** Returns a reply, stored as declined where the dispatch names its attempt. */
function answer(input: AdmissionInput, reception: DispatchOutcome, reason: DeclineReason): AdmissionResult {
  const { dispatch, running, journaled } = input;
  const { attempt } = dispatch.envelope;
  if (attempt === undefined || attempt <= ((running ?? journaled)?.attempt ?? 0)) return { kind: 'answer', reception };
  return { kind: 'answer', reception, denial: { attempt, digest: dispatch.digest, reason } };
}

/** `stored`: the reason to store; absent: it is stored already, or is not about this attempt. */
function refusal(input: AdmissionInput, against: DeclineReason, stored?: DeclineReason): AdmissionResult {
  const reception: DispatchOutcome = { kind: 'refused', result: refused(input, against) };
  return stored === undefined ? { kind: 'answer', reception } : answer(input, reception, stored);
}

function busy(input: AdmissionInput, reason: 'in_flight' | 'context'): AdmissionResult {
  const reception: DispatchOutcome = { kind: 'busy', retryAfterS: input.busyS, reason };
  if (input.redelivers) return { kind: 'answer', reception };
  return answer(input, reception, reason === 'in_flight' ? IN_FLIGHT : CONTEXT_BUSY);
}

/**
 * Returns the earlier answer to an attempt that was declined. An orchestrator that numbers attempts uses each number once, so
 * that a dispatch whose number was answered is a duplicate; one without a number looks like a new one.
 */
function declinedOf({ dispatch, denied }: AdmissionInput): DeclinedAttempt | undefined {
  const { attempt } = dispatch.envelope;
  if (denied === undefined || attempt === undefined || attempt > denied.attempt) return undefined;
  return denied.digest === null || denied.digest === dispatch.digest ? denied : undefined;
}

/** True when the result of another attempt is the answer to the one that was denied. */
export const isAnsweredByAnother = ({ reason }: DeclinedAttempt): boolean => reason?.code === IN_FLIGHT.code;

/** Returns the reply to another copy of this attempt. */
function earlierAnswer(input: AdmissionInput): DeclineReason | undefined {
  const { dispatch, journaled, running } = input;
  const denial = declinedOf(input);
  if (denial !== undefined) return denial.reason ?? UNKNOWN;
  const started = running === undefined && journaled?.result === null && attemptOf(dispatch) <= journaled.attempt;
  return started ? STARTED : undefined;
}

/** Returns the smaller of its own budget and the rest of its parent's. */
function sliceOf(own: number | null, left: number | null): number | null {
  return own === null || left === null ? (own ?? left) : Math.min(own, left);
}

/** Returns the earlier state of the task for preflight; undefined: as unseen. */
function seenAs(input: AdmissionInput): JournalFact | undefined {
  const { dispatch, running, journaled } = input;
  if (running !== undefined) return { state: 'running', digestMatches: running.digest === dispatch.digest };
  if (journaled?.result == null) return undefined;
  const { result, digest } = journaled;
  const digestMatches = digest === dispatch.digest;
  const denial = declinedOf(input);
  const shown = denial !== undefined && isAnsweredByAnother(denial);
  if (digestMatches && !shown && isRunAnew(dispatch, journaled, result)) return undefined;
  return { state: 'finished', digestMatches, status: result.status, tokensSpent: result.tokens_spent ?? null };
}

/**
 * Returns whether a task that ended before is to be done again. The same attempt never is, not even when nothing had started:
 * the orchestrator may have sent the task to another worker since. A later attempt comes from an orchestrator that knows the
 * end of this one, or gave it up; a result it has not seen yet is shown to it first.
 */
function isRunAnew({ envelope }: Dispatched, journaled: JournaledTask, { status, tokens_spent }: TaskResult): boolean {
  if (isPoisoned(journaled)) return false;
  const { attempt } = envelope;
  const notStarted = status === 'blocked' && tokens_spent === 0;
  // An orchestrator that numbers no attempts has no other way to ask again.
  if (attempt === undefined) return notStarted;
  if (attempt <= journaled.attempt) return false;
  return journaled.delivered || notStarted || status === 'error' || status === 'blocked';
}

const isPoisoned = ({ crashes, result }: JournaledTask): boolean =>
  crashes >= MAX_CRASHES && result?.status === 'error';

/**
 * Returns the stored result. The result of a task that is not tried again answers for the attempt it refuses, which has cost
 * nothing.
 */
function replayed({ dispatch, journaled }: AdmissionInput): DispatchOutcome {
  const stored = journaled?.result as TaskResult;
  const attempt = attemptOf(dispatch);
  if (!isPoisoned(journaled as JournaledTask) || attempt <= (journaled as JournaledTask).attempt) {
    return { kind: 'replay', result: stored };
  }
  return { kind: 'replay', result: { ...stored, tokens_spent: 0, envelope: { ...stored.envelope, attempt } } };
}

const refuse = (code: string, detail: string, retryable: boolean, missing: readonly string[] = []): Refusal => ({
  accept: false,
  code,
  detail,
  retryable,
  missing,
  status: 'blocked',
  tokensSpent: 0,
});

/** Returns a reason against the dispatch that phase 4 does not check. */
function furtherReason(input: AdmissionInput, tokenBudget: number | null): Refusal | undefined {
  const { dispatch, full, noWorktree, unreadable, schemaProblem, delayMs } = input;
  if (schemaProblem !== null) return refuse('invalid_dispatch', schemaProblem, false);
  // A git that was too slow may be faster next time.
  const passes = unreadable?.timedOut === true;
  if (dispatch.worktree && noWorktree !== undefined && !passes) {
    return refuse('missing_capability', `worktree: ${noWorktree}`, false, ['worktree']);
  }
  const needed = dispatch.worktree || dispatch.access === 'write' ? unreadable : undefined;
  if (needed !== undefined && !passes) {
    return refuse('missing_capability', `repository: ${needed.reason}`, false, ['repository']);
  }
  if (tokenBudget !== null && tokenBudget <= 0) {
    return refuse('budget_too_small', `the task ${dispatch.parent_task_id} has no tokens left`, false);
  }
  const { lease } = dispatch.envelope;
  if (!dispatch.retry_safe && lease !== undefined && delayMs > lease.ttl_s * 1000) {
    const late = `it came ${Math.floor(delayMs / 1000)} s after it was sent, and its lease holds ${lease.ttl_s} s`;
    return refuse('busy', late, true);
  }
  const busy = needed?.reason ?? full;
  return busy === undefined ? undefined : refuse('busy', busy, true);
}

/** Returns the reply to a dispatch that is declined. */
export function refused(
  {
    dispatch,
    agentId,
    busyS,
  }: Pick<AdmissionInput, 'agentId' | 'busyS'> & {
    readonly dispatch: Pick<Dispatched, 'task_id' | 'envelope'>;
  },
  { code, detail, retryable, missing }: DeclineReason,
): TaskResult {
  const { context_id, correlation_id } = dispatch.envelope;
  const refusal = refuse(code, detail, retryable, missing);
  const result = refusalResult(dispatch.task_id, refusal, code === 'busy' ? busyS : undefined);
  return {
    ...result,
    envelope: {
      ...(context_id != null && { context_id }),
      ...(correlation_id !== undefined && { correlation_id }),
      sender: agentId,
      attempt: attemptOf(dispatch),
    },
  };
}
