/** Runs as their owners see them: paused, resumed, retried, cancelled, over lost links, with versions of stored chains and rights. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { memoryPlugin } from '../../../src/capabilities/memory/plugin.ts';
import { multiAgentPlugin } from '../../../src/capabilities/multi_agent/plugin.ts';
import type { ChainNode, ChainResult } from '../../../src/capability.ts';
import { connect } from '../../../src/connect.ts';
import type { Principal } from '../../../src/session/principal.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { until } from '../multi_agent/support.ts';
import { agentOf, call, chainHost } from './support.ts';

const after = (node_id: string, before: readonly string[], more: Partial<ChainNode> = {}): ChainNode =>
  call(node_id, { after: [...before], ...more });

const row = (...ids: readonly string[]): ChainNode[] =>
  ids.map((id, at) =>
    after(id, at === 0 ? [] : [ids[at - 1] as string], id.startsWith('hold') ? { name: 'hold' } : {}),
  );

/** Returns the code of the error of the node that failed. */
const causeOf = ({ error }: ChainResult): unknown => (error?.detail?.error as { code: string } | undefined)?.code;

test('a run is paused when what runs has ended, and resumed by another agent of the principal', async (t) => {
  const { host, called, held, release } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const other = await agentOf(t, host, 'ben');
  const run = chains.run({ nodes: row('first', 'hold', 'last') }, {}, { chainId: 'p' });
  await held('hold');
  const [running] = await other.chains.runs();
  assert.deepEqual([running?.chain_id, running?.state, running?.nodes_ended], ['p', 'running', 1]);
  await assert.rejects(chains.run({ nodes: row('first') }, {}, { chainId: 'p' }), { code: 'chains.exists' });
  await assert.rejects(other.chains.resume('p'), { code: 'chains.state' });
  const paused = other.chains.pause('p');
  release('hold');
  assert.equal((await paused).state, 'paused');
  const stopped = await run;
  assert.deepEqual([stopped.state, stopped.success], ['paused', false]);
  const result = await other.chains.resume('p');
  assert.deepEqual([result.state, result.success, result.final_output], ['done', true, { name: 'last' }]);
  assert.deepEqual(called, ['first', 'hold', 'last']);
  const { entries } = await chains.history('p');
  assert.deepEqual(
    entries.map(({ phase, node_id }) => `${phase} ${node_id}`.trim()),
    ['start first', 'done first', 'start hold', 'done hold', 'pause', 'resume', 'start last', 'done last', 'end'],
  );
  const page = await chains.history('p', { after: 2, limit: 2 });
  assert.deepEqual([page.entries.map(({ seq }) => seq), page.next], [[3, 4], 4]);
  assert.deepEqual(await chains.watch('p'), { ...result, duration_ms: (await chains.watch('p')).duration_ms });
  await assert.rejects(chains.resume('p'), { code: 'chains.state' });
  await assert.rejects(chains.resume('q'), { code: 'chains.unknown_run' });
});

test('a run that failed is retried from a node on, and outputs of others stay', async (t) => {
  const { host, called } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const nodes = [
    ...row('a', 'b'),
    after('flaky', ['b'], { name: 'flaky', input: { name: 'flaky', times: 1 } }),
    after('end', ['flaky', 'a']),
  ];
  const first = await chains.run({ nodes }, {}, { chainId: 'r' });
  assert.equal(first.error?.detail?.node_id, 'flaky');
  await assert.rejects(chains.retry('r', 'x'), { code: 'chains.unknown_node' });
  const second = await chains.retry('r', 'flaky');
  assert.deepEqual([second.success, second.outputs.end], [true, { name: 'end' }]);
  assert.deepEqual(called, ['a', 'b', 'flaky', 'flaky', 'end']);
  await chains.retry('r', 'b');
  assert.deepEqual(called.slice(5), ['b', 'flaky', 'end']);
});

