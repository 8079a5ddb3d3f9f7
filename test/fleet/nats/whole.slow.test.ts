/**
 * The real orchestrator and real workers on a real server: the parts of a fleet on NATS.
 */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { acquireLeadership } from '../../../src/fleet/bus/nats/leadership.ts';
import { natsBus } from '../../../src/fleet/bus/nats/orchestrator-bus.ts';
import { natsTaskStore } from '../../../src/fleet/bus/nats/task-store.ts';
import { functionExecutor, type TaskFunction } from '../../../src/fleet/executors/function.ts';
import { createOrchestrator } from '../../../src/fleet/orchestrator/orchestrator.ts';
import { createWorker } from '../../../src/fleet/worker/worker.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { log, NatsFleet } from './fleet.ts';
import { natsTest } from './server.ts';

natsTest(
  'a fleet does its tasks through two kills of the server: each runs once, and each has its result',
  async (context, installed) => {
    const fleet = await NatsFleet.start(context, installed);
    fleet.storage = { ackWaitS: 2 };
    const runs = new Map<string, number>();
    const work: TaskFunction = async ({ taskId }, { signal }) => {
      runs.set(taskId, (runs.get(taskId) ?? 0) + 1);
      if (taskId === 'long') await new Promise((resolve) => signal.addEventListener('abort', resolve));
      else await new Promise((resolve) => setTimeout(resolve, 20));
      return { text: `${taskId} is done`, usage: { source: 'measured', input: 3, output: 4 } };
    };
    for (const agentId of ['one', 'two']) {
      const [cwd, home] = [fleet.server.file(`${agentId}-repository`), fleet.server.file(`${agentId}-home`)];
      for (const folder of [cwd, home]) mkdirSync(folder);
      const worker = await createWorker({
        agentId,
        executor: functionExecutor({ run: work }),
        cwd,
        home,
        tools: ['terminal'],
        pools: ['p'],
        maxConcurrent: 4,
        log,
      });
      await worker.start();
      await fleet.worker(worker);
      fleet.onEnd(() => worker.close());
    }
    const servers = fleet.server.url;
    const options = { servers, name: 'main', log, ...fleet.storage };
    const seat = await acquireLeadership(options);
    const store = await natsTaskStore(seat);
    const bus = natsBus({ ...options, leadership: seat });
    const orchestrator = createOrchestrator({ name: 'main', store, journal: memoryJournal(), buses: [bus], log });
    fleet.onEnd(async () => {
      await orchestrator.close();
      await store.close();
      await seat.close();
    });
    await orchestrator.start();
    const specs = Array.from({ length: 120 }, (_, index) => ({
      task_id: `t-${index}`,
      brief: 'do it',
      reply_schema: 'prose' as const,
      ...(index % 3 === 0 && { pool: 'p' }),
    }));
    await orchestrator.submitBatch(specs);
    await orchestrator.submit({ task_id: 'long', brief: 'take your time', reply_schema: 'prose' });
    const ended = async () => (await orchestrator.find({ states: ['done'], limit: 1000 })).length;
    for (const enough of [20, 70]) {
      await fleet.until(async () => (await ended()) >= enough, `${enough} tasks`);
      await fleet.server.kill();
      await fleet.server.up();
    }
    await fleet.until(async () => (await ended()) === specs.length, 'all tasks');
    await fleet.until(async () => runs.has('long'), 'the long one to run');
    await orchestrator.cancel('long', 'long enough');
    const { record } = await orchestrator.result('long', AbortSignal.timeout(60_000));
    assert.equal(record.ended_at !== null, true);
    assert.deepEqual(
      [...runs.values()].filter((times) => times !== 1),
      [],
    );
    assert.equal(runs.size, specs.length + 1);
    for (const { task_id, tokens_spent, attempt } of await orchestrator.find({ states: ['done'], limit: 1000 })) {
      assert.deepEqual([task_id, tokens_spent, attempt], [task_id, 7, 1]);
    }
    assert.deepEqual(
      orchestrator
        .workers()
        .map(({ peer_id }) => peer_id)
        .sort(),
      ['one', 'two'],
    );
  },
);
