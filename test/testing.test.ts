/**
 * `handfast/testing`: its promises to users' tests, each part used as in such a test.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect, memoryJournal, serve, tool } from 'handfast';
import { loadConfig } from 'handfast/host';
import {
  assertRequestsSettled,
  assertWholeJournal,
  fakeClock,
  faultyLink,
  journalOf,
  memoryPair,
  ScriptedPeer,
  scriptedPeer,
  scriptedServer,
  startModelServer,
  testHost,
} from 'handfast/testing';
import { connectTcp } from '../src/transport/socket.ts';
import { temporaryFolder } from './host/temporary-folder.ts';

const echo = tool({ name: 'echo', description: 'Gives back its arguments', run: (args) => args });

test('a host with a token in a line: the right token comes in, a named one within its rights, others not', async () => {
  await using host = await testHost({
    tools: [echo],
    principals: { guest: { capabilities: ['tools'], tools: { deny: ['echo'] } } },
  });
  await using agent = await host.connect({ capabilities: ['tools'] });
  assert.deepEqual((await agent.tools.call('echo', { n: 1 })).data, { n: 1 });
  await assert.rejects(host.connect({ capabilities: ['tools'], token: 'wrong' }), { code: 'auth_failed' });
  const { address } = await host.listen();
  await using guest = await connect(address, { capabilities: ['tools'], token: host.tokens.guest });
  await assert.rejects(guest.tools.call('echo', {}), { code: 'tool_denied' });
});

test('a scripted peer speaks raw messages and reads what comes, reply by reply', async () => {
  await using host = await testHost({ tools: [echo] });
  const peer = scriptedPeer(host.host);
  assert.equal((await peer.handshake('a2e', { auth_token: host.token })).ok, true);
  peer.send({ type: 'tool/call/req', id: '1', tool_name: 'echo', arguments: { n: 2 } });
  peer.send('{"type":"ping","id":"2"}');
  assert.equal((await peer.reply('2')).type, 'pong');
  assert.deepEqual(peer.received.find(({ req_id }) => req_id === '1')?.data.data, { n: 2 });
  await peer.link.close();
  assert.equal((await peer.closed()).clean, true);
});

test('a peer that waits in vain says what came last, and one whose link ended says so', async () => {
  const [ours, theirs] = memoryPair();
  const peer = new ScriptedPeer(ours, { patienceMs: 20 });
  const other = new ScriptedPeer(theirs);
  other.send({ type: 'hello' });
  await assert.rejects(peer.reply('1'), { code: 'timeout', message: /hello/ });
  await other.link.close();
  await assert.rejects(peer.next(), { code: 'interrupted' });
});

test('a scripted server is a host of the test: it decides what a client hears', async () => {
  const server = scriptedServer({
    onMessage: ({ type, id }) =>
      type === 'handshake/req'
        ? { type: 'error', req_id: id, a2e: '1.0', code: 'auth_failed', message: 'not today', retryable: false }
        : undefined,
  });
  await assert.rejects(connect(server, { capabilities: ['tools'] }), { code: 'auth_failed' });
  assert.equal(server.peers[0]?.received[0]?.type, 'handshake/req');
});

test('a clock stands still until it is advanced, and timers fire in their order', async () => {
  const clock = fakeClock({ startMs: 1_000 });
  const fired: string[] = [];
  clock.timer(() => fired.push('late'), 20);
  clock.timer(() => {
    fired.push('early');
    clock.timer(() => fired.push('nested'), 5);
  }, 10);
  clock.timer(() => fired.push('cleared'), 15)();
  await clock.advance(9);
  assert.deepEqual([fired, clock.now(), clock.timers], [[], 1_009, 2]);
  await clock.advance(100);
  assert.deepEqual([fired, clock.monotonic()], [['early', 'nested', 'late'], 109]);
});

test('a link is cut for both ends, or swallows everything while both believe it stands', async () => {
  for (const fault of ['cut', 'blackHole'] as const) {
    const [raw, theirs] = memoryPair();
    const faulty = faultyLink(raw);
    const near = new ScriptedPeer(faulty.link);
    const far = new ScriptedPeer(theirs);
    near.send({ n: 1 });
    assert.deepEqual(await far.next(), { n: 1 });
    faulty[fault]();
    near.send({ n: 2 });
    far.send({ n: 3 });
    if (fault === 'cut') {
      await Promise.all([near.closed(), far.closed()]);
    } else {
      await new Promise((resolve) => setImmediate(resolve));
      assert.deepEqual([near.closedWith, far.closedWith], [undefined, undefined]);
    }
    assert.deepEqual([near.rest, far.rest], [[], []]);
  }
});

test('a whole journal passes, one with a hole, a late event or two replies does not', async () => {
  const entry = (cursor: number, kind: string, request = 'a') => ({ cursor, ts: 0, kind, request, body: {} });
  const whole = memoryJournal();
  await whole.append('s', [entry(1, 'request'), entry(2, 'event'), entry(3, 'reply')]);
  assert.equal((await assertWholeJournal(whole, 's')).length, 3);
  await assertRequestsSettled(whole, 's');
  const evicted = memoryJournal({ retention: { maxEntries: 2, maxBytes: 1024 } });
  await evicted.append('s', [entry(1, 'request'), entry(2, 'event'), entry(3, 'reply')]);
  await assert.rejects(assertWholeJournal(evicted, 's'), /gaps/);
  assert.deepEqual((await journalOf(evicted, 's'))[0], { kind: 'gap', from: 1, to: 1 });
  const late = memoryJournal();
  await late.append('s', [entry(1, 'request'), entry(2, 'reply'), entry(3, 'event')]);
  await assert.rejects(assertRequestsSettled(late, 's'), /follows its reply/);
  const twice = memoryJournal();
  await twice.append('s', [entry(1, 'request'), entry(2, 'reply'), entry(3, 'error')]);
  await assert.rejects(assertRequestsSettled(twice, 's'), /no single reply/);
});

test('a model server answers in the format of each provider, round by round', async () => {
  await using model = await startModelServer();
  model.play([{ text: 'one' }, { error: 'busy', status: 429 }]);
  const ask = (path: string) =>
    fetch(model.url + path, { method: 'POST', body: JSON.stringify({ model: 'm', stream: true }) });
  const first = await (await ask('/v1/chat/completions')).text();
  assert.match(first, /"content":"one"/);
  assert.match(first, /\[DONE\]/);
  assert.equal((await ask('/v1/messages')).status, 429);
  assert.deepEqual(
    model.requests.map(({ api }) => api),
    ['chat', 'anthropic'],
  );
});

test('a scripted client opens a session of session RPC', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'handfast.yaml');
  writeFileSync(file, 'listen: ["tcp://127.0.0.1:0"]\n');
  const config = await loadConfig(file, { env: { HANDFAST_HOME: join(folder, 'home') } });
  await using server = await serve(config, { announce: false });
  const token = readFileSync(server.tokenFile!, 'utf8').trim();
  const client = new ScriptedPeer(await connectTcp(server.url!));
  const { result } = await client.handshake('session-rpc', { params: { token } });
  assert.ok(result.methods.includes('session.send'), JSON.stringify(result));
  client.send({ jsonrpc: '2.0', id: '7', method: 'session.nothing' });
  assert.equal((await client.reply('7')).error.code, -32601);
  await client.link.close();
});