test('cancelling ends what runs; a node that had started is uncertain when the run is resumed', async (t) => {
  const { host, called, cancelled, held, release } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const run = chains.run({ nodes: row('a', 'hold', 'z') }, {}, { chainId: 'c' });
  await held('hold');
  assert.equal((await chains.cancel('c', { reason: 'enough' })).state, 'cancelled');
  const { state, error, outputs } = await run;
  assert.deepEqual([state, error?.message, outputs], ['cancelled', 'enough', { a: { name: 'a' } }]);
  assert.deepEqual(cancelled, ['hold']);
  const refused = await chains.resume('c').then(
    () => undefined,
    (thrown) => thrown,
  );
  assert.deepEqual([refused?.code, refused?.detail.nodes], ['chains.uncertain', ['hold']]);
  const skipped = await chains.resume('c', { skip: ['hold'] });
  assert.deepEqual(skipped.outputs, { a: { name: 'a' }, z: { name: 'z' } });
  const again = chains.run({ nodes: row('a', 'hold-again', 'z') }, {}, { chainId: 'c' });
  await held('hold-again');
  again.cancel();
  await assert.rejects(again, { code: 'cancelled' });
  for (let state = ''; state !== 'cancelled'; ) state = (await chains.status('c')).run.state;
  release('hold-again');
  assert.equal((await chains.resume('c', { rerun: ['hold-again'] })).success, true);
  assert.deepEqual(called, ['a', 'hold', 'z', 'a', 'hold-again', 'hold-again', 'z']);
});

test('a decision that names a node twice counts once', async (t) => {
  const { host, held, release } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const run = chains.run({ nodes: row('a', 'hold') }, {}, { chainId: 'r' });
  await held('hold');
  await chains.cancel('r');
  await run;
  release('hold');
  assert.equal((await chains.resume('r', { rerun: ['hold', 'hold'] })).state, 'done');
  const { entries } = await chains.history('r');
  assert.equal(entries.filter(({ phase }) => phase === 'retry').length, 1);
});

test('a run whose session ended is interrupted', async (t) => {
  const { host, held, release } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const ben = await agentOf(t, host, 'ben');
  const run = ben.chains.run({ nodes: row('a', 'hold', 'z') }, {}, { chainId: 'l' });
  run.catch(() => {});
  await held('hold');
  const watched = chains.watch('l');
  await ben.close();
  await assert.rejects(run);
  await assert.rejects(watched);
  for (let state = ''; state !== 'interrupted'; ) state = (await chains.status('l')).run.state;
  release('hold');
  const { outputs } = await chains.resume('l', { rerun: ['hold'] });
  assert.deepEqual(outputs.z, { name: 'z' });
});

test('the number of a version is given once, also when the newest or all of them were removed', async (t) => {
  const { host } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const put = async (...nodes: string[]) => (await chains.put('nightly', { nodes: row(...nodes) })).version;
  assert.deepEqual([await put('one'), await put('two')], [1, 2]);
  await chains.remove('nightly', { version: 2 });
  assert.equal(await put('other'), 3);
  await chains.run({ chain: { name: 'nightly' } }, {}, { chainId: 'third' });
  await chains.remove('nightly', { version: 1 });
  await chains.remove('nightly');
  assert.equal(await put('other'), 4);
  assert.equal((await chains.status('third')).run.version, 3);
  await assert.rejects(chains.get('nightly', { version: 3 }), { code: 'chains.unknown_chain' });
  await assert.rejects(chains.put('nightly', { nodes: row('five'), ifVersion: 3 }), { code: 'chains.conflict' });
  assert.equal((await chains.put('nightly', { nodes: row('five'), ifVersion: 4 })).version, 5);
});

