/**
 * The states of a task: the invariants hold for any events in any order.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TaskRecord } from '../../../src/fleet/orchestrator/task.ts';
import type { TaskEvent } from '../../../src/fleet/orchestrator/task-events.ts';
import { advance, isActive, isEnded } from '../../../src/fleet/orchestrator/task-machine.ts';
import { fullSpec, newRecord } from '../../../src/fleet/orchestrator/task-record.ts';
import type { Status, TaskResult } from '../../../src/protocol/fleet.ts';
import fc from '../../support/properties.ts';

const NOW = 1_000;
const fresh = (): TaskRecord => newRecord('t', fullSpec('t', { brief: 'x' }), 1, NOW);

function result(status: Status, tokens: number | null = 5, note = ''): TaskResult {
  return {
    type: 'TASK_RESULT',
    protocol_version: '2.0',
    task_id: 't',
    status,
    tokens_spent: tokens,
    next_steps: ['go on'],
    blocked_reason: 'busy: no',
    error_summary: 'failed',
    summary: note,
  };
}

/** Applies events in order; each must change something. */
function course(...events: TaskEvent[]): TaskRecord {
  return events.reduce((record, event, index) => {
    const { record: next, outcome, why } = advance(record, event, NOW + index);
    assert.equal(outcome, 'changed', `${event.type}: ${why}`);
    return next;
  }, fresh());
}

const reserved = (worker = 'a'): TaskEvent => ({ type: 'reserved', worker, mode: 'structured' });
const reported = (worker: string, attempt: number | null, what: TaskResult): TaskEvent => ({
  type: 'result',
  worker,
  attempt,
  result: what,
});

test('a task goes from queued to done and keeps who did it and what it cost', () => {
  const record = course(
    reserved(),
    { type: 'sent' },
    { type: 'accepted', attempt: 1 },
    { type: 'started', attempt: 1 },
    reported('a', 1, result('done')),
  );
  assert.equal(record.state, 'done');
  assert.equal(record.tokens_spent, 5);
  assert.notEqual(record.ended_at, null);
  assert.equal(record.attempts[0]?.outcome, 'done');
});

test('a result may come before anything else is known of the attempt', () => {
  assert.equal(course(reserved(), reported('a', null, result('partial'))).state, 'partial');
});

test('a refusal leads back to the queue with the next attempt, and leaves the worker out', () => {
  const record = course(
    reserved(),
    reported('a', 1, result('blocked', 0)),
    { type: 'requeued', cause: 'reroute', exclude: { worker: 'a', marker: 'i#1' } },
    reserved('b'),
  );
  assert.equal(record.attempt, 2);
  assert.deepEqual(record.excluded, { a: 'i#1' });
  assert.equal(record.reroutes, 1);
  assert.equal(record.result, null);
});

test('the result of a lost attempt is taken as long as no newer one has begun', () => {
  const lost = course(reserved(), { type: 'started' }, { type: 'lost', reason: 'lease' });
  assert.equal(advance(lost, reported('a', 1, result('done')), NOW).record.state, 'done');
  const queued = advance(lost, { type: 'requeued', cause: 'retry' }, NOW).record;
  assert.equal(advance(queued, reported('a', 1, result('done')), NOW).record.state, 'done');
  const again = advance(advance(queued, reserved('b'), NOW).record, { type: 'sent' }, NOW).record;
  const favoured = advance(again, reported('a', 1, result('done')), NOW).record;
  assert.equal(favoured.state, 'done');
  assert.equal(favoured.worker, 'a');
  assert.equal(favoured.attempts[1]?.outcome, 'canceled');
  const begun = advance(again, { type: 'accepted', attempt: 2 }, NOW).record;
  const late = advance(begun, reported('a', 1, result('done')), NOW);
  assert.equal(late.outcome, 'late');
  assert.equal(late.record.state, 'accepted');
  assert.equal(late.record.late_results[0]?.why, 'old_attempt');
});

test('an old error does not stop a newer attempt', () => {
  const again = course(
    reserved(),
    { type: 'lost', reason: 'lease' },
    { type: 'requeued', cause: 'retry' },
    reserved('b'),
  );
  assert.equal(advance(again, reported('a', 1, result('error')), NOW).outcome, 'late');
});

