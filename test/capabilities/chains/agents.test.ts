/**
 * Nodes of the kind agent: the requests to their subagents, results, reports and spending, and how they end with their nodes.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { SubagentBackend } from '../../../src/capabilities/multi_agent/backend.ts';
import type { SubagentFunction } from '../../../src/capabilities/multi_agent/functions.ts';
import { multiAgentPlugin, type SubagentKindOptions } from '../../../src/capabilities/multi_agent/plugin.ts';
import type { ChainNode } from '../../../src/capability.ts';
import { connect } from '../../../src/connect.ts';
import { asError, fail } from '../../../src/wire/errors.ts';
import { forever, until } from '../multi_agent/support.ts';
import { agentOf, call, chainHost } from './support.ts';

const ask = (node_id: string, more: Partial<ChainNode> = {}): ChainNode => ({
  node_id,
  kind: 'agent',
  name: 'helper',
  input: { task: `do ${node_id}` },
  ...more,
});

/** Starts a host with these kinds of subagents, and an agent of it. */
async function site(
  t: TestContext,
  kinds: Readonly<Record<string, SubagentFunction>>,
  more: Partial<SubagentKindOptions> = {},
) {
  const made = Object.entries(kinds).map(([name, run]) => ({ name, run, ...more }));
  const host = await chainHost(t, { plugins: [multiAgentPlugin({ kinds: made, maxSubagents: 64 })] });
  const agent = await connect(host.host, { capabilities: ['chains', 'multi_agent'], agentId: 'ana' });
  t.after(() => agent.close());
  const open = async () => (await agent.multi_agent.list()).filter(({ open }) => open === true);
  return { ...host, agent, chains: agent.chains, open };
}

const causeOf = ({ error }: { error?: { detail?: unknown } | null }) =>
  (error?.detail as { error?: { code: string; detail?: Record<string, unknown> } } | undefined)?.error;

test('an agent node gives its task with all its members, and its output is the result', async (t) => {
  const seen: unknown[] = [];
  const { chains, open, agent } = await site(t, {
    helper: ({ task_id: _, seconds_left, ...work }, { subagent }) => {
      seen.push({ ...work, tools: subagent.toolScope, late: (seconds_left ?? 0) > 3_000 });
      return { answer: work.instruction.length };
    },
    other: () => 'a text',
  });
  const { outputs, success } = await chains.run({
    timeout: 1_000,
    nodes: [
      ask('one', {
        input: {
          task: 'count',
          criteria: ['it is counted'],
          role: 'counter',
          system_prompt: 'Be brief.',
          model: 'small',
          tool_scope: 'restricted',
          max_steps: 3,
          metadata: { a: 1 },
          budget: { tokens: 50 },
        },
      }),
      ask('two', { name: 'other', after: ['one'], input_map: { task: { jmespath: '{got: one.answer}' } } }),
    ],
  });
  assert.equal(success, true);
  assert.deepEqual(outputs, { one: { answer: 5 }, two: { summary: 'a text' } });
  assert.deepEqual(seen, [
    {
      name: 'one',
      instruction: 'count',
      success_criteria: ['it is counted'],
      metadata: { a: 1 },
      role: 'counter',
      model: 'small',
      system_prompt: 'Be brief.',
      max_steps: 3,
      tokens_left: 50,
      tools: 'restricted',
      late: false,
    },
  ]);
  assert.deepEqual(await open(), []);
  assert.deepEqual(
    (await agent.multi_agent.list()).map(({ name, status }) => [name, status]),
    [
      ['one', 'TERMINATED'],
      ['two', 'TERMINATED'],
    ],
  );
});

