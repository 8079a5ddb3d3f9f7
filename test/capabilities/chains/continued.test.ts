/** Properties of a run that stay equal when it continues in parts: the order of undoing, its error, its shown state. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { tool } from '../../../src/capabilities/tools/tool.ts';
import type { ChainNode } from '../../../src/capability.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { until } from '../multi_agent/support.ts';
import { agentOf, call, chainHost, copyState } from './support.ts';

const event = (node_id: string, after: readonly string[]): ChainNode => ({
  node_id,
  kind: 'wait',
  after: [...after],
  wait: { event: 'go' },
});

test('a run that was resumed undoes nodes in the reverse order in which they ended before', async (t) => {
  const { host, called, held, release } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const nodes = [
    call('slow', { name: 'hold', compensate: 'undo_slow' }),
    call('fast', { name: 'hold', compensate: 'undo_fast' }),
    event('wait', ['slow', 'fast']),
    call('boom', { name: 'fail', after: ['wait'], on_error: 'compensate' }),
    call('undo_slow'),
    call('undo_fast'),
  ];
  const run = chains.run({ nodes }, {}, { chainId: 'r' });
  await Promise.all([held('slow'), held('fast')]);
  release('fast');
  await until(async () => (await chains.status('r')).nodes[1]?.state === 'done');
  release('slow');
  await until(async () => (await chains.status('r')).run.state === 'waiting');
  await chains.pause('r');
  assert.equal((await run).state, 'paused');
  await chains.deliver('r', 'go');
  assert.equal((await chains.resume('r')).state, 'failed');
  assert.deepEqual(called, ['slow', 'fast', 'boom', 'undo_slow', 'undo_fast']);
  // Undone nodes run again for the retried node.
  const again = chains.retry('r', 'boom');
  release('slow');
  release('fast');
  await chains.deliver('r', 'go');
  assert.equal((await again).state, 'failed');
  assert.deepEqual(called.slice(5).toSorted(), ['boom', 'fast', 'slow', 'undo_fast', 'undo_slow']);
});

test('a run whose host ended while it undid nodes says which node failed, and starts no other', async (t) => {
  const folder = temporaryFolder(t);
  const stateFile = join(folder, 'state.db');
  const left = join(folder, 'left.db');
  // The files at the moment when the first node is undone are those that a kill would leave.
  const undo = tool({
    name: 'undo',
    description: 'Undoes',
    input: { type: 'object' },
    idempotent: true,
    run: () => {
      copyState(stateFile, left);
      return {};
    },
  });
  const nodes = [
    call('made', { compensate: 'unmade' }),
    call('beside', { name: 'hold' }),
    call('boom', { name: 'fail', after: ['made'], on_error: 'compensate' }),
    call('unmade', { name: 'undo', input: {} }),
  ];
  const first = await chainHost(t, { stateFile, tools: [undo] });
  const { chains } = await agentOf(t, first.host);
  const ended = await chains.run({ nodes }, {}, { chainId: 'r' });
  const second = await chainHost(t, { stateFile: left, tools: [undo] });
  const { chains: later } = await agentOf(t, second.host);
  assert.equal((await later.status('r')).run.state, 'interrupted');
  const resumed = await later.resume('r');
  assert.deepEqual([resumed.state, resumed.error], [ended.state, ended.error]);
  assert.equal(resumed.error?.detail?.node_id, 'boom');
  assert.deepEqual(second.called, []);
  assert.deepEqual(resumed.outputs.made, { name: 'made' });
});

test('a run whose request ends while it undoes nodes undoes the rest when it is resumed, also behind its deadline', async (t) => {
  let aheadMs = 0;
  const { host, called, held } = await chainHost(t, { chains: { now: () => Date.now() + aheadMs } });
  const { chains } = await agentOf(t, host);
  const nodes = [
    call('first', { compensate: 'undo_first' }),
    call('second', { after: ['first'], compensate: 'undo_second' }),
    call('boom', { name: 'fail', after: ['second'], on_error: 'compensate' }),
    call('undo_first'),
    call('undo_second', { name: 'hold' }),
  ];
  const deadline = new Date(Date.now() + 60_000).toISOString();
  const leaves = [
    (agent: Awaited<ReturnType<typeof agentOf>>) => agent.close(),
    (_agent: unknown, run: { cancel(): unknown }) => run.cancel(),
  ];
  for (const [at, leave] of leaves.entries()) {
    const chainId = `r${at}`;
    const agent = await agentOf(t, host);
    const run = agent.chains.run({ nodes, deadline }, {}, { chainId });
    run.catch(() => {});
    await until(() => called.filter((name) => name === 'undo_second').length > at);
    await leave(agent, run);
    await until(async () => (await chains.status(chainId)).run.state === 'interrupted');
    assert.equal(called.includes('undo_first'), false);
  }
  await held('undo_second');
  aheadMs = 120_000;
  for (const chainId of ['r0', 'r1']) {
    await assert.rejects(chains.resume(chainId), { code: 'chains.uncertain' });
    const resumed = await chains.resume(chainId, { skip: ['second'] });
    assert.deepEqual([resumed.state, resumed.error?.detail?.node_id], ['failed', 'boom']);
  }
  assert.deepEqual(
    called.filter((name) => name.startsWith('undo')),
    ['undo_second', 'undo_second', 'undo_first', 'undo_first'],
  );
});

test('an interrupted run says how many nodes have ended, and which one may have run', async (t) => {
  const folder = temporaryFolder(t);
  const stateFile = join(folder, 'state.db');
  const left = join(folder, 'left.db');
  const { host, held, release } = await chainHost(t, { stateFile });
  const { chains } = await agentOf(t, host);
  const run = chains.run({ nodes: [call('a'), call('b', { name: 'hold', after: ['a'] })] }, {}, { chainId: 'r' });
  await held('b');
  copyState(stateFile, left);
  release('b');
  await run;
  const second = await chainHost(t, { stateFile: left });
  const { chains: later } = await agentOf(t, second.host);
  const [listed] = await later.runs();
  assert.deepEqual([listed?.state, listed?.nodes_ended, listed?.usage.nodes], ['interrupted', 1, 2]);
  const { run: shown, nodes } = await later.status('r');
  assert.deepEqual([shown.nodes_ended, nodes.map(({ state }) => state)], [1, ['done', 'interrupted']]);
});

test('cancel, deliver and resume of a run that does not run come one after another', async (t) => {
  const { host } = await chainHost(t, { stateFile: join(temporaryFolder(t), 'state.db') });
  const { chains } = await agentOf(t, host);
  const run = chains.run({ nodes: [event('wait', [])] }, {}, { chainId: 'r' });
  await until(async () => (await chains.runs())[0]?.state === 'waiting');
  await chains.pause('r');
  await run;
  const [cancelled, resumed] = await Promise.all([
    chains.cancel('r'),
    chains.resume('r'),
    chains.deliver('r', 'go', 1).catch(() => 0),
  ]).catch(async (thrown) => assert.fail(String(thrown)));
  assert.deepEqual([cancelled.state, resumed.state], ['cancelled', 'done']);
  const { entries } = await chains.history('r');
  assert.deepEqual(
    entries.map(({ seq }) => seq),
    entries.map((_, at) => at + 1),
  );
  assert.ok(entries.some(({ phase, data }) => phase === 'end' && data?.state === 'cancelled'));
});

test('a time that is too long for one timer is no short one', async (t) => {
  const { host } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const node = call('a', { name: 'pause', timeout_ms: 3_000_000_000 });
  assert.equal((await chains.run({ nodes: [node], timeout: 3_000_000 })).success, true);
});