test('a second result is kept beside the first, and the same one again changes nothing', () => {
  const done = course(reserved(), reported('a', 1, result('done')));
  const twice = advance(done, reported('a', 1, result('done')), NOW);
  assert.equal(twice.outcome, 'duplicate');
  assert.equal(twice.record, done);
  const other = advance(done, reported('a', 1, result('error', 7)), NOW);
  assert.equal(other.outcome, 'late');
  assert.equal(other.record.state, 'done');
  assert.equal(other.record.late_results[0]?.why, 'already_ended');
  assert.equal(advance(other.record, reported('a', 1, result('error', 7)), NOW).outcome, 'duplicate');
});

test('a worker that never had the task cannot report on it', () => {
  const running = course(reserved(), { type: 'started' });
  const { outcome, record } = advance(running, reported('mallory', 1, result('done')), NOW);
  assert.equal(outcome, 'refused');
  assert.equal(record, running);
});

test('a result after the deadline ended the task says so', () => {
  const failed = course(
    reserved(),
    { type: 'started' },
    { type: 'lost', reason: 'late' },
    { type: 'failed', reason: 'deadline_passed: late' },
  );
  const { record } = advance(failed, reported('a', 1, result('done', 9)), NOW);
  assert.equal(record.late_results[0]?.why, 'after_deadline');
  assert.equal(record.state, 'lost');
  assert.equal(record.tokens_spent, 9, 'now it is known what it spent');
});

test('a cancel that comes too late leaves done as it is; otherwise what was done is kept with it', () => {
  const asked = course(reserved(), { type: 'started' }, { type: 'cancel_requested' });
  assert.equal(advance(asked, reported('a', 1, result('done')), NOW).record.state, 'done');
  const canceled = advance(asked, reported('a', 1, result('partial')), NOW).record;
  assert.equal(canceled.state, 'canceled');
  assert.equal(canceled.result?.status, 'partial');
});

test('what ended is tried again by an operator only, and what was accepted stays', () => {
  const done = course(reserved(), reported('a', 1, result('done')));
  assert.equal(advance(done, { type: 'requeued', cause: 'retry' }, NOW).outcome, 'refused');
  const again = advance(done, { type: 'requeued', cause: 'operator', only: 'b' }, NOW).record;
  assert.equal(again.state, 'queued');
  assert.equal(again.spec.worker, 'b');
  assert.equal(again.late_results[0]?.result.status, 'done');
  assert.equal(advance(again, reserved('b'), NOW).record.attempt, 2);
});

test('one unknown attempt makes the sum unknown', () => {
  const record = course(
    reserved(),
    { type: 'lost', reason: 'x' },
    { type: 'requeued', cause: 'retry' },
    reserved('b'),
    reported('b', 2, result('done')),
  );
  assert.equal(record.tokens_spent, null);
});

test('attempts that came to nothing do not pile up without end', () => {
  let record = fresh();
  for (let n = 0; n < 300; n += 1) {
    record = advance(record, reserved(), NOW).record;
    record = advance(record, { type: 'released', outcome: 'busy', reason: 'busy' }, NOW).record;
  }
  assert.equal(record.attempt, 300);
  assert.ok(record.attempts.length <= 51);
});

const workers = fc.constantFrom('a', 'b', 'c');
const attempts = fc.option(fc.integer({ min: 1, max: 6 }), { nil: undefined });
const results = fc
  .tuple(
    fc.constantFrom<Status>('done', 'partial', 'blocked', 'error'),
    fc.option(fc.integer({ min: 0, max: 99 }), { nil: null }),
    fc.constantFrom('', 'one', 'two'),
  )
  .map(([status, tokens, note]) => result(status, tokens, note));
const explanation = { sentence: 'nobody' } as never;

