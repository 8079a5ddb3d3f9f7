/** An orchestrator that comes back, over a real file; and two of them on one store. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fleetMessage } from '../../../src/fleet/messages/encode.ts';
import { memoryTaskStore } from '../../../src/fleet/orchestrator/store-memory.ts';
import { sqliteTaskStore } from '../../../src/fleet/orchestrator/store-sqlite.ts';
import type { TaskStore } from '../../../src/fleet/orchestrator/task.ts';
import { taskStream } from '../../../src/fleet/orchestrator/task-journal.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { fleet, guardedStore } from './support/fleet.ts';
import { ALL, type PeerScript, ScriptedBus } from './support/scripted-bus.ts';
import { settle, settledWith, VirtualClock } from './support/virtual-clock.ts';

/** Makes a store on disk that can be closed and opened again. */
async function disk(t: TestContext): Promise<{ open(): Promise<TaskStore>; close(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'handfast-restart-'));
  let store: TaskStore | undefined;
  const close = async () => {
    await store?.close();
    store = undefined;
  };
  t.after(async () => {
    await close();
    await rm(folder, { recursive: true });
  });
  return {
    close,
    async open() {
      await close();
      store = settledWith(await sqliteTaskStore({ file: join(folder, 'tasks.db') }));
      return store;
    },
  };
}

/** Answers polls: about tasks it knows, and about tasks it has never seen. */
const answering = (knows: ReadonlyMap<string, 'accepted' | 'running'>): PeerScript => ({
  onMessage: (message, peer) => {
    if (message.type !== 'TASK_POLL') return;
    const { task_id, envelope } = message;
    const state = knows.get(task_id) ?? 'unknown';
    return peer.say(
      fleetMessage('TASK_ACK', { task_id, accepted: state !== 'unknown', state }, { attempt: envelope?.attempt }),
    );
  },
});

test('nothing is sent again before its worker was asked: what it has continues, what it never saw is sent', async (t) => {
  const kept = await disk(t);
  const before = await fleet(t, { store: await kept.open() });
  const script: PeerScript = { onDispatch: (d, peer) => (d.task.task_id === 'never' ? undefined : peer.accept(d)) };
  await before.bus.worker('w', script, { worker: { max_concurrent: 2 } });
  const has = (await before.orchestrator.submit({ brief: 'has' })).task_id;
  const never = (await before.orchestrator.submit({ brief: 'never', task_id: 'never' })).task_id;
  const waits = (await before.orchestrator.submit({ brief: 'waits', task_id: 'waits' })).task_id;
  await settle();
  await before.orchestrator.close();

  const after = await fleet(t, { store: await kept.open() });
  assert.deepEqual([await after.state(has), await after.state(waits)], ['accepted', 'queued']);
  const worker = after.bus.bare('w', answering(new Map([[has, 'running']])));
  await worker.announce({ worker: { max_concurrent: 3 } });
  await settle();
  assert.equal(await after.state(has), 'running');
  assert.equal(await after.state(never), 'accepted');
  assert.deepEqual(
    worker.dispatches.map(({ task, envelope }) => [task.task_id, envelope?.attempt]).filter(([id]) => id === never),
    [[never, 2]],
  );
  assert.equal(await after.state(waits), 'accepted');
  assert.equal((await after.orchestrator.submit({ brief: 'next', task_id: 'next' })).number, 4);
  await worker.report(has, 'done', {}, 1);
  assert.equal(await after.state(has), 'done');
});

test('a task of a peer that joins before its features are known is polled for when they are', async (t) => {
  const kept = await disk(t);
  const before = await fleet(t, { store: await kept.open() });
  await before.bus.worker('w');
  const { task_id: taskId } = await before.orchestrator.submit({ brief: 'has' });
  await settle();
  await before.orchestrator.close();

  const after = await fleet(t, { store: await kept.open() });
  // A plain peer joins when it is expected, and again when its card was read.
  const expected = after.bus.bare('w', { features: [], structured: false });
  await settle();
  assert.equal(expected.last('TASK_POLL'), undefined);
  const found = after.bus.bare('w', { ...answering(new Map([[taskId, 'running']])), structured: false });
  await settle();
  assert.equal(found.last('TASK_POLL')?.task_id, taskId);
  assert.equal(await after.state(taskId), 'running');
  await found.report(taskId, 'done', {}, 1);
  assert.equal(await after.state(taskId), 'done');
});

test('a worker that cannot be asked keeps its task for the length of a lease', async (t) => {
  const kept = await disk(t);
  const script = { features: ALL.filter((feature) => feature !== 'poll') };
  const before = await fleet(t, { store: await kept.open() });
  await before.bus.worker('w', script);
  const { task_id } = await before.orchestrator.submit({ brief: 'x', retry_safe: true });
  await settle();
  await before.orchestrator.close();

  const after = await fleet(t, { store: await kept.open() });
  const worker = await after.bus.worker('w', script, { session: { ttl_s: 10_000 } });
  await after.clock.advance(44_000);
  assert.equal(worker.dispatches.length, 0);
  await after.clock.advance(2_000);
  assert.deepEqual(
    worker.dispatches.map(({ envelope }) => envelope?.attempt),
    [2],
  );
  await worker.report(task_id, 'done', {}, 2);
  assert.equal(await after.state(task_id), 'done');
});

