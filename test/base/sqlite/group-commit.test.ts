import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { GroupCommit } from '../../../src/base/sqlite/group-commit.ts';
import { startWriter } from '../../journal/fixtures/writer.ts';

const LOOP = new URL('../../journal/fixtures/group-commit-loop.ts', import.meta.url);

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-group-commit-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

function table(t: TestContext, pragma = 'PRAGMA journal_mode=WAL') {
  const file = join(folderOf(t), 'rows.db');
  const db = new DatabaseSync(file);
  db.exec(`${pragma}; PRAGMA synchronous=FULL; CREATE TABLE rows (number INTEGER PRIMARY KEY)`);
  const insert = db.prepare('INSERT INTO rows VALUES (?)');
  let transactions = 0;
  let undone = 0;
  const prepare = db.prepare.bind(db);
  db.prepare = (sql, options) => {
    const statement = prepare(sql, options);
    if (sql === 'COMMIT') {
      const run = statement.run.bind(statement);
      statement.run = () => {
        transactions += 1;
        return run();
      };
    }
    return statement;
  };
  const commits = new GroupCommit({
    db,
    what: 'the table',
    undone: () => (undone += 1),
  });
  t.after(() => {
    commits.close();
    if (db.isOpen) db.close();
  });
  const other = new DatabaseSync(file, { readOnly: true });
  t.after(() => other.close());
  const rows = () =>
    other
      .prepare('SELECT number FROM rows ORDER BY number')
      .all()
      .map(({ number }) => number);
  return {
    db,
    commits,
    rows,
    put: (number: number) => commits.write(() => Number(insert.run(number).changes)),
    behind: (number: number) => commits.writeBehind(() => Number(insert.run(number).changes)),
    counts: () => ({ transactions, undone }),
  };
}

/** Returns the reason why system calls cannot be traced here, or false. */
function noStrace(): string | false {
  const probe = spawnSync('strace', ['-f', '-qq', '-o', '/dev/null', '-e', 'inject=fsync:error=EIO', 'true']);
  return probe.status === 0 ? false : 'strace is missing or not allowed to trace';
}

test('what is written in one turn is one transaction, and there when it is acknowledged', async (t) => {
  const { put, rows, counts } = table(t);
  await Promise.all([put(1), put(2), put(3)]);
  assert.deepEqual(rows(), [1, 2, 3]);
  assert.equal(counts().transactions, 1);
});

test('writes that come while the disk is busy are acknowledged too, in order', async (t) => {
  const { put, rows, counts } = table(t);
  const answered: number[] = [];
  const all: Promise<unknown>[] = [];
  for (let number = 1; number <= 50; number += 1) {
    all.push(put(number).then(() => answered.push(number)));
    if (number % 5 === 0) await turn();
  }
  await Promise.all(all);
  assert.deepEqual(answered, rows());
  assert.ok(counts().transactions <= 10);
});

test('one write that throws takes the others of its transaction with it, and nothing after them', async (t) => {
  const { put, rows, counts, commits } = table(t);
  await put(1);
  const together = await Promise.allSettled([put(2), put(1), put(3)]);
  assert.ok(together.every((one) => one.status === 'rejected' && one.reason.code === 'runtime_error'));
  assert.deepEqual([rows(), counts().undone], [[1], 1]);
  await put(4);
  assert.deepEqual([rows(), commits.fatal], [[1, 4], undefined]);
});

test('a write without a waiter goes with the next one that is, and by itself when none comes', async (t) => {
  const { put, behind, rows, counts } = table(t);
  behind(1);
  await put(2);
  assert.deepEqual([rows(), counts().transactions], [[1, 2], 1]);
  behind(3);
  // The timer does not keep the process alive, so another timer has to.
  const alive = setInterval(() => {}, 20);
  while (rows().length < 3) await turn();
  clearInterval(alive);
});

test('more than a batch holds is committed within the call that filled it', async (t) => {
  const { put, counts } = table(t);
  const all = Array.from({ length: 5000 }, (_, at) => put(at + 1));
  assert.equal(counts().transactions, 1);
  await Promise.all(all);
  assert.equal(counts().transactions, 2);
});

