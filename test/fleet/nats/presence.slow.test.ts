/** Presence: profiles that are written, rewritten, left alone, and replaced by another worker. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { ScriptedWorker } from '../support/scripted-worker.ts';
import { NatsFleet } from './fleet.ts';
import { natsTest } from './server.ts';
import { Wire } from './wire.ts';

// They wait more than they work.
describe('presence on NATS', { concurrency: 4 }, () => {
  natsTest(
    'a worker that stops without a word is missed within its ttl, and is back when it writes again',
    async (context, installed) => {
      const fleet = await NatsFleet.start(context, installed);
      fleet.storage = { profileTtlS: 4 };
      const wire = await Wire.to(context, fleet.server.port);
      const { events } = await fleet.orchestrator();
      await fleet.worker(new ScriptedWorker({ agentId: 'steady' }));
      await fleet.worker(new ScriptedWorker({ agentId: 'cut.off' }), { servers: wire.url });
      const peer = await events.peer('cut.off');
      assert.equal(peer.reachable, true);
      wire.silence();
      await events.until(() => events.comings.some((coming) => coming.startsWith('left cut.off')), 'it to be missed');
      assert.equal(peer.reachable, false);
      wire.speak();
      await events.until(
        () => events.comings.filter((coming) => coming === 'joined cut.off').length === 2,
        'it to be back',
      );
      // The other one wrote its profile all the time.
      assert.deepEqual(
        events.comings.filter((coming) => coming.includes('steady')),
        ['joined steady'],
      );
      assert.ok(events.of('SESSION_ANNOUNCE').filter(({ agent_id }) => agent_id === 'steady').length >= 3);
    },
  );

  natsTest(
    'an orchestrator that comes later finds who is there, and who has left is not',
    async (context, installed) => {
      const fleet = await NatsFleet.start(context, installed);
      const long = `w${'.'.repeat(60)}`;
      await fleet.worker(new ScriptedWorker({ agentId: 'here' }));
      await fleet.worker(new ScriptedWorker({ agentId: long }));
      const left = await fleet.worker(new ScriptedWorker({ agentId: 'left' }));
      await left.close('done for today');
      const { events } = await fleet.orchestrator();
      // A name too long for a subject is known from the description.
      assert.deepEqual([...events.peers.keys()].sort(), ['here', long]);
      assert.deepEqual(await left.closed, undefined);
    },
  );

  natsTest('a profile says when it was written last, not when it was written first', async (context, installed) => {
    const hourMs = 3_600_000;
    class Early extends ScriptedWorker {
      override async announce(contextId: string | null = null) {
        const sent_at = new Date(Date.now() - hourMs).toISOString();
        return { ...(await super.announce(contextId)), envelope: { message_id: 'm', sent_at, sender: this.agentId } };
      }
    }
    const fleet = await NatsFleet.start(context, installed);
    await fleet.worker(new Early());
    const { events } = await fleet.orchestrator();
    await events.peer('worker-1');
    await events.until(() => events.of('SESSION_ANNOUNCE').length > 0, 'its profile');
    const sentAt = Date.parse(events.of('SESSION_ANNOUNCE')[0]?.envelope.sent_at ?? '');
    assert.ok(Date.now() - sentAt < hourMs / 2, 'an orchestrator compares it with its clock');
  });

  natsTest('a worker that leaves is asleep, with its reason', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const { events } = await fleet.orchestrator();
    const joined = await fleet.worker(new ScriptedWorker());
    await events.peer('worker-1');
    await joined.close('idle for 1800 s');
    await events.until(() => events.comings.includes('asleep worker-1: idle for 1800 s'), 'the goodbye');
  });

  natsTest('of two processes of one name, the one that came last keeps it', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    fleet.storage = { profileTtlS: 2 };
    const { events } = await fleet.orchestrator();
    const first = await fleet.worker(new ScriptedWorker({ incarnation: 'first' }));
    const second = await fleet.worker(new ScriptedWorker({ incarnation: 'second' }));
    assert.equal((await first.closed)?.code, 'superseded');
    assert.equal(second.connected, true);
    await events.until(
      () => events.of('SESSION_ANNOUNCE').at(-1)?.incarnation === 'second',
      'the second to be announced',
    );
    assert.deepEqual(events.comings, ['joined worker-1']);
  });
});