test('stored chains have versions, and a running one keeps its own', async (t) => {
  const { host, called, held, release } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const first = await chains.put('nightly', { nodes: row('hold', 'one'), description: 'Every night' });
  assert.deepEqual([first.version, first.versions, first.description], [1, 1, 'Every night']);
  assert.equal((await chains.put('nightly', { nodes: row('hold', 'one'), description: 'Every night' })).version, 1);
  const run = chains.run({ chain: { name: 'nightly' } }, {}, { chainId: 's' });
  await held('hold');
  assert.equal((await chains.put('nightly', { nodes: row('two') })).version, 2);
  await assert.rejects(chains.put('nightly', { nodes: row('three'), ifVersion: 1 }), { code: 'chains.conflict' });
  await assert.rejects(chains.put('wrong', { nodes: row('a', 'a') }), { code: 'chains.invalid' });
  release('hold');
  assert.deepEqual((await run).outputs.one, { name: 'one' });
  assert.deepEqual((await chains.run({ chain: { name: 'nightly' } })).outputs, { two: { name: 'two' } });
  assert.equal((await chains.status('s')).run.version, 1);
  assert.deepEqual(
    (await chains.list({ name: 'nightly' })).map(({ version }) => version),
    [2, 1],
  );
  assert.equal((await chains.get('nightly', { version: 1 })).nodes?.length, 2);
  assert.equal(await chains.remove('nightly', { version: 1 }), 1);
  assert.equal(await chains.remove('nightly'), 1);
  await assert.rejects(chains.run({ chain: { name: 'nightly' } }), { code: 'chains.unknown_chain' });
  assert.deepEqual(called, ['hold', 'one', 'two']);
});

test('a chain does nothing that its principal may not, and runs of others are not there', async (t) => {
  const principals: Principal[] = [
    { name: 'root', capabilities: ['*'] },
    { name: 'eve', capabilities: ['chains', 'tools'], tools: { deny: ['fail'] } },
    { name: 'bare', capabilities: ['chains'] },
    { name: 'reader', grants: { chains: { access: 'read' } } },
  ];
  const { host, called } = await chainHost(t, { principals });
  const root = await agentOf(t, host, 'a', 'root');
  await root.chains.run({ nodes: row('x') }, {}, { chainId: 'mine' });
  await root.chains.put('mine', { nodes: row('x') });
  const eve = await agentOf(t, host, 'a', 'eve');
  const denied = await eve.chains.run({ nodes: [call('x', { name: 'fail' })] });
  assert.equal(causeOf(denied), 'tool_denied');
  assert.deepEqual(await eve.chains.runs({ name: 'mine' }), []);
  await assert.rejects(eve.chains.status('mine'), { code: 'chains.unknown_run' });
  await assert.rejects(eve.chains.cancel('mine'), { code: 'chains.unknown_run' });
  await assert.rejects(eve.chains.get('mine'), { code: 'chains.unknown_chain' });
  const bare = await agentOf(t, host, 'a', 'bare');
  const none = await bare.chains.run({ nodes: [call('x')] });
  assert.equal(causeOf(none), 'capability_missing');
  const reader = await agentOf(t, host, 'a', 'reader');
  assert.deepEqual(await reader.chains.runs(), []);
  await assert.rejects(reader.chains.run({ nodes: row('x') }), { code: 'unauthorized' });
  assert.deepEqual(called, ['x']);
});

test('limits: runs at once, stored runs, outputs, items', async (t) => {
  const stateFile = join(temporaryFolder(t), 'state.db');
  const limits = { maxRunning: 2, maxRuns: 3, maxOutputChars: 2_000, maxItems: 10 };
  const { host, held, release } = await chainHost(t, { chains: limits, stateFile });
  const { chains } = await agentOf(t, host);
  const held1 = chains.run({ nodes: row('hold-1') });
  const held2 = chains.run({ nodes: row('hold-2') }, {}, { durable: false });
  await Promise.all([held('hold-1'), held('hold-2')]);
  await assert.rejects(chains.run({ nodes: row('a') }), { code: 'chains.full' });
  release('hold-1');
  release('hold-2');
  await Promise.all([held1, held2]);
  for (const chainId of ['r1', 'r2', 'r3', 'r4']) await chains.run({ nodes: row('a') }, {}, { chainId });
  assert.deepEqual(
    (await chains.runs()).map(({ chain_id }) => chain_id),
    ['r4', 'r3', 'r2'],
  );
  const big = await chains.run({ nodes: [call('big', { input: { text: 'x'.repeat(3_000) } })] });
  assert.equal(causeOf(big), 'chains.too_large');
  const wide = await chains.run(
    { nodes: [{ node_id: 'm', kind: 'map', items_path: '$.list', map_node: 'x' }, call('x')], entry_node: 'm' },
    { list: Array.from({ length: 11 }, () => 0) },
  );
  assert.equal(causeOf(wide), 'chains.too_large');
});

