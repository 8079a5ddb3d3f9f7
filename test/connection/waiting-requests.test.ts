/**
 * Requests that only wait for a later message of their agent take no place of `max_parallel`: more of them than places are
 * opened, and a further request gets through, by raw messages and by the client, which has the same limit on its side.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { chainsPlugin } from '../../src/capabilities/chains/plugin.ts';
import { mcpPlugins } from '../../src/capabilities/mcp/plugin.ts';
import { askPerson } from '../../src/capabilities/mcp/tool-questions.ts';
import { multiAgentPlugin } from '../../src/capabilities/multi_agent/plugin.ts';
import { planningPlugin } from '../../src/capabilities/planning/plugin.ts';
import { procPlugin } from '../../src/capabilities/proc/plugin.ts';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { tool } from '../../src/capabilities/tools/tool.ts';
import type { ChainNode } from '../../src/capability.ts';
import { connect } from '../../src/connect.ts';
import { createHost, type Host, type HostOptions } from '../../src/host/host.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { ScriptedPeer } from '../../src/testing/scripted-peer.ts';
import { memoryPair } from '../../src/transport/memory.ts';
import type { Message } from '../support/raw-agent.ts';
import { echo, gated } from '../support/tools.ts';

const hosts: Host[] = [];
after(() => Promise.all(hosts.map((one) => one.close(0))));

const MAX_PARALLEL = 2;
const OPEN = 5;

const asking = tool({
  name: 'asking',
  description: 'Asks the person at the agent',
  input: { type: 'object' },
  run: async (_, context) => askPerson(context, { message: 'Go on?', schema: { type: 'object', properties: {} } }),
});

const failing = tool({
  name: 'failing',
  description: 'Fails',
  input: { type: 'object' },
  run: () => {
    throw new Error('as asked');
  },
});

async function hostOf(limits: HostOptions['limits'] = {}) {
  const gate = gated();
  const ends: (() => void)[] = [];
  const host = createHost({
    plugins: [
      toolsPlugin({ tools: [echo, gate.tool, asking, failing] }),
      procPlugin({ programs: ['/bin/sleep'] }),
      chainsPlugin({ durable: false }),
      planningPlugin(),
      ...mcpPlugins(),
      multiAgentPlugin({
        kinds: [{ name: 'slow', run: () => new Promise((resolve) => ends.push(() => resolve({ done: true }))) }],
      }),
    ],
    journal: memoryJournal(),
    limits: { maxParallel: MAX_PARALLEL, queueLimit: 64, ...limits },
  });
  await host.start();
  hosts.push(host);
  const endAll = (): void => {
    for (const end of ends) end();
  };
  return { host, gate, endAll };
}

const CAPABILITIES = ['tools', 'chains', 'planning', 'multi_agent', 'mcp', 'proc'] as const;
const approvalChain: readonly ChainNode[] = [{ node_id: 'ok', kind: 'wait', wait: { approval: 'Go on?' } }];
const eventChain = [{ node_id: 'come', kind: 'wait', wait: { event: 'come' } }];

/** Opens a host and a session with raw messages. */
async function raw(limits: HostOptions['limits'] = {}) {
  const site = await hostOf(limits);
  const [ours, theirs] = memoryPair();
  site.host.accept(theirs);
  const replies = new Map<string, PromiseWithResolvers<Message>>();
  const replyTo = (id: string) => {
    const reply = replies.get(id) ?? Promise.withResolvers<Message>();
    replies.set(id, reply);
    return reply;
  };
  const onMessage = (message: Message) => {
    if (!/event$|push$/.test(message.type)) replyTo(message.req_id).resolve(message);
    return undefined;
  };
  const agent = new ScriptedPeer(ours, { onMessage });
  const extensions = { 'handfast/cancel': {}, 'handfast/journal': {}, 'handfast/capabilities': {} };
  const hello = await agent.handshake('a2e', { agent_id: 'test', agent_caps: CAPABILITIES, extensions });
  let sent = 0;
  const send = (type: string, body: Message = {}): string => {
    const id = `q${++sent}`;
    agent.send({ type, id, ...body });
    return id;
  };
  const answer = (id: string): Promise<Message> => replyTo(id).promise;
  const ask = (type: string, body: Message = {}): Promise<Message> => answer(send(type, body));
  /** Resolves when the only node of a run waits. */
  const waits = async (chain_id: string): Promise<void> => {
    for (;;) {
      const { nodes } = await ask('chain/status/req', { chain_id });
      if (nodes?.[0]?.state === 'waiting') return;
      await setImmediate();
    }
  };
  const echoes = async (): Promise<boolean> => {
    const reply = await ask('tool/call/req', { tool_name: 'echo', arguments: { n: 1 } });
    return reply.data?.success === true;
  };
  return { ...site, hello, send, answer, ask, waits, echoes };
}

