/** The effect on subagents of a change of their principal's rights while they work. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chainsPlugin } from '../../../src/capabilities/chains/plugin.ts';
import type { SubagentContext } from '../../../src/capabilities/multi_agent/functions.ts';
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

test('what all subagents of a principal may spend is as the configuration says now, also for a task that runs', async (t) => {
  const steps: ((tokens: number) => void)[] = [];
  const kinds = [
    {
      name: 'spender',
      run: async (_task: unknown, { spent, signal }: SubagentContext) => {
        steps.push((tokens) => spent({ tokens }));
        await forever({ signal });
      },
    },
  ];
  const rights = (max_tokens: number) => ({ ann: { capabilities, grants: { multi_agent: { max_tokens } } } });
  const site = await siteOf(t, { kinds }, rights(100));
  const { multi_agent: lead } = await site.agent('lead', 'ann');
  const one = await lead.spawn('one');
  await one.delegate('spend');
  const last = async () => {
    const { code } = await one.result();
    return code;
  };
  await until(() => steps.length === 1);
  steps.at(-1)?.(60);
  site.regrant(rights(50));
  steps.at(-1)?.(61);
  assert.equal(await last(), 'multi_agent.budget_spent');
  await assert.rejects(one.delegate('spend'), { code: 'multi_agent.budget_spent' });
  site.regrant(rights(200));
  await one.delegate('spend');
  await until(() => steps.length === 2);
  steps.at(-1)?.(100);
  assert.equal((await lead.list())[0]?.status, 'RUNNING');
  steps.at(-1)?.(140);
  assert.equal(await last(), 'multi_agent.budget_spent');
});
