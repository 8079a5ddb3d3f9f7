/**
 * Plugins whose code is loaded after the handshake of the first session that was granted their capability.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createLog } from '../../src/base/log.ts';
import { builtinCapabilities } from '../../src/capabilities/index.ts';
import { memoryStats } from '../../src/capabilities/memory/messages.ts';
import { toolCall } from '../../src/capabilities/tools/messages.ts';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { tool } from '../../src/capabilities/tools/tool.ts';
import type { CallContext } from '../../src/host/context.ts';
import { createHost, type Host } from '../../src/host/host.ts';
import { definePlugin, handle, type Plugin } from '../../src/host/plugin.ts';
import { pluginsOf } from '../../src/server/builtin-plugins.ts';
import { rawAgent } from '../support/raw-agent.ts';

const hosts: Host[] = [];
after(() => Promise.all(hosts.map((one) => one.close(0))));

/** Returns the events in order, and a plugin of `memory` that is loaded when `release` is called. */
function deferred(load?: () => Promise<Plugin>) {
  const happened: string[] = [];
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const plugin: Plugin = {
    name: 'memory',
    type: 'memory',
    methods: [handle(memoryStats, () => ({ namespaces: [] }) as never)],
    metadata: { slow: true },
    start: () => void happened.push('start'),
    opened: ({ agentId }) => void happened.push(`opened ${agentId}`),
    closed: ({ agentId }) => void happened.push(`closed ${agentId}`),
    stop: () => void happened.push('stop'),
  };
  const offered: Plugin = {
    name: 'memory',
    type: 'memory',
    methods: [],
    metadata: { slow: true },
    load:
      load ??
      (async () => {
        happened.push('load');
        await released;
        return plugin;
      }),
  };
  return { happened, offered, release };
}

async function hostOf(plugins: readonly Plugin[]) {
  const lines: string[] = [];
  const host = createHost({ plugins, log: createLog({ level: 'error', write: (line) => lines.push(line) }) });
  hosts.push(host);
  await host.start();
  return { host, lines };
}

const echo = toolsPlugin({ tools: [tool({ name: 'echo', description: 'Replies', run: () => ({ ok: true }) })] });
const request = (type: string, id: string, body: object = {}) => ({
  type,
  id,
  a2e: '1.0',
  version: '1.0',
  ts: 1,
  ...body,
});
const stats = (id: string) => request(memoryStats.request, id);
const call = (tool_name: string) => request(toolCall.request, 'c', { tool_name, arguments: {} });