test('progress of a subagent is an event of its node, and what it spends is spending of the run', async (t) => {
  const goOn = Promise.withResolvers<void>();
  const { chains } = await site(t, {
    helper: async (_task, { progress, spent }) => {
      progress({ message: 'half', percent: 50 });
      await goOn.promise;
      spent({ tokens: 30, costUsd: 0.25 });
      return {};
    },
  });
  const run = chains.run(
    { nodes: [ask('one'), ask('two', { after: ['one'] })], budget: { tokens: 1_000, usd: 5 } },
    {},
    { chainId: 'p' },
  );
  const events: unknown[] = [];
  for await (const { fields, data } of run) {
    const { node_id, phase } = fields as { node_id: string; phase: string };
    if (phase === 'progress' && node_id === 'one') events.push({ ...data });
    if (events.length === 1) goOn.resolve();
  }
  assert.deepEqual(events, [
    { message: 'half', pct: 50, tokens: 0, usd: 0 },
    { message: 'half', pct: 50, tokens: 30, usd: 0.25 },
  ]);
  assert.deepEqual((await run).usage, { nodes: 2, tokens: 60, usd: 0.5 });
  const spent = (await chains.history('p')).entries.filter(({ phase }) => phase === 'spent');
  assert.deepEqual(
    spent.map(({ node_id, data }) => [node_id, data]),
    [
      ['one', { tokens: 30, usd: 0.25 }],
      ['two', { tokens: 30, usd: 0.25 }],
    ],
  );
});

test('a budget that subagents spend ends the run while they run, and each gets what is left of it', async (t) => {
  const lefts: unknown[] = [];
  const stopped: string[] = [];
  const { chains, open } = await site(t, {
    helper: async ({ name, tokens_left }, { spent, signal }) => {
      lefts.push([name, tokens_left]);
      spent({ tokens: 40 });
      if (name === 'first') return {};
      await forever({ signal }).catch((error) => {
        stopped.push(name);
        throw error;
      });
    },
  });
  const nodes = [ask('first'), ask('b', { after: ['first'] }), ask('c', { after: ['first'] })];
  const { state, error, usage } = await chains.run({ nodes, budget: { tokens: 100 } });
  assert.deepEqual(
    [state, error?.code, error?.detail],
    ['failed', 'chains.budget', { row: 'quota_exceeded', budget: 'tokens', max: 100 }],
  );
  assert.deepEqual(lefts[0], ['first', 100]);
  assert.deepEqual(lefts[1], ['b', 60]);
  assert.equal(usage?.tokens, 120);
  await until(async () => (await open()).length === 0 && stopped.length === 2);
  // A separate budget ends only the node.
  const own = await chains.run({
    nodes: [ask('x', { input: { task: 'x', budget: { tokens: 10 } }, on_error: 'skip' }), call('y', { after: ['x'] })],
  });
  assert.deepEqual([own.state, own.outputs], ['done', { x: null, y: { name: 'y' } }]);
});

test('a stuck subagent ends with its node: at the timeout, with the run, with a cancel, and with the request', {
  timeout: 120_000,
}, async (t) => {
  const { chains, open } = await site(t, {
    helper: (_task, { signal }) => forever({ signal }),
    deaf: () => new Promise(() => {}),
  });
  const late = await chains.run({ nodes: [ask('one', { timeout_ms: 50 })] });
  assert.equal(causeOf(late)?.code, 'chains.node_timeout');
  const deaf = await chains.run({
    nodes: [ask('one', { name: 'deaf', timeout_ms: 50, on_error: 'skip' }), call('z', { after: ['one'] })],
  });
  assert.deepEqual(deaf.outputs.z, { name: 'z' });
  const over = await chains.run({ nodes: [ask('one')], timeout: 0.1 });
  assert.equal(over.error?.code, 'timeout');
  await until(async () => (await open()).length === 0);

  const cancelled = chains.run({ nodes: [ask('one')] }, {}, { chainId: 'c' });
  await until(async () => (await open()).length === 1);
  await chains.cancel('c');
  assert.equal((await cancelled).state, 'cancelled');
  await until(async () => (await open()).length === 0);

  const given = chains.run({ nodes: [ask('one')] }, {}, { chainId: 'g' });
  given.catch(() => {});
  await until(async () => (await open()).length === 1);
  given.cancel();
  await assert.rejects(given, { code: 'cancelled' });
  await until(async () => (await open()).length === 0);

  const failing = await chains.run({ nodes: [ask('one'), call('bad', { name: 'fail', after: [] })] });
  assert.equal(failing.error?.detail?.node_id, 'bad');
  await until(async () => (await open()).length === 0);
});

