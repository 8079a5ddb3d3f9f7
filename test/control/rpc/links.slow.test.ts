/** Session RPC on listeners: beside A2E on one port, on `/rpc`, with and without tokens, and with readers that stop. */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { createRpcServer, type RpcServerOptions } from '../../../src/control/rpc/rpc-server.ts';
import { createHost, type HostOptions } from '../../../src/host/host.ts';
import { httpServer } from '../../../src/server/http/http.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import type { Link } from '../../../src/transport/link.ts';
import { memoryPair } from '../../../src/transport/memory.ts';
import { connectTcp, listenTcp, parseTcpAddress } from '../../../src/transport/socket.ts';
import { connectWebSocket, webSocketAcceptor } from '../../../src/transport/websocket.ts';
import { within } from '../../contract/recorder.ts';
import { dialSocket } from '../../support/carriers.ts';
import type { Peer } from '../../support/peer.ts';
import { fakeControl, testMethods } from './fake-control.ts';
import { RpcPeer } from './rpc-peer.ts';

const TOKEN = 'canary-90d1c7-token';
const closing: (() => unknown)[] = [];
after(async () => {
  for (const close of closing.reverse()) await close();
});

const auth = () => createAuthenticator([{ principal: { name: 'ann', admin: true }, digests: [tokenDigest(TOKEN)] }]);

/** Starts a host with both edges on one TCP port, and `/rpc` beside `/ws` on an HTTP port. */
async function served(options: RpcServerOptions = {}, hostOptions: Partial<HostOptions> = {}) {
  const control = fakeControl();
  const server = createRpcServer(control, options);
  const host = createHost({ plugins: [], auth: options.auth, dialects: [server.dialect], ...hostOptions });
  await host.start();
  const links: Link[] = [];
  const accept = (link: Link): void => {
    links.push(link);
    host.accept(link);
  };
  const tcp = await listenTcp({ port: 0 }, accept);
  const http = await httpServer({
    webSocket: webSocketAcceptor(),
    accept,
    rpc: { webSocket: webSocketAcceptor({ maxMessageBytes: 32 * 1024 * 1024 }), accept: (link) => server.accept(link) },
  });
  closing.push(async () => {
    await server.stop('the test is over');
    await Promise.all([tcp.close(), http.close(), host.close(0)]);
  });
  const ws = http.address.replace(/^http/, 'ws');
  const dial = {
    tcp: async () => new RpcPeer(await connectTcp(tcp.address)),
    ws: async () => new RpcPeer(await connectWebSocket(`${ws}/ws`)),
    rpc: async () => new RpcPeer(await connectWebSocket(`${ws}/rpc`)),
  };
  const raw = () => dialSocket(parseTcpAddress(tcp.address));
  return { control, server, dial, raw, links };
}

const errorOf = (message: unknown) => (message as { error: { code: number; data: Record<string, unknown> } }).error;
const line = (message: unknown): string => `${JSON.stringify(message)}\n`;

describe('session RPC beside A2E', () => {
  test('one port serves both, by the first message; /rpc serves session RPC', async () => {
    const { dial, raw, server } = await served();
    for (const name of ['tcp', 'ws', 'rpc'] as const) {
      const peer = await dial[name]();
      assert.deepEqual(await peer.call(testMethods.echo, { text: name }), { text: name });
      const { clients } = (await peer.call('system.clients')) as { clients: { transport: string }[] };
      assert.equal(clients.at(-1)?.transport, name === 'tcp' ? 'tcp' : 'websocket');
      await peer.close();
    }
    const agent = await raw();
    agent.send({ type: 'ping', id: '1' });
    assert.equal((await agent.next()).type, 'pong');
    agent.end();
    assert.equal(server.size, 0);
  });

  test('a first message that was cut into bytes, with an id JavaScript cannot hold, is answered', async () => {
    const { raw } = await served();
    const peer = await raw();
    const text = '{"jsonrpc":"2.0","id":12345678901234567890,"method":"system.ping"}\n';
    for (const character of text) {
      peer.write(character);
      await new Promise(setImmediate);
    }
    await peer.next();
    assert.match(peer.lines[0] ?? '', /"id":12345678901234567890,/);
  });

  test('returns that end lines are found inside the lines of a byte stream', async () => {
    const { raw } = await served();
    const peer = await raw();
    const ping = (id: number) => JSON.stringify({ jsonrpc: '2.0', id, method: 'system.ping' });
    peer.write(`${ping(1)}\n${ping(2)}\r${ping(3)}\r\r\n`);
    for (const id of [1, 2, 3]) assert.equal((await peer.next()).id, id);
  });

  test('/rpc answers what is no JSON-RPC in its own words, also as the first message', async () => {
    for (const options of [{}, { auth: auth() }]) {
      const { dial } = await served(options);
      for (const [text, code] of [
        ['{"type":"ping","id":"1"}', -32600],
        ['[]', -32600],
        ['{', -32700],
      ] as const) {
        const peer = await dial.rpc();
        peer.send(text);
        assert.equal((await peer.answer(null)).error?.code, code);
      }
    }
  });

  test('events of a session reach clients of all links', async () => {
    const { control, dial } = await served();
    const peers = await Promise.all([dial.tcp(), dial.ws(), dial.rpc()]);
    await Promise.all(peers.map((peer) => peer.quiet()));
    control.events.open('s');
    await peers[0]?.call(testMethods.emit, { session_id: 's', count: 3 });
    for (const peer of peers) {
      await peer.until('s', 3);
      assert.deepEqual(peer.seqs('s'), [1, 2, 3]);
    }
  });
});

