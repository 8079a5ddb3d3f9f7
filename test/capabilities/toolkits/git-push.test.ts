/** `git_push` to a real server: its pushes with a grant, and misuse by a caller or a repository. */
import assert from 'node:assert/strict';
import { appendFileSync, chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gitServer } from './git-server.ts';
import { git, repository } from './repository.ts';
import { agentOf, errorOf, folder, refusalOf, toolkitsHost } from './support.ts';

const principals = [
  {
    name: 'pusher',
    capabilities: ['tools'],
    tools: { risks: ['network', 'destructive'] },
    grants: { toolkits: { names: ['git'] } },
  },
  { name: 'reader', capabilities: ['tools'], grants: { toolkits: { names: ['git'] } } },
] as const;

async function setUp(t: TestContext) {
  const { workspace, program, hasRun } = repository(t);
  const remotes = folder(t);
  const server = await gitServer(t, remotes);
  git(workspace, 'remote', 'add', 'origin', server.url);
  const host = await toolkitsHost(t, {
    workspace,
    principals,
    builtin: [{ name: 'git' }],
    kits: { git: { push: true } },
  });
  const agent = await agentOf(t, host, { principal: 'pusher', enable: ['git'] });
  const push = (args: object = {}) => agent.tools.call<{ output: string }>('git_push', { branch: 'main', ...args });
  const bare = join(remotes, 'repository.git');
  return { workspace, program, hasRun, server, host, push, bare };
}

const heads = (bare: string): string[] =>
  git(bare, 'for-each-ref', '--format=%(refname) %(subject)').trim().split('\n').filter(Boolean);

test('a branch is pushed with the grant, and by no other principal', async (t) => {
  const { workspace, host, push, bare, server } = await setUp(t);
  const reader = await agentOf(t, host, { principal: 'reader', enable: ['git'] });
  assert.equal((await errorOf(reader.tools.call('git_push', { branch: 'main' }))).code, 'tool_denied');
  assert.deepEqual([heads(bare), server.requests], [[], []]);
  const { data } = await push();
  assert.match(data?.output ?? '', /^\*\trefs\/heads\/main:refs\/heads\/main\t\[new branch\]$/m);
  assert.deepEqual(heads(bare), ['refs/heads/main first']);
  appendFileSync(join(workspace, 'a.txt'), 'two\n');
  git(workspace, 'commit', '-q', '-a', '-m', 'second');
  git(workspace, 'branch', 'other');
  git(workspace, 'tag', '-a', '-m', 'a tag', 'v1');
  for (const [key, value] of [
    ['push.followTags', 'true'],
    ['push.default', 'matching'],
    ['remote.origin.push', '+refs/heads/*:refs/heads/*'],
  ] as const) {
    git(workspace, 'config', key, value);
  }
  await push();
  assert.deepEqual(heads(bare), ['refs/heads/main second']);
});

test('nothing is forced or deleted, by a caller or by the configuration of the repository', async (t) => {
  const { workspace, push, bare } = await setUp(t);
  await push();
  git(workspace, 'commit', '-q', '--amend', '-m', 'other');
  git(workspace, 'config', 'remote.origin.push', '+refs/heads/main:refs/heads/main');
  const { message, detail } = await errorOf(push());
  assert.deepEqual([detail.reason, /rejected|non-fast-forward/.test(message)], ['git_failed', true], message);
  git(workspace, 'config', 'remote.origin.mirror', 'true');
  assert.equal(await refusalOf(push()), 'tool_error git_failed');
  for (const branch of ['+main', ':main', 'main:main', '--force', '--delete', 'HEAD:refs/heads/main', '*']) {
    assert.match(await refusalOf(push({ branch })), /^tool_denied (?:bad_name|option)$/, branch);
  }
  for (const more of [{ force: true }, { options: ['--force'] }]) {
    assert.equal((await errorOf(push(more))).code, 'schema_violation');
  }
  assert.deepEqual(heads(bare), ['refs/heads/main first']);
});

