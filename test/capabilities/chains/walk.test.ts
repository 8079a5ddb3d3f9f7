/** Chains of A2E 1.0 run as the Python SDK runs them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agentOf, call, chainHost } from './support.ts';

test('a chain with a tool, a branch and a map runs along next_node', async (t) => {
  const { host, called } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const run = chains.run(
    {
      entry_node: 'read',
      nodes: [
        call('read', { input: { ok: true, name: 'read' }, next_node: 'check' }),
        { node_id: 'check', kind: 'branch', condition: '$.read.ok == true', true_node: 'each', false_node: 'never' },
        call('never'),
        { node_id: 'each', kind: 'map', items_path: '$.files', map_node: 'one' },
        { node_id: 'one', kind: 'tool', name: 'echo', input_map: { text: '$.item', at: '$.index', name: 'one' } },
      ],
    },
    { files: ['a', 'b'] },
  );
  const events: string[] = [];
  for await (const { fields } of run) events.push(`${fields?.node_id} ${fields?.phase}`);
  const { success, outputs, final_output, nodes_run, error, state } = await run;
  assert.deepEqual({ success, error, state }, { success: true, error: null, state: 'done' });
  const items = [
    { text: 'a', at: 0, name: 'one' },
    { text: 'b', at: 1, name: 'one' },
  ];
  assert.deepEqual(outputs, { read: { ok: true, name: 'read' }, each: items, one: items[1] });
  assert.deepEqual(final_output, items);
  assert.equal(nodes_run, 3);
  assert.deepEqual(events, ['read start', 'read done', 'one start', 'one done', 'one start', 'one done']);
  assert.deepEqual(called, ['read', 'one', 'one']);
});

test('what a node does when it fails', async (t) => {
  const { host, called } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const run = (on_error: string) =>
    chains.run({
      entry_node: 'first',
      nodes: [
        call('first', { next_node: 'bad' }),
        call('bad', { name: 'fail', on_error, next_node: 'last' }),
        call('other'),
        call('last'),
      ].filter(({ node_id }) => node_id !== 'other' || on_error === 'other'),
    });
  const aborted = await run('abort');
  assert.deepEqual(aborted.outputs, { first: { name: 'first' }, bad: null });
  assert.equal(aborted.success, false);
  assert.equal(aborted.error?.code, 'chain_node_error');
  assert.match(aborted.error?.message ?? '', /"bad".*bad is broken/);
  assert.equal(aborted.error?.detail?.node_id, 'bad');
  assert.equal(aborted.final_output, null);
  const skipped = await run('skip');
  assert.deepEqual(skipped.outputs, { first: { name: 'first' }, bad: null, last: { name: 'last' } });
  assert.deepEqual([skipped.success, skipped.error, skipped.state], [false, null, 'done']);
  const routed = await run('other');
  assert.deepEqual(routed.outputs, { first: { name: 'first' }, bad: null, other: { name: 'other' } });
  assert.deepEqual(routed.final_output, { name: 'other' });
  assert.deepEqual(called, ['first', 'bad', 'first', 'bad', 'last', 'first', 'bad', 'other']);
});

test('an item of a map that fails is left out, and the chain is no success', async (t) => {
  const { host } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const { outputs, success, state } = await chains.run(
    {
      entry_node: 'each',
      nodes: [
        { node_id: 'each', kind: 'map', items_path: '$.list', map_node: 'sum' },
        { node_id: 'sum', kind: 'tool', name: 'add', input_map: { a: '$.item', b: 1 } },
      ],
    },
    { list: [1, 'two', 3] },
  );
  assert.deepEqual(outputs.each, [{ sum: 2 }, { sum: 4 }]);
  assert.deepEqual([success, state], [false, 'done']);
});

test('a chain that is wrong runs no node and says where it is wrong', async (t) => {
  const { host, called } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const codeOf = async (nodes: Parameters<typeof chains.run>[0]['nodes'], entry_node = 'a') => {
    const { error, success, outputs } = await chains.run({ nodes, entry_node });
    assert.deepEqual([success, outputs], [false, {}]);
    const [problem] = (error?.detail?.problems ?? []) as { node_id: string }[];
    return [error?.code, problem?.node_id];
  };
  assert.deepEqual(await codeOf([call('a', { next_node: 'b' }), call('b', { next_node: 'a' })]), ['chain_cycle', 'a']);
  assert.deepEqual(await codeOf([call('a', { next_node: 'a' })]), ['chain_cycle', 'a']);
  assert.deepEqual(await codeOf([call('a', { next_node: 'z' })]), ['unknown_node', 'a']);
  assert.deepEqual(await codeOf([call('a')], 'z'), ['bad_entry', '']);
  assert.deepEqual(await codeOf([call('a'), call('b')]), ['unreachable_node', 'b']);
  assert.deepEqual(await codeOf([call('a', { kind: 'agent', input: { task: 'x' } })]), ['bad_node', 'a']);
  assert.deepEqual(called, []);
});

test('a chain ends when its time is over, and what runs is cancelled', async (t) => {
  const { host, held, cancelled } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const run = chains.run({
    timeout: 0.2,
    entry_node: 'first',
    nodes: [call('first', { next_node: 'slow' }), call('slow', { name: 'hold' })],
  });
  await held('slow');
  const { success, error, outputs } = await run;
  assert.deepEqual([success, error?.code], [false, 'timeout']);
  assert.deepEqual(outputs, { first: { name: 'first' } });
  assert.deepEqual(cancelled, ['slow']);
});
