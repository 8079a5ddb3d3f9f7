/**
 * State that survives a worker: its journal, unaccepted results, and its reports about tasks that were running when it died.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { open, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { setTimeout, setImmediate as turn } from 'node:timers/promises';
import { SqliteWorkerJournal } from '../../../src/fleet/worker/journal-sqlite.ts';
import { endGroup, identityOf } from '../../../src/fleet/worker/process-identity.ts';
import { gitRepository } from '../../../src/fleet/worker/repository/git.ts';
import { createWorker } from '../../../src/fleet/worker/worker.ts';
import { repository } from '../support/git-repository.ts';
import { aborted, block, scriptedExecutor } from '../support/scripted-executor.ts';
import { bench, Desk, dispatch, folder, silent } from '../support/worker-bench.ts';

/** Returns the number of transactions in a log of SQLite: the last frame of each has the size of the file in it. */
function commitsIn(log: Buffer): number {
  const [headerBytes, frameBytes] = [32, 24 + (log.length === 0 ? 0 : log.readUInt32BE(8))];
  let commits = 0;
  for (let at = headerBytes; at + frameBytes <= log.length; at += frameBytes) {
    if (log.readUInt32BE(at + 4) > 0) commits += 1;
  }
  return commits;
}

const about = { context_id: 'c-1', access: 'write' } as const;
const task = (taskId: string, attempt = 1, crashes = 0) => ({
  taskId,
  attempt,
  crashes,
  digest: dispatch(taskId).digest,
  outlet: 'desk',
  about,
});
const result = (task_id: string) =>
  ({ type: 'TASK_RESULT', protocol_version: '2.0', task_id, status: 'done' }) as const;

test('what the journal promised is there when it is opened again', async (t) => {
  const home = await folder(t);
  const first = new SqliteWorkerJournal(home, Date.now);
  await Promise.all([first.accept(task('t-1')), first.accept(task('t-2')), first.accept(task('t-3'))]);
  await first.start('t-2', 1, { ...about, cwd: '/x' });
  await first.end('t-3', 1, result('t-3'));
  first.close();
  first.close();
  const again = new SqliteWorkerJournal(home, Date.now);
  assert.deepEqual(
    again.unfinished().map(({ taskId, state }) => [taskId, state]),
    [
      ['t-1', 'accepted'],
      ['t-2', 'started'],
    ],
  );
  assert.equal(again.find('t-2')?.about.cwd, '/x');
  assert.deepEqual(again.undelivered(), [{ taskId: 't-3', attempt: 1, outlet: 'desk' }]);
  again.delivered('t-3', 1);
  again.close();
  const third = new SqliteWorkerJournal(home, Date.now);
  assert.deepEqual(third.undelivered(), []);
  assert.equal(third.find('t-3')?.result?.status, 'done', 'stored for the next query');
  third.close();
});

test('many writes of one moment are one commit', async (t) => {
  const home = await folder(t);
  const journal = new SqliteWorkerJournal(home, Date.now);
  const log = join(home, 'worker.db-wal');
  const before = commitsIn(await readFile(log));
  await Promise.all(Array.from({ length: 2000 }, (_, number) => journal.accept(task(`t-${number}`))));
  assert.equal(commitsIn(await readFile(log)) - before, 1);
  assert.equal(journal.unfinished().length, 2000);
  journal.close();
});

test('old results that were taken are forgotten, those that were not never', async (t) => {
  let now = 0;
  const journal = new SqliteWorkerJournal(
    await folder(t),
    () => now,
    () => now,
  );
  await Promise.all([journal.accept(task('taken')), journal.accept(task('waiting'))]);
  await Promise.all([journal.end('taken', 1, result('taken')), journal.end('waiting', 1, result('waiting'))]);
  journal.delivered('taken', 1);
  now += 8 * 24 * 3600 * 1000;
  const later = Array.from({ length: 500 }, (_, number) => task(`t-${number}`));
  await Promise.all(later.map((one) => journal.accept(one)));
  await Promise.all(later.map(({ taskId }) => journal.end(taskId, 1, result(taskId))));
  assert.equal(journal.find('taken'), undefined);
  assert.equal(journal.find('waiting')?.result?.status, 'done');
  journal.close();
});

