import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { tool } from '../../src/capabilities/tools/tool.ts';
import { connect } from '../../src/connect.ts';
import { createHost, type Host, type HostOptions } from '../../src/host/host.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import type { Session } from '../../src/session/session.ts';
import { type Message, type RawAgent, rawAgent } from '../support/raw-agent.ts';
import { echo, flood, gated } from '../support/tools.ts';

const RESUME = 'handfast/resume';

const hosts: Host[] = [];
after(() => Promise.all(hosts.map((one) => one.close(0))));

async function host(
  options: Partial<HostOptions> = {},
  tools: Parameters<typeof toolsPlugin>[0]['tools'] = [echo, flood],
) {
  const made = createHost({ plugins: [toolsPlugin({ tools })], journal: memoryJournal(), ...options });
  await made.start();
  hosts.push(made);
  return made;
}

const call = (id: string, tool_name: string, args: Message = {}, extra: Message = {}) => ({
  type: 'tool/call/req',
  id,
  tool_name,
  arguments: args,
  ...extra,
});

const shake = (agent: RawAgent, extra: Message = {}, resume: Message = {}) =>
  agent.shake({ extensions: { [RESUME]: resume }, ...extra });

const cursorOf = (agent: RawAgent) => Math.max(0, ...agent.received.map((message) => message.cursor ?? 0));

test('a session survives its link: what was missed comes first, then what is new', async () => {
  const gate = gated();
  const made = await host({}, [gate.tool, echo]);
  const first = rawAgent(made);
  const { session_id } = await shake(first);
  first.send(call('a', 'gated', { name: 'a' }));
  first.send(call('b', 'echo', { n: 1 }));
  await first.answer('b');
  const cursor = cursorOf(first);
  first.link.destroy('cut');
  await first.closed();
  gate.open('a');

  const second = rawAgent(made);
  const answer = await shake(second, {}, { session_id, cursor });
  assert.equal(answer.session_id, session_id);
  assert.deepEqual(
    { ...answer.extensions[RESUME], cursor: undefined },
    { window_ms: 60_000, resumed: true, received: 2, cursor: undefined },
  );
  assert.equal((await second.next()).req_id, 'a');
  second.send(call('c', 'echo', { n: 2 }));
  assert.equal((await second.next()).req_id, 'c');
  assert.deepEqual(second.rest, []);
});

test('a resume sends what the host had sent, never the requests of the agent itself', async () => {
  const gate = gated();
  const made = await host({}, [gate.tool, echo]);
  const first = rawAgent(made);
  const { session_id } = await shake(first);
  first.send(call('a', 'gated', { name: 'a' }));
  first.send(call('b', 'echo', { n: 1 }));
  await first.answer('b');
  first.link.destroy('cut');
  await first.closed();

  const second = rawAgent(made);
  await shake(second, {}, { session_id, cursor: 0 });
  gate.open('a');
  await second.answer('a');
  const kinds = second.received.map(({ type, req_id }) => [type, req_id]);
  assert.deepEqual(kinds.slice(-2), [
    ['tool/call/resp', 'b'],
    ['tool/call/resp', 'a'],
  ]);
  assert.deepEqual(
    second.received.filter(({ type }) => type.endsWith('/req')),
    [],
  );
});

test('a cut at every message of a stream: after resuming, everything was seen exactly once and in order', async () => {
  const made = await host();
  for (let cut = 1; cut <= 22; cut++) {
    const runs: Message[] = [];
    let agent = rawAgent(made);
    const { session_id } = await shake(agent);
    agent.send(call('f', 'flood', { count: 20 }, { streaming: true }));
    for (let at = 0; at < cut && runs.at(-1)?.type !== 'tool/call/resp'; at++) runs.push(await agent.next());
    const cursor = Math.max(0, ...runs.map((message) => message.cursor));
    agent.link.destroy('cut');
    agent = rawAgent(made);
    assert.equal((await shake(agent, {}, { session_id, cursor })).extensions[RESUME].resumed, true);
    while (runs.at(-1)?.type !== 'tool/call/resp') runs.push(await agent.next());
    assert.deepEqual(
      runs.map((message) => message.seq ?? message.type),
      [...Array(20).keys(), 'tool/call/resp'],
      `cut after ${cut}`,
    );
    agent.send({ type: 'shutdown', id: 's', timeout: 0 });
    await agent.closed();
  }
});

