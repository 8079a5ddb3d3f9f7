/**
 * The part of a database that is read when it is opened.
 */
import assert from 'node:assert/strict';
import { copyFileSync, openSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { type Damage, type DatabaseOptions, openDatabase } from '../../../src/base/sqlite/database.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

const PAGE = 4096;

/** Returns a database with a broken page in its middle, in the state of an open one, or after it was closed. */
function broken(t: TestContext, state: 'killed' | 'closed'): DatabaseOptions {
  const folder = temporaryFolder(t);
  const options = {
    what: 'the test',
    applicationId: 7,
    synchronous: 'FULL',
    migrations: ['CREATE TABLE t (text);'],
  } as const;
  const from = join(folder, 'open.db');
  const file = state === 'killed' ? join(folder, 'copy.db') : from;
  const close = openDatabase({ ...options, file: from }, (database, release) => {
    const insert = database.prepare('INSERT INTO t VALUES (?)');
    for (let row = 0; row < 200; row += 1) insert.run(String(row).padEnd(PAGE / 2, 'x'));
    database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    if (state === 'killed') for (const suffix of ['', '.mark']) copyFileSync(from + suffix, file + suffix);
    return () => {
      database.close();
      release();
    };
  });
  close();
  const descriptor = openSync(file, 'r+');
  const page = Buffer.alloc(PAGE);
  readSync(descriptor, page, 0, PAGE, 20 * PAGE);
  writeSync(descriptor, page.fill(0xff, 0, 64), 0, PAGE, 20 * PAGE);
  return { ...options, file };
}

function damages(options: DatabaseOptions): Damage[] {
  const found: Damage[] = [];
  openDatabase({ ...options, onCorrupt: (damage) => found.push(damage) }, (database: DatabaseSync, release) => {
    database.close();
    release();
  });
  return found;
}

test('a file whose process was killed is read whole while it is small', (t) => {
  assert.equal(damages(broken(t, 'killed')).length, 1);
});

test('a large one is not, so that a start is not held up by it', (t) => {
  assert.deepEqual(damages({ ...broken(t, 'killed'), maxCheckedBytes: 64 * 1024 }), []);
});

test('one that was changed after it was closed is read whole, however large', (t) => {
  assert.equal(damages({ ...broken(t, 'closed'), maxCheckedBytes: 64 * 1024 }).length, 1);
});
