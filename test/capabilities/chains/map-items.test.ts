/** Items of maps: each has the condition of the repeated node, and results name those without an output. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { ChainNode } from '../../../src/capability.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { agentOf, call, chainHost, copyState } from './support.ts';

const map = (more: Partial<ChainNode> = {}): ChainNode => ({
  node_id: 'm',
  kind: 'map',
  items_path: '$.list',
  map_node: 't',
  ...more,
});
const list = [{ on: true }, { on: false }, { on: true }];

test('the condition of a repeated node skips items; they are counted, and the chain is a success', async (t) => {
  const { host, called } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  for (const [at, condition] of ['$.item.on == true', 'item.on', 'index != 1.0', '$.index != 1'].entries()) {
    called.length = 0;
    const nodes = [map(), call('t', { condition, input_map: { name: { jmespath: 'to_string(index)' } } })];
    const skipped: unknown[] = [];
    const run = chains.run({ nodes }, { list }, { chainId: `r${at}` });
    for await (const { fields, data } of run) if (fields?.phase === 'skip') skipped.push([fields.node_id, data.index]);
    const { final_output, success } = await run;
    assert.deepEqual([called, final_output, success], [['0', '2'], [{ name: '0' }, { name: '2' }], true], condition);
    assert.deepEqual(skipped, [['t', 1]]);
    const [state] = (await chains.status(`r${at}`)).nodes;
    assert.deepEqual([state?.items, state?.items_done, state?.items_skipped], [3, 3, 1]);
  }
  const { samples } = await chains.check({
    nodes: [map(), call('t', { condition: 'item.on' })],
    ...{ initial_input: { list }, samples: { t: 1 } },
  });
  assert.deepEqual(samples?.find(({ node_id }) => node_id === 'm')?.output, [1, 1]);
});

test('a condition without an answer fails its item, and the static input of a repeated node is that of each item', async (t) => {
  const { host, called } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const failed = await chains.run({ nodes: [map(), call('t', { condition: 'item > 1.0' })] }, { list: [1, 'x', 2] });
  assert.deepEqual([failed.success, failed.final_output], [false, [{ name: 't' }]]);
  assert.deepEqual(
    failed.failures?.map(({ places, error }) => [places, error.code]),
    [[[1], 'chains.expression']],
  );
  assert.deepEqual(called, ['t']);
});

test('a result names failed items: how many, where, and the error of the first; also after the run was resumed', async (t) => {
  const folder = temporaryFolder(t);
  const stateFile = join(folder, 'state.db');
  const left = join(folder, 'left.db');
  const { host, held, release } = await chainHost(t, { stateFile });
  const { chains } = await agentOf(t, host);
  const nodes = [
    map(),
    { ...call('t', { name: 'add', input_map: { a: '$.item', b: 1 } }) },
    call('end', { name: 'hold', input: { name: 'end' }, after: ['m'] }),
  ];
  const run = chains.run({ nodes }, { list: [1, 'x', 2, 'y'] }, { chainId: 'r' });
  await held('end');
  copyState(stateFile, left);
  release('end');
  const expected = { node_id: 'm', items: 4, items_failed: 2, places: [1, 3] };
  const told = async (of: typeof chains, result: Awaited<typeof run>) => {
    assert.deepEqual([result.state, result.success], ['done', false]);
    const [failure, ...more] = result.failures ?? [];
    const { error, ...rest } = failure ?? { error: undefined };
    assert.deepEqual([rest, more.length], [expected, 0]);
    assert.match(error?.message ?? '', /a/);
    const [state] = (await of.status('r')).nodes;
    assert.deepEqual([state?.state, state?.items_failed], ['done', 2]);
    assert.deepEqual(
      state?.failed_items?.map(({ index }) => index),
      [1, 3],
    );
  };
  await told(chains, await run);
  assert.deepEqual((await chains.watch('r')).failures?.[0]?.places, [1, 3]);
  const second = await chainHost(t, { stateFile: left });
  const { chains: later } = await agentOf(t, second.host);
  second.release('end');
  await told(later, await later.resume('r', { rerun: ['end'] }));
});

test('items that may have run are declared done with their outputs, by their places', async (t) => {
  const folder = temporaryFolder(t);
  const stateFile = join(folder, 'state.db');
  const left = join(folder, 'left.db');
  const { host, held, release } = await chainHost(t, { stateFile });
  const { chains } = await agentOf(t, host);
  const nodes = [map(), call('t', { name: 'hold', input_map: { name: '$.item' } })];
  const run = chains.run({ nodes }, { list: ['a', 'b', 'c'] }, { chainId: 'r' });
  await held('a');
  release('a');
  await held('b');
  copyState(stateFile, left);
  for (const name of ['b', 'c']) release(name);
  await run;
  const second = await chainHost(t, { stateFile: left });
  const { chains: later } = await agentOf(t, second.host);
  await assert.rejects(later.resume('r', { done: { m: 'B' } }), {
    code: 'chains.invalid',
    message: /by their places: \{"1":null\}/,
  });
  second.release('c');
  const { final_output } = await later.resume('r', { done: { m: { 1: 'B' } } });
  assert.deepEqual([final_output, second.called], [[{ name: 'a' }, 'B', { name: 'c' }], ['c']]);
});