/** Each way to wait: the messages that prepare it, the waiting requests, and the message that ends them all. */
const ways: Record<string, (site: Awaited<ReturnType<typeof raw>>) => Promise<{ waits: Message; end(): unknown }>> = {
  'the end of a subagent': async ({ ask, endAll }) => {
    const { subagent_id } = await ask('multi_agent/spawn', { name: 'one' });
    await ask('multi_agent/delegate', { subagent_id, task_name: 't', instruction: 'do' });
    return { waits: { type: 'multi_agent/await', subagent_id }, end: () => endAll() };
  },
  'the end of a subagent, in the upper-case form': async ({ ask, endAll }) => {
    const { subagent_id } = await ask('multi_agent/spawn', { name: 'one' });
    await ask('multi_agent/delegate', { subagent_id, task_name: 't', instruction: 'do' });
    return { waits: { type: 'SUBAGENT_AWAIT_REQ', subagent_id }, end: () => endAll() };
  },
  'a merge of results': async ({ ask, endAll }) => {
    const { subagent_id } = await ask('multi_agent/spawn', { name: 'one' });
    await ask('multi_agent/delegate', { subagent_id, task_name: 't', instruction: 'do' });
    const waits = { type: 'multi_agent/merge/req', subagent_ids: [subagent_id] };
    return { waits, end: () => endAll() };
  },
  'a task of a plan': async ({ ask }) => {
    const { plan_id } = await ask('planning/plan/create', { name: 'p' });
    const waits = { type: 'planning/task/claim/req', plan_id, wait_ms: 50_000 };
    const end = async () => {
      for (let at = 0; at < OPEN; at++) await ask('planning/task/add', { plan_id, title: `t${at}` });
    };
    return { waits, end };
  },
  'an approval of a chain': async ({ ask }) => ({
    waits: { type: 'chain/req', nodes: approvalChain, streaming: false },
    end: async () => {
      const { runs } = await ask('chain/runs/req', {});
      for (const { chain_id } of runs as Message[])
        await ask('chain/approve/req', { chain_id, node_id: 'ok', approved: true });
    },
  }),
  'an event of a chain': async ({ ask }) => ({
    waits: { type: 'chain/req', nodes: eventChain, streaming: false },
    end: async () => {
      const { runs } = await ask('chain/runs/req', {});
      for (const { chain_id } of runs as Message[]) await ask('chain/deliver/req', { chain_id, event: 'come' });
    },
  }),
  'the delay before a node of a chain runs again': async () => {
    const retry = { max_attempts: 2, delay_ms: 500, jitter: 0 };
    const nodes = [{ node_id: 'a', kind: 'tool', name: 'failing', retry }];
    return { waits: { type: 'chain/req', nodes, streaming: false }, end: () => {} };
  },
  'the delay before an item of a map of a chain runs again': async () => {
    const retry = { max_attempts: 2, delay_ms: 500, jitter: 0 };
    const nodes = [
      { node_id: 'm', kind: 'map', items_path: '$.input.items', map_node: 'a', parallel: 2 },
      { node_id: 'a', kind: 'tool', name: 'failing', retry },
    ];
    return { waits: { type: 'chain/req', nodes, initial_input: { items: [1, 2] }, streaming: false }, end: () => {} };
  },
  'a program that does not read its input': async ({ ask }) => {
    const { proc_id } = await ask('proc/spawn/req', { cmd: ['/bin/sleep', '60'], stream: false });
    const waits = { type: 'proc/write/req', proc_id, data: 'x'.repeat(200_000) };
    return { waits, end: () => ask('proc/kill/req', { proc_id }) };
  },
  'a time of a chain': async () => ({
    waits: { type: 'chain/req', nodes: [{ node_id: 'a', kind: 'wait', wait: { ms: 500 } }], streaming: false },
    end: () => {},
  }),
};