test('a damaged journal is set aside and said so; the worker works', async (t) => {
  const home = await folder(t);
  const journal = new SqliteWorkerJournal(home, Date.now);
  await journal.accept(task('t-1'));
  journal.close();
  const file = await open(join(home, 'worker.db'), 'r+');
  await file.write(Buffer.alloc(4096, 7), 0, 4096, 0);
  await file.close();
  const said: string[] = [];
  const log = { ...silent, error: (message: string) => void said.push(message) };
  const made = await bench(t, { home, cwd: await folder(t), log });
  assert.match(said[0] ?? '', /damaged and quarantined/);
  assert.ok((await readdir(home)).some((name) => name.includes('.corrupt-')));
  assert.equal((await made.do(dispatch('t-2'))).status, 'done');
  assert.equal((await stat(join(home, 'worker.db'))).mode & 0o077, 0, 'only its owner may read it');
});

test('an unaccepted result is sent again, and after a restart to the orchestrator of that name', async (t) => {
  const home = await folder(t);
  const cwd = await folder(t);
  const first = await bench(t, { home, cwd });
  first.desk.refuses = true;
  await first.give(dispatch('t-1'));
  await first.give(dispatch('t-2'));
  await first.idle();
  first.desk.refuses = false;
  await Promise.all([first.desk.result('t-1'), first.desk.result('t-2')]);
  first.desk.refuses = true;
  await first.give(dispatch('t-3'));
  await first.idle();
  await first.worker.close();

  const again = await bench(t, { home, cwd });
  const other = new Desk('another');
  again.worker.attach(other);
  assert.equal((await again.desk.result('t-3')).status, 'done');
  assert.equal(again.desk.results.length, 1, 'what was taken is not sent again');
  assert.equal(other.results.length, 0);
});

test('a result waits while its outlet is detached, and goes to the one that comes', async (t) => {
  const { worker, ...made } = await bench(t);
  const away = new Desk('away');
  const detach = worker.attach(away);
  const reception = await worker.receive(dispatch('t-1'), away);
  detach();
  away.refuses = true;
  if (reception.kind === 'accepted') reception.start({ fence: 1, ttlS: 45 });
  await made.idle();
  const back = new Desk('away');
  worker.attach(back);
  assert.equal((await back.result('t-1')).status, 'done');
});

test('an acknowledgement that comes as a message ends the sending', async (t) => {
  const { worker, desk, ...made } = await bench(t);
  desk.refuses = true;
  await made.give(dispatch('t-1'));
  await made.idle();
  await worker.handle(
    { type: 'TASK_ACK', protocol_version: '2.0', task_id: 't-1', accepted: true, envelope: { attempt: 1 } },
    desk,
  );
  desk.refuses = false;
  const later = new Desk();
  worker.attach(later);
  await made.give(dispatch('t-2'));
  await later.result('t-2');
  assert.deepEqual(
    later.results.map(({ task_id }) => task_id),
    ['t-2'],
  );
});

