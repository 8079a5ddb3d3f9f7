/**
 * Task records in a bucket: the demands of the contract of task stores, where a server makes a difference.
 */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import { acquireLeadership, type Leadership } from '../../../src/fleet/bus/nats/leadership.ts';
import { natsTaskStore } from '../../../src/fleet/bus/nats/task-store.ts';
import type { TaskRecord, TaskStore } from '../../../src/fleet/orchestrator/task.ts';
import { fullSpec, newRecord } from '../../../src/fleet/orchestrator/task-record.ts';
import { log } from './fleet.ts';
import { NatsServer, natsTest } from './server.ts';

const taken = { code: 'superseded' };

function record(number: number, change: Partial<TaskRecord> = {}): TaskRecord {
  const spec = { brief: 'do it', batch: number % 2 === 0 ? 'even' : null };
  const id = change.task_id ?? `t:${number}`;
  return { ...newRecord(id, fullSpec(id, spec), number, 1), ...change };
}

async function seatAt(context: TestContext, server: NatsServer): Promise<Leadership> {
  const seat = await acquireLeadership({ servers: server.url, name: 'main', log });
  context.after(() => seat.close());
  return seat;
}

async function open(context: TestContext, seat: Leadership): Promise<TaskStore> {
  const store = await natsTaskStore(seat);
  context.after(() => store.close());
  return store;
}

const ids = (records: readonly TaskRecord[]): readonly number[] => records.map(({ number }) => number);

// They wait more than they work.
describe('task records on NATS', { concurrency: 4 }, () => {
  natsTest('a record is written over the revision it was read with, and no other', async (context, installed) => {
    const server = await NatsServer.start(context, installed);
    const seat = await seatAt(context, server);
    const [one, other] = [await open(context, seat), await open(context, seat)];
    const first = await one.put(record(1), 0);
    await assert.rejects(other.put(record(1), 0), taken);
    const second = await other.put(record(1, { state: 'reserved' }), first);
    assert.ok(second > first);
    await assert.rejects(one.put(record(1, { state: 'blocked' }), first), taken);
    assert.deepEqual(await one.get('t:1'), { record: record(1, { state: 'reserved' }), revision: second });
    assert.equal(await one.get('t:9'), undefined);
    // A number is issued once, by any process.
    await assert.rejects(other.put(record(1, { task_id: 'another' }), 0), taken);
  });

  natsTest('of many who change a record at once, one does', async (context, installed) => {
    const server = await NatsServer.start(context, installed);
    const seat = await seatAt(context, server);
    const stores = [await open(context, seat), await open(context, seat)];
    const revision = await stores[0]!.put(record(1), 0);
    const puts = Array.from({ length: 20 }, (_, index) =>
      stores[index % 2]!.put(record(1, { attempt: index + 1 }), revision),
    );
    const done = (await Promise.allSettled(puts)).filter(({ status }) => status === 'fulfilled');
    assert.equal(done.length, 1);
  });

  natsTest('open tasks, queries and numbers are there after a restart of the server', async (context, installed) => {
    const server = await NatsServer.start(context, installed);
    const seat = await seatAt(context, server);
    const store = await open(context, seat);
    await Promise.all(Array.from({ length: 150 }, (_, index) => store.put(record(index + 1), 0)));
    const revision = (await store.get('t:150'))?.revision ?? 0;
    await store.put(record(150, { state: 'done', ended_at: 5 }), revision);
    await server.kill('SIGTERM');
    await server.up();
    const again = await open(context, seat);
    const numbers: number[] = [];
    for await (const stored of again.open()) numbers.push(stored.record.number);
    assert.deepEqual(
      numbers,
      Array.from({ length: 149 }, (_, index) => index + 1),
    );
    assert.deepEqual(ids(await again.find({ batch: 'even', before: 10 })), [8, 6, 4, 2]);
    assert.deepEqual(ids(await again.find({ states: ['done'] })), [150]);
    assert.equal((await again.find({})).length, 50);
    assert.equal(await again.lastNumber(), 150);
  });

  natsTest(
    'what has ended is forgotten by age and by number, and no number is given again',
    async (context, installed) => {
      const server = await NatsServer.start(context, installed);
      const seat = await seatAt(context, server);
      const store = await open(context, seat);
      await Promise.all(
        [1, 2, 3, 4, 5, 6].map((n) => store.put(record(n, n < 6 ? { state: 'done', ended_at: n } : {}), 0)),
      );
      assert.equal(await store.prune(3, 3), 3);
      assert.deepEqual(ids(await store.find({})), [6, 5, 4]);
      const last = (await store.get('t:6'))?.revision ?? 0;
      await store.put(record(6, { state: 'done', ended_at: 6 }), last);
      assert.equal(await store.prune(100, 0), 3);
      const again = await open(context, seat);
      assert.deepEqual([(await again.find({})).length, await again.lastNumber()], [0, 6]);
      await store.close();
      await assert.rejects(store.get('t:1'), { code: 'runtime_error' });
    },
  );

  natsTest(
    'a record larger than a message may be is kept packed, and put through an outage',
    async (context, installed) => {
      const server = await NatsServer.start(context, installed);
      const seat = await seatAt(context, server);
      const store = await open(context, seat);
      const spec = { brief: 'ä'.repeat(900_000) } as TaskRecord['spec'];
      await store.put(record(1, { spec }), 0);
      assert.equal((await store.get('t:1'))?.record.spec.brief.length, 900_000);
      await server.kill();
      const during = store.put(record(2), 0);
      await server.up();
      assert.ok((await during) > 0);
    },
  );
});
