/** The scene of `handfast demo` with a fleet: a worker whose MCP server died refuses its task, and another does it. */
import { join } from 'node:path';
import { createLog } from '../../base/log.ts';
import { sleep } from '../../base/sleep.ts';
import { inProcessBus } from '../../fleet/bus/in-process.ts';
import { functionExecutor } from '../../fleet/executors/function.ts';
import { createOrchestrator, createWorker } from '../../fleet/on-demand.ts';
import type { Orchestrator, WorkerView } from '../../fleet/orchestrator/orchestrator-options.ts';
import { memoryTaskStore } from '../../fleet/orchestrator/store-memory.ts';
import { probeMcpServer } from '../../fleet/worker/mcp-probe.ts';
import { memoryJournal } from '../../journal/memory.ts';
import { requireMcpClient } from '../../mcp/sdk.ts';
import { asError, fail } from '../../wire/errors.ts';
import type { DemoHost } from './demo-host.ts';
import type { Stage } from './stage.ts';

/** Time for a server to reply, and for workers to announce themselves, milliseconds. */
const PATIENCE_MS = 20_000;
const CHECK_MS = 20;

export async function taskRerouted({ host, folder, another, say }: Stage): Promise<void> {
  const missing = await requireMcpClient().then(() => undefined, asError);
  if (missing !== undefined) return say('left out', missing.message);
  const log = createLog({ level: 'error' });
  const executor = functionExecutor({ run: () => 'the report is written' });
  const worker = async (agentId: string, { address, token }: DemoHost, modelTier: string) => {
    const server = { name: 'files', http: { url: `${address}/mcp`, headers: { authorization: `Bearer ${token}` } } };
    // A host that has just started is slower than a worker waits when it looks at its servers.
    const { health, detail } = await probeMcpServer(server, { cwd: folder, timeoutMs: PATIENCE_MS });
    if (health !== 'ok') throw fail('unreachable', `the MCP server of ${agentId} is ${health}: ${detail}`);
    return createWorker({
      agentId,
      executor,
      modelTier,
      tools: [],
      mcpServers: [server],
      // It looks at its server before it takes a task.
      mcpAgeMs: 0,
      cwd: folder,
      home: join(folder, agentId),
      log,
    });
  };
  const server = await another('server-of-near');
  const workers = [await worker('near', server, 'sonnet'), await worker('far', host, 'opus')];
  const fleet = await createOrchestrator({
    name: 'demo',
    buses: [inProcessBus(workers)],
    store: memoryTaskStore(),
    journal: memoryJournal(),
    log,
  });
  try {
    for (const each of [...workers, fleet]) await each.start();
    await announced(fleet, workers.length);
    say('announced', 'near and far: the MCP server "files" is ok at both');
    await server.killed();
    say('killed', 'the server of near; the fleet does not know yet');
    const { task_id } = await fleet.submit({
      brief: 'write the report',
      required_mcp: ['files'],
      reply_schema: 'prose',
    });
    const { record } = await fleet.result(task_id);
    const [first] = record.attempts;
    if (record.state !== 'done' || record.worker !== 'far' || first?.worker !== 'near')
      throw fail('runtime_error', `the task is ${record.state}, by ${record.worker ?? 'no worker'}`);
    say('refused', `by near: ${first.reason ?? first.outcome}; ${first.tokens_spent} tokens were spent there`);
    say('rerouted', `to ${record.worker}, whose server answers`);
    say('done', `by ${record.worker}: ${record.result?.prose}`);
  } finally {
    await fleet.close();
    for (const each of workers) await each.close();
  }
}

/** Waits until this many workers have announced that their server is alive. Fails with `unreachable`. */
async function announced(fleet: Orchestrator, count: number): Promise<void> {
  const isReady = ({ status, profile }: WorkerView): boolean =>
    status === 'ready' && profile?.mcp_health.get('files') === 'ok';
  for (let left = PATIENCE_MS; left > 0; left -= CHECK_MS) {
    if (fleet.workers().filter(isReady).length === count) return;
    await sleep(CHECK_MS);
  }
  throw fail('unreachable', 'the workers of the demo did not announce themselves; try: handfast doctor');
}
