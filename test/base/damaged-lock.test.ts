/** A lock file that cannot be one is named: its path, the reason, and the remedy, which works; by every owner of a lock. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { acquireFileLock, acquireNamedLock } from '../../src/base/file-lock.ts';
import { acquireDataLock } from '../../src/control/providers/data-lock.ts';
import { claim } from '../../src/host/audit/files.ts';
import { sqliteJournal } from '../../src/journal/sqlite/sqlite.ts';
import { asError } from '../../src/wire/errors.ts';

let folder = '';
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'handfast-lock-'));
});
after(() => rmSync(folder, { recursive: true }));

const damages: readonly [string, (file: string) => void, RegExp][] = [
  [
    'garbage',
    (file) => writeFileSync(file, 'no lock, but long enough to be read as a file'.repeat(100)),
    /has content/,
  ],
  ['a process id', (file) => writeFileSync(file, '4711\n'), /has content/],
  ['the head of a database that was cut', (file) => writeFileSync(file, 'SQLite format 3\0'), /has content/],
  ['a folder', (file) => mkdirSync(file), /is a folder/],
  ['a link into nothing', (file) => symlinkSync(join(folder, 'missing', 'file'), file), /cannot be opened/],
];

const owners: readonly [string, (path: string) => unknown, (path: string) => string][] = [
  ['a lock', (path) => acquireFileLock(path)?.(), (path) => path],
  ['a journal', async (path) => (await sqliteJournal({ file: path })).close(), (path) => `${path}.lock`],
  ['an audit', async (path) => (await claim(path)).release(), (path) => `${path}.lock`],
  [
    'a data folder',
    (path) => {
      mkdirSync(path, { recursive: true });
      acquireDataLock(path)();
    },
    (path) => join(path, 'settings.lock'),
  ],
];

for (const [owner, acquire, lockOf] of owners) {
  describe(owner, () => {
    for (const [number, [damage, make, why]] of damages.entries()) {
      test(`whose lock file is ${damage} names it and the remedy`, async () => {
        const path = join(folder, `${owner.replaceAll(' ', '-')}-${number}`);
        const lock = lockOf(path);
        if (lock.startsWith(`${path}/`)) mkdirSync(path);
        make(lock);
        await assert.rejects(
          async () => acquire(path),
          (thrown) => {
            const { message } = asError(thrown);
            assert.ok(message.includes(lock), message);
            assert.match(message, why);
            assert.match(message, /stop the hosts .*then remove it/);
            return true;
          },
        );
        rmSync(lock, { recursive: true });
        await acquire(path);
      });
    }

    test('whose lock file is empty, or missing, is locked', async () => {
      const path = join(folder, `${owner.replaceAll(' ', '-')}-empty`);
      const lock = lockOf(path);
      if (lock.startsWith(`${path}/`)) mkdirSync(path);
      writeFileSync(lock, '');
      await acquire(path);
      rmSync(lock);
      await acquire(path);
    });
  });
}

test('a lock whose file of the process id cannot be removed is released all the same', () => {
  const file = join(folder, 'kept.lock');
  const { release } = acquireNamedLock(file, join(folder, 'kept.pid'));
  rmSync(join(folder, 'kept.pid'));
  mkdirSync(join(folder, 'kept.pid'));
  release?.();
  acquireFileLock(file)?.();
});
