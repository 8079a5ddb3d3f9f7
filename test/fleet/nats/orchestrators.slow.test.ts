/**
 * Orchestrators on one NATS: two of one name, one after the other, and the events that each receives.
 */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { natsBus } from '../../../src/fleet/bus/nats/orchestrator-bus.ts';
import { aDispatch } from '../bus-contract.ts';
import { PeerRecorder } from '../support/peer-recorder.ts';
import { ScriptedWorker } from '../support/scripted-worker.ts';
import { log, NatsFleet } from './fleet.ts';
import { natsTest } from './server.ts';
import { Wire } from './wire.ts';

const structured = { mode: 'structured' } as const;

// They wait more than they work.
describe('orchestrators on NATS', { concurrency: 4 }, () => {
  natsTest('of two orchestrators of one name that start at once, one continues', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    fleet.storage = { leaseTtlS: 2 };
    const starts = await Promise.allSettled([1, 2].map(() => fleet.orchestrator()));
    const refused = starts.filter((start) => start.status === 'rejected');
    assert.equal(refused.length, 1);
    assert.equal(refused[0]?.reason.code, 'superseded');
    // One of another name is another orchestrator.
    await fleet.orchestrator({ name: 'other' });
  });

  natsTest(
    'an orchestrator that is started again under its instance continues at once, and ends the one before',
    async (context, installed) => {
      const fleet = await NatsFleet.start(context, installed);
      fleet.storage = { leaseTtlS: 15 };
      await fleet.worker(new ScriptedWorker());
      const first = await fleet.orchestrator({ instance: 'host-1' });
      const peer = await first.events.peer('worker-1');
      const second = await fleet.orchestrator({ instance: 'host-1' });
      assert.equal((await first.bus.closed)?.code, 'superseded');
      assert.match(first.events.comings.at(-1) ?? '', /^left worker-1: another orchestrator/);
      await assert.rejects(peer.send(aDispatch('t-1'), structured), { code: 'unreachable' });
      await (await second.events.peer('worker-1')).send(aDispatch('t-2'), structured);
      await second.events.until(() => second.events.results('t-2').length === 1, 'the result');
      assert.deepEqual(first.events.results(), []);
    },
  );

  natsTest(
    'an orchestrator that is cut off loses its name, sends nothing, and is notified when it comes back',
    async (context, installed) => {
      const fleet = await NatsFleet.start(context, installed);
      fleet.storage = { leaseTtlS: 5 };
      const worker = new ScriptedWorker();
      await fleet.worker(worker);
      const wire = await Wire.to(context, fleet.server.port);
      const first = await fleet.orchestrator({ servers: wire.url });
      const peer = await first.events.peer('worker-1');
      wire.silence();
      const second = await fleet.orchestrator();
      await fleet.until(
        () =>
          peer.send(aDispatch('from-the-first'), structured).then(
            () => false,
            () => true,
          ),
        'the first to notice',
      );
      wire.speak();
      assert.equal((await first.bus.closed)?.code, 'superseded');
      await (await second.events.peer('worker-1')).send(aDispatch('from-the-second'), structured);
      await second.events.until(() => second.events.results('from-the-second').length === 1, 'the result');
      assert.deepEqual(worker.begun, ['from-the-second']);
    },
  );

  natsTest(
    'results that come while no orchestrator is there wait for the next one, and come once',
    async (context, installed) => {
      const fleet = await NatsFleet.start(context, installed);
      const worker = new ScriptedWorker({ byHand: true });
      await fleet.worker(worker);
      const first = await fleet.orchestrator();
      const peer = await first.events.peer('worker-1');
      for (const id of ['kept', 'not-kept', 'meanwhile']) await peer.send(aDispatch(id), structured);
      await worker.until(() => worker.begun.length === 3, 'three tasks');
      first.events.keep = (message) =>
        message.type === 'TASK_RESULT' && message.task_id === 'not-kept' ? new Promise(() => {}) : undefined;
      worker.finish('kept');
      worker.finish('not-kept');
      await first.events.until(() => first.events.results().length === 2, 'two results');
      await first.bus.close();
      worker.finish('meanwhile');
      const second = await fleet.orchestrator();
      await second.events.until(() => second.events.results().length === 2, 'what the first did not keep');
      assert.deepEqual(
        second.events
          .results()
          .map(({ task_id }) => task_id)
          .sort(),
        ['meanwhile', 'not-kept'],
      );
    },
  );

  natsTest('two orchestrators of different names hear the same workers', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    await fleet.worker(new ScriptedWorker());
    const [one, two] = [await fleet.orchestrator({ name: 'one' }), await fleet.orchestrator({ name: 'two' })];
    await (await one.events.peer('worker-1')).send(aDispatch('t-1'), structured);
    await Promise.all(
      [one, two].map(({ events }) => events.until(() => events.results('t-1').length === 1, 'the result')),
    );
  });

  natsTest(
    'an address without a reply, wrong secrets and a stream that cannot work are distinguished',
    async (context, installed) => {
      const start = async (options: Partial<Parameters<typeof natsBus>[0]>) => {
        const bus = natsBus({ servers: 'nats://127.0.0.1:1', name: 'main', log, connectTimeoutMs: 300, ...options });
        try {
          await bus.start(new PeerRecorder());
        } finally {
          await bus.close();
        }
      };
      await assert.rejects(start({}), { code: 'unreachable' });
      const guarded = await NatsFleet.start(context, installed, { config: 'authorization { token: "secret" }' });
      const servers = guarded.server.url;
      const env = { RIGHT: 'secret', WRONG: 'guess' };
      await assert.rejects(start({ servers }), { code: 'auth_failed' });
      await assert.rejects(start({ servers, env, auth: { tokenEnv: 'WRONG' } }), { code: 'auth_failed' });
      await assert.rejects(start({ servers, auth: { tokenFile: '/nowhere/token' } }), { code: 'not_configured' });
      await start({ servers, env, auth: { tokenEnv: 'RIGHT' } });
      const fleet = await NatsFleet.start(context, installed);
      await fleet.manage((manager) =>
        manager.streams.add({ name: 'A2A_DISPATCH', subjects: ['a2a.agent.*.dispatch'] }),
      );
      await assert.rejects(start({ servers: fleet.server.url }), { code: 'config_invalid' });
    },
  );
});