test('a range that retention took is one explicit gap, with what still runs', async () => {
  const gate = gated();
  const made = await host({ journal: memoryJournal({ retention: { maxEntries: 8 } }) }, [gate.tool, flood]);
  const first = rawAgent(made);
  const { session_id } = await shake(first);
  first.send(call('a', 'gated', { name: 'a' }));
  first.send(call('f', 'flood', { count: 30 }, { streaming: true }));
  await first.answer('f');
  first.link.destroy('cut');
  const second = rawAgent(made);
  const { gap, running } = (await shake(second, {}, { session_id, cursor: 2 })).extensions[RESUME];
  assert.equal(gap.from, 3);
  assert.deepEqual(running, ['a']);
  const replayed = [];
  for (let at = gap.to + 1; at <= cursorOf(first); at++) replayed.push((await second.next()).cursor);
  assert.deepEqual(replayed[0], gap.to + 1);
  assert.equal(replayed.at(-1), cursorOf(first));
});

test('a newer link takes over, and the older one ends as superseded', async () => {
  const made = await host();
  const first = rawAgent(made);
  const { session_id } = await shake(first);
  const second = rawAgent(made);
  assert.equal((await shake(second, {}, { session_id, cursor: 0 })).session_id, session_id);
  const told = await first.next();
  assert.deepEqual([told.type, told.detail.reason], ['error', 'superseded']);
  await first.closed();
  second.send(call('c', 'echo'));
  assert.equal((await second.answer('c')).data.success, true);
});

test('racing links: one of them ends up with the session, and each answer is delivered to one link only', async () => {
  const made = await host();
  const first = rawAgent(made);
  const { session_id } = await shake(first);
  for (let round = 0; round < 50; round++) {
    const [left, right] = [rawAgent(made), rawAgent(made)];
    const greet = {
      type: 'handshake/req',
      id: 'hs',
      agent_caps: ['tools'],
      extensions: { [RESUME]: { session_id, cursor: 0 } },
    };
    left.send(greet);
    right.send(greet);
    await right.answer('hs');
    right.send(call(`r${round}`, 'echo'));
    await right.answer(`r${round}`);
    await left.closed();
    assert.equal(left.received.filter((message) => message.req_id === `r${round}`).length, 0);
  }
});

test('only the same principal may resume; a session of another principal looks like none at all', async () => {
  const auth = createAuthenticator([
    { principal: { name: 'alice', capabilities: ['*'] }, digests: [tokenDigest('a')] },
    { principal: { name: 'mallory', capabilities: ['*'] }, digests: [tokenDigest('m')] },
  ]);
  const made = await host({ auth });
  const alice = rawAgent(made);
  const { session_id } = await shake(alice, { auth_token: 'a' });
  const mallory = rawAgent(made);
  const stolen = await shake(mallory, { auth_token: 'm' }, { session_id, cursor: 0 });
  const invented = await shake(rawAgent(made), { auth_token: 'm' }, { session_id: 'f'.repeat(32), cursor: 0 });
  assert.notEqual(stolen.session_id, session_id);
  const shape = ({ session_id: _s, id: _i, ts: _t, ...rest }: Message) => rest;
  assert.deepEqual(shape(stolen), shape(invented));
  alice.send(call('c', 'echo'));
  assert.equal((await alice.answer('c')).data.success, true);
});

test('a cursor that was never given out is refused', async () => {
  const made = await host();
  const first = rawAgent(made);
  const { session_id } = await shake(first);
  for (const cursor of [-1, 0.5, 1e9, '0', null]) {
    const agent = rawAgent(made);
    agent.send({
      type: 'handshake/req',
      id: 'hs',
      agent_caps: ['tools'],
      extensions: { [RESUME]: { session_id, cursor } },
    });
    assert.equal((await agent.answer('hs')).code, 'invalid_message', String(cursor));
  }
});

test('a session that no link comes back to expires', async () => {
  const made = await host({ limits: { resumeWindowMs: 60 } });
  const first = rawAgent(made);
  const { session_id } = await shake(first);
  first.link.destroy('cut');
  while (made.health().sessions > 0) await setTimeout(10);
  const second = rawAgent(made);
  assert.notEqual((await shake(second, {}, { session_id, cursor: 0 })).session_id, session_id);
});

test('with a resume window of 0 resume is not offered, and a lost link ends the session at once', async () => {
  const gate = gated();
  const made = await host({ limits: { resumeWindowMs: 0 } }, [gate.tool]);
  const first = rawAgent(made);
  const answer = await shake(first, { extensions: { [RESUME]: {}, 'handfast/journal': {}, 'handfast/cancel': {} } });
  assert.deepEqual(Object.keys(answer.extensions).sort(), ['handfast/cancel', 'handfast/journal']);
  first.send(call('a', 'gated', { name: 'a' }));
  first.link.destroy('cut');
  await first.closed();
  assert.equal(made.health().sessions, 0);
  const second = await shake(rawAgent(made), {}, { session_id: answer.session_id, cursor: 0 });
  assert.notEqual(second.session_id, answer.session_id);
  assert.equal(second.extensions, undefined);
  gate.open('a');
});

