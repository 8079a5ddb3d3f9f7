/**
 * A chain delegates work: a subagent for each file, some of them side by side, and a task of a fleet, whose worker is
 * the one that meets the task's requirements. Their usage counts against the budget of the chain.
 *
 * Run it with `node -C handfast-source examples/chain-agents.ts`. The subagents and the workers are rehearsals: they
 * need no model.
 */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, serve } from 'handfast';

const folder = await mkdtemp(join(tmpdir(), 'handfast-'));
process.env.HANDFAST_HOME = join(folder, 'home');
await mkdir(join(folder, 'app'));
for (const [name, lines] of Object.entries({ 'a.log': 12, 'b.log': 30, 'c.log': 7 })) {
  await writeFile(join(folder, name), 'error: it failed\n'.repeat(lines));
}
await writeFile(
  join(folder, 'handfast.yaml'),
  `listen: "unix://${join(folder, 'host.sock')}"
plugins:
  - tools
  - chains
  - use: multi_agent
    options:
      kinds:
        - { name: reader, executor: { kind: rehearsal } }
        - { name: fleet, fleet: {} }
`,
);
await writeFile(
  join(folder, 'fleet.yaml'),
  `data_dir: data
workers:
  - { id: small, executor: rehearsal, repo: app, tier: haiku, overhead_tokens: 0 }
  - { id: large, executor: rehearsal, repo: app, tier: opus, overhead_tokens: 0 }
`,
);
const server = await serve(join(folder, 'handfast.yaml'), { fleet: join(folder, 'fleet.yaml'), announce: false });
const [address = ''] = server.listeners;
const token = (await readFile(server.tokenFile ?? '', 'utf8')).trim();
const agent = await connect(address, { capabilities: ['chains'], token });

// #region chain
const run = agent.chains.run({
  budget: { tokens: 100_000 },
  nodes: [
    { node_id: 'logs', kind: 'tool', name: 'glob', input: { patterns: ['*.log'] } },
    { node_id: 'each', kind: 'map', after: ['logs'], items_path: '$.logs.paths', map_node: 'look', parallel: 2 },
    {
      node_id: 'look',
      kind: 'agent',
      name: 'reader',
      input_map: { task: { jmespath: "join(' ', ['read', item, 'and count its lines'])" }, budget: { tokens: 10_000 } },
      retry: { max_attempts: 2 },
    },
    {
      node_id: 'report',
      kind: 'task',
      after: ['each'],
      input_map: {
        task: { jmespath: `join('', ['write "', to_string(length(each)), ' logs" to report.txt'])` },
        min_tier: 'opus',
        access: 'write',
      },
    },
  ],
});
for await (const { fields, data } of run) {
  const { node_id, phase } = fields as { node_id: string; phase: string };
  if (phase === 'progress' && node_id === 'report') console.log(data.message); // accepted by large, running
}
const { outputs, usage } = await run;
// #endregion
const summaries = (outputs.each as { summary: string }[]).map(({ summary }) => /\S+ has \d+ lines/.exec(summary)?.[0]);
console.log(summaries.join(', '));
const { status, worker } = outputs.report as { status: string; worker: string };
console.log(`the fleet: ${status} by ${worker}`);
assert.equal(await readFile(join(folder, 'app', 'report.txt'), 'utf8'), '3 logs');
assert.ok((usage?.tokens ?? 0) > 0);
await agent.close();
await server.close(0);
await rm(folder, { recursive: true });
