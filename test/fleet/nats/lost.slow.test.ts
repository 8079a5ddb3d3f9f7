/** Attempts that a server or a worker has lost without a word: the orchestrator finds that they are nowhere. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import { Attempts } from '../../../src/fleet/bus/nats/attempts.ts';
import { Bucket } from '../../../src/fleet/bus/nats/bucket.ts';
import { openNats } from '../../../src/fleet/bus/nats/connection.ts';
import { Leases } from '../../../src/fleet/bus/nats/leases.ts';
import { natsBus } from '../../../src/fleet/bus/nats/orchestrator-bus.ts';
import { ensureFleet, ensureWorker } from '../../../src/fleet/bus/nats/streams.ts';
import { BUCKETS, consumers, STREAMS, subjects } from '../../../src/fleet/bus/nats/subjects.ts';
import { createOrchestrator } from '../../../src/fleet/orchestrator/orchestrator.ts';
import { memoryTaskStore } from '../../../src/fleet/orchestrator/store-memory.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { aDispatch } from '../bus-contract.ts';
import type { ScriptedWorker } from '../support/scripted-worker.ts';
import { log, NatsFleet, PoolWorker } from './fleet.ts';
import { type Installed, natsTest } from './server.ts';
import { Wire } from './wire.ts';

const TTL_S = 3;
const structured = { mode: 'structured' } as const;
const QUEUE = { subject: subjects.dispatch('w'), consumer: consumers.agent('w') };

async function orchestrated(fleet: NatsFleet, servers = fleet.server.url) {
  const orchestrator = createOrchestrator({
    name: 'main',
    store: memoryTaskStore(),
    journal: memoryJournal(),
    buses: [natsBus({ servers, name: 'main', log, ...fleet.storage })],
    leaseTtlS: TTL_S,
    random: () => 0,
    log,
  });
  fleet.onEnd(() => orchestrator.close());
  await orchestrator.start();
  return orchestrator;
}

/** A link to a server with the streams of a fleet, and the queue of a worker. */
async function staged(context: TestContext, installed: Installed) {
  const fleet = await NatsFleet.start(context, installed);
  const link = await openNats('test', { servers: fleet.server.url, log });
  fleet.onEnd(() => link.close());
  await ensureFleet(link);
  await ensureWorker(link, 'w', [], 3);
  const [leases, journal] = [new Bucket(link, BUCKETS.leases), new Bucket(link, BUCKETS.journal)];
  const attempts = () => new Attempts({ link, leases, journal, check: () => {} });
  return { fleet, attempts, leases: new Leases({ leases, journal, agent: 'w', incarnation: 'life', ttlS: 45 }) };
}

/** As when the server that had it was killed. */
const lose = (fleet: NatsFleet) => fleet.manage((manager) => manager.streams.purge(STREAMS.dispatch));

/** As when servers have lost a stream from its beginning: it is made again, and counts from one. */
async function forget(fleet: NatsFleet, stream: string): Promise<void> {
  await fleet.manage((manager) => manager.streams.delete(stream));
  const made = () => fleet.manage((manager) => manager.streams.info(stream).then(() => true));
  await fleet.until(() => made().catch(() => false), 'the stream to be made again');
}

const lastOf = (fleet: NatsFleet, stream: string): Promise<number> =>
  fleet.manage(async (manager) => (await manager.streams.info(stream)).state.last_seq);

async function begun(worker: ScriptedWorker, task: string): Promise<void> {
  await worker.until(() => worker.begun.includes(task), `${task} to begin`);
}

