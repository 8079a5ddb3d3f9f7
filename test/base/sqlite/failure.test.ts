/**
 * The errors of a database that fails, and whether it may be written to afterwards.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDamage, isFatal, sqliteFailure } from '../../../src/base/sqlite/failure.ts';
import { fail } from '../../../src/wire/errors.ts';

const IOERR = 10;
const SHORT_READ = IOERR | (2 << 8);
const FSYNC = IOERR | (4 << 8);
const DIR_FSYNC = IOERR | (5 << 8);
const SHMSIZE = IOERR | (19 << 8);

test('failures are reported by what can be done about them, and name what failed', () => {
  const full = ['disk_full', 'the task store could not be written: the disk is full; free space on it'];
  const damaged = ['journal_corrupt', 'the task store is damaged'];
  const busy = ['journal_locked', 'another process is writing to the task store; stop that process'];
  const failed = ['runtime_error', 'the task store failed'];
  const unsynced = [
    'runtime_error',
    'the task store could not be synced to disk (EIO), so nothing more is stored; check the disk, then restart the host',
  ];
  const refused = (reason: string) => [
    'runtime_error',
    `the task store could not be read or written (${reason}); check the disk and the rights of its folder`,
  ];
  const codes: [object, string[]][] = [
    [{ errcode: 13 }, full],
    [{ errcode: SHMSIZE }, full],
    [{ code: 'ENOSPC' }, full],
    [{ errcode: 11 }, damaged],
    [{ errcode: 11 | (1 << 8) }, damaged],
    [{ errcode: 26 }, damaged],
    [{ errcode: 5 }, busy],
    [{ errcode: 6 }, busy],
    [{ errcode: 1 }, failed],
    [{ errcode: FSYNC }, unsynced],
    [{ errcode: IOERR }, refused('EIO')],
    [{ code: 'EACCES' }, refused('EACCES')],
  ];
  for (const [thrown, expected] of codes) {
    const error = sqliteFailure(thrown, 'the task store');
    assert.deepEqual([error.code, error.message], expected);
    const { reason, ...detail } = error.detail;
    assert.deepEqual(detail, 'errcode' in thrown ? { sqlite: thrown.errcode } : {});
    assert.equal(reason, /\((E[A-Z]+)\)/.exec(error.message)?.[1]);
    assert.equal(error.cause, thrown);
  }
});

test('an error of the table stays what it is', () => {
  const error = fail('superseded', 'it was changed meanwhile');
  assert.equal(sqliteFailure(error, 'the task store'), error);
});

test('after a failed sync and in a damaged file no write may follow, after any other failure it may', () => {
  for (const errcode of [FSYNC, DIR_FSYNC, 11, 26]) assert.equal(isFatal({ errcode }), true, `${errcode}`);
  for (const errcode of [1, 5, 13, IOERR, SHMSIZE]) assert.equal(isFatal({ errcode }), false, `${errcode}`);
  assert.equal(isFatal(new Error('of something else')), false);
});

test('a file that ends too early is damaged, one that cannot be read is not', () => {
  for (const errcode of [SHORT_READ, 11, 26]) assert.equal(isDamage({ errcode }), true, `${errcode}`);
  for (const errcode of [1, 5, 13, IOERR]) assert.equal(isDamage({ errcode }), false, `${errcode}`);
  assert.equal(isDamage(fail('journal_corrupt', 'a checksum is wrong')), true);
  assert.equal(isDamage(fail('runtime_error', 'of a newer version')), false);
});
