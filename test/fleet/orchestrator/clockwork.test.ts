/**
 * Timers, evictions in time, and descriptions that cannot be renewed.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TimerQueue } from '../../../src/base/timer-queue.ts';
import { CircuitBreaker } from '../../../src/fleet/orchestrator/circuit-breaker.ts';
import fc from '../../support/properties.ts';
import { fleet } from './support/fleet.ts';
import { settle, VirtualClock } from './support/virtual-clock.ts';

test('alarms ring once, in order, when they are due, however they were moved', async () => {
  const moves = fc.array(
    fc.record({ key: fc.nat(5), at: fc.option(fc.nat(100), { nil: undefined }), pass: fc.nat(20) }),
    { maxLength: 40 },
  );
  await fc.assert(
    fc.asyncProperty(moves, async (history) => {
      const clock = new VirtualClock();
      const rung: [number, number][] = [];
      const due = new Map<number, number>();
      const alarms = new TimerQueue<number>(clock, (key) => {
        rung.push([key, clock.monotonic()]);
        assert.equal(clock.monotonic(), due.get(key));
        due.delete(key);
      });
      for (const { key, at, pass } of history) {
        if (at === undefined) {
          alarms.clear(key);
          due.delete(key);
        } else {
          const when = clock.monotonic() + at;
          alarms.set(key, when);
          due.set(key, when);
          assert.equal(alarms.at(key), when);
        }
        await clock.advance(pass);
      }
      await clock.advance(200);
      assert.equal(due.size, 0);
      alarms.stop();
      assert.equal(clock.timers, 0);
    }),
    { numRuns: 60, seed: 3 },
  );
});

test('an alarm that rings may set another, also for now', async () => {
  const clock = new VirtualClock();
  let rings = 0;
  const alarms = new TimerQueue<string>(clock, (key) => {
    rings += 1;
    if (rings < 3) alarms.set(key, clock.monotonic());
  });
  alarms.set('a', 10);
  await clock.advance(10);
  assert.equal(rings, 3);
});

test('a circuit opens after five failures in a row, and one success closes it', () => {
  const circuit = new CircuitBreaker();
  for (let n = 0; n < 4; n += 1) circuit.failed(0);
  circuit.succeeded();
  for (let n = 0; n < 4; n += 1) circuit.failed(0);
  assert.equal(circuit.state(0), 'closed');
  circuit.failed(0);
  assert.equal(circuit.state(0), 'open');
  assert.equal(circuit.state(30_000), 'closed');
  circuit.dispatched();
  assert.equal(circuit.state(30_000), 'open', 'one probe at a time');
  circuit.undecided();
  assert.equal(circuit.state(30_000), 'closed', 'a refusal says nothing: the next one is the probe');
  circuit.dispatched();
  circuit.failed(30_000);
  assert.equal(circuit.state(89_000), 'open');
  assert.equal(circuit.state(90_000), 'closed');
});

test('tasks that ended are forgotten in time, and the oldest of too many', async (t) => {
  const { bus, clock, orchestrator, store } = await fleet(t, { retainMs: 7_200_000, maxTasks: 2 });
  const worker = await bus.worker('w');
  const ids = [];
  for (let n = 0; n < 4; n += 1) {
    const { task_id } = await orchestrator.submit({ brief: 'x' });
    await settle();
    await worker.report(task_id, 'done', {}, 1);
    ids.push(task_id);
  }
  const open = (await orchestrator.submit({ brief: 'x', required_mcp: ['none'] })).task_id;
  await clock.advance(61_000);
  assert.deepEqual(
    (await store.find({})).map(({ task_id }) => task_id),
    [open, ids[3]],
  );
  await clock.advance(3 * 3_600_000);
  assert.deepEqual(
    (await store.find({})).map(({ task_id }) => task_id),
    [open],
  );
});

test('a worker that cannot be asked again is unverified once its description is too old', async (t) => {
  const { bus, clock, orchestrator, state } = await fleet(t);
  await bus.worker('w', { features: ['ack'] });
  assert.equal(orchestrator.workers()[0]?.status, 'ready');
  await clock.advance(901_000);
  assert.equal(orchestrator.workers()[0]?.status, 'unverified');
  const { task_id } = await orchestrator.submit({ brief: 'x' });
  assert.equal(await state(task_id), 'accepted', 'as a last resort');
  assert.equal((await orchestrator.get(task_id)).explanation?.verified, false);
});

test('workers that sleep, went, and came back are distinguished', async (t) => {
  const { bus, orchestrator } = await fleet(t);
  const worker = await bus.worker('w');
  worker.leave('idle for long', true);
  assert.equal(orchestrator.workers()[0]?.status, 'asleep');
  worker.join();
  worker.leave('cut');
  assert.equal(orchestrator.workers()[0]?.status, 'gone');
  worker.join();
  await worker.announce();
  assert.equal(orchestrator.workers()[0]?.status, 'ready');
  const { workers_here, workers_away } = orchestrator.counts();
  assert.deepEqual([workers_here, workers_away], [1, undefined]);
});
