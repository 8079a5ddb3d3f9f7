/**
 * Checks of a result that says `done`, in a real repository.
 */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { programEnvironment, runProgram } from '../../../src/base/program.ts';
import { resultMessage } from '../../../src/fleet/messages/encode.ts';
import { taskStream } from '../../../src/fleet/orchestrator/task-journal.ts';
import { verify, whyNotChecked } from '../../../src/fleet/orchestrator/verify.ts';
import type { TaskResult } from '../../../src/protocol/fleet.ts';
import { gitEnvironment } from '../support/git-repository.ts';
import { fleet } from './support/fleet.ts';
import { settle } from './support/virtual-clock.ts';

const identity = { GIT_AUTHOR_NAME: 'a', GIT_AUTHOR_EMAIL: 'a@b', GIT_COMMITTER_NAME: 'a', GIT_COMMITTER_EMAIL: 'a@b' };

interface Repository {
  readonly path: string;
  git(...args: string[]): Promise<string>;
  write(file: string, text: string): Promise<void>;
}

async function repository(t: TestContext): Promise<Repository> {
  const path = await mkdtemp(join(tmpdir(), 'handfast-verify-'));
  t.after(() => rm(path, { recursive: true }));
  const env = programEnvironment(identity, gitEnvironment());
  const git = async (...args: string[]) => {
    const { code, stdout, stderr } = await runProgram({ argv: ['git', ...args], cwd: path, env });
    assert.equal(code, 0, stderr);
    return stdout.trim();
  };
  const write = (file: string, text: string) => writeFile(join(path, file), text);
  await git('init', '--quiet', '--initial-branch=main');
  await write('old.txt', 'old');
  await write('.gitignore', 'built.txt\n');
  await git('add', '.');
  await git('commit', '--quiet', '-m', 'first');
  return { path, git, write };
}

const done = (artifacts: object): TaskResult =>
  resultMessage({ task_id: 't', status: 'done', artifacts: { ...artifacts } });

test('files that changed since the work began are found, committed or not', async (t) => {
  const { path, git, write } = await repository(t);
  const base = await git('rev-parse', 'HEAD');
  await write('committed.txt', '1');
  await git('add', '.');
  await git('commit', '--quiet', '-m', 'second');
  await write('old.txt', 'new');
  await write('ünew file.txt', '2');
  const files_changed = ['committed.txt', 'old.txt', 'ünew file.txt'];
  assert.equal((await verify(done({ files_changed }), path, base)).verified, 'yes');
  assert.equal((await verify(done({ files_changed, base_commit: base }), path, null)).verified, 'yes');
});

test('a file that is not there, or has not changed, is said to be so', async (t) => {
  const { path, git, write } = await repository(t);
  const base = await git('rev-parse', 'HEAD');
  await write('new.txt', '1');
  const found = await verify(done({ files_changed: ['new.txt', 'old.txt', 'invented.txt'] }), path, base);
  assert.equal(found.verified, 'no');
  assert.deepEqual(found.reasons, [
    `old.txt has not changed since ${base.slice(0, 12)}`,
    'invented.txt does not exist',
  ]);
});

test('what git ignores, a pull request, and an unknown beginning are not checked', async (t) => {
  const { path, git, write } = await repository(t);
  const base = await git('rev-parse', 'HEAD');
  await write('built.txt', '1');
  assert.equal((await verify(done({ files_changed: ['built.txt'] }), path, base)).verified, 'not_checked');
  assert.equal((await verify(done({ pr: 'https://example.org/pull/1' }), path, base)).verified, 'not_checked');
  assert.equal((await verify(done({ files_changed: ['old.txt'] }), path, null)).verified, 'not_checked');
  assert.equal((await verify(done({ files_changed: ['gone.txt'] }), path, null)).verified, 'no');
  const unknown = 'f'.repeat(40);
  assert.equal(
    (await verify(done({ files_changed: ['old.txt'], base_commit: unknown }), path, null)).verified,
    'not_checked',
  );
});

