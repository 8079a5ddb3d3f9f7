/**
 * The life of an attempt: leases, workers that come back, late results, cancel, deadline, questions, steering.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fleetMessage } from '../../../src/fleet/messages/encode.ts';
import type { TaskAnswer, TaskQuestion } from '../../../src/protocol/fleet.ts';
import { fail } from '../../../src/wire/errors.ts';
import { fleet, guardedStore } from './support/fleet.ts';
import { ALL, type PeerScript } from './support/scripted-bus.ts';
import { START, settle } from './support/virtual-clock.ts';

const silent = { features: ALL.filter((feature) => feature !== 'poll') };

test('a worker that is not heard of is asked once, then its task is lost and waits for an operator', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const worker = await bus.worker('w');
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  await clock.advance(29_000);
  assert.equal(worker.last('TASK_POLL'), undefined);
  await clock.advance(2_000);
  assert.equal(worker.last('TASK_POLL')?.task_id, task_id);
  await clock.advance(13_000);
  assert.equal(await state(task_id), 'accepted');
  await clock.advance(2_000);
  const record = await orchestrator.get(task_id);
  assert.equal(record.state, 'lost');
  assert.equal(record.parked, true);
  assert.match(record.dead_letter ?? '', /second run may do harm/);
  assert.deepEqual(orchestrator.workers()[0]?.tasks, []);
});

test('a task that may run twice is tried again at once, and not for ever', async (t) => {
  const { bus, clock, orchestrator } = await fleet(t);
  const worker = await bus.worker('w', silent, { session: { ttl_s: 100_000 } });
  const { task_id } = await orchestrator.submit({ brief: 'x', retry_safe: true });
  await clock.advance(46_000);
  assert.deepEqual(
    worker.dispatches.map(({ envelope }) => envelope?.attempt),
    [1, 2],
  );
  await clock.advance(46_000 * 4);
  const record = await orchestrator.get(task_id);
  assert.equal(worker.dispatches.length, 4, 'the first, and three more');
  assert.equal(record.parked, true);
});

test('progress and heartbeats renew the lease; the age of a description is another clock', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const worker = await bus.worker('w', silent, { session: { ttl_s: 1 } });
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  await clock.advance(40_000);
  await worker.progress(task_id, 1);
  await clock.advance(40_000);
  await worker.heartbeat(1);
  await clock.advance(40_000);
  assert.equal(await state(task_id), 'running');
  assert.equal(orchestrator.workers()[0]?.status, 'stale');
  await worker.progress(task_id, 7);
  await clock.advance(6_000);
  assert.equal(await state(task_id), 'lost', 'progress of another attempt renews nothing');
});

test('a heartbeat that counts fewer tasks renews nothing: its worker is asked', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const worker = await bus.worker('w');
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  await worker.progress(task_id, 1);
  await clock.advance(20_000);
  await worker.heartbeat(0);
  assert.equal(worker.last('TASK_POLL')?.task_id, task_id);
  await worker.say(fleetMessage('TASK_ACK', { task_id, accepted: false, state: 'unknown' }, { attempt: 1 }));
  assert.equal(await state(task_id), 'lost', 'it was begun there, so it is not simply sent again');
});

test('a peer that cannot send heartbeats has the longest turn as its lease', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t, { plainPeerTimeoutS: 600 });
  bus.bare('plain', { structured: false, features: [], onDispatch: () => {} });
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  await clock.advance(599_000);
  assert.equal(await state(task_id), 'accepted');
  await clock.advance(2_000);
  assert.equal(await state(task_id), 'lost');
});

test('a result that comes after the lease ran out is taken all the same', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const worker = await bus.worker('w', silent);
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  await clock.advance(60_000);
  assert.equal(await state(task_id), 'lost');
  await worker.report(task_id, 'done', {}, 1);
  const { record } = await orchestrator.result(task_id);
  assert.equal(record.state, 'done');
  assert.equal(record.parked, false);
});

test('an older attempt that has done the work stops a newer one that has not begun', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const a = await bus.worker('a', silent);
  const { task_id } = await orchestrator.submit({ brief: 'x', retry_safe: true });
  await settle();
  a.leave();
  const b = await bus.worker('b', { onDispatch: () => {} }, { session: { ttl_s: 10_000 } });
  await clock.advance(46_000);
  assert.equal(await state(task_id), 'sent');
  await a.report(task_id, 'done', {}, 1);
  assert.equal(await state(task_id), 'done');
  assert.equal(b.last('TASK_CANCEL')?.envelope?.attempt, 2);
  await b.report(task_id, 'partial', {}, 2);
  const record = await orchestrator.get(task_id);
  assert.equal(record.state, 'done');
  assert.equal(record.late_results.length, 1);
  assert.deepEqual(
    orchestrator.workers().map(({ tasks }) => tasks),
    [[], []],
  );
});

test('an older attempt that has done the work stops a newer one at the same worker', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const worker = await bus.worker('w', { onDispatch: () => {} }, { session: { ttl_s: 10_000 } });
  const { task_id } = await orchestrator.submit({ brief: 'x', retry_safe: true });
  await settle();
  await clock.advance(46_000);
  assert.equal(worker.dispatches.length, 2, 'it was not heard of, and tried again');
  await worker.report(task_id, 'done', {}, 1);
  assert.equal(await state(task_id), 'done');
  assert.equal(worker.last('TASK_CANCEL')?.envelope?.attempt, 2);
});

test('of two results one is accepted; the other is kept and shown, and both are acknowledged', async (t) => {
  const { bus, clock, orchestrator, kinds } = await fleet(t);
  const a = await bus.worker('a', silent);
  const { task_id } = await orchestrator.submit({ brief: 'x', retry_safe: true });
  await settle();
  a.leave();
  const b = await bus.worker('b', {}, { session: { ttl_s: 10_000 } });
  await clock.advance(46_000);
  await a.report(task_id, 'done', { summary: 'from a' }, 1);
  await b.report(task_id, 'done', { summary: 'from b' }, 2);
  const record = await orchestrator.get(task_id);
  assert.equal(record.result?.summary, 'from b');
  assert.equal(record.late_results[0]?.result.summary, 'from a');
  assert.equal(record.late_results[0]?.why, 'old_attempt');
  assert.ok((await kinds(task_id)).includes('late_result'));
  for (let n = 0; n < 10; n += 1) await b.report(task_id, 'done', { summary: 'from b' }, 2);
  assert.equal((await orchestrator.get(task_id)).late_results.length, 1);
});

test('a result of a worker that was not given the task changes nothing', async (t) => {
  const { bus, orchestrator, state } = await fleet(t);
  await bus.worker('w');
  const { task_id } = await orchestrator.submit({ brief: 'x', worker: 'w' });
  const mallory = await bus.worker('mallory');
  await mallory.report(task_id, 'done', {}, 1);
  await mallory.report('never-heard-of', 'done', {}, 1);
  assert.equal(await state(task_id), 'accepted');
  assert.equal((await orchestrator.get(task_id)).late_results.length, 0);
});

test('a restarted worker reports that it ran it: that is lost work, not an error of the task', async (t) => {
  const { bus, orchestrator, state } = await fleet(t);
  const worker = await bus.worker('w', {}, { worker: { max_concurrent: 5 } });
  const safe = await orchestrator.submit({ brief: 'x', retry_safe: true });
  const unsafe = await orchestrator.submit({ brief: 'y' });
  await settle();
  worker.leave('cut');
  worker.incarnation = 'second';
  worker.join();
  await worker.announce();
  assert.equal(worker.sent.filter(({ type }) => type === 'TASK_POLL').length, 2, 'both are asked after');
  const restarted = { error_summary: 'worker restarted during the task', tokens_spent: null };
  await worker.report(safe.task_id, 'error', restarted, 1);
  await worker.report(unsafe.task_id, 'error', restarted, 1);
  assert.equal(await state(safe.task_id), 'accepted');
  assert.equal((await orchestrator.get(safe.task_id)).attempt, 2);
  const parked = await orchestrator.get(unsafe.task_id);
  assert.equal(parked.state, 'lost');
  assert.equal(parked.parked, true);
  assert.equal(parked.result?.error_summary, 'worker restarted during the task');
  await worker.report(unsafe.task_id, 'error', restarted, 1);
  assert.equal((await orchestrator.get(unsafe.task_id)).state, 'lost', 'the report once more changes nothing');
});

test('a worker whose link came back in the same process continues', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const worker = await bus.worker('w', silent);
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  await clock.advance(40_000);
  worker.leave('cut');
  assert.equal(orchestrator.workers()[0]?.status, 'gone');
  worker.join();
  await worker.announce();
  await clock.advance(40_000);
  assert.equal(await state(task_id), 'accepted');
  await worker.report(task_id, 'done', {}, 1);
  assert.equal(await state(task_id), 'done');
});

test('a result that cannot be kept is not acknowledged; it is when it comes again', async (t) => {
  let broken = false;
  const store = guardedStore(() => {
    if (broken) throw fail('disk_full', 'no room');
  });
  const { bus, clock, orchestrator, state } = await fleet(t, { store });
  const worker = await bus.worker('w');
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  await settle();
  broken = true;
  await assert.rejects(worker.report(task_id, 'done', {}, 1), { code: 'disk_full' });
  await assert.rejects(worker.report(task_id, 'done', {}, 1), { code: 'disk_full' });
  await assert.rejects(orchestrator.submit({ brief: 'y' }), { code: 'disk_full' });
  await settle();
  assert.equal(worker.dispatches.length, 1, 'nothing is sent while rows cannot be written');
  broken = false;
  await worker.report(task_id, 'done', {}, 1);
  assert.equal((await store.get(task_id))?.record.state, 'done');
  await clock.advance(2_000);
  const next = await orchestrator.submit({ brief: 'z' });
  assert.equal(await state(next.task_id), 'accepted');
  assert.equal(orchestrator.counts().open, 1);
});

test('cancel ends what waits at once, and what runs when its worker has stopped it', async (t) => {
  const { bus, orchestrator, state } = await fleet(t);
  const waiting = await orchestrator.submit({ brief: 'x', required_mcp: ['none'] });
  assert.equal((await orchestrator.cancel(waiting.task_id, 'not needed')).state, 'canceled');
  const worker = await bus.worker('w');
  const { task_id } = await orchestrator.submit({ brief: 'y' });
  await worker.progress(task_id, 1);
  const asked = await orchestrator.cancel(task_id, 'changed my mind');
  assert.equal(asked.state, 'running');
  assert.equal(worker.last('TASK_CANCEL')?.reason, 'changed my mind');
  await orchestrator.cancel(task_id);
  await worker.report(task_id, 'partial', { next_steps: ['the other half'] }, 1);
  assert.equal(await state(task_id), 'canceled');
  const record = await orchestrator.cancel(task_id);
  assert.equal(record.result?.status, 'partial');
  assert.equal(record.cancel_requested, true);
});

test('a cancel that crosses with the result loses', async (t) => {
  const { bus, orchestrator, state } = await fleet(t);
  const worker = await bus.worker('w');
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  await settle();
  await Promise.all([orchestrator.cancel(task_id), worker.report(task_id, 'done', {}, 1)]);
  assert.equal(await state(task_id), 'done');
});

test('a worker that does not answer a cancel has thirty seconds; one that supports no cancel has none', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const worker = await bus.worker('w', {}, { session: { ttl_s: 1000 } });
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  await settle();
  await orchestrator.cancel(task_id);
  await clock.advance(29_000);
  assert.equal(await state(task_id), 'accepted');
  await clock.advance(2_000);
  assert.equal(await state(task_id), 'canceled');
  await worker.progress(task_id, 1);
  await settle();
  assert.equal(
    worker.sent.filter(({ type }) => type === 'TASK_CANCEL').length,
    2,
    'it continues, so the cancel is sent again',
  );
  await worker.progress(task_id, 1);
  await settle();
  assert.equal(worker.sent.filter(({ type }) => type === 'TASK_CANCEL').length, 2, 'but not every time');
  await worker.report(task_id, 'done', {}, 1);
  assert.equal((await orchestrator.get(task_id)).late_results[0]?.why, 'already_ended');

  const plain = bus.bare('plain', { structured: false, features: [], onDispatch: () => {} });
  const other = await orchestrator.submit({ brief: 'y', worker: plain.peerId });
  await settle();
  assert.equal((await orchestrator.cancel(other.task_id)).state, 'canceled');
});

test('a cancel reaches a worker that was away when it was asked for', async (t) => {
  const { bus, clock, orchestrator } = await fleet(t);
  const worker = await bus.worker('w');
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  await settle();
  worker.leave('cut');
  await orchestrator.cancel(task_id);
  assert.equal(worker.last('TASK_CANCEL'), undefined);
  await clock.advance(5_000);
  worker.join();
  assert.equal(worker.last('TASK_CANCEL')?.task_id, task_id);
});

test('a deadline ends what waits; a worker that runs past it receives a cancel, and is abandoned a little later', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  const at = (ms: number) => new Date(START + ms).toISOString();
  const waiting = await orchestrator.submit({ brief: 'x', required_mcp: ['none'], deadline: at(120_000) });
  const tooLate = await orchestrator.submit({ brief: 'x', deadline: at(20_000) });
  assert.equal(await state(tooLate.task_id), 'blocked');
  assert.equal(
    (await orchestrator.get(tooLate.task_id)).dead_letter,
    'deadline_too_close: 20 s are left before the deadline, and routing needs 30 s (min_lead_s)',
  );
  const worker = await bus.worker('w', silent, { session: { ttl_s: 1000 } });
  const running = await orchestrator.submit({ brief: 'y', deadline: at(60_000) });
  const stops = await orchestrator.submit({ brief: 'z', deadline: at(60_000) });
  for (let n = 0; n < 4; n += 1) {
    await clock.advance(15_500);
    await worker.heartbeat(2);
  }
  assert.equal(worker.last('TASK_CANCEL')?.reason, 'deadline');
  await worker.report(stops.task_id, 'partial', {}, 1);
  assert.equal(await state(stops.task_id), 'partial', 'what it hands back counts');
  await clock.advance(30_000);
  const lost = await orchestrator.get(running.task_id);
  assert.equal(lost.state, 'lost');
  assert.notEqual(lost.ended_at, null);
  await worker.report(running.task_id, 'done', {}, 1);
  assert.equal((await orchestrator.get(running.task_id)).late_results[0]?.why, 'after_deadline');
  await clock.advance(60_000);
  assert.match((await orchestrator.get(waiting.task_id)).dead_letter ?? '', /deadline_passed/);
});

test('an operator tries a parked task again, names a worker for it, or drops it', async (t) => {
  const { bus, orchestrator, state } = await fleet(t);
  const refuse: PeerScript = { onDispatch: (d, peer) => peer.refuse(d.task.task_id, 'budget_too_small', false) };
  const a = await bus.worker('a', refuse, { session: { repo_state: { branch: 'm', clean: true } } });
  const b = await bus.worker('b');
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  assert.equal(await state(task_id), 'blocked');
  assert.equal(orchestrator.counts().parked, 1);
  await assert.rejects(orchestrator.retry(task_id, 'nobody'), { code: 'not_found' });
  const given = await orchestrator.retry(task_id, 'b');
  assert.equal(given.parked, false);
  assert.equal(await state(task_id), 'accepted');
  assert.equal(b.dispatches.length, 1);
  await assert.rejects(orchestrator.retry(task_id), { code: 'invalid_message' });
  await assert.rejects(orchestrator.drop(task_id), { code: 'invalid_message' });
  await b.report(task_id, 'error', {}, 2);
  assert.equal(await state(task_id), 'error');
  await orchestrator.retry(task_id);
  assert.equal(await state(task_id), 'accepted');
  const other = await orchestrator.submit({ brief: 'y', worker: 'a' });
  await settle();
  const dropped = await orchestrator.drop(other.task_id, 'no use');
  assert.equal(dropped.dead_letter, 'no use');
  assert.notEqual(dropped.ended_at, null);
  assert.equal(a.dispatches.length, 2);
});

test('what an attempt has only claimed to have spent is stored as a claim', async (t) => {
  const { bus, orchestrator } = await fleet(t);
  const worker = await bus.worker('w');
  const spent = async (usage: { readonly source: 'claimed' | 'measured' }): Promise<boolean | undefined> => {
    const { task_id } = await orchestrator.submit({ brief: 'x' });
    await settle();
    await worker.report(task_id, 'done', { tokens_spent: 900, usage }, 1);
    const { attempts } = await orchestrator.get(task_id);
    assert.equal(attempts[0]?.tokens_spent, 900);
    return attempts[0]?.tokens_claimed;
  };
  assert.deepEqual([await spent({ source: 'claimed' }), await spent({ source: 'measured' })], [true, undefined]);
});

test('a question waits for an answer, which reaches the worker', async (t) => {
  const { bus, clock, orchestrator } = await fleet(t);
  const worker = await bus.worker('w', {}, { session: { ttl_s: 10_000 } });
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  await settle();
  const ask = (question_id: string, expires_s?: number) =>
    worker.say(
      fleetMessage(
        'TASK_QUESTION',
        { task_id, question_id, kind: 'question', title: 'Which?', schema, expires_s },
        { attempt: 1 },
      ),
    );
  const schema = { type: 'object', properties: { which: { enum: ['this', 'that'] } }, required: ['which'] };
  await ask('q1');
  await ask('q1');
  await ask('q2', 20);
  assert.deepEqual(
    (await orchestrator.get(task_id)).questions.map(({ question_id }) => question_id),
    ['q1', 'q2'],
  );
  const wrong = orchestrator.answer(task_id, 'q1', { allowed: true, content: { which: 'none' } });
  await assert.rejects(wrong, { code: 'schema_violation', message: /which must be equal to one of .*this, that$/ });
  await assert.rejects(orchestrator.answer(task_id, 'q1', { allowed: true }), { code: 'schema_violation' });
  assert.equal(worker.last('TASK_ANSWER'), undefined);
  await orchestrator.answer(task_id, 'q1', { allowed: true, content: { which: 'this' } });
  assert.deepEqual(worker.last('TASK_ANSWER')?.content, { which: 'this' });
  await assert.rejects(orchestrator.answer(task_id, 'q1', { allowed: false }), { code: 'not_found' });
  await clock.advance(21_000);
  assert.deepEqual((await orchestrator.get(task_id)).questions, []);
});

test('where a person can be asked, that person is; the asking ends with the task', async (t) => {
  const asked: { question: TaskQuestion; signal: AbortSignal }[] = [];
  const answers: PromiseWithResolvers<Omit<TaskAnswer, 'type' | 'protocol_version' | 'envelope'>>[] = [];
  const { bus, orchestrator } = await fleet(t, {
    askUser: (question, _task, signal) => {
      asked.push({ question, signal });
      const answer = Promise.withResolvers<Omit<TaskAnswer, 'type' | 'protocol_version' | 'envelope'>>();
      answers.push(answer);
      return answer.promise;
    },
  });
  const worker = await bus.worker('w');
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  await settle();
  const ask = (question_id: string) =>
    worker.say(fleetMessage('TASK_QUESTION', { task_id, question_id, kind: 'tool', title: 'May I?' }, { attempt: 1 }));
  await ask('q1');
  answers[0]?.resolve({ task_id, question_id: 'q1', allowed: false, reason: 'no' });
  await settle();
  assert.equal(worker.last('TASK_ANSWER')?.reason, 'no');
  await ask('q2');
  await worker.report(task_id, 'done', {}, 1);
  await settle();
  assert.equal(asked[1]?.signal.aborted, true);
});

test('input reaches a running task where its worker takes any', async (t) => {
  const { bus, orchestrator } = await fleet(t);
  const worker = await bus.worker('w');
  await bus.worker('deaf', { features: ['ack'] });
  const { task_id } = await orchestrator.submit({ brief: 'x', worker: 'w' });
  const other = await orchestrator.submit({ brief: 'x', worker: 'deaf' });
  await settle();
  await orchestrator.steer(task_id, 'use tabs');
  assert.equal(worker.last('TASK_STEER')?.text, 'use tabs');
  await assert.rejects(orchestrator.steer(other.task_id, 'use tabs'), { code: 'capability_missing' });
  await worker.report(task_id, 'done', {}, 1);
  await assert.rejects(orchestrator.steer(task_id, 'too late'), { code: 'invalid_message' });
});

test('waiting for a result ends with the signal, and with the orchestrator', async (t) => {
  const { bus, orchestrator } = await fleet(t);
  await bus.worker('w');
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  const abort = new AbortController();
  const given = orchestrator.result(task_id, abort.signal);
  const other = orchestrator.result(task_id);
  await settle();
  abort.abort(new Error('enough'));
  await assert.rejects(given, /enough/);
  const stopped = assert.rejects(other, { code: 'interrupted' });
  await orchestrator.close();
  await stopped;
  await assert.rejects(orchestrator.submit({ brief: 'x' }), { code: 'interrupted' });
});
