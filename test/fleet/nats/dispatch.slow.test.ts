/** Dispatches on their way to a worker: delivered, delivered again, refused, unreadable, and never taken. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { tokenOf } from '../../../src/fleet/bus/nats/subjects.ts';
import { fleetMessage } from '../../../src/fleet/messages/encode.ts';
import { aDispatch } from '../bus-contract.ts';
import { blocked, ScriptedWorker } from '../support/scripted-worker.ts';
import { NatsFleet, PoolWorker } from './fleet.ts';
import { natsTest } from './server.ts';

const structured = { mode: 'structured' } as const;

// They wait more than they work.
describe('dispatches on NATS', { concurrency: 4 }, () => {
  natsTest('ten times the same dispatch is run once, and has one result', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const { events } = await fleet.orchestrator();
    const worker = new ScriptedWorker();
    await fleet.worker(worker);
    const peer = await events.peer('worker-1');
    // An id that could not stand in a subject.
    const id = 'тест: a.b *>';
    await Promise.all(Array.from({ length: 10 }, () => peer.send(aDispatch(id), structured)));
    await events.until(() => events.results(id).length > 0, 'the result');
    await peer.send(fleetMessage('TASK_POLL', { task_id: id }), structured);
    await events.until(() => events.results(id).length === 2, 'the answer to a poll behind them all');
    assert.deepEqual(worker.begun, [id]);
    assert.equal(worker.leases.length, 1);
  });

  natsTest('tasks of a pool are shared by those who have room', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const { bus, events } = await fleet.orchestrator();
    const [one, two, other] = [
      new PoolWorker(['fast', 'any.thing'], { agentId: 'one', maxConcurrent: 2, byHand: true }),
      new PoolWorker(['fast'], { agentId: 'two', maxConcurrent: 2, byHand: true }),
      new PoolWorker([], { agentId: 'other', maxConcurrent: 9 }),
    ];
    await Promise.all([one, two, other].map((worker) => fleet.worker(worker)));
    const ids = ['t-1', 't-2', 't-3', 't-4', 't-5'];
    await Promise.all(ids.map((id) => bus.offer?.('fast', aDispatch(id))));
    await one.until(() => one.begun.length === 2, 'the first to be full');
    await two.until(() => two.begun.length === 2, 'the second to be full');
    // The fifth waits on the server until a worker has room.
    for (const worker of [one, two]) for (const id of [...worker.begun]) worker.finish(id);
    await events.until(() => events.results().length === 4, 'four results');
    await fleet.until(async () => one.begun.length + two.begun.length === 5, 'the fifth to begin');
    assert.deepEqual([...one.begun, ...two.begun].sort(), ids);
    await bus.offer?.('any.thing', aDispatch('t-6'));
    await one.until(() => one.begun.includes('t-6') || one.activeTasks >= 2, 'the task of the other pool');
    assert.deepEqual(other.begun, []);
  });

  natsTest('what is no dispatch is never delivered again, and told as a dead letter', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const { events } = await fleet.orchestrator();
    const worker = new ScriptedWorker();
    await fleet.worker(worker);
    await events.peer('worker-1');
    const connection = await connect({ servers: fleet.server.url });
    context.after(() => connection.close());
    const js = jetstream(connection);
    await js.publish('a2a.agent.worker-1.dispatch', 'no JSON at all');
    await events.until(() => events.oddities.length === 1, 'the dead letter');
    assert.deepEqual(events.oddities[0], ['E_NOT_JSON']);
    // One that names its task is also answered in its name.
    await js.publish('a2a.agent.worker-1.dispatch', JSON.stringify({ ...aDispatch('t-1'), brief: 7 }));
    await events.until(() => events.results('t-1').length === 1 && events.oddities.length === 2, 'the refusal');
    assert.deepEqual(events.oddities[1], ['E_FIELD_TYPE']);
    // Not a bomb either.
    await js.publish('a2a.agent.worker-1.dispatch', Buffer.from([0x1f, 0x8b, 1, 2, 3]));
    await events.until(() => events.oddities.length === 3, 'the third dead letter');
    await fleet.until(async () => (await fleet.waiting()) === 0, 'all to be ended');
    assert.deepEqual(worker.begun, []);
  });

  natsTest('a task on a subject of another worker is not that worker’s word', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const { events } = await fleet.orchestrator();
    await fleet.worker(new ScriptedWorker());
    await events.peer('worker-1');
    const connection = await connect({ servers: fleet.server.url });
    context.after(() => connection.close());
    const result = JSON.stringify(blocked('t-1', 'busy', true));
    await jetstream(connection).publish(`a2a.agent.worker-1.task.${tokenOf('t-2')}.events`, result);
    await events.until(() => events.oddities.length === 1, 'the mismatch');
    assert.deepEqual(events.results(), []);
  });

  natsTest(
    'a worker that is busy is asked again, and answers blocked before it counts as poison',
    async (context, installed) => {
      const fleet = await NatsFleet.start(context, installed);
      const { events } = await fleet.orchestrator();
      let tries = 0;
      const worker = new ScriptedWorker({
        decide: () => {
          tries++;
          return { kind: 'busy', retryAfterS: 0.02, reason: 'context' };
        },
      });
      await fleet.worker(worker);
      const peer = await events.peer('worker-1');
      await peer.send(aDispatch('t-1'), structured);
      await events.until(() => events.results('t-1').length === 1, 'the refusal');
      const [result] = events.results('t-1');
      assert.deepEqual([result?.status, result?.blocked?.code, result?.blocked?.retryable], ['blocked', 'busy', true]);
      assert.equal(tries, 5);
    },
  );

  natsTest('a cancel that finds its task still on the queue stops it when it comes', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const { events } = await fleet.orchestrator();
    const worker = new ScriptedWorker({ maxConcurrent: 1, byHand: true });
    await fleet.worker(worker);
    const peer = await events.peer('worker-1');
    await peer.send(aDispatch('first'), structured);
    await worker.until(() => worker.begun.length === 1, 'the first task');
    await peer.send(aDispatch('second'), structured);
    await peer.send(fleetMessage('TASK_CANCEL', { task_id: 'second' }), structured);
    await worker.until(() => worker.handled.length === 1, 'the cancel, which names nothing the worker knows');
    worker.finish('first');
    await events.until(() => events.results('second').length === 1, 'the end of the second');
    assert.equal(events.results('second')[0]?.error_summary, 'canceled');
  });

  natsTest(
    'a dispatch over a megabyte of text passes packed, and one the queue has no room for is refused',
    async (context, installed) => {
      const fleet = await NatsFleet.start(context, installed);
      const { bus, events } = await fleet.orchestrator({ maxWaiting: 2 });
      const worker = new ScriptedWorker({
        resultOf: () => ({ prose: 'ä'.repeat(120_000), answer: 'x'.repeat(700_000) }),
      });
      await fleet.worker(worker);
      const peer = await events.peer('worker-1');
      await peer.send(aDispatch('large', { brief: 'y'.repeat(262_144) }), structured);
      await events.until(() => events.results('large').length === 1, 'the large result');
      assert.equal(events.results('large')[0]?.prose?.length, 120_000);
      await Promise.all([1, 2].map((n) => bus.offer?.('nobody', aDispatch(`t-${n}`))));
      await assert.rejects(bus.offer?.('nobody', aDispatch('t-3')) ?? Promise.resolve(), { code: 'over_capacity' });
      const connection = await connect({ servers: fleet.server.url });
      context.after(() => connection.close());
      const { config } = await (await jetstreamManager(connection)).streams.info('A2A_DISPATCH');
      assert.deepEqual([config.retention, config.discard, config.duplicate_window], ['workqueue', 'new', 1200e9]);
    },
  );
});
