/**
 * A real orchestrator and real workers over every bus of this folder at once, and a receiver that knows nothing but text in
 * the same fleet.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { httpPeerBus } from '../../../src/fleet/bus/http/orchestrator-bus.ts';
import { httpReceiver } from '../../../src/fleet/bus/http/worker-server.ts';
import { inProcessBus } from '../../../src/fleet/bus/in-process.ts';
import { listenHttp } from '../../../src/fleet/bus/plain/http-listener.ts';
import { joinOverLink } from '../../../src/fleet/bus/stream/join.ts';
import { streamBus } from '../../../src/fleet/bus/stream/stream-bus.ts';
import { functionExecutor } from '../../../src/fleet/executors/function.ts';
import { createOrchestrator } from '../../../src/fleet/orchestrator/orchestrator.ts';
import { memoryTaskStore } from '../../../src/fleet/orchestrator/store-memory.ts';
import { createWorker, type Worker } from '../../../src/fleet/worker/worker.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { connectTcp, listenTcp } from '../../../src/transport/socket.ts';
import { within } from '../../contract/recorder.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { quiet } from '../support/stream-links.ts';
import { resultBlock, taskIdIn, UpstreamReceiver } from '../support/upstream-receiver.ts';

async function aWorker(context: TestContext, agentId: string): Promise<Worker> {
  const folder = temporaryFolder(context);
  const executor = functionExecutor({
    run: ({ taskId }) => ({
      text: `By ${agentId}. ${resultBlock({ task_id: taskId, status: 'done' })}`,
      usage: { source: 'measured', input: 3, output: 4 },
    }),
  });
  const worker = await createWorker({ agentId, executor, cwd: folder, home: `${folder}/home`, tools: [], log: quiet });
  await worker.start();
  return worker;
}

test('tasks go over every bus, each is done once, and its result comes from its worker', async (context) => {
  const [local, linked, served] = (await Promise.all(
    ['local', 'linked', 'served'].map((agentId) => aWorker(context, agentId)),
  )) as [Worker, Worker, Worker];

  const stream = streamBus({ name: 'orchestrator', log: quiet });
  const links = await listenTcp({ port: 0 }, (link) => stream.accept(link));

  let url = '';
  const receiver = httpReceiver({ worker: served, repoPath: '/repo', url: () => url, log: quiet });
  const port = await listenHttp({ port: 0, hasTokens: false, handle: (...pair) => receiver.handle(...pair) });
  url = port.address;
  const upstream = await new UpstreamReceiver({
    agent: (prompt) => `By upstream. ${resultBlock({ task_id: taskIdIn(prompt), status: 'done', tokens_spent: 5 })}`,
  }).listen();
  const http = httpPeerBus({
    name: 'orchestrator',
    peers: [
      { name: 'served', url },
      { name: 'upstream', url: upstream.url },
    ],
    log: quiet,
  });

  const orchestrator = createOrchestrator({
    name: 'orchestrator',
    store: memoryTaskStore(),
    journal: memoryJournal(),
    buses: [inProcessBus([local]), stream, http],
    log: quiet,
  });
  await orchestrator.start();
  const membership = joinOverLink(linked, () => connectTcp(links.address), { log: quiet });
  context.after(async () => {
    await Promise.all([local, linked, served].map((worker) => worker.close()));
    await membership.close();
    await orchestrator.close();
    receiver.close();
    await Promise.all([port.close(), links.close(), upstream.close()]);
  });

  const names = ['local', 'linked', 'served', 'upstream'];
  const tasks = await orchestrator.submitBatch(
    names.flatMap((worker) =>
      [1, 2, 3].map((number) => ({ task_id: `${worker}-${number}`, brief: 'do it', worker, access: 'read' as const })),
    ),
  );
  const results = await within(
    Promise.all(tasks.map(({ task_id }) => orchestrator.result(task_id, AbortSignal.timeout(60_000)))),
    'all results',
  );
  for (const { record, result } of results) {
    assert.equal(record.state, 'done', `${record.task_id}: ${record.dead_letter}`);
    assert.equal(record.attempt, 1);
    assert.equal(record.worker, record.spec.worker);
    assert.match(result?.prose ?? '', new RegExp(`By ${record.worker}`));
    assert.equal(result?.usage?.source, record.worker === 'upstream' ? 'claimed' : 'measured');
  }
  const modes = new Map(orchestrator.workers().map(({ peer_id, mode }) => [peer_id, mode]));
  assert.deepEqual(
    names.map((name) => modes.get(name)),
    ['structured', 'structured', 'structured', 'inline'],
  );
});
