/** The server is killed, stopped or cut off in the middle of many tasks: none is lost, none is run twice, none counts twice. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import type { StateChange } from '../../../src/connection/reconnect.ts';
import { joinNats } from '../../../src/fleet/bus/nats/join.ts';
import { fleetMessage } from '../../../src/fleet/messages/encode.ts';
import { aDispatch } from '../bus-contract.ts';
import { ScriptedWorker } from '../support/scripted-worker.ts';
import { log, NatsFleet } from './fleet.ts';
import { natsTest } from './server.ts';
import { Wire } from './wire.ts';
import { WorkerStandIn } from './worker-stand-in.ts';

const structured = { mode: 'structured' } as const;

// They wait more than they work.
describe('outages on NATS', { concurrency: 4 }, () => {
  natsTest(
    'a server that is killed twice in the middle of 300 tasks loses none and repeats none',
    async (context, installed) => {
      const fleet = await NatsFleet.start(context, installed);
      fleet.storage = { ackWaitS: 2 };
      const { bus, events } = await fleet.orchestrator();
      const workers = [1, 2, 3].map(
        (n) => new WorkerStandIn({ agentId: `w-${n}`, pools: ['p'], maxConcurrent: 8, workMs: 15 }),
      );
      await Promise.all(workers.map((worker) => fleet.worker(worker)));
      const peers = await Promise.all(workers.map(({ agentId }) => events.peer(agentId)));
      const ids = Array.from({ length: 300 }, (_, index) => `t-${index}`);
      const sent = Promise.all(
        ids.map(async (id, index) => {
          await new Promise((resolve) => setTimeout(resolve, index * 6));
          const dispatch = aDispatch(id);
          if (index % 2 === 0) await bus.offer?.('p', dispatch);
          else await peers[index % 3]?.send(dispatch, structured);
        }),
      );
      for (const results of [60, 160]) {
        await events.until(() => events.results().length >= results, `${results} results`);
        await fleet.server.kill();
        await fleet.server.up();
      }
      await sent;
      const accepted = () => new Map(events.results().map((result) => [result.task_id, result]));
      await fleet.until(async () => accepted().size === ids.length, 'all results');
      // Old servers that are killed keep messages whose acknowledgement they know: never delivered, and never removed.
      await fleet.until(async () => (await fleet.outstanding()) === 0, 'the queues to be empty');
      if (!installed.version.startsWith('2.9.'))
        await fleet.until(async () => (await fleet.waiting()) === 0, 'the stream, too');
      const begun = workers.flatMap((worker) => worker.begun);
      assert.equal(new Set(begun).size, begun.length, 'no attempt was begun twice');
      assert.deepEqual(begun.map((name) => name.split('#')[0]).sort(), [...ids].sort());
      assert.deepEqual(
        workers.flatMap(({ lost }) => lost),
        [],
      );
      assert.ok([...accepted().values()].every(({ status }) => status === 'done'));
      // A result that comes again is the same result of the same attempt, which an orchestrator counts once.
      for (const result of events.results()) assert.equal(result.summary, accepted().get(result.task_id)?.summary);
    },
  );

  natsTest('a server that stops answering for a while delays tasks and loses none', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const { events } = await fleet.orchestrator();
    const worker = new WorkerStandIn({ agentId: 'w', maxConcurrent: 4 });
    await fleet.worker(worker);
    const peer = await events.peer('w');
    fleet.server.signal('SIGSTOP');
    const sent = Promise.all(['a', 'b', 'c'].map((id) => peer.send(aDispatch(id), structured)));
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    fleet.server.signal('SIGCONT');
    await sent;
    await events.until(() => events.results().length === 3, 'all results');
    assert.deepEqual([...worker.begun].sort(), ['a#1', 'b#1', 'c#1']);
  });

  natsTest(
    'a worker that is cut off past its lease stops, and the next attempt has a higher fence',
    async (context, installed) => {
      const fleet = await NatsFleet.start(context, installed);
      fleet.storage = { leaseTtlS: 5, profileTtlS: 5 };
      const { events } = await fleet.orchestrator();
      const wire = await Wire.to(context, fleet.server.port);
      const far = new WorkerStandIn({ agentId: 'far', workMs: 200_000 });
      await fleet.worker(far, { servers: wire.url });
      await fleet.worker(new WorkerStandIn({ agentId: 'near' }));
      await (await events.peer('far')).send(aDispatch('t'), structured);
      await events.until(() => events.of('TASK_ACK').length > 0, 'the far worker to begin');
      await fleet.until(async () => far.begun.length === 1, 'it to have begun');
      // Only messages to it are lost: it believes to speak.
      wire.silence('down');
      await events.until(() => events.comings.some((coming) => coming.startsWith('left far')), 'it to be missed');
      await (await events.peer('near')).send(aDispatch('t', {}, 2), structured);
      await events.until(() => events.results('t').length === 1, 'the result of the second attempt');
      wire.speak();
      await fleet.until(async () => far.lost.length === 1, 'the far worker to learn that it lost its lease');
      await events.until(() => events.results('t').length === 2, 'its late report');
      const [second, late] = events.results('t');
      assert.deepEqual([second?.envelope.attempt, late?.envelope.attempt, late?.error_summary], [2, 1, 'lease lost']);
      const [first] = events
        .of('TASK_ACK')
        .map(({ envelope, lease }) => ({ attempt: envelope?.attempt, fence: lease?.fence ?? 0 }));
      assert.ok(Number(second?.summary?.replace('fence ', '')) > (first?.fence ?? Number.POSITIVE_INFINITY));
    },
  );

  natsTest(
    'every attempt to reach a lost server is announced, with its number and the reason',
    async (context, installed) => {
      const fleet = await NatsFleet.start(context, installed);
      const changes: StateChange[] = [];
      const losses = () => changes.filter((change) => change.state === 'lost');
      await fleet.worker(new WorkerStandIn({ agentId: 'w' }), { onState: (change) => changes.push(change) });
      await fleet.server.kill();
      await fleet.until(async () => losses().length >= 5, 'five attempts');
      await fleet.server.up();
      await fleet.until(async () => changes.at(-1)?.state === 'resumed', 'the connection to be back');
      assert.equal(changes[0]?.state, 'open');
      assert.deepEqual(
        losses()
          .slice(0, 5)
          .map(({ reason, attempt }) => [reason.code, attempt]),
        [['connection_lost', 1], ...[2, 3, 4, 5].map((attempt) => ['unreachable', attempt])],
      );
    },
  );

  natsTest('a worker that starts before its server joins when it is there', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    await fleet.server.kill();
    const changes: StateChange[] = [];
    const joined = joinNats(new WorkerStandIn({ agentId: 'w' }), {
      servers: fleet.server.url,
      log,
      onState: (change) => changes.push(change),
    });
    context.after(() => joined.close());
    assert.equal(joined.connected, false);
    await fleet.until(async () => changes.length >= 2, 'two attempts');
    await fleet.server.up();
    await joined.accepted;
    assert.equal(joined.connected, true);
    const told = changes.slice(0, 2).map((change) => change.state === 'lost' && [change.reason.code, change.attempt]);
    assert.deepEqual(told, [
      ['unreachable', 2],
      ['unreachable', 3],
    ]);
    assert.equal(changes.at(-1)?.state, 'open');
    const early = joinNats(new WorkerStandIn({ agentId: 'x' }), { servers: 'nats://127.0.0.1:1', log });
    await early.close();
    await assert.rejects(early.accepted, { code: 'cancelled' });
    assert.equal(await early.closed, undefined);
  });

  natsTest('a signal cancels joining, and does nothing once the worker has joined', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const control = new AbortController();
    const joined = await fleet.worker(new WorkerStandIn({ agentId: 'w' }), { signal: control.signal });
    control.abort();
    await new Promise(setImmediate);
    assert.equal(joined.state, 'open');
  });

  natsTest('clocks that are an hour off change nothing', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    fleet.storage = { leaseTtlS: 4, profileTtlS: 30 };
    const { events } = await fleet.orchestrator();
    const skews = { early: -3_600_000, late: 3_600_000 };
    await Promise.all(
      Object.entries(skews).map(([agentId, skewMs]) =>
        fleet.child({ agentId, skewMs, workMs: 5_000, journal: fleet.journal(agentId) }),
      ),
    );
    for (const agentId of Object.keys(skews))
      await (await events.peer(agentId)).send(aDispatch(`t-${agentId}`), structured);
    await events.until(() => events.results().length === 2, 'both results');
    // Longer than the lease holds without renewal.
    assert.deepEqual(
      events.results().map(({ status }) => status),
      ['done', 'done'],
    );
    assert.equal(events.comings.filter((coming) => coming.startsWith('left')).length, 0);
  });

  natsTest(
    'what is said to a worker that does not hear it finds it when it is back, once',
    async (context, installed) => {
      const fleet = await NatsFleet.start(context, installed);
      const { events } = await fleet.orchestrator();
      const wire = await Wire.to(context, fleet.server.port);
      const worker = new ScriptedWorker({ byHand: true });
      await fleet.worker(worker, { servers: wire.url });
      const peer = await events.peer('worker-1');
      await peer.send(aDispatch('t'), structured);
      await worker.until(() => worker.begun.length === 1, 'the task to begin');
      wire.silence();
      const steer = { task_id: 't', steer_id: 's', text: 'and a test' };
      await peer.send(fleetMessage('TASK_STEER', steer), structured);
      await peer.send(fleetMessage('TASK_CANCEL', { task_id: 't' }), structured);
      wire.speak();
      await events.until(() => events.results('t').length === 1, 'the end of the task');
      // A message on its way when the connection ended is delivered again, which may be behind the other.
      await worker.until(() => worker.handled.length >= 2, 'both to be heard');
      assert.deepEqual(worker.handled.map(({ type }) => type).sort(), ['TASK_CANCEL', 'TASK_STEER']);
      assert.equal(events.results('t')[0]?.error_summary, 'canceled');
    },
  );

  natsTest(
    'a server without room refuses tasks and results, and takes the results when it has room again',
    async (context, installed) => {
      const fleet = await NatsFleet.start(context, installed, { jetstream: 'max_file_store: 2MB' });
      const { bus, events } = await fleet.orchestrator({ publishTimeoutMs: 20_000 });
      const worker = new ScriptedWorker({ byHand: true, retryMs: 100 });
      await fleet.worker(worker, { publishTimeoutMs: 20_000 });
      const peer = await events.peer('worker-1');
      await peer.send(aDispatch('t'), structured);
      await worker.until(() => worker.begun.length === 1, 'the task to begin');
      const noise = (words: number): string =>
        Array.from({ length: words }, () => Math.random().toString(36)).join(' ');
      const brief = noise(3_000);
      const filling = async (): Promise<void> => {
        for (let n = 0; n < 200; n++) await bus.offer?.('nobody', aDispatch(`filler-${n}`, { brief }));
      };
      await assert.rejects(filling(), { code: 'disk_full' });
      // Longer than the message that had no room.
      worker.finish('t', { prose: noise(6_000) });
      await new Promise((resolve) => setTimeout(resolve, 300));
      assert.deepEqual([worker.outbox, events.results()], [['t'], []]);
      await fleet.manage((manager) => manager.streams.purge('A2A_DISPATCH'));
      await events.until(() => events.results('t').length > 0, 'the result');
      await worker.until(() => worker.outbox.length === 0, 'the outbox to be empty');
    },
  );
});
