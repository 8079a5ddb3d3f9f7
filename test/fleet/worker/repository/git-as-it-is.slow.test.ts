/**
 * Worktrees in repositories as they are: taken names, submodules, ignored files, filters, links, several workers, half-made
 * folders.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, readlink, realpath, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Log } from '../../../../src/base/log.ts';
import { resultMessage } from '../../../../src/fleet/messages/encode.ts';
import { verify } from '../../../../src/fleet/orchestrator/verify.ts';
import { identityOf } from '../../../../src/fleet/worker/process-identity.ts';
import { changesSince, markTree, treeState } from '../../../../src/fleet/worker/repository/git.ts';
import { type Worktree, Worktrees } from '../../../../src/fleet/worker/repository/worktrees.ts';
import { git, repository } from '../../support/git-repository.ts';
import { block, scriptedExecutor } from '../../support/scripted-executor.ts';
import { bench, dispatch, folder, silent } from '../../support/worker-bench.ts';

const DAY = 24 * 3600 * 1000;

interface Place {
  readonly cwd: string;
  readonly home: string;
  readonly worktrees: Worktrees;
  readonly logged: string[];
  /** Ends the worktrees that are older than `days`. */
  after(days: number): Promise<void>;
}

/** Opens a worker's worktrees of a repository, which is made where none is given. */
async function place(t: TestContext, given: { cwd?: string; home?: string } = {}): Promise<Place> {
  const cwd = given.cwd ?? (await folder(t));
  if (given.cwd === undefined) await repository(cwd);
  const home = given.home ?? (await folder(t));
  const logged: string[] = [];
  const note: Log['info'] = (message, about) => void logged.push(`${message} ${JSON.stringify(about)}`);
  const log: Log = { ...silent, info: note, warn: note };
  let nowMs = Date.now();
  const worktrees = new Worktrees({ repository: cwd, home, now: () => nowMs, log });
  const after = (days: number) => {
    nowMs += days * DAY;
    return worktrees.end(() => []);
  };
  return { cwd, home, worktrees, logged, after };
}

const leave = async (worktrees: Worktrees, worktree: Worktree) =>
  worktrees.leave(worktree, await changesSince(worktree.mark));

async function until(met: () => Promise<boolean>): Promise<void> {
  while (!(await met())) await new Promise((resolve) => setTimeout(resolve, 10));
}

const listed = async (cwd: string) => (await git(cwd, 'worktree', 'list')).split('\n').length - 1;

for (const taken of ['handfast', 'Handfast']) {
  test(`a repository that has a branch "${taken}" gets its worktrees on branches with another name`, async (t) => {
    const { cwd, worktrees, after } = await place(t);
    await git(cwd, 'branch', taken);
    const first = await worktrees.open('c-1');
    assert.match(first.branch, /^handfast-c-1-\w+$/);
    await git(first.path, 'checkout', '--quiet', '--detach');
    await git(first.path, 'commit', '--quiet', '--allow-empty', '-m', 'one');
    assert.equal(await leave(worktrees, first), false);
    await after(8);
    assert.match(await git(cwd, 'branch', '--list', 'handfast-kept-*'), /kept-\w{16}$/, 'commits on no branch as well');
    await git(cwd, 'branch', '-D', taken);
    const again = await worktrees.open('c-1');
    assert.equal(again.branch, first.branch, 'it continues on the branch that it has');
    assert.equal(await leave(worktrees, again), true);
    assert.equal(await git(cwd, 'branch', '--list', 'handfast-c-*'), '');
  });
}

test('a branch whose name begins with that of the conversation is not in its way', async (t) => {
  const { cwd, worktrees } = await place(t);
  const { branch, ...worktree } = await worktrees.open('c-1');
  await leave(worktrees, { branch, ...worktree });
  await git(cwd, 'branch', `${branch}/theirs`);
  assert.equal((await worktrees.open('c-1')).branch, `${branch}-2`);
});

