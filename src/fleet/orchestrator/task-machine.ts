/**
 * The states of a task at the orchestrator, as a pure function of the record, an event and its time, which returns the next
 * record.
 *
 * `queued → reserved → sent → accepted → running → {done | partial | blocked | error | lost | canceled}`; `blocked` and `lost`
 * go back to `queued` by policy, any ended task goes back by an operator, always towards a higher attempt. An event that is not
 * allowed changes nothing, and the outcome says so.
 * @see docs/fleet.md#failure-semantics
 */
import type { TaskQuestion } from '../../protocol/fleet.ts';
import type { Attempt, TaskRecord, TaskState } from './task.ts';
import { endAttempt, spentBy, sumTokens, trimmed } from './task-attempts.ts';
import type { Advanced, TaskEvent } from './task-events.ts';
import { report, setAside } from './task-result.ts';

/** Maximum number of questions of one task that wait at a time. */
const MAX_QUESTIONS = 32;

const ACTIVE: ReadonlySet<TaskState> = new Set(['reserved', 'sent', 'accepted', 'running']);

/** True while an attempt is under way. */
export function isActive(record: TaskRecord): boolean {
  return ACTIVE.has(record.state);
}

/** True when it has ended; only a retry by an operator continues from there. */
export function isEnded(record: TaskRecord): boolean {
  return record.ended_at !== null;
}

/** Applies one event. Pure: equal arguments give equal answers, and `record` is never changed. */
export function advance(record: TaskRecord, event: TaskEvent, now: number): Advanced {
  switch (event.type) {
    case 'decided':
      if (record.state !== 'queued') return refused(record, event);
      return changed(record, now, {
        explanation: event.explanation,
        not_before: event.not_before ?? null,
        retries: record.retries + (event.cause === 'retry' ? 1 : 0),
      });
    case 'reserved':
      return reserve(record, event, now);
    case 'sent':
      if (record.state !== 'reserved') return refused(record, event);
      return changed(record, now, { state: 'sent' });
    case 'claimed':
      return claim(record, event, now);
    case 'accepted':
      if (!isCurrent(record, event.attempt)) return refused(record, event);
      if (record.state !== 'reserved' && record.state !== 'sent') return refused(record, event);
      return changed(record, now, { state: 'accepted', attempts: withCurrent(record, { accepted_at: now }) });
    case 'started':
      return start(record, event, now);
    case 'released':
      return release(record, event, now);
    case 'result':
      return report(record, event, now);
    case 'lost':
      return lose(record, event, now);
    case 'requeued':
      return requeue(record, event, now);
    case 'parked':
      if (isEnded(record) || isActive(record)) return refused(record, event);
      return changed(record, now, {
        state: record.state === 'queued' ? 'blocked' : record.state,
        parked: true,
        dead_letter: event.reason,
        not_before: null,
      });
    case 'failed':
      return failTask(record, event.reason, now);
    case 'cancel_requested':
      if (isEnded(record)) return refused(record, event);
      if (record.cancel_requested) return { record, outcome: 'duplicate' };
      return changed(record, now, { cancel_requested: true });
    case 'canceled':
      return cancel(record, event.reason, now);
    case 'asked':
      return ask(record, event.question, now);
    case 'answered': {
      const questions = record.questions.filter(({ question_id }) => question_id !== event.question_id);
      if (questions.length === record.questions.length) return refused(record, event);
      return changed(record, now, { questions });
    }
    case 'based': {
      const attempts = record.attempts.map((one) =>
        one.attempt === event.attempt ? { ...one, base_commit: event.commit } : one,
      );
      return changed(record, now, { attempts });
    }
    case 'granted': {
      if (isEnded(record)) return refused(record, event);
      const granted = Math.max(0, (record.granted_tokens ?? 0) + event.tokens);
      return changed(record, now, { granted_tokens: granted });
    }
    case 'verified':
      if (record.state !== 'done') return refused(record, event);
      return changed(record, now, { verified: event.verified, verification: event.reasons });
  }
}

function changed(record: TaskRecord, now: number, change: Partial<TaskRecord>): Advanced {
  return { record: { ...record, ...change, updated_at: now }, outcome: 'changed' };
}

function refused(record: TaskRecord, event: TaskEvent): Advanced {
  const state = isEnded(record) ? `${record.state}, ended` : record.state;
  return { record, outcome: 'refused', why: `not possible for a task that is ${state}: ${event.type}` };
}

/** Returns whether a message is about the attempt under way; one without an attempt is. */
function isCurrent(record: TaskRecord, attempt: number | undefined): boolean {
  return attempt === undefined || attempt === record.attempt;
}

/** Returns the attempts, with more known of the one under way. */
function withCurrent({ attempts }: TaskRecord, change: Partial<Attempt>): readonly Attempt[] {
  const last = attempts.at(-1);
  return last === undefined ? [] : [...attempts.slice(0, -1), { ...last, ...change }];
}

function reserve(record: TaskRecord, event: Extract<TaskEvent, { type: 'reserved' }>, now: number): Advanced {
  if (record.state !== 'queued' || record.cancel_requested) return refused(record, event);
  const attempt = record.attempt + 1;
  const { worker, mode, incarnation = null, explanation = record.explanation } = event;
  return changed(record, now, {
    state: 'reserved',
    attempt,
    worker,
    attempts: trimmed([...record.attempts, { attempt, worker, mode, sent_at: now, incarnation }]),
    explanation,
    not_before: null,
    dead_letter: null,
  });
}

