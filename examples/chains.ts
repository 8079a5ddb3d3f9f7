/**
 * An agent runs a chain of calls at a host: it finds files, reads them side by side, puts the results together, and asks before it writes.
 * The chain is stored, so that it can be run by its name; a run that was stopped continues where it was.
 *
 * Run it with `node -C handfast-source examples/chains.ts`.
 */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, serve } from 'handfast';

const folder = await mkdtemp(join(tmpdir(), 'handfast-'));
process.env.HANDFAST_HOME = join(folder, 'home');
for (const [name, lines] of Object.entries({ 'a.log': 12, 'b.log': 30, 'c.log': 7 })) {
  await writeFile(join(folder, name), 'error: it failed\n'.repeat(lines));
}
await writeFile(
  join(folder, 'handfast.yaml'),
  `listen: "unix://${join(folder, 'host.sock')}"\nplugins: [tools, chains]\n`,
);
const server = await serve(join(folder, 'handfast.yaml'), { announce: false });
const [address = ''] = server.listeners;
const token = (await readFile(server.tokenFile ?? '', 'utf8')).trim();
const agent = await connect(address, { capabilities: ['tools', 'chains'], token });

// #region chain
await agent.chains.put('errors', {
  nodes: [
    { node_id: 'logs', kind: 'tool', name: 'glob', input: { patterns: ['*.log'] } },
    { node_id: 'each', kind: 'map', after: ['logs'], items_path: '$.logs.paths', map_node: 'read', parallel: 4 },
    { node_id: 'read', kind: 'tool', name: 'read_file', input_map: { path: '$.item' } },
    {
      node_id: 'worst',
      kind: 'reduce',
      after: ['each'],
      reduce: { jmespath: 'max_by([].{path: path, lines: total_lines}, &lines)' },
    },
    { node_id: 'agree', kind: 'wait', after: ['worst'], wait: { approval: 'Write the report?' } },
    {
      node_id: 'report',
      kind: 'tool',
      name: 'write_file',
      after: ['agree'],
      input_map: {
        path: 'report.txt',
        content: { jmespath: "join(' has most: ', [worst.path, to_string(worst.lines)])" },
      },
    },
  ],
});

const run = agent.chains.run({ chain: { name: 'errors' } }, {}, { chainId: 'today' });
for await (const { fields } of run) {
  const { node_id, phase } = fields as { node_id: string; phase: string };
  if (phase === 'done' && node_id !== '') console.log('done:', node_id);
  if (phase === 'wait') await agent.chains.approve('today', 'agree', true);
}
console.log((await run).state); // done
// #endregion
console.log(await readFile(join(folder, 'report.txt'), 'utf8'));

// A paused run keeps its finished work; it continues when it is resumed, also after the host was killed.
const second = agent.chains.run(
  {
    nodes: [
      { node_id: 'first', kind: 'tool', name: 'list_dir', input: {} },
      { node_id: 'pause', kind: 'wait', after: ['first'], wait: { event: 'go' } },
      { node_id: 'last', kind: 'tool', name: 'list_dir', input: {}, after: ['pause'] },
    ],
  },
  {},
  { chainId: 'later' },
);
for await (const { fields } of second) {
  if ((fields as { phase: string }).phase === 'wait') await agent.chains.pause('later');
}
console.log('later:', (await second).state);
const resumed = agent.chains.resume('later');
for await (const { fields } of resumed) {
  if ((fields as { phase: string }).phase === 'wait') await agent.chains.deliver('later', 'go');
}
const { success, nodes_run } = await resumed;
console.log(`resumed: ${success}, ${nodes_run} outputs`);
assert.ok(success);

await agent.close();
await server.close(0);
await rm(folder, { recursive: true, force: true });
