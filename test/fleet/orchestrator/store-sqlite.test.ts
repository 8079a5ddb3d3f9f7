/**
 * The task store as a file: locked, private, checked, and quarantined when damaged.
 */
// A process of its own: its stores fail, and the failures stay in the process.
import assert from 'node:assert/strict';
import { mkdtemp, open, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { findStatement } from '../../../src/fleet/orchestrator/store-find.ts';
import { sqliteTaskStore } from '../../../src/fleet/orchestrator/store-sqlite.ts';
import type { TaskQuery } from '../../../src/fleet/orchestrator/task.ts';
import { NOW, record } from '../../contract/task-store.ts';

async function place(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'handfast-tasks-'));
  t.after(() => rm(folder, { recursive: true }));
  return join(folder, 'deep', 'tasks.db');
}

test('the file is its owner’s alone, and one process’s at a time', async (t) => {
  const file = await place(t);
  const store = await sqliteTaskStore({ file });
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  await assert.rejects(sqliteTaskStore({ file }), { code: 'journal_locked' });
  await store.close();
  await (await sqliteTaskStore({ file })).close();
});

test('a damaged file is set aside when that is wanted, and left alone otherwise', async (t) => {
  const file = await place(t);
  const store = await sqliteTaskStore({ file });
  for (let n = 1; n <= 50; n += 1) await store.put(record(`t-${n}`, n), 0);
  await store.close();
  const handle = await open(file, 'r+');
  await handle.write(Buffer.alloc(8192, 0x5a), 0, 8192, 4096);
  await handle.close();
  await assert.rejects(sqliteTaskStore({ file }), { code: 'journal_corrupt' });
  let movedTo = '';
  const fresh = await sqliteTaskStore({ file, onCorrupt: (damage) => (movedTo = damage.movedTo) });
  assert.match(movedTo, /corrupt-/);
  assert.equal(await fresh.lastNumber(), 0);
  await fresh.close();
  assert.ok((await readdir(join(file, '..'))).some((name) => name.includes('corrupt')));
});

test('the database of another program, or of a newer version, is not touched', async (t) => {
  const file = await place(t);
  await (await sqliteTaskStore({ file })).close();
  const db = new DatabaseSync(file);
  db.exec('PRAGMA user_version = 99');
  db.close();
  await assert.rejects(sqliteTaskStore({ file }), /newer version/);
  const other = `${file}.other`;
  const foreign = new DatabaseSync(other);
  foreign.exec('CREATE TABLE notes (text TEXT)');
  foreign.close();
  await assert.rejects(sqliteTaskStore({ file: other, onCorrupt: () => assert.fail() }), /another program/);
  await writeFile(`${file}.text`, 'this is no database, whatever its name says'.repeat(100));
  await assert.rejects(sqliteTaskStore({ file: `${file}.text` }), { code: 'journal_corrupt' });
});

test('a file of the version before submitters is taken over, and its tasks have none', async (t) => {
  const file = await place(t);
  const store = await sqliteTaskStore({ file });
  const old = record('old', 1);
  await store.put(old, 0);
  await store.close();
  const db = new DatabaseSync(file);
  for (const trigger of ['added', 'changed', 'removed']) db.exec(`DROP TRIGGER task_${trigger}`);
  db.exec('DROP TABLE usage; ALTER TABLE tasks DROP COLUMN bytes');
  for (const index of ['by_state', 'by_worker', 'by_submitter']) db.exec(`DROP INDEX ended_${index}`);
  db.exec('DROP INDEX parked_tasks');
  db.exec('DROP INDEX submitters; ALTER TABLE tasks DROP COLUMN submitter; PRAGMA user_version = 1');
  db.close();
  const again = await sqliteTaskStore({ file });
  t.after(() => again.close());
  assert.deepEqual((await again.get('old'))?.record, old);
  await again.put(record('new', 2, { submitter: 'ann' }), 0);
  const found = await again.find({ submitter: 'ann' });
  assert.deepEqual(
    found.map(({ task_id }) => task_id),
    ['new'],
  );
  assert.deepEqual(
    (await again.usage?.())?.map(({ submitter, tasks }) => [submitter, tasks]),
    [
      ['', 1],
      ['ann', 1],
    ],
  );
});

