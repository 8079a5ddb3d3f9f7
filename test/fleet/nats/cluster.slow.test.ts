/**
 * A fleet on a cluster of three servers: the one that decides about its queues, and then the one that decides about its
 * results, is killed in the middle of tasks. None is lost, none is run twice, none is accepted twice.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe } from 'node:test';
import type { JetStreamManager } from '@nats-io/jetstream';
import { joinNats } from '../../../src/fleet/bus/nats/join.ts';
import { acquireLeadership } from '../../../src/fleet/bus/nats/leadership.ts';
import { natsBus } from '../../../src/fleet/bus/nats/orchestrator-bus.ts';
import { natsTaskStore } from '../../../src/fleet/bus/nats/task-store.ts';
import { functionExecutor } from '../../../src/fleet/executors/function.ts';
import { createOrchestrator } from '../../../src/fleet/orchestrator/orchestrator.ts';
import { createWorker } from '../../../src/fleet/worker/worker.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { within } from '../../contract/recorder.ts';
import { record } from '../../contract/task-store.ts';
import { NatsCluster } from './cluster.ts';
import { log } from './fleet.ts';
import { natsTest } from './server.ts';

/** Tasks that are under way at each kill. */
const TASKS = 60;
const WORK_MS = 80;
/** JetStream's answer without a majority of its servers. */
const TEMPORARILY_UNAVAILABLE = 10008;

// They wait more than they work.
describe('a cluster of NATS', { concurrency: 2 }, () => {
  natsTest(
    'tasks outlive the servers that decide about their streams: each runs once, and each has its result once',
    async (context, installed) => {
      const folder = mkdtempSync(join(tmpdir(), 'handfast-cluster-'));
      // The last task of each round ends after its server was killed.
      let killed = Promise.withResolvers<void>();
      const ending: (() => Promise<unknown> | unknown)[] = [() => rmSync(folder, { recursive: true })];
      // Before the servers go: a member that leaves reports it. Each leaves although another could not, and none is waited for
      // without a bound: a worker that stays would dial for ever, and this process with it.
      context.after(async () => {
        killed.resolve();
        const failures: unknown[] = [];
        for (const end of ending.toReversed()) {
          await within(Promise.try(end), 'a member to leave').catch((error) => failures.push(error));
        }
        assert.deepEqual(failures, []);
      });
      const cluster = await NatsCluster.start(context, installed);
      const options = { servers: cluster.urls, name: 'main', log, ackWaitS: 2 };
      const runs = new Map<string, number>();
      for (const agentId of ['one', 'two']) {
        const [cwd, home] = [join(folder, `${agentId}-repository`), join(folder, agentId)];
        for (const each of [cwd, home]) mkdirSync(each);
        const worker = await createWorker({
          agentId,
          executor: functionExecutor({
            async run({ taskId }) {
              runs.set(taskId, (runs.get(taskId) ?? 0) + 1);
              await new Promise((resolve) => setTimeout(resolve, WORK_MS));
              if (taskId.endsWith(`-${TASKS - 1}`)) await killed.promise;
              return { text: 'done', usage: { source: 'measured', input: 3, output: 4 } };
            },
          }),
          cwd,
          home,
          tools: [],
          pools: ['p'],
          maxConcurrent: 4,
          log,
        });
        await worker.start();
        const member = joinNats(worker, options);
        ending.push(async () => {
          await member.close();
          await worker.close();
        });
        await within(member.accepted, 'the worker to be accepted');
      }
      const seat = await acquireLeadership({ ...options, signal: context.signal });
      const store = await natsTaskStore(seat);
      const buses = [natsBus({ ...options, leadership: seat })];
      const orchestrator = createOrchestrator({ name: 'main', store, journal: memoryJournal(), buses, log });
      ending.push(async () => {
        await orchestrator.close();
        await store.close();
        await seat.close();
      });
      await orchestrator.start();
      // Three servers are named, and no number of copies.
      await cluster.until(async (manager) => (await manager.streams.info('A2A_DISPATCH')).config.num_replicas === 3);
      const done = async (): Promise<number> => (await orchestrator.find({ states: ['done'], limit: 1000 })).length;
      let before = 0;
      for (const stream of ['A2A_DISPATCH', 'A2A_EVENTS']) {
        const specs = Array.from({ length: TASKS }, (_, index) => ({
          task_id: `${stream}-${index}`,
          brief: 'do it',
          reply_schema: 'prose' as const,
          ...(index % 3 === 0 && { pool: 'p' }),
        }));
        killed = Promise.withResolvers();
        const leader = await cluster.leader(stream);
        await orchestrator.submitBatch(specs);
        await cluster.until(async () => (await done()) >= before + TASKS / 10);
        await cluster.servers.get(leader)?.kill();
        assert.ok((await done()) < before + TASKS, 'it was killed in the middle');
        killed.resolve();
        await cluster.until(async () => (await done()) === before + TASKS);
        await cluster.servers.get(leader)?.up();
        await cluster.healed();
        before += TASKS;
      }
      assert.deepEqual(
        [...runs].filter(([, times]) => times !== 1),
        [],
      );
      assert.equal(runs.size, before);
      assert.equal(orchestrator.counts().total_ended_done, before, 'each result was accepted once');
      // A dispatch that got lost with its server is abandoned and sent again, as another attempt: no more than one of them
      // runs.
      for (const { task_id, tokens_spent } of await orchestrator.find({ states: ['done'], limit: 1000 })) {
        assert.deepEqual([task_id, tokens_spent], [task_id, 7]);
      }
    },
    { timeout: 600_000 },
  );

  natsTest(
    'a cluster without a majority is waited for',
    async (context, installed) => {
      let leave: () => Promise<void> = async () => {};
      context.after(() => within(leave(), 'the orchestrator to leave'));
      const cluster = await NatsCluster.start(context, installed);
      const seat = await acquireLeadership({
        servers: cluster.urls,
        name: 'main',
        log,
        publishTimeoutMs: 400_000,
        signal: context.signal,
      });
      leave = () => seat.close();
      const store = await natsTaskStore(seat);
      await store.put(record('t', 1), 0);
      const [one, other] = [...cluster.servers.values()];
      await Promise.all([one?.kill(), other?.kill()]);
      const refusing = (manager: JetStreamManager): Promise<boolean> =>
        manager.streams.getMessage('KV_a2a_tasks_main', { last_by_subj: '$KV.a2a_tasks_main.t' }).then(
          () => false,
          (error: { readonly code?: unknown }) => error.code === TEMPORARILY_UNAVAILABLE,
        );
      await cluster.until(refusing);
      const reading = store.get('t');
      let settled = false;
      const over = (): void => {
        settled = true;
      };
      reading.then(over, over);
      await cluster.until(refusing);
      assert.equal(settled, false);
      await Promise.all([one?.up(), other?.up()]);
      assert.equal((await within(reading, 'the record', 180_000))?.record.task_id, 't');
    },
    { timeout: 600_000, only: 'newest' },
  );
});
