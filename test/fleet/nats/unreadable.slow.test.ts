/** Any content of the buckets and streams: an orchestrator starts, sets unreadable entries aside, and logs them. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect, headers } from '@nats-io/transport-node';
import type { Log } from '../../../src/base/log.ts';
import { acquireLeadership } from '../../../src/fleet/bus/nats/leadership.ts';
import { natsTaskStore } from '../../../src/fleet/bus/nats/task-store.ts';
import { fullSpec, newRecord } from '../../../src/fleet/orchestrator/task-record.ts';
import { countedTurns } from '../../support/counted-turns.ts';
import { aDispatch } from '../bus-contract.ts';
import { ScriptedWorker } from '../support/scripted-worker.ts';
import { NatsFleet } from './fleet.ts';
import { type NatsServer, natsTest } from './server.ts';

const record = (id: string, number: number) => newRecord(id, fullSpec(id, { brief: 'x' }), number, 1);
const json = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value));

/** Values that no reader may trip over. */
const ODD: Readonly<Record<string, Uint8Array>> = {
  empty: new Uint8Array(),
  text: Buffer.from('not json'),
  binary: Buffer.from([0, 255, 254, 0, 192, 128]),
  null: json(null),
  number: json(7),
  list: json([[]]),
  object: json({}),
  deep: Buffer.from('['.repeat(5000)),
  'bad-gzip': Buffer.from([0x1f, 0x8b, 1, 2, 3]),
  bomb: gzipSync(Buffer.alloc(32 * 1024 * 1024), { level: 1 }),
  wrong: json({ type: 'SESSION_ANNOUNCE', write: 1, record: 1, agent: 1, attempt: 'x', task_id: 1, instance: 1 }),
  lease: json({ task_id: 'lease', agent: '\u001b[2J', incarnation: '', attempt: 1, ttl_s: 1e300, renewed: 1 }),
  unspecified: json({ write: 'w', record: { task_id: 'unspecified', number: 1, ended_at: null, spec: {} } }),
  stateless: json({ write: 'w', record: { ...record('stateless', 2), state: '__proto__' } }),
  unlisted: json({ write: 'w', record: { ...record('unlisted', 3), attempts: [null] } }),
  unbudgeted: json({ write: 'w', record: { ...record('unbudgeted', 4), spec: { brief: 'x', token_budget: 'many' } } }),
  misplaced: json({ write: 'w', record: { ...record('misplaced', 4), spec: { brief: 'x', after: 7 } } }),
  waiting: json({ write: 'w', record: { ...record('waiting', 4), spec: { brief: 'x', after: [null] } } }),
  elsewhere: json({ write: 'w', record: record('another', 4) }),
};
/** Keys that Handfast does not make. */
const ODD_KEYS = ['=zz', 'a=41', '\u001b[2J', 'é', "'", '-', `x${'y'.repeat(300)}`];

async function publisher(context: TestContext, server: NatsServer) {
  const connection = await connect({ servers: server.url });
  context.after(() => connection.close());
  return connection;
}

function recording() {
  const lines: { readonly message: string; readonly fields: Record<string, unknown> }[] = [];
  const say = (message: string, fields: Record<string, unknown> = {}) => void lines.push({ message, fields });
  const log: Log = { debug: say, info: say, warn: say, error: say };
  const asides = (bucket: string) => lines.filter(({ fields }) => fields.bucket === bucket && 'remedy' in fields);
  return { log, lines, asides };
}

