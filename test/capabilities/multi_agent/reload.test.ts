/** What becomes of subagents when the rights of their principal change while they work. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chainsPlugin } from '../../../src/capabilities/chains/plugin.ts';
import { multiAgentPlugin } from '../../../src/capabilities/multi_agent/plugin.ts';
import { connect } from '../../../src/connect.ts';
import { forever, siteOf, until } from './support.ts';

const capabilities = ['multi_agent', 'chains', 'tools'];

test('subagents end when their agent may have none any more, those of its chains too, and it finds how they ended', async (t) => {
  let working = 0;
  const kinds = [
    {
      name: 'slow',
      run: async (_task: unknown, { signal }: { readonly signal: AbortSignal }) => {
        working += 1;
        await forever({ signal }).finally(() => {
          working -= 1;
        });
      },
    },
  ];
  const site = await siteOf(
    t,
    {},
    { ann: { capabilities } },
    { plugins: [multiAgentPlugin({ kinds }), chainsPlugin()] },
  );
  const lead = await site.agent('lead', 'ann');
  const own = await lead.multi_agent.spawn('own');
  const task = own.run('work');
  // Its subagents are made for a session that has the capability for chains alone.
  const chaining = await connect(site.host, { capabilities: ['chains'], agentId: 'chains', token: 'ann' });
  t.after(() => chaining.close());
  const run = chaining.chains.run({ nodes: [{ node_id: 'a', kind: 'agent', input: { task: 'work' } }] });
  const ends = [task, run].map((one) => Promise.resolve(one).then(undefined, ({ code }) => code));
  await until(() => working === 2);
  site.regrant({ ann: { capabilities: ['chains', 'tools'] } });
  const [ended, failed] = await Promise.all(ends);
  assert.equal(ended, 'capability_missing');
  assert.equal(
    (failed as { error: { detail: { error: { code: string } } } }).error.detail.error.code,
    'capability_missing',
  );
  await until(() => working === 0);
  site.regrant({ ann: { capabilities } });
  const again = await site.agent('lead', 'ann');
  const [listed] = await again.multi_agent.list();
  assert.deepEqual([listed?.subagent_id, listed?.open, listed?.status], [own.id, false, 'TERMINATED']);
  const { status, code, error } = await again.multi_agent.subagent(own.id).result();
  assert.deepEqual([status, code], ['TERMINATED', 'multi_agent.terminated']);
  assert.match(error ?? '', /may have no subagents any more/);
});