test('other remotes, helpers of remotes and rewritten addresses are refused', async (t) => {
  const { workspace, program, hasRun, push, bare, server } = await setUp(t);
  const elsewhere = folder(t);
  git(elsewhere, 'init', '-q', '--bare');
  for (const remote of [server.url, elsewhere, `ext::${program}`, '..', 'a/b']) {
    assert.equal(await refusalOf(push({ remote })), 'tool_denied bad_name', remote);
  }
  assert.equal(await refusalOf(push({ remote: 'upstream' })), 'tool_error no_remote');
  for (const address of [`ext::${program}`, `ext::sh -c '${program}'`, elsewhere, `file://${elsewhere}`, 'fd::1']) {
    git(workspace, 'config', 'remote.origin.url', address);
    assert.equal(await refusalOf(push()), 'tool_denied scheme', address);
  }
  // A second address after a plain one.
  git(workspace, 'config', 'remote.origin.url', server.url);
  for (const address of [`ext::${program}`, elsewhere]) {
    git(workspace, 'config', '--add', 'remote.origin.url', address);
    await errorOf(push());
    git(workspace, 'config', '--replace-all', 'remote.origin.url', server.url);
  }
  for (const [key, value] of [
    [`url.ext::${program}.insteadOf`, server.url],
    [`url.${elsewhere}.pushInsteadOf`, server.url],
    ['remote.origin.vcs', 'ext'],
    ['remote.origin.receivepack', program],
  ] as const) {
    git(workspace, 'config', key, value);
    assert.equal(await refusalOf(push()), 'tool_denied repository_runs_code', key);
    git(workspace, 'config', '--unset', key);
  }
  assert.deepEqual([heads(elsewhere), hasRun()], [[], false]);
  await push();
  assert.deepEqual(heads(bare), ['refs/heads/main first']);
});

test('hooks and credential helpers do not run, and files of the host are not used', async (t) => {
  const { workspace, program, hasRun, push, bare, server } = await setUp(t);
  for (const hook of ['pre-push', 'reference-transaction', 'post-update']) {
    mkdirSync(join(workspace, '.git', 'hooks'), { recursive: true });
    writeFileSync(join(workspace, '.git', 'hooks', hook), `#!/bin/sh\nexec '${program}' < /dev/null\n`);
    chmodSync(join(workspace, '.git', 'hooks', hook), 0o755);
  }
  for (const [key, value] of [
    ['core.hooksPath', join(workspace, '.git', 'hooks')],
    ['credential.helper', `!${program}`],
    ['core.askPass', program],
    ['core.sshCommand', program],
    ['push.gpgSign', 'true'],
    ['push.recurseSubmodules', 'on-demand'],
  ] as const) {
    git(workspace, 'config', key, value);
  }
  await push();
  assert.deepEqual([heads(bare), hasRun()], [['refs/heads/main first'], false]);
  const cookies = join(folder(t), 'cookies');
  writeFileSync(cookies, 'Set-Cookie: secret=1; path=/\n');
  for (const key of ['http.cookieFile', `http.${server.url}.cookieFile`, 'http.saveCookies', 'http.sslKey']) {
    git(workspace, 'config', key, key === 'http.saveCookies' ? 'true' : cookies);
    const before = server.requests.length;
    assert.equal(await refusalOf(push()), 'tool_denied repository_uses_files', key);
    assert.equal(server.requests.length, before);
    git(workspace, 'config', '--unset', key);
  }
  git(workspace, 'config', `credential.${server.url}.helper`, `!${program}`);
  assert.equal(await refusalOf(push()), 'tool_denied repository_runs_code');
  git(workspace, 'config', '--unset', `credential.${server.url}.helper`);
  // ssh has a fixed program, which asks for nothing; no server listens at the address.
  git(workspace, 'config', 'remote.origin.url', 'ssh://127.0.0.1:1/x.git');
  assert.equal(await refusalOf(push()), 'tool_error git_failed');
  git(workspace, 'config', 'remote.origin.url', `ssh://-oProxyCommand=${program}/x.git`);
  assert.equal(await refusalOf(push()), 'tool_error git_failed');
  assert.equal(hasRun(), false);
  assert.ok(existsSync(program));
});

test('the password of an address is not said', async (t) => {
  const { workspace, push, server } = await setUp(t);
  git(workspace, 'config', 'remote.origin.url', server.url.replace('http://', 'http://user:hunter2@'));
  const { data } = await push();
  assert.doesNotMatch(JSON.stringify(data), /hunter2/);
  git(workspace, 'config', 'remote.origin.url', 'http://user:hunter2@127.0.0.1:1/x.git');
  assert.doesNotMatch(JSON.stringify(await errorOf(push())), /hunter2/);
});