test('a commit that is named must be there', async (t) => {
  const { path, git, write } = await repository(t);
  const base = await git('rev-parse', 'HEAD');
  assert.equal((await verify(done({ head_commit: 'e'.repeat(40) }), path, base)).verified, 'no');
  assert.equal((await verify(done({ head_commit: base }), path, base)).verified, 'not_checked', 'nothing has changed');
  await write('new.txt', '1');
  await git('add', '.');
  await git('commit', '--quiet', '-m', 'second');
  assert.equal((await verify(done({ head_commit: await git('rev-parse', 'HEAD') }), path, base)).verified, 'yes');
});

test('a worktree counts when it is one of this repository, and no other folder does', async (t) => {
  const { path, git } = await repository(t);
  const base = await git('rev-parse', 'HEAD');
  const tree = `${path}-tree`;
  t.after(() => rm(tree, { recursive: true }));
  await git('worktree', 'add', '--quiet', '-b', 'work', tree);
  await writeFile(join(tree, 'there.txt'), '1');
  const files_changed = ['there.txt'];
  assert.equal((await verify(done({ files_changed, worktree: tree }), path, base)).verified, 'yes');
  assert.equal((await verify(done({ files_changed }), path, base)).verified, 'no');
  const elsewhere = await repository(t);
  await elsewhere.write('there.txt', '1');
  assert.equal((await verify(done({ files_changed, worktree: elsewhere.path }), path, base)).verified, 'no');
});

test('claims cannot reach out of the repository or become options of git', async (t) => {
  const { path, git } = await repository(t);
  const base = await git('rev-parse', 'HEAD');
  const hostile = ['../../etc/passwd', '/etc/passwd', '--output=x', '-p', '~/x', 'C:\\x', ':(top)old.txt', 'a\0b'];
  assert.equal(whyNotChecked(done({ files_changed: hostile }), path), 'the result names nothing that could be checked');
  const found = await verify(done({ files_changed: ['*.txt'], head_commit: '--all', base_commit: 'HEAD' }), path, base);
  assert.deepEqual(found.reasons, ['*.txt does not exist']);
});

test('where there is no repository nothing is checked', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'handfast-verify-'));
  t.after(() => rm(folder, { recursive: true }));
  assert.equal((await verify(done({ files_changed: ['a'] }), folder, null)).verified, 'not_checked');
  assert.match(
    whyNotChecked(done({ files_changed: ['a'] }), undefined) ?? '',
    /does not know the folder of this worker/,
  );
});

test('a task that is done is looked at in the background, against the commit it began from', async (t) => {
  const { path, git, write } = await repository(t);
  const head = await git('rev-parse', 'HEAD');
  const { bus, orchestrator, journal } = await fleet(t, { repositories: new Map([['w', path]]) });
  const worker = await bus.worker('w');
  const task = await orchestrator.submit({ brief: 'x' });
  const { task_id } = task;
  const stream = taskStream(task);
  await settle();
  const give = AbortSignal.timeout(20_000);
  const seen = async (what: string) => {
    for await (const entry of journal.follow(stream, 0, give)) {
      if (entry.kind === what) return;
    }
  };
  while ((await orchestrator.get(task_id)).attempts[0]?.base_commit === undefined) {
    give.throwIfAborted();
    await settle();
  }
  assert.equal((await orchestrator.get(task_id)).attempts[0]?.base_commit, head);
  await write('made.txt', '1');
  await worker.report(task_id, 'done', { artifacts: { files_changed: ['made.txt'] } }, 1);
  const { record } = await orchestrator.result(task_id);
  assert.equal(record.state, 'done');
  await seen('verified');
  const { verified, verification, state } = await orchestrator.get(task_id);
  assert.equal(verified, 'yes');
  assert.deepEqual(verification, ['1 of the named changes found']);
  assert.equal(state, 'done');
});