test('the handshake does not wait; requests behind it do, in their order, and none is lost', async () => {
  const { happened, offered, release } = deferred();
  const { host } = await hostOf([offered, echo]);
  const agent = rawAgent(host);
  const shaken = agent.shake({ agent_id: 'a', agent_caps: ['memory', 'tools'] });
  // Before the reply can have arrived: an agent may send its requests with its handshake.
  const ids = Array.from({ length: 600 }, (_, at) => `r${at}`);
  for (const id of ids) agent.send(stats(id));
  const { metadata } = (await shaken).accepted_caps[0];
  assert.deepEqual(metadata, { slow: true, name: 'memory', type: 'memory', priority: 0, exclusive: false });
  while (happened.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual([happened, agent.rest], [['load'], []]);
  release();
  const replies = [];
  while (replies.length < ids.length) replies.push(await agent.next());
  assert.deepEqual(
    replies.map(({ type, req_id }) => [type, req_id]),
    ids.map((id) => ['memory/stats/resp', id]),
  );
  assert.deepEqual(happened, ['load', 'start', 'opened a']);
});

test('a session without the capability neither loads it nor waits for it', async () => {
  const { happened, offered } = deferred();
  const { host } = await hostOf([offered, echo]);
  const agent = rawAgent(host);
  await agent.shake({ agent_caps: ['tools'] });
  agent.send(call('echo'));
  assert.equal((await agent.reply('c')).data.success, true);
  await host.close();
  assert.deepEqual(happened, []);
});

test('it is loaded once for all sessions, and notified of those that live, when they end, and of the stop', async () => {
  const { happened, offered, release } = deferred();
  const { host } = await hostOf([offered]);
  const [first, second, third] = [rawAgent(host), rawAgent(host), rawAgent(host)];
  for (const [at, agent] of [first, second, third].entries()) {
    await agent.shake({ agent_id: `a${at}`, agent_caps: ['memory'] });
  }
  second.link.destroy();
  while (host.health().sessions > 2) await new Promise((resolve) => setTimeout(resolve, 5));
  release();
  first.send(stats('s'));
  assert.equal((await first.reply('s')).type, 'memory/stats/resp');
  await host.close();
  assert.deepEqual(happened, ['load', 'start', 'opened a0', 'opened a2', 'closed a0', 'closed a2', 'stop']);
});

test('several that one handshake asks for begin to load in turns of the event loop of their own', async () => {
  let turn = 0;
  let counting = setImmediate(function count() {
    turn++;
    counting = setImmediate(count);
  });
  const begun: number[] = [];
  const names = ['memory', 'planning', 'learning'];
  const offered = names.map((name): Plugin => {
    const facts = { name, type: name, methods: [] };
    const load = async () => {
      begun.push(turn);
      return facts;
    };
    return { ...facts, load };
  });
  const { host } = await hostOf(offered);
  await rawAgent(host).shake({ agent_caps: names });
  while (begun.length < names.length) await new Promise((resolve) => setTimeout(resolve, 1));
  clearImmediate(counting);
  assert.equal(new Set(begun).size, names.length, `the loads began in the turns ${begun}`);
});

test('another capability may call it before any agent did', async () => {
  const { happened, offered, release } = deferred();
  const calling = tool({
    name: 'calling',
    description: 'Calls the other capability',
    run: (_, context: CallContext) => context.call(memoryStats, {} as never),
  });
  const { host } = await hostOf([offered, toolsPlugin({ tools: [calling] })]);
  const agent = rawAgent(host);
  await agent.shake({ agent_caps: ['tools'] });
  agent.send(call('calling'));
  setTimeout(release, 10);
  assert.deepEqual((await agent.reply('c')).data.data, { namespaces: [] });
  assert.deepEqual(happened, ['load', 'start']);
});

test('one that cannot be loaded is logged, and its requests say so; the other capabilities continue', async () => {
  const { offered } = deferred(() => Promise.reject(new Error('no such file')));
  const { host, lines } = await hostOf([offered, echo]);
  const agent = rawAgent(host);
  await agent.shake({ agent_caps: ['memory', 'tools'] });
  agent.send(stats('s'));
  const { code, message } = await agent.reply('s');
  assert.equal(code, 'runtime_error');
  assert.match(message, /the plugin memory could not be loaded; the log of the host has the reason/);
  assert.equal(lines.filter((line) => line.includes('no such file')).length, 1);
  agent.send(call('echo'));
  assert.equal((await agent.reply('c')).data.success, true);
});

test('a host that stops while it loads ends in order', async () => {
  const { happened, offered, release } = deferred();
  const { host } = await hostOf([offered]);
  await rawAgent(host).shake({ agent_caps: ['memory'] });
  while (happened.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  const closed = host.close(0);
  release();
  await closed;
  assert.deepEqual(happened, ['load', 'start', 'stop']);
});

test('what it loads must be the plugin that was offered', async () => {
  const other = definePlugin({ name: 'other', type: 'memory', methods: [] });
  const { offered } = deferred(async () => other);
  const { host, lines } = await hostOf([offered]);
  const agent = rawAgent(host);
  await agent.shake({ agent_caps: ['memory'] });
  agent.send(stats('s'));
  assert.equal((await agent.reply('s')).code, 'runtime_error');
  assert.match(lines.join(), /the plugin \\?"memory\\?" of memory loaded \\?"other\\?"/);
});

for (const capability of builtinCapabilities.filter(({ offer }) => offer !== undefined)) {
  test(`what ${capability.name} offers before it is loaded is what it offers then`, async () => {
    for (const options of [{}, { quotaBytes: 1_000_000, maxOptions: 3, durability: 'step' }]) {
      for (const before of await pluginsOf(capability, options)) {
        const { methods, load, ...offered } = before;
        assert.ok(load !== undefined, 'it is loaded later');
        const { name, type, metadata, grant, store, priority = 0, exclusive = false, loadedWith } = await load();
        // Tools for sessions of a capability have no metadata as long as other plugins lead.
        const said = loadedWith === undefined ? metadata : undefined;
        const known = typeof said === 'function' ? said({} as never) : said;
        const facts = { name, type, metadata: known, grant, store, priority, exclusive, loadedWith };
        assert.deepEqual(
          JSON.parse(JSON.stringify(facts)),
          JSON.parse(JSON.stringify({ priority: 0, exclusive: false, ...offered })),
        );
      }
    }
  });
}

/** Returns tools for sessions of `memory`, loaded with it, ranked before those of the host. */
function companion(happened: string[], load?: () => Promise<Plugin>): Plugin {
  const more = toolsPlugin({
    name: 'memory-tools',
    priority: 1,
    tools: [tool({ name: 'more', description: 'Replies', run: () => ({ more: true }) })],
    offers: (session) => (session.granted('memory') ? 'listed' : undefined),
  });
  const offered = { name: 'memory-tools', type: 'tools', priority: 1, loadedWith: 'memory' } as const;
  return {
    ...offered,
    methods: [],
    load:
      load ??
      (async () => ({
        ...more,
        loadedWith: 'memory',
        async start(context) {
          happened.push('start tools');
          await more.start?.(context);
        },
      })),
  };
}

test('tools for sessions of another capability are loaded with it and behind it, and do not lead their own', async () => {
  const { happened, offered, release } = deferred();
  const { host } = await hostOf([offered, companion(happened), echo]);
  const plain = rawAgent(host);
  const { metadata } = (await plain.shake({ agent_caps: ['tools'] })).accepted_caps[0];
  assert.equal(metadata.name, 'tools');
  plain.send(call('echo'));
  assert.equal((await plain.reply('c')).data.success, true);
  assert.equal(happened.length, 0);
  const agent = rawAgent(host);
  await agent.shake({ agent_caps: ['memory', 'tools'] });
  agent.send(call('more'));
  release();
  assert.deepEqual((await agent.reply('c')).data.data, { more: true });
  assert.deepEqual(
    happened.filter((what) => what.startsWith('start')),
    ['start', 'start tools'],
  );
  const other = rawAgent(host);
  assert.equal((await other.shake({ agent_caps: ['tools'] })).accepted_caps[0].metadata.name, 'tools');
  other.send(call('more'));
  assert.equal((await other.reply('c')).code, 'unknown_tool');
});

test('where a capability cannot be loaded its tools are not either, and those of the host are there', async () => {
  const happened: string[] = [];
  const { offered } = deferred(() => Promise.reject(new Error('no such file')));
  const { host } = await hostOf([offered, companion(happened), echo]);
  const agent = rawAgent(host);
  await agent.shake({ agent_caps: ['memory', 'tools'] });
  agent.send(stats('s'));
  assert.equal((await agent.reply('s')).code, 'runtime_error');
  agent.send(call('more'));
  assert.equal((await agent.reply('c')).code, 'unknown_tool');
  agent.send({ ...call('echo'), id: 'e' });
  assert.equal((await agent.reply('e')).data.success, true);
  assert.deepEqual(happened, []);
});