test('events count as outputs with their names, whether the run runs, is paused or was resumed', async (t) => {
  const stateFile = join(temporaryFolder(t), 'state.db');
  const { host } = await chainHost(t, { chains: { maxOutputChars: 2_000 }, stateFile });
  const { chains } = await agentOf(t, host);
  const nodes: ChainNode[] = [{ node_id: 'w', kind: 'wait', wait: { event: 'go' } }];
  const run = chains.run({ nodes }, {}, { chainId: 'r' });
  await until(async () => (await chains.runs()).some(({ state }) => state === 'waiting'));
  const long = 'n'.repeat(900);
  await chains.deliver('r', `${long}1`);
  await chains.pause('r');
  await run;
  await chains.deliver('r', `${long}2`);
  await assert.rejects(chains.deliver('r', `${long}3`), { code: 'chains.too_large' });
  const resumed = chains.resume('r');
  await until(async () => (await chains.runs()).some(({ state }) => state === 'waiting'));
  await assert.rejects(chains.deliver('r', `${long}3`), { code: 'chains.too_large' });
  // A refused event leaves the run unchanged.
  await chains.deliver('r', 'go', 1);
  assert.deepEqual((await resumed).outputs, { w: 1 });
});

test('runs are listed beyond what one reply holds, each once, the newest first', async (t) => {
  const { host } = await chainHost(t, { chains: { maxRuns: 1_100 } });
  const { chains } = await agentOf(t, host);
  for (let at = 0; at < 1_050; at++) await chains.run({ nodes: row('only') }, {}, { chainId: `run-${at}` });
  const all = await chains.runs({ limit: Number.POSITIVE_INFINITY });
  assert.equal(new Set(all.map(({ chain_id }) => chain_id)).size, 1_050);
  assert.deepEqual(
    all.map(({ started_at }) => started_at),
    all.map(({ started_at }) => started_at).toSorted((one, other) => other - one),
  );
  assert.equal((await chains.runs({ limit: 1_020 })).length, 1_020);
  assert.equal((await chains.runs()).length, 100);
});

test('pages of runs continue where they were when the last run of a page was started again', async (t) => {
  let at = 0;
  const { host } = await chainHost(t, { chains: { now: () => (at += 1_000) } });
  const agent = await agentOf(t, host);
  for (const chainId of ['a', 'b', 'c', 'd']) await agent.chains.run({ nodes: row('x') }, {}, { chainId });
  const page = async (after: string) => {
    const { runs, next } = (await agent.request('chain/runs/req', { limit: 2, after })) as unknown as {
      readonly runs: readonly { readonly chain_id: string }[];
      readonly next?: string;
    };
    return { runs, next };
  };
  const first = await page('');
  await agent.chains.run({ nodes: row('x') }, {}, { chainId: 'c' });
  const second = await page(first.next ?? '');
  assert.deepEqual(
    [first, second].map(({ runs }) => runs.map(({ chain_id }) => chain_id)),
    [
      ['d', 'c'],
      ['b', 'a'],
    ],
  );
  assert.equal(second.next, undefined);
  await assert.rejects(page('c'), { code: 'chains.invalid' });
});

test('a memory node does its three operations, and no member of objects', async (t) => {
  const { host } = await chainHost(t, { plugins: [memoryPlugin()] });
  const { chains } = await agentOf(t, host);
  for (const name of ['constructor', '__proto__', 'init']) {
    const { error } = await chains.run({ nodes: [{ node_id: 'm', kind: 'memory', name }] });
    assert.match(error?.message ?? '', /expected one of store, retrieve, forget/);
  }
});