test('a subagent that fails fails its node with its code, which policies and retries see', async (t) => {
  let tries = 0;
  const { chains } = await site(t, {
    helper: () => {
      tries += 1;
      if (tries < 3) throw new Error('not yet');
      return { tries };
    },
  });
  const retried = await chains.run({ nodes: [ask('one', { retry: { max_attempts: 3, delay_ms: 1 } })] });
  assert.deepEqual(retried.outputs, { one: { tries: 3 } });
  tries = 0;
  const failed = await chains.run({ nodes: [ask('one')] });
  const cause = causeOf(failed);
  assert.equal(cause?.code, 'multi_agent.failed');
  assert.match(String(cause?.detail?.subagent_id), /^sub_/);
});

test('a map over agent nodes has its width, and results in the order of its items', async (t) => {
  let running = 0;
  let widest = 0;
  const gates = new Map<string, () => void>();
  const { chains, open } = await site(t, {
    helper: async ({ instruction }) => {
      running += 1;
      widest = Math.max(widest, running);
      await new Promise<void>((resolve) => gates.set(instruction, resolve));
      running -= 1;
      return instruction;
    },
  });
  const items = ['a', 'b', 'c', 'd', 'e', 'f'];
  const run = chains.run(
    {
      nodes: [
        { node_id: 'all', kind: 'map', after: [], items_path: '$.items', map_node: 'each', parallel: 3 },
        ask('each', { input: {} }),
      ],
    },
    { items: items.map((task, at) => (at % 2 === 0 ? task : { task })) },
  );
  for (let ended = 0; ended < items.length; ended += 1) {
    // The last that started ends first.
    await until(() => gates.size === Math.min(3, items.length - ended));
    const [name, end] = [...gates].at(-1) as [string, () => void];
    gates.delete(name);
    end();
  }
  assert.deepEqual(
    (await run).outputs.all,
    items.map((summary) => ({ summary })),
  );
  assert.equal(widest, 3);
  assert.deepEqual(await open(), []);
});

test('a run pauses behind an agent node, resumes, and compensates what one has done', async (t) => {
  const done: string[] = [];
  let release = () => {};
  const { chains } = await site(t, {
    helper: async ({ name, instruction }) => {
      if (instruction === 'hold') await new Promise<void>((resolve) => (release = resolve));
      done.push(name);
      return { name };
    },
  });
  const nodes: ChainNode[] = [
    ask('work', { input: { task: 'hold' }, compensate: 'undo' }),
    ask('undo'),
    ask('next', { after: ['work'] }),
    call('bad', { name: 'fail', after: ['next'], on_error: 'compensate' }),
  ];
  const run = chains.run({ nodes }, {}, { chainId: 'p' });
  const first = release;
  await until(() => release !== first);
  const pausing = chains.pause('p');
  release();
  assert.equal((await run).state, 'paused');
  await pausing;
  assert.deepEqual(done, ['work']);
  const resumed = await chains.resume('p');
  assert.equal(resumed.error?.code, 'chain_node_error');
  assert.deepEqual(done, ['work', 'next', 'undo']);
  const states = Object.fromEntries((await chains.status('p')).nodes.map(({ node_id, state }) => [node_id, state]));
  assert.equal(states.work, 'compensated');
});