// They wait more than they work.
describe('attempts that were lost on NATS', { concurrency: 4 }, () => {
  natsTest(
    'an attempt is found on its queue, also by an orchestrator that did not send it',
    async (context, installed) => {
      const { fleet, attempts } = await staged(context, installed);
      const dispatch = aDispatch('t');
      const first = attempts();
      await first.store(QUEUE, dispatch);
      assert.deepEqual(await first.find(QUEUE, dispatch), { at: 'queue' });
      assert.deepEqual(await attempts().find(QUEUE, dispatch), { at: 'queue' });
      assert.equal(await fleet.waiting(), 1);
      // Delivered, and not acknowledged: it is redelivered.
      assert.equal(await fleet.swallow(QUEUE.consumer, 1), 1);
      assert.deepEqual(await attempts().find(QUEUE, dispatch), { at: 'queue' });
    },
  );

  natsTest(
    'an attempt that has left its queue is with a worker, was with one, or is nowhere',
    async (context, installed) => {
      const { fleet, attempts, leases } = await staged(context, installed);
      const finder = attempts();
      for (const task of ['one', 'two']) await finder.store(QUEUE, aDispatch(task));
      await lose(fleet);
      assert.deepEqual(await finder.find(QUEUE, aDispatch('one')), { at: 'nowhere' });
      const taken = await leases.acquire('two', 1);
      assert.deepEqual(await finder.find(QUEUE, aDispatch('two')), { at: 'worker' });
      await leases.claim('two', 1);
      if (taken.kind === 'taken') await taken.lease.release();
      await fleet.until(
        async () => (await finder.find(QUEUE, aDispatch('two'))).at === 'nowhere',
        'the lease to be given back',
      );
      assert.deepEqual(await finder.find(QUEUE, aDispatch('two')), { at: 'nowhere', startedBy: 'w' });
    },
  );

  natsTest('a position that a stream has given twice is that of the later message', async (context, installed) => {
    const { fleet, attempts } = await staged(context, installed);
    const finder = attempts();
    await finder.store(QUEUE, aDispatch('lost'));
    const link = await openNats('test', { servers: fleet.server.url, log });
    fleet.onEnd(() => link.close());
    await fleet.manage((manager) => manager.streams.delete(STREAMS.dispatch));
    await ensureFleet(link);
    await ensureWorker(link, 'w', [], 3);
    await attempts().store(QUEUE, aDispatch('later'));
    assert.equal(await fleet.swallow(QUEUE.consumer, 1), 1);
    assert.deepEqual(await finder.find(QUEUE, aDispatch('lost')), { at: 'nowhere' });
  });

  natsTest('a dispatch that was lost from the queue of a pool is sent again', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    fleet.storage = { leaseTtlS: TTL_S };
    const worker = new PoolWorker(['p'], { byHand: true, maxConcurrent: 1 });
    await fleet.worker(worker);
    const orchestrator = await orchestrated(fleet);
    await orchestrator.submit({ task_id: 'busy', brief: 'x' });
    await begun(worker, 'busy');
    // The worker has requested the next one already.
    await orchestrator.submit({ task_id: 'next', brief: 'x', pool: 'p' });
    await orchestrator.submit({ task_id: 'lost', brief: 'x', pool: 'p' });
    await fleet.until(async () => (await fleet.waiting()) === 2, 'the dispatches to wait');
    await lose(fleet);
    for (const task of ['busy', 'next', 'lost']) {
      await begun(worker, task);
      worker.finish(task);
    }
    const { record } = await orchestrator.result('lost', AbortSignal.timeout(60_000));
    assert.deepEqual([record.state, record.attempt], ['done', 2]);
  });

  natsTest(
    'an attempt whose lease is lost before it starts is answered, and tried again',
    async (context, installed) => {
      const fleet = await NatsFleet.start(context, installed);
      fleet.storage = { leaseTtlS: TTL_S };
      const wire = await Wire.to(context, fleet.server.port);
      const worker = new PoolWorker([], {});
      await fleet.worker(worker, { servers: wire.url });
      const orchestrator = await orchestrated(fleet);
      wire.hold('+ACK');
      await orchestrator.submit({ task_id: 't', brief: 'x' });
      await fleet.until(async () => wire.holds, 'the acknowledgement to be on its way');
      // The worker waits for its confirmation, and then for the renewal of its lease, until that has expired.
      await new Promise((resolve) => setTimeout(resolve, TTL_S * 1000 + 1_500));
      assert.deepEqual(worker.begun, []);
      wire.release();
      const { record } = await orchestrator.result('t', AbortSignal.timeout(60_000));
      assert.deepEqual([record.state, worker.begun], ['done', ['t']]);
      assert.ok(record.attempt > 1);
    },
  );

  natsTest('a result that was stored and never delivered is asked for', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    fleet.storage = { leaseTtlS: TTL_S };
    const worker = new PoolWorker([], { byHand: true });
    await fleet.worker(worker);
    const wire = await Wire.to(context, fleet.server.port);
    const orchestrator = await orchestrated(fleet, wire.url);
    await orchestrator.submit({ task_id: 't', brief: 'x' });
    await begun(worker, 't');
    wire.silence('down');
    worker.finish('t');
    await worker.until(() => worker.journal.get('t')?.delivered === true, 'the result to be stored');
    await fleet.manage((manager) => manager.streams.purge(STREAMS.events));
    wire.speak();
    const { record } = await orchestrator.result('t', AbortSignal.timeout(60_000));
    assert.deepEqual([record.state, record.attempt, worker.begun], ['done', 1, ['t']]);
  });

  natsTest('an event at a place that its stream has given before is handled', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const { events } = await fleet.orchestrator();
    await fleet.worker(new PoolWorker([], { agentId: 'w' }));
    const peer = await events.peer('w');
    for (const task of ['one', 'two']) await peer.send(aDispatch(task), structured);
    await events.until(() => events.results().length === 2, 'two results');
    const last = () => lastOf(fleet, STREAMS.events);
    const before = await last();
    await forget(fleet, STREAMS.events);
    await peer.send(aDispatch('three'), structured);
    await events.until(() => events.results('three').length === 1, 'the result');
    assert.ok((await last()) <= before);
  });

  natsTest('a dispatch at the place of one that is still being decided on is handled', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const { events } = await fleet.orchestrator();
    const decided = Promise.withResolvers<undefined>();
    let asked = 0;
    const decide = ({ task_id }: { readonly task_id: string }) => {
      asked += 1;
      return task_id === 'slow' ? decided.promise : undefined;
    };
    await fleet.worker(new PoolWorker([], { agentId: 'w', decide }));
    context.after(() => decided.resolve(undefined));
    const peer = await events.peer('w');
    await peer.send(aDispatch('slow'), structured);
    await fleet.until(async () => asked === 1, 'the first dispatch to arrive');
    await forget(fleet, STREAMS.dispatch);
    await peer.send(aDispatch('next'), structured);
    await events.until(() => events.results('next').length === 1, 'the result');
    assert.equal(await lastOf(fleet, STREAMS.dispatch), 1);
  });
});
