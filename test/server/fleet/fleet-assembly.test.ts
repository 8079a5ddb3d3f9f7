/** A fleet out of its file, in this process: what its settings change. */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { loadConfig } from '../../../src/config/config.ts';
import { loadFleetConfig } from '../../../src/config/fleet-config.ts';
import type { Orchestrator } from '../../../src/fleet/orchestrator/orchestrator-options.ts';
import { serve } from '../../../src/server/serve.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

const WORKER = 'workers: [{ id: w, executor: rehearsal, overhead_tokens: 0 }]\n';

/** The orchestrator of this file, with a worker. */
async function fleet(t: TestContext, yaml: string): Promise<{ orchestrator: Orchestrator; data: string }> {
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
  return { orchestrator: server.fleet.orchestrator, data: config.dataDir };
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
