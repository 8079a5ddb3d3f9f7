/** Workspaces of the configuration over a connection: graded by their command, offered only to principals whose grant names them. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { env } from '../../../src/capabilities/env/capability.ts';
import { connect } from '../../../src/connect.ts';
import { createHost } from '../../../src/host/host.ts';
import type { Plugin } from '../../../src/host/plugin.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';

test('a configured workspace is played over a connection, by the principal whose grant names it', async (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-task-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'answer.mjs'), 'export const answer = 41;\n');
  const check = [
    process.execPath,
    '-e',
    "import('./answer.mjs').then(({ answer }) => process.exit(answer === 42 ? 0 : 1))",
  ];
  const workspaces = [{ id: 'workspace/answer', task: 'Find the answer', folder, check }];
  const principals = [
    { name: 'granted', grants: { env: { environments: ['workspace/answer'] } } },
    { name: 'other', grants: { env: { environments: ['*'] } } },
  ];
  const auth = createAuthenticator(
    principals.map((principal) => ({ principal, digests: [tokenDigest(`token of ${principal.name}`)] })),
  );
  const host = createHost({ plugins: [(await env.plugin!({ workspaces })) as Plugin], auth });
  await host.start();
  context.after(() => host.close());
  const agentOf = async (name: string) => {
    const agent = await connect(host, { capabilities: ['env'], token: `token of ${name}` });
    context.after(() => agent.close());
    return agent;
  };
  const other = await agentOf('other');
  assert.ok((await other.env.list()).every(({ runs_code }) => !runs_code));
  await assert.rejects(other.env.reset('workspace/answer'), { code: 'reset_denied' });
  const agent = await agentOf('granted');
  const episode = await agent.env.reset('workspace/answer');
  const act = (operation: string, path = '', content = '') => episode.step({ operation, path, content });
  assert.equal((await act('check')).reward, 0);
  await act('write', 'answer.mjs', 'export const answer = 42;\n');
  const { reward, terminated } = await act('check');
  assert.deepEqual([reward, terminated], [1, true]);
});

test('a durable workspace continues after a restart, though its command prints something else each time', async (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-task-'));
  const state = mkdtempSync(join(tmpdir(), 'handfast-state-'));
  context.after(() => {
    for (const each of [folder, state]) rmSync(each, { recursive: true, force: true });
  });
  writeFileSync(join(folder, 'answer.mjs'), 'export const answer = 41;\n');
  const script =
    "console.log(process.hrtime.bigint()); import('./answer.mjs').then(({ answer }) => process.exit(answer === 42 ? 0 : 1))";
  const workspaces = [
    { id: 'workspace/answer', task: 'Find the answer', folder, check: [process.execPath, '-e', script] },
  ];
  const start = async () => {
    const plugin = (await env.plugin!({ workspaces, durability: 'step' })) as Plugin;
    const host = createHost({ plugins: [plugin], stateFile: join(state, 'state.sqlite') });
    await host.start();
    context.after(() => host.close());
    const agent = await connect(host, { capabilities: ['env'], agentId: 'mender' });
    return { agent, stop: () => agent.close().then(() => host.close()) };
  };
  const first = await start();
  const episode = await first.agent.env.reset('workspace/answer', { make: { max_episode_steps: 4 } });
  await episode.step({ operation: 'check', path: '', content: '' });
  await episode.step({ operation: 'write', path: 'answer.mjs', content: 'export const answer = 42;\n' });
  await episode.step({ operation: 'read', path: 'answer.mjs', content: '' });
  await first.stop();
  const next = await start();
  const again = await next.agent.env.episode(episode.id);
  assert.deepEqual(again.latest, episode.latest);
  assert.equal((await Array.fromAsync(again.transitions())).length, 3);
  const { reward, terminated, truncated } = await again.step({ operation: 'check', path: '', content: '' });
  assert.deepEqual([reward, terminated, truncated], [1, true, true], 'what was written, and the time limit, continue');
  await next.stop();
});