test('inputs and kinds are checked before a node runs', async (t) => {
  const { chains } = await site(t, { helper: () => ({}) });
  const problems = async (nodes: readonly ChainNode[]) =>
    (await chains.check({ nodes: [...nodes] })).problems.map(({ node_id, field, code }) => [node_id, field, code]);
  assert.deepEqual(await problems([ask('a', { input: {} })]), [['a', 'input', 'bad_type']]);
  assert.deepEqual(await problems([ask('a', { input: { task: 'x', tool_scope: 'all' } })]), [
    ['a', 'input.tool_scope', 'bad_type'],
  ]);
  assert.deepEqual(await problems([ask('a', { input_map: { task: '$.x', tokens: 1 } })]), [
    ['a', 'input_map.tokens', 'bad_type'],
  ]);
  assert.deepEqual(await problems([ask('a', { name: 'nobody' })]), [['a', 'name', 'bad_node']]);
  assert.deepEqual(await problems([ask('t', { kind: 'task' })]), [['t', 'name', 'bad_node']]);
  const refused = await chains.run({ nodes: [ask('t', { kind: 'task', name: '' })] });
  assert.match(refused.error?.message ?? '', /add one with fleet to kinds in the options of the plugin multi_agent/);
  const wrong = await chains.run(
    { nodes: [ask('a', { input_map: { task: 'x', deadline: '$.when' } })] },
    { when: 'soon' },
  );
  assert.equal(causeOf(wrong)?.code, 'schema_violation');
  const bare = await chainHost(t);
  const { chains: alone } = await agentOf(t, bare.host);
  const none = await alone.run({ nodes: [ask('a')] });
  assert.equal(none.error?.code, 'bad_node');
});

test('a run whose budget is spent is resumed with a larger one, of which it has used what it used before', async (t) => {
  const lefts: (number | null)[] = [];
  const { chains } = await site(t, {
    helper: ({ tokens_left }, { spent }) => {
      lefts.push(tokens_left);
      spent({ tokens: 60 });
      return {};
    },
  });
  const nodes = [ask('one'), ask('two', { after: ['one'] })];
  const first = await chains.run({ nodes, budget: { tokens: 100 } }, {}, { chainId: 'b' });
  assert.deepEqual(
    [first.error?.code, first.usage?.tokens, Object.keys(first.outputs)],
    ['chains.budget', 120, ['one']],
  );
  assert.equal((await chains.resume('b', { rerun: ['two'] })).error?.code, 'chains.budget');
  const more = await chains.resume('b', { rerun: ['two'], budget: { tokens: 500 } });
  assert.deepEqual([more.success, more.usage?.tokens], [true, 180]);
  assert.deepEqual(lefts, [100, 40, 380]);
});

test('a clock that is set forward takes no time from a subagent', async (t) => {
  let ahead = 0;
  const { host, held, release } = await chainHost(t, {
    chains: { now: () => Date.now() + ahead },
    plugins: [multiAgentPlugin({ kinds: [{ name: 'helper', run: () => ({ answer: 1 }) }] })],
  });
  const { chains } = await agentOf(t, host);
  const run = chains.run({
    nodes: [call('hold', { name: 'hold' }), ask('b', { after: ['hold'], timeout_ms: 60_000 })],
  });
  await held('hold');
  ahead = 3_600_000;
  release('hold');
  assert.deepEqual((await run).outputs.b, { answer: 1 });
});

test('a run whose subagent cannot be started because the server ends is interrupted, and not failed', async (t) => {
  let isEnding = true;
  const backend: SubagentBackend = {
    name: 'any',
    open() {
      if (isEnding) throw fail('interrupted', 'the server is ending');
      return { run: async () => ({ result: { answer: 1 } }), close: async () => {} };
    },
  };
  const { host } = await chainHost(t, { plugins: [multiAgentPlugin({ kinds: [{ name: 'helper', backend }] })] });
  const agent = await connect(host, { capabilities: ['chains', 'multi_agent'], agentId: 'ana' });
  t.after(() => agent.close());
  const codeOf = (one: PromiseLike<unknown>) => Promise.resolve(one).then(undefined, (thrown) => asError(thrown).code);
  assert.equal(await codeOf(agent.multi_agent.spawn('helper')), 'multi_agent.interrupted');
  assert.equal(await codeOf(agent.chains.run({ nodes: [ask('one')] }, {}, { chainId: 'ended' })), 'interrupted');
  assert.equal((await agent.chains.status('ended')).run.state, 'interrupted');
  isEnding = false;
  assert.equal(await codeOf(agent.chains.resume('ended')), 'chains.uncertain');
  const resumed = await agent.chains.resume('ended', { rerun: ['one'] });
  assert.deepEqual([resumed.state, resumed.outputs], ['done', { one: { answer: 1 } }]);
});
