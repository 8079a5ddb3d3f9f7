import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { createHost, type Host, type HostOptions } from '../../src/host/host.ts';
import { definePlugin } from '../../src/host/plugin.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import { rawAgent } from '../support/raw-agent.ts';
import { echo } from '../support/tools.ts';

const token = createAuthenticator([
  { principal: { name: 'alice', capabilities: ['*'] }, digests: [tokenDigest('s3cret')] },
]);

const hosts: Host[] = [];
after(() => Promise.all(hosts.map((one) => one.close(0))));

async function host(options: Partial<HostOptions> = {}) {
  const made = createHost({ plugins: [toolsPlugin({ tools: [echo] })], ...options });
  await made.start();
  hosts.push(made);
  return made;
}

const call = (id: string, extra: Record<string, unknown> = {}) => ({
  type: 'tool/call/req',
  id,
  tool_name: 'echo',
  arguments: { text: 'hi' },
  ...extra,
});

test('grants what is loaded, says why not for the rest, and leaves unknown names out', async () => {
  const agent = rawAgent(await host());
  const answer = await agent.shake({ agent_caps: ['tools', 'memory', 'streaming', 'no-such', 'skills', 'tools'] });
  assert.equal(answer.ok, true);
  assert.equal(answer.reason, '');
  assert.equal(answer.max_parallel, 4);
  assert.equal(answer.a2e, '1.0');
  assert.equal(answer.version, '1.0');
  assert.match(answer.session_id, /^[0-9a-f]{32}$/);
  assert.deepEqual(answer.accepted_caps, [
    {
      capability: 'tools',
      enabled: true,
      metadata: { tools: 1, name: 'tools', type: 'tools', priority: 0, exclusive: false },
    },
    { capability: 'memory', enabled: false, metadata: { reason: 'no plugin loaded' } },
    { capability: 'skill', enabled: false, metadata: { reason: 'no plugin loaded' } },
  ]);
  assert.equal('extensions' in answer, false, 'a peer that asks for no extension hears of none');
});

test('an empty list, or only feature flags of old clients, is accepted with nothing granted', async () => {
  for (const agent_caps of [[], ['streaming', 'artifacts']]) {
    const agent = rawAgent(await host());
    const answer = await agent.shake({ agent_caps });
    assert.deepEqual([answer.ok, answer.accepted_caps], [true, []]);
    agent.send(call('c1'));
    const refused = await agent.answer('c1');
    assert.equal(refused.code, 'capability_missing');
    assert.equal(refused.capability_name, 'tools');
  }
});

test('no_caps: real capabilities were asked for and none is there', async () => {
  const agent = rawAgent(await host());
  const answer = await agent.shake({ agent_caps: ['memory', 'env'] });
  assert.deepEqual([answer.ok, answer.reason, answer.session_id], [false, 'no_caps', '']);
  assert.deepEqual(
    answer.accepted_caps.map((cap: { enabled: boolean }) => cap.enabled),
    [false, false],
  );
  await agent.closed();
});

test('auth_failed: wrong tokens of every kind are refused, the link closes, and nothing behind them runs', async () => {
  for (const auth_token of ['', 's3cre', 's3crett', 'S3CRET', 's3cret\u0000', ['s3cret'], { s: 1 }, 7, null]) {
    const agent = rawAgent(await host({ auth: token }));
    agent.send({ type: 'handshake/req', id: 'hs', agent_caps: ['tools'], auth_token });
    agent.send(call('c1'));
    const answer = await agent.answer('hs');
    assert.deepEqual([answer.ok, answer.reason, answer.accepted_caps], [false, 'auth_failed', []]);
    await agent.closed();
    assert.deepEqual(agent.rest, []);
  }
  const agent = rawAgent(await host({ auth: token }));
  assert.equal((await agent.shake({ auth_token: 's3cret' })).ok, true);
});

test('version_mismatch: either stamp of another major version, or no text, is refused', async () => {
  for (const stamp of [
    { a2e: '2.0' },
    { version: '2.0' },
    { a2e: 1 },
    { a2e: '9.9' },
    { a2e: '1.0', version: '2.0' },
    { a2e: 'one' },
  ]) {
    const agent = rawAgent(await host());
    agent.send({ type: 'handshake/req', id: 'hs', agent_caps: ['tools'], ...stamp });
    const answer = await agent.answer('hs');
    assert.deepEqual([answer.ok, answer.reason], [false, 'version_mismatch'], JSON.stringify(stamp));
    await agent.closed();
  }
  for (const stamp of [{}, { a2e: '1.0' }, { version: '1.0' }, { a2e: '1.0', version: '1.0' }, { a2e: '1.7' }]) {
    const agent = rawAgent(await host());
    agent.send({ type: 'handshake/req', id: 'hs', agent_caps: ['tools'], ...stamp });
    assert.equal((await agent.answer('hs')).ok, true, JSON.stringify(stamp));
  }
});

test('server_error: a plugin that cannot open a session, and a host that is full', async () => {
  const broken = definePlugin({
    name: 'broken',
    type: 'tools',
    methods: [],
    opened() {
      throw new Error('no');
    },
  });
  const first = rawAgent(await host({ plugins: [broken] }));
  const answer = await first.shake();
  assert.deepEqual([answer.ok, answer.reason], [false, 'server_error']);
  await first.closed();

  const full = await host({ limits: { maxSessions: 1 } });
  const inside = rawAgent(full);
  assert.equal((await inside.shake()).ok, true);
  const outside = rawAgent(full);
  assert.equal((await outside.shake()).reason, 'server_error');
  inside.send(call('c1'));
  assert.equal((await inside.answer('c1')).type, 'tool/call/resp');
});