test('after a crash: what was begun is an error with what it left, what was not begun is free, and nothing runs by itself', async (t) => {
  const home = await folder(t);
  const cwd = await folder(t);
  const base = await repository(cwd);
  await writeFile(join(cwd, 'half.txt'), 'half');
  const journal = new SqliteWorkerJournal(home, Date.now);
  await Promise.all([journal.accept(task('begun')), journal.accept(task('not-begun'))]);
  await journal.start('begun', 1, { ...about, cwd, base_commit: base });
  journal.close();

  const executor = scriptedExecutor();
  const stamped: string[] = [];
  const markTree: typeof gitRepository.markTree = (folder, known) => {
    stamped.push(folder);
    return gitRepository.markTree(folder, known);
  };
  const { desk, ...made } = await bench(t, { executor, home, cwd }, { repository: { ...gitRepository, markTree } });
  const [begun, free] = await Promise.all([desk.result('begun'), desk.result('not-begun')]);
  assert.deepEqual([begun.status, begun.error_summary], ['error', 'worker restarted during the task']);
  assert.equal(begun.tokens_spent, null, 'unknown is not zero');
  const { base_commit, clean, dirty_files, crashes } = begun.artifacts ?? {};
  assert.deepEqual(
    { base_commit, clean, dirty_files, crashes },
    { base_commit: base, clean: false, dirty_files: ['half.txt'], crashes: 1 },
  );
  assert.deepEqual([free.status, free.blocked?.retryable, free.tokens_spent], ['blocked', true, 0]);
  assert.equal(executor.turns.length, 0);
  assert.deepEqual(stamped, [], 'the report has no use for stamps of the files');
  const replay = await made.give(dispatch('begun'));
  assert.equal(replay.kind === 'replay' && replay.result.error_summary, 'worker restarted during the task');
  assert.equal((await made.give(dispatch('not-begun'))).kind, 'accepted', 'nothing had been begun');
  await desk.until(() => desk.results.find(({ status }) => status === 'done'), 'the task that was free');
});

test('a brief that ends the worker twice is not tried again, at any attempt', async (t) => {
  const home = await folder(t);
  const cwd = await folder(t);
  const crash = async (attempt: number, crashes: number): Promise<void> => {
    const journal = new SqliteWorkerJournal(home, Date.now);
    await journal.accept(task('t-1', attempt, crashes));
    await journal.start('t-1', attempt, about);
    journal.close();
  };
  await crash(1, 0);
  const executor = scriptedExecutor();
  const first = await bench(t, { executor, home, cwd });
  await first.desk.result('t-1');
  const second = await first.worker.receive(dispatch('t-1', { envelope: { attempt: 2 } }), first.desk);
  assert.equal(second.kind, 'accepted', 'the second attempt is taken');
  await first.worker.close();
  await crash(2, 1);
  const { desk, ...again } = await bench(t, { executor, home, cwd });
  const result = await desk.until(
    () => desk.results.find(({ error_summary }) => error_summary === 'crashed the worker twice'),
    'it',
  );
  assert.equal(result.envelope?.attempt, 2);
  const third = await again.give(dispatch('t-1', { envelope: { attempt: 3 } }));
  assert.ok(third.kind === 'replay');
  assert.deepEqual(
    [third.result.status, third.result.error_summary, third.result.tokens_spent],
    ['error', 'crashed the worker twice', 0],
  );
  assert.equal(third.result.envelope?.attempt, 3);
  assert.equal(executor.turns.length, 0);
});

test('what an executor left running is ended with its group, and only when it is provably the same process', async (t) => {
  const home = await folder(t);
  const start = () => {
    const script =
      "require('child_process').spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']); setInterval(() => {}, 1000); console.log('up')";
    const child = spawn(process.execPath, ['-e', script], { detached: true, stdio: ['ignore', 'pipe', 'ignore'] });
    t.after(() => {
      try {
        process.kill(-(child.pid as number), 'SIGKILL');
      } catch {
        // It is gone.
      }
    });
    return child;
  };
  const left = start();
  const stranger = start();
  await Promise.all([once(left.stdout, 'data'), once(stranger.stdout, 'data')]);
  const identity = await identityOf(left.pid as number);
  assert.ok(identity);
  const journal = new SqliteWorkerJournal(home, Date.now);
  await journal.accept(task('t-1'));
  await journal.start('t-1', 1, about);
  // The second number belonged to another process when it was stored.
  journal.processes('t-1', 1, [identity, { pid: stranger.pid as number, started: 'long ago' }]);
  journal.close();
  const exited = once(left, 'exit');
  const worker = await createWorker({
    agentId: 'w',
    executor: scriptedExecutor(),
    cwd: home,
    home,
    tools: [],
    log: silent,
  });
  t.after(() => worker.close());
  await exited;
  assert.ok(await identityOf(stranger.pid as number), 'the stranger lives');
  assert.equal(await endGroup(identity), false, 'there is nothing left to be ended');
});

