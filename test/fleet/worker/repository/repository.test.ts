/**
 * Real git repositories under a worker: the changes of tasks, their owners, and separate worktrees.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { appendFile, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { changesSince, markTree, treeState } from '../../../../src/fleet/worker/repository/git.ts';
import { git, repository } from '../../support/git-repository.ts';
import { aborted, block, scriptedExecutor, type Turn } from '../../support/scripted-executor.ts';
import { type Bench, bench, dispatch, folder, LEASE } from '../../support/worker-bench.ts';

async function inRepository(test: TestContext, turn: Turn, home?: string): Promise<Bench & { base: string }> {
  const cwd = await folder(test);
  const base = await repository(cwd);
  return {
    ...(await bench(test, { executor: scriptedExecutor(turn), cwd, home: home ?? (await folder(test)) })),
    base,
  };
}

test('the state of a tree: branch, commit, and everything that is not committed', async (t) => {
  const cwd = await folder(t);
  const head = await repository(cwd);
  assert.deepEqual(await treeState(cwd), { branch: 'main', head, clean: true, dirty: [] });
  await writeFile(join(cwd, 'a.txt'), 'two\n');
  await writeFile(join(cwd, 'with space ä.txt'), 'new');
  await mkdir(join(cwd, 'sub'));
  await writeFile(join(cwd, 'sub', '? odd'), 'new');
  const dirty = await treeState(join(cwd, 'sub'));
  assert.deepEqual([...(dirty?.dirty ?? [])].sort(), ['a.txt', 'sub/? odd', 'with space ä.txt']);
  await git(cwd, 'checkout', '--quiet', '--detach');
  assert.equal((await treeState(cwd))?.branch, null);
  assert.equal(await treeState(await folder(t)), null, 'no repository');
});

test('a repository without a commit has no head, and what is committed first is a change', async (t) => {
  const cwd = await folder(t);
  await git(cwd, 'init', '--quiet', '--initial-branch=main');
  const mark = await markTree(cwd);
  assert.deepEqual([mark?.head, mark?.branch], [null, 'main']);
  await writeFile(join(cwd, 'a'), '1');
  await git(cwd, 'add', '.');
  await git(cwd, 'commit', '--quiet', '-m', 'first');
  const changes = await changesSince(mark as NonNullable<typeof mark>);
  assert.deepEqual([changes.base_commit, changes.files_changed, changes.clean], [null, ['a'], true]);
});

test('changes are found whether they are committed or not, and only those since the mark', async (t) => {
  const cwd = await folder(t);
  await repository(cwd);
  for (const name of ['untouched', 'touched', 'reverted', 'moved', 'deleted']) await writeFile(join(cwd, name), name);
  await git(cwd, 'add', 'moved', 'deleted');
  await git(cwd, 'commit', '--quiet', '-m', 'second');
  const mark = await markTree(cwd);
  assert.ok(mark);
  await appendFile(join(cwd, 'touched'), ' again');
  await rm(join(cwd, 'reverted'));
  await rename(join(cwd, 'moved'), join(cwd, 'moved-to'));
  await git(cwd, 'rm', '--quiet', 'deleted');
  await git(cwd, 'commit', '--quiet', '-m', 'third');
  const { files_changed, base_commit, head_commit, clean } = await changesSince(mark);
  assert.deepEqual(files_changed, ['deleted', 'moved', 'moved-to', 'reverted', 'touched']);
  assert.equal(base_commit, mark.head);
  assert.notEqual(head_commit, mark.head);
  assert.equal(clean, false);
});

test('a file written right after the start is seen by every decision on a task that writes', async (t) => {
  const { cwd, give, ...rest } = await inRepository(t, ({ taskId }) => block(taskId));
  await writeFile(join(cwd, 'theirs.txt'), 'new');
  const answers = await Promise.all(['t-1', 't-2'].map((id) => give(dispatch(id, { access: 'write' }))));
  for (const answer of answers) {
    assert.equal(answer.kind === 'refused' && answer.result.blocked?.code, 'dirty_repo');
  }
  const own = await rest.do(dispatch('t-3', { access: 'write', worktree: true }));
  assert.equal(own.status, 'done', 'it has a tree of its own');
  assert.equal((await rest.do(dispatch('t-4'))).status, 'done', 'it writes nothing');
});

for (const access of ['write', 'read'] as const) {
  test(`what was there before an attempt began is none of its changes (${access})`, async (t) => {
    const { cwd, worker, desk } = await inRepository(t, async ({ taskId }, context) => {
      await writeFile(join(context.cwd, 'own.txt'), 'new');
      return block(taskId);
    });
    const reception = await worker.receive(dispatch('t-1', { access }), desk);
    assert.ok(reception.kind === 'accepted');
    await writeFile(join(cwd, 'theirs.txt'), 'new');
    reception.start(LEASE);
    const { artifacts } = await desk.result('t-1');
    assert.deepEqual(artifacts?.files_changed, ['own.txt']);
  });
}

test('a task reports what git measured, together with its claim, and the commit it began from', async (t) => {
  const { base, cwd, ...rest } = await inRepository(t, async ({ taskId }, context) => {
    await writeFile(join(context.cwd, 'made.txt'), 'new');
    return block(taskId, { artifacts: { files_changed: ['made.txt', 'imagined.txt'], base_commit: 'invented' } });
  });
  const { artifacts } = await rest.do(dispatch('t-1', { access: 'write' }));
  assert.deepEqual(artifacts, {
    base_commit: base,
    head_commit: base,
    branch: 'main',
    clean: false,
    files_changed: ['made.txt', 'imagined.txt'],
    files_claimed: ['made.txt', 'imagined.txt'],
    files_measured: 1,
  });
});

test('a task that changed nothing says so, and its claim stands apart only where it differs', async (t) => {
  const { base, ...rest } = await inRepository(t, ({ taskId }) => block(taskId));
  const { artifacts } = await rest.do(dispatch('t-1'));
  assert.deepEqual(artifacts, {
    base_commit: base,
    head_commit: base,
    branch: 'main',
    clean: true,
    files_changed: [],
    files_measured: 0,
  });
});

test('a canceled task that left changes is partial, so that it does not look as if never started', async (t) => {
  const { give, worker, desk } = await inRepository(t, async (_task, { cwd, signal, events }) => {
    await writeFile(join(cwd, 'half.txt'), 'half');
    events.progress('writing');
    await aborted(signal);
    return { text: '', ending: 'stopped' };
  });
  await give(dispatch('t-1', { access: 'write' }));
  await desk.message('TASK_PROGRESS', ({ phase }) => phase === 'writing');
  await worker.handle({ type: 'TASK_CANCEL', protocol_version: '2.0', task_id: 't-1' }, desk);
  const result = await desk.result('t-1');
  assert.deepEqual([result.status, result.artifacts?.files_changed], ['partial', ['half.txt']]);
});

test('the announce follows the tree: clean, then not', async (t) => {
  const { desk, ...rest } = await inRepository(t, async ({ taskId }, { cwd }) => {
    await writeFile(join(cwd, 'made.txt'), 'new');
    return block(taskId);
  });
  const first = await desk.message('SESSION_ANNOUNCE');
  assert.deepEqual([first.session?.repo_state?.clean, first.session?.repo_state?.branch], [true, 'main']);
  await rest.do(dispatch('t-1', { access: 'write' }));
  await desk.message('SESSION_ANNOUNCE', ({ session }) => session?.repo_state?.clean === false);
});

test('uncommitted changes are announced with the conversation they come from, also after a restart, and a refusal names them', async (t) => {
  const home = await folder(t);
  const write = async ({ taskId }: { taskId: string }, { cwd }: { cwd: string }) => {
    await writeFile(join(cwd, `${taskId}\n.txt`), 'new');
    return block(taskId);
  };
  const { desk, cwd, ...rest } = await inRepository(t, write, home);
  await rest.do(dispatch('t-1', { access: 'write', envelope: { context_id: 'c-1' } }));
  await desk.message('SESSION_ANNOUNCE', ({ session }) => {
    return session?.repo_state?.clean === false && session.context_id === 'c-1' && session.session_fresh !== undefined;
  });
  await rest.do(dispatch('t-2', { envelope: { context_id: 'c-2' } }));
  assert.equal((await rest.worker.announce()).session?.context_id, 'c-1', 'c-2 only read');
  assert.equal((await rest.worker.announce('c-2')).session?.context_id, 'c-2', 'as it was asked');
  await rest.worker.close();
  const later = await bench(t, { cwd, home, executor: scriptedExecutor(write) });
  assert.equal((await later.worker.announce()).session?.context_id, 'c-1');
  const refused = await later.give(dispatch('t-3', { access: 'write', envelope: { context_id: 'c-2' } }));
  assert.ok(refused.kind === 'refused');
  assert.match(refused.result.blocked_reason ?? '', /uncommitted changes on main: "t-1\\n\.txt", "t-2\\n\.txt"$/);
  assert.equal((await later.do(dispatch('t-4', { access: 'write', envelope: { context_id: 'c-1' } }))).status, 'done');
});

test('a task with a worktree works there; what it leaves is kept on its branch and told', async (t) => {
  const { base, cwd, home, ...rest } = await inRepository(t, async ({ taskId }, context) => {
    await writeFile(join(context.cwd, 'made.txt'), taskId);
    await git(context.cwd, 'add', '.');
    await git(context.cwd, 'commit', '--quiet', '-m', taskId);
    return block(taskId);
  });
  const { artifacts = {} } = await rest.do(dispatch('t-1', { access: 'write', worktree: true }));
  const { worktree, branch, base_commit, head_commit, files_changed, clean } = artifacts as Record<string, string>;
  assert.ok(worktree?.startsWith(join(home, 'worktrees')));
  assert.match(branch ?? '', /^handfast\/t-1-/);
  assert.equal(base_commit, base);
  assert.equal(await git(cwd, 'rev-parse', branch ?? ''), head_commit);
  assert.deepEqual([files_changed, clean], [['made.txt'], true]);
  assert.equal(await readFile(join(worktree ?? '', 'made.txt'), 'utf8'), 't-1');
  assert.deepEqual(
    await treeState(cwd),
    { branch: 'main', head: base, clean: true, dirty: [] },
    'the shared tree is as it was',
  );
});

test('a worktree nothing is left in is removed, with its branch', async (t) => {
  const { cwd, home, ...rest } = await inRepository(t, ({ taskId }) => block(taskId));
  const { artifacts = {} } = await rest.do(dispatch('t-1', { access: 'write', worktree: true }));
  assert.equal(artifacts?.worktree, undefined);
  assert.equal(await git(cwd, 'branch', '--list', 'handfast/*'), '');
  assert.equal((await git(cwd, 'worktree', 'list')).split('\n').length, 1);
  assert.ok(!existsSync(join(home, 'worktrees', 't-1')));
});

test('tasks with worktrees run side by side over a dirty tree; turns of one conversation share theirs', async (t) => {
  const { cwd, ...rest } = await inRepository(t, async ({ taskId }, context) => {
    await writeFile(join(context.cwd, `${taskId}.txt`), taskId);
    return block(taskId);
  });
  await writeFile(join(cwd, 'dirt.txt'), 'dirt');
  const wanted = { access: 'write', worktree: true } as const;
  const [one, two] = await Promise.all([rest.do(dispatch('t-1', wanted)), rest.do(dispatch('t-2', wanted))]);
  assert.deepEqual([one.artifacts?.files_changed, two.artifacts?.files_changed], [['t-1.txt'], ['t-2.txt']]);
  const conversation = { ...wanted, envelope: { context_id: 'c/1 ..' } };
  const first = await rest.do(dispatch('t-3', conversation));
  await rest.idle();
  const second = await rest.do(dispatch('t-4', conversation));
  assert.equal(second.artifacts?.worktree, first.artifacts?.worktree);
  assert.deepEqual(second.artifacts?.files_changed, ['t-4.txt'], 'and not what the turn before left');
});

test('with worktree: always no task waits for an uncommitted write, neither of the worker nor at the orchestrator', async (t) => {
  const cwd = await folder(t);
  await repository(cwd);
  await writeFile(join(cwd, 'dirt.txt'), 'dirt');
  const places: string[] = [];
  const executor = scriptedExecutor(async ({ taskId }, context) => {
    places.push(context.cwd);
    await writeFile(join(context.cwd, `${taskId}.txt`), taskId);
    return block(taskId);
  });
  const { worker, ...rest } = await bench(t, { cwd, home: await folder(t), executor, worktree: 'always' });
  const { session } = await worker.announce();
  assert.equal(session?.repo_state?.clean, true, 'the tree a task gets');
  const first = await rest.do(dispatch('t-1', { access: 'write' }));
  const second = await rest.do(dispatch('t-2', { access: 'write' }));
  assert.deepEqual([first.artifacts?.files_changed, second.artifacts?.files_changed], [['t-1.txt'], ['t-2.txt']]);
  assert.notEqual(first.artifacts?.worktree, second.artifacts?.worktree);
  await rest.do(dispatch('t-3'));
  assert.deepEqual(
    [places.includes(cwd), places.indexOf(cwd)],
    [true, 2],
    'a task that only reads has the folder itself',
  );
});

test('a worker of a folder inside a repository works in the same folder of the worktree', async (t) => {
  const top = await folder(t);
  await repository(top);
  const cwd = join(top, 'sub');
  await mkdir(cwd);
  const where: string[] = [];
  const executor = scriptedExecutor(({ taskId }, context) => {
    where.push(context.cwd);
    return block(taskId);
  });
  const made = await bench(t, { executor, cwd, home: await folder(t) });
  await made.do(dispatch('t-1', { access: 'write', worktree: true }));
  assert.match(where[0] ?? '', /worktrees\/t-1-[0-9a-f]+\/sub$/);
});