// They wait more than they work.
describe('unreadable entries on NATS', { concurrency: 2 }, () => {
  natsTest('an orchestrator starts with any content of its buckets, and works', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const first = await fleet.orchestrator();
    await first.bus.close();
    const connection = await publisher(context, fleet.server);
    for (const bucket of ['a2a_profiles', 'a2a_leases', 'a2a_journal', 'a2a_discovery', 'a2a_orchestrators']) {
      for (const [key, value] of Object.entries(ODD)) connection.publish(`$KV.${bucket}.${key}`, value);
      for (const key of ODD_KEYS) connection.publish(`$KV.${bucket}.${key}`, json({}));
      connection.publish(`$KV.${bucket}.two.tokens`, 'x');
      const operation = headers();
      operation.set('KV-Operation', 'NONE');
      connection.publish(`$KV.${bucket}.operation`, 'x', { headers: operation });
    }
    connection.publish('$KV.a2a_orchestrators.main', ODD.binary!);
    await connection.flush();
    const { log, asides } = recording();
    const { bus, events } = await fleet.orchestrator({ log });
    // Each is counted in the status of the fleet, and logged with a remedy.
    for (const bucket of ['a2a_profiles', 'a2a_leases']) {
      const shown = asides(bucket).map(({ fields }) => fields.key);
      for (const key of Object.keys(ODD)) {
        if (key === 'bomb' && bucket === 'a2a_leases') continue;
        assert.ok(shown.includes(key), `${bucket} ${key}`);
      }
      assert.ok(
        shown.every((key) => !(key as string).includes('\u001b')),
        'control characters are escaped',
      );
    }
    assert.ok(events.oddities.length >= asides('a2a_profiles').length);
    assert.deepEqual([...events.peers.keys()], []);
    assert.deepEqual(
      asides('a2a_orchestrators').map(({ fields }) => fields.key),
      ['main'],
    );
    // The stream of events as well.
    for (const [name, value] of Object.entries(ODD)) {
      connection.publish(`a2a.agent.worker-1.task.${name}.events`, value);
      connection.publish('a2a.agent.worker-1.dead', value);
      connection.publish('a2a.agent.worker-1.announce', value);
      connection.publish('$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.A2A_DISPATCH.agent-worker-1', value);
    }
    for (const seq of [-1, 0, 1.5, 2 ** 60, 99_999, '1', null]) {
      const advisory = json({ stream_seq: seq, deliveries: 'x' });
      connection.publish('$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.A2A_DISPATCH.agent-worker-1', advisory);
    }
    for (const key of ODD_KEYS) connection.publish(`a2a.agent.${key}.task.t.events`, '{}');
    await connection.flush();
    await fleet.worker(new ScriptedWorker());
    const peer = await events.peer('worker-1');
    await peer.send(aDispatch('after-all'), { mode: 'structured' });
    await events.until(() => events.results('after-all').length === 1, 'the result');
    // Nothing is redelivered without end.
    const manager = await jetstreamManager(connection);
    await fleet.until(async () => {
      const { num_ack_pending, num_pending } = await manager.consumers.info('A2A_EVENTS', 'orchestrator-main');
      return num_ack_pending + num_pending === 0;
    }, 'all events to be acknowledged');
    assert.equal(bus.down?.(), undefined);
  });

  natsTest('a task store opens with any content of its bucket, and keeps the readable', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const { log, asides } = recording();
    const seat = await acquireLeadership({ servers: fleet.server.url, name: 'main', log });
    context.after(() => seat.close());
    const before = await natsTaskStore(seat);
    await before.put(record('kept', 5), 0);
    await before.close();
    const connection = await publisher(context, fleet.server);
    const bucket = 'a2a_tasks_main';
    for (const [key, value] of Object.entries(ODD)) connection.publish(`$KV.${bucket}.${key}`, value);
    for (const key of ODD_KEYS) connection.publish(`$KV.${bucket}.${key}`, json({}));
    // Of an earlier version, which knew fewer members.
    const { spec: _spec, ...rest } = record('short', 6);
    connection.publish(`$KV.${bucket}.short`, json({ write: 'w', record: { ...rest, spec: { brief: 'short' } } }));
    const numbers = ['x', '0', '-1', '1e300', '99999999999999999999', '1.5', 'NaN'];
    for (const number of numbers) connection.publish(`$KV.${bucket}.number.${number}`, json('t'));
    let number = 6;
    for (const value of Object.values(ODD)) connection.publish(`$KV.${bucket}.number.${++number}`, value);
    await connection.flush();
    const store = await natsTaskStore(seat);
    context.after(() => store.close());
    const open: string[] = [];
    for await (const { record: found } of store.open()) open.push(found.task_id);
    assert.deepEqual(open, ['kept', 'short']);
    assert.deepEqual((await store.get('short'))?.record.spec.after, []);
    assert.deepEqual(
      (await store.find({})).map(({ task_id }) => task_id),
      ['short', 'kept'],
    );
    assert.equal(await store.lastNumber(), number);
    const shown = asides(bucket).map(({ fields }) => fields.key);
    for (const key of [...Object.keys(ODD), 'number.x', 'number.1e300']) assert.ok(shown.includes(key), key);
    for (const { fields } of asides(bucket)) assert.match(fields.remedy as string, /nats kv/);
    // It is left where it is.
    const manager = await jetstreamManager(connection);
    const left = await manager.streams.getMessage(`KV_${bucket}`, { last_by_subj: `$KV.${bucket}.text` });
    assert.equal(Buffer.from(left?.data ?? []).toString(), 'not json');
    // A record that is damaged while the store is open is set aside too.
    // The stream has it when it answers.
    await connection.request(`$KV.${bucket}.kept`, 'damaged', { timeout: 30_000 });
    assert.equal(await store.get('kept'), undefined);
    assert.ok((await store.put(record('next', number + 1), 0)) > 0);
  });

  natsTest('messages that a server delivers at once are read in many turns', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    const { events } = await fleet.orchestrator();
    const connection = await publisher(context, fleet.server);
    const turns = countedTurns(context);
    const inTurn = new Map<number, number>();
    let count = 0;
    const all = Promise.withResolvers<void>();
    context.mock.method(events, 'malformed', () => {
      inTurn.set(turns(), (inTurn.get(turns()) ?? 0) + 1);
      if (++count === 600) all.resolve();
    });
    for (let number = 0; number < 300; number++) {
      connection.publish('a2a.agent.worker-1.task.t.events', 'x');
      connection.publish(`$KV.a2a_profiles.p${number}`, 'x');
    }
    await connection.flush();
    await all.promise;
    assert.ok(Math.max(...inTurn.values()) <= 10, [...inTurn.values()].join(' '));
  });
});
