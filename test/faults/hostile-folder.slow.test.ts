/**
 * Folders made to run something, to stall a reader, or to pass for another repository: through the command, and through the
 * parts that decide about trust.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { readBounded } from '../../src/base/bounded-file.ts';
import { HeldTrust, trustedFile } from '../../src/trust/check.ts';
import { findFile } from '../../src/trust/found-file.ts';
import { manifestOf } from '../../src/trust/manifest.ts';
import { pinModules } from '../../src/trust/pinned-modules.ts';
import { quoted } from '../../src/trust/quoted.ts';
import { placeOf } from '../../src/trust/repository.ts';
import { TrustStore } from '../../src/trust/store.ts';
import { plainEnvironment, User } from '../cli/command.ts';

const users: User[] = [];
const newUser = (): User => {
  const user = new User();
  users.push(user);
  return user;
};
after(() => Promise.all(users.map((user) => user.leave())));

const temporary = (t: TestContext): string => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'handfast-hostile-')));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
};

function noStrace(): string | false {
  const probe = spawnSync('strace', ['-f', '-qq', '-o', '/dev/null', 'true']);
  return probe.status === 0 ? false : 'strace is missing or not allowed to trace';
}

test('before trust the folder is read for hashing only and no program runs', { skip: noStrace() }, async () => {
  const user = newUser();
  user.write('handfast.yaml', 'plugins: [./evil.mjs]\ncontrol: { agents: [{ name: a, command: ./evil.sh }] }\n');
  user.write('fleet.yaml', 'workers: [{ id: a, executor: { kind: command, command: ./evil.sh } }]\n');
  user.write('evil.mjs', 'export const plugins = [];');
  user.write('evil.sh', '#!/bin/sh\n');
  user.write('package.json', '{"type":"module"}');
  user.write('.mcp.json', '{}');
  execFileSync('git', ['init', '-q'], { cwd: user.cwd });
  const main = new URL('../../src/cli/main.ts', import.meta.url).pathname;
  const trace = join(user.folder, 'trace');
  const env = plainEnvironment({ HOME: user.folder, HANDFAST_HOME: user.home, NO_COLOR: '1' });
  for (const words of [['up'], ['stdio'], ['rpc'], ['acp'], ['chat'], ['fleet', 'up'], ['doctor']]) {
    const strace = ['-f', '-y', '-qq', '-o', trace, '-e', 'trace=file,process,network,write,pwrite64,sendto'];
    const command = [process.execPath, '-C', 'handfast-source', main, ...words];
    const { status } = spawnSync('strace', [...strace, ...command], { cwd: user.cwd, env, input: '', timeout: 60_000 });
    assert.equal(status, 3, words.join(' '));
    const calls = readFileSync(trace, 'utf8').split('\n');
    const started = calls.filter((line) => /\bexecve(?:at)?\(/.test(line) && !line.includes('resumed'));
    assert.equal(started.length, 1, `no program but this one:\n${started.join('\n')}`);
    const inFolder = calls.filter((line) => line.includes(`${user.cwd}/`) || /AT_FDCWD[^,]*, "(?!\/)/.test(line));
    const other = inFolder.filter((line) => !isLookOrRead(line));
    assert.deepEqual(other, [], words.join(' '));
    assert.ok(
      inFolder.some((line) => /\bopen(?:at)?\(.*\/(?:handfast|fleet)\.yaml"/.test(line)),
      'the trace sees reads',
    );
    const opened = inFolder.filter((line) => /\bopen(?:at)?\(/.test(line)).map((line) => /"([^"]*)"/.exec(line)?.[1]);
    assert.deepEqual(
      opened.filter((path) => !/\/(?:handfast|fleet)\.yaml$/.test(path ?? '')),
      [],
      words.join(' '),
    );
  }
});

test('checking a file that is not trusted, and showing what is to be trusted, start no program', {
  skip: noStrace(),
}, () => {
  const user = newUser();
  const token = '{ name: ci, token: a-token-of-sixteen-and-more, tools: { allow: [shell] } }';
  user.write('handfast.yaml', `plugins: [./evil.mjs]\nauth: { tokens: [${token}] }\n`);
  user.write(
    'fleet.yaml',
    'workers: [{ id: a, executor: { kind: claude }, mcp_servers: [{ name: m, command: m }] }]\n',
  );
  user.write('evil.mjs', 'export const plugins = [];');
  execFileSync('git', ['init', '-q'], { cwd: user.cwd });
  const main = new URL('../../src/cli/main.ts', import.meta.url).pathname;
  const trace = join(user.folder, 'trace');
  const env = plainEnvironment({ HOME: user.folder, HANDFAST_HOME: user.home, NO_COLOR: '1' });
  for (const words of [
    ['config', 'check'],
    ['fleet', 'check'],
    ['trust', 'add', '--yes'],
    ['trust', 'ls'],
  ]) {
    const strace = ['-f', '-qq', '-o', trace, '-e', 'trace=process'];
    const command = [process.execPath, '-C', 'handfast-source', main, ...words];
    const { status, stderr } = spawnSync('strace', [...strace, ...command], {
      cwd: user.cwd,
      env,
      input: '',
      encoding: 'utf8',
      timeout: 60_000,
    });
    assert.equal(status, 0, stderr);
    const calls = readFileSync(trace, 'utf8').split('\n');
    const started = calls.filter((line) => /\bexecve(?:at)?\(/.test(line) && !line.includes('resumed'));
    assert.equal(started.length, 1, `no program but this one:\n${started.join('\n')}`);
  }
});

/** Returns true for a call that checks a path, or opens it for reading. */
const isLookOrRead = (line: string): boolean =>
  /\b(?:statx|stat|lstat|newfstatat|access|faccessat2?|readlink|readlinkat|getcwd)\(/.test(line) ||
  (/\bopen(?:at)?\(/.test(line) && /O_RDONLY/.test(line) && !/O_(?:CREAT|TRUNC|WRONLY|RDWR)/.test(line)) ||
  /\bexecve\(/.test(line) ||
  /resumed>|\+\+\+|---/.test(line);

/** Makes a trap at a path; undefined where this system or user cannot. */
const traps: Readonly<Record<string, (path: string) => void>> = {
  'a pipe': (path) => void execFileSync('mkfifo', [path]),
  'a link to a device without end': (path) => symlinkSync('/dev/zero', path),
  'a link to what the process knows': (path) => symlinkSync('/proc/self/environ', path),
  'a link to a file of the user': (path) => symlinkSync('/etc/passwd', path),
  'a file of many gigabytes': (path) => {
    writeFileSync(path, '');
    truncateSync(path, 40 * 1024 ** 3);
  },
  'a folder': (path) => void mkdirSync(path),
};

for (const [name, make] of Object.entries(traps)) {
  test(`${name} in place of handfast.yaml is refused, and nothing waits for it`, async () => {
    const user = newUser();
    make(join(user.cwd, 'handfast.yaml'));
    for (const words of [['up'], ['trust', 'add', '--yes'], ['config', 'check']]) {
      const failed = await user.failure(words);
      assert.deepEqual([failed.exit, failed.code], [2, 'config_invalid'], failed.message);
      assert.match(failed.message, /handfast\.yaml (?:is not a file|is a link|is larger than)/);
    }
  });

  test(`${name} in place of a skill, a plugin, .git or the settings of agents ends no command`, async () => {
    const user = newUser();
    mkdirSync(join(user.cwd, '.agents', 'skills', 'trap'), { recursive: true });
    make(join(user.cwd, '.agents', 'skills', 'trap', 'SKILL.md'));
    mkdirSync(join(user.cwd, '.agents', 'skills', 'fine'), { recursive: true });
    writeFileSync(join(user.cwd, '.agents', 'skills', 'fine', 'SKILL.md'), 'Fine.\n');
    user.write('handfast.yaml', 'listen: http://127.0.0.1:0\nplugins: [./trap.mjs]\n');
    make(join(user.cwd, 'trap.mjs'));
    make(join(user.cwd, '.mcp.json'));
    make(join(user.cwd, '.git'));
    const { code, stderr } = await user.run(['trust', 'add', '--yes', '--json']);
    assert.equal(code, 0, stderr);
    // A plugin that cannot be read is not covered, so it is not loaded either.
    assert.notEqual((await user.run(['up'])).code, 0);
  });

  test(`${name} in place of a token file or a package.json is not waited for`, async () => {
    const user = newUser();
    make(join(user.cwd, 'token'));
    mkdirSync(join(user.cwd, 'node_modules', 'evil'), { recursive: true });
    make(join(user.cwd, 'node_modules', 'evil', 'package.json'));
    make(join(user.cwd, 'package.json'));
    user.write('handfast.yaml', 'auth: { tokens: [{ name: a, token_file: ./token }] }\nplugins: [evil]\n');
    const failed = await user.failure(['config', 'check']);
    assert.deepEqual([failed.exit, failed.code], [2, 'config_invalid'], failed.message);
    assert.equal((await user.run(['trust', 'add', '--yes', '--json'])).code, 0);
  });
}

test('a socket in place of a file is refused', async (t) => {
  const folder = temporary(t);
  const server = createServer().listen(join(folder, 'handfast.yaml'));
  t.after(() => server.close());
  await new Promise((resolve) => server.once('listening', resolve));
  assert.deepEqual(readBounded(join(folder, 'handfast.yaml'), 100), { kind: 'refused', reason: 'is not a file' });
});

test('a .git file is believed only as far as the repository that it names confirms it', (t) => {
  const folder = temporary(t);
  const own = join(folder, 'own');
  const tree = join(folder, 'tree');
  const hostile = join(folder, 'hostile');
  const admin = join(own, '.git', 'worktrees', 'tree');
  for (const path of [admin, tree, join(hostile, 'sub')]) mkdirSync(path, { recursive: true });
  writeFileSync(join(admin, 'commondir'), '../..\n');
  writeFileSync(join(admin, 'gitdir'), `${join(tree, '.git')}\n`);
  writeFileSync(join(tree, '.git'), `gitdir: ${admin}\n`);
  const repository = join(own, '.git');
  assert.equal(placeOf(own).repository, repository);
  assert.deepEqual(placeOf(tree), { repository, top: tree, folder: tree, isRepository: true });
  const dotGit = join(hostile, '.git');
  const unconfirmed: readonly [string, () => void][] = [
    ['another worktree', () => writeFileSync(dotGit, `gitdir: ${admin}\n`)],
    ['by a relative path', () => writeFileSync(dotGit, 'gitdir: ../own/.git/worktrees/tree\n')],
    ['the repository', () => writeFileSync(dotGit, `gitdir: ${repository}\n`)],
    ['several lines', () => writeFileSync(dotGit, `gitdir: ${admin}\ngitdir: ${admin}\n`)],
    ['a link', () => symlinkSync(repository, dotGit)],
    ['a link to the file of the worktree', () => symlinkSync(join(tree, '.git'), dotGit)],
    [
      'an admin folder of its own, whose commondir leads there',
      () => {
        const fake = join(hostile, 'fake', 'worktrees', 'w');
        mkdirSync(fake, { recursive: true });
        writeFileSync(join(fake, 'commondir'), `${repository}\n`);
        writeFileSync(join(fake, 'gitdir'), `${dotGit}\n`);
        writeFileSync(dotGit, `gitdir: ${fake}\n`);
      },
    ],
    [
      'a link to its own admin folder below a worktrees folder of that name',
      () => {
        const fake = join(hostile, 'linked');
        mkdirSync(fake);
        symlinkSync(join(own, '.git', 'worktrees'), join(fake, 'worktrees'));
        writeFileSync(dotGit, `gitdir: ${join(fake, 'worktrees', 'tree')}\n`);
      },
    ],
  ];
  for (const [name, plant] of unconfirmed) {
    plant();
    const { repository: found } = placeOf(join(hostile, 'sub'));
    assert.equal(found, hostile, name);
    rmSync(dotGit, { recursive: true });
  }
  mkdirSync(dotGit);
  writeFileSync(join(dotGit, 'commondir'), `${repository}\n`);
  assert.equal(placeOf(hostile).repository, dotGit, 'a folder is a repository of its own');
});

test('modules are loaded from the bytes that were hashed, and a link that was exchanged is refused', async (t) => {
  const folder = temporary(t);
  const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
  write('handfast.yaml', 'plugins: [./plugin.mts, ./link.mjs]\n');
  write('plugin.mts', "import { value } from './inner.mts';\nexport const seen: string = value;\n");
  write('inner.mts', "export const value: string = 'trusted';\n");
  write('first.mjs', "export const value = 'trusted';\n");
  write('second.mjs', "export const value = 'exchanged';\n");
  symlinkSync('first.mjs', join(folder, 'link.mjs'));
  const store = new TrustStore({ home: join(folder, 'home') });
  const found = findFile(folder, 'handfast.yaml')!;
  const { files } = await manifestOf(found);
  assert.deepEqual(Object.keys(files).sort(), ['handfast.yaml', 'inner.mts', 'link.mjs', 'plugin.mts']);
  const { repository } = found.place;
  const about = { repository, folder: '', subject: 'handfast.yaml', path: folder } as const;
  await store.add([{ ...about, files, added_at: new Date(0).toISOString() }]);
  const trusted = await trustedFile(found, 'handfast.yaml', store);
  assert.ok(trusted);
  const held = new HeldTrust(trusted, found, store);
  await held.confirm();

  pinModules(trusted.covered.read, found.place);
  write('plugin.mts', "export const seen = 'exchanged';\n");
  write('inner.mts', "export const value = 'exchanged';\n");
  rmSync(join(folder, 'link.mjs'));
  symlinkSync('second.mjs', join(folder, 'link.mjs'));
  const load = (name: string) => import(pathToFileURL(join(folder, name)).href);
  assert.equal((await load('plugin.mts')).seen, 'trusted');
  await assert.rejects(load('link.mjs'), { code: 'untrusted_folder', message: /link\.mjs was exchanged/ });
  // A program is compared once more before it is started.
  await assert.rejects(held.confirm(), { code: 'untrusted_folder', message: /a file it runs has changed/ });
  assert.equal(await trustedFile(findFile(folder, 'handfast.yaml')!, 'handfast.yaml', store), undefined);
});

test('an import of the repository by a name is covered, and one that cannot be found is refused', async () => {
  const user = newUser();
  user.write('handfast.yaml', 'listen: http://127.0.0.1:0\nplugins: [./plugin.mjs]\n');
  user.write('package.json', '{"name":"own","type":"module","imports":{"#a":"./a.mjs"},"exports":{"./b":"./b.mjs"}}');
  const plugin = 'export const plugins = [];\n';
  user.write('plugin.mjs', `import '#a';\nimport 'own/b';\n${plugin}`);
  user.write('a.mjs', '');
  user.write('b.mjs', '');
  const { trusted } = await user.json<{ trusted: { files: object }[] }>(['trust', 'add', '--yes']);
  assert.deepEqual(Object.keys(trusted[0]?.files ?? {}).sort(), ['a.mjs', 'b.mjs', 'handfast.yaml', 'plugin.mjs']);
  user.write('b.mjs', 'process.exit(0);');
  assert.equal((await user.failure(['up'])).code, 'untrusted_folder', 'a change asks');

  user.write('plugin.mjs', `import '\\x2e/a.mjs';\n${plugin}`);
  user.write('a.mjs', 'process.exit(0);');
  await user.run(['trust', 'add', '--yes', '--json']);
  const hidden = await user.failure(['up']);
  assert.equal(hidden.code, 'untrusted_folder', hidden.message);
  assert.match(hidden.message, /a\.mjs is loaded by a name or path that was not found/);
});

test('a folder that git takes for a repository without .git is asked about before git runs in it', async () => {
  const user = newUser();
  execFileSync('git', ['init', '-q', '--bare', user.cwd]);
  mkdirSync(join(user.cwd, 'sub'));
  assert.equal(placeOf(join(user.cwd, 'sub')).isRepository, true);
  const failed = await user.failure(['worker', '--id', 'a', '--executor', 'rehearsal', '--join', 'http://127.0.0.1:1']);
  assert.equal(failed.code, 'untrusted_folder', failed.message);
});

test('a command that is copied from a message runs nothing that the name of a folder says', () => {
  for (const name of [
    '$(touch x)',
    '`touch x`',
    "a'$(touch x)'",
    'line\n; touch x',
    '"; touch x; "',
    "\\'\t; touch x",
  ]) {
    const { stdout } = spawnSync('bash', ['-c', `printf %s ${quoted(name)}`], { encoding: 'utf8' });
    assert.equal(stdout, name);
    assert.doesNotMatch(quoted(name), /[\n\t]/);
  }
});

test('a store of trust that other users could change trusts nothing', {
  skip: process.platform === 'win32',
}, async (t) => {
  const home = join(temporary(t), 'home');
  const store = new TrustStore({ home });
  const place = { repository: '/r', folder: '', subject: 'skills', path: '/r', files: {} } as const;
  await store.add([{ ...place, added_at: '2026-01-01T00:00:00.000Z' }]);
  chmodSync(store.file, 0o620);
  await assert.rejects(new TrustStore({ home }).entries(), {
    code: 'config_invalid',
    message: /other users could change/,
  });
  assert.equal(statSync(store.file).mode & 0o777, 0o620, 'the next start refuses it as well');
});

test('many processes that trust folders at once lose nothing', async (t) => {
  const home = join(temporary(t), 'home');
  const about = {
    repository: '/r',
    subject: 'skills',
    path: '/r',
    files: {},
    added_at: '2026-01-01T00:00:00.000Z',
  } as const;
  const stores = Array.from({ length: 8 }, () => new TrustStore({ home }));
  await Promise.all(stores.map((store, index) => store.add([{ ...about, folder: String(index) }])));
  const folders = (await new TrustStore({ home }).entries()).map(({ folder }) => folder);
  assert.deepEqual(folders.sort(), ['0', '1', '2', '3', '4', '5', '6', '7']);
  await stores[0]!.remove(({ folder }) => folder === '3');
  assert.equal((await stores[1]!.entries()).length, 7, 'another process sees the change at once');
});
