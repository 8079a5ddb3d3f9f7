/**
 * Leases and claims: the right to begin an attempt, decided by the server.
 */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import { Bucket } from '../../../src/fleet/bus/nats/bucket.ts';
import { openNats } from '../../../src/fleet/bus/nats/connection.ts';
import { type HeldLease, type LeaseOutcome, Leases } from '../../../src/fleet/bus/nats/leases.ts';
import { ensureFleet } from '../../../src/fleet/bus/nats/streams.ts';
import { log } from './fleet.ts';
import { type Installed, NatsServer, natsTest } from './server.ts';

interface Stage {
  readonly server: NatsServer;
  as(agent: string, incarnation?: string): Leases;
}

async function staged(context: TestContext, installed: Installed, leaseTtlS = 45): Promise<Stage> {
  const server = await NatsServer.start(context, installed);
  const link = await openNats('test', { servers: server.url, log });
  context.after(() => link.close());
  const { leaseTtlS: ttlS } = await ensureFleet(link, { leaseTtlS });
  const leases = new Bucket(link, 'a2a_leases');
  const journal = new Bucket(link, 'a2a_journal');
  return {
    server,
    as: (agent, incarnation = `${agent}-1`) => new Leases({ leases, journal, agent, incarnation, ttlS }),
  };
}

function held(taken: LeaseOutcome): HeldLease {
  assert.equal(taken.kind, 'taken');
  return (taken as Extract<LeaseOutcome, { kind: 'taken' }>).lease;
}

// They wait more than they work.
describe('leases on NATS', { concurrency: 4 }, () => {
  natsTest('of twenty who want a lease at once, one has it', async (context, installed) => {
    const { as } = await staged(context, installed);
    const takers = Array.from({ length: 20 }, (_, index) => as(`w-${index}`).acquire('t', 1));
    const kinds = (await Promise.all(takers)).map(({ kind }) => kind).sort();
    assert.deepEqual(kinds, [...Array.from({ length: 19 }, () => 'held'), 'taken']);
  });

  natsTest(
    'a later attempt takes the lease away, with a higher fence, and the earlier one learns of it',
    async (context, installed) => {
      const { as } = await staged(context, installed);
      const first = held(await as('one').acquire('t', 1));
      assert.equal(await first.renew(), true);
      const second = held(await as('two').acquire('t', 2));
      assert.ok(second.fence > first.fence);
      assert.equal(await first.renew(), false);
      assert.equal(await first.renew(), false);
      // Giving back a lease that it does not have must not take it from its holder.
      await first.release();
      assert.equal(await second.renew(), true);
      assert.deepEqual(await as('three').acquire('t', 1), { kind: 'stale', attempt: 2 });
      assert.deepEqual(await as('three').acquire('t', 2), { kind: 'held', agent: 'two' });
    },
  );

  natsTest('a lease that was given back is free at once, with a higher fence', async (context, installed) => {
    const { as } = await staged(context, installed);
    const first = held(await as('one').acquire('t', 1));
    await first.release();
    assert.equal(await first.renew(), false);
    assert.ok(held(await as('two').acquire('t', 1)).fence > first.fence);
  });

  natsTest('a lease that is not renewed runs out by the clock of the server', async (context, installed) => {
    const { as } = await staged(context, installed, 8);
    const take = async (name: string): Promise<HeldLease> => held(await as('one').acquire(name, 1));
    const [untouched, silent, kept] = [await take('untouched'), await take('silent'), await take('kept')];
    let next = await as('two').acquire('silent', 1);
    while (next.kind !== 'taken') {
      assert.deepEqual(next, { kind: 'held', agent: 'one' });
      assert.equal(await kept.renew(), true);
      await new Promise((resolve) => setTimeout(resolve, 200));
      next = await as('two').acquire('silent', 1);
    }
    assert.ok(next.lease.fence > silent.fence);
    // No worker has asked for this one, which is older.
    assert.equal(await untouched.renew(), false);
    assert.equal(await kept.renew(), true);
  });

  natsTest(
    'an attempt is claimed once, by the first that asks, and a lower one never after it',
    async (context, installed) => {
      const { as } = await staged(context, installed);
      const claims = Array.from({ length: 10 }, (_, index) => as(`w-${index}`).claim('t', 2));
      assert.equal((await Promise.all(claims)).filter(Boolean).length, 1);
      const winner = `w-${(await Promise.all(claims)).indexOf(true)}`;
      assert.equal(await as(winner).claim('t', 2), true);
      assert.equal(await as(winner, 'another life').claim('t', 2), false);
      assert.equal(await as('other').claim('t', 1), false);
      assert.equal(await as('other').claim('t', 3), true);
      assert.equal(await as(winner).claim('t', 2), false);
    },
  );

  natsTest('a renewal that meets a server that was killed succeeds when it is back', async (context, installed) => {
    const { as, server } = await staged(context, installed);
    const lease = held(await as('one').acquire('t', 1));
    await server.kill();
    const renewed = lease.renew();
    await server.up();
    assert.equal(await renewed, true);
    assert.equal(await as('one').claim('t', 1), true);
    await lease.release();
  });
});
