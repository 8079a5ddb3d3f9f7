/** A worker with the permissions `docs/nats.md` gives it: it can work, and send in no other name. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { Bucket } from '../../../src/fleet/bus/nats/bucket.ts';
import { openNats } from '../../../src/fleet/bus/nats/connection.ts';
import { provisionWorker } from '../../../src/fleet/bus/nats/provision.ts';
import { BUCKETS, inboxOf } from '../../../src/fleet/bus/nats/subjects.ts';
import { aDispatch } from '../bus-contract.ts';
import { NatsFleet, PoolWorker } from './fleet.ts';
import { natsTest } from './server.ts';

/** The `authorization` of the document, as a server reads it. */
function documented(): string {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/nats.md'), 'utf8');
  const block = /```conf\n(authorization [\s\S]*?)```/.exec(page)?.[1];
  assert.ok(block !== undefined, 'docs/nats.md has the permissions');
  return block;
}

natsTest(
  'a worker with the documented permissions works, makes no consumers, and cannot speak for another',
  async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed, { config: documented() });
    const env = { ORCHESTRATOR: 'change-me', WORKER: 'change-me-too' };
    const asOperator = { env, auth: { user: 'orchestrator', passwordEnv: 'ORCHESTRATOR' } };
    const asWorker = { env, auth: { user: 'claude-1', passwordEnv: 'WORKER' } };
    const { bus, events } = await fleet.orchestrator(asOperator);
    const worker = new PoolWorker(['reviewers'], { agentId: 'claude-1' });
    // Without consumers made for it, it cannot join, and gets the reason.
    const denied = { ...asWorker, publishTimeoutMs: 10_000 };
    await assert.rejects(fleet.worker(worker, denied), { code: 'unauthorized' });
    await provisionWorker({ servers: fleet.server.url, ...asOperator }, worker);
    await fleet.worker(worker, asWorker);
    const peer = await events.peer('claude-1');
    await peer.send(aDispatch('own'), { mode: 'structured' });
    await bus.offer?.('reviewers', aDispatch('of-the-pool'));
    await peer.send({ type: 'TASK_POLL', protocol_version: '2.0', task_id: 'nothing' }, { mode: 'structured' });
    await events.until(() => events.results().length === 2, 'both results');
    await events.until(() => events.of('TASK_ACK').some(({ state }) => state === 'unknown'), 'the answer to a poll');

    // What it reads where it must know what was decided.
    const inboxPrefix = inboxOf('claude-1');
    const link = await openNats('claude-1', { servers: fleet.server.url, ...asWorker }, { inboxPrefix });
    context.after(() => link.close());
    for (const name of [BUCKETS.profiles, BUCKETS.leases, BUCKETS.journal]) {
      assert.equal(await (await Bucket.open(link, name)).get('nothing'), undefined);
    }

    /** Publishes as a user; resolves when the server has refused every one of these subjects. */
    const isRefused = async (user: string, pass: string, subjects: readonly string[]) => {
      const connection = await connect({ servers: fleet.server.url, user, pass, inboxPrefix: `_INBOX_${user}` });
      context.after(() => connection.close());
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
    await isRefused('orchestrator', env.ORCHESTRATOR, [
      'a2a.agent.claude-1.task.t.events',
      '$KV.a2a_profiles.claude-1',
      '$KV.a2a_leases.t',
      '$KV.a2a_journal.t',
      '$KV.a2a_orchestrators.other',
      '$KV.a2a_tasks_other.t',
    ]);
    const manager = await jetstreamManager(connection, { checkAPI: false, timeout: 500 });
    const spy = { durable_name: 'spy', filter_subject: 'a2a.agent.codex-1.dispatch' };
    await assert.rejects(manager.consumers.add('A2A_DISPATCH', spy));
  },
);