test('paths are those from the folder the worker was given, also through a link and in a worktree', async (t) => {
  const { path, git } = await repository(t);
  await mkdir(join(path, 'sub'));
  await writeFile(join(path, 'sub', 'old.txt'), 'old');
  await git('add', '.');
  await git('commit', '--quiet', '-m', 'second');
  const base = await git('rev-parse', 'HEAD');
  const links = await mkdtemp(join(tmpdir(), 'handfast-links-'));
  t.after(() => rm(links, { recursive: true }));
  await symlink(path, join(links, 'app'));
  const folder = join(links, 'app', 'sub');
  await writeFile(join(path, 'sub', 'new.txt'), '1');
  await writeFile(join(path, 'top.txt'), '1');
  assert.equal((await verify(done({ files_changed: ['new.txt'] }), folder, base)).verified, 'yes');
  assert.equal((await verify(done({ files_changed: ['./new.txt'] }), folder, base)).verified, 'yes');
  assert.equal((await verify(done({ files_changed: ['sub/new.txt'] }), folder, base)).verified, 'no');
  assert.equal((await verify(done({ files_outside: ['top.txt'] }), folder, base)).verified, 'yes');
  assert.equal((await verify(done({ files_changed: ['sub'] }), path, base)).verified, 'yes', 'a folder with a change');
  const tree = join(links, 'tree');
  await git('worktree', 'add', '--quiet', '-b', 'work', join(links, 'tree'));
  await symlink(links, `${links}-again`);
  t.after(() => rm(`${links}-again`));
  await writeFile(join(tree, 'sub', 'there.txt'), '1');
  const result = done({ files_changed: ['there.txt'], worktree: join(`${links}-again`, 'tree') });
  assert.equal((await verify(result, folder, base)).verified, 'yes');
  assert.equal((await verify(done({ files_changed: ['new.txt'], worktree: tree }), folder, base)).verified, 'no');
});

test('of a worktree that was removed only its commit is looked at, and one that is gone is not checked', async (t) => {
  const { path, git, write } = await repository(t);
  const base = await git('rev-parse', 'HEAD');
  await write('old.txt', 'changed by another');
  await write('new.txt', 'by another');
  const found = await verify(done({ files_changed: ['old.txt', 'new.txt'], worktree_removed: true }), path, base);
  assert.deepEqual(found.reasons, [
    `old.txt has not changed since ${base.slice(0, 12)}`,
    'new.txt does not exist',
    'nothing was left in its worktree, which was removed',
  ]);
  const gone = await verify(done({ files_changed: ['old.txt'], worktree: join(path, 'no-such-tree') }), path, base);
  assert.equal(gone.verified, 'not_checked');
  assert.match(gone.reasons.join(), /does not exist any more/);
});

test('files of submodules, of repositories that are new in this one, and ignored ones with odd names are found', async (t) => {
  const { path, git, write } = await repository(t);
  const library = await repository(t);
  await git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', library.path, 'vendor');
  await write('.gitignore', 'built*\n');
  await git('add', '.');
  await git('commit', '--quiet', '-m', 'second');
  const base = await git('rev-parse', 'HEAD');
  await writeFile(join(path, 'vendor', 'new.txt'), '1');
  await mkdir(join(path, 'nested'));
  await git('-C', 'nested', 'init', '--quiet');
  await writeFile(join(path, 'nested', 'a.txt'), '1');
  await write('built "ä"\t*.txt', '1');
  assert.equal((await verify(done({ files_changed: ['vendor/new.txt'] }), path, base)).verified, 'yes');
  assert.equal((await verify(done({ files_changed: ['vendor/old.txt'] }), path, base)).verified, 'no');
  assert.equal((await verify(done({ files_changed: ['nested/a.txt', 'nested'] }), path, base)).verified, 'yes');
  const ignored = await verify(done({ files_changed: ['built "ä"\t*.txt'] }), path, base);
  assert.deepEqual([ignored.verified, ignored.reasons], ['not_checked', ['built "ä"\t*.txt is ignored by git']]);
});

test('a bare repository is read: commits, and files in its worktrees', async (t) => {
  const { path, git } = await repository(t);
  const base = await git('rev-parse', 'HEAD');
  const bare = `${path}-bare`;
  const tree = `${path}-tree`;
  for (const folder of [bare, tree]) t.after(() => rm(folder, { recursive: true }));
  await git('clone', '--quiet', '--bare', path, bare);
  await git('-C', bare, 'worktree', 'add', '--quiet', '-b', 'work', tree);
  await writeFile(join(tree, 'there.txt'), '1');
  assert.equal((await verify(done({ files_changed: ['there.txt'], worktree: tree }), bare, base)).verified, 'yes');
  assert.equal((await verify(done({ head_commit: 'e'.repeat(40) }), bare, base)).verified, 'no');
});
