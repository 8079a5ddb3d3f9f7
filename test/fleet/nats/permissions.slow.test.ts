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

    const { user, password } = { user: 'claude-1', password: env.WORKER };
    const connection = await connect({
      servers: fleet.server.url,
      user,
      pass: password,
      inboxPrefix: '_INBOX_claude-1',
    });
    context.after(() => connection.close());
    const refused: string[] = [];
    void (async () => {
      for await (const status of connection.status()) if (status.type === 'error') refused.push(status.error.message);
    })();
    const forbidden = [
      'a2a.agent.codex-1.task.t.events',
      'a2a.agent.claude-1.dispatch',
      'a2a.pool.reviewers.dispatch',
      '$KV.a2a_profiles.codex-1',
      '$KV.a2a_orchestrators.main',
      '$KV.a2a_tasks_main.t',
      '$JS.API.STREAM.DELETE.A2A_EVENTS',
    ];
    for (const subject of forbidden) connection.publish(subject, '{}');
    await fleet.until(async () => refused.length === forbidden.length, 'all to be refused');
    const manager = await jetstreamManager(connection, { checkAPI: false, timeout: 500 });
    const spy = { durable_name: 'spy', filter_subject: 'a2a.agent.codex-1.dispatch' };
    await assert.rejects(manager.consumers.add('A2A_DISPATCH', spy));
  },
);
