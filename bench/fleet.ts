/**
 * `npm run bench:fleet`: the cost of the fleet itself. No-op tasks through the real orchestrator, its SQLite store with
 * group commit, the in-process bus and real workers with their journals on disk; beside it the same disk with commits
 * alone, since they bound everything durable.
 *
 *   npm run bench:fleet -- [--tasks N] [--rounds N] [--workers N] [--queue]
 *
 * Each worker has its own journal on the same disk; with `--queue` workers reply from memory, and the measurement is
 * that of the orchestrator with its durable queue.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { parseArgs } from 'node:util';
import { inProcessBus } from '../src/fleet/bus/in-process.ts';
import { functionExecutor } from '../src/fleet/executors/function.ts';
import { createOrchestrator } from '../src/fleet/orchestrator/orchestrator.ts';
import { sqliteTaskStore } from '../src/fleet/orchestrator/store-sqlite.ts';
import { createWorker, type Worker } from '../src/fleet/worker/worker.ts';
import { memoryJournal } from '../src/journal/memory.ts';
import { ScriptedWorker } from '../test/fleet/support/scripted-worker.ts';

const { values } = parseArgs({
  options: {
    tasks: { type: 'string', default: '10000' },
    rounds: { type: 'string', default: '5' },
    workers: { type: 'string', default: '1' },
    queue: { type: 'boolean', default: false },
  },
});
const TASKS = Number(values.tasks);
const ROUNDS = Number(values.rounds);
const WORKERS = Number(values.workers);
const quiet = { debug() {}, info() {}, warn() {}, error() {} };

const median = (numbers: readonly number[]): number => numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? 0;

/** Returns the synced commits a second of this disk, one at a time. */
function commitsPerSecond(folder: string): number {
  const database = new DatabaseSync(join(folder, 'commits.db'));
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (a TEXT)');
  const insert = database.prepare('INSERT INTO t VALUES (?)');
  const began = performance.now();
  let commits = 0;
  for (; performance.now() - began < 500; commits += 1) insert.run('x'.repeat(200));
  database.close();
  return (commits / (performance.now() - began)) * 1000;
}

interface Round {
  readonly tasksPerSecond: number;
  /** Submitted and on disk to started, milliseconds, one task at a time and 64 in flight. */
  readonly startP50: number;
  readonly startP50Busy: number;
  readonly commits: number;
}

/** Returns a worker that is done as soon as it begins, and stores nothing. */
function inMemory(n: number, began: (taskId: string) => void): ScriptedWorker {
  return new ScriptedWorker({
    agentId: `w${n}`,
    maxConcurrent: 256,
    resultOf({ task_id }) {
      began(task_id);
      return {};
    },
  });
}

/** Returns a real worker with its journal. */
async function onDisk(n: number, folder: string, began: (taskId: string) => void): Promise<Worker> {
  const worker = await createWorker({
    agentId: `w${n}`,
    cwd: folder,
    home: join(folder, `w${n}`),
    tools: [],
    maxConcurrent: 256,
    executor: functionExecutor({
      run: ({ taskId }) => {
        began(taskId);
        return `\`\`\`json\n{"type":"TASK_RESULT","protocol_version":"2.0","task_id":"${taskId}","status":"done"}\n\`\`\``;
      },
    }),
    log: quiet,
  });
  await worker.start();
  return worker;
}

async function round(): Promise<Round> {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-bench-fleet-'));
  try {
    const commits = commitsPerSecond(folder);
    const startedAt = new Map<string, number>();
    const began = (taskId: string) => startedAt.set(taskId, performance.now());
    const workers = await Promise.all(
      Array.from({ length: WORKERS }, (_, n) => (values.queue ? inMemory(n, began) : onDisk(n, folder, began))),
    );
    const orchestrator = createOrchestrator({
      name: 'bench',
      store: await sqliteTaskStore({ file: join(folder, 'tasks.db') }),
      journal: memoryJournal(),
      buses: [inProcessBus(workers)],
      log: quiet,
    });
    await orchestrator.start();
    const submitted = performance.now();
    const tasks = await orchestrator.submitBatch(
      Array.from({ length: TASKS }, () => ({
        brief: 'nothing',
        reply_schema: 'json' as const,
        access: 'read' as const,
      })),
    );
    await Promise.all(tasks.map(({ task_id }) => orchestrator.result(task_id)));
    const tasksPerSecond = (TASKS / (performance.now() - submitted)) * 1000;
    startedAt.clear();
    const starts = async (count: number, inFlight: number): Promise<number> => {
      const waits: number[] = [];
      let left = count;
      const one = async (): Promise<void> => {
        for (; left > 0; left -= 1) {
          const { task_id } = await orchestrator.submit({ brief: 'nothing', reply_schema: 'json', access: 'read' });
          // The row is on disk and the task on its way when submit has resolved.
          const sent = performance.now();
          await orchestrator.result(task_id);
          waits.push(Math.max(0, (startedAt.get(task_id) ?? Number.NaN) - sent));
        }
      };
      await Promise.all(Array.from({ length: inFlight }, one));
      return median(waits);
    };
    const startP50 = await starts(200, 1);
    const startP50Busy = await starts(5000, 64);
    await orchestrator.close();
    await Promise.all(workers.map((worker) => worker.close()));
    return { tasksPerSecond, startP50, startP50Busy, commits };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Workers that answer from memory have begun before `submit` resolves. */
const startFigures = ({ startP50, startP50Busy }: Pick<Round, 'startP50' | 'startP50Busy'>): string =>
  values.queue ? '' : `, start p50 ${startP50.toFixed(2)} ms, with 64 in flight ${startP50Busy.toFixed(2)} ms`;

// A fleet runs for days: the first round is not counted.
await round();
const rounds: Round[] = [];
for (let n = 0; n < ROUNDS; n += 1) {
  const one = await round();
  rounds.push(one);
  const { tasksPerSecond, commits } = one;
  console.log(
    `round ${n + 1}: ${tasksPerSecond.toFixed(0)} tasks/s${startFigures(one)}, disk ${commits.toFixed(0)} commits/s`,
  );
}
const of = (which: keyof Round): number => median(rounds.map((one) => one[which]));
const perCommit = (of('tasksPerSecond') / of('commits')).toFixed(2);
const medians = { startP50: of('startP50'), startP50Busy: of('startP50Busy') };
console.log(
  `median: ${of('tasksPerSecond').toFixed(0)} tasks/s (${perCommit} × single commits)${startFigures(medians)}`,
);
