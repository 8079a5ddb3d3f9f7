/**
 * A fleet out of its file, in this process: the effects of its settings.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FleetClient } from '../../../src/bridge/fleet-client.ts';
import { loadConfig } from '../../../src/config/config.ts';
import { loadFleetConfig } from '../../../src/config/fleet-config.ts';
import { connect } from '../../../src/control.ts';
import type { Orchestrator } from '../../../src/fleet/orchestrator/orchestrator-options.ts';
import { serve } from '../../../src/server/serve.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

const WORKER = 'workers: [{ id: w, executor: rehearsal, overhead_tokens: 0 }]\n';

/** Starts the orchestrator of this file, with a worker. */
async function fleet(
  t: TestContext,
  yaml: string,
): Promise<{ orchestrator: Orchestrator; data: string; url: string; token: string }> {
  const folder = temporaryFolder(t);
  const surroundings = { cwd: folder, env: { HANDFAST_HOME: join(folder, 'home') } };
  writeFileSync(join(folder, 'handfast.yaml'), '');
  writeFileSync(join(folder, 'fleet.yaml'), `data_dir: data\nlisten: http://127.0.0.1:0\n${WORKER}${yaml}`);
  const config = await loadFleetConfig('fleet.yaml', surroundings);
  const host = await loadConfig('handfast.yaml', surroundings);
  const control = { ...host.control, enabled: true, dataDir: join(config.dataDir, 'sessions') };
  const server = await serve({ ...host, listen: config.listen, control }, { fleet: config, announce: false });
  t.after(() => server.close(0));
  assert.ok(server.fleet !== undefined);
  return {
    orchestrator: server.fleet.orchestrator,
    data: config.dataDir,
    url: server.listeners[0] as string,
    token: readFileSync(join(folder, 'home', 'token'), 'utf8').trim(),
  };
}

const impossible = { brief: 'look it up', required_mcp: ['nobody_has_it'] };
const soon = () => AbortSignal.timeout(60_000);

test('a fleet that waits for no workers parks at once what none of them can do', async (t) => {
  const { orchestrator, data } = await fleet(t, 'join_grace_s: 0\n');
  const { task_id } = await orchestrator.submit(impossible);
  const { record } = await orchestrator.result(task_id, soon());
  assert.deepEqual([record.state, record.parked], ['blocked', true]);
  assert.ok(existsSync(join(data, 'tasks.db')), 'tasks are kept in its folder');
});

test('a fleet that waits for workers keeps what they may still be able to do', async (t) => {
  const { orchestrator } = await fleet(t, 'join_grace_s: 3600\n');
  const { task_id } = await orchestrator.submit(impossible);
  await assert.rejects(orchestrator.result(task_id, AbortSignal.timeout(100)), { name: 'TimeoutError' });
  assert.equal((await orchestrator.get(task_id)).state, 'queued');
});

test('more tasks than requests in flight are awaited on one connection, and it still serves others', async (t) => {
  const { orchestrator, url, token } = await fleet(t, 'join_grace_s: 3600\n');
  const control = await connect(url.replace('http:', 'ws:'), { clientName: 'waits', token });
  t.after(() => control.close());
  const client = new FleetClient(control);
  // Above the requests of a connection in flight (256), and above those that wait at once (1,000).
  const tasks = await orchestrator.submitBatch(Array.from({ length: 1_100 }, () => impossible));
  const raw = tasks.slice(0, 300).map(({ task_id }) => control.call('fleet.task.result', { task_id, wait_ms: 30_000 }));
  const ends = tasks.map(({ task_id }) => client.ended(task_id, soon()));
  const followed = client.follow(tasks[0]?.task_id as string, { signal: soon() }).next();
  assert.equal((await client.status()).counts.queued, tasks.length);
  assert.equal((await client.get(tasks[0]?.task_id as string)).state, 'queued');
  await followed;
  await Promise.all(tasks.map(({ task_id }) => orchestrator.cancel(task_id)));
  assert.deepEqual(new Set((await Promise.all(ends)).map(({ state }) => state)), new Set(['canceled']));
  for (const reply of await Promise.all(raw)) assert.equal((reply as { ended: boolean }).ended, true);
});
