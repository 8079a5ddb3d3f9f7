/**
 * Links and requests have shares: a principal that has used up a share is refused with the overload error of each
 * dialect, and the others are served meanwhile. A real server with all three edges, and peers that write their own
 * bytes.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { WebSocket } from 'ws';
import { loadConfig } from '../../src/config/config.ts';
import { loadFleetConfig } from '../../src/config/fleet-config.ts';
import { connect } from '../../src/connect.ts';
import { connect as connectControl } from '../../src/control.ts';
import { serve } from '../../src/server/serve.ts';
import type { TrafficShare, TrafficUsage } from '../../src/session/traffic-shares.ts';
import { parseTcpAddress } from '../../src/transport/socket.ts';
import { ScriptedWorker } from '../fleet/support/scripted-worker.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';
import { dialHttp, dialSocket, dialWebSocket } from '../support/carriers.ts';
import type { Peer } from '../support/peer.ts';
import type { Message } from '../support/raw-agent.ts';

const ADMIN = 'the-token-of-an-administrator-here';
const tokenOf = (name: string): string => (name === 'root' ? ADMIN : `the-token-of-${name}-0123456789`);

/** Starts a server for `greedy`, which has these limits, `other`, which has those of the server, and an administrator. */
async function started(t: TestContext, limits: string, own = '') {
  const folder = temporaryFolder(t);
  const file = join(folder, 'handfast.yaml');
  const rights = "roles: [agent, client], fleet: { worker: ['*'] }";
  writeFileSync(
    file,
    `limits: { ${limits} }
auth:
  tokens:
    - { name: root, token: ${ADMIN}, admin: true }
    - { name: greedy, token: ${tokenOf('greedy')}, ${rights}${own === '' ? '' : `, limits: { ${own} }`} }
    - { name: other, token: ${tokenOf('other')}, ${rights} }
`,
  );
  writeFileSync(join(folder, 'notes.txt'), 'one line\n');
  writeFileSync(join(folder, 'fleet.yaml'), 'data_dir: data\njoin_grace_s: 3600\n');
  const surroundings = { cwd: folder, env: { HANDFAST_HOME: join(folder, 'home') } };
  const fleet = await loadFleetConfig('fleet.yaml', surroundings);
  const host = await loadConfig(file, surroundings);
  const listen = ['http://127.0.0.1:0', 'tcp://127.0.0.1:0', `unix://${join(folder, 'socket')}`];
  const config = {
    ...host,
    listen,
    workspace: folder,
    control: { ...host.control, dataDir: join(folder, 'sessions') },
  };
  const start = async () => {
    const server = await serve(config, { fleet, announce: false });
    const peers = new Set<Peer>();
    const stop = async (): Promise<void> => {
      for (const peer of peers) peer.cut();
      await server.close(0);
    };
    t.after(stop);
    const [http = '', tcp = ''] = server.listeners;
    const ws = http.replace('http', 'ws');
    const dials = {
      tcp: () => dialSocket(parseTcpAddress(tcp)),
      unix: () => dialSocket({ path: join(folder, 'socket') }),
      websocket: () => dialWebSocket(`${ws}/ws`),
      http: () => dialHttp(http),
      rpc: () => dialWebSocket(`${ws}/rpc`),
    };
    const dial = async (transport: keyof typeof dials): Promise<Peer> => {
      const peer = await dials[transport]();
      peers.add(peer);
      return peer;
    };
    return {
      url: http,
      tcp,
      stop,
      /** Returns an A2E link and the reply to its handshake. */
      async agent(name: string, transport: keyof typeof dials = 'tcp', resume?: object) {
        const peer = await dial(transport);
        const extensions = resume && { 'handfast/resume': resume };
        return { peer, reply: await peer.shake({ auth_token: tokenOf(name), ...(extensions && { extensions }) }) };
      },
      /** Returns a session RPC link and the reply to its handshake. */
      async client(name: string, transport: keyof typeof dials = 'rpc') {
        const peer = await dial(transport);
        peer.send({
          jsonrpc: '2.0',
          id: 'hs',
          method: 'rpc.handshake',
          params: { token: tokenOf(name), events: false },
        });
        return { peer, reply: await peer.next() };
      },
      /** Returns a fleet link and the reply to its announce. */
      async worker(name: string, agentId: string, transport: keyof typeof dials = 'websocket') {
        const announce = await new ScriptedWorker({ agentId }).announce();
        const peer = await dial(transport);
        peer.send({ ...announce, envelope: { token: tokenOf(name) } } as unknown as Message);
        return { peer, reply: await peer.next() };
      },
      /** Returns a principal's usage of a share, and the number of its refusals. */
      async usage(name: string, share: TrafficShare): Promise<{ used: number; refused: number }> {
        const response = await fetch(`${http}/status`, { headers: { authorization: `Bearer ${ADMIN}` } });
        const { shares } = (await response.json()) as { shares: Record<TrafficShare, TrafficUsage> };
        const { principals, refused_by } = shares[share];
        return { used: principals[name] ?? 0, refused: refused_by[name] ?? 0 };
      },
    };
  };
  return { start, ...(await start()) };
}