for (const [name, way] of Object.entries(ways)) {
  test(`more requests than max_parallel wait for ${name}, and another one gets through`, async () => {
    const site = await raw();
    const { waits, end } = await way(site);
    const { type, ...body } = waits;
    const open = Array.from({ length: OPEN }, () => site.send(type as string, body));
    assert.equal(await site.echoes(), true);
    assert.equal(site.host.health().running, OPEN, 'a request that waits has no reply');
    await end();
    for (const id of open) assert.doesNotMatch(String((await site.answer(id)).type), /error/);
    assert.equal(await site.echoes(), true);
    assert.equal(site.host.health().running, 0);
  });
}

test('followers of the journal, and watchers of a run, take no place', async () => {
  const { send, ask, waits, echoes, answer } = await raw();
  const run = send('chain/req', { chain_id: 'c', nodes: approvalChain, streaming: false });
  await waits('c');
  for (let at = 0; at < OPEN; at++) send('journal/follow/req', { follow: true });
  const watchers = Array.from({ length: OPEN }, () => send('chain/watch/req', { chain_id: 'c' }));
  assert.equal(await echoes(), true);
  await ask('chain/approve/req', { chain_id: 'c', node_id: 'ok', approved: true });
  for (const id of [run, ...watchers]) assert.equal((await answer(id)).state, 'done');
});

test('calls whose tool asks the agent take no place until it has answered', async () => {
  const { host } = await hostOf();
  await using agent = await connect(host, { capabilities: CAPABILITIES });
  const waiting: (() => void)[] = [];
  const all = Promise.withResolvers<void>();
  agent.mcp.onElicitation(async () => {
    await new Promise<void>((resolve) => {
      waiting.push(resolve);
      if (waiting.length === OPEN) all.resolve();
    });
    // The agent may need the host for its answer.
    await agent.tools.call('echo', { n: 2 });
    return { action: 'accept', content: {} };
  });
  const calls = Array.from({ length: OPEN }, () => agent.tools.call('asking', {}));
  await all.promise;
  assert.equal((await agent.tools.call('echo', { n: 1 })).success, true);
  for (const answer of waiting) answer();
  for (const call of calls) assert.equal((await call).success, true);
});

test('the client sends waiting calls beside its limit, and running calls within it', async () => {
  const { host, gate } = await hostOf({ maxWaiting: 3 });
  await using agent = await connect(host, { capabilities: CAPABILITIES });
  const plan = await agent.planning.createPlan('p');
  // Two more than may wait: they are sent when others have ended, and none is refused.
  const claims = Array.from({ length: 5 }, () => agent.planning.claim(plan.plan_id, { waitMs: 50_000, renew: false }));
  const held = ['a', 'b'].map((name) => agent.tools.call('gated', { name }));
  const third = agent.tools.call('gated', { name: 'c' });
  await gate.began('b');
  assert.deepEqual(gate.started, ['a', 'b'], 'requests that run have their limit');
  gate.open('a');
  await gate.began('c');
  for (const name of ['b', 'c']) gate.open(name);
  await Promise.all([...held, third]);
  for (let at = 0; at < 5; at++) await agent.planning.add(plan.plan_id, `t${at}`);
  const tasks = await Promise.all(claims);
  assert.equal(new Set(tasks.map((claim) => claim?.task.task_id)).size, 5);
});

