/** A chain with a node of every kind that is a call, each with its real part behind it: a program, a sandbox, an MCP server, a fleet. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { ChainNode } from '../../../src/capability.ts';
import { until } from '../multi_agent/support.ts';
import { fleetSite } from './fleet-site.ts';

const EVERYTHING = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'));

const PLUGINS = [
  '{ use: tools }',
  '{ use: memory }',
  `{ use: proc, options: { programs: ['${process.execPath} **'] } }`,
  "{ use: skill, options: { roots: ['FOLDER/skills'] } }",
  `{ use: mcp, options: { servers: [{ name: everything, command: '${process.execPath}', args: ['${EVERYTHING}', stdio] }] } }`,
];
const KINDS = '[{ name: helper, executor: { kind: rehearsal } }, { name: fleet, fleet: {} }]';

const NODES: ChainNode[] = [
  {
    node_id: 'write',
    kind: 'tool',
    name: 'write_file',
    after: [],
    input: { path: 'poem.txt', content: 'so much depends upon' },
  },
  { node_id: 'count', kind: 'skill', name: 'word-count', after: ['write'], input: { path: 'poem.txt' } },
  {
    node_id: 'double',
    kind: 'proc',
    after: ['count'],
    input_map: { cmd: { jmespath: `[\`"${process.execPath}"\`, '-p', join('*', [to_string(count.words), '2'])]` } },
  },
  {
    node_id: 'echo',
    kind: 'mcp',
    name: 'everything__echo',
    after: ['double'],
    input_map: { message: '$.double.stdout' },
  },
  {
    node_id: 'keep',
    kind: 'memory',
    name: 'store',
    after: ['echo'],
    input_map: {
      namespace: 'chain',
      entries: { jmespath: "[{key: {key: 'said'}, content: to_string(echo), tier: 'semantic'}]" },
    },
  },
  {
    node_id: 'recall',
    kind: 'memory',
    name: 'retrieve',
    after: ['keep'],
    input: { namespace: 'chain', keys: ['said'] },
  },
  {
    node_id: 'ask',
    kind: 'agent',
    name: 'helper',
    after: ['recall'],
    input_map: { task: { jmespath: "join('', ['say \"', to_string(count.words), ' words\"'])" } },
  },
  {
    node_id: 'hand',
    kind: 'task',
    after: ['ask'],
    input_map: { task: { jmespath: "join('', ['write \"', to_string(count.words), '\" to counted.txt'])" } },
  },
  { node_id: 'all', kind: 'gather', after: ['count', 'double', 'ask', 'hand'] },
];

test('tools, skills, programs, MCP servers, the memory, agents and the fleet in one chain', {
  timeout: 180_000,
}, async (t) => {
  const { chains, folder } = await fleetSite(t, { kinds: KINDS, plugins: `, ${PLUGINS.join(', ')}` });
  const skill = join(folder, 'skills', 'word-count');
  mkdirSync(skill, { recursive: true, mode: 0o755 });
  const front = 'name: word-count\ndescription: Counts words\nentry: main.js\nallowed-tools: read_file';
  writeFileSync(join(skill, 'SKILL.md'), `---\n${front}\n---\nCounts.\n`);
  writeFileSync(
    join(skill, 'main.js'),
    `export default async ({ path }, skill) => ({ words: (await skill.tool('read_file', { path })).content.split(' ').length });\n`,
  );
  const checked = await chains.check({ nodes: NODES });
  assert.deepEqual(checked.problems, []);
  const { success, outputs, error } = await chains.run({ nodes: NODES });
  assert.equal(success, true, JSON.stringify(error));
  const { count, double, recall, ask, hand } = outputs as Record<string, Record<string, unknown>>;
  assert.deepEqual(count, { words: 4 });
  assert.deepEqual([double?.exit_code, double?.stdout], [0, '8\n']);
  assert.match(JSON.stringify(recall), /Echo: 8/);
  assert.match(String(ask?.summary), /4 words/);
  assert.deepEqual([hand?.status, readFileSync(join(folder, 'counted.txt'), 'utf8')], ['done', '4']);
  const refused = await chains.run({
    nodes: [
      {
        node_id: 'keep',
        kind: 'memory',
        name: 'store',
        input: { entries: [{ key: 'x', content: 1, tier: 'no such' }] },
      },
    ],
  });
  assert.match(refused.error?.message ?? '', /not all entries were stored: entries\[0\]: tier must be/);
});

test('a program ends with the request that ran its chain', { timeout: 120_000 }, async (t) => {
  const { chains, folder } = await fleetSite(t, { plugins: `, ${PLUGINS[2]}` });
  const file = join(folder, 'pid');
  const script = `require('node:fs').writeFileSync(${JSON.stringify(file)}, String(process.pid)); setInterval(() => {}, 1000)`;
  const run = chains.run({
    nodes: [{ node_id: 'wait', kind: 'proc', input: { cmd: [process.execPath, '-e', script] } }],
  });
  run.catch(() => {});
  await until(() => existsSync(file) && readFileSync(file, 'utf8') !== '');
  const pid = Number(readFileSync(file, 'utf8'));
  run.cancel();
  await assert.rejects(run, { code: 'cancelled' });
  await until(() => {
    try {
      return !process.kill(pid, 0);
    } catch {
      return true;
    }
  });
});
