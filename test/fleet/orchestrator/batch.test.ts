/** Tasks that have to do with each other: batches, dependencies, budgets of parents. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inOrder } from '../../../src/fleet/orchestrator/dependencies.ts';
import { fail } from '../../../src/wire/errors.ts';
import { countedTurns } from '../../support/counted-turns.ts';
import { fleet, guardedStore } from './support/fleet.ts';
import { settle } from './support/virtual-clock.ts';

test('what waits for others runs when all of them are done', async (t) => {
  const { bus, orchestrator, state } = await fleet(t);
  const worker = await bus.worker('w', {}, { worker: { max_concurrent: 10 } });
  await orchestrator.submitBatch([
    { task_id: 'last', brief: 'x', after: ['left', 'right'], batch: 'b' },
    { task_id: 'left', brief: 'x', batch: 'b' },
    { task_id: 'right', brief: 'x', after: ['left'], batch: 'b' },
  ]);
  await settle();
  assert.deepEqual(
    worker.dispatches.map(({ task }) => task.task_id),
    ['left'],
  );
  assert.equal(orchestrator.counts().waiting_for_others, 2);
  await worker.report('left', 'done', {}, 1);
  assert.equal(await state('right'), 'accepted');
  assert.equal(await state('last'), 'queued');
  await worker.report('right', 'done', {}, 1);
  assert.equal(await state('last'), 'accepted');
  assert.deepEqual((await orchestrator.find({ batch: 'b' })).map(({ task_id }) => task_id).sort(), [
    'last',
    'left',
    'right',
  ]);
});

test('what fails takes with it all that waits for it, down the line, with the reason', async (t) => {
  const { bus, orchestrator } = await fleet(t);
  const worker = await bus.worker('w');
  await orchestrator.submitBatch([
    { task_id: 'a', brief: 'x' },
    { task_id: 'b', brief: 'x', after: ['a'] },
    { task_id: 'c', brief: 'x', after: ['b'] },
  ]);
  await settle();
  await worker.report('a', 'partial', {}, 1);
  const { record } = await orchestrator.result('c');
  assert.equal(record.state, 'blocked');
  assert.equal(record.dead_letter, 'dependency_failed: b ended as blocked');
  assert.equal((await orchestrator.get('b')).dead_letter, 'dependency_failed: a ended as partial');
  const late = await orchestrator.submit({ brief: 'x', after: ['a'] });
  assert.equal(late.state, 'blocked');
  await assert.rejects(orchestrator.retry('b'), { code: 'invalid_message' });
  await orchestrator.retry('a');
  const again = await orchestrator.retry('b');
  assert.equal(again.state, 'queued');
  await settle();
  await worker.report('a', 'done', {}, 2);
  await settle();
  assert.equal((await orchestrator.get('b')).state, 'accepted');
});

test('a circle of tasks, one name twice, or one wrong among them, and none is taken', async (t) => {
  const { orchestrator } = await fleet(t);
  const circle = [
    { task_id: 'a', brief: 'x', after: ['c'] },
    { task_id: 'b', brief: 'x', after: ['a'] },
    { task_id: 'c', brief: 'x', after: ['b'] },
    { task_id: 'd', brief: 'x' },
  ];
  await assert.rejects(orchestrator.submitBatch(circle), (error: { code: string; detail: { cycle: string[] } }) => {
    assert.equal(error.code, 'schema_violation');
    assert.deepEqual(error.detail.cycle, ['a', 'b', 'c']);
    return true;
  });
  await assert.rejects(
    orchestrator.submitBatch([
      { task_id: 'a', brief: 'x' },
      { task_id: 'a', brief: 'x' },
    ]),
    {
      code: 'schema_violation',
    },
  );
  await assert.rejects(
    orchestrator.submitBatch([
      { task_id: 'a', brief: 'x' },
      { task_id: 'b', brief: ' ' },
    ]),
    {
      code: 'schema_violation',
    },
  );
  await assert.rejects(orchestrator.submit({ task_id: 'a', brief: 'x', after: ['a'] }), { code: 'schema_violation' });
  assert.equal(orchestrator.counts().open, 0);
});

test('the same batch again is the batch there is', async (t) => {
  const { bus, orchestrator } = await fleet(t);
  const worker = await bus.worker('w');
  const batch = [
    { task_id: 'a', brief: 'x' },
    { task_id: 'b', brief: 'x', after: ['a'] },
  ];
  await orchestrator.submitBatch(batch);
  await settle();
  await worker.report('a', 'done', {}, 1);
  const again = await orchestrator.submitBatch([...batch, { task_id: 'c', brief: 'x', after: ['a', 'b'] }]);
  assert.deepEqual(
    again.map(({ task_id }) => task_id),
    ['a', 'b', 'c'],
  );
  assert.equal(again[0]?.state, 'done');
  await assert.rejects(orchestrator.submitBatch([{ task_id: 'b', brief: 'other' }]), { code: 'duplicate_conflict' });
});

test('a batch that cannot be kept whole leaves nothing that runs', async (t) => {
  let puts = 0;
  const store = guardedStore(() => {
    puts += 1;
    if (puts === 2) throw fail('disk_full', 'no room');
  });
  const { bus, orchestrator } = await fleet(t, { store });
  const worker = await bus.worker('w');
  const batch = [1, 2, 3].map((n) => ({ task_id: `t${n}`, brief: 'x' }));
  await assert.rejects(orchestrator.submitBatch(batch), { code: 'disk_full' });
  await settle();
  assert.equal(worker.dispatches.length, 0);
  assert.equal(orchestrator.counts().open, 0);
  assert.equal((await orchestrator.get('t1')).state, 'canceled');
  await assert.rejects(orchestrator.get('t2'), { code: 'not_found' });
});

test('thousands of tasks in a line are put in order without looking at each pair', () => {
  const count = 10_000;
  const line = Array.from({ length: count }, (_, at) => ({ id: `t${at}`, after: at === 0 ? [] : [`t${at - 1}`] }));
  const ordered = inOrder(line.toReversed());
  assert.deepEqual([ordered[0]?.id, ordered.at(-1)?.id], ['t0', `t${count - 1}`]);
});

test('thousands of tasks that wait for one are put in order without copying their list', () => {
  const count = 10_000;
  const star = Array.from({ length: count }, (_, at) => ({ id: `t${at}`, after: at === 0 ? [] : ['t0'] }));
  let copied = 0;
  const { [Symbol.iterator]: iterator } = Array.prototype;
  Array.prototype[Symbol.iterator] = function (this: unknown[]) {
    copied += this.length;
    return iterator.call(this) as ArrayIterator<unknown>;
  };
  try {
    assert.equal(inOrder(star).length, count);
  } finally {
    Array.prototype[Symbol.iterator] = iterator;
  }
  assert.ok(copied < 100 * count, `${copied} items were gone through`);
});

test('a child takes its budget out of what its parent has left, and gives back what it did not need', async (t) => {
  const { bus, orchestrator, state } = await fleet(t);
  const worker = await bus.worker('w', {}, { worker: { max_concurrent: 10 } });
  const parent = (await orchestrator.submit({ brief: 'x', token_budget: 1000 })).task_id;
  await worker.progress(parent, 1, { tokens_so_far: 100 });
  const child = (token_budget?: number) => orchestrator.submit({ brief: 'y', parent_task_id: parent, token_budget });
  const first = await child(600);
  await assert.rejects(child(301), { code: 'budget_spent' });
  const rest = await child();
  assert.equal(rest.spec.token_budget, 300, 'without a number it gets what is left');
  await assert.rejects(child(1), { code: 'budget_spent' });
  await settle();
  await worker.report(first.task_id, 'done', { tokens_spent: 150 }, 1);
  await settle();
  assert.equal((await orchestrator.get(parent)).granted_tokens, 450);
  assert.equal((await child(450)).spec.token_budget, 450);
  await worker.report(parent, 'done', {}, 1);
  assert.equal(await state(parent), 'done');
  await assert.rejects(child(1), { code: 'budget_spent' });
  await assert.rejects(orchestrator.submit({ brief: 'z', parent_task_id: 'nobody' }), { code: 'schema_violation' });
});

test('what a batch waits for may end while the batch is stored', async (t) => {
  const ends = new Map<string, () => Promise<unknown>>();
  const store = guardedStore(async () => {
    const [first] = ends;
    if (first === undefined) return;
    ends.delete(first[0]);
    await first[1]();
  });
  const { bus, orchestrator, state } = await fleet(t, { store });
  const worker = await bus.worker('w', {}, { worker: { max_concurrent: 10 } });
  for (const [task_id, status] of [
    ['good', 'done'],
    ['bad', 'partial'],
  ] as const) {
    await orchestrator.submit({ task_id, brief: 'x' });
    assert.equal(await state(task_id), 'accepted');
    ends.set(task_id, () => worker.report(task_id, status, {}, 1));
    await orchestrator.submitBatch([{ task_id: `after-${task_id}`, brief: 'x', after: [task_id] }]);
    assert.equal(ends.size, 0);
  }
  assert.equal(await state('after-good'), 'accepted');
  assert.equal(await state('after-bad'), 'blocked');
  assert.equal(orchestrator.counts().waiting_for_others, 0);
});

test('a large batch is read and added in many turns, and all or nothing', async (t) => {
  const { orchestrator } = await fleet(t);
  const batch = Array.from({ length: 400 }, (_, at) => ({ task_id: `t${at}`, brief: 'x' }));
  const turns = countedTurns(t);
  assert.equal((await orchestrator.submitBatch(batch)).length, 400);
  assert.ok(turns() >= 80, `${turns()} turns`);
  const bad = [...batch.map((spec) => ({ ...spec, task_id: `u${spec.task_id}` })), { task_id: 'v', brief: '' }];
  await assert.rejects(orchestrator.submitBatch(bad), { code: 'schema_violation' });
  await assert.rejects(orchestrator.get('ut0'), { code: 'not_found' });
});

test('a large batch is stored and, where that fails, ended a part at a time', async (t) => {
  let [puts, under, most] = [0, 0, 0];
  let failing = Number.POSITIVE_INFINITY;
  const store = guardedStore(async () => {
    under += 1;
    most = Math.max(most, under);
    await new Promise((resolve) => setImmediate(resolve));
    under -= 1;
    puts += 1;
    if (puts === failing) throw fail('disk_full', 'no room');
  });
  const { orchestrator } = await fleet(t, { store });
  const batch = Array.from({ length: 2_500 }, (_, at) => ({ task_id: `t${at}`, brief: 'x' }));
  const numbers = (await orchestrator.submitBatch(batch)).map(({ number }) => number);
  assert.deepEqual(
    numbers,
    batch.map((_, at) => at + 1),
  );
  assert.ok(most <= 1_024, `${most} tasks are stored at once`);
  failing = puts + 2_200;
  const more = batch.map(({ brief }, at) => ({ task_id: `u${at}`, brief }));
  await assert.rejects(orchestrator.submitBatch(more), { code: 'disk_full' });
  assert.ok(most <= 1_024, `${most} tasks are ended at once`);
  await settle();
  assert.equal(orchestrator.counts().open, 2_500);
  for (const id of ['u0', 'u2499']) assert.equal((await orchestrator.get(id)).state, 'canceled');
  await assert.rejects(orchestrator.get('u2199'), { code: 'not_found' });
});

test('a task of the batch that is submitted meanwhile is the same task', async (t) => {
  const { orchestrator } = await fleet(t);
  const batch = Array.from({ length: 400 }, (_, at) => ({ task_id: `t${at}`, brief: 'x' }));
  countedTurns(t);
  const whole = orchestrator.submitBatch([...batch, { task_id: 'end', brief: 'x', after: ['t399'] }]);
  const alone = await orchestrator.submit(batch[399]!);
  assert.equal((await whole)[399]?.number, alone.number);
  const refused = orchestrator.submitBatch(batch.map((spec) => ({ ...spec, task_id: `w${spec.task_id}` })));
  const other = await orchestrator.submit({ task_id: 'wt399', brief: 'another' });
  await assert.rejects(refused, { code: 'duplicate_conflict' });
  await assert.rejects(orchestrator.get('wt0'), { code: 'not_found' });
  assert.equal((await orchestrator.get('wt399')).number, other.number);
});

test('`after` is a list of ids', async (t) => {
  const { orchestrator } = await fleet(t);
  for (const after of [1, true, 'abc', {}, [1], [null], [['t']], ['\ud800']] as unknown[]) {
    const spec = { brief: 'x', after: after as string[] };
    await assert.rejects(orchestrator.submit(spec), { code: 'schema_violation', message: /^`after` must be a list/ });
    await assert.rejects(orchestrator.submitBatch([spec]), { code: 'schema_violation' });
    await assert.rejects(orchestrator.explain(spec), { code: 'schema_violation' });
  }
  assert.deepEqual((await orchestrator.submit({ brief: 'x', after: null as never })).spec.after, []);
});
