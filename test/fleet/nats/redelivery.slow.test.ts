/** Dispatches that are delivered again: because they are not acknowledged, a worker could not decide, or its reply was lost. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { jetstream } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { aDispatch } from '../bus-contract.ts';
import { ScriptedWorker } from '../support/scripted-worker.ts';
import { NatsFleet, PoolWorker } from './fleet.ts';
import { natsTest } from './server.ts';
import { Wire } from './wire.ts';

const structured = { mode: 'structured' } as const;

// They wait more than they work.
describe('redelivery on NATS', { concurrency: 4 }, () => {
  natsTest(
    'an unacknowledged dispatch is delivered five times, reported to the orchestrator and removed',
    async (context, installed) => {
      const fleet = await NatsFleet.start(context, installed);
      const { bus, events } = await fleet.orchestrator();
      const gone = await fleet.worker(new PoolWorker(['p'], { agentId: 'w' }), { ackWaitS: 0.2 });
      await gone.close();
      // As if a worker accepted each and was killed by it: no delivery is answered.
      const connection = await connect({ servers: fleet.server.url });
      context.after(() => connection.close());
      await jetstream(connection).publish('a2a.agent.w.dispatch', JSON.stringify(aDispatch('poison', {}, 3)));
      await bus.offer?.('p', aDispatch('pool-poison'));
      const deliveries = await Promise.all(['agent-w', 'pool-p'].map((consumer) => fleet.swallow(consumer, 5)));
      assert.deepEqual(deliveries, [5, 5]);
      await events.until(() => events.results().length === 2, 'both to be parked');
      const [parked] = events.results('poison');
      assert.deepEqual(
        [parked?.status, parked?.blocked?.code, parked?.envelope.attempt],
        ['blocked', 'max_deliveries', 3],
      );
      assert.equal(parked?.tokens_spent, 0);
      const from = events.heard.filter(({ message }) => message.type === 'TASK_RESULT').map(({ peerId }) => peerId);
      assert.deepEqual(from.sort(), ['pool:p', 'w']);
      // A worker that is only known from the record is not connected.
      assert.equal(events.peers.size, 0);
      await fleet.until(async () => (await fleet.waiting()) === 0, 'both to be removed');
    },
  );

  natsTest('a worker that cannot decide now gets the dispatch again', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const { events } = await fleet.orchestrator();
    let tries = 0;
    const worker = new ScriptedWorker({
      decide: () => {
        if (++tries === 1) throw new Error('the journal cannot be written');
        return undefined;
      },
    });
    await fleet.worker(worker);
    const peer = await events.peer('worker-1');
    await peer.send(aDispatch('t-1'), structured);
    await events.until(() => events.results('t-1').length === 1, 'the result');
    assert.deepEqual([tries, worker.begun], [2, ['t-1']]);
  });

  natsTest('an acknowledgement that is lost on the way runs nothing twice', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    fleet.storage = { ackWaitS: 2 };
    const { events } = await fleet.orchestrator();
    const wire = await Wire.to(context, fleet.server.port);
    const worker = new ScriptedWorker();
    await fleet.worker(worker, { servers: wire.url });
    const peer = await events.peer('worker-1');
    for (const [index, lost] of ['+ACK', '$KV.a2a_leases.t-1', '$KV.a2a_journal.t-2', 'task.t-3.events'].entries()) {
      const eaten = wire.eat(lost);
      await peer.send(aDispatch(`t-${index}`), structured);
      await events.until(() => events.results(`t-${index}`).length > 0, `the result in spite of the loss of ${lost}`);
      await eaten;
    }
    assert.deepEqual(worker.begun, ['t-0', 't-1', 't-2', 't-3']);
    assert.equal(events.results().length, 4);
  });
});