test('the log is copied into the file now and then, and not in the turn of a commit', async (t) => {
  const { db, commits } = table(t);
  db.exec('PRAGMA wal_autocheckpoint=0; CREATE TABLE texts (text TEXT)');
  const insert = db.prepare('INSERT INTO texts VALUES (?)');
  const text = 'x'.repeat(1024 * 1024);
  const size = () => statSync(db.location() as string).size;
  const before = size();
  for (let n = 0; n < 15; n += 1) {
    await commits.write(() => {
      insert.run(text);
      return text.length;
    });
  }
  assert.equal(size(), before);
  for (let n = 0; n < 3; n += 1) {
    await commits.write(() => {
      insert.run(text);
      return text.length;
    });
  }
  await turn();
  assert.ok(size() > before + 16 * 1024 * 1024, `${size()} bytes`);
});

test('closing commits and acknowledges what waits, and takes no more', async (t) => {
  const { put, behind, commits, rows } = table(t);
  const first = put(1);
  await turn();
  const second = put(2);
  behind(3);
  commits.close();
  await Promise.all([first, second]);
  assert.deepEqual(rows(), [1, 2, 3]);
  await assert.rejects(put(4), { code: 'interrupted', message: /the table is closed/ });
  commits.close();
});

test('where there is no write-ahead log each commit syncs by itself', async (t) => {
  const { db, put, rows } = table(t, 'PRAGMA journal_mode=DELETE');
  assert.equal(Object.values(db.prepare('PRAGMA synchronous').get() ?? {})[0], 2);
  await put(1);
  assert.deepEqual(rows(), [1]);
});

test('nothing is acknowledged before the log was synced after it was written', { skip: noStrace() }, async (t) => {
  const folder = folderOf(t);
  const trace = join(folder, 'trace');
  const strace = ['strace', '-f', '-y', '-qq', '-o', trace, '-e', 'trace=fsync,fdatasync,pwrite64,write'];
  await using writer = startWriter([join(folder, 'rows.db'), '20', '3'], strace, LOOP);
  await writer.line(/^fatal none/);
  await writer.ended;
  let opened = false;
  let dirty = false;
  /** A sync that began after the last write to the log has ended. */
  let synced = false;
  let acks = 0;
  const underway = new Set<string>();
  for (const line of readFileSync(trace, 'utf8').split('\n')) {
    const [thread = ''] = line.split(' ', 1);
    if (/ write\(1<[^>]*>, "open/.test(line)) opened = true;
    else if (/ pwrite64\(\d+<[^>]*-wal>/.test(line)) {
      dirty = true;
      synced = false;
      underway.clear();
    } else if (/ f(data)?sync\(\d+<[^>]*-wal>.*unfinished/.test(line)) underway.add(thread);
    else if (/ f(data)?sync\(\d+<[^>]*-wal>/.test(line)) synced = dirty;
    else if (/f(data)?sync resumed/.test(line)) synced ||= underway.delete(thread);
    else if (opened && / write\(1<[^>]*>, "ack /.test(line)) {
      assert.ok(synced, `acknowledged too early: ${line}`);
      acks += 1;
    }
  }
  assert.equal(acks, 60);
});

test('after a failed sync nothing is acknowledged any more', { skip: noStrace() }, async (t) => {
  // Injections are counted by thread, so only one thread syncs.
  const inject = ['strace', '-f', '-qq', '-o', '/dev/null', '-E', 'UV_THREADPOOL_SIZE=1'];
  inject.push('-e', 'inject=fsync,fdatasync:error=EIO:when=12+');
  await using writer = startWriter([join(folderOf(t), 'rows.db'), '30', '2'], inject, LOOP);
  await writer.line(/^fatal runtime_error/);
  await writer.ended;
  const failed = writer.lines.indexOf('failed runtime_error');
  const acked = writer.lines.filter((line) => line.startsWith('ack ')).length;
  assert.ok(acked > 0 && acked < 60, `${acked} acknowledged`);
  assert.equal(writer.lines.slice(failed).filter((line) => line.startsWith('ack ')).length, 0);
  assert.equal(writer.lines.filter((line) => line === 'failed runtime_error').length, 60 - acked);
});
