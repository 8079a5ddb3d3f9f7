import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createLog } from '../../src/base/log.ts';
import { toolCall, toolList } from '../../src/capabilities/tools/messages.ts';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { tool } from '../../src/capabilities/tools/tool.ts';
import { connect } from '../../src/connect.ts';
import type { SessionView } from '../../src/host/context.ts';
import { createHost, type Host, type HostOptions } from '../../src/host/host.ts';
import { definePlugin, handle, type Plugin } from '../../src/host/plugin.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import { principalWith } from '../../src/session/roles.ts';
import { capabilityErrors, errorTable, exitCodeOf, HandfastError, rowOf } from '../../src/wire/errors.ts';
import { rpcErrorOf } from '../../src/wire/jsonrpc.ts';

const hosts: Host[] = [];
after(() => Promise.all(hosts.map((one) => one.close(0))));

const named = (name: string, from: string) => tool({ name, description: `${name} of ${from}`, run: () => ({ from }) });

async function start(plugins: readonly Plugin[], options: Partial<HostOptions> = {}) {
  const lines: string[] = [];
  const log = createLog({ level: 'debug', write: (line) => lines.push(line) });
  const host = createHost({ plugins, log, ...options });
  await host.start();
  hosts.push(host);
  const agent = await connect(host, { capabilities: ['tools'] });
  return { host, agent, lines };
}

test('lists of several plugins merge, and a call goes to the owner of the name', async () => {
  const { agent } = await start([
    toolsPlugin({ name: 'low', priority: 1, tools: [named('shared', 'low'), named('only-low', 'low')] }),
    toolsPlugin({ name: 'high', priority: 5, tools: [named('shared', 'high'), named('only-high', 'high')] }),
  ]);
  assert.deepEqual(
    (await agent.tools.list()).map(({ description }) => description),
    ['shared of high', 'only-high of high', 'only-low of low'],
  );
  for (const [name, from] of [
    ['shared', 'high'],
    ['only-low', 'low'],
    ['only-high', 'high'],
  ] as const) {
    assert.deepEqual((await agent.tools.call(name)).data, { from });
  }
  await assert.rejects(agent.tools.call('nowhere'), { code: 'unknown_tool' });
  assert.equal(agent.capabilities.get('tools')?.metadata.name, 'high');
});

test('an exclusive plugin serves its capability alone, at any priority', async () => {
  const { agent } = await start([
    toolsPlugin({ name: 'many', priority: 9, tools: [named('a', 'many')] }),
    toolsPlugin({ name: 'alone', exclusive: true, tools: [named('b', 'alone')] }),
  ]);
  assert.deepEqual(
    (await agent.tools.list()).map(({ name }) => name),
    ['b'],
  );
  await assert.rejects(agent.tools.call('a'), { code: 'unknown_tool' });
  assert.deepEqual(agent.capabilities.get('tools')?.metadata, {
    tools: 1,
    name: 'alone',
    type: 'tools',
    priority: 0,
    exclusive: true,
  });
});

test('a plugin that throws harms only its own calls; the peer gets a correlation id, the log the rest', async () => {
  const broken = definePlugin({
    name: 'broken',
    type: 'tools',
    methods: [
      handle(toolList, () => {
        throw new Error('a secret path /etc/shadow');
      }),
      handle(
        toolCall,
        () => {
          throw new TypeError('a secret path /etc/shadow');
        },
        ({ tool_name }) => (tool_name === 'bad' ? undefined : ({ code: 'unknown_tool' } as never)),
      ),
    ],
  });
  const { agent, lines } = await start([broken, toolsPlugin({ tools: [named('good', 'tools')] })]);
  assert.deepEqual(
    (await agent.tools.list()).map(({ name }) => name),
    ['good'],
  );
  const error = await agent.tools.call('bad').then(
    () => assert.fail('it should fail'),
    (thrown) => thrown,
  );
  assert.equal(error.code, 'runtime_error');
  assert.doesNotMatch(JSON.stringify([error.message, error.detail]), /shadow/);
  assert.ok(lines.some((line) => line.includes(error.detail.correlation_id) && line.includes('shadow')));
  assert.deepEqual((await agent.tools.call('good')).data, { from: 'tools' });
});

test('a plugin that does not start is left out, and the host starts without it', async () => {
  const failing = definePlugin({
    name: 'failing',
    type: 'memory',
    methods: [],
    start() {
      throw new Error('no disk');
    },
  });
  const { host, agent, lines } = await start([failing, toolsPlugin({ tools: [named('good', 'tools')] })]);
  assert.deepEqual(host.health().capabilities, ['tools']);
  assert.ok(lines.some((line) => line.includes('failing') && line.includes('no disk')));
  assert.equal((await agent.tools.call('good')).success, true);
});