test('a principal gets only the capabilities it may have', async () => {
  const auth = createAuthenticator([
    { principal: { name: 'guest', capabilities: ['memory'] }, digests: [tokenDigest('guest')] },
  ]);
  const agent = rawAgent(await host({ auth }));
  const answer = await agent.shake({ auth_token: 'guest' });
  assert.equal(answer.reason, 'no_caps');
  assert.deepEqual(answer.accepted_caps, [
    { capability: 'tools', enabled: false, metadata: { reason: 'not allowed for this principal' } },
  ]);
});

test('before the handshake only ping is served; with a token anything else ends the link', async () => {
  const open = rawAgent(await host());
  open.send({ type: 'ping', id: 'p1' });
  assert.equal((await open.answer('p1')).type, 'pong');
  open.send(call('c1'));
  assert.equal((await open.answer('c1')).code, 'capability_missing');
  open.send({ id: 'x' });
  assert.equal((await open.answer('x')).code, 'invalid_message');
  assert.equal((await open.shake()).ok, true);

  const guarded = rawAgent(await host({ auth: token }));
  guarded.send({ type: 'ping', id: 'p1' });
  assert.equal((await guarded.answer('p1')).type, 'pong');
  guarded.send(call('c1'));
  guarded.send({ type: 'handshake/req', id: 'hs', agent_caps: ['tools'], auth_token: 's3cret' });
  assert.equal((await guarded.answer('c1')).code, 'unauthorized');
  await guarded.closed();
  assert.deepEqual(guarded.rest, [], 'a handshake behind the first strike is not read');
});

test('a link without a handshake in time is closed, and pings do not prolong it', async () => {
  const made = await host({ limits: { handshakeTimeoutMs: 60 } });
  const silent = rawAgent(made);
  const chatty = rawAgent(made);
  const timer = setInterval(() => chatty.send({ type: 'ping', id: `p${performance.now()}` }), 10);
  await silent.closed();
  await chatty.closed();
  clearInterval(timer);
  assert.equal(made.health().pending_links, 0);
});

test('links before their handshake are bounded in number: the one that is silent longest makes room', async () => {
  const made = await host({ limits: { maxPendingConnections: 2 } });
  const [first, second, third] = [rawAgent(made), rawAgent(made), rawAgent(made)];
  await first.closed();
  assert.equal(made.health().pending_links, 2);
  assert.equal((await third.shake()).ok, true);
  const fourth = rawAgent(made);
  assert.equal((await second.shake()).ok, true);
  assert.equal((await fourth.shake()).ok, true);
});

test('a second handshake changes nothing', async () => {
  const agent = rawAgent(await host());
  const first = await agent.shake({ agent_caps: ['memory', 'tools'] });
  agent.send({ type: 'handshake/req', id: 'hs2', agent_caps: ['tools', 'proc'] });
  const second = await agent.answer('hs2');
  assert.deepEqual([second.type, second.code], ['error', 'invalid_message']);
  agent.send(call('c1', { session_id: first.session_id }));
  assert.equal((await agent.answer('c1')).data.success, true);
});

test('a pong tells how old the host is, but not to peers of plain A2E', async () => {
  const one = await host();
  const pongOf = async (shake: Record<string, unknown>) => {
    const agent = rawAgent(one);
    await agent.shake(shake);
    agent.send({ type: 'ping', id: 'p1' });
    return agent.answer('p1');
  };
  const plain = await pongOf({});
  assert.deepEqual(['uptime_seconds' in plain, 'host_uptime_seconds' in plain], [true, false]);
  const more = await pongOf({ extensions: { 'handfast/cancel': {} } });
  assert.ok(more.host_uptime_seconds >= more.uptime_seconds);
  assert.ok(more.host_uptime_seconds <= one.health().uptime_seconds);
});

test('extensions are granted only where asked for, and only known ones', async () => {
  const made = await host({ journal: memoryJournal() });
  const asking = rawAgent(made);
  const answer = await asking.shake({
    extensions: { 'handfast/cancel': {}, 'handfast/resume': {}, 'someone/else': {} },
  });
  assert.deepEqual(Object.keys(answer.extensions).sort(), ['handfast/cancel', 'handfast/resume']);
  assert.equal(answer.extensions['handfast/resume'].window_ms, 60_000);
  const plain = rawAgent(made);
  await plain.shake();
  plain.send(call('c1'));
  assert.equal('cursor' in (await plain.answer('c1')), false, 'plain peers see plain A2E');
});

test('messages that come in one piece with the handshake are served after it', async () => {
  const agent = rawAgent(await host());
  agent.send({ type: 'handshake/req', id: 'hs', agent_caps: ['tools'] });
  agent.send(call('c1'));
  agent.send({ type: 'ping', id: 'p1' });
  assert.equal((await agent.answer('hs')).ok, true);
  const kinds = [(await agent.next()).type, (await agent.next()).type].sort();
  assert.deepEqual(kinds, ['pong', 'tool/call/resp']);
});

test('a peer of another dialect is answered in its own words, and the link closes', async () => {
  const agent = rawAgent(await host());
  agent.send({ jsonrpc: '2.0', id: 1, method: 'rpc.handshake' });
  await agent.closed();
});