test('a program an executor starts is written down while it runs', async (t) => {
  const home = await folder(t);
  const executor = scriptedExecutor(async ({ taskId }, { events }) => {
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
    t.after(() => child.kill('SIGKILL'));
    events.started(child.pid as number);
    using file = new DatabaseSync(join(home, 'worker.db'), { readOnly: true });
    const kept = file.prepare("SELECT 1 FROM tasks WHERE processes <> '[]'");
    for (const give = AbortSignal.timeout(20_000); kept.get() === undefined; await turn()) give.throwIfAborted();
    child.kill('SIGKILL');
    return block(taskId);
  });
  const made = await bench(t, { executor, home, cwd: home });
  await made.do(dispatch('t-1'));
  await made.worker.close();
  const journal = new SqliteWorkerJournal(home, Date.now);
  assert.equal(journal.find('t-1')?.processes.length, 1);
  journal.close();
});

test('what a turn costs is measured once and kept', async (t) => {
  const home = await folder(t);
  let measured = 0;
  const executor = scriptedExecutor(undefined, {
    measureOverhead: async () => {
      measured += 1;
      return 12_000;
    },
  });
  for (const _ of [1, 2]) {
    const made = await bench(t, { executor, home, cwd: home, overheadTokens: 'measure' });
    const announce = await made.desk.message('SESSION_ANNOUNCE', ({ worker }) => worker.overhead_tokens != null);
    assert.equal(announce.worker.overhead_tokens, 12_000);
    assert.equal((await made.do(dispatch('t-1', { token_budget: 4000 }))).blocked?.code, 'budget_too_small');
    await made.worker.close();
  }
  assert.equal(measured, 1);
});

test('a worker that stops while it measures leaves no scratch folder', async (t) => {
  const home = await folder(t);
  const started = Promise.withResolvers<string>();
  const executor = scriptedExecutor(undefined, {
    measureOverhead: async ({ cwd, signal }) => {
      started.resolve(cwd);
      await aborted(signal);
      // A program that was sent a signal takes a moment to end.
      await setTimeout(100);
      return null;
    },
  });
  const { worker } = await bench(t, { executor, home, cwd: home, overheadTokens: 'measure' });
  const scratch = await started.promise;
  assert.equal(existsSync(scratch), true);
  await worker.close();
  assert.equal(existsSync(scratch), false);
});

test('an attempt that was accepted before writes were lost may have been started', async (t) => {
  const home = await folder(t);
  const log = join(home, 'worker.db-wal');
  const first = new SqliteWorkerJournal(home, Date.now);
  await first.accept(task('t-1'));
  const { size } = await stat(log);
  await first.start('t-1', 1, about);
  const [file, wal, mark] = await Promise.all(
    ['worker.db', 'worker.db-wal', 'worker.db.mark'].map((name) => readFile(join(home, name))),
  );
  first.close();
  await Promise.all([
    writeFile(join(home, 'worker.db'), file!),
    writeFile(log, wal!.subarray(0, size)),
    writeFile(join(home, 'worker.db.mark'), mark!),
  ]);
  const states = (journal: SqliteWorkerJournal) =>
    journal.unfinished().map(({ taskId, state }) => `${taskId} ${state}`);
  const found = new SqliteWorkerJournal(home, Date.now);
  assert.equal(found.loss?.acknowledged, true);
  assert.deepEqual(states(found), ['t-1 started']);
  found.close();
  // Until an operator has acknowledged the loss, for tasks that were accepted before it.
  const later = new SqliteWorkerJournal(home, () => Date.now() + 1000);
  await later.accept(task('t-2'));
  assert.deepEqual(states(later), ['t-1 started', 't-2 accepted']);
  later.close();
});
