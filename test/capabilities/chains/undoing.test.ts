/** A run undoes its nodes however it ends: failed, late, out of budget, cancelled, or killed while it undid them. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { tool } from '../../../src/capabilities/tools/tool.ts';
import type { ChainNode } from '../../../src/capability.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { until } from '../multi_agent/support.ts';
import { agentOf, call, chainHost, copyState } from './support.ts';

/** `made` is undone by `unmade`; `held` runs until it is stopped. */
const chain = (held: Partial<ChainNode> = {}): ChainNode[] => [
  call('made', { compensate: 'unmade' }),
  call('held', { name: 'hold', input: { name: 'held' }, after: ['made'], on_error: 'compensate', ...held }),
  call('unmade'),
];

test('a run that is late, meets its deadline, or has no budget left undoes as one that fails', async (t) => {
  const { host, called } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  for (const [chainId, how, code] of [
    ['timeout', () => ({ timeout: 2 }), 'timeout'],
    ['deadline', () => ({ deadline: new Date(Date.now() + 2_000).toISOString() }), 'timeout'],
    ['budget', () => ({ budget: { nodes: 1 } }), 'chains.budget'],
  ] as const) {
    called.length = 0;
    const { state, error } = await chains.run({ nodes: chain(), ...how() }, {}, { chainId });
    assert.deepEqual([state, error?.code], ['failed', code]);
    assert.deepEqual(called, code === 'timeout' ? ['made', 'held', 'unmade'] : ['made', 'unmade']);
    const { nodes } = await chains.status(chainId);
    assert.equal(nodes.find(({ node_id }) => node_id === 'made')?.state, 'compensated');
    // The nodes behind an undone node would lack its effects.
    await assert.rejects(chains.resume(chainId, { seconds: 60 }), { code: 'chains.state' });
  }
});

test('a run that is cancelled undoes before the reply; without a node that says so it does not, and may be resumed', async (t) => {
  const { host, called, held, release } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const run = chains.run({ nodes: chain() }, {}, { chainId: 'r' });
  await held('held');
  assert.equal((await chains.cancel('r')).state, 'cancelled');
  assert.deepEqual(called, ['made', 'held', 'unmade']);
  assert.equal((await run).state, 'cancelled');
  const { entries } = await chains.history('r');
  assert.deepEqual(
    entries.filter(({ phase }) => phase === 'stop' || phase === 'end').map(({ data }) => data?.state),
    ['cancelled', 'cancelled'],
  );
  await assert.rejects(chains.resume('r'), { code: 'chains.state', message: /was undone/ });
  release('held');
  const again = await chains.retry('r', 'made');
  assert.deepEqual([again.state, called], ['done', ['made', 'held', 'unmade', 'made', 'held']]);

  called.length = 0;
  const other = chains.run({ nodes: chain({ on_error: 'abort', input: { name: 'other' } }) }, {}, { chainId: 's' });
  await held('other');
  await chains.cancel('s');
  assert.deepEqual([(await other).state, called], ['cancelled', ['made', 'other']]);
  release('other');
  assert.equal((await chains.resume('s', { rerun: ['held'] })).state, 'done');
});

test('a cancel of a paused or interrupted run undoes its nodes', async (t) => {
  const folder = temporaryFolder(t);
  const stateFile = join(folder, 'state.db');
  const left = join(folder, 'left.db');
  const { host, called, held, release } = await chainHost(t, { stateFile });
  const { chains } = await agentOf(t, host);
  const nodes = [...chain(), call('last', { after: ['held'], on_error: 'compensate' })];
  const run = chains.run({ nodes }, {}, { chainId: 'r' });
  await held('held');
  copyState(stateFile, left);
  const paused = chains.pause('r');
  release('held');
  await paused;
  await run;
  assert.equal((await chains.cancel('r')).state, 'cancelled');
  assert.deepEqual(called, ['made', 'held', 'unmade']);
  const second = await chainHost(t, { stateFile: left });
  const { chains: later } = await agentOf(t, second.host);
  const cancelling = later.cancel('r');
  // A resume waits for the whole cancel, the start of the undoing included.
  await assert.rejects(later.resume('r', { rerun: ['held'] }), { code: 'chains.state' });
  assert.equal((await cancelling).state, 'cancelled');
  assert.deepEqual(second.called, ['unmade']);
});

test('a run whose request is cancelled while a node runs undoes when it is resumed', async (t) => {
  const { host, called, held } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const run = chains.run({ nodes: chain() }, {}, { chainId: 'r' });
  run.catch(() => {});
  await held('held');
  run.cancel();
  await until(async () => (await chains.status('r')).run.state === 'interrupted');
  assert.deepEqual(called, ['made', 'held']);
  const resumed = await chains.resume('r');
  assert.deepEqual([resumed.state, called], ['cancelled', ['made', 'held', 'unmade']]);
});

