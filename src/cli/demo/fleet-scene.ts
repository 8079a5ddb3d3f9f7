/** The scene of `handfast demo` with a fleet: a worker whose MCP server is dead gets no task, another does it. */
import { join } from 'node:path';
import { createLog } from '../../base/log.ts';
import { inProcessBus } from '../../fleet/bus/in-process.ts';
import { functionExecutor } from '../../fleet/executors/function.ts';
import { createOrchestrator, createWorker } from '../../fleet/on-demand.ts';
import { memoryTaskStore } from '../../fleet/orchestrator/store-memory.ts';
import { memoryJournal } from '../../journal/memory.ts';
import { requireMcpClient } from '../../mcp/sdk.ts';
import { asError, fail } from '../../wire/errors.ts';
import type { Stage } from './stage.ts';

export async function taskRerouted({ host, folder, say }: Stage): Promise<void> {
  const missing = await requireMcpClient().then(() => undefined, asError);
  if (missing !== undefined) return say('left out', missing.message);
  const log = createLog({ level: 'error' });
  const executor = functionExecutor({ run: () => 'the report is written' });
  const headers = { authorization: `Bearer ${host.token}` };
  const dead = { name: 'files', stdio: { command: process.execPath, args: ['-e', 'process.exit(1)'] } };
  const alive = { name: 'files', http: { url: `${host.address}/mcp`, headers } };
  const worker = (agentId: string, server: typeof dead | typeof alive, modelTier: string) =>
    createWorker({
      agentId,
      executor,
      modelTier,
      tools: [],
      mcpServers: [server],
      cwd: folder,
      home: join(folder, agentId),
      log,
    });
  const workers = [await worker('near', dead, 'sonnet'), await worker('far', alive, 'haiku')];
  const fleet = await createOrchestrator({
    name: 'demo',
    buses: [inProcessBus(workers)],
    store: memoryTaskStore(),
    journal: memoryJournal(),
    log,
  });
  try {
    for (const each of [...workers, fleet]) await each.start();
    const { task_id } = await fleet.submit({
      brief: 'write the report',
      required_mcp: ['files'],
      reply_schema: 'prose',
    });
    const { record } = await fleet.result(task_id);
    if (record.state !== 'done' || record.worker !== 'far') throw fail('runtime_error', `the task is ${record.state}`);
    const reasons = record.explanation?.rejected.near ?? [];
    say('refused', `near: ${reasons.join('; ')}; no token was spent there`);
    say('rerouted', `to ${record.worker}, whose server answers`);
    say('done', `by ${record.worker}: ${record.result?.prose}`);
  } finally {
    await fleet.close();
    for (const each of workers) await each.close();
  }
}