function claim(record: TaskRecord, event: Extract<TaskEvent, { type: 'claimed' }>, now: number): Advanced {
  const last = record.attempts.at(-1);
  if (!isActive(record) || last === undefined || !isCurrent(record, event.attempt)) return refused(record, event);
  if (record.worker === event.worker) return { record, outcome: 'duplicate' };
  if (!isOffer(record.worker)) return refused(record, event);
  const mine = { ...last, worker: event.worker, incarnation: event.incarnation ?? null };
  return changed(record, now, { worker: event.worker, attempts: [...record.attempts.slice(0, -1), mine] });
}

function start(record: TaskRecord, event: Extract<TaskEvent, { type: 'started' }>, now: number): Advanced {
  if (!isActive(record) || !isCurrent(record, event.attempt)) return refused(record, event);
  if (record.state === 'running') return { record, outcome: 'duplicate' };
  const { accepted_at = now } = record.attempts.at(-1) ?? {};
  return changed(record, now, { state: 'running', attempts: withCurrent(record, { accepted_at, started_at: now }) });
}

function release(record: TaskRecord, event: Extract<TaskEvent, { type: 'released' }>, now: number): Advanced {
  // A running attempt ends by its result or its lease only.
  if (record.state !== 'reserved' && record.state !== 'sent' && record.state !== 'accepted') {
    return refused(record, event);
  }
  const { worker } = record;
  const { cause, exclude } = event;
  const more = exclude === undefined || worker === null ? record.excluded : { ...record.excluded, [worker]: exclude };
  const end = { ended_at: now, outcome: event.outcome, reason: event.reason, tokens_spent: 0 };
  return changed(record, now, {
    state: 'queued',
    worker: null,
    attempts: endAttempt(record.attempts, record.attempt, end),
    reroutes: record.reroutes + (cause === 'reroute' ? 1 : 0),
    retries: record.retries + (cause === 'retry' ? 1 : 0),
    excluded: cause === 'retry' ? {} : more,
    not_before: event.not_before ?? null,
    questions: [],
  });
}

function lose(record: TaskRecord, event: Extract<TaskEvent, { type: 'lost' }>, now: number): Advanced {
  if (!isActive(record)) return refused(record, event);
  const attempts = endAttempt(record.attempts, record.attempt, {
    ended_at: now,
    outcome: 'lost',
    reason: event.reason,
    ...spentBy(event.result),
  });
  return changed(record, now, {
    state: 'lost',
    attempts,
    result: event.result ?? null,
    tokens_spent: sumTokens(attempts),
    questions: [],
  });
}

function requeue(record: TaskRecord, event: Extract<TaskEvent, { type: 'requeued' }>, now: number): Advanced {
  const { cause, exclude, only } = event;
  const waits = record.state === 'blocked' || record.state === 'lost';
  const possible = cause === 'operator' ? waits || isEnded(record) : waits && !isEnded(record);
  if (!possible) return refused(record, event);
  const excluded = exclude === undefined ? record.excluded : { ...record.excluded, [exclude.worker]: exclude.marker };
  return changed(record, now, {
    state: 'queued',
    parked: false,
    worker: null,
    spec: only === undefined ? record.spec : { ...record.spec, worker: only },
    reroutes: cause === 'operator' ? 0 : record.reroutes + (cause === 'reroute' ? 1 : 0),
    retries: cause === 'operator' ? 0 : record.retries + (cause === 'retry' ? 1 : 0),
    // A retry may go to the same worker; a reroute must not.
    excluded: cause === 'reroute' ? excluded : {},
    not_before: event.not_before ?? null,
    ended_at: null,
    result: null,
    late_results: setAside(record, now),
    verified: null,
    verification: [],
    dead_letter: null,
    cancel_requested: false,
    questions: [],
  });
}

function failTask(record: TaskRecord, reason: string, now: number): Advanced {
  const { state } = record;
  if (isEnded(record) || (state !== 'queued' && state !== 'blocked' && state !== 'lost')) {
    return refused(record, { type: 'failed', reason });
  }
  return changed(record, now, {
    state: state === 'queued' ? 'blocked' : state,
    parked: false,
    ended_at: now,
    dead_letter: reason,
    not_before: null,
  });
}

function cancel(record: TaskRecord, reason: string, now: number): Advanced {
  if (isEnded(record)) return refused(record, { type: 'canceled', reason });
  const active = isActive(record);
  // The tokens it has spent by now were not reported.
  const tokensSpent = active && record.state !== 'reserved' ? null : 0;
  const end = { ended_at: now, outcome: 'canceled', reason, tokens_spent: tokensSpent };
  const attempts = active ? endAttempt(record.attempts, record.attempt, end) : record.attempts;
  return changed(record, now, {
    state: 'canceled',
    parked: false,
    attempts,
    tokens_spent: sumTokens(attempts),
    ended_at: now,
    not_before: null,
    dead_letter: null,
    cancel_requested: true,
    questions: [],
  });
}

function ask(record: TaskRecord, question: TaskQuestion, now: number): Advanced {
  const event = { type: 'asked', question } as const;
  if (!isActive(record)) return refused(record, event);
  if (record.questions.some(({ question_id }) => question_id === question.question_id)) {
    return { record, outcome: 'duplicate' };
  }
  if (record.questions.length >= MAX_QUESTIONS) return refused(record, event);
  return changed(record, now, { questions: [...record.questions, question] });
}

/** Returns name of the worker of an attempt that was offered to a pool, until a worker claims it. */
export function offerTo(pool: string): string {
  return `pool:${pool}`;
}

/** The pool of such a name. */
export function poolOf(offer: string): string {
  return offer.slice('pool:'.length);
}

/** True while any worker of a pool may claim it. Peer ids have no such form on a bus that has pools. */
export function isOffer(worker: string | null): boolean {
  return worker?.startsWith('pool:') === true;
}