test('a host that was killed while a cancelled run undid continues with that, and with the reason', async (t) => {
  const folder = temporaryFolder(t);
  const stateFile = join(folder, 'state.db');
  const left = join(folder, 'left.db');
  const copies = tool({
    name: 'copies',
    description: 'Copies the store, as a kill would leave it',
    input: { type: 'object' },
    idempotent: true,
    run: () => {
      copyState(stateFile, left);
      return {};
    },
  });
  const nodes = chain().map((node) => (node.node_id === 'unmade' ? { ...node, name: 'copies' } : node));
  const first = await chainHost(t, { stateFile, tools: [copies] });
  const { chains } = await agentOf(t, first.host);
  const run = chains.run({ nodes }, {}, { chainId: 'r' });
  await first.held('held');
  await chains.cancel('r', { reason: 'enough' });
  await run;
  const second = await chainHost(t, { stateFile: left, tools: [copies] });
  const { chains: later } = await agentOf(t, second.host);
  const resumed = await later.resume('r');
  assert.deepEqual([resumed.state, resumed.error?.message], ['cancelled', 'enough']);
  assert.deepEqual(second.called, []);
  assert.equal((await later.status('r')).nodes[0]?.state, 'compensated');
});

test('a node that undoes has its condition, its attempts and its output schema', async (t) => {
  const { host, called } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const nodes = (undo: Partial<ChainNode>): ChainNode[] => [
    call('made', { compensate: 'unmade' }),
    call('boom', { name: 'fail', input: {}, after: ['made'], on_error: 'compensate' }),
    call('unmade', undo),
  ];
  const made = async (chainId: string) => (await chains.status(chainId)).nodes[0];
  await chains.run({ nodes: nodes({ condition: '$.made.name == "other"' }) }, {}, { chainId: 'condition' });
  assert.deepEqual([called, (await made('condition'))?.state], [['made', 'fail'], 'done']);
  called.length = 0;
  const flaky = { name: 'flaky', input: { name: 'unmade', times: 2 }, retry: { max_attempts: 3, delay_ms: 1 } };
  await chains.run({ nodes: nodes(flaky) }, {}, { chainId: 'retry' });
  assert.deepEqual(called, ['made', 'fail', 'unmade', 'unmade', 'unmade']);
  assert.equal((await made('retry'))?.state, 'compensated');
  const strict = { output_schema: { type: 'object', required: ['undone'] } };
  await chains.run({ nodes: nodes(strict) }, {}, { chainId: 'schema' });
  const found = await made('schema');
  assert.deepEqual([found?.state, found?.error?.code], ['done', 'schema_violation']);
});

test('a node that may have run is declared done with its output, or skipped, and is undone later', async (t) => {
  const folder = temporaryFolder(t);
  const stateFile = join(folder, 'state.db');
  const left = (name: string) => join(folder, `${name}.db`);
  const { host, held, release } = await chainHost(t, { stateFile });
  const { chains } = await agentOf(t, host);
  const nodes = [
    call('pay', { name: 'hold', input: { name: 'pay' }, compensate: 'refund' }),
    call('ship', { name: 'fail', input: {}, after: ['pay'], on_error: 'compensate' }),
    call('refund', { input_map: { name: 'refund', id: '$.pay.id' } }),
  ];
  const run = chains.run({ nodes }, {}, { chainId: 'r' });
  await held('pay');
  for (const name of ['done', 'skip', 'wrong']) copyState(stateFile, left(name));
  release('pay');
  await run;
  for (const [name, decisions, id] of [
    ['done', { done: { pay: { id: 7 } } }, 7],
    ['skip', { skip: ['pay'] }, null],
  ] as const) {
    const second = await chainHost(t, { stateFile: left(name) });
    const { chains: later } = await agentOf(t, second.host);
    await assert.rejects(later.resume('r'), { code: 'chains.uncertain', message: /say that it is done/ });
    const resumed = await later.resume('r', decisions);
    assert.deepEqual([resumed.state, second.called], ['failed', ['fail', 'refund']]);
    assert.deepEqual(resumed.outputs.refund, { name: 'refund', id });
    assert.equal((await later.status('r')).nodes[0]?.state, 'compensated');
  }
  const third = await chainHost(t, { stateFile: left('wrong') });
  const { chains: last } = await agentOf(t, third.host);
  await assert.rejects(last.resume('r', { done: { ship: 1 }, skip: ['pay'] }), { code: 'chains.invalid' });
  await assert.rejects(last.resume('r', { done: { pay: 1 }, skip: ['pay'] }), { code: 'chains.invalid' });
  await assert.rejects(last.resume('r', { done: { none: 1 } }), { code: 'chains.unknown_node' });
});