test('ids of runs that cannot be stored are refused and named', async (t) => {
  const { host } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  for (const chainId of ['x'.repeat(501), '\ud800']) {
    await assert.rejects(chains.run({ nodes: row('a') }, {}, { chainId }), {
      code: 'chains.invalid',
      message: /^chain_id: /,
    });
  }
  for (const chainId of ['x'.repeat(500), '__proto__', '\u0000']) {
    await chains.run({ nodes: row('a') }, {}, { chainId });
    assert.equal((await chains.status(chainId)).run.state, 'done');
  }
});

test('requests at once continue a run once, start an id once, and count as runs', async (t) => {
  const stateFile = join(temporaryFolder(t), 'state.db');
  const { host, called, held, release } = await chainHost(t, { chains: { maxRunning: 3 }, stateFile });
  const { chains } = await agentOf(t, host);
  const other = await agentOf(t, host, 'ben');
  const codesOf = (settled: readonly PromiseSettledResult<unknown>[]): unknown[] =>
    settled.map((each) => (each.status === 'fulfilled' ? 'ran' : (each.reason as { code: string }).code)).toSorted();

  const run = chains.run({ nodes: row('first', 'hold', 'last') }, {}, { chainId: 'p' });
  await held('hold');
  const paused = chains.pause('p');
  release('hold');
  await Promise.all([paused, run]);
  const resumed = await Promise.allSettled([chains.resume('p'), other.chains.resume('p'), chains.retry('p', 'last')]);
  assert.deepEqual(codesOf(resumed), ['chains.state', 'chains.state', 'ran']);
  assert.deepEqual(called, ['first', 'hold', 'last']);

  const started = await Promise.allSettled(
    [chains, other.chains].map((each) => each.run({ nodes: row('x') }, {}, { chainId: 'same' })),
  );
  assert.deepEqual(codesOf(started), ['chains.exists', 'ran']);

  const many = [chains, other.chains].flatMap((each) => ['hold-1', 'hold-1'].map((id) => each.run({ nodes: row(id) })));
  const full = Promise.any(
    many.map((each) =>
      each.then(
        () => assert.fail('it ran'),
        (error) => error,
      ),
    ),
  );
  assert.equal((await full).code, 'chains.full');
  release('hold-1');
  assert.deepEqual(codesOf(await Promise.allSettled(many)), ['chains.full', 'ran', 'ran', 'ran']);
});

test('a subagent answers no question of the agent above, and reaches none of its runs and stored chains', async (t) => {
  const codes: Record<string, string | undefined> = {};
  const codeOf = async (what: string, asked: PromiseLike<unknown>): Promise<void> => {
    codes[what] = await Promise.resolve(asked).then(
      () => undefined,
      (error) => error.code,
    );
  };
  const kind = multiAgentPlugin({
    kinds: [
      {
        name: 'helper',
        async run(_task, { host }) {
          await using agent = await connect(host, { capabilities: ['chains', 'tools'] });
          const { chains } = agent;
          await codeOf('approve', chains.approve('above', 'ask', true));
          await codeOf('status', chains.status('above'));
          await codeOf('cancel', chains.cancel('above'));
          await codeOf('same id', chains.run({ nodes: row('x') }, {}, { chainId: 'ended' }));
          await codeOf('resume', chains.resume('ended'));
          await codeOf('put', chains.put('stored', { nodes: row('evil') }));
          await codeOf('remove', chains.remove('stored'));
          await codeOf('stored', chains.run({ chain: { name: 'stored' } }, {}, { chainId: 'own' }));
          return { runs: (await chains.runs()).map(({ chain_id }) => chain_id) };
        },
      },
    ],
  });
  const { host, called } = await chainHost(t, { plugins: [kind] });
  const agent = await connect(host, { capabilities: ['chains', 'multi_agent'], agentId: 'lead' });
  t.after(() => agent.close());
  const { chains } = agent;
  await chains.put('stored', { nodes: row('good') });
  await chains.run({ nodes: row('x') }, {}, { chainId: 'ended' });
  const nodes: ChainNode[] = [{ node_id: 'ask', kind: 'wait', wait: { approval: 'May it?' } }];
  const above = chains.run({ nodes }, {}, { chainId: 'above' });
  await until(async () => (await chains.runs()).some(({ state }) => state === 'waiting'));
  const helper = await agent.multi_agent.spawn('helper');
  const { result } = await helper.run('try');
  const unknown = 'chains.unknown_run';
  assert.deepEqual(codes, {
    approve: unknown,
    status: unknown,
    cancel: unknown,
    'same id': 'chains.exists',
    resume: unknown,
    put: 'unauthorized',
    remove: 'unauthorized',
    stored: undefined,
  });
  assert.deepEqual([result, called], [{ runs: ['own'] }, ['x', 'good']]);
  assert.deepEqual((await chains.runs()).map(({ chain_id }) => chain_id).toSorted(), ['above', 'ended', 'own']);
  await chains.approve('above', 'ask', true);
  assert.equal((await above).success, true);
});