describe('weakness 1: a handshake that must come', () => {
  test('without a token, everything else is refused until it came, and no event leaves', async () => {
    const { control, dial } = await served({ requireHandshake: true });
    control.events.open('s');
    for (const name of ['tcp', 'rpc'] as const) {
      const peer = await dial[name]();
      await peer.quiet();
      const refused = await peer.refusal(testMethods.echo, { text: 'x' });
      assert.deepEqual(
        [refused.code, refused.data.reason, refused.data.kind],
        [-32002, 'handshake_required', 'handshake_required'],
      );
      assert.equal((await peer.refusal('no.such.method')).code, -32002);
      control.events.publish('s', 'session.status');
      await peer.call('rpc.handshake');
      assert.deepEqual(await peer.call(testMethods.echo, { text: 'x' }), { text: 'x' });
      assert.deepEqual(peer.events, []);
      control.events.publish('s', 'session.status');
      await peer.until('s', 1);
    }
  });

  test('a strict one of another version does not count', async () => {
    const { dial } = await served({ requireHandshake: true });
    const peer = await dial.rpc();
    const { code, data } = await peer.refusal('rpc.handshake', { protocol_version: '2.0.0', strict: true });
    assert.deepEqual([code, data.reason, data.supported], [-32602, 'unsupported_protocol_version', '1.0.0']);
    assert.equal((await peer.refusal(testMethods.echo, { text: 'x' })).code, -32002);
  });
});

describe('a listener that asks for a token', () => {
  test('takes who has it, by name, and sends nothing before the answer', async () => {
    const { control, dial } = await served({ auth: auth(), serverName: 'test server' });
    for (const name of ['tcp', 'ws', 'rpc'] as const) {
      const peer = await dial[name]();
      control.events.publish('', 'state.changed');
      const answer = await peer.call('rpc.handshake', { token: TOKEN, client_name: 'demo' });
      assert.deepEqual([answer.principal, answer.server_name], ['ann', 'test server']);
      assert.deepEqual(await peer.call(testMethods.echo, { text: name }), { text: name });
      assert.deepEqual(peer.events, []);
    }
  });

  test('weakness 26: refuses everybody else, and ends the connection', async () => {
    const tries = {
      tcp: [undefined, 'wrong', 7, [TOKEN], `${TOKEN}\u0000`],
      ws: ['', TOKEN.toUpperCase()],
      rpc: [TOKEN.slice(0, -1), { token: TOKEN }],
    };
    for (const name of ['tcp', 'ws', 'rpc'] as const) {
      const { control, dial, server } = await served({ auth: auth() });
      for (const token of tries[name]) {
        const peer = await dial[name]();
        const { code, message, data } = await peer.refusal('rpc.handshake', { token });
        assert.deepEqual([code, data.reason, data.kind], [-32003, 'auth_failed', 'auth_failed']);
        assert.equal(message, 'the token is missing or wrong');
        await peer.recorder.end();
      }
      assert.equal(server.size, 0);
      assert.doesNotMatch(JSON.stringify(control.logged), /canary/);
    }
  });

  test('answers pings before the handshake, and nothing else', async () => {
    const { dial } = await served({ auth: auth() });
    for (const name of ['tcp', 'rpc'] as const) {
      const pinging = await dial[name]();
      await pinging.quiet();
      await pinging.quiet();
      assert.equal((await pinging.call('rpc.handshake', { token: TOKEN })).principal, 'ann');

      const hasty = await dial[name]();
      const id = hasty.begin(testMethods.echo, { text: 'x' });
      hasty.begin('rpc.handshake', { token: TOKEN });
      assert.equal((await hasty.answer(id)).error?.code, -32002);
      await hasty.recorder.end();
      assert.equal(hasty.messages.length, 1);
    }
  });

  test('lets a client try another version, and ends one that does nothing but try', async () => {
    const { dial } = await served({ auth: auth() });
    const peer = await dial.tcp();
    assert.equal((await peer.refusal('rpc.handshake', { protocol_version: '9', strict: true })).code, -32602);
    assert.equal((await peer.refusal('rpc.handshake', { protocol_version: 9 })).data.field, 'protocol_version');
    await peer.call('rpc.handshake', { token: TOKEN });

    const pinging = await dial.tcp();
    for (let at = 0; at < 20; at++) pinging.begin('system.ping');
    await pinging.recorder.end();
    assert.equal(pinging.messages.length, 16);
    const silent = await dial.tcp();
    for (let at = 0; at < 20; at++) silent.send({ jsonrpc: '2.0', method: 'rpc.handshake', params: { token: TOKEN } });
    await silent.recorder.end();
    assert.equal(silent.messages.length, 0);
  });

  test('slows guessing down, and takes the right token through it', async () => {
    const { dial } = await served({ auth: auth() });
    for (let at = 0; at < 6; at++) await (await dial.rpc()).refusal('rpc.handshake', { token: 'guess' });
    const guess = await dial.rpc();
    const before = performance.now();
    await guess.refusal('rpc.handshake', { token: 'guess' });
    assert.ok(performance.now() - before >= 200, 'the refusal was not delayed');
    assert.equal((await (await dial.rpc()).call('rpc.handshake', { token: TOKEN })).principal, 'ann');
  });

  test('ends a link that never sends a handshake', async () => {
    const { dial } = await served({ auth: auth(), limits: { handshakeTimeoutMs: 60 } });
    const peer = await dial.rpc();
    await peer.recorder.end();
    assert.equal(peer.messages.length, 0);
  });

  test('in memory too, the token of the first handshake decides for good', async () => {
    const control = fakeControl();
    const server = createRpcServer(control, { auth: auth() });
    const [ours, theirs] = memoryPair();
    server.accept(theirs);
    const peer = new RpcPeer(ours);
    assert.equal((await peer.call('rpc.handshake', { token: TOKEN })).principal, 'ann');
    assert.equal((await peer.call('rpc.handshake', { token: 'guess' })).principal, 'ann');
  });
});

