/**
 * The text of each change of a task in its journal stream, as `task watch` shows it.
 */
import type { TaskRecord } from './task.ts';
import { spentBy } from './task-attempts.ts';
import type { TaskEvent } from './task-events.ts';
import { isEnded } from './task-machine.ts';

export interface Step {
  readonly kind: string;
  readonly body: object;
}

/** Returns the journal entry for an event; undefined: nothing worth following. */
export function stepOf(event: TaskEvent, before: TaskRecord, after: TaskRecord): Step | undefined {
  const { attempt, worker } = after;
  switch (event.type) {
    case 'decided': {
      const { chosen, sentence, next_attempt_at } = event.explanation;
      return { kind: 'decided', body: { chosen, sentence, next_attempt_at } };
    }
    case 'reserved': {
      const { chosen = worker, sentence } = event.explanation ?? {};
      return { kind: 'decided', body: { attempt, chosen, mode: event.mode, sentence } };
    }
    case 'sent':
      return { kind: 'sent', body: { attempt, worker } };
    case 'claimed':
      return { kind: 'claimed', body: { attempt, worker } };
    case 'accepted':
      return { kind: 'accepted', body: { attempt, worker } };
    case 'started':
      return { kind: 'running', body: { attempt, worker } };
    case 'released': {
      const { outcome, reason, not_before = null } = event;
      return { kind: 'released', body: { attempt, worker: before.worker, outcome, reason, not_before } };
    }
    case 'result': {
      const late = after.late_results.length > before.late_results.length ? after.late_results.at(-1) : undefined;
      const { status, blocked_reason, error_summary } = event.result;
      const reason = blocked_reason ?? error_summary ?? undefined;
      const body = { worker: event.worker, status, ...spentBy(event.result), ...(reason !== undefined && { reason }) };
      if (late !== undefined) return { kind: 'late_result', body: { ...body, attempt: late.attempt, why: late.why } };
      return { kind: status === 'blocked' ? 'blocked' : 'result', body: { ...body, attempt } };
    }
    case 'lost':
      return { kind: 'lost', body: { attempt, worker, reason: event.reason } };
    case 'requeued': {
      const { cause, not_before = null } = event;
      return { kind: 'requeued', body: { cause, not_before } };
    }
    case 'parked':
    case 'failed':
    case 'canceled':
      return { kind: event.type, body: { reason: event.reason } };
    case 'cancel_requested':
      return { kind: 'cancel_requested', body: { attempt, worker } };
    case 'asked':
      return { kind: 'question', body: event.question };
    case 'answered':
      return { kind: 'answer', body: { question_id: event.question_id } };
    case 'verified':
      return { kind: 'verified', body: { verified: event.verified, reasons: event.reasons } };
    case 'based':
    case 'granted':
      return undefined;
  }
}

/** Returns the step that ends the stream for its followers; only the verification may follow it. */
export function endOf(before: TaskRecord, after: TaskRecord): Step | undefined {
  if (!isEnded(after) || isEnded(before)) return undefined;
  const { state, tokens_spent, attempt, attempts, dead_letter } = after;
  const claimed = attempts.some(({ tokens_claimed }) => tokens_claimed === true);
  return {
    kind: 'ended',
    body: {
      state,
      attempt,
      tokens_spent,
      ...(claimed && { tokens_claimed: true }),
      ...(dead_letter !== null && { reason: dead_letter }),
    },
  };
}