test('a branch that is in the middle of a rebase elsewhere is continued on another', async (t) => {
  const { cwd, worktrees } = await place(t);
  const first = await worktrees.open('c-1');
  await git(first.path, 'commit', '--quiet', '--allow-empty', '-m', 'work');
  await leave(worktrees, first);
  await git(cwd, 'worktree', 'remove', first.path);
  await git(cwd, 'checkout', '--quiet', first.branch);
  await git(cwd, '-c', 'sequence.editor=sed -i s/^pick/edit/', 'rebase', '--quiet', '--keep-empty', '-i', 'HEAD~1');
  const again = await worktrees.open('c-1');
  assert.equal(again.branch, `${first.branch}-2`);
  assert.equal(again.mark.head, await git(cwd, 'rev-parse', `refs/heads/${first.branch}`));
});

test('a person who looks at the branch of a conversation keeps the uncommitted files there', async (t) => {
  const { cwd, worktrees } = await place(t);
  const first = await worktrees.open('c-1');
  await git(first.path, 'commit', '--quiet', '--allow-empty', '-m', 'work');
  await leave(worktrees, first);
  await git(cwd, 'worktree', 'remove', first.path);
  const review = join(await folder(t), 'worktrees', 'review');
  await git(cwd, 'worktree', 'add', '--quiet', review, first.branch);
  await writeFile(join(review, 'private.txt'), '1');
  const again = await worktrees.open('c-1');
  assert.deepEqual([again.branch, again.mark.dirty, again.path], [`${first.branch}-2`, [], first.path]);
  assert.equal(again.mark.head, await git(review, 'rev-parse', 'HEAD'));
});

test('a git without -z for the list of worktrees will do', async (t) => {
  const { cwd, worktrees } = await place(t);
  const programs = await folder(t);
  const { stdout } = await promisify(execFile)('sh', ['-c', 'command -v git']);
  const old = `#!/bin/sh\nfor word; do [ "$word" = -z ] && case "$*" in *"worktree list"*) exit 129;; esac; done\nexec ${stdout.trim()} "$@"\n`;
  await writeFile(join(programs, 'git'), old, { mode: 0o755 });
  const path = process.env.PATH;
  t.after(() => {
    process.env.PATH = path;
  });
  process.env.PATH = `${programs}:${path}`;
  const worktree = await worktrees.open('c-1');
  assert.equal(await leave(worktrees, worktree), true);
  assert.equal(await listed(cwd), 0);
});

test('a damaged reference in the way of the usual names is on no list, and another name is taken', async (t) => {
  const { cwd, worktrees } = await place(t);
  await writeFile(join(cwd, '.git', 'refs', 'heads', 'handfast'), '');
  assert.match((await worktrees.open('c-1')).branch, /^handfast-c-1-[0-9a-f]{10}$/);
});

