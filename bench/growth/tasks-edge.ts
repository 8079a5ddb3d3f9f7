/** Tasks of a fleet: the real orchestrator, its store and journal in SQLite, a real worker with its own journal, in one process. */
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { inProcessBus } from '../../src/fleet/bus/in-process.ts';
import { functionExecutor } from '../../src/fleet/executors/function.ts';
import { createOrchestrator } from '../../src/fleet/orchestrator/orchestrator.ts';
import { sqliteTaskStore } from '../../src/fleet/orchestrator/store-sqlite.ts';
import type { TaskQuery } from '../../src/fleet/orchestrator/task.ts';
import { createWorker } from '../../src/fleet/worker/worker.ts';
import { sqliteJournal } from '../../src/journal/sqlite/sqlite.ts';
import { type EdgeKind, inParallel } from './edge.ts';

const IN_FLIGHT = 64;
const log = { debug() {}, info() {}, warn() {}, error() {} };

/** All of these are pages of `task ls`. */
const PAGES: readonly TaskQuery[] = [
  {},
  { before: 100 },
  { states: ['queued', 'reserved', 'sent', 'accepted', 'running', 'blocked', 'lost'] },
  { states: ['error'] },
  { parked: true },
  { worker: 'w' },
  { worker: 'another' },
  { submitter: 'another' },
];

async function elapsed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

export const tasks: EdgeKind = {
  unit: 'a task, submitted, run and ended',
  units: 1_000_000,
  quickUnits: 20_000,
  async open(folder) {
    const worker = await createWorker({
      agentId: 'w',
      cwd: folder,
      home: join(folder, 'w'),
      tools: [],
      maxConcurrent: 256,
      executor: functionExecutor({
        run: ({ taskId }) =>
          `\`\`\`json\n{"type":"TASK_RESULT","protocol_version":"2.0","task_id":"${taskId}","status":"done"}\n\`\`\``,
      }),
      log,
    });
    await worker.start();
    const data = join(folder, 'data');
    mkdirSync(data);
    const open = async (from = data) => {
      const store = await sqliteTaskStore({ file: join(from, 'tasks.db') });
      const journal = await sqliteJournal({ file: join(from, 'events.db'), namesReturn: true, onDamaged() {} });
      const fleet = createOrchestrator({
        name: 'growth',
        store,
        journal,
        buses: [inProcessBus([worker])],
        log,
        // Tasks that retention removes would not be measured.
        maxTasks: Number.MAX_SAFE_INTEGER,
      });
      await fleet.start();
      const close = async (): Promise<void> => {
        await fleet.close();
        await store.close();
        await journal.close();
      };
      return { fleet, close };
    };
    let opened = await open();
    return {
      run: (count) =>
        inParallel(count, IN_FLIGHT, async () => {
          const { fleet } = opened;
          const { task_id } = await fleet.submit({ brief: 'nothing', reply_schema: 'json', access: 'read' });
          await fleet.result(task_id);
        }),
      async finish() {
        let page = 0;
        for (const query of PAGES) page = Math.max(page, await elapsed(() => opened.fleet.find(query)));
        // The state after a kill: the databases with their logs, not closed.
        const killed = join(folder, 'killed');
        cpSync(data, killed, { recursive: true });
        const stop = await elapsed(() => opened.close());
        const start = await elapsed(async () => {
          opened = await open();
        });
        await opened.close();
        const startKilled = await elapsed(async () => {
          opened = await open(killed);
        });
        return { 'slowest page of a list': page, stop, start, 'start after a kill': startKilled };
      },
      async close() {
        await opened.close();
        await worker.close();
      },
    };
  },
};
