/** The toolkit `filesystem`: moving, deleting and making directories, within the workspace and off protected paths. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { PathGuard } from '../../../src/base/workspace/protected-paths.ts';
import { agentOf, folder, refusalOf, toolkitsHost } from './support.ts';

test('files and directories are moved, deleted and made', async (t) => {
  const workspace = folder(t);
  const agent = await agentOf(t, await toolkitsHost(t, { workspace }));
  const call = (name: string, args: object) => agent.tools.call(name, { ...args });
  writeFileSync(join(workspace, 'a.txt'), 'a');
  assert.deepEqual((await call('make_directory', { path: 'x/y' })).data, { path: 'x/y', created: true });
  assert.deepEqual((await call('make_directory', { path: 'x/y' })).data, { path: 'x/y', created: false });
  assert.deepEqual((await call('move_file', { from: 'a.txt', to: 'x/y/b.txt' })).data, {
    from: 'a.txt',
    to: 'x/y/b.txt',
  });
  assert.equal(readFileSync(join(workspace, 'x/y/b.txt'), 'utf8'), 'a');
  await call('move_file', { from: 'x', to: 'z' });
  assert.equal(await refusalOf(call('delete_file', { path: 'z' })), 'tool_error not_empty');
  writeFileSync(join(workspace, 'c.txt'), 'c');
  assert.equal(await refusalOf(call('move_file', { from: 'c.txt', to: 'z/y/b.txt' })), 'tool_error exists');
  assert.equal(readFileSync(join(workspace, 'z/y/b.txt'), 'utf8'), 'a');
  await call('delete_file', { path: 'z/y/b.txt' });
  await call('delete_file', { path: 'z/y' });
  assert.equal(existsSync(join(workspace, 'z/y')), false);
  assert.equal(await refusalOf(call('delete_file', { path: 'nothing' })), 'tool_error not_found');
  assert.equal(await refusalOf(call('delete_file', { path: '.' })), 'tool_error is_the_directory');
  assert.equal(await refusalOf(call('make_directory', { path: 'c.txt' })), 'tool_error exists');
});

test('nothing leaves the workspace: neither by a path nor through a link', async (t) => {
  const [workspace, outside] = [folder(t), folder(t)];
  const agent = await agentOf(t, await toolkitsHost(t, { workspace }));
  const call = (name: string, args: object) => agent.tools.call(name, { ...args });
  writeFileSync(join(outside, 'secret'), 's');
  writeFileSync(join(workspace, 'a'), 'a');
  symlinkSync(outside, join(workspace, 'link'));
  for (const path of ['../secret', join(outside, 'secret'), 'link/secret', 'link', '../../x']) {
    assert.equal(await refusalOf(call('delete_file', { path })), 'tool_denied outside_workspace', path);
    assert.equal(await refusalOf(call('move_file', { from: path, to: 'b' })), 'tool_denied outside_workspace', path);
    assert.equal(await refusalOf(call('move_file', { from: 'a', to: path })), 'tool_denied outside_workspace', path);
    assert.equal(await refusalOf(call('make_directory', { path })), 'tool_denied outside_workspace', path);
  }
  assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 's');
  assert.equal(readFileSync(join(workspace, 'a'), 'utf8'), 'a');
});

test('protected paths are neither moved nor deleted, also with a directory above them', async (t) => {
  const workspace = folder(t);
  mkdirSync(join(workspace, 'conf'));
  writeFileSync(join(workspace, 'conf', 'tokens'), 's');
  const protectedPaths = [{ path: join(workspace, 'conf', 'tokens'), kind: 'file', deny: 'all' }] as const;
  const host = await toolkitsHost(t, {
    workspace,
    pathGuard: new PathGuard(protectedPaths),
    principals: [
      {
        name: 'some',
        capabilities: ['tools', 'toolkits'],
        tools: { risks: ['destructive'] },
      },
    ],
  });
  const agent = await agentOf(t, host, { principal: 'some' });
  const call = (name: string, args: object) => agent.tools.call(name, { ...args });
  assert.equal(await refusalOf(call('delete_file', { path: 'conf/tokens' })), 'tool_denied protected_path');
  assert.equal(await refusalOf(call('move_file', { from: 'conf/tokens', to: 'b' })), 'tool_denied protected_path');
  assert.equal(await refusalOf(call('move_file', { from: 'conf', to: 'b' })), 'tool_error permission_denied');
  assert.equal(await refusalOf(call('move_file', { from: 'conf', to: '.git' })), 'tool_denied protected_path');
  assert.equal(readFileSync(join(workspace, 'conf', 'tokens'), 'utf8'), 's');
});