test('a lock of another git is waited for, without a user name and with hooks that fail', async (t) => {
  const { cwd, worktrees } = await place(t);
  await git(cwd, 'pack-refs', '--all');
  await git(cwd, 'config', 'user.useConfigOnly', 'true');
  await git(cwd, 'config', 'commit.gpgSign', 'true');
  for (const hook of ['post-checkout', 'reference-transaction', 'post-index-change']) {
    await writeFile(join(cwd, '.git', 'hooks', hook), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
  }
  const lock = join(cwd, '.git', 'packed-refs.lock');
  const worktree = await worktrees.open('c-1');
  await writeFile(lock, '');
  const [left] = await Promise.all([
    leave(worktrees, worktree),
    until(async () => existsSync(lock)).then(() => rm(lock)),
  ]);
  assert.equal(left, true);
  assert.equal(await git(cwd, 'branch', '--list', 'handfast/*'), '');
});

test('a worktree of a submodule, and of a part that was checked out sparsely', async (t) => {
  const library = await folder(t);
  await repository(library);
  const { cwd } = await place(t);
  await git(cwd, '-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', library, 'vendor');
  for (const name of ['one', 'two']) {
    await mkdir(join(cwd, name));
    await writeFile(join(cwd, name, 'x.txt'), '1');
  }
  await git(cwd, 'add', '.');
  await git(cwd, 'commit', '--quiet', '-m', 'second');
  await git(cwd, 'sparse-checkout', 'set', 'one');
  for (const sub of ['vendor', 'one']) {
    const { worktrees } = await place(t, { cwd: join(cwd, sub) });
    const worktree = await worktrees.open('c-1');
    await writeFile(join(worktree.cwd, 'new.txt'), '1');
    assert.deepEqual((await changesSince(worktree.mark)).files_changed, ['new.txt'], sub);
    await rm(join(worktree.cwd, 'new.txt'));
    assert.equal(await leave(worktrees, worktree), true, sub);
  }
});

test('a submodule that was checked out holds no worktree; work in it does', async (t) => {
  const library = await folder(t);
  await repository(library);
  const { cwd, worktrees, after } = await place(t);
  const allow = ['-c', 'protocol.file.allow=always'];
  await git(cwd, ...allow, 'submodule', '--quiet', 'add', library, 'vendor');
  await git(cwd, 'commit', '--quiet', '-m', 'submodule');
  const works: Record<string, (vendor: string) => Promise<unknown>> = {
    nothing: async () => {},
    'a file': (vendor) => writeFile(join(vendor, 'new.txt'), '1'),
    'a commit': async (vendor) => {
      await git(vendor, 'commit', '--quiet', '--allow-empty', '-m', 'own');
      await git(vendor, 'checkout', '--quiet', '--detach', 'HEAD~1');
      await git(vendor, 'branch', '--quiet', 'own', 'HEAD@{1}');
    },
    'an ignored file': async (vendor) => {
      const exclude = await git(vendor, 'rev-parse', '--path-format=absolute', '--git-path', 'info/exclude');
      await writeFile(exclude, 'built\n');
      await writeFile(join(vendor, 'built'), '1');
    },
  };
  for (const [name, work] of Object.entries(works)) {
    const worktree = await worktrees.open(name);
    await git(worktree.path, ...allow, 'submodule', '--quiet', 'update', '--init');
    await work(join(worktree.path, 'vendor'));
    assert.equal(await leave(worktrees, worktree), name === 'nothing', name);
    assert.equal(existsSync(worktree.path), name !== 'nothing', name);
  }
  await after(8);
  assert.equal(await listed(cwd), 3, 'uncommitted files stay for a month');
  await after(30);
  assert.equal(await listed(cwd), 0);
});

test('files that git ignores, or does not look at, stay with their worktree, and are named when its time is over', async (t) => {
  const { cwd, worktrees, after, logged } = await place(t);
  await writeFile(join(cwd, '.gitignore'), 'build/\n');
  await git(cwd, 'add', '.');
  await git(cwd, 'commit', '--quiet', '-m', 'ignore');
  const ignored = await worktrees.open('ignored');
  await mkdir(join(ignored.path, 'build'));
  await writeFile(join(ignored.path, 'build', 'report.txt'), '1');
  assert.equal(await leave(worktrees, ignored), false);
  const again = await worktrees.open('ignored');
  assert.equal(await readFile(join(again.cwd, 'build', 'report.txt'), 'utf8'), '1', 'its conversation finds them');
  await leave(worktrees, again);
  const hidden = await worktrees.open('hidden');
  await git(hidden.path, 'update-index', '--assume-unchanged', 'a.txt');
  await writeFile(join(hidden.path, 'a.txt'), 'two\n');
  assert.equal(await leave(worktrees, hidden), false);
  await after(8);
  assert.deepEqual([existsSync(ignored.path), existsSync(hidden.path)], [false, true]);
  assert.match(logged.join('\n'), /worktree removed.*"some_ignored":\["build\/"\]/);
});

test('a checkout that line ends make dirty at once is not a change of a task', async (t) => {
  const { cwd, worktrees, after } = await place(t);
  await writeFile(join(cwd, 'dos.txt'), 'one\r\ntwo\r\n');
  await git(cwd, 'add', '.');
  await git(cwd, 'commit', '--quiet', '-m', 'with CRLF');
  await writeFile(join(cwd, '.gitattributes'), '*.txt text eol=lf\n');
  await git(cwd, 'add', '.gitattributes');
  await git(cwd, 'commit', '--quiet', '-m', 'normalized');
  const worktree = await worktrees.open('c-1');
  const before = await treeState(worktree.path);
  assert.deepEqual(before?.dirty, ['dos.txt'], 'git lists it');
  assert.equal(await leave(worktrees, worktree), true);
  const committed = await worktrees.open('c-2');
  await git(committed.path, 'commit', '--quiet', '--allow-empty', '-m', 'one');
  assert.equal(await leave(worktrees, committed), false);
  const changed = await worktrees.open('c-3');
  await writeFile(join(changed.path, 'dos.txt'), 'three\r\n');
  assert.equal(await leave(worktrees, changed), false);
  await after(8);
  assert.deepEqual([existsSync(committed.path), existsSync(changed.path)], [false, true]);
});

test('work beside more dirty files of a checkout than are compared stays', async (t) => {
  const { cwd, worktrees } = await place(t);
  const names = Array.from({ length: 5_100 }, (_, at) => `dos-${at}.txt`);
  for (const name of names) await writeFile(join(cwd, name), 'one\r\n');
  await git(cwd, 'add', '.');
  await git(cwd, 'commit', '--quiet', '-m', 'with CRLF');
  await writeFile(join(cwd, '.gitattributes'), '*.txt text eol=lf\n');
  await git(cwd, 'add', '.gitattributes');
  await git(cwd, 'commit', '--quiet', '-m', 'normalized');
  const worktree = await worktrees.open('c-1');
  await writeFile(join(worktree.path, 'work'), '1');
  assert.equal(await leave(worktrees, worktree), false);
  assert.ok(existsSync(join(worktree.path, 'work')));
});

test('commits of a branch stay when the worktree ends at another commit', async (t) => {
  const { cwd, worktrees } = await place(t);
  const worktree = await worktrees.open('c-1');
  await git(worktree.path, 'commit', '--quiet', '--allow-empty', '-m', 'work');
  const work = await git(worktree.path, 'rev-parse', 'HEAD');
  await git(worktree.path, 'checkout', '--quiet', '--detach', 'main');
  assert.equal(await leave(worktrees, worktree), false);
  assert.equal(await git(cwd, 'rev-parse', worktree.branch), work);
});

test('a worktree that its task removed is off the list, and one that cannot be made leaves no branch', async (t) => {
  const { cwd, worktrees } = await place(t);
  const worktree = await worktrees.open('c-1');
  await rm(worktree.path, { recursive: true });
  assert.equal(await worktrees.leave(worktree, undefined), true);
  assert.equal((await worktrees.open('c-1')).path, worktree.path);
  await writeFile(join(cwd, '.gitattributes'), '*.bin filter=lfs\n');
  await writeFile(join(cwd, 'x.bin'), '1');
  await git(cwd, 'add', '.');
  await git(cwd, 'commit', '--quiet', '-m', 'lfs');
  await git(cwd, 'config', 'filter.lfs.smudge', 'no-such-program-%f');
  await git(cwd, 'config', 'filter.lfs.required', 'true');
  await assert.rejects(worktrees.open('c-2'), /git worktree failed: .*no-such-program.*not found/);
  assert.equal(await git(cwd, 'branch', '--list', 'handfast/c-2*'), '');
});

test('a home and a repository behind links: its worktrees are found, kept and removed', async (t) => {
  const links = await folder(t);
  const real = await place(t);
  await mkdir(join(real.cwd, 'sub'));
  await symlink(real.cwd, join(links, 'app'));
  await symlink(real.home, join(links, 'home'));
  const linked = await place(t, { cwd: join(links, 'app', 'sub'), home: join(links, 'home') });
  const worktree = await linked.worktrees.open('c-1');
  assert.equal(worktree.path, await realpath(worktree.path));
  assert.equal(worktree.cwd, join(worktree.path, 'sub'));
  await writeFile(join(worktree.cwd, 'new.txt'), '1');
  await writeFile(join(worktree.path, 'top.txt'), '1');
  const changes = await changesSince(worktree.mark);
  assert.deepEqual([changes.files_changed, changes.files_outside], [['new.txt'], ['top.txt']]);
  await linked.worktrees.leave(worktree, changes);
  assert.equal((await real.worktrees.open('c-1')).path, worktree.path);
  await real.worktrees.leave(worktree, changes);
  await linked.worktrees.end(() => [join(links, 'home', 'worktrees', worktree.path.split('/').at(-1) as string)]);
  await linked.after(31);
  assert.equal(await listed(real.cwd), 0);
});

test('a conversation continues at another worker in its worktree, or in another while a task works there', async (t) => {
  const small = await place(t);
  const { cwd } = small;
  const large = await place(t, { cwd });
  const first = await small.worktrees.open('talk');
  for (const name of ['uncommitted.txt', 'a.txt']) await writeFile(join(first.path, name), 'changed');
  await git(first.path, 'commit', '--quiet', '--allow-empty', '-m', 'committed');
  const meanwhile = await large.worktrees.open('talk');
  assert.notEqual(meanwhile.path, first.path);
  assert.equal(meanwhile.branch, `${first.branch}-2`);
  assert.equal(meanwhile.mark.head, await git(first.path, 'rev-parse', 'HEAD'), 'from the commit');
  assert.deepEqual(meanwhile.mark.dirty, ['a.txt', 'uncommitted.txt'], 'with the uncommitted files');
  assert.equal(await readFile(join(meanwhile.path, 'a.txt'), 'utf8'), 'changed');
  assert.equal(await leave(large.worktrees, meanwhile), false, 'it is the only one with all of it now');
  await rm(meanwhile.path, { recursive: true });
  await leave(small.worktrees, first);
  const busy = await small.worktrees.open('talk');
  await git(first.path, 'checkout', '--quiet', '-b', 'feature');
  await git(first.path, 'commit', '--quiet', '--allow-empty', '-m', 'on another branch');
  const switched = await large.worktrees.open('talk');
  assert.equal(switched.mark.head, await git(cwd, 'rev-parse', 'feature'));
  await leave(large.worktrees, switched);
  await rm(switched.path, { recursive: true });
  await git(first.path, 'checkout', '--quiet', busy.branch);
  await leave(small.worktrees, busy);
  const continued = await large.worktrees.open('talk');
  assert.equal(continued.path, first.path);
  assert.ok(existsSync(join(continued.cwd, 'uncommitted.txt')));
  await small.after(40);
  assert.ok(existsSync(first.path), 'another worker works in it');
  await leave(large.worktrees, continued);
  const single = await small.worktrees.open('t-1', false);
  await writeFile(join(single.path, 'half.txt'), '1');
  await leave(small.worktrees, single);
  const elsewhere = await large.worktrees.open('t-1', false);
  assert.ok(!existsSync(join(elsewhere.path, 'half.txt')), 'a task without a context starts from the commit');
  // The home of a removed worker.
  await rm(small.home, { recursive: true });
  const moved = await large.worktrees.open('talk');
  assert.equal(moved.branch, first.branch);
});

test('a worktree whose worker was killed is free again, and one of another process is not taken', async (t) => {
  const { cwd, worktrees, after } = await place(t);
  const other = await place(t, { cwd });
  const kept = await worktrees.open('c-1');
  await writeFile(join(kept.path, 'x'), '1');
  await leave(worktrees, kept);
  const lock = (started = '') =>
    git(
      cwd,
      'worktree',
      'lock',
      '--reason',
      `handfast: a task works here (process ${process.ppid}, ${started})`,
      kept.path,
    );
  await lock('long ago');
  const aside = await other.worktrees.open('c-1');
  assert.notEqual(aside.path, kept.path, 'programs that the killed one started may work on');
  assert.ok(existsSync(join(aside.path, 'x')), 'with the files of the killed one');
  await leave(other.worktrees, aside);
  await rm(aside.path, { recursive: true });
  await after(0);
  const continued = await other.worktrees.open('c-1');
  assert.equal(continued.path, kept.path, 'its own worker has ended them at its start');
  await leave(other.worktrees, continued);
  await lock((await identityOf(process.ppid))?.started);
  await after(0);
  assert.notEqual((await worktrees.open('c-1')).path, kept.path);
});

test('the files copied for a conversation stay in its worktree, also where a link would lead out of it', async (t) => {
  const outside = await folder(t);
  const small = await place(t);
  await symlink(outside, join(small.cwd, 'link'));
  await git(small.cwd, 'add', '.');
  await git(small.cwd, 'commit', '--quiet', '-m', 'link');
  const first = await small.worktrees.open('talk');
  await git(first.path, 'update-index', '--assume-unchanged', 'link');
  await rm(join(first.path, 'link'));
  await mkdir(join(first.path, 'link'));
  await writeFile(join(first.path, 'link', 'planted'), '1');
  await rm(join(first.path, 'a.txt'));
  await symlink('nowhere', join(first.path, 'dangling'));
  const large = await place(t, { cwd: small.cwd });
  const copy = await large.worktrees.open('talk');
  assert.deepEqual(await readdir(outside), []);
  assert.deepEqual(
    [existsSync(join(copy.path, 'a.txt')), await readlink(join(copy.path, 'dangling'))],
    [false, 'nowhere'],
  );
});

test('names that are no UTF-8 are reported in a readable form, stay apart, and are copied with the others', async (t) => {
  const small = await place(t);
  const first = await small.worktrees.open('talk');
  const named = (top: string, last: number) => Buffer.concat([Buffer.from(join(top, 'caf')), Buffer.of(last)]);
  await mkdir(named(first.path, 0xff));
  const inFolder = (top: string) => Buffer.concat([named(top, 0xff), Buffer.from('/in.txt')]);
  for (const file of [named(first.path, 0xe9), named(first.path, 0xe8), inFolder(first.path)])
    await writeFile(file, '1');
  const mark = await markTree(first.path);
  assert.ok(mark);
  await writeFile(named(first.path, 0xe9), 'longer');
  assert.deepEqual((await changesSince(mark)).files_changed, ['caf\\xe9'], 'only that one');
  const { files_changed } = await changesSince(first.mark);
  assert.deepEqual(files_changed, ['caf\\xe8', 'caf\\xe9', 'caf\\xff/in.txt']);
  const artifacts = { files_changed, base_commit: first.mark.head, worktree: first.path };
  const checked = await verify(resultMessage({ task_id: 't', status: 'done', artifacts }), small.cwd, null);
  assert.deepEqual(checked, { verified: 'yes', reasons: ['3 of the named changes found'] });
  await git(first.path, 'init', '--quiet', 'nested');
  await writeFile(named(join(first.path, 'nested'), 0xe9), 'nested');
  const large = await place(t, { cwd: small.cwd });
  const copy = await large.worktrees.open('talk');
  assert.notEqual(copy.path, first.path);
  for (const [file, text] of [
    [named(copy.path, 0xe9), 'longer'],
    [named(copy.path, 0xe8), '1'],
    [inFolder(copy.path), '1'],
    [named(join(copy.path, 'nested'), 0xe9), 'nested'],
  ] as const) {
    assert.equal(await readFile(file, 'utf8'), text);
  }
  assert.deepEqual(large.logged, []);
  assert.equal(await leave(small.worktrees, first), false);
  await small.after(40);
  assert.match(small.logged.join(), /"some":\["caf\\\\xe8"/);
});

test('a half-made worktree is made again, and a folder that is not a worktree of this repository stays', async (t) => {
  const { cwd, home, worktrees, after } = await place(t);
  const made = await worktrees.open('c-1');
  await leave(worktrees, made);
  // As git leaves it when it is killed in the middle.
  await git(cwd, 'worktree', 'add', '--quiet', '-b', made.branch, made.path);
  await rm(join(made.path, 'a.txt'));
  await git(cwd, 'worktree', 'lock', '--reason', 'initializing', made.path);
  const again = await worktrees.open('c-1');
  assert.ok(existsSync(join(again.path, 'a.txt')));
  assert.equal(await leave(worktrees, again), true);
  await mkdir(made.path);
  assert.equal((await worktrees.open('c-1')).path, made.path, 'an empty folder is used');
  // One of another repository, with work in it.
  const elsewhere = await place(t, { home });
  const theirs = await elsewhere.worktrees.open('c-1');
  assert.notEqual(theirs.path, made.path);
  await rm(made.path, { recursive: true });
  await mkdir(made.path);
  await writeFile(join(made.path, 'notes.txt'), '1');
  const beside = await worktrees.open('c-1');
  assert.ok(existsSync(join(made.path, 'notes.txt')) && beside.path !== made.path);
  await mkdir(join(home, 'worktrees', 'x.removing'));
  await after(0);
  assert.ok(!existsSync(join(home, 'worktrees', 'x.removing')));
});

test('worktrees of a repository that was moved, or of a home that was, are repaired', async (t) => {
  const { cwd, home, worktrees } = await place(t);
  const worktree = await worktrees.open('c-1');
  await writeFile(join(worktree.path, 'x.txt'), '1');
  await leave(worktrees, worktree);
  await rename(cwd, `${cwd}-moved`);
  t.after(() => rm(`${cwd}-moved`, { recursive: true }));
  const moved = await place(t, { cwd: `${cwd}-moved`, home });
  const found = await moved.worktrees.open('c-1');
  assert.ok(existsSync(join(found.path, 'x.txt')));
  await leave(moved.worktrees, found);
  await rename(home, `${home}-moved`);
  t.after(() => rm(`${home}-moved`, { recursive: true }));
  await mkdir(home);
  const last = await place(t, { cwd: `${cwd}-moved`, home: `${home}-moved` });
  assert.ok(existsSync(join((await last.worktrees.open('c-1')).path, 'x.txt')));
});

test('a worktree of a person is never pruned, whether it is there or not', async (t) => {
  const { cwd, worktrees, after } = await place(t);
  const away = join(await folder(t), 'away');
  await git(cwd, 'worktree', 'add', '--quiet', '-b', 'theirs', away);
  await rm(away, { recursive: true });
  await leave(worktrees, await worktrees.open('c-1'));
  await after(0);
  assert.equal(await listed(cwd), 1);
});

test('many workers of one repository at once, in a repository with SHA-256 and one that is bare', async (t) => {
  const bare = join(await folder(t), 'app.git');
  const first = join(await folder(t), 'first');
  await mkdir(first);
  await git(first, 'init', '--quiet', '--object-format=sha256', '--initial-branch=main');
  await writeFile(join(first, 'a.txt'), '1');
  const mark = await markTree(first);
  await git(first, 'add', '.');
  await git(first, 'commit', '--quiet', '-m', 'first');
  assert.ok(mark);
  assert.deepEqual((await changesSince(mark)).files_changed, ['a.txt'], 'the first commit');
  await git(first, 'clone', '--quiet', '--bare', first, bare);
  const state = await treeState(bare);
  assert.deepEqual([state?.bare, state?.branch, state?.head?.length], [true, 'main', 64]);
  const places = await Promise.all([1, 2, 3].map(() => place(t, { cwd: bare })));
  const opened = await Promise.all(
    places.flatMap(({ worktrees }, at) => [worktrees.open(`a-${at}`), worktrees.open(`b-${at}`)]),
  );
  assert.equal(await listed(bare), 6);
  await Promise.all(opened.map((worktree, at) => leave((places[Math.floor(at / 2)] as Place).worktrees, worktree)));
  assert.equal(await listed(bare), 0);
});

test('processes that work in one repository at once do not meet', async (t) => {
  const { cwd } = await place(t);
  const child = fileURLToPath(import.meta.resolve('../../support/worktree-child.ts'));
  const homes = await Promise.all([1, 2].map(() => folder(t)));
  const run = promisify(execFile);
  const ends = homes.map((home) => run(process.execPath, ['-C', 'handfast-source', child, cwd, home]));
  assert.deepEqual(
    (await Promise.all(ends)).map(({ stdout }) => stdout),
    ['[]', '[]'],
  );
  const branches = (await git(cwd, 'branch', '--list', 'handfast*', '--format=%(refname:short)')).split('\n');
  assert.equal(branches.length, await listed(cwd), 'each worktree has its branch');
});

test('without a commit, or with a repository that git cannot read, a task is refused with the reason', async (t) => {
  const cwd = await folder(t);
  await git(cwd, 'init', '--quiet', '--initial-branch=main');
  const executor = scriptedExecutor(({ taskId }) => block(taskId));
  const empty = await bench(t, { executor, cwd, home: await folder(t) });
  const refused = await empty.do(dispatch('t-1', { access: 'write', worktree: true }));
  assert.match(refused.blocked_reason ?? '', /^missing_capability: worktree: the repository has no commit yet/);
  assert.equal((await empty.do(dispatch('t-2', { access: 'write' }))).status, 'done', 'in the folder itself it works');
  const broken = await folder(t);
  await repository(broken);
  await writeFile(join(broken, '.git', 'config'), '[core\n');
  const other = await bench(t, { executor, cwd: broken, home: await folder(t) });
  const { session } = await other.worker.announce();
  assert.equal(session?.repo_state, null);
  for (const wanted of [{ access: 'write' }, { access: 'write', worktree: true }] as const) {
    const { blocked_reason } = await other.do(dispatch(`t-${JSON.stringify(wanted).length}`, wanted));
    assert.match(
      blocked_reason ?? '',
      /^missing_capability: (repository|worktree): git status failed: fatal: bad config line 1/,
    );
  }
  assert.equal((await other.do(dispatch('t-3'))).status, 'done', 'a task that reads');
});

test('a result names files from the folder of its worker, and says that a worktree was removed', async (t) => {
  const cwd = await folder(t);
  await repository(cwd);
  const executor = scriptedExecutor(async ({ taskId }, context) => {
    if (taskId === 't-2') return block(taskId, { artifacts: { files_changed: ['a.txt'], worktree_removed: false } });
    await writeFile(join(context.cwd, 'made.txt'), '1');
    await chmod(join(context.cwd, 'a.txt'), 0o644);
    return block(taskId, { artifacts: { files_changed: [join(context.cwd, 'made.txt'), './made.txt'] } });
  });
  const worker = await bench(t, { executor, cwd, home: await folder(t) });
  const wanted = { access: 'write', worktree: true } as const;
  const { artifacts } = await worker.do(dispatch('t-1', wanted));
  assert.deepEqual([artifacts?.files_changed, artifacts?.files_claimed], [['made.txt'], undefined]);
  const removed = await worker.do(dispatch('t-2', wanted));
  assert.deepEqual([removed.artifacts?.worktree, removed.artifacts?.worktree_removed], [undefined, true]);
});
