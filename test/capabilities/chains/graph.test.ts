/** Chains as graphs: ready nodes run in parallel, and the settings of nodes for errors, retries, waits and time are obeyed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChainNode, ChainSpec } from '../../../src/capability.ts';
import { agentOf, call, chainHost } from './support.ts';

const after = (node_id: string, before: readonly string[], more: Partial<ChainNode> = {}): ChainNode =>
  call(node_id, { after: [...before], ...more });

test('nodes that are ready run at once, within max_parallel, and one starts when all before it have ended', async (t) => {
  const { host, called, held, release, width } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const leaves = ['a', 'b', 'c'];
  const run = chains.run({
    max_parallel: 2,
    nodes: [
      after('root', []),
      ...leaves.map((id) => after(id, ['root'], { name: 'hold' })),
      { node_id: 'all', kind: 'gather', after: leaves },
      { node_id: 'names', kind: 'reduce', after: ['all'], reduce: { jmespath: '@[].name' } },
    ],
  });
  await Promise.all([held('a'), held('b')]);
  assert.deepEqual(called, ['root', 'a', 'b']);
  release('b');
  await held('c');
  release('c');
  release('a');
  const { success, outputs, final_output, usage } = await run;
  assert.equal(success, true);
  assert.deepEqual(outputs.all, [{ name: 'a' }, { name: 'b' }, { name: 'c' }]);
  assert.deepEqual(final_output, ['a', 'b', 'c']);
  assert.equal(width(), 2);
  assert.equal(usage?.nodes, 4);
});

test('a branch skips what no other path leads to, and a node where paths meet runs once', async (t) => {
  const { host, called } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const run = chains.run(
    {
      nodes: [
        { node_id: 'which', kind: 'branch', condition: 'input.size > 3', true_node: 'large', false_node: 'small' },
        call('large'),
        call('small'),
        after('behind', ['small']),
        after('both', ['large', 'behind']),
        after('none', ['both'], { condition: 'input.size == 0' }),
        after('last', ['none']),
      ],
    },
    { size: 5 },
  );
  const skipped: unknown[] = [];
  for await (const { fields } of run) if (fields?.phase === 'skip') skipped.push(fields.node_id);
  const { outputs, success } = await run;
  assert.deepEqual(called, ['large', 'both', 'last']);
  assert.deepEqual(Object.keys(outputs), ['large', 'both', 'last']);
  assert.deepEqual(skipped.toSorted(), ['behind', 'none', 'small']);
  assert.equal(success, true);
});

test('a node that fails cancels its siblings, and the outputs of those that were done stay', async (t) => {
  const { host, called, cancelled, held } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const run = chains.run({
    nodes: [
      after('first', []),
      after('slow', ['first'], { name: 'hold' }),
      after('gate', ['first'], { name: 'pause' }),
      after('bad', ['gate'], { name: 'fail' }),
      after('never', ['slow', 'bad']),
    ],
  });
  await held('slow');
  const { error, outputs, state } = await run;
  assert.equal(state, 'failed');
  assert.deepEqual([error?.code, error?.detail?.node_id], ['chain_node_error', 'bad']);
  assert.deepEqual(outputs, { first: { name: 'first' }, gate: { name: 'gate' }, bad: null });
  assert.deepEqual(cancelled, ['slow']);
  assert.ok(!called.includes('never'));
  const { nodes } = await chains.status((await run).chain_id);
  const states = Object.fromEntries(nodes.map(({ node_id, state }) => [node_id, state]));
  assert.deepEqual(states, { first: 'done', slow: 'cancelled', gate: 'done', bad: 'failed', never: 'skipped' });
});

test('a node that fails is skipped, or continues at another', async (t) => {
  const { host, called } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const run = (on_error: string) =>
    chains.run({
      nodes: [
        after('bad', [], { name: 'fail', on_error }),
        after('next', ['bad']),
        ...(on_error === 'repair' ? [call('repair')] : []),
      ],
    });
  assert.deepEqual((await run('skip')).outputs, { bad: null, next: { name: 'next' } });
  assert.deepEqual((await run('repair')).outputs, { bad: null, repair: { name: 'repair' } });
  assert.deepEqual(called, ['bad', 'next', 'bad', 'repair']);
});

test('what was done is undone in reverse order when a node says compensate', async (t) => {
  const { host, called } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const { outputs, state, error, chain_id } = await chains.run({
    nodes: [
      after('flight', [], { compensate: 'cancel-flight' }),
      after('hotel', ['flight'], { compensate: 'cancel-hotel' }),
      after('pay', ['hotel'], { name: 'fail', on_error: 'compensate', compensate: 'refund' }),
      call('cancel-flight', { input_map: { name: 'cancel-flight', was: '$.flight.name' } }),
      call('cancel-hotel', { name: 'fail' }),
      call('refund'),
    ],
  });
  assert.deepEqual(called, ['flight', 'hotel', 'pay', 'cancel-hotel', 'cancel-flight']);
  assert.deepEqual([state, error?.detail?.node_id], ['failed', 'pay']);
  assert.deepEqual(outputs['cancel-flight'], { name: 'cancel-flight', was: 'flight' });
  const { nodes } = await chains.status(chain_id);
  assert.deepEqual(
    nodes.map((node) => node.state),
    ['compensated', 'done', 'failed', 'done', 'failed', 'skipped'],
  );
  assert.match(nodes[1]?.error?.message ?? '', /fail is broken|cancel-hotel is broken/);
});

test('a node is retried as its policy says, and events tell of it', async (t) => {
  const { host, called } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const flaky = (times: number, retry: ChainNode['retry']): ChainSpec => ({
    nodes: [after('node', [], { name: 'flaky', input: { name: `flaky-${times}`, times }, ...(retry && { retry }) })],
  });
  const retry = { max_attempts: 3, delay_ms: 1, factor: 2, jitter: 0 };
  const run = chains.run(flaky(2, retry));
  const phases: unknown[] = [];
  for await (const { fields, data } of run) phases.push([fields?.phase, data.attempt, data.delay_ms]);
  assert.deepEqual((await run).outputs, { node: { failed: 2 } });
  assert.deepEqual(phases, [
    ['start', undefined, undefined],
    ['retry', 1, 1],
    ['retry', 2, 2],
    ['done', undefined, undefined],
  ]);
  assert.equal((await chains.run(flaky(3, retry))).state, 'failed');
  assert.equal((await chains.run(flaky(1, { ...retry, codes: ['timeout'] }))).state, 'failed');
  assert.equal(called.length, 3 + 3 + 1);
});

test('a node ends when its own time is over', async (t) => {
  const { host, cancelled } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const { outputs, error } = await chains.run({
    nodes: [after('slow', [], { name: 'hold', timeout_ms: 50, on_error: 'skip' }), after('next', ['slow'])],
  });
  assert.deepEqual([outputs, error], [{ slow: null, next: { name: 'next' } }, null]);
  assert.deepEqual(cancelled, ['slow']);
});

test('a map runs as wide as it says, within max_parallel, and its outputs have the order of its items', async (t) => {
  const { host, width } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const map = (parallel: number, max_parallel: number) =>
    chains.run(
      {
        max_parallel,
        nodes: [
          after('each', [], { kind: 'map', input: {}, items_path: '$.list', map_node: 'one', parallel }),
          { node_id: 'one', kind: 'tool', name: 'pause', input_map: { item: '$.item', index: '$.index' } },
        ],
      },
      { list: Array.from({ length: 40 }, (_, at) => at * 2) },
    );
  const { final_output } = await map(3, 8);
  assert.deepEqual(
    final_output,
    Array.from({ length: 40 }, (_, index) => ({ item: index * 2, index })),
  );
  assert.equal(width(), 3);
  await map(8, 5);
  assert.equal(width(), 5);
});

test('wait nodes end with time, an approval or an event', async (t) => {
  const { host } = await chainHost(t);
  const agent = await agentOf(t, host);
  const { chains } = agent;
  const wait = (node_id: string, what: ChainNode['wait'], more: Partial<ChainNode> = {}): ChainNode => ({
    node_id,
    kind: 'wait',
    after: [],
    ...(what && { wait: what }),
    ...more,
  });
  const waiting = Promise.withResolvers<void>();
  let waits = 0;
  const run = chains.run(
    {
      nodes: [
        wait('moment', { ms: 5 }),
        wait('asked', { approval: 'Ship it?' }),
        wait('refused', { approval: 'Really?' }, { on_error: 'skip' }),
        wait('told', { event: 'built' }),
        wait('later', { event: 'early' }, { after: ['asked'] }),
        after('end', ['moment', 'asked', 'refused', 'told', 'later']),
      ],
    },
    {},
    {
      chainId: 'waits',
      onEvent: ({ fields }) => {
        if (fields?.phase === 'wait' && ++waits === 4) waiting.resolve();
      },
    },
  );
  await waiting.promise;
  assert.equal(await chains.deliver('waits', 'early', 1), 0);
  await assert.rejects(chains.approve('waits', 'told', true), { code: 'chains.unknown_node' });
  await chains.approve('waits', 'asked', true, { note: 'fine' });
  await chains.approve('waits', 'refused', false);
  assert.equal(await chains.deliver('waits', 'built', { id: 7 }), 1);
  const { outputs, success } = await run;
  assert.deepEqual(outputs.asked, { approved: true, note: 'fine', by: 'ana' });
  assert.deepEqual([outputs.told, outputs.later, outputs.refused], [{ id: 7 }, 1, null]);
  assert.deepEqual(outputs.end, { name: 'end' });
  assert.equal(success, false);
});

test('a budget ends the run, and a deadline does', async (t) => {
  const { host, called } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const nodes = [after('a', []), after('b', ['a']), after('c', ['b'])];
  const spent = await chains.run({ nodes, budget: { nodes: 2 } });
  assert.deepEqual([spent.state, spent.error?.code], ['failed', 'chains.budget']);
  assert.deepEqual(called, ['a', 'b']);
  const late = await chains.run({ nodes, deadline: '2020-01-01T00:00:00Z' });
  assert.deepEqual([late.state, late.error?.code], ['failed', 'timeout']);
});

test('an output that does not fit its schema fails its node', async (t) => {
  const { host } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const { error } = await chains.run({
    nodes: [after('a', [], { output_schema: { type: 'object', required: ['sum'] } })],
  });
  assert.match(error?.message ?? '', /node "a" failed: the output does not fit output_schema.*sum/);
});

test('an output schema that is broken is found before a node runs', async (t) => {
  const { host, called } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const nodes = [after('a', []), after('b', ['a'], { output_schema: { type: 'no such' } })];
  const { error, state } = await chains.run({ nodes });
  assert.deepEqual([error?.code, state, called], ['bad_node', 'failed', []]);
  const { problems } = await chains.check({ nodes });
  assert.deepEqual(
    problems.map(({ node_id, field, index }) => [node_id, field, index]),
    [['b', 'output_schema', 1]],
  );
});

test('ten thousand nodes, five hundred of them deep, five thousand wide', async (t) => {
  const { host, width } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const row = Array.from({ length: 500 }, (_, at) => after(`n${at}`, at === 0 ? [] : [`n${at - 1}`]));
  assert.equal((await chains.run({ nodes: row })).nodes_run, 500);
  const leaves = Array.from({ length: 5_000 }, (_, at) => after(`l${at}`, ['root'], at < 50 ? { name: 'pause' } : {}));
  const fan: ChainSpec = {
    max_parallel: 16,
    nodes: [
      after('root', []),
      ...leaves,
      { node_id: 'all', kind: 'gather', after: leaves.map(({ node_id }) => node_id) },
    ],
  };
  const { success, final_output } = await chains.run(fan);
  assert.equal(success, true);
  assert.equal((final_output as unknown[]).length, 5_000);
  assert.ok(width() <= 16);
  const many = Array.from({ length: 10_000 }, (_, at) => after(`m${at}`, at < 20 ? [] : [`m${at - 20}`]));
  assert.equal((await chains.run({ nodes: many })).nodes_run, 10_000);
});