const events: fc.Arbitrary<TaskEvent> = fc.oneof(
  { weight: 1, arbitrary: fc.constant<TaskEvent>({ type: 'decided', explanation }) },
  { weight: 6, arbitrary: workers.map((worker) => reserved(worker)) },
  { weight: 3, arbitrary: fc.constant<TaskEvent>({ type: 'sent' }) },
  { weight: 3, arbitrary: attempts.map((attempt): TaskEvent => ({ type: 'accepted', attempt })) },
  { weight: 3, arbitrary: attempts.map((attempt): TaskEvent => ({ type: 'started', attempt })) },
  {
    weight: 2,
    arbitrary: fc
      .constantFrom('unreachable', 'busy', 'unknown')
      .map((outcome): TaskEvent => ({ type: 'released', outcome: outcome as 'busy', reason: 'r', exclude: 'm' })),
  },
  {
    weight: 6,
    arbitrary: fc
      .tuple(workers, fc.option(fc.integer({ min: 1, max: 6 }), { nil: null }), results)
      .map(([worker, attempt, what]) => reported(worker, attempt, what)),
  },
  { weight: 2, arbitrary: fc.constant<TaskEvent>({ type: 'lost', reason: 'lease' }) },
  { weight: 1, arbitrary: results.map((what): TaskEvent => ({ type: 'lost', reason: 'restarted', result: what })) },
  {
    weight: 4,
    arbitrary: fc
      .constantFrom('reroute', 'retry')
      .map((cause): TaskEvent => ({ type: 'requeued', cause: cause as 'retry' })),
  },
  { weight: 1, arbitrary: fc.constant<TaskEvent>({ type: 'requeued', cause: 'operator' }) },
  { weight: 1, arbitrary: fc.constant<TaskEvent>({ type: 'parked', reason: 'p' }) },
  { weight: 1, arbitrary: fc.constant<TaskEvent>({ type: 'failed', reason: 'f' }) },
  { weight: 1, arbitrary: fc.constant<TaskEvent>({ type: 'cancel_requested' }) },
  { weight: 1, arbitrary: fc.constant<TaskEvent>({ type: 'canceled', reason: 'c' }) },
  { weight: 1, arbitrary: fc.constant<TaskEvent>({ type: 'answered', question_id: 'q' }) },
  {
    weight: 1,
    arbitrary: fc.constant<TaskEvent>({ type: 'asked', question: { task_id: 't', question_id: 'q' } as never }),
  },
  { weight: 1, arbitrary: fc.constant<TaskEvent>({ type: 'granted', tokens: 3 }) },
  { weight: 1, arbitrary: fc.constant<TaskEvent>({ type: 'verified', verified: 'yes', reasons: [] }) },
);

/** Checks the invariants of a record after any events. */
function holds(record: TaskRecord): void {
  assert.equal(record.worker !== null || !isActive(record), true, 'an attempt under way has a worker');
  assert.equal(isEnded(record) && (isActive(record) || record.state === 'queued'), false, 'ended is ended');
  if (record.parked) assert.ok(['blocked', 'lost'].includes(record.state) && !isEnded(record));
  if (['done', 'partial', 'error', 'canceled'].includes(record.state)) assert.ok(isEnded(record));
  const numbers = record.attempts.map(({ attempt }) => attempt);
  assert.deepEqual(
    numbers,
    numbers.toSorted((one, other) => one - other),
  );
  assert.equal(new Set(numbers).size, numbers.length, 'an attempt is there once');
  const open = record.attempts.filter(({ outcome }) => outcome === undefined);
  assert.equal(open.length, isActive(record) ? 1 : 0, 'only the attempt under way has not ended');
  if (isActive(record)) assert.equal(open[0]?.attempt, record.attempt);
  if (record.state === 'done') assert.equal(record.result?.status, 'done');
  if (record.questions.length > 0) assert.ok(isActive(record), 'only a running attempt asks');
}

test('over thousands of histories: one accepted result, nothing after the end without an operator, attempts only grow', () => {
  fc.assert(
    fc.property(fc.array(events, { minLength: 1, maxLength: 40 }), (history) => {
      let record = fresh();
      let accepted = 0;
      const reports = new Set<TaskResult>();
      for (const [index, event] of history.entries()) {
        const frozen = structuredClone(record);
        const { record: next, outcome } = advance(record, event, NOW + index);
        assert.deepEqual(record, frozen, 'the record given is not touched');
        assert.equal(next === record, outcome === 'refused' || outcome === 'duplicate');
        assert.ok(next.attempt === record.attempt || next.attempt === record.attempt + 1);
        assert.ok(next.attempt === record.attempt || event.type === 'reserved');
        const byOperator = event.type === 'requeued' && event.cause === 'operator';
        if (isEnded(record) && !byOperator) {
          assert.equal(next.state, record.state, 'no state after the end');
          assert.equal(next.result, record.result, 'no other result after the end');
        }
        if (byOperator && outcome === 'changed') accepted = 0;
        if ((event.type === 'result' || event.type === 'lost') && next !== record && event.result) {
          reports.add(event.result);
        }
        if (!isEnded(record) && isEnded(next) && event.type === 'result') accepted += 1;
        assert.ok(accepted <= 1, 'one accepted result');
        holds(next);
        record = next;
      }
      // Nothing that was reported with work in it is lost; refusals live on in their attempts.
      const kept = new Set([record.result, ...record.late_results.map((late) => late.result)]);
      if (record.late_results.length < 32) {
        for (const report of reports) if (report.status !== 'blocked') assert.ok(kept.has(report));
      }
    }),
    { numRuns: 4000, seed: 7 },
  );
});