test('the client sends chains whose subagents work, and writes that a program does not read, beside its limit', async () => {
  const { host, endAll } = await hostOf();
  await using agent = await connect(host, { capabilities: CAPABILITIES });
  const runs = Array.from({ length: OPEN }, () =>
    agent.chains.run({ nodes: [{ node_id: 'a', kind: 'agent', input: { task: 'do' } }] }),
  );
  await using program = await agent.proc.spawn(['/bin/sleep', '60']);
  const writes = Array.from({ length: OPEN }, () => program.write('x'.repeat(200_000)).catch(() => 'closed'));
  assert.equal((await agent.tools.call('echo', { n: 1 })).success, true);
  await program.kill('SIGKILL');
  assert.deepEqual(await Promise.all(writes), new Array(OPEN).fill('closed'));
  while ((await agent.multi_agent.list()).filter(({ status }) => status === 'RUNNING').length < OPEN)
    await setImmediate();
  endAll();
  for (const run of runs) assert.equal((await run).state, 'done');
});

test('past max_waiting a request that may wait is refused with the limit, and others are served', async () => {
  const { hello, send, ask, echoes, answer } = await raw({ maxWaiting: 3 });
  assert.equal(hello.extensions['handfast/capabilities'].max_waiting, 3);
  const { plan_id } = await ask('planning/plan/create', { name: 'p' });
  const claims = [1, 2, 3].map(() => send('planning/task/claim/req', { plan_id, wait_ms: 50_000 }));
  const refused = await ask('planning/task/claim/req', { plan_id, wait_ms: 50_000 });
  assert.equal(refused.detail.reason, 'over_capacity');
  assert.equal(refused.detail.max_waiting, 3);
  assert.equal(refused.retryable, true);
  // A claim that does not wait is none of them.
  assert.equal((await ask('planning/task/claim/req', { plan_id })).task, null);
  assert.equal(await echoes(), true);
  send('cancel', { req_id: claims[0] });
  assert.equal((await answer(claims[0] as string)).type, 'error');
  const again = send('planning/task/claim/req', { plan_id, wait_ms: 50_000 });
  for (let at = 0; at < 3; at++) await ask('planning/task/add', { plan_id, title: `t${at}` });
  for (const id of [...claims.slice(1), again]) assert.equal(typeof (await answer(id)).task.task_id, 'string');
});

test('a chain that waited counts again when it runs on', async () => {
  const { send, ask, waits, gate, answer } = await raw();
  const nodes = [
    { node_id: 'ok', kind: 'wait', wait: { event: 'come' } },
    { node_id: 'work', kind: 'tool', name: 'gated', after: ['ok'], input: { name: 'in the chain' } },
  ];
  const run = send('chain/req', { chain_id: 'c', nodes, streaming: false });
  await waits('c');
  await ask('chain/deliver/req', { chain_id: 'c', event: 'come' });
  await gate.began('in the chain');
  const first = send('tool/call/req', { tool_name: 'gated', arguments: { name: 'first' } });
  const second = send('tool/call/req', { tool_name: 'gated', arguments: { name: 'second' } });
  await gate.began('first');
  assert.deepEqual(gate.started, ['in the chain', 'first']);
  gate.open('in the chain');
  assert.equal((await answer(run)).state, 'done');
  await gate.began('second');
  for (const name of ['first', 'second']) gate.open(name);
  for (const id of [first, second]) assert.equal((await answer(id)).data.success, true);
});

test('requests that wait end with their session', async () => {
  const { host } = await hostOf();
  const agent = await connect(host, { capabilities: CAPABILITIES, resume: false });
  const plan = await agent.planning.createPlan('p');
  const open = [
    agent.planning.claim(plan.plan_id, { waitMs: 50_000, renew: false }),
    agent.chains.run({ nodes: [...approvalChain] }, {}, { chainId: 'c' }),
  ].map((call) => call.catch(({ code }) => code));
  while (host.health().running < open.length) await setImmediate();
  await agent.close();
  assert.deepEqual(await Promise.all(open), ['connection_lost', 'connection_lost']);
  for (let left = 1; left > 0; await setImmediate()) {
    const { sessions, running, abandoned } = host.health();
    left = sessions + running + abandoned;
  }
});
