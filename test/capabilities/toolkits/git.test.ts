/** The toolkit `git` with real repositories: its effects, and effects that neither a repository nor a caller can cause. */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { programInPath } from '../../../src/base/program-file.ts';
import { PathGuard } from '../../../src/base/workspace/protected-paths.ts';
import { git, repository } from './repository.ts';
import { agentOf, errorOf, folder, refusalOf, toolkitsHost } from './support.ts';

async function agentIn(t: TestContext, workspace: string, push = false) {
  const host = await toolkitsHost(t, { workspace, builtin: [{ name: 'git' }], kits: { git: { push } } });
  const agent = await agentOf(t, host, { enable: ['git'] });
  const call = (name: string, args: object = {}) => agent.tools.call<{ output: string }>(`git_${name}`, { ...args });
  const output = async (name: string, args: object = {}) => (await call(name, args)).data?.output ?? '';
  return { agent, call, output };
}

test('status, diff, log, show, blame, branch, commit and worktrees', async (t) => {
  const { workspace } = repository(t);
  const { output } = await agentIn(t, workspace);
  appendFileSync(join(workspace, 'a.txt'), 'two\n');
  writeFileSync(join(workspace, 'b.txt'), 'new\n');
  assert.match(await output('status'), /^# branch.head main$[\s\S]*^1 \.M .* a\.txt$[\s\S]*^\? b\.txt$/m);
  assert.match(await output('diff'), /^\+two$/m);
  assert.match(await output('diff', { stat: true }), /a\.txt \| 1 \+/);
  await output('branch', { name: 'topic/one' });
  await output('commit', { message: 'second' });
  assert.match(await output('status'), /^\? b\.txt$/m, 'a new file is committed only by name');
  await output('commit', { message: '-m is no option\n\nbody', paths: ['b.txt'] });
  const log = (await output('log')).trimEnd().split('\n');
  assert.deepEqual(
    log.map((line) =>
      line
        .split('\t')
        .slice(1, 2)
        .concat(line.split('\t')[3] as string),
    ),
    [
      ['ana', '-m is no option'],
      ['ana', 'second'],
      ['Test', 'first'],
    ],
  );
  assert.match(await output('show', { revision: 'HEAD~1' }), /second[\s\S]*\+two/);
  assert.match(await output('diff', { from: 'main', to: 'topic/one', paths: ['b.txt'] }), /^\+new$/m);
  assert.match(await output('blame', { path: 'a.txt', from_line: 2, to_line: 2 }), /\(ana .* 2\) two$/m);
  assert.match(await output('branches'), /^\*\ttopic\/one\t\w+\t-m is no option$/m);
  await output('worktree_add', { path: 'wt', branch: 'other', from: 'main' });
  assert.match(await output('worktree_list'), /branch refs\/heads\/other/);
  assert.match(await output('log', { repository: 'wt' }), /first/);
  await output('worktree_add', { path: '..wt', branch: 'third', from: 'main' });
  assert.match(await output('worktree_list'), /^worktree \.\.wt$/m, 'the name of a folder in the workspace');
  assert.match(await output('log', { repository: '..wt' }), /first/);
  await output('worktree_remove', { path: 'wt' });
  assert.equal(existsSync(join(workspace, 'wt')), false);
});

test('paths may be absolute, and lead through links of the workspace', async (t) => {
  const { workspace } = repository(t);
  const { output } = await agentIn(t, workspace);
  mkdirSync(join(workspace, 'deep'));
  writeFileSync(join(workspace, 'deep', 'c.txt'), 'c\n');
  symlinkSync('deep', join(workspace, 'link'));
  symlinkSync('deep/c.txt', join(workspace, 'file-link'));
  await output('commit', { message: 'second', paths: ['link/c.txt', 'file-link', join(workspace, 'a.txt')] });
  assert.match(await output('show', { revision: 'HEAD' }), /deep\/c\.txt[\s\S]*file-link[\s\S]*new file mode 120000/);
  assert.match(await output('blame', { path: 'link/c.txt' }), /c$/m);
  assert.match(await output('log', { paths: [join(workspace, 'link/c.txt')] }), /second/);
});

test('hooks, monitors, drivers, pagers, editors and signing of a repository do not run', async (t) => {
  const { workspace, program, hasRun } = repository(t);
  for (const hook of [
    'pre-commit',
    'commit-msg',
    'post-commit',
    'post-checkout',
    'reference-transaction',
    'post-index-change',
  ]) {
    const file = join(workspace, '.git', 'hooks', hook);
    mkdirSync(join(workspace, '.git', 'hooks'), { recursive: true });
    writeFileSync(file, `#!/bin/sh\nexec '${program}' < /dev/null\n`);
    chmodSync(file, 0o755);
  }
  for (const [key, value] of [
    ['core.fsmonitor', program],
    ['core.pager', program],
    ['core.editor', program],
    ['core.hooksPath', join(workspace, '.git', 'hooks')],
    ['diff.external', program],
    ['gpg.program', program],
    ['commit.gpgSign', 'true'],
    ['log.showSignature', 'true'],
    ['alias.status', `!${program}`],
    ['alias.log', `!${program}`],
    ['core.sshCommand', program],
    ['protocol.ext.allow', 'always'],
    ['credential.helper', `!${program}`],
  ] as const) {
    git(workspace, 'config', key, value);
  }
  const { output } = await agentIn(t, workspace, true);
  appendFileSync(join(workspace, 'a.txt'), 'two\n');
  for (const name of ['status', 'diff', 'log', 'branches', 'worktree_list']) await output(name);
  await output('show', { revision: 'HEAD' });
  await output('blame', { path: 'a.txt' });
  await output('branch', { name: 'topic' });
  await output('commit', { message: 'second' });
  await output('worktree_add', { path: 'wt', branch: 'other' });
  assert.equal(hasRun(), false);
});

test('a repository that names programs under names of its own is refused', async (t) => {
  for (const [key, attribute] of [
    ['filter.evil.clean', 'filter=evil'],
    ['filter.evil.process', 'filter=evil'],
    ['diff.evil.textconv', 'diff=evil'],
    ['diff.evil.command', 'diff=evil'],
    ['merge.evil.driver', 'merge=evil'],
    ['include.path', ''],
    ['includeIf.gitdir:/.path', ''],
    ['core.worktree', ''],
  ] as const) {
    const { workspace, program, hasRun } = repository(t);
    writeFileSync(join(workspace, '.gitattributes'), `*.txt ${attribute}\n`);
    const value = key === 'core.worktree' ? workspace : key.startsWith('include') ? '/nonexistent' : program;
    git(workspace, 'config', key, value);
    appendFileSync(join(workspace, 'a.txt'), 'two\n');
    const { call } = await agentIn(t, workspace);
    for (const [name, args] of [
      ['status', {}],
      ['diff', {}],
      ['commit', { message: 'x' }],
    ] as const) {
      assert.equal(await refusalOf(call(name, args)), 'tool_denied repository_runs_code', `${key} ${name}`);
    }
    assert.equal(hasRun(), false, key);
  }
});

test('values of a caller are never options, addresses or places outside', async (t) => {
  const { workspace, hasRun } = repository(t);
  const outside = folder(t);
  git(outside, 'init', '-q');
  const { call } = await agentIn(t, workspace, true);
  for (const revision of ['--output=/tmp/x', '-O', '--exec=x', '--no-index']) {
    assert.equal(await refusalOf(call('log', { revision })), 'tool_denied option');
    assert.equal(await refusalOf(call('show', { revision })), 'tool_denied option');
    assert.equal(await refusalOf(call('diff', { from: revision })), 'tool_denied option');
    assert.equal(await refusalOf(call('blame', { path: 'a.txt', revision })), 'tool_denied option');
    assert.equal(await refusalOf(call('branch', { name: revision })), 'tool_denied option');
    assert.equal(await refusalOf(call('commit', { message: 'x', paths: [revision] })), 'tool_denied option');
    assert.equal(await refusalOf(call('push', { remote: revision, branch: 'main' })), 'tool_denied option');
  }
  // Given two outside paths, or one, git would show the differences.
  writeFileSync(join(outside, 'secret.txt'), 'secret\n');
  for (const path of [join(outside, 'secret.txt'), '../x', 'a/../../x', '..', '/dev/null']) {
    assert.equal(await refusalOf(call('diff', { paths: [path, '/dev/null'] })), 'tool_denied outside_workspace', path);
    assert.equal(await refusalOf(call('log', { paths: [path] })), 'tool_denied outside_workspace', path);
    assert.equal(await refusalOf(call('blame', { path })), 'tool_denied outside_workspace', path);
    assert.equal(
      await refusalOf(call('commit', { message: 'x', paths: [path] })),
      'tool_denied outside_workspace',
      path,
    );
  }
  assert.doesNotMatch((await errorOf(call('commit', { message: 'x', paths: ['no'] }))).message, new RegExp(workspace));
  for (const remote of ['https://example.com/x.git', '../x', 'ext::sh -c true', 'a b']) {
    assert.equal(await refusalOf(call('push', { remote, branch: 'main' })), 'tool_denied bad_name');
  }
  // Remotes of the repository that would run a program, or write into a folder.
  for (const address of ["ext::sh -c 'touch ran'", outside, `file://${outside}`, 'fd::1']) {
    git(workspace, 'config', 'remote.origin.url', address);
    assert.equal(await refusalOf(call('push', { branch: 'main' })), 'tool_denied scheme', address);
  }
  for (const path of ['..', outside, '../x']) {
    assert.equal(await refusalOf(call('status', { repository: path })), 'tool_denied outside_workspace');
    assert.equal(await refusalOf(call('worktree_add', { path, branch: 'b' })), 'tool_denied outside_workspace');
  }
  symlinkSync(outside, join(workspace, 'link'));
  assert.equal(await refusalOf(call('status', { repository: 'link' })), 'tool_denied outside_workspace');
  // Metadata elsewhere: of a file that points there, and objects of another repository.
  mkdirSync(join(workspace, 'sub'));
  writeFileSync(join(workspace, 'sub', '.git'), `gitdir: ${outside}/.git\n`);
  assert.equal(await refusalOf(call('status', { repository: 'sub' })), 'tool_denied outside_workspace');
  writeFileSync(join(workspace, '.git', 'objects', 'info', 'alternates'), `${outside}/.git/objects\n`);
  assert.equal(await refusalOf(call('log')), 'tool_denied outside_workspace');
  assert.equal(hasRun(), false);
});

test('a folder without a repository, and what git itself refuses, is said without paths of the host', async (t) => {
  const workspace = folder(t);
  const { call } = await agentIn(t, workspace);
  assert.equal(await refusalOf(call('status')), 'tool_error not_a_repository');
  git(workspace, 'init', '-q', '-b', 'main');
  const { message, detail } = await errorOf(call('log', { revision: 'nothing' }));
  assert.match(message, /^git failed: fatal: bad revision 'nothing'/);
  assert.equal(detail.reason, 'git_failed');
  assert.doesNotMatch((await errorOf(call('blame', { path: 'no' }))).message, new RegExp(workspace));
});

test('pushing, what loses data, and protected paths need what they need', async (t) => {
  const { workspace } = repository(t);
  writeFileSync(join(workspace, 'tokens'), 's');
  const principals = [
    { name: 'some', capabilities: ['tools'], grants: { toolkits: { names: ['git'] } } },
    { name: 'none', capabilities: ['tools', 'toolkits'] },
  ];
  const host = await toolkitsHost(t, {
    workspace,
    builtin: [{ name: 'git' }],
    principals,
    kits: { git: { push: true } },
  });
  const some = await agentOf(t, host, { principal: 'some', enable: ['git'] });
  assert.equal((await some.tools.call('git_status')).success, true);
  for (const name of ['git_push', 'git_worktree_remove']) {
    assert.equal((await errorOf(some.tools.call(name, { branch: 'main', path: 'x' }))).code, 'tool_denied');
  }
  const none = await agentOf(t, host, { principal: 'none' });
  assert.equal((await errorOf(none.toolkits.enable('git'))).code, 'toolkits.unknown');
  assert.equal((await errorOf(none.tools.call('git_status'))).code, 'unknown_tool');

  const tokens = [{ path: join(workspace, 'tokens'), kind: 'file', deny: 'all' }] as const;
  const guarded = await toolkitsHost(t, {
    workspace,
    builtin: [{ name: 'git' }],
    principals,
    pathGuard: new PathGuard(tokens),
  });
  const agent = await agentOf(t, guarded, { principal: 'some', enable: ['git'] });
  assert.equal(
    await refusalOf(agent.tools.call('git_commit', { message: 'x', paths: ['tokens'] })),
    'tool_denied protected_path',
  );
  assert.equal((await errorOf(agent.tools.call('git_push', { branch: 'main' }))).code, 'unknown_tool');
});

test('a protected file under another name is neither read nor committed', async (t) => {
  const { workspace } = repository(t);
  const outside = folder(t);
  writeFileSync(join(outside, 'token'), 'secret\n');
  const host = await toolkitsHost(t, {
    workspace,
    builtin: [{ name: 'git' }],
    principals: [
      { name: 'some', capabilities: ['tools'], grants: { toolkits: { names: ['git'] } } },
      { name: 'boss', admin: true },
    ],
    pathGuard: new PathGuard([{ path: join(outside, 'token'), kind: 'file', deny: 'all' }]),
  });
  const some = await agentOf(t, host, { principal: 'some', enable: ['git'] });
  // A link to an unprotected file does not count.
  writeFileSync(join(outside, 'plain'), 'plain\n');
  linkSync(join(outside, 'plain'), join(workspace, 'plain'));
  assert.equal((await some.tools.call('git_commit', { message: 'x', paths: ['plain'] })).success, true);
  linkSync(join(outside, 'token'), join(workspace, 'innocent'));
  const commit = { message: 'x', paths: ['innocent'] };
  for (const [name, args] of [
    ['git_commit', commit],
    ['git_diff', {}],
    ['git_status', {}],
  ] as const) {
    assert.equal(await refusalOf(some.tools.call(name, args)), 'tool_denied protected_path', name);
  }
  const boss = await agentOf(t, host, { principal: 'boss', enable: ['git'] });
  assert.equal((await boss.tools.call('git_commit', commit)).success, true);
  // Nor if that name is no UTF-8 text.
  git(workspace, 'rm', '--quiet', '--cached', 'innocent');
  renameSync(join(workspace, 'innocent'), Buffer.concat([Buffer.from(join(workspace, 'a')), Buffer.of(0xe9)]));
  assert.equal(await refusalOf(some.tools.call('git_status', {})), 'tool_denied protected_path');
});

test('every name that git_status shows is one that diff, blame and commit take, and a rename shows both names', async (t) => {
  const { workspace } = repository(t);
  const names = [
    'with space',
    'ümläut',
    '日本',
    'quo"te',
    'tab\there',
    'arrow -> x',
    'back\\slash',
    '*.star',
    ':colon',
    'e\u0301',
    ' lead',
    'trail ',
    './-dash',
  ];
  for (const name of names) writeFileSync(join(workspace, name), `content of ${name}\n`);
  writeFileSync(join(workspace, 'new\nline'), '1');
  const { call, output } = await agentIn(t, workspace);
  const files = async () =>
    (await call('status')).data as unknown as { files: { path: string; state: string; from?: string }[] };
  const shown = (await files()).files.map(({ path }) => path).sort();
  assert.deepEqual(shown, [...names.map((name) => name.replace('./', '')), 'new\nline'].sort());
  for (const name of names.filter((one) => !one.includes('\t'))) {
    assert.ok((await output('status')).includes(`\n? ${name.replace('./', '')}\n`), name);
  }
  assert.match(await output('status'), /^\? "new\\nline"$/m, 'a line break is the end of no line');
  await call('commit', { message: 'names', paths: names });
  for (const name of names) {
    writeFileSync(join(workspace, name), `changed ${name}\n`);
    assert.match(await output('diff', { paths: [name] }), /^\+changed /m, name);
    assert.match(await output('blame', { path: name }), /changed|content of/, name);
  }
  assert.match(await output('diff', { stat: true }), /^ ümläut +\| 2 \+-$/m);
  git(workspace, 'checkout', '-q', '.');
  const long = `${'long-'.repeat(40)}name`;
  git(workspace, 'mv', 'with space', long);
  const [renamed] = (await files()).files.filter(({ from }) => from !== undefined);
  assert.deepEqual(renamed, { path: long, state: 'R.', from: 'with space' });
  assert.ok((await output('status')).includes(`${long}\twith space\n`));
  assert.ok((await output('diff', { staged: true, stat: true })).includes(long));
  await call('commit', { message: 'rename', paths: [long, 'with space'] });
  git(workspace, 'rm', '-q', 'ümläut');
  await call('commit', { message: 'deletion', paths: ['ümläut'] });
  assert.deepEqual(
    (await files()).files.map(({ path }) => path),
    ['new\nline'],
  );
  assert.equal(await refusalOf(call('blame', { path: 'new\nline' })), 'tool_denied line_break');
  assert.equal(await refusalOf(call('blame', { path: '-dash' })), 'tool_denied option');
});

test('names are those from the folder of the call, and reach all of the repository but nothing outside', async (t) => {
  const { workspace } = repository(t);
  mkdirSync(join(workspace, 'sub'));
  writeFileSync(join(workspace, 'sub', 'x.txt'), 'x\n');
  const { call, output } = await agentIn(t, workspace);
  await call('commit', { message: 'second', paths: ['sub/x.txt'] });
  for (const file of ['a.txt', 'sub/x.txt']) appendFileSync(join(workspace, file), 'more\n');
  const { files } = (await call('status', { repository: 'sub' })).data as unknown as { files: { path: string }[] };
  const paths = files.map(({ path }) => path);
  assert.deepEqual(paths.sort(), ['../a.txt', 'x.txt']);
  for (const path of paths) {
    assert.match(await output('diff', { repository: 'sub', paths: [path] }), /^\+more$/m, path);
    assert.match(await output('blame', { repository: 'sub', path }), /more/, path);
  }
  assert.equal(
    await refusalOf(call('diff', { repository: 'sub', paths: ['../../x'] })),
    'tool_denied outside_workspace',
  );
  await output('worktree_add', { path: 'wt', branch: 'other' });
  assert.match(
    await output('worktree_list'),
    /^worktree \.\n[\s\S]*^worktree wt\nHEAD \w+\nbranch refs\/heads\/other\n/m,
  );
  writeFileSync(join(workspace, '.git', 'info', 'exclude'), 'built/\n');
  mkdirSync(join(workspace, 'wt', 'built'));
  writeFileSync(join(workspace, 'wt', 'built', 'x'), '1');
  assert.match(
    await output('worktree_remove', { path: 'wt' }),
    /^Removed with it, because git ignores them:\nbuilt\/$/m,
  );
});

test('a git without -z for the list of worktrees will do', async (t) => {
  const { workspace } = repository(t);
  const programs = folder(t);
  const { PATH = '' } = process.env;
  const real = programInPath('git', PATH);
  const old = `#!/bin/sh\nfor word; do [ "$word" = -z ] && case "$*" in *"worktree list"*) exit 129;; esac; done\nexec ${real} "$@"\n`;
  writeFileSync(join(programs, 'git'), old, { mode: 0o755 });
  t.after(() => {
    process.env.PATH = PATH;
  });
  process.env.PATH = `${programs}:${PATH}`;
  const { output } = await agentIn(t, workspace);
  assert.match(await output('worktree_list'), /^worktree \.\nHEAD \w+\nbranch refs\/heads\/main\n$/);
});

test('a name that is not UTF-8 is shown with its bytes, and the reason where git would find nothing', async (t) => {
  const { workspace } = repository(t);
  const bytes = Buffer.concat([Buffer.from(join(workspace, 'café ')), Buffer.from([0xe9, 0xff])]);
  writeFileSync(bytes, 'x\n');
  writeFileSync(join(workspace, 'sign \uFFFD'), 'x\n');
  const { call, output } = await agentIn(t, workspace);
  assert.match(await output('status'), /^\? café \\xe9\\xff$/m);
  await assert.rejects(call('diff', { paths: ['café \\xe9\\xff'] }), /"café \\xe9\\xff" has a name that is no UTF-8/);
  assert.equal(await refusalOf(call('diff', { paths: ['caf\uFFFD'] })), 'tool_error not_utf8');
  assert.equal((await call('commit', { message: 'x', paths: ['sign \uFFFD'] })).success, true);
  git(workspace, 'add', '-A');
  writeFileSync(bytes, 'y\n');
  assert.match(await output('diff'), /^\+\+\+ b\/café \\xe9\\xff\t$/m);
  writeFileSync(join(workspace, 'back\\xe9'), 'x\n');
  assert.equal((await call('commit', { message: 'x', paths: ['back\\xe9'] })).success, true, 'a name as others');
});

test('a bare repository, one with a damaged configuration, and one of a later git are reported', async (t) => {
  const workspace = folder(t);
  const { call } = await agentIn(t, workspace);
  git(workspace, 'init', '-q', '--bare', 'bare.git');
  assert.equal(await refusalOf(call('status', { repository: 'bare.git' })), 'tool_error bare_repository');
  for (const [name, config, reason] of [
    ['damaged', '[core\n', /bad config line 1/],
    [
      'later',
      '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tunheardof = true\n',
      /unknown repository extension/,
    ],
  ] as const) {
    git(workspace, 'init', '-q', name);
    writeFileSync(join(workspace, name, '.git', 'config'), config);
    const error = await errorOf(call('status', { repository: name }));
    assert.match(error.message, reason);
    assert.doesNotMatch(error.message, new RegExp(workspace));
  }
});

test('a repository of another user is worked in once the user of the host allows it', async (t) => {
  if (process.getuid?.() !== 0) return t.skip('only root can give a folder to another user');
  const { workspace } = repository(t);
  for (const path of [workspace, join(workspace, '.git')]) chownSync(path, 54_321, 54_321);
  const { call } = await agentIn(t, workspace);
  const settings = join(folder(t), 'gitconfig');
  const before = process.env.GIT_CONFIG_GLOBAL;
  process.env.GIT_CONFIG_GLOBAL = settings;
  t.after(() => {
    if (before === undefined) delete process.env.GIT_CONFIG_GLOBAL;
    else process.env.GIT_CONFIG_GLOBAL = before;
  });
  writeFileSync(settings, '[core]\n\tpager = false\n');
  const refused = await errorOf(call('status'));
  assert.deepEqual([refused.detail.reason, /safe\.directory/.test(refused.message)], ['other_owner', true]);
  writeFileSync(settings, `[safe]\n\tdirectory = ${workspace}\n`);
  assert.equal((await call('status')).success, true);
});
