/** The task store as a file: locked, private, checked, and set aside when damaged. */
import assert from 'node:assert/strict';
import { mkdtemp, open, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { sqliteTaskStore } from '../../../src/fleet/orchestrator/store-sqlite.ts';
import { record } from '../../contract/task-store.ts';

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