test('two plugins of one name are refused', async () => {
  const host = createHost({ plugins: [toolsPlugin({ tools: [] }), toolsPlugin({ tools: [] })] });
  await assert.rejects(host.start(), { code: 'config_invalid' });
});

test('plugins hear of the sessions that were granted their capability, and of start and stop in order', async () => {
  const heard: string[] = [];
  const noting = (name: string, type: 'tools' | 'memory') =>
    definePlugin({
      name,
      type,
      methods: [],
      start: ({ hostId }) => void heard.push(`start ${name} ${hostId}`),
      opened: ({ agentId }) => void heard.push(`opened ${name} ${agentId}`),
      closed: ({ agentId, signal }) => void heard.push(`closed ${name} ${agentId} ${signal.aborted}`),
      stop: () => void heard.push(`stop ${name}`),
    });
  const host = createHost({ hostId: 'h1', plugins: [noting('t', 'tools'), noting('m', 'memory')] });
  await host.start();
  const agent = await connect(host, { agentId: 'a1', capabilities: ['tools'] });
  await agent.close();
  await host.close();
  assert.deepEqual(heard, ['start t h1', 'start m h1', 'opened t a1', 'closed t a1 true', 'stop m', 'stop t']);
});

test('a plugin hears once that its capability was withdrawn from a session, and what works for the session ends', async (t) => {
  const rights = (capabilities: readonly string[]) => [
    { principal: principalWith('ann', [], { capabilities }), digests: [tokenDigest('ann')] },
  ];
  const auth = createAuthenticator(rights(['tools', 'memory']));
  const heard: string[] = [];
  const signals: AbortSignal[] = [];
  const noting = (type: 'tools' | 'memory') =>
    definePlugin({
      name: type,
      type,
      methods: [],
      opened: (session) => void signals.push(session.signalOf(type)),
      closed: (session) => void heard.push(`${type} ${session.signalOf(type).reason.code}`),
    });
  const host = createHost({ plugins: [noting('tools'), noting('memory')], auth });
  await host.start();
  t.after(() => host.close(0));
  const agent = await connect(host, { capabilities: ['tools', 'memory'], token: 'ann' });
  auth.replace(rights(['tools']));
  assert.deepEqual(heard, ['memory capability_missing']);
  assert.deepEqual(
    signals.map(({ aborted }) => aborted),
    [false, true],
  );
  // Granted again, it is for the next handshake.
  auth.replace(rights(['tools', 'memory']));
  await agent.close();
  assert.deepEqual(heard, ['memory capability_missing', 'tools interrupted']);
  assert.equal(signals[0]?.aborted, true);
});

test('plugin state is taken when the host stops and given back when the next one starts', async () => {
  let kept: Record<string, unknown> = {};
  const snapshots = {
    load: async () => kept,
    save: async (states: Record<string, unknown>) => {
      kept = states;
    },
  };
  const counter = () => {
    let count = 0;
    return definePlugin({
      name: 'counter',
      type: 'tools',
      methods: [
        handle(toolCall, () => ({
          data: { success: true, tool_name: 'count', data: { count: ++count }, duration_ms: 0 },
        })),
      ],
      snapshot: () => ({ count }),
      restore(state) {
        count = (state as { count: number }).count;
      },
    });
  };
  for (const expected of [1, 2, 3]) {
    const host = createHost({ plugins: [counter()], snapshots });
    await host.start();
    const agent = await connect(host, { capabilities: ['tools'] });
    assert.deepEqual((await agent.tools.call('count')).data, { count: expected });
    await agent.close();
    await host.close();
  }
});

test('the audit gets one record per request and per handshake, without bodies', async () => {
  const records: Record<string, unknown>[] = [];
  const { agent } = await start([toolsPlugin({ tools: [named('good', 'tools')] })], {
    audit: { record: (record) => void records.push(record as never) },
    now: () => 1_700_000_000_000,
  });
  await agent.tools.call('good', { secret: 'canary' });
  await agent.tools.call('nowhere').catch(() => {});
  assert.deepEqual(
    records.map(({ type, outcome, tool, error_code, principal, time }) => [
      type,
      outcome,
      tool,
      error_code,
      principal,
      time,
    ]),
    [
      ['handshake/req', 'ok', undefined, undefined, 'local', 1_700_000_000_000],
      ['tool/call/req', 'ok', 'good', undefined, 'local', 1_700_000_000_000],
      ['tool/call/req', 'error', 'nowhere', 'unknown_tool', 'local', 1_700_000_000_000],
    ],
  );
  assert.doesNotMatch(JSON.stringify(records), /canary/);
});

