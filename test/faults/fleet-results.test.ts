/**
 * F-96, the second half: the worker whose result counts. A real server with a fleet, and workers that follow the test's
 * script, over real links.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { fleetMessage, resultMessage } from '../../src/fleet/messages/encode.ts';
import type { Envelope, TaskResult } from '../../src/protocol/fleet.ts';
import { eventually, type FleetStand, named, type RawWorker, startFleet, tokenOf } from './support/fleet-server.ts';

const WORKERS = `${named('ann', 'roles: [worker]')}${named('bob', 'roles: [worker]')}`;

/** Starts a server with the worker ann and a task that was dispatched to it. */
async function dispatched(t: TestContext, more: { readonly retry_safe?: boolean } = {}, fleetYaml = '') {
  const stand = await startFleet(t, WORKERS, fleetYaml);
  const ann = await stand.worker(tokenOf('ann'), { agentId: 'ann' });
  await ann.next('SESSION_ACCEPT');
  const { task_id } = await stand.orchestrator.submit({ brief: 'x', worker: 'ann', ...more });
  await ann.next('TASK_DISPATCH');
  return { stand, ann, task_id };
}

let reports = 0;
const report = (task_id: string, envelope: Envelope = {}, more: Partial<TaskResult> = {}): TaskResult =>
  resultMessage(
    { task_id, status: 'done', tokens_spent: 5, ...more },
    { message_id: `report-${++reports}`, ...envelope },
  );

/** Sends a result and waits until the orchestrator has acknowledged it: it is decided upon then. */
async function deliver(worker: RawWorker, result: TaskResult): Promise<void> {
  worker.send(result);
  const id = result.envelope?.message_id;
  await worker.next('TASK_ACK', ({ envelope }) => envelope?.causation_id === id);
}

const accept = (worker: RawWorker, task_id: string, attempt: number): void =>
  worker.send(fleetMessage('TASK_ACK', { task_id, accepted: true, state: 'accepted' }, { attempt }));

/** Returns the reasons why stale results of a task were not applied, in order. */
async function stale(stand: FleetStand, taskId: string): Promise<readonly unknown[]> {
  const events = await stand.events(taskId);
  return events.flatMap(({ kind, body }) => (kind === 'stale_result' ? [body.why] : []));
}

const isState = (stand: FleetStand, taskId: string, state: string) => async () =>
  (await stand.orchestrator.get(taskId)).state === state;

test('F-96: a result before the attempt was accepted is stored and not applied', async (t) => {
  const { stand, ann, task_id } = await dispatched(t);
  ann.send(fleetMessage('TASK_PROGRESS', { task_id, seq: 1, phase: 'running' }, { attempt: 1 }));
  await deliver(ann, report(task_id, { attempt: 1 }));
  await deliver(
    ann,
    report(task_id, { attempt: 1, causation_id: `${task_id}#1` }, { status: 'partial', next_steps: ['y'] }),
  );
  await deliver(ann, report(task_id, { attempt: 1 }, { status: 'error', error_summary: 'no' }));
  await deliver(ann, report(task_id));
  assert.deepEqual(await stale(stand, task_id), Array(4).fill('not_accepted'));
  const [entry] = (await stand.events(task_id)).filter(({ kind }) => kind === 'stale_result');
  assert.deepEqual([entry?.body.worker, entry?.body.attempt, entry?.body.status], ['ann', 1, 'done']);
  assert.equal((entry?.body.result as TaskResult | undefined)?.tokens_spent, 5);
  const { state, result, late_results } = await stand.orchestrator.get(task_id);
  assert.deepEqual([['reserved', 'sent'].includes(state), result, late_results], [true, null, []]);
  accept(ann, task_id, 1);
  await deliver(ann, report(task_id, { attempt: 1 }, { summary: 'after the acknowledgement' }));
  const done = await stand.orchestrator.get(task_id);
  assert.deepEqual([done.state, done.result?.summary], ['done', 'after the acknowledgement']);
});

test('F-96: a refusal needs no acknowledgement, and what follows it counts for nothing', async (t) => {
  const { stand, ann, task_id } = await dispatched(t);
  const refusal = { status: 'blocked', tokens_spent: 0, blocked_reason: 'dirty_repo: changes' } as const;
  await deliver(ann, report(task_id, { attempt: 1 }, { ...refusal, blocked: { code: 'dirty_repo', retryable: true } }));
  await eventually(isState(stand, task_id, 'queued'), 'the task to wait for its next attempt');
  await deliver(ann, report(task_id, { attempt: 1 }));
  assert.deepEqual(await stale(stand, task_id), ['not_accepted']);
  assert.equal((await stand.orchestrator.get(task_id)).state, 'queued');
});

for (const state of ['busy', 'unknown'] as const) {
  test(`F-96: a worker that answered ${state} has no attempt to report`, async (t) => {
    const { stand, ann, task_id } = await dispatched(t);
    ann.send(
      fleetMessage(
        'TASK_ACK',
        { task_id, accepted: false, state, retry_after_s: 600 },
        { attempt: 1, causation_id: `${task_id}#1` },
      ),
    );
    if (state === 'unknown') {
      // The first one ends the dispatch; it has no effect on an attempt that is still being sent.
      await eventually(isState(stand, task_id, 'sent'), 'the dispatch to end');
      ann.send(fleetMessage('TASK_ACK', { task_id, accepted: false, state }, { attempt: 1 }));
    }
    const ended = async () => (await stand.orchestrator.get(task_id)).attempts[0]?.outcome === state;
    await eventually(ended, 'the first attempt to end');
    await deliver(ann, report(task_id, { attempt: 1 }));
    assert.deepEqual(await stale(stand, task_id), ['not_accepted']);
    assert.equal((await stand.orchestrator.get(task_id)).result, null);
  });
}