test('what the tasks of each submitter take follows every change, and of too many those with more than an equal part go', async (t) => {
  const file = await place(t);
  const store = await sqliteTaskStore({ file });
  const put = (submitter: string, number: number) =>
    store.put(record(`${submitter}-${number}`, number, { submitter, ended_at: NOW }), 0);
  for (let number = 1; number <= 4; number += 1) await put('bob', number);
  for (let number = 11; number <= 30; number += 1) await put('ann', number);
  const usage = async () => new Map((await store.usage?.())?.map(({ submitter, ...takes }) => [submitter, takes]));
  const before = await usage();
  const { bytes = 0, tasks } = before.get('bob') ?? {};
  assert.equal(tasks, 4);
  assert.ok(bytes > 4 * 100);
  const long = record('bob-1', 1, { submitter: 'bob', ended_at: NOW, dead_letter: 'x'.repeat(1000) });
  await store.put(long, 1);
  assert.ok(((await usage()).get('bob')?.bytes ?? 0) - bytes > 900);
  assert.equal(await store.prune(0, 10), 14);
  assert.deepEqual([(await usage()).get('bob')?.tasks, (await usage()).get('ann')?.tasks], [4, 6]);
  assert.equal(await store.get('ann-11'), undefined);
  assert.notEqual(await store.get('ann-30'), undefined);
  await store.evict?.('ann', 1);
  assert.equal((await usage()).get('ann')?.tasks, 5);
  await store.evict?.('ann', Number.MAX_SAFE_INTEGER);
  assert.equal((await usage()).get('ann'), undefined);
  await store.close();
});

test('thousands of puts of one moment are each answered', async (t) => {
  const file = await place(t);
  const store = await sqliteTaskStore({ file });
  const revisions = await Promise.all(Array.from({ length: 5000 }, (_, at) => store.put(record(`t-${at}`, at + 1), 0)));
  assert.ok(revisions.every((revision) => revision === 1));
  const second = await Promise.all(
    Array.from({ length: 1000 }, (_, at) => store.put(record(`t-${at}`, at + 1, { state: 'reserved' }), 1)),
  );
  assert.ok(second.every((revision) => revision === 2));
  await store.close();
});

test('a number that two tasks were given is refused with its number, so that another can be chosen', async (t) => {
  const file = await place(t);
  const store = await sqliteTaskStore({ file });
  await store.put(record('one', 1), 0);
  await assert.rejects(store.put(record('two', 1), 0), (error: { code: string; detail: { number?: number } }) => {
    return error.code === 'superseded' && error.detail.number === 1;
  });
  await store.close();
});

test('no page of tasks reads every stored task', async (t) => {
  const file = await place(t);
  const store = await sqliteTaskStore({ file });
  await store.put(record('t', 1, { submitter: 'ann' }), 0);
  await store.close();
  const db = new DatabaseSync(file);
  t.after(() => db.close());
  const plan = (sql: string, values: readonly (string | number)[]): string[] =>
    db
      .prepare(`EXPLAIN QUERY PLAN ${sql}`)
      .all(...values)
      .map(({ detail }) => String(detail))
      .filter((detail) => /\btasks\b/.test(detail));
  const states = ['error', 'running'] as const;
  const queries: readonly TaskQuery[] = [
    { states },
    { states, before: 7 },
    { worker: 'w' },
    { worker: 'w', states },
    { worker: 'w', parked: false },
    { submitter: 'ann' },
    { submitter: 'ann', states },
    { parked: true },
    { batch: 'b' },
    { batch: 'b', states, before: 7 },
  ];
  for (const query of queries) {
    const { sql, values } = findStatement(query, 50) ?? assert.fail();
    for (const step of plan(sql, values)) {
      // An index of open, parked or ended tasks in the order of numbers; only open and parked tasks are filtered.
      assert.match(step, /INDEX (open_tasks|parked_tasks|batches|ended_by_\w+)/, JSON.stringify(query));
      if (step.includes('ended_by_state')) assert.match(step, /\(state=\?/);
      if (step.includes('ended_by_worker')) assert.match(step, /\(worker=\? AND state=\?/);
      if (step.includes('ended_by_submitter')) assert.match(step, /\(submitter=\? AND state=\?/);
    }
  }
});
