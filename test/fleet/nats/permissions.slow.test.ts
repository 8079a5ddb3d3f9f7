/** Users and accounts as `docs/nats.md` gives them: a worker can work, and reaches nothing beyond its account. */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext } from 'node:test';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect, headers, type NatsConnection } from '@nats-io/transport-node';
import { loadFleetConfig } from '../../../src/config/fleet-config.ts';
import { accountBuses } from '../../../src/fleet/bus/nats/account-buses.ts';
import { joinNats } from '../../../src/fleet/bus/nats/join.ts';
import { acquireLeadership } from '../../../src/fleet/bus/nats/leadership.ts';
import { provisionWorker } from '../../../src/fleet/bus/nats/provision.ts';
import { natsTaskStore } from '../../../src/fleet/bus/nats/task-store.ts';
import { fullSpec, newRecord } from '../../../src/fleet/orchestrator/task-record.ts';
import { fleetNats } from '../../../src/server/fleet/fleet-nats.ts';
import { aDispatch } from '../bus-contract.ts';
import { PeerRecorder } from '../support/peer-recorder.ts';
import { ScriptedWorker } from '../support/scripted-worker.ts';
import { log, NatsFleet } from './fleet.ts';
import { type Installed, NatsServer, natsTest } from './server.ts';

