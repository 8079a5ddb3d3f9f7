/** Results, tasks, events, lists and histories that are longer than a message may be. None of them is lost silently. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { SubagentNotice } from '../../../src/capabilities/multi_agent/client.ts';
import type { SubagentFunction } from '../../../src/capabilities/multi_agent/functions.ts';
import type { MultiAgentPluginOptions } from '../../../src/capabilities/multi_agent/plugin.ts';
import { connect } from '../../../src/connect.ts';
import { listenUnix } from '../../../src/transport/socket.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { siteOf, until } from './support.ts';

/** Returns text of six bytes per character in a message. */
const wide = (count: number): string => '中'.repeat(count);

const run: SubagentFunction = ({ instruction }) => Promise.resolve({ text: wide(Number(instruction)) });
const kinds = [{ name: 'writer', run }];

/** Connects an agent over a link of bytes: values in memory have no size. */
async function agentOf(t: TestContext, options: MultiAgentPluginOptions) {
  const site = await siteOf(t, options);
  const path = join(temporaryFolder(t), 'host.sock');
  const listener = await listenUnix({ path }, (link) => site.host.accept(link));
  t.after(() => listener.close());
  const agent = await connect(`unix://${path}`, { capabilities: ['multi_agent', 'tools'], agentId: 'ana' });
  t.after(() => agent.close());
  return agent;
}

test('a result that no message may hold fails its task, which is delivered and announced', async (t) => {
  const agent = await agentOf(t, { kinds });
  const seen: SubagentNotice[] = [];
  agent.multi_agent.onEvent((notice) => seen.push(notice));
  const lost: unknown[] = [];
  const onLost = (reason: unknown) => lost.push(reason);
  process.on('unhandledRejection', onLost);
  t.after(() => process.off('unhandledRejection', onLost));
  const writer = await agent.multi_agent.spawn('writer');
  await writer.delegate('200000');
  // An announced end is not requested.
  await until(() => seen.some(({ event }) => event === 'failed'));
  const { status, code } = await writer.result();
  assert.deepEqual([status, code], ['FAILED', 'multi_agent.limit']);
  assert.equal((await writer.run('10')).result?.text, wide(10));
  assert.deepEqual(lost, []);
});

test('an event that no message may hold says what it leaves out, and its task ends as any', async (t) => {
  const agent = await agentOf(t, { kinds });
  const seen: SubagentNotice[] = [];
  agent.multi_agent.onEvent((notice) => seen.push(notice));
  const writer = await agent.multi_agent.spawn('writer');
  const taskId = await writer.delegate('9000', { name: 'x'.repeat(1_047_000) });
  assert.equal((await writer.result({ taskId })).status, 'COMPLETED');
  await until(() => seen.some(({ event }) => event === 'completed'));
  const { content } = seen.find(({ event }) => event === 'completed') as SubagentNotice;
  assert.deepEqual(content, { task_id: taskId, depth: 1, left_out: ['task', 'result', 'usage'] });
});

test('a task that no message to its program may hold is refused, and the next one is done', {
  timeout: 120_000,
}, async (t) => {
  const program = fileURLToPath(new URL('child-agent.ts', import.meta.url));
  const agent = await agentOf(t, {
    kinds: [{ name: 'child', command: [process.execPath, '-C', 'handfast-source', program] }],
  });
  const child = await agent.multi_agent.spawn('child', { systemPrompt: 'x'.repeat(600_000) });
  await assert.rejects(child.delegate('y'.repeat(600_000)), { code: 'multi_agent.limit' });
  assert.equal((await child.run('work')).status, 'COMPLETED');
});

test('lists and histories that no message may hold have what fits', async (t) => {
  const agent = await agentOf(t, { kinds });
  const { multi_agent } = agent;
  for (const name of ['a', 'b', 'c']) {
    await multi_agent.spawn(name, { metadata: { facts: 'x'.repeat(500_000) }, systemPrompt: 'y'.repeat(500_000) });
  }
  assert.deepEqual(
    (await multi_agent.list()).map(({ name, metadata, open }) => [name, metadata, open]),
    ['a', 'b', 'c'].map((name) => [name, {}, true]),
  );
  const { subagents } = (await agent.request('SUBAGENT_LIST_REQ')) as unknown as {
    readonly subagents: readonly { readonly name: string; readonly config: { readonly system_prompt: string } }[];
  };
  assert.deepEqual(
    subagents.map(({ name, config }) => [name, config.system_prompt.length]),
    ['a', 'b', 'c'].map((name) => [name, 200]),
  );
  await multi_agent.channel('plan', []);
  const content = wide(20_000);
  for (let at = 0; at < 30; at += 1) await multi_agent.say('plan', { type: 'note', content });
  const history = await multi_agent.history('plan');
  assert.deepEqual(
    history.map(({ seq }) => seq),
    Array.from({ length: 30 }, (_, at) => at + 1),
  );
  assert.equal((await multi_agent.history('plan', { after: 28, limit: 1 }))[0]?.seq, 29);
});
