/** The simulated journal of a worker keeps the contract of the shipped one: both do the same, step by step. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DiskWriter } from '../../simulation/disk.ts';
import { SimProcess } from '../../simulation/process.ts';
import { Random } from '../../simulation/random.ts';
import { VirtualTime } from '../../simulation/virtual-time.ts';
import { memoryWorkerJournal, WorkerDisk } from '../../simulation/worker-disk.ts';
import type { WorkerJournal } from '../../src/fleet/worker/journal.ts';
import { SqliteWorkerJournal } from '../../src/fleet/worker/journal-sqlite.ts';
import type { TaskResult } from '../../src/protocol/fleet.ts';
import { folder } from '../fleet/support/worker-bench.ts';

const result = (task_id: string, status: TaskResult['status']): TaskResult => ({
  type: 'TASK_RESULT',
  protocol_version: '2.0',
  task_id,
  status,
});
const about = { context_id: null, access: 'write' as const };
const task = (taskId: string, attempt: number) => ({ taskId, attempt, digest: 'd', outlet: 'o', about, crashes: 0 });
const reason = { code: 'busy', detail: 'no', retryable: true, missing: [] };

/** Changes of each step; after each, everything that can be read is compared. */
const STEPS: readonly ((journal: WorkerJournal) => Promise<void> | void)[] = [
  (journal) => journal.accept(task('a', 1)),
  (journal) => journal.accept(task('b', 1)),
  (journal) => journal.start('a', 1, { ...about, cwd: '/x', worktree: true }),
  (journal) => journal.processes('a', 1, [{ pid: 7, started: 's' }]),
  (journal) => journal.end('a', 1, result('a', 'done')),
  (journal) => journal.end('a', 1, result('a', 'error'), 2),
  (journal) => journal.start('a', 1, about),
  (journal) => journal.accept(task('a', 3)),
  (journal) => journal.accept(task('a', 2)),
  (journal) => journal.delivered('a', 1),
  (journal) => journal.delivered('b', 1),
  (journal) => journal.forget('a', 3),
  (journal) => journal.accept({ ...task('b', 1), digest: 'e' }),
  (journal) => journal.end('b', 1, result('b', 'partial'), 1),
  (journal) => journal.decline({ taskId: 'c', attempt: 1, digest: null, reason: null }),
  (journal) => journal.decline({ taskId: 'd', attempt: 2, digest: 'd', reason }),
  (journal) => journal.decline({ taskId: 'c', attempt: 4, digest: 'd', reason }),
  (journal) => journal.storeValue('k', 'v'),
  (journal) => journal.storeValue('k', 'w'),
];

const read = (journal: WorkerJournal) => ({
  latest: ['a', 'b', 'c'].map((taskId) => journal.find(taskId)),
  results: [1, 2, 3].map((attempt) => journal.result('a', attempt)),
  unfinished: journal.unfinished(),
  undelivered: journal.undelivered().map(({ taskId, attempt, outlet }) => ({ taskId, attempt, outlet })),
  declined: journal.declined(),
  worktrees: journal.worktrees(),
  value: journal.value('k'),
});

test('the simulated journal does what the shipped one does', async (t) => {
  const shipped = new SqliteWorkerJournal(await folder(t), () => 0);
  t.after(() => shipped.close());
  const time = new VirtualTime();
  const writer = new DiskWriter(new SimProcess(time), new Random(1));
  const simulated = memoryWorkerJournal(new WorkerDisk(), writer, undefined);
  for (const [number, step] of STEPS.entries()) {
    const written = step(simulated);
    while (time.step());
    await written;
    await step(shipped);
    // Written later, without a promise: the next write is in the same commit or a later one.
    await shipped.forget('nothing', 1);
    assert.deepEqual(read(simulated), read(shipped), `step ${number}`);
  }
});

test('a process that dies never learns of its commit, which may be on the disk all the same', () => {
  const kept = [0, 0];
  for (let seed = 1; seed <= 40; seed += 1) {
    const time = new VirtualTime();
    const process = new SimProcess(time);
    const writer = new DiskWriter(process, new Random(seed));
    const disk = new WorkerDisk();
    const journal = memoryWorkerJournal(disk, writer, undefined);
    let told = false;
    void journal.accept(task('a', 1)).then(() => {
      told = true;
    });
    writer.crash();
    process.kill();
    while (time.step());
    void journal.accept(task('b', 1));
    while (time.step());
    assert.equal(told, false);
    assert.equal(disk.latest('b'), undefined, 'a dead process writes nothing');
    kept[disk.latest('a') === undefined ? 0 : 1]! += 1;
  }
  assert.ok(
    kept.every((count) => count > 5),
    `not on disk ${kept[0]}, on disk ${kept[1]}`,
  );
});
