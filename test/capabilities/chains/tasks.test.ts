/** Nodes of the kind task: the requests to the fleet of the server, its outcomes and refusals, and the ends of its tasks. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChainNode } from '../../../src/capability.ts';
import { connect } from '../../../src/connect.ts';
import { until } from '../multi_agent/support.ts';
import { fleetSite } from './fleet-site.ts';

const hand = (node_id: string, task: string, more: object = {}, node: Partial<ChainNode> = {}): ChainNode => ({
  node_id,
  kind: 'task',
  input: { task, ...more },
  ...node,
});

const causeOf = ({ error }: { error?: { detail?: unknown } | null }) =>
  (
    error?.detail as
      | { error?: { code: string; message: string; detail?: { fleet?: Record<string, unknown> } } }
      | undefined
  )?.error;

test('a task goes to the worker that meets its contract, and its outcome is the output of the node', {
  timeout: 120_000,
}, async (t) => {
  const { chains, tasks } = await fleetSite(t);
  const run = chains.run(
    {
      nodes: [
        hand('make', 'write "one" to made.txt', {
          min_tier: 'opus',
          criteria: ['it is there'],
          budget: { tokens: 5_000 },
        }),
        {
          node_id: 'after',
          kind: 'task',
          after: ['make'],
          input_map: { task: { jmespath: "join(' ', ['say', make.worker])" } },
        },
      ],
      budget: { tokens: 50_000 },
    },
    {},
    { chainId: 'c' },
  );
  const said: unknown[] = [];
  for await (const { fields, data } of run) {
    const { phase, node_id } = fields as { phase: string; node_id: string };
    if (phase === 'progress' && node_id === 'make') said.push(data.message);
  }
  const { outputs, success, usage } = await run;
  assert.equal(success, true);
  const { make } = outputs as { make: { status: string; worker: string; task_id: string; tokens_spent: number } };
  assert.deepEqual([make.status, make.worker], ['done', 'large']);
  assert.ok(said.includes('accepted by large'), String(said));
  const [, first] = await tasks();
  assert.deepEqual(
    [first?.task_id, first?.submitter, first?.spec.token_budget, first?.spec.min_tier],
    [make.task_id, 'local', 5_000, 'opus'],
  );
  assert.match(first?.spec.brief ?? '', /It is done when:\n- it is there/);
  assert.ok(Date.parse(first?.spec.deadline ?? '') <= Date.now() + 301_000, 'its deadline is that of the run');
  assert.match(make.task_id, /^run-/);
  assert.ok(make.tokens_spent > 0 && (usage?.tokens ?? 0) >= make.tokens_spent);
});

test('what no worker can do is the error of the node, with the code of the fleet, and is left to no operator', {
  timeout: 120_000,
}, async (t) => {
  const { chains, tasks } = await fleetSite(t);
  const refused = await chains.run({ nodes: [hand('one', 'say "x"', { required_mcp: ['no_worker_has_it'] })] });
  const cause = causeOf(refused);
  assert.equal(cause?.code, 'tool_error');
  const { fleet } = cause?.detail ?? {};
  assert.deepEqual([fleet?.state, fleet?.parked, fleet?.code], ['blocked', true, 'missing_mcp']);
  assert.equal((await tasks())[0]?.state, 'canceled');
  const failed = await chains.run({ nodes: [hand('one', 'fail "no luck"')] });
  assert.match(causeOf(failed)?.message ?? '', /no luck/);
  const poor = await chains.run({ nodes: [hand('one', 'spend 90000 tokens')], budget: { tokens: 4_000 } });
  assert.equal(poor.error?.code, 'chains.budget');
});

test('a task is cancelled with its node, and with its run', { timeout: 120_000 }, async (t) => {
  const { chains, tasks } = await fleetSite(t);
  const states = async () => (await tasks()).map(({ state }) => state);
  const late = await chains.run({ nodes: [hand('one', 'wait 60000 ms', {}, { timeout_ms: 500 })] });
  assert.equal(causeOf(late)?.code, 'chains.node_timeout');
  await until(async () => (await states())[0] === 'canceled');
  const run = chains.run({ nodes: [hand('one', 'wait 60000 ms')] }, {}, { chainId: 'c' });
  await until(async () => (await states())[0] === 'running');
  await chains.cancel('c');
  assert.equal((await run).state, 'cancelled');
  await until(async () => (await states())[0] === 'canceled');
  // It was ended, not lost: a person decides whether it runs again.
  await assert.rejects(chains.resume('c'), { code: 'chains.uncertain' });
  const again = chains.resume('c', { rerun: ['one'] });
  await until(async () => (await states())[0] === 'running');
  assert.equal((await tasks()).length, 3);
  again.catch(() => {});
  again.cancel();
  await until(async () => (await states())[0] === 'canceled');
});

test('a run whose session was lost finds its task again, and hands in no second one', {
  timeout: 120_000,
}, async (t) => {
  const { chains, tasks, server } = await fleetSite(t);
  const ben = await connect(server.listeners[0] as string, { capabilities: ['chains'], agentId: 'ben' });
  const nodes: ChainNode[] = [
    { node_id: 'all', kind: 'map', after: [], items_path: '$.items', map_node: 'each', parallel: 2 },
    { node_id: 'each', kind: 'task' },
    hand('last', 'say "done"', {}, { after: ['all'] }),
  ];
  const items = [1, 2].map((at) => `wait 2000 ms. write "${at}" to ${at}.txt`);
  const run = ben.chains.run({ nodes }, { items }, { chainId: 'lost' });
  run.catch(() => {});
  await until(async () => (await tasks()).filter(({ state }) => state === 'running').length === 2);
  await ben.close();
  await until(async () => (await chains.status('lost')).run.state === 'interrupted');
  const resumed = await chains.resume('lost');
  assert.equal(resumed.success, true);
  assert.equal((await tasks()).length, 3);
  assert.deepEqual(
    (await tasks()).map(({ state, attempt }) => [state, attempt]),
    [
      ['done', 1],
      ['done', 1],
      ['done', 1],
    ],
  );
});

test('subagents of the kind are tasks, too, and kinds say what all of theirs demand', {
  timeout: 120_000,
}, async (t) => {
  const { agent, tasks } = await fleetSite(t, { kinds: '[{ name: big, fleet: { min_tier: opus, access: read } }]' });
  const big = await agent.multi_agent.spawn('b', { kind: 'big', role: 'reader' });
  const { status, result } = await big.run('say "hello"');
  assert.equal(status, 'COMPLETED');
  assert.deepEqual([result?.worker, (await tasks())[0]?.spec.access], ['large', 'read']);
  await agent.multi_agent.channel('plan', [big]);
  await agent.multi_agent.say('plan', { type: 'note', content: 'be brief' });
  assert.equal((await big.run('say "hi"')).status, 'COMPLETED');
  assert.match(
    (await tasks()).map(({ spec }) => spec.brief).find((brief) => brief.includes('"hi"')) ?? '',
    /^note of the agent above in the channel "plan": be brief\n\n/,
  );
  const wrong = await big.run('say "x"', { metadata: { fleet: { submitter: 'eve' } } });
  assert.equal(wrong.code, 'schema_violation');
  await big.delegate('wait 60000 ms');
  await until(async () => (await tasks())[0]?.state === 'running');
  await big.terminate();
  await until(async () => (await tasks())[0]?.state === 'canceled');
});

test('a server without a fleet says what to configure', { timeout: 120_000 }, async (t) => {
  const { chains } = await fleetSite(t, { fleet: false });
  const { error } = await chains.run({ nodes: [hand('one', 'say "x"')] });
  assert.match(error?.message ?? '', /this server runs no fleet; start it with one: handfast fleet up/);
  const bare = await fleetSite(t, { kinds: '[]' });
  const none = await bare.chains.run({ nodes: [hand('one', 'say "x"')] });
  assert.match(none.error?.message ?? '', /add one with fleet to kinds/);
});