test('a peer whose tasks live on the bus is not sent them again', async (t) => {
  const kept = await disk(t);
  const script = { durable: true, onDispatch: () => {} };
  const before = await fleet(t, { store: await kept.open() });
  await before.bus.worker('w', script);
  const { task_id } = await before.orchestrator.submit({ brief: 'x' });
  await settle();
  await before.orchestrator.close();

  const after = await fleet(t, { store: await kept.open() });
  const worker = await after.bus.worker('w', script);
  for (let n = 0; n < 4; n += 1) {
    await after.clock.advance(15_000);
    await worker.heartbeat(1);
  }
  assert.equal(worker.dispatches.length, 0);
  await worker.report(task_id, 'done', {}, 1);
  assert.equal(await after.state(task_id), 'done');
});

test('a plain peer keeps what is left of the longest turn, counted from when it was sent', async (t) => {
  const kept = await disk(t);
  const script = { structured: false, features: [], onDispatch: () => {} };
  const before = await fleet(t, { store: await kept.open(), plainPeerTimeoutS: 300 });
  before.bus.bare('plain', script);
  const { task_id } = await before.orchestrator.submit({ brief: 'x' });
  await before.clock.advance(200_000);
  await before.orchestrator.close();

  const clock = new VirtualClock();
  await clock.advance(200_000);
  const after = await fleet(t, { store: await kept.open(), plainPeerTimeoutS: 300, clock });
  after.bus.bare('plain', script);
  await clock.advance(90_000);
  assert.equal(await after.state(task_id), 'accepted');
  await clock.advance(20_000);
  assert.equal(await after.state(task_id), 'lost');
});

test('a restart between a refusal and what follows from it decides then', async (t) => {
  const kept = await disk(t);
  const store = await kept.open();
  const before = await fleet(t, { store });
  await before.bus.worker('w');
  const refused = (await before.orchestrator.submit({ brief: 'x', task_id: 'refused' })).task_id;
  const lost = (await before.orchestrator.submit({ brief: 'x', task_id: 'lost', retry_safe: true })).task_id;
  await settle();
  await before.orchestrator.close();
  const one = (await store.get(refused))!;
  const result = fleetMessage('TASK_RESULT', {
    task_id: refused,
    status: 'blocked',
    tokens_spent: 0,
    blocked_reason: 'budget_too_small: no',
  });
  await store.put({ ...one.record, state: 'blocked', result }, one.revision);
  const two = (await store.get(lost))!;
  await store.put({ ...two.record, state: 'lost' }, two.revision);

  const after = await fleet(t, { store: await kept.open() });
  assert.equal((await after.orchestrator.get(refused)).parked, true);
  assert.equal(await after.state(lost), 'queued');
});

test('what waits for others, for a time, or for an answer still does', async (t) => {
  const kept = await disk(t);
  const before = await fleet(t, { store: await kept.open() });
  const worker = await before.bus.worker('w', {}, { worker: { max_concurrent: 1 } });
  await before.orchestrator.submitBatch([
    { task_id: 'first', brief: 'x' },
    { task_id: 'second', brief: 'x', after: ['first'] },
    { task_id: 'failed', brief: 'x', deadline: '2026-06-01T13:00:00Z', required_mcp: ['none'] },
    { task_id: 'orphan', brief: 'x', after: ['failed'] },
  ]);
  await settle();
  await worker.say(
    fleetMessage('TASK_QUESTION', { task_id: 'first', question_id: 'q', kind: 'question', title: '?' }, { attempt: 1 }),
  );
  await before.orchestrator.close();

  const after = await fleet(t, { store: await kept.open() });
  const again = await after.bus.worker('w', answering(new Map([['first', 'running']])));
  await settle();
  assert.equal(await after.state('second'), 'queued');
  assert.equal(again.dispatches.length, 0);
  await after.orchestrator.answer('first', 'q', { allowed: true });
  assert.equal(again.last('TASK_ANSWER')?.question_id, 'q');
  await again.report('first', 'done', {}, 1);
  assert.equal(await after.state('second'), 'accepted');
  await after.clock.advance(3_601_000);
  assert.equal((await after.orchestrator.get('orphan')).dead_letter, 'dependency_failed: failed ended as blocked');
});

test('what was canceled before the restart is canceled after it', async (t) => {
  const kept = await disk(t);
  const before = await fleet(t, { store: await kept.open() });
  const worker = await before.bus.worker('w');
  const { task_id } = await before.orchestrator.submit({ brief: 'x' });
  await settle();
  worker.leave();
  await before.orchestrator.cancel(task_id);
  await before.orchestrator.close();

  const after = await fleet(t, { store: await kept.open() });
  const again = await after.bus.worker('w');
  assert.equal(again.last('TASK_CANCEL')?.task_id, task_id);
  await again.report(task_id, 'error', { error_summary: 'canceled' }, 1);
  assert.equal(await after.state(task_id), 'canceled');
});

