/** The right to write one key of a bucket is no right to empty it, also where an earlier version made the bucket. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { jetstreamManager } from '@nats-io/jetstream';
import { Kvm } from '@nats-io/kv';
import { connect, headers, type NatsConnection } from '@nats-io/transport-node';
import { acquireLeadership } from '../../../src/fleet/bus/nats/leadership.ts';
import { natsTaskStore } from '../../../src/fleet/bus/nats/task-store.ts';
import { log, NatsFleet } from './fleet.ts';
import { natsTest } from './server.ts';

const BUCKETS = ['a2a_discovery', 'a2a_profiles', 'a2a_leases', 'a2a_orchestrators', 'a2a_journal', 'a2a_tasks_main'];

async function attacked(connection: NatsConnection, bucket: string): Promise<readonly string[]> {
  connection.publish(`$KV.${bucket}.of-another`, 'kept');
  await connection.flush();
  for (const rollup of ['all', 'sub', 'ALL']) {
    const set = headers();
    set.set('Nats-Rollup', rollup);
    connection.publish(`$KV.${bucket}.own`, 'x', { headers: set });
  }
  await connection.flush();
  const manager = await jetstreamManager(connection);
  const { state } = await manager.streams.info(`KV_${bucket}`, { subjects_filter: '>' });
  return Object.keys(state.subjects ?? {});
}

// They wait more than they work.
describe('rollup on NATS', { concurrency: 2 }, () => {
  natsTest('a message with Nats-Rollup removes nothing from a bucket', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const seat = await acquireLeadership({ servers: fleet.server.url, name: 'main', log });
    context.after(() => seat.close());
    await (await natsTaskStore(seat)).close();
    const connection = await connect({ servers: fleet.server.url });
    context.after(() => connection.close());
    for (const bucket of BUCKETS) {
      const keys = await attacked(connection, bucket);
      assert.ok(keys.includes(`$KV.${bucket}.of-another`), bucket);
    }
    // A lease is short: a value that is longer fills no disk.
    const manager = await jetstreamManager(connection);
    for (const bucket of ['a2a_leases', 'a2a_journal', 'a2a_orchestrators']) {
      assert.equal((await manager.streams.info(`KV_${bucket}`)).config.max_msg_size, 16 * 1024);
    }
  });

  natsTest('an orchestrator changes the buckets that an earlier version made', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const connection = await connect({ servers: fleet.server.url });
    context.after(() => connection.close());
    const manager = await jetstreamManager(connection);
    const markers = Number(installed.version.split('.')[1]) >= 11;
    for (const bucket of BUCKETS) {
      const ttl = /discovery|tasks/.test(bucket) ? {} : { ttl: 45_000 };
      const made = { history: 1, ...ttl, ...(markers && bucket === 'a2a_profiles' && { markerTTL: 45_000 }) };
      const kv = await new Kvm(manager.jetstream()).create(bucket, made);
      await kv.put('before', 'x');
    }
    const seat = await acquireLeadership({ servers: fleet.server.url, name: 'main', log });
    context.after(() => seat.close());
    await (await natsTaskStore(seat)).close();
    for (const bucket of BUCKETS) {
      const keys = await attacked(connection, bucket);
      assert.ok(keys.includes(`$KV.${bucket}.before`) && keys.includes(`$KV.${bucket}.of-another`), bucket);
      const { config } = await manager.streams.info(`KV_${bucket}`);
      assert.equal(config.max_age, /discovery|tasks/.test(bucket) ? 0 : 45e9);
    }
  });
});
