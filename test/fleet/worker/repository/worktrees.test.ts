/**
 * The end of worktrees that were kept: when a folder is removed, the parts that stay, and worktrees that are never touched.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Log } from '../../../../src/base/log.ts';
import { SqliteWorkerJournal } from '../../../../src/fleet/worker/journal-sqlite.ts';
import { changesSince, treeState } from '../../../../src/fleet/worker/repository/git.ts';
import { type Worktree, Worktrees } from '../../../../src/fleet/worker/repository/worktrees.ts';
import { git, repository } from '../../support/git-repository.ts';
import { block, scriptedExecutor } from '../../support/scripted-executor.ts';
import { bench, Desk, dispatch, folder, LEASE, silent } from '../../support/worker-bench.ts';

const DAY = 24 * 3600 * 1000;
const nothing = (): readonly string[] => [];

class Stand {
  nowMs = Date.now();
  readonly warned: unknown[] = [];
  readonly cwd: string;
  readonly home: string;
  readonly worktrees: Worktrees;

  constructor(cwd: string, home: string, maxKept?: number) {
    this.cwd = cwd;
    this.home = home;
    const log: Log = { ...silent, warn: (_message, about) => void this.warned.push(about) };
    const options = { repository: cwd, home, now: () => this.nowMs, log };
    this.worktrees = new Worktrees(maxKept === undefined ? options : { ...options, maxKept });
  }

  static async open(test: TestContext, maxKept?: number): Promise<Stand> {
    const cwd = await folder(test);
    await repository(cwd);
    return new Stand(cwd, await folder(test), maxKept);
  }

  /** Runs a turn of a context that leaves a file behind, in the way that `how` says. */
  async turn(context: string, how: 'commit' | 'detach' | 'leave'): Promise<Worktree> {
    const worktree = await this.worktrees.open(context);
    const { path } = worktree;
    await writeFile(join(path, `${context}.txt`), context);
    if (how !== 'leave') {
      if (how === 'detach') await git(path, 'checkout', '--quiet', '--detach');
      await git(path, 'add', '.');
      await git(path, 'commit', '--quiet', '-m', context);
    }
    assert.equal(await this.worktrees.leave(worktree, await changesSince(worktree.mark)), false);
    return worktree;
  }

  async after(days: number, unseen = nothing): Promise<void> {
    this.nowMs += days * DAY;
    await this.worktrees.end(unseen);
  }
}

test('a folder whose content is committed is removed after a week; its branch stays, and its conversation can continue', async (t) => {
  const stand = await Stand.open(t);
  const { path, branch } = await stand.turn('c-1', 'commit');
  await stand.after(7);
  assert.ok(existsSync(path));
  await stand.after(0.01);
  assert.ok(!existsSync(path));
  assert.equal((await git(stand.cwd, 'worktree', 'list')).split('\n').length, 1);
  assert.equal(await git(stand.cwd, 'show', `${branch}:c-1.txt`), 'c-1');
  const again = await stand.worktrees.open('c-1');
  assert.deepEqual([again.path, again.branch], [path, branch]);
  assert.ok(existsSync(join(path, 'c-1.txt')));
});

test('uncommitted changes stay for a month, and as long as their result is not delivered', async (t) => {
  const stand = await Stand.open(t);
  const { path, cwd } = await stand.turn('c-1', 'leave');
  await stand.after(30);
  assert.ok(existsSync(join(path, 'c-1.txt')));
  await stand.after(300, () => [cwd]);
  assert.ok(existsSync(join(path, 'c-1.txt')));
  assert.deepEqual(stand.warned, []);
  await stand.after(0);
  assert.ok(!existsSync(path));
  const [lost] = stand.warned as { worktree: string; some: string[] }[];
  assert.deepEqual([lost?.worktree, lost?.some], [path, ['c-1.txt']]);
});

test('commits that are on no branch get one, and a branch with nothing of its own goes with its folder', async (t) => {
  const stand = await Stand.open(t);
  const { path } = await stand.turn('c-1', 'detach');
  const commit = await git(path, 'rev-parse', 'HEAD');
  const merged = await stand.turn('c-2', 'commit');
  await git(stand.cwd, 'merge', '--quiet', merged.branch);
  await stand.after(8);
  assert.ok(!existsSync(path) && !existsSync(merged.path));
  const kept = `handfast/kept-${commit.slice(0, 16)}`;
  assert.equal(await git(stand.cwd, 'rev-parse', kept), commit);
  assert.equal(await git(stand.cwd, 'branch', '--list', merged.branch), '');
});

test('past the number that stays the least recently used go, but none with uncommitted changes', async (t) => {
  const stand = await Stand.open(t, 2);
  const dirty = await stand.turn('c-0', 'leave');
  stand.nowMs += 1000;
  const made: Worktree[] = [];
  for (const context of ['c-1', 'c-2', 'c-3']) {
    made.push(await stand.turn(context, 'commit'));
    stand.nowMs += 1000;
  }
  await stand.worktrees.leave(await stand.worktrees.open('c-1'), undefined);
  await stand.after(0);
  const left = [dirty, ...made].map(({ path }) => existsSync(path));
  assert.deepEqual(left, [true, true, false, false], 'c-1 was used again');
});