test('requests about a run that was asked for a moment ago find it, however long its definition takes to be read', async (t) => {
  const { host } = await chainHost(t);
  const { chains } = await agentOf(t, host);
  const nodes: ChainNode[] = [
    { node_id: 'ask', kind: 'wait', wait: { approval: 'May it?' } },
    { ...after('end', ['ask']), output_schema: { type: 'object' } },
  ];
  const asked = { status: chains.status.bind(chains), history: chains.history.bind(chains) };
  for (const [name, ask] of Object.entries(asked)) {
    const run = chains.run({ nodes }, {}, { chainId: name });
    await ask(name);
    await chains.cancel(name);
    assert.equal((await run).state, 'cancelled', name);
  }
  const resumed = { resume: (id: string) => chains.resume(id), retry: (id: string) => chains.retry(id, 'ask') };
  for (const [name, resume] of Object.entries(resumed)) {
    const run = chains.run({ nodes }, {}, { chainId: name });
    await assert.rejects(resume(name), { code: 'chains.state', message: /is running/ });
    await chains.cancel(name);
    assert.equal((await run).state, 'cancelled', name);
  }
  const run = chains.run({ nodes }, {}, { chainId: 'at once' });
  await chains.cancel('at once');
  assert.equal((await run).state, 'cancelled');
});

test('a wait is no longer than it was when the clock was set back', async (t) => {
  let back = 0;
  const { host } = await chainHost(t, { chains: { now: () => Date.now() - back } });
  const { chains } = await agentOf(t, host);
  const nodes: ChainNode[] = [{ node_id: 'moment', kind: 'wait', wait: { ms: 1_000 } }, after('end', ['moment'])];
  const run = chains.run({ nodes, timeout: 60 }, {}, { chainId: 'w' });
  await until(async () => (await chains.runs()).some(({ state }) => state === 'waiting'));
  await chains.pause('w');
  await run;
  back = 40 * 86_400_000;
  const resumed = await chains.resume('w');
  assert.deepEqual([resumed.state, resumed.final_output], ['done', { name: 'end' }]);
});

test('the timeout of an approval and of an event ends when it would have without a pause', async (t) => {
  let ahead = 0;
  const { host } = await chainHost(t, { chains: { now: () => Date.now() + ahead } });
  const { chains } = await agentOf(t, host);
  for (const wait of [{ approval: 'Go on?' }, { event: 'go' }]) {
    const nodes: ChainNode[] = [{ node_id: 'ask', kind: 'wait', wait, timeout_ms: 60_000 }, after('end', ['ask'])];
    const run = chains.run({ nodes }, {}, { chainId: 'w' });
    await until(async () => (await chains.runs()).some(({ state }) => state === 'waiting'));
    await chains.pause('w');
    await run;
    ahead += 60_000;
    const resumed = await chains.resume('w');
    const failed = resumed.error?.detail?.error as { code: string } | undefined;
    assert.deepEqual([resumed.state, failed?.code], ['failed', 'chains.node_timeout']);
    // From the node on, it has its whole timeout again.
    const again = chains.retry('w', 'ask');
    await until(async () => (await chains.runs()).some(({ state }) => state === 'waiting'));
    await ('event' in wait ? chains.deliver('w', 'go') : chains.approve('w', 'ask', true));
    assert.equal((await again).state, 'done');
  }
});
