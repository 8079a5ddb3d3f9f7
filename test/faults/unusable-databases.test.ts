/**
 * F-120: a database whose file, log or mark cannot be used: a folder is in its place, or the rights are missing. Its
 * error names the cause and the remedy, the failing stores have it until it can be opened, and its content stays. A
 * journal that is not a database is replaced, which is a loss.
 */
// A process of its own: it expects that no other store of the process fails.
import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, renameSync, rmdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { failingStores, onFailingStore } from '../../src/base/failing-stores.ts';
import { openLosses } from '../../src/base/sqlite/losses.ts';
import { memoryPlugin } from '../../src/capabilities/memory/plugin.ts';
import { planningPlugin } from '../../src/capabilities/planning/plugin.ts';
import { connect } from '../../src/connect.ts';
import { createHost } from '../../src/host/host.ts';
import { openStateDatabase } from '../../src/host/store/database.ts';
import { sqliteJournal } from '../../src/journal/sqlite/sqlite.ts';
import { reportDamage, reportReplaced } from '../../src/server/journal-damage.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const FOLDER =
  /^the store of the plugins could not be read or written \(EISDIR\); a folder lies where .*: move it away$/;
const mine = () => failingStores().map(({ store, fatal }) => `${store} ${fatal}`);

for (const suffix of ['', '-wal', '.mark']) {
  test(`a folder in the place of state.db${suffix} fails the requests that need the store, and is reported until it is gone`, async (t) => {
    const folder = temporaryFolder(t);
    const file = join(folder, 'state.db');
    // Beside an empty file the log would be damage, and both are quarantined.
    if (suffix === '-wal') openStateDatabase({ file }).close();
    mkdirSync(file + suffix);
    const host = createHost({ plugins: [planningPlugin()], stateFile: file, checksState: true });
    await host.start();
    t.after(() => host.close(0));
    const agent = await connect(host, { capabilities: ['planning'] });
    t.after(() => agent.close());
    await assert.rejects(agent.planning.plans(), { code: 'runtime_error', message: FOLDER });
    assert.deepEqual(mine(), ['the store of the plugins false']);
    assert.match(failingStores()[0]?.message ?? '', FOLDER);
    rmdirSync(file + suffix);
    // Without a request: a host that is sent no work while it is not ready is ready again.
    while (mine().length > 0) await setTimeout(50);
    await agent.planning.createPlan('p');
  });
}

for (const [name, suffix, make, message] of [
  ['a lock file with content', '.lock', (file: string) => writeFileSync(file, '4711\n'), /has content/],
  ['a folder in the place of its lock file', '.lock', (file: string) => mkdirSync(file), /is a folder/],
  ['a link into nothing', '', (file: string) => symlinkSync(join(file, 'missing'), file), /\(E/],
] as const) {
  test(`a store with ${name} is among the failing stores, and in the log, until that is gone`, async (t) => {
    const folder = temporaryFolder(t);
    const file = join(folder, 'state.db');
    make(file + suffix);
    assert.throws(() => openStateDatabase({ file }), message);
    // A server that listens later logs it, too.
    const logged: string[] = [];
    onFailingStore(({ store }) => logged.push(store))();
    assert.deepEqual(logged, ['the store of the plugins']);
    // Opening is tried at most once a second.
    for (const until = performance.now() + 1_100; performance.now() < until; ) await setTimeout(50);
    assert.deepEqual(mine(), ['the store of the plugins false']);
    rmSync(file + suffix, { recursive: true });
    while (mine().length > 0) await setTimeout(50);
    openStateDatabase({ file }).close();
  });
}

test('a file whose rights are gone names them', {
  skip: process.getuid?.() === 0 && 'the superuser has every right',
}, async (t) => {
  const file = join(temporaryFolder(t), 'state.db');
  writeFileSync(file, '', { mode: 0o000 });
  assert.throws(() => openStateDatabase({ file }), {
    message: /\(EACCES\); check the disk and the rights of its folder$/,
  });
  chmodSync(file, 0o600);
  while (mine().length > 0) await setTimeout(50);
});

test('a database of another program is among the failing stores until it is moved away', async (t) => {
  const file = join(temporaryFolder(t), 'state.db');
  const foreign = new DatabaseSync(file);
  foreign.exec('PRAGMA application_id=5; CREATE TABLE t (a)');
  foreign.close();
  assert.throws(() => openStateDatabase({ file }), { message: /is the database of another program; move it away/ });
  // Longer than a failing store waits before it is tried.
  await setTimeout(1_200);
  assert.deepEqual(mine(), ['the store of the plugins false']);
  renameSync(file, `${file}.moved`);
  while (mine().length > 0) await setTimeout(50);
  openStateDatabase({ file }).close();
});

test('a memory that cannot be opened is among the failing stores of the process, though a thread has it', async (t) => {
  const folder = temporaryFolder(t);
  const host = createHost({ plugins: [memoryPlugin()], dataDir: folder });
  await host.start();
  t.after(() => host.close(0));
  const agent = await connect(host, { capabilities: ['memory'] });
  t.after(() => agent.close());
  const { fileOf } = await import('../../src/capabilities/memory/engine/file-name.ts');
  const file = join(folder, 'memory', fileOf('local'));
  mkdirSync(file, { recursive: true });
  await assert.rejects(agent.memory.open({ namespace: 'n' }), { message: /^the memory could not .*\(EISDIR\)/ });
  assert.deepEqual(mine(), ['the memory false']);
  rmdirSync(file);
  while (mine().length > 0) await setTimeout(50);
  await agent.memory.open({ namespace: 'n' });
});

test('a journal that is replaced is a loss, until it is acknowledged', async (t) => {
  const file = join(temporaryFolder(t), 'journal.db');
  writeFileSync(file, 'no database '.repeat(1000));
  const logged: string[] = [];
  const log = { error: (message: string) => void logged.push(message) } as never;
  const journal = await sqliteJournal({
    file,
    retention: { maxEntries: 10, maxBytes: 1000 },
    onDamaged: reportDamage(log, file, 'the journal'),
    onCorrupt: reportReplaced(log, file, 'the journal'),
  });
  await journal.close();
  assert.deepEqual(logged, ['the journal was damaged; started a new one']);
  const [loss] = openLosses().filter((each) => each.file === file);
  assert.equal(loss?.what, 'the journal');
  assert.ok(existsSync(loss?.moved_to as string));
});