describe('weakness 18: a reader that stops on a real socket', () => {
  const EVENTS = 4_000;
  const PAD = 'x'.repeat(4_096);

  /** Stops reading, has events made until its link is full, and says how much waited at most. */
  async function flooded(options: RpcServerOptions, params: object | undefined) {
    const { control, dial, raw, links, server } = await served(options);
    control.events.open('s');
    const peer = await raw();
    if (params !== undefined) {
      peer.write(line({ jsonrpc: '2.0', id: 1, method: 'events.subscribe', params }));
    } else peer.write(line({ jsonrpc: '2.0', id: 1, method: 'system.ping' }));
    await peer.next();
    peer.carrier.pause?.(true);
    const link = links[0] as Link;
    let most = 0;
    for (let at = 0; at < EVENTS; at++) {
      control.events.publish('s', 'session.stream.chunk', { at, pad: PAD });
      if (at % 50 === 0) await new Promise(setImmediate);
      most = Math.max(most, link.buffered);
    }
    return { control, dial, peer, most, server };
  }

  const seqsOf = (peer: Peer) => peer.messages.flatMap(({ params }) => (params?.seq as number | undefined) ?? []);

  test('a subscription is fed from the journal when it reads on, without a hole', async () => {
    const { dial, peer, most } = await flooded({}, { session_id: 's' });
    assert.ok(most < 512 * 1024, `${most} bytes waited`);
    // Others are served meanwhile.
    await (await dial.tcp()).quiet();
    peer.carrier.pause?.(false);
    await peer.until(() => seqsOf(peer).at(-1) === EVENTS, 'the last event');
    assert.deepEqual(
      seqsOf(peer),
      Array.from({ length: EVENTS }, (_, at) => at + 1),
    );
  });

  test('a client without one is dropped after its grace, and the server stays within its bound', async () => {
    const limits = { sendBufferBytes: 1024 * 1024, maxSendBufferBytes: 2 * 1024 * 1024, slowConsumerMs: 50 };
    const { peer, most, server, dial } = await flooded({ limits }, undefined);
    assert.ok(most < 3 * 1024 * 1024 + 2 * PAD.length, `${most} bytes waited`);
    await within(
      (async () => {
        while (server.size > 0) await new Promise((resolve) => setTimeout(resolve, 5));
      })(),
      'the client to be dropped',
    );
    peer.cut();
    await (await dial.tcp()).quiet();
  });

  test('many requests whose replies are not read stop being read, or run', async () => {
    const limits = { sendBufferBytes: 256 * 1024, maxSendBufferBytes: 512 * 1024 };
    const { raw, links } = await served({ limits });
    const peer = await raw();
    const text = 'y'.repeat(16 * 1024);
    peer.write(line({ jsonrpc: '2.0', id: 0, method: testMethods.echo.name, params: { text } }));
    await peer.next();
    peer.carrier.pause?.(true);
    for (let id = 1; id <= 1_000; id++) {
      peer.write(line({ jsonrpc: '2.0', id, method: testMethods.echo.name, params: { text } }));
      if (id % 20 === 0) await new Promise(setImmediate);
    }
    assert.ok((links[0] as Link).buffered < 1024 * 1024, `${links[0]?.buffered} bytes waited`);
    peer.carrier.pause?.(false);
    await peer.until(() => peer.messages.length === 1_001, 'all answers');
    const refused = peer.messages.filter((message) => message.error !== undefined);
    assert.ok(refused.every((message) => errorOf(message).data.kind === 'over_capacity'));
  });
});
