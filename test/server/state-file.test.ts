/**
 * Plugin state in a file: the state after a restart, its readers, and the handling of a damaged file.
 */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import type { Log } from '../../src/base/log.ts';
import { silentLog } from '../../src/base/log.ts';
import { replaceFile } from '../../src/base/replace-file.ts';
import { stateFile, stateFileOf } from '../../src/server/state-file.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

/** Makes a log that keeps its errors. */
function errorLog(): Log & { errors: string[] } {
  const errors: string[] = [];
  return { ...silentLog, errors, error: (message) => errors.push(message) };
}

test('what was saved is loaded by the next host of that name, and by no other', async (t) => {
  const home = temporaryFolder(t);
  const log = errorLog();
  const store = stateFile({ home, hostId: 'box', log });
  assert.deepEqual(await store.load(), {});
  await store.save({ counter: { n: 1 }, other: [1, 2] });
  await store.save({ counter: { n: 2 } });
  assert.deepEqual(await stateFile({ home, hostId: 'box', log }).load(), { counter: { n: 2 } });
  assert.deepEqual(await stateFile({ home, hostId: 'lid', log }).load(), {});
  assert.deepEqual(log.errors, []);

  const file = stateFileOf(home, 'box');
  assert.equal(file, join(home, 'state', 'box.json'));
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.equal(statSync(dirname(file)).mode & 0o777, 0o700);
  assert.deepEqual(readdirSync(dirname(file)), ['box.json'], 'no draft stays behind');
});

test('a damaged file is quarantined and the host starts without it', async (t) => {
  const home = temporaryFolder(t);
  const file = stateFileOf(home, 'box');
  mkdirSync(dirname(file));
  for (const [index, text] of ['{"half', '[1]', 'null'].entries()) {
    writeFileSync(file, text);
    const log = errorLog();
    assert.deepEqual(await stateFile({ home, hostId: 'box', log, now: () => index }).load(), {});
    assert.equal(log.errors.length, 1);
    assert.equal(readFileSync(`${file}.unreadable-${index}`, 'utf8'), text);
  }
});

test('a state that cannot be written is logged and stops nothing', async (t) => {
  const home = temporaryFolder(t);
  writeFileSync(join(home, 'state'), 'not a folder');
  const log = errorLog();
  await stateFile({ home, hostId: 'box', log }).save({ a: 1 });
  assert.deepEqual(log.errors, ['the state of the plugins was not stored']);
});

test('replacing a file leaves the old one alone when it fails', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'file');
  await replaceFile(file, 'old');
  // A folder in the way cannot be replaced by a file.
  mkdirSync(join(folder, 'taken'));
  await assert.rejects(replaceFile(join(folder, 'taken'), 'new'));
  chmodSync(file, 0o600);
  assert.deepEqual([readFileSync(file, 'utf8'), readdirSync(folder).sort()], ['old', ['file', 'taken']]);
});