type Stand = Omit<Awaited<ReturnType<typeof started>>, 'start'>;
type Answer = { peer: Peer; reply: Message };

/** Waits for changes that other connections notice a moment later. */
async function until(done: () => Promise<boolean>, what: string): Promise<void> {
  for (const end = Date.now() + 60_000; !(await done()); ) {
    assert.ok(Date.now() < end, `waited too long for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const isWelcome = ({ reply }: Answer): boolean =>
  reply.ok === true || reply.result !== undefined || reply.type === 'SESSION_ACCEPT';

/** The ways in, with the refusal of a further link in each dialect. */
const ways: Record<
  string,
  { enter(stand: Stand, name: string, n: number): Promise<Answer>; refused(reply: Message): void }
> = Object.fromEntries([
  ...(['tcp', 'unix', 'websocket', 'http'] as const).map((transport) => [
    `A2E over ${transport}`,
    {
      enter: (stand: Stand, name: string) => stand.agent(name, transport),
      refused(reply: Message) {
        assert.deepEqual([reply.type, reply.ok, reply.reason], ['handshake/resp', false, 'server_error']);
        const { detail, retryable } = reply.error as Message;
        assert.equal(retryable, true);
        assert.deepEqual(detail, { reason: 'over_capacity', share: 'connections', limit: 4, retry_after_ms: 1_000 });
      },
    },
  ]),
  ...(['rpc', 'tcp'] as const).map((transport) => [
    `session RPC over ${transport}`,
    {
      enter: (stand: Stand, name: string) => stand.client(name, transport),
      refused(reply: Message) {
        const { code, data } = reply.error as { code: number; data: Message };
        assert.deepEqual(
          [code, data.kind, data.share, data.retry_after_ms],
          [-32001, 'over_capacity', 'connections', 1_000],
        );
      },
    },
  ]),
  ...(['websocket', 'unix'] as const).map((transport) => [
    `a fleet link over ${transport}`,
    {
      enter: (stand: Stand, name: string, n: number) => stand.worker(name, `${name}-${n}`, transport),
      refused(reply: Message) {
        assert.deepEqual([reply.type, reply.reason, reply.retry_after_s], ['SESSION_BYE', 'over_capacity', 1]);
      },
    },
  ]),
]);

test('links: a token at its share is refused on every edge and transport; the others enter, also after a restart', {
  timeout: 300_000,
}, async (t) => {
  const first = await started(t, 'max_connections_per_principal: 4');
  const attack = async (stand: Stand): Promise<Answer[]> => {
    const held = [
      await stand.agent('greedy'),
      await stand.client('greedy'),
      await stand.worker('greedy', 'greedy-a'),
      await stand.agent('greedy', 'http'),
    ];
    assert.ok(held.every(isWelcome));
    for (const [index, { enter, refused }] of Object.values(ways).entries()) {
      const { peer, reply } = await enter(stand, 'greedy', index);
      refused(reply);
      await peer.closed();
      const other = await enter(stand, 'other', index);
      assert.ok(isWelcome(other), JSON.stringify(other.reply));
      // An HTTP session outlives its connections.
      if (other.reply.type === 'handshake/resp') other.peer.send({ type: 'shutdown', id: 'end' });
      else other.peer.cut();
      await until(async () => (await stand.usage('other', 'connections')).used === 0, 'the link of the other to end');
    }
    assert.deepEqual(await stand.usage('greedy', 'connections'), { used: 4, refused: Object.keys(ways).length });
    return held;
  };
  const held = await attack(first);
  // A worker that connects again replaces its own link, and needs no further one.
  assert.ok(isWelcome(await first.worker('greedy', 'greedy-a')));
  held[1]?.peer.cut();
  await until(async () => (await first.usage('greedy', 'connections')).used === 3, 'the link to end');
  assert.ok(isWelcome(await first.agent('greedy')));
  await first.stop();
  const second = await first.start();
  await attack(second);
});

test('links: a session that lost its link is resumed when there is room; one that has it may replace it', {
  timeout: 120_000,
}, async (t) => {
  const stand = await started(t, 'max_connections_per_principal: 2');
  const first = await stand.agent('greedy', 'tcp', {});
  const session_id = first.reply.session_id as string;
  const resume = () => stand.agent('greedy', 'tcp', { session_id, cursor: 0 });
  const second = await stand.agent('greedy');
  const replaced = await resume();
  assert.equal(replaced.reply.session_id, session_id);
  await first.peer.closed();
  replaced.peer.cut();
  await until(async () => (await stand.usage('greedy', 'connections')).used === 1, 'the link to end');
  assert.ok(isWelcome(await stand.agent('greedy')));
  const { reply } = await resume();
  assert.deepEqual([reply.ok, reply.reason], [false, 'server_error']);
  second.peer.cut();
  await until(async () => (await stand.usage('greedy', 'connections')).used === 1, 'another link to end');
  assert.equal((await resume()).reply.session_id, session_id);
});

test('requests in flight: refused over all links of a token together; the others are served, and it is again', {
  timeout: 300_000,
}, async (t) => {
  const stand = await started(t, 'max_in_flight_per_principal: 5');
  const call = (id: string): Message => ({
    type: 'tool/call/req',
    id,
    tool_name: 'read_file',
    arguments: { path: 'notes.txt' },
  });
  const create = (id: string): Message => ({ jsonrpc: '2.0', id, method: 'session.create', params: {} });
  const agents = [await stand.agent('greedy'), await stand.agent('greedy', 'websocket')].map(({ peer }) => peer);
  const { peer: client } = await stand.client('greedy');
  const other = await stand.agent('other');
  const otherClient = await stand.client('other');
  const many = (message: (id: string) => Message): string =>
    Array.from({ length: 40 }, (_, at) => `${JSON.stringify(message(`m${at}`))}\n`).join('');
  for (const agent of agents) agent.write(many(call));
  client.write(many(create));
  other.peer.send(call('own'));
  assert.equal((await other.peer.answer('own')).type, 'tool/call/resp');
  otherClient.peer.send(create('own'));
  assert.notEqual((await otherClient.peer.next()).result, undefined);

  const refusals: Message[] = [];
  let served = 0;
  for (const agent of agents) {
    for (let at = 0; at < 40; at++) {
      const reply = await agent.next();
      if (reply.type === 'tool/call/resp') served++;
      else refusals.push(reply.detail as Message);
    }
  }
  for (let at = 0; at < 40; at++) {
    const { result, error } = (await client.next()) as { result?: unknown; error?: { code: number; data: Message } };
    if (result !== undefined) served++;
    else {
      assert.equal(error?.code, -32001);
      refusals.push(error?.data as Message);
    }
  }
  assert.ok(served >= 5 && refusals.length >= 40, `${served} served, ${refusals.length} refused`);
  for (const { share, limit, retry_after_ms } of refusals) {
    assert.deepEqual([share, limit, retry_after_ms], ['in_flight', 5, 100]);
  }
  assert.deepEqual(await stand.usage('greedy', 'in_flight'), { used: 0, refused: refusals.length });
  assert.equal((await stand.usage('other', 'in_flight')).refused, 0);
  agents[0]?.send(call('again'));
  assert.equal((await agents[0]?.answer('again'))?.type, 'tool/call/resp');
});

test('requests a second: refused with the time to wait, on A2E and session RPC; the others are served, and it is again', {
  timeout: 300_000,
}, async (t) => {
  const stand = await started(t, 'max_connections: 100', 'requests_per_second: 30');
  const list = (id: string): Message => ({ type: 'tool/list/req', id });
  const sessions = (id: string): Message => ({ jsonrpc: '2.0', id, method: 'session.list', params: {} });
  const { peer: agent } = await stand.agent('greedy');
  const { peer: client } = await stand.client('greedy');
  const other = await stand.agent('other');
  const otherClient = await stand.client('other');
  const root = await stand.agent('root');
  const many = (message: (id: string) => Message): string =>
    Array.from({ length: 200 }, (_, at) => `${JSON.stringify(message(`m${at}`))}\n`).join('');
  agent.write(many(list));
  client.write(many(sessions));
  // As many of others, which are all served.
  for (const { peer } of [other, root]) {
    peer.write(many(list));
    for (let at = 0; at < 200; at++) assert.equal((await peer.next()).type, 'tool/list/resp');
  }
  otherClient.peer.send(sessions('own'));
  assert.notEqual((await otherClient.peer.next()).result, undefined);
  const refusals: Message[] = [];
  for (let at = 0; at < 200; at++) {
    const reply = await agent.next();
    if (reply.type === 'error') refusals.push(reply.detail as Message);
    const { error } = (await client.next()) as { error?: { code: number; data: Message } };
    if (error !== undefined) refusals.push(error.data);
  }
  // The units of one to two seconds at once, plus those of the time on a slow machine.
  assert.ok(refusals.length >= 200, `${refusals.length} of 400 were refused`);
  for (const { share, limit, retry_after_ms } of refusals) {
    assert.deepEqual([share, limit], ['requests_per_second', 30]);
    assert.ok((retry_after_ms as number) >= 100);
  }
  assert.equal((await stand.usage('greedy', 'requests_per_second')).refused, refusals.length);
  assert.equal((await stand.usage('other', 'requests_per_second')).refused, 0);
  // A ping is not refused, and after the time in the refusal the token is served again.
  await agent.ping();
  await new Promise((resolve) => setTimeout(resolve, 500));
  agent.send(list('again'));
  assert.equal((await agent.answer('again')).type, 'tool/list/resp');
});

test('messages a second of a worker: its links are read later, nothing of it is lost, and other workers are heard', {
  timeout: 300_000,
}, async (t) => {
  const stand = await started(t, 'max_connections: 100', 'requests_per_second: 20');
  const greedy = await stand.worker('greedy', 'greedy-a');
  const agent = await stand.agent('greedy');
  const other = await stand.worker('other', 'other-a');
  const beat = (agent_id: string, seq: number): Message => ({
    type: 'SESSION_HEARTBEAT',
    protocol_version: '2.0',
    agent_id,
    incarnation: 'one',
    seq,
    active_tasks: 0,
  });
  const from = performance.now();
  greedy.peer.write(Array.from({ length: 100 }, (_, at) => `${JSON.stringify(beat('greedy-a', at))}\n`).join(''));
  await until(
    async () => (await stand.usage('greedy', 'requests_per_second')).refused > 0,
    'the links to be read later',
  );
  other.peer.send({ type: 'SESSION_BYE', protocol_version: '2.0', agent_id: 'other-a', reason: 'done' });
  await other.peer.closed();
  greedy.peer.send({ type: 'SESSION_BYE', protocol_version: '2.0', agent_id: 'greedy-a', reason: 'done' });
  await greedy.peer.closed();
  // 100 at 20 a second, of which two seconds' worth at once.
  assert.ok(performance.now() - from > 1_500, 'they were read at once');
  await agent.peer.ping();
});

test('bytes a second: a throttled link is alive at both ends, its call is answered, and others are not delayed', {
  timeout: 300_000,
}, async (t) => {
  const limits = 'liveness_timeout_ms: 1000';
  const stand = await started(t, limits, 'bytes_per_second: 65536');
  for (const address of [stand.tcp, stand.url, `${stand.url.replace('http', 'ws')}/ws`]) {
    const states: string[] = [];
    const agent = await connect(address, {
      capabilities: ['tools'],
      token: tokenOf('greedy'),
      reconnect: { livenessTimeoutMs: 1_000 },
      onState: ({ state }) => void states.push(state),
    });
    const from = performance.now();
    const text = 'x'.repeat(80_000);
    const calls = [1, 2, 3, 4].map(() => agent.tools.call('read_file', { path: 'notes.txt', text }).catch(() => {}));
    const other = await stand.agent('other');
    await other.peer.ping();
    assert.equal((await stand.usage('other', 'bytes_per_second')).refused, 0);
    await Promise.all(calls);
    // 320,000 bytes at 65,536 a second, of which two seconds' worth at most at once.
    assert.ok(performance.now() - from > 1_200, `${address}: they were read at once`);
    assert.deepEqual(states, ['open'], address);
    await agent.tools.call('read_file', { path: 'notes.txt' });
    await agent.close();
    other.peer.cut();
  }
  const control = await connectControl(stand.url, {
    token: tokenOf('greedy'),
    reconnect: { livenessTimeoutMs: 1_000 },
  });
  const from = performance.now();
  // The second is read when the first is paid for.
  for (const size of [250_000, 1]) await control.call('system.ping', { text: 'x'.repeat(size) });
  assert.ok(performance.now() - from > 1_200, 'it was read at once');
  assert.equal(control.state, 'open');
  await control.close();
  assert.ok((await stand.usage('greedy', 'bytes_per_second')).refused > 0);
});

test('bytes of incomplete messages: links that only begin messages end at the share of their token', {
  timeout: 120_000,
}, async (t) => {
  const stand = await started(t, 'max_connections: 100', 'receive_buffer_bytes: 1048576');
  const begun = 'x'.repeat(300_000);
  const peers: Peer[] = [];
  for (const transport of ['tcp', 'unix', 'tcp', 'unix'] as const) {
    peers.push((await stand.client('greedy', transport)).peer);
  }
  // The first part of a WebSocket message, never followed by the rest.
  const socket = new WebSocket(`${stand.url.replace('http', 'ws')}/rpc`, { perMessageDeflate: false });
  const closed = new Promise<void>((resolve) => socket.on('error', () => {}).on('close', () => resolve()));
  await new Promise((resolve) => socket.once('open', resolve));
  socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'rpc.handshake', params: { token: tokenOf('greedy') } }));
  await new Promise((resolve) => socket.once('message', resolve));
  const other = await stand.client('other', 'tcp');
  for (const peer of peers) peer.write(begun);
  const ended = () => peers.filter(({ over }) => over).length;
  await until(async () => ended() > 0, 'a link to end');
  await until(
    async () => (await stand.usage('greedy', 'receive_buffer_bytes')).used > 600_000,
    'the bytes to be counted',
  );
  socket.send(Buffer.alloc(900_000), { fin: false });
  await closed;
  assert.equal(ended(), 1);
  const { used, refused } = await stand.usage('greedy', 'receive_buffer_bytes');
  assert.deepEqual([used <= 1_048_576, refused], [true, 2]);
  // A message of another token that is as long is read.
  other.peer.write(`{"jsonrpc":"2.0","id":1,"method":"system.ping","params":{"text":"${'x'.repeat(900_000)}"}}\n`);
  assert.notEqual((await other.peer.next()).result, undefined);
  for (const peer of peers) peer.cut();
  await until(async () => (await stand.usage('greedy', 'receive_buffer_bytes')).used === 0, 'the bytes to be released');
});

test('requests over HTTP without a link count too: 429 with Retry-After, and others are answered', {
  timeout: 120_000,
}, async (t) => {
  const stand = await started(t, 'max_connections: 100', 'requests_per_second: 20');
  const ask = (name: string): Promise<Response> =>
    fetch(`${stand.url}/sessions`, { headers: { authorization: `Bearer ${tokenOf(name)}` } });
  const statuses = await Promise.all(Array.from({ length: 100 }, async () => (await ask('greedy')).status));
  assert.ok(statuses.filter((status) => status === 429).length >= 20, statuses.join());
  const refused = await ask('greedy');
  if (refused.status === 429) {
    assert.ok(Number(refused.headers.get('retry-after')) >= 1);
    const { error } = (await refused.json()) as { error: { code: string; retry_after_ms: number } };
    assert.equal(error.code, 'over_capacity');
    assert.ok(error.retry_after_ms >= 100);
  }
  assert.equal((await ask('other')).status, 200);
  await new Promise((resolve) => setTimeout(resolve, 500));
  assert.equal((await ask('greedy')).status, 200);
});
