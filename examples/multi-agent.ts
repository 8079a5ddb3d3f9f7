/**
 * A coordinator without a shell leads three subagents: two functions that read files with the rights that the
 * coordinator may delegate, and one that runs programs, which the coordinator may not. They exchange messages in a
 * channel, and their results are merged.
 *
 * Run it with `node -C handfast-source examples/multi-agent.ts`.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'handfast';
import {
  createAuthenticator,
  createHost,
  multiAgentPlugin,
  principalWith,
  type SubagentFunction,
  tokenDigest,
} from 'handfast/host';
import { builtinTools, toolsPlugin } from 'handfast/tools';

const counting: SubagentFunction = async ({ metadata }, { host, progress, score }) => {
  await using agent = await connect(host, { capabilities: ['tools', 'multi_agent'] });
  const path = String(metadata.path);
  const { data } = await agent.tools.call('read_file', { path });
  const lines = String((data as { content: string }).content).split('\n').length;
  progress({ message: `read ${path}`, percent: 100 });
  await agent.multi_agent.say('team', { type: 'count', content: { path, lines } });
  score(lines);
  return { summary: `${path} has ${lines} lines` };
};

const running: SubagentFunction = async (_task, { host }) => {
  await using agent = await connect(host, { capabilities: ['tools'] });
  const { data } = await agent.tools.call('shell', { command: 'echo from a shell' });
  return { summary: String((data as { stdout: string }).stdout).trim() };
};

const workspace = await mkdtemp(join(tmpdir(), 'handfast-'));
const files = ['poem.txt', 'novel.txt'];
await writeFile(join(workspace, 'poem.txt'), 'one\ntwo\n');
await writeFile(join(workspace, 'novel.txt'), 'line\n'.repeat(300));

const coordinator = principalWith('coordinator', [], {
  capabilities: ['multi_agent'],
  tools: { allow: ['list_files'] },
  grants: { multi_agent: { delegate: { tools: { allow: ['read_file', 'shell'] } }, max_subagents: 3 } },
});
await using host = createHost({
  plugins: [
    toolsPlugin({ tools: builtinTools() }),
    multiAgentPlugin({
      kinds: [
        { name: 'counter', about: 'Counts the lines of a file', run: counting, tools: { allow: ['read_file'] } },
        { name: 'runner', about: 'Runs a program', run: running },
      ],
    }),
  ],
  auth: createAuthenticator([{ principal: coordinator, digests: [tokenDigest('secret')] }]),
  workspace,
});
await host.start();
await using agent = await connect(host, { capabilities: ['multi_agent', 'tools'], agentId: 'lead', token: 'secret' });

const denied = await agent.tools.call('shell', { command: 'true' }).then(
  () => 'allowed',
  ({ code }) => code,
);
console.log(`the coordinator at the shell: ${denied}`);

const counters = await Promise.all(files.map((name) => agent.multi_agent.spawn(name, { kind: 'counter' })));
const runner = await agent.multi_agent.spawn('runner', { kind: 'runner' });
await agent.multi_agent.channel('team', counters);
const said: string[] = [];
agent.multi_agent.onSaid((_channel, { seq, message }) =>
  said.push(`${seq}: ${(message.content as { path: string }).path}`),
);

await Promise.all(
  counters.map((counter, at) => counter.delegate('Count the lines', { metadata: { path: files[at] } })),
);
const longest = await agent.multi_agent.merge(counters, { strategy: 'best_by_score' });
console.log(`the longest: ${longest.result?.summary}`);
console.log((await agent.multi_agent.merge(counters)).result?.summary);
console.log(`in the channel: ${said.length} messages, the first is 1: ${said[0]?.startsWith('1: ')}`);

const { result, error } = await runner.run('Say something');
console.log(`the runner: ${result?.summary ?? error}`);
const fourth = await agent.multi_agent.spawn('fourth').then(
  () => 'made',
  ({ code }) => code,
);
console.log(`a fourth subagent: ${fourth}`);
assert.deepEqual(
  (await agent.multi_agent.list()).map(({ status }) => status),
  ['COMPLETED', 'COMPLETED', 'COMPLETED'],
);
await rm(workspace, { recursive: true });