test('a folder that is worked in, one that git did not make, and one that is locked are left alone', async (t) => {
  const stand = await Stand.open(t);
  const [used, locked] = [await stand.turn('c-1', 'commit'), await stand.turn('c-2', 'commit')];
  const other = join(stand.home, 'worktrees', 'notes');
  await mkdir(other);
  await git(stand.cwd, 'worktree', 'lock', locked.path);
  const again = await stand.worktrees.open('c-1');
  await stand.after(100);
  assert.deepEqual(
    [used.path, locked.path, other].map((path) => existsSync(path)),
    [true, true, true],
  );
  await stand.worktrees.leave(again, undefined);
  await stand.after(6);
  assert.ok(existsSync(used.path), 'its time starts again');
  await stand.after(2);
  assert.ok(!existsSync(used.path));
});

test('what was removed by hand is taken off the list of git', async (t) => {
  const stand = await Stand.open(t);
  const { path } = await stand.turn('c-1', 'commit');
  await stand.turn('c-2', 'leave');
  await rm(path, { recursive: true });
  await stand.after(0);
  assert.equal((await git(stand.cwd, 'worktree', 'list')).split('\n').length, 2);
});

test('a worker ends what an earlier process of it kept, unless its result is not delivered', async (t) => {
  const cwd = await folder(t);
  await repository(cwd);
  const home = await folder(t);
  const executor = scriptedExecutor(async ({ taskId }, context) => {
    await writeFile(join(context.cwd, `${taskId}.txt`), taskId);
    await git(context.cwd, 'add', '.');
    await git(context.cwd, 'commit', '--quiet', '-m', taskId);
    return block(taskId);
  });
  const wanted = { access: 'write', worktree: true } as const;
  const first = await bench(t, { executor, cwd, home });
  await first.do(dispatch('t-1', wanted));
  await first.idle();
  const away = new Desk('away');
  away.refuses = true;
  const taken = await first.worker.receive(dispatch('t-2', wanted), away);
  if (taken.kind === 'accepted') taken.start(LEASE);
  await first.idle();
  await first.worker.close();
  const journal = new SqliteWorkerJournal(home, Date.now);
  assert.match(journal.worktrees().join(), /^[^,]*worktrees\/t-2-[^,]*$/);
  journal.close();

  const removed = Promise.withResolvers<unknown>();
  const log: Log = {
    ...silent,
    info: (message, about) => void (/worktree removed/.test(message) && removed.resolve(about?.worktree)),
  };
  const now = () => Date.now() + 8 * DAY;
  const again = await bench(t, { executor, cwd, home, now, log });
  assert.match(String(await removed.promise), /worktrees\/t-1-/);
  await again.worker.close();
  assert.deepEqual(
    (await readdir(join(home, 'worktrees'))).map((name) => name.slice(0, 4)),
    ['t-2-'],
  );
});

test('a file with the bytes of its commit is no work, though git lists it as changed', async (t) => {
  const stand = await Stand.open(t);
  const { cwd, worktrees } = stand;
  for (const name of ['dos.txt', 'large.bin', 'own.txt']) await writeFile(join(cwd, name), 'one\r\ntwo\r\n');
  await git(cwd, 'add', '.');
  await git(cwd, 'commit', '--quiet', '-m', 'with CRLF, and a large file as it is');
  // The filter of a team that moved its large files out of git.
  await git(cwd, 'config', 'filter.lfs.clean', "printf 'oid '; wc -c");
  await git(cwd, 'config', 'filter.lfs.smudge', 'cat');
  const attributes = '*.txt text eol=lf\n*.bin filter=lfs -text\n';
  const edited = async (name: string) => {
    const worktree = await worktrees.open(name);
    await writeFile(join(worktree.path, '.gitattributes'), attributes);
    await git(worktree.path, 'add', '.gitattributes');
    await git(worktree.path, 'commit', '--quiet', '-m', 'attributes');
    // As a build, `git stash` or an editor that saves writes them.
    for (const file of ['dos.txt', 'large.bin']) await writeFile(join(worktree.path, file), 'one\r\ntwo\r\n');
    return worktree;
  };
  const same = await edited('c-1');
  const dirty = (await treeState(same.path))?.dirty ?? [];
  assert.deepEqual([dirty.includes('dos.txt'), dirty.includes('large.bin')], [true, true], 'git lists them');
  const other = await edited('c-2');
  await writeFile(join(other.path, 'own.txt'), 'three\r\n');
  const staged = await edited('c-3');
  await writeFile(join(staged.path, 'dos.txt'), 'staged\n');
  await git(staged.path, 'add', 'dos.txt');
  await writeFile(join(staged.path, 'dos.txt'), 'one\r\ntwo\r\n');
  for (const worktree of [same, other, staged]) await worktrees.leave(worktree, await changesSince(worktree.mark));
  await stand.after(8);
  assert.deepEqual(
    [same, other, staged].map(({ path }) => existsSync(path)),
    [false, true, true],
  );
});