test('F-96: a result under another fence, or of another link, is stored and not applied', async (t) => {
  const { stand, ann, task_id } = await dispatched(t);
  accept(ann, task_id, 1);
  const bob = await stand.worker(tokenOf('bob'), { agentId: 'bob' });
  await bob.next('SESSION_ACCEPT');
  await deliver(bob, report(task_id, { attempt: 1 }));
  await deliver(bob, report(task_id));
  await deliver(ann, report(task_id, { attempt: 1, lease: { ttl_s: 45, fence: 7 } }));
  await deliver(ann, report(task_id, { lease: { ttl_s: 45, fence: 2 } }));
  assert.deepEqual(await stale(stand, task_id), ['not_given', 'not_given', 'other_fence', 'not_given']);
  assert.equal((await stand.orchestrator.get(task_id)).state, 'accepted');
  await deliver(ann, report(task_id, { lease: { ttl_s: 45, fence: 1 } }));
  assert.equal((await stand.orchestrator.get(task_id)).state, 'done');
});

test('F-96: an earlier attempt of the same worker does not end a later one', async (t) => {
  const { stand, ann, task_id } = await dispatched(t, { retry_safe: true });
  accept(ann, task_id, 1);
  const restarted = { status: 'error', error_summary: 'worker restarted during the task' } as const;
  await deliver(ann, report(task_id, { attempt: 1 }, restarted));
  await ann.next('TASK_DISPATCH', ({ envelope }) => envelope?.attempt === 2);
  accept(ann, task_id, 2);
  await eventually(isState(stand, task_id, 'accepted'), 'the second attempt to be accepted');
  // The result may be of either attempt.
  await deliver(ann, report(task_id, {}, { summary: 'of whichever' }));
  assert.deepEqual(await stale(stand, task_id), ['no_attempt']);
  await deliver(ann, report(task_id, { attempt: 1 }, { summary: 'of the first' }));
  const under = await stand.orchestrator.get(task_id);
  assert.deepEqual(
    [under.state, under.late_results.map(({ why }) => why)],
    ['accepted', ['old_attempt', 'old_attempt']],
  );
  await deliver(ann, report(task_id, { attempt: 2 }, { summary: 'of the second' }));
  assert.equal((await stand.orchestrator.get(task_id)).result?.summary, 'of the second');
});

test('a result without an envelope counts for the only attempt its worker has', async (t) => {
  const stand = await startFleet(t, WORKERS);
  const ann = await stand.worker(tokenOf('ann'), { agentId: 'ann', features: [] });
  const { task_id } = await stand.orchestrator.submit({ brief: 'x', worker: 'ann' });
  await ann.next('TASK_DISPATCH');
  ann.send(resultMessage({ task_id, status: 'done', tokens_spent: 1 }));
  await eventually(isState(stand, task_id, 'done'), 'the result');
});

test('a worker that finished while its link was cut replies to the poll with its result', async (t) => {
  const { stand, ann, task_id } = await dispatched(t, {}, 'lease_ttl_s: 3\n');
  ann.link.destroy('cut before the acknowledgement');
  const again = await stand.worker(tokenOf('ann'), { agentId: 'ann' });
  const { envelope } = await again.next('TASK_POLL', (poll) => poll.task_id === task_id);
  await deliver(again, report(task_id, { attempt: envelope?.attempt }));
  assert.equal((await stand.orchestrator.get(task_id)).state, 'done');
  assert.deepEqual(await stale(stand, task_id), []);
});

test('F-96: at most 32 stale results of a task are stored, also over a restart, and long ones are shortened', async (t) => {
  const { stand, ann, task_id } = await dispatched(t);
  const long = { prose: 'long '.repeat(40_000), conformance: 'c'.repeat(200_000) };
  await deliver(ann, report(task_id, { attempt: 1 }, { prose: long.prose }));
  await deliver(ann, report(task_id, { attempt: 1 }, long));
  for (let n = 2; n < 20; n += 1) await deliver(ann, report(task_id, { attempt: 1 }));
  const kept = (await stand.events(task_id)).filter(({ kind }) => kind === 'stale_result');
  assert.equal(kept.length, 20);
  assert.match(JSON.stringify(kept[0]?.body.result), /left out: prose/);
  assert.equal(kept[1]?.body.result, null);
  assert.ok(kept.every(({ body }) => JSON.stringify(body).length < 150_000));
  await stand.restart();
  const bob = await stand.worker(tokenOf('bob'), { agentId: 'bob' });
  await bob.next('SESSION_ACCEPT');
  for (let n = 0; n < 20; n += 1) await deliver(bob, report(task_id, { attempt: 1 }));
  assert.equal((await stale(stand, task_id)).length, 32);
  assert.equal((await stand.orchestrator.get(task_id)).result, null);
});