test('a session that a later plugin refuses is closed for the plugins that accepted it, last one first', async () => {
  const heard: string[] = [];
  const witness = (name: string, priority: number, refuses = false): Plugin => ({
    ...toolsPlugin({ name, priority, tools: [named(name, name)] }),
    opened(session) {
      if (refuses) throw new Error('not this one');
      session.signal.addEventListener('abort', () => heard.push(`${name} aborted`));
      heard.push(`${name} opened`);
    },
    closed() {
      heard.push(`${name} closed`);
    },
  });
  const host = createHost({ plugins: [witness('a', 3), witness('b', 2), witness('c', 1, true), witness('d', 0)] });
  await host.start();
  hosts.push(host);
  await assert.rejects(connect(host, { capabilities: ['tools'] }), { code: 'server_error' });
  assert.deepEqual(heard, ['a opened', 'b opened', 'a aborted', 'b aborted', 'b closed', 'a closed']);
  assert.equal(host.health().sessions, 0);
});

test("a capability's own error code keeps its row on the wire: retryable, exit code, JSON-RPC number", async () => {
  const failure = capabilityErrors('shop', { closed: 'over_capacity', gone: { row: 'not_found', code: 'shop_gone' } });
  const tools = [
    tool({
      name: 'closed',
      description: 'fails',
      run: () => {
        throw failure('closed', 'come back later');
      },
    }),
    tool({
      name: 'gone',
      description: 'fails',
      run: () => {
        throw failure('gone', 'no such shop', { shop: 7 });
      },
    }),
  ];
  const { agent } = await start([toolsPlugin({ tools })]);
  const closed = await agent.tools.call('closed').catch((error: HandfastError) => error);
  assert.ok(closed instanceof HandfastError);
  assert.equal(closed.code, 'shop.closed');
  assert.equal(closed.retryable, true);
  assert.equal(closed.capability, 'shop');
  assert.equal(rpcErrorOf(closed).code, errorTable.over_capacity.jsonrpc);
  const gone = await agent.tools.call('gone').catch((error: HandfastError) => error);
  assert.ok(gone instanceof HandfastError);
  assert.deepEqual([gone.code, gone.retryable, gone.detail], ['shop_gone', false, { row: 'not_found', shop: 7 }]);
  assert.equal(exitCodeOf(gone.code, gone.detail), errorTable.not_found.exit);
  assert.equal(rowOf(gone.code, gone.detail).http, 404);
  assert.equal(rowOf('shop_gone', { row: 'constructor' }), errorTable.runtime_error);
});

test('tools come and go, for all sessions or for one, and agents are notified', async () => {
  const plugin = toolsPlugin({ tools: [named('fixed', 'a')] });
  let mine: SessionView | undefined;
  const opened = (session: SessionView): void => {
    mine ??= session;
  };
  const host = createHost({ plugins: [{ ...plugin, opened }] });
  await host.start();
  hosts.push(host);
  const changes: number[] = [];
  const agent = await connect(host, {
    capabilities: ['tools'],
    onCapabilityChanged: (_, { metadata }) => changes.push(metadata.tools as number),
  });
  const other = await connect(host, { capabilities: ['tools'] });
  const names = async (of: typeof agent) => (await of.tools.list()).map(({ name }) => name);
  await plugin.add([named('all', 'b')]);
  await plugin.add([named('own', 'c')], mine);
  assert.deepEqual(
    [await names(agent), await names(other)],
    [
      ['fixed', 'all', 'own'],
      ['fixed', 'all'],
    ],
  );
  assert.deepEqual((await agent.tools.call('own')).data, { from: 'c' });
  await assert.rejects(other.tools.call('own'), { code: 'unknown_tool' });
  await assert.rejects(plugin.add([named('own', 'd')], mine), { code: 'config_invalid' });
  plugin.remove(['all']);
  plugin.remove(['own'], mine);
  assert.deepEqual(await names(agent), ['fixed']);
  await assert.rejects(agent.tools.call('all'), { code: 'unknown_tool' });
  // Pushes of the turn in which an agent connected wait for its listeners.
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(changes, [2, 3, 2, 1]);
});
