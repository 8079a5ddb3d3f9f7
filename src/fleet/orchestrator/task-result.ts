/**
 * The effect of a result on a task: one result is accepted, once; every other result of an attempt that its worker had is
 * stored beside it with the reason why it came too late. A result without an accepted attempt, or under another fence, changes
 * nothing.
 *
 * A part of the task machine (`task-machine.ts`). The rules of the late result are those of the specification: stored,
 * shown, never dropped, never over a newer attempt; a newer attempt that has not started gives way to it.
 * @see docs/fleet.md#failure-semantics
 */
import { isDeepStrictEqual } from 'node:util';
import type { TaskResult } from '../../protocol/fleet.ts';
import type { Attempt, LateResult, TaskRecord, TaskState } from './task.ts';
import { endAttempt, spentBy, sumTokens } from './task-attempts.ts';
import type { Advanced, ResultEvent, StaleReason } from './task-events.ts';

/** Maximum number of late results of one task. The first ones are stored. */
const MAX_LATE = 32;

/** Ends of attempts that never started: their worker declined them, or did not get them. */
const NEVER_STARTED: ReadonlySet<string> = new Set(['busy', 'unknown', 'unreachable']);
/** Ends after which a report of the attempt is still due. */
const UNREPORTED: ReadonlySet<string | undefined> = new Set([undefined, 'lost', 'canceled']);

/** Applies a result. */
export function report(record: TaskRecord, event: ResultEvent, now: number): Advanced {
  const tried = creditOf(record, event);
  if (typeof tried === 'string') {
    return { record, outcome: 'refused', why: `not to the credit of ${event.worker}: ${tried}`, stale: tried };
  }
  return acceptResult(record, event, tried, now) ?? storeLate(record, event, tried, now);
}

/** Returns the attempt that a result is to the credit of, or the reason why it is to the credit of none. */
export function creditOf(record: TaskRecord, event: ResultEvent): Attempt | StaleReason {
  const own = record.attempts.filter(({ worker }) => worker === event.worker);
  if (own.length === 0) return 'not_given';
  const tried = event.attempt === null ? unnamed(record, own, event) : own.find(isNumber(event.attempt));
  if (tried === undefined) return event.attempt === null ? 'no_attempt' : 'not_given';
  // Over links the attempt is the fence.
  if (event.fence != null && event.fence !== tried.attempt) return 'other_fence';
  return isAccepted(record, tried, event) ? tried : 'not_accepted';
}

const isNumber =
  (number: number) =>
  ({ attempt }: Attempt): boolean =>
    attempt === number;

/** Returns the attempt of a result that names none. Undefined: it may be of several. */
function unnamed(record: TaskRecord, own: readonly Attempt[], { worker, result }: ResultEvent): Attempt | undefined {
  const again = record.late_results.find((late) => late.worker === worker && same(late.result, result));
  if (again !== undefined) return own.find(isNumber(again.attempt));
  const due = own.filter(({ outcome }) => UNREPORTED.has(outcome));
  return due.length > 1 ? undefined : (due[0] ?? own.at(-1));
}

/**
 * Returns whether the worker had accepted the attempt. Where its link awaits an acknowledgement, only a refusal comes without
 * one; an acknowledgement that was lost with its link is no longer awaited.
 */
function isAccepted({ task_id }: TaskRecord, tried: Attempt, { unacknowledged, result }: ResultEvent): boolean {
  const { attempt, outcome, accepted_at, started_at } = tried;
  if (outcome !== undefined && NEVER_STARTED.has(outcome)) return false;
  if (accepted_at !== undefined || started_at !== undefined || unacknowledged !== attempt) return true;
  // The stored report of an attempt that is not tried again refuses this one.
  const refused = result.status === 'error' && result.envelope?.causation_id === dispatchId(task_id, attempt);
  return result.status === 'blocked' || refused;
}

/** `message_id` of the dispatch of an attempt. */
export const dispatchId = (taskId: string, attempt: number): string => `${taskId}#${attempt}`;

