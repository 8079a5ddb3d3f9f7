/**
 * A pipe, a socket or a device in the place of a file of a host: each owner of the file says so at once. All of it runs in a
 * child that has little time: a program that waits for a pipe does not end.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { User } from '../cli/command.ts';

const windows = process.platform === 'win32' && 'there are no pipes in folders';
const users: User[] = [];
after(() => Promise.all(users.map((user) => user.leave())));

const others: Readonly<Record<string, (path: string) => unknown>> = {
  'a pipe': (path) => execFileSync('mkfifo', [path]),
  'a device': (path) => symlinkSync('/dev/zero', path),
  'a socket': (path) => new Promise<void>((listens) => void createServer().unref().listen(path, listens)),
};

/** Uses each owner of a file on `folder/<number>`; prints an error of each, or that it did without the file. */
const OWNERS = `
  import { acquireFileLock, acquireNamedLock } from '#src/base/file-lock.ts';
  import { keepLoss, recordedLoss } from '#src/base/sqlite/losses.ts';
  import { openDatabase } from '#src/base/sqlite/database.ts';
  import { mayWrite } from '#src/base/sqlite/file.ts';
  import { openRegular, readNamed, readRegular, readRegularSync, writeRegularSync } from '#src/base/regular-file.ts';
  import { sweep } from '#src/base/children/record.ts';
  import { claim, recover } from '#src/host/audit/files.ts';
  import { directoryRules } from '#src/control/approvals/directory-rules.ts';
  import { ensureLocalToken } from '#src/config/local-token.ts';
  import { findProcesses } from '#src/server/running-processes.ts';
  import { secretReader } from '#src/server/fleet/secret-reader.ts';
  import { stateFile } from '#src/server/state-file.ts';
  const logged = [];
  const log = { error: (_, { error }) => logged.push(error), warn() {}, info() {} };
  const database = (file) =>
    openDatabase({ file, what: 'it', applicationId: 7, migrations: [''], synchronous: 'NORMAL', onLoss() {} },
      (db, release) => { db.close(); release(); });
  const logs = async (work) => { await work(); throw logged.at(-1); };
  const owners = {
    'a': (file) => database(file),
    'b-wal': (file) => database(file.slice(0, -4)),
    'c-shm': (file) => database(file.slice(0, -4)),
    'd-journal': (file) => database(file.slice(0, -8)),
    'e.mark': (file) => database(file.slice(0, -5)),
    'f.probe': (file) => { if (!mayWrite(file.slice(0, -6))) throw new Error('is not a file'); },
    'g.lost': (file) => { keepLoss({ what: 'it', file: file.slice(0, -5) }); return recordedLoss(file.slice(0, -5)); },
    'lock': (file) => acquireFileLock(file),
    'pid': (file) => acquireNamedLock(file + '.lock', file).release(),
    'audit': (file) => recover(file),
    'audit.lock': (file) => claim(file.slice(0, -5)),
    'approvals.json': (file) => logs(() => directoryRules({ file, log, now: Date.now })),
    'token': (file) => ensureLocalToken({ home: file.slice(0, -6) }),
    'secret': (file) => secretReader({ tokenFile: file }, {})(),
    'state/h.json': (file) => logs(() => stateFile({ home: file.slice(0, -13), hostId: 'h', log }).load()),
    'children/1-a.json': (file) => sweep(file.slice(0, -18)),
    'running/1.json': (file) => findProcesses(file.slice(0, -7), () => undefined),
    'text': (file) => readRegular(file),
    'bytes': (file) => readRegularSync(file),
    'written': (file) => writeRegularSync(file, 'text'),
    'appended': async (file) => (await openRegular(file, 'a')).close(),
  };
  const results = {};
  for (const [name, owner] of Object.entries(owners)) {
    results[name] = await (async () => owner(process.argv[1] + '/' + name))().then(() => 'did without', String);
  }
  console.log(JSON.stringify(results));
  process.exit();
`.replaceAll('#src', new URL('../../src', import.meta.url).href);

/** Owners that can do without their file. */
const WITHOUT = ['children/1-a.json', 'g.lost', 'pid', 'running/1.json'];

for (const [kind, make] of Object.entries(others)) {
  test(`${kind} in the place of a file is named, or done without`, { skip: windows, timeout: 60_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'hf-'));
    try {
      const names = [...OWNERS.matchAll(/^ {4}'([\w./-]+)': /gm)].map(([, name]) => name as string);
      assert.ok(names.length > 15);
      for (const name of names) {
        mkdirSync(join(folder, name, '..'), { recursive: true });
        await make(join(folder, name));
      }
      const words = ['-C', 'handfast-source', '--input-type=module', '-e', OWNERS, folder];
      const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'], timeout: 20_000 });
      let text = '';
      for await (const chunk of child.stdout) text += chunk;
      assert.notEqual(text, '', 'an owner waits');
      const results = JSON.parse(text) as Record<string, string>;
      assert.deepEqual(names.filter((name) => results[name] === 'did without').sort(), WITHOUT);
      for (const name of names.filter((each) => !WITHOUT.includes(each)))
        assert.match(results[name] as string, /EFTYPE|(?:is|it is) (?:a pipe|a device|a socket|not a file)/, name);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
}

test('a pipe in the place of a mark ends the start of a server, with an error that names it', {
  skip: windows,
  timeout: 60_000,
}, async () => {
  const user = new User();
  users.push(user);
  mkdirSync(user.home, { mode: 0o700 });
  execFileSync('mkfifo', [join(user.home, 'sessions.db.mark')]);
  const failed = await user.failure(['up', '--port', '0']);
  assert.equal(failed.code, 'runtime_error');
  assert.match(failed.message, /\(EFTYPE\); a pipe, .* lies where its file, its log or its mark belongs: move it away/);
});

test('a configuration may come out of a pipe, but not late', { skip: windows, timeout: 60_000 }, async () => {
  const user = new User();
  users.push(user);
  const pipe = join(user.cwd, 'pipe');
  execFileSync('mkfifo', [pipe]);
  const failed = await user.failure(['config', 'check', pipe]);
  assert.match(failed.message, /it is a pipe that nothing came out of in time/);
  const writer = spawn('sh', ['-c', 'sleep 0.2; echo "listen: http://127.0.0.1:0" > "$0"', pipe]);
  const { code, stdout } = await user.run(['config', 'check', pipe]);
  writer.kill();
  assert.equal(code, 0, stdout);
  writeFileSync(join(user.cwd, 'long.yaml'), `# ${'a'.repeat(2_000_000)}\n`);
  const long = spawn('sh', ['-c', 'cat long.yaml > pipe'], { cwd: user.cwd });
  assert.match((await user.failure(['config', 'check', pipe])).message, /expected at most \d+ bytes/);
  long.kill();
});