/** Reads the `accounts` of the document, as a server reads them, with a user for everything in each. */
function documented(): string {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/nats.md'), 'utf8');
  const block = /```conf\n(accounts [\s\S]*?)```/.exec(page)?.[1];
  assert.ok(block !== undefined, 'docs/nats.md has the accounts');
  return block
    .replace(/( BUILD [\s\S]*?users = \[)/, '$1 { user: all-of-build, password: all }')
    .replace(/( CLAUDE_1 [\s\S]*?users = \[)/, '$1 { user: all-of-claude-1, password: all }');
}

const env = { ORCHESTRATOR: 'change-me', OF_ACCOUNT: 'change-me-as-well', WORKER: 'change-me-too', ALL: 'all' };
const asOrchestrator = { env, auth: { user: 'orchestrator', passwordEnv: 'ORCHESTRATOR' } };
const ofAccount = { env, auth: { user: 'orchestrator-claude-1', passwordEnv: 'OF_ACCOUNT' } };
const asWorker = { env, auth: { user: 'claude-1', passwordEnv: 'WORKER' } };

/** Starts a fleet with the accounts of the document and an orchestrator, and stores a task record. */
async function start(context: TestContext, installed: Installed) {
  const fleet = await NatsFleet.start(context, installed, { config: documented() });
  const servers = fleet.server.url;
  const leadership = await acquireLeadership({ servers, name: 'main', log, ...asOrchestrator });
  fleet.onEnd(() => leadership.close());
  const store = await natsTaskStore(leadership);
  fleet.onEnd(() => store.close());
  await store.put(newRecord('t', fullSpec('t', { brief: 'x' }), 1, 1), 0);
  const accounts = [{ workers: ['claude-1'], auth: ofAccount.auth }];
  const bus = accountBuses({ servers, name: 'main', log, ...asOrchestrator, leadership }, accounts);
  fleet.onEnd(() => bus.close());
  const events = new PeerRecorder();
  await bus.start(events);
  const connectAs = async (user: string, pass: string): Promise<NatsConnection> => {
    const connection = await connect({ servers, user, pass, inboxPrefix: `_INBOX_${user}` });
    context.after(() => connection.close());
    return connection;
  };
  return { fleet, bus, events, store, connectAs };
}

async function lastOf(connection: NatsConnection): Promise<Record<string, number>> {
  const manager = await jetstreamManager(connection);
  const last: Record<string, number> = {};
  for await (const { config, state } of manager.streams.list()) last[config.name] = state.last_seq;
  return last;
}

// They wait more than they work.
describe('permissions on NATS', { concurrency: 2 }, () => {
  natsTest('a worker in a separate account works, and makes no consumers', async (context, installed) => {
    const { fleet, events } = await start(context, installed);
    // Without consumers made for it, it cannot join, and gets the reason.
    await assert.rejects(
      fleet.worker(new ScriptedWorker({ agentId: 'claude-1' }), { ...asWorker, publishTimeoutMs: 10_000 }),
      {
        code: 'unauthorized',
      },
    );
    const own = new ScriptedWorker({ agentId: 'claude-1' });
    await provisionWorker({ servers: fleet.server.url, ...ofAccount }, own);
    await fleet.worker(own, asWorker);
    const peer = await events.peer('claude-1');
    await peer.send(aDispatch('own'), { mode: 'structured' });
    await peer.send({ type: 'TASK_POLL', protocol_version: '2.0', task_id: 'nothing' }, { mode: 'structured' });
    await events.until(() => events.results('own').length === 1, 'the result');
    await events.until(() => events.of('TASK_ACK').some(({ state }) => state === 'unknown'), 'the answer to a poll');
    // A worker of the orchestrator's account works beside it.
    await fleet.worker(new ScriptedWorker({ agentId: 'trusted' }), {
      env,
      auth: { user: 'all-of-build', passwordEnv: 'ALL' },
    });
    await (await events.peer('trusted')).send(aDispatch('other'), { mode: 'structured' });
    await events.until(() => events.results('other').length === 1, 'the other result');
  });

  natsTest('no message and no reply subject of a worker reaches another account', async (context, installed) => {
    const { fleet, events, store, connectAs } = await start(context, installed);
    const own = new ScriptedWorker({ agentId: 'claude-1' });
    await provisionWorker({ servers: fleet.server.url, ...ofAccount }, own);
    const build = await connectAs('all-of-build', 'all');
    const before = await lastOf(build);
    const seen: string[] = [];
    build.subscribe('a2a.>', { callback: (_, { subject }) => void seen.push(subject) });
    build.subscribe('$KV.>', { callback: (_, { subject }) => void seen.push(subject) });
    await build.flush();
    // With every right in its account, more than the document gives.
    for (const attacker of [await connectAs('claude-1', 'change-me-too'), await connectAs('all-of-claude-1', 'all')]) {
      const rollup = headers();
      rollup.set('Nats-Rollup', 'all');
      const targets = [
        'a2a.agent.codex-1.task.t.events',
        'a2a.agent.codex-1.announce',
        'a2a.pool.reviewers.dispatch',
        '$KV.a2a_tasks_main.t',
        '$KV.a2a_leases.t',
        '$KV.a2a_journal.t',
        '$KV.a2a_profiles.codex-1',
        '$KV.a2a_discovery.codex-1.card',
        '$KV.a2a_orchestrators.main',
        '$JS.API.STREAM.PURGE.KV_a2a_tasks_main',
      ];
      const requests = [
        '$JS.API.STREAM.INFO.KV_a2a_leases',
        '$JS.API.STREAM.MSG.GET.KV_a2a_leases',
        '$JS.API.CONSUMER.INFO.A2A_DISPATCH.agent-claude-1',
        '$JS.API.CONSUMER.MSG.NEXT.A2A_DISPATCH.agent-claude-1',
        '$JS.ACK.A2A_DISPATCH.agent-claude-1.1.1.1.1.0',
        'a2a.agent.claude-1.task.own.events',
        '$KV.a2a_profiles.claude-1',
      ];
      for (const target of targets) {
        attacker.publish(target, 'forged', { headers: rollup });
        for (const request of requests) attacker.publish(request, '', { reply: target });
      }
      await attacker.flush();
    }
    await build.flush();
    const after = await lastOf(build);
    // The orchestrator renews its leader lease meanwhile.
    for (const last of [before, after]) delete last.KV_a2a_orchestrators;
    assert.deepEqual(after, before);
    assert.deepEqual(
      seen.filter((subject) => subject !== '$KV.a2a_orchestrators.main'),
      [],
    );
    assert.equal((await store.get('t'))?.record.task_id, 't');
    assert.deepEqual(
      [...events.peers.keys()].filter((id) => id !== 'claude-1'),
      [],
    );
  });

  natsTest('an account speaks for its own workers only', async (context, installed) => {
    const { fleet, events, connectAs } = await start(context, installed);
    const inAccount = { env, auth: { user: 'all-of-claude-1', passwordEnv: 'ALL' } };
    const inBuild = { env, auth: { user: 'all-of-build', passwordEnv: 'ALL' } };
    // Another name in the account, and the name of its worker in another account.
    await fleet.worker(new ScriptedWorker({ agentId: 'codex-1' }), inAccount);
    await fleet.worker(new ScriptedWorker({ agentId: 'claude-1' }), inBuild);
    const attacker = await connectAs('all-of-claude-1', 'all');
    const result = JSON.stringify({
      type: 'TASK_RESULT',
      protocol_version: '2.0',
      task_id: 't',
      status: 'done',
      tokens_spent: 0,
    });
    attacker.publish('a2a.agent.codex-1.task.t.events', result);
    attacker.publish('a2a.agent.codex-1.dead', '{}');
    const lease = { task_id: 't', agent: 'codex-1', incarnation: 'i', attempt: 1, ttl_s: 45, renewed: 1 };
    attacker.publish('$KV.a2a_leases.t', JSON.stringify(lease));
    const advisory = '$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.A2A_DISPATCH';
    attacker.publish(`${advisory}.agent-codex-1`, JSON.stringify({ stream_seq: 1, deliveries: 5 }));
    attacker.publish(`${advisory}.pool-reviewers`, JSON.stringify({ stream_seq: 1, deliveries: 5 }));
    attacker.publish('a2a.agent.claude-1.task.t.events', result);
    await attacker.flush();
    // The last one is its own, and comes after the others.
    await events.until(() => events.results('t').length > 0, 'its own result');
    assert.deepEqual([...new Set(events.heard.map(({ peerId }) => peerId))], ['claude-1']);
    assert.equal(events.results('t').length, 1);
    assert.deepEqual(
      events.comings.filter((coming) => coming.startsWith('joined')),
      [],
    );
    await events.until(() => events.oddities.length >= 5, 'the others to be counted');
  });

  natsTest('the accounts of fleet.yaml are opened, and a wrong password is named', async (context, installed) => {
    const server = await NatsServer.start(context, installed, { config: documented() });
    const folder = server.file('fleet');
    mkdirSync(folder);
    const file = join(folder, 'fleet.yaml');
    const page = readFileSync(join(import.meta.dirname, '../../../docs/nats.md'), 'utf8');
    const settings = /```yaml\n(bus: \S+\nnats:[^`]*accounts:[^`]*)```/.exec(page)?.[1];
    assert.ok(settings !== undefined, 'docs/nats.md has the settings');
    writeFileSync(file, `name: main\ndata_dir: .\n${settings.replace('nats://10.0.0.5:4222', server.url)}`);
    const variables = { NATS_PASSWORD: 'change-me' };
    const open = async (password: string) => {
      writeFileSync(join(folder, 'claude-1.password'), password);
      const parts = await fleetNats(await loadFleetConfig(file, { env: variables }), { log, env: variables });
      assert.ok(parts !== undefined);
      return parts;
    };
    const refused = await open('wrong');
    await assert.rejects(refused.bus.start(new PeerRecorder()), (error: Error & { readonly code: string }) => {
      assert.equal(error.code, 'auth_failed');
      assert.match(error.message, /the NATS account of claude-1: .*orchestrator-claude-1.*claude-1\.password/);
      return true;
    });
    await refused.close();
    const parts = await open('change-me-as-well');
    const events = new PeerRecorder();
    await parts.bus.start(events);
    const worker = new ScriptedWorker({ agentId: 'claude-1' });
    const joined = joinNats(worker, {
      servers: server.url,
      log,
      env,
      auth: { user: 'all-of-claude-1', passwordEnv: 'ALL' },
    });
    try {
      await joined.accepted;
      await (await events.peer('claude-1')).send(aDispatch('own'), { mode: 'structured' });
      await events.until(() => events.results('own').length === 1, 'the result');
    } finally {
      await joined.close();
      await parts.bus.close();
      await parts.close();
    }
    assert.equal((await parts.bus.closed)?.code, undefined);
  });

  natsTest('an account that its worker has damaged does not stop the others', async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed, { config: documented() });
    const servers = fleet.server.url;
    const all = await connect({ servers, user: 'all-of-claude-1', pass: 'all' });
    context.after(() => all.close());
    const manager = await jetstreamManager(all);
    await manager.streams.add({ name: 'TAKES_THE_SUBJECTS', subjects: ['a2a.agent.*.task.*.events'] });
    const leadership = await acquireLeadership({ servers, name: 'main', log, ...asOrchestrator });
    fleet.onEnd(() => leadership.close());
    const accounts = [{ workers: ['claude-1'], auth: ofAccount.auth }];
    const bus = accountBuses({ servers, name: 'main', log, ...asOrchestrator, leadership }, accounts);
    fleet.onEnd(() => bus.close());
    const events = new PeerRecorder();
    await bus.start(events);
    // A worker of another account works meanwhile.
    const inBuild = { env, auth: { user: 'all-of-build', passwordEnv: 'ALL' } };
    await fleet.worker(new ScriptedWorker({ agentId: 'trusted' }), inBuild);
    await (await events.peer('trusted')).send(aDispatch('other'), { mode: 'structured' });
    await events.until(() => events.results('other').length === 1, 'the other result');
    // Once the operator has mended it, the account is opened, and its worker works.
    await manager.streams.delete('TAKES_THE_SUBJECTS');
    const inAccount = { env, auth: { user: 'all-of-claude-1', passwordEnv: 'ALL' } };
    await fleet.worker(new ScriptedWorker({ agentId: 'claude-1' }), inAccount);
    await (await events.peer('claude-1')).send(aDispatch('own'), { mode: 'structured' });
    await events.until(() => events.results('own').length === 1, 'the result');
  });

  natsTest('the users of the document may not publish beyond their part', async (context, installed) => {
    const { fleet, connectAs } = await start(context, installed);
    /** Publishes as a user; resolves when the server has refused every one of these subjects. */
    const isRefused = async (user: string, pass: string, subjects: readonly string[]) => {
      const connection = await connectAs(user, pass);
      const refused: string[] = [];
      void (async () => {
        for await (const status of connection.status()) if (status.type === 'error') refused.push(status.error.message);
      })();
      const sees = async (all: readonly string[]): Promise<void> => {
        const missing = () => all.filter((subject) => !refused.some((message) => message.includes(`"${subject}"`)));
        await fleet.until(async () => missing().length === 0, `the refusal of ${all.join(', ')}`);
      };
      for (const subject of subjects) connection.publish(subject, '{}');
      await sees(subjects);
      const read = ['a2a.agent.codex-1.task.*.control', 'a2a.agent.*.task.*.events', 'a2a.>', '$KV.>'];
      for (const subject of read) connection.subscribe(subject, { callback: () => {} });
      await sees(read);
      return connection;
    };
    const connection = await isRefused('claude-1', env.WORKER, [
      'a2a.agent.codex-1.task.t.events',
      'a2a.agent.claude-1.dispatch',
      'a2a.pool.reviewers.dispatch',
      '$KV.a2a_profiles.codex-1',
      '$KV.a2a_orchestrators.main',
      '$KV.a2a_tasks_main.t',
      '$KV.a2a_discovery.codex-1.card',
      'a2a.agent.codex-1.announce',
      'a2a.agent.codex-1.task.t.control',
      '$JS.API.STREAM.DELETE.A2A_EVENTS',
      '$JS.API.STREAM.MSG.GET.A2A_DISPATCH',
      '$JS.API.CONSUMER.MSG.NEXT.A2A_DISPATCH.agent-codex-1',
    ]);
    const ofWorkers = [
      'a2a.agent.claude-1.task.t.events',
      '$KV.a2a_profiles.claude-1',
      '$KV.a2a_leases.t',
      '$KV.a2a_journal.t',
    ];
    const ofOthers = ['$KV.a2a_orchestrators.other', '$KV.a2a_tasks_other.t'];
    await isRefused('orchestrator', env.ORCHESTRATOR, [...ofWorkers, ...ofOthers]);
    await isRefused('orchestrator-claude-1', env.OF_ACCOUNT, [...ofWorkers, ...ofOthers, 'a2a.agent.codex-1.dispatch']);
    const manager = await jetstreamManager(connection, { checkAPI: false, timeout: 500 });
    const spy = { durable_name: 'spy', filter_subject: 'a2a.agent.codex-1.dispatch' };
    await assert.rejects(manager.consumers.add('A2A_DISPATCH', spy));
  });
});