/** Returns the record with the result accepted, or undefined when it does not count. */
function acceptResult(record: TaskRecord, event: ResultEvent, tried: Attempt, now: number): Advanced | undefined {
  // An attempt that was reported once is decided upon.
  if (record.ended_at !== null || isReported(tried)) return undefined;
  const { result } = event;
  // Reported before, and decided upon.
  if (record.result !== null && same(record.result, result)) return undefined;
  const newest = tried.attempt === record.attempt;
  switch (record.state) {
    case 'reserved':
    case 'sent':
      // A newer attempt that has not started gives way to finished work.
      if (!newest && !hasWork(result)) return undefined;
      break;
    case 'accepted':
    case 'running':
      if (!newest) return undefined;
      break;
    case 'lost':
      // The lease ended too early, with any status; an older attempt counts only where it saves another run.
      if (!newest && !hasWork(result)) return undefined;
      break;
    case 'blocked':
    case 'queued':
      if (!hasWork(result)) return undefined;
      break;
    default:
      return undefined;
  }
  let attempts = record.attempts;
  const current = attempts.at(-1);
  if (!newest && current?.outcome === undefined) {
    const reason = `attempt ${tried.attempt} reported after all`;
    attempts = endAttempt(attempts, record.attempt, { ended_at: now, outcome: 'canceled', reason, tokens_spent: 0 });
  }
  attempts = endAttempt(attempts, tried.attempt, endOf(result, now));
  const state = stateAfter(record, result);
  return {
    outcome: 'changed',
    record: {
      ...record,
      state,
      parked: false,
      worker: event.worker,
      attempts,
      result,
      late_results: setAside(record, now),
      tokens_spent: sumTokens(attempts),
      updated_at: now,
      ended_at: state === 'blocked' ? null : now,
      not_before: null,
      dead_letter: null,
      questions: [],
    },
  };
}

/** Returns the late results of a record once another result replaces its own: nothing that was reported is dropped. */
export function setAside(record: TaskRecord, now: number): readonly LateResult[] {
  const { result, late_results, worker, attempt } = record;
  // A refusal lives on in its attempt.
  if (result === null || result.status === 'blocked') return late_results;
  const received_at = record.ended_at ?? now;
  return [...late_results, { received_at, worker: worker ?? '', attempt, why: 'old_attempt', result }];
}

/** Returns the record with the result stored beside it; unchanged when the result is known. */
function storeLate(record: TaskRecord, event: ResultEvent, tried: Attempt, now: number): Advanced {
  const { worker, result } = event;
  const known = [record.result, ...record.late_results.map((late) => late.result)];
  if (known.some((other) => other !== null && same(other, result))) return { record, outcome: 'duplicate' };
  if (record.late_results.length >= MAX_LATE) return { record, outcome: 'refused', why: 'too many late results' };
  const late: LateResult = { received_at: now, worker, attempt: tried.attempt, why: whyLate(record, tried), result };
  // A late report of a lost attempt has its usage.
  const attempts =
    tried.outcome === 'lost' || tried.outcome === 'canceled'
      ? endAttempt(record.attempts, tried.attempt, {
          ended_at: tried.ended_at ?? now,
          outcome: tried.outcome,
          ...spentBy(result),
        })
      : record.attempts;
  return {
    outcome: 'late',
    why: late.why,
    record: {
      ...record,
      attempts,
      tokens_spent: sumTokens(attempts),
      late_results: [...record.late_results, late],
      updated_at: now,
    },
  };
}

/** True when a report of it was accepted. A refusal is none: an agent that asked for something may still finish. */
const isReported = ({ outcome }: Attempt): boolean => !UNREPORTED.has(outcome) && outcome !== 'blocked';

/** True when work was done, so that doing it again would be waste or harm. */
function hasWork({ status }: TaskResult): boolean {
  return status === 'done' || status === 'partial';
}

function stateAfter(record: TaskRecord, { status }: TaskResult): TaskState {
  // Finished before the cancel reached it.
  if (status === 'done') return 'done';
  return record.cancel_requested ? 'canceled' : status;
}

function endOf(result: TaskResult, now: number) {
  const reason = result.blocked_reason ?? result.error_summary ?? undefined;
  return {
    ended_at: now,
    outcome: result.status,
    ...spentBy(result),
    ...(reason === undefined ? {} : { reason }),
  };
}

function whyLate(record: TaskRecord, tried: Attempt): LateResult['why'] {
  if (tried.attempt !== record.attempt) return 'old_attempt';
  if (record.ended_at === null) return 'duplicate';
  return record.dead_letter?.startsWith('deadline_passed') === true ? 'after_deadline' : 'already_ended';
}

/** True for the same report, whichever copy of it. */
function same({ envelope: _one, ...one }: TaskResult, { envelope: _other, ...other }: TaskResult): boolean {
  return isDeepStrictEqual(one, other);
}