test('a result of a task that ended before the restart is kept as late, and one accepted before is known', async (t) => {
  const kept = await disk(t);
  const before = await fleet(t, { store: await kept.open() });
  const worker = await before.bus.worker('w');
  const { task_id } = await before.orchestrator.submit({ brief: 'x' });
  await settle();
  await worker.report(task_id, 'done', { summary: 'one' }, 1);
  await settle();
  await before.orchestrator.close();

  const after = await fleet(t, { store: await kept.open() });
  assert.equal(after.orchestrator.counts().open, 0, 'what ended is not held in memory');
  const again = await after.bus.worker('w');
  await again.report(task_id, 'done', { summary: 'one' }, 1);
  await again.report(task_id, 'done', { summary: 'two' }, 1);
  const record = await after.orchestrator.get(task_id);
  assert.equal(record.result?.summary, 'one');
  assert.deepEqual(
    record.late_results.map(({ result }) => result.summary),
    ['two'],
  );
});

test('the journal of a task continues where it was', async (t) => {
  const kept = await disk(t);
  const journal = memoryJournal();
  const before = await fleet(t, { store: await kept.open(), journal });
  await before.bus.worker('w');
  const { task_id } = await before.orchestrator.submit({ brief: 'x' });
  await settle();
  await before.orchestrator.close();

  const after = await fleet(t, { store: await kept.open(), journal });
  const again = await after.bus.worker('w');
  await again.progress(task_id, 1);
  await again.report(task_id, 'done', {}, 1);
  const kinds = await after.kinds(task_id);
  assert.deepEqual(kinds.slice(0, 3), ['submitted', 'decided', 'accepted']);
  assert.deepEqual(kinds.slice(-5), ['running', 'progress', 'result', 'ended', 'verified']);
  const { entries } = await journal.read(taskStream(await after.orchestrator.get(task_id)), 0);
  assert.ok(entries.every(({ cursor }, at) => cursor > (entries[at - 1]?.cursor ?? 0)));
});

test('a bus that does not start stops the others, and the start fails with its reason', async (t) => {
  const good = new ScriptedBus();
  const bad = Object.assign(new ScriptedBus(), { start: () => Promise.reject(new Error('port in use')) });
  await assert.rejects(fleet(t, { buses: [good, bad] }), /port in use/);
  assert.equal(good.stopped, true);
});

test('of two orchestrators on one store, one continues each task, and each is run once', async (t) => {
  const store = memoryTaskStore();
  const seed = await fleet(t, { store });
  const ids: string[] = [];
  for (let n = 0; n < 50; n += 1) ids.push((await seed.orchestrator.submit({ brief: 'x' })).task_id);
  await seed.orchestrator.close();

  const starts = new Map<string, number>();
  const script: PeerScript = {
    onDispatch: async (dispatch, peer) => {
      const { task_id } = dispatch.task;
      starts.set(task_id, (starts.get(task_id) ?? 0) + 1);
      await peer.accept(dispatch);
      setImmediate(() => void peer.report(task_id, 'done', {}, dispatch.envelope?.attempt));
    },
  };
  const delayed = () => guardedStore(() => new Promise<void>((resolve) => setImmediate(resolve)), store);
  const left = await fleet(t, { store: delayed(), newId: ids1('l') });
  const right = await fleet(t, { store: delayed(), newId: ids1('r') });
  await Promise.all([
    left.bus.worker('w', script, { worker: { max_concurrent: 7 } }),
    right.bus.worker('w', script, { worker: { max_concurrent: 7 } }),
  ]);
  const both = await Promise.all(
    Array.from({ length: 40 }, (_, n) => (n % 2 === 0 ? left : right).orchestrator.submit({ brief: 'y' })),
  );
  for (let n = 0; n < 300; n += 1) await settle();
  const records = await store.find({ limit: 1000 });
  assert.equal(records.length, 90);
  assert.deepEqual(new Set(records.map(({ state }) => state)), new Set(['done']));
  assert.equal(new Set(records.map(({ number }) => number)).size, 90, 'no number was given twice');
  assert.deepEqual(new Set(starts.values()), new Set([1]));
  assert.equal(new Set(both.map(({ task_id }) => task_id)).size, 40);
});

test('a task another orchestrator has taken over is released, and its readers are notified', async (t) => {
  const store = memoryTaskStore();
  const { bus, orchestrator } = await fleet(t, { store });
  const worker = await bus.worker('w');
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  const waiting = assert.rejects(orchestrator.result(task_id), { code: 'superseded' });
  await settle();
  const { record, revision } = (await store.get(task_id))!;
  await store.put({ ...record, state: 'running' }, revision);
  await assert.rejects(worker.report(task_id, 'done', {}, 1), { code: 'superseded' });
  await waiting;
  assert.deepEqual(orchestrator.workers()[0]?.tasks, []);
  assert.equal(orchestrator.counts().open, 0);
  await worker.report(task_id, 'done', {}, 1);
  assert.equal((await store.get(task_id))?.record.state, 'done', 'sent again, it is taken on what is kept now');
});

/** Ids that begin with a letter. */
function ids1(letter: string): () => string {
  let n = 0;
  return () => `${letter}-${++n}`;
}