/** Returns a proxy between agent and host that can be cut: each dial is a new pair of in-memory links. */
async function cuttable(options: Partial<HostOptions> = {}) {
  const runs = new Map<string, number>();
  const counted = tool({
    name: 'counted',
    description: 'Counts how often it ran for a key',
    input: { type: 'object', properties: { key: { type: 'string' }, ms: { type: 'integer' } } },
    async run({ key, ms = 0 }: { key: string; ms?: number }, context) {
      runs.set(key, (runs.get(key) ?? 0) + 1);
      await context.emit('log', { key });
      await setTimeout(ms, undefined, { signal: context.signal });
      return { key };
    },
  });
  const made = await host({ limits: { maxParallel: 16 }, ...options }, [counted]);
  const { listenTcp } = await import('../../src/transport/socket.ts');
  const links = new Set<{ destroy(): void }>();
  const listener = await listenTcp({ host: '127.0.0.1', port: 0 }, (link) => {
    links.add(link);
    made.accept(link);
  });
  return {
    made,
    runs,
    address: listener.address,
    cut: () => {
      for (const link of links) link.destroy();
      links.clear();
    },
    end: async () => {
      await listener.close();
      await made.close();
    },
  };
}

test('our agent comes back by itself: with links cut all the time, every call is answered and runs once', async () => {
  const rig = await cuttable();
  const states: string[] = [];
  const agent = await connect(rig.address, { capabilities: ['tools'], onState: ({ state }) => states.push(state) });
  // Cut faster than a busy machine reconnects, the test would never end.
  let answered = 0;
  let answeredAtCut = 0;
  const cutting = setInterval(() => {
    if (answered === answeredAtCut) return;
    answeredAtCut = answered;
    rig.cut();
  }, 15);
  const events = new Map<string, number>();
  const calls = Array.from({ length: 200 }, async (_, at) => {
    const onEvent = ({ data }: { data: Record<string, unknown> }) =>
      events.set(String(data.key), (events.get(String(data.key)) ?? 0) + 1);
    const result = await agent.tools.call('counted', { key: `k${at}`, ms: at % 7 }, { onEvent });
    answered += 1;
    return result;
  });
  const results = await Promise.all(calls);
  clearInterval(cutting);
  assert.deepEqual(
    results.map(({ data }) => (data as { key: string }).key),
    Array.from({ length: 200 }, (_, at) => `k${at}`),
  );
  assert.deepEqual([...new Set(rig.runs.values())], [1], 'no call ran twice');
  assert.deepEqual([rig.runs.size, events.size, ...new Set(events.values())], [200, 200, 1], 'every event came once');
  assert.ok(states.includes('lost') && states.includes('resumed'));
  await agent.close();
  await rig.end();
});

test('when the session is gone at the host, calls it had begun fail and new ones work', async () => {
  const rig = await cuttable({ limits: { resumeWindowMs: 5_000 } });
  const agent = await connect(rig.address, { capabilities: ['tools'] });
  const before = agent.sessionId;
  const pending = agent.tools.call('counted', { key: 'lost', ms: 2_000 });
  await agent.ping();
  for (const session of rig.made.sessions as Iterable<Session>) {
    // The host forgets without a word, as one that was restarted would.
    session.connection.detach()?.destroy();
    session.close('interrupted', 'restarted');
  }
  await assert.rejects(pending, { code: 'session_expired', retryable: false, detail: { may_have_run: true } });
  assert.equal((await agent.tools.call('counted', { key: 'new' })).success, true);
  assert.notEqual(agent.sessionId, before);
  await agent.close();
  await rig.end();
});

test('closing settles every call and stream', async () => {
  const rig = await cuttable();
  const agent = await connect(rig.address, { capabilities: ['tools'] });
  const calls = Array.from({ length: 40 }, (_, at) => agent.tools.call('counted', { key: `k${at}`, ms: 60_000 }));
  const stream = (async () => {
    for await (const _event of agent.tools.call('counted', { key: 'stream', ms: 60_000 }));
  })();
  await agent.ping();
  const settled = Promise.allSettled([...calls, stream]);
  await agent.close();
  for (const outcome of await settled) {
    assert.equal(outcome.status === 'rejected' && outcome.reason.code, 'connection_lost');
  }
  await assert.rejects(agent.tools.call('counted'), { code: 'connection_lost' });
  await rig.end();
});
