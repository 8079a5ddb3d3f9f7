/**
 * Particulars of stream links: the right to join, identities, and the end and the new start of a session.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Acceptor, type Dialect } from '../../../src/connection/accept.ts';
import type { StateChange } from '../../../src/connection/reconnect.ts';
import type { WorkerPort } from '../../../src/fleet/bus/reply-channel.ts';
import { type Joined, type JoinOptions, joinOverLink, workerOverStdio } from '../../../src/fleet/bus/stream/join.ts';
import { type StreamBus, type StreamBusOptions, streamBus } from '../../../src/fleet/bus/stream/stream-bus.ts';
import { fleetMessage } from '../../../src/fleet/messages/encode.ts';
import type { FleetMessage } from '../../../src/protocol/fleet.ts';
import { createAuthenticator, localGrant, tokenDigest } from '../../../src/session/auth.ts';
import { principalWith } from '../../../src/session/roles.ts';
import type { Link, Message } from '../../../src/transport/link.ts';
import { memoryPair } from '../../../src/transport/memory.ts';
import { connectTcp, listenTcp } from '../../../src/transport/socket.ts';
import { Recorder, turns, within } from '../../contract/recorder.ts';
import { aDispatch } from '../bus-contract.ts';
import { PeerRecorder } from '../support/peer-recorder.ts';
import { ScriptedWorker } from '../support/scripted-worker.ts';
import { linkKinds, quiet } from '../support/stream-links.ts';

const structured = { mode: 'structured' } as const;
const LOCAL = 'local-token-0123456789';
const REMOTE = 'remote-token-0123456789';
const auth = createAuthenticator([
  localGrant(LOCAL),
  { principal: principalWith('builder', ['worker']), digests: [tokenDigest(REMOTE)] },
]);

interface Site {
  readonly bus: StreamBus;
  readonly events: PeerRecorder;
  /** Opens a pair of links, the far one accepted by the bus. */
  dial(): Promise<Link>;
  join(worker: WorkerPort, options?: Partial<JoinOptions>): Joined;
  /** Sends a first message by hand and returns the replies. */
  greet(message: unknown): Promise<Recorder>;
}

async function site(context: TestContext, options: Partial<StreamBusOptions> = {}): Promise<Site> {
  const events = new PeerRecorder();
  const bus = streamBus({ name: 'orchestrator', log: quiet, ...options });
  await bus.start(events);
  const joined: Joined[] = [];
  const links: Link[] = [];
  const dial = async (): Promise<Link> => {
    const [client, server] = memoryPair();
    links.push(client);
    bus.accept(server);
    return client;
  };
  context.after(async () => {
    await Promise.all(joined.map((membership) => membership.close()));
    for (const link of links) link.destroy();
    await bus.close();
  });
  return {
    bus,
    events,
    dial,
    join(worker, more) {
      const membership = joinOverLink(worker, dial, {
        log: quiet,
        reconnect: { backoff: { firstDelayMs: 1, maxDelayMs: 5 } },
        ...more,
      });
      joined.push(membership);
      return membership;
    },
    async greet(message) {
      const link = await dial();
      const recorder = Recorder.closing(link);
      link.send(message as Message);
      return recorder;
    },
  };
}

async function announce(worker: ScriptedWorker, token?: string): Promise<FleetMessage> {
  const message = await worker.announce();
  return token === undefined ? message : { ...message, envelope: { token } };
}

/** Returns the reason of the goodbye that ended a link. */
async function farewell(recorder: Recorder): Promise<unknown> {
  await recorder.end();
  const last = recorder.messages.at(-1);
  assert.equal(last?.type, 'SESSION_BYE');
  return last?.reason;
}

test('the worker of this user has the name it gives; all others have the name of their token', async (context) => {
  const { events, join } = await site(context, { auth });
  join(new ScriptedWorker({ agentId: 'codex-1' }), { token: () => LOCAL });
  join(new ScriptedWorker({ agentId: 'somebody-important' }), { token: async () => REMOTE });
  await events.peer('codex-1');
  await events.peer('builder');
  assert.deepEqual([...events.peers.keys()].sort(), ['builder', 'codex-1']);
  const claims = events.of('SESSION_ANNOUNCE').map(({ agent_id }) => agent_id);
  assert.deepEqual(claims.sort(), ['codex-1', 'somebody-important']);
});

test('the token is in nothing the orchestrator hears', async (context) => {
  const { events, join } = await site(context, { auth });
  join(new ScriptedWorker({ agentId: 'codex-1' }), { token: () => LOCAL });
  await events.peer('codex-1');
  assert.equal(JSON.stringify(events.heard).includes(LOCAL), false);
});

for (const [what, token] of [
  ['a wrong token', 'wrong-token-0123456789'],
  ['a missing token', undefined],
  ['an empty token', ''],
] as const) {
  test(`${what} is answered with a goodbye and the end of the link`, async (context) => {
    const { events, greet } = await site(context, { auth });
    assert.equal(await farewell(await greet(await announce(new ScriptedWorker(), token))), 'auth_failed');
    assert.deepEqual(events.comings, []);
  });
}

test('a worker that was refused for its token reads it again before the next try', async (context) => {
  const { events, join } = await site(context, { auth });
  const tokens = ['old-token-0123456789', LOCAL];
  join(new ScriptedWorker({ agentId: 'codex-1' }), { token: () => tokens.shift() });
  await events.peer('codex-1');
  assert.deepEqual(tokens, []);
});

test('before the announce nothing but an announce is taken', async (context) => {
  const { events, greet } = await site(context);
  const result = fleetMessage('TASK_RESULT', { task_id: 't-1', status: 'done' });
  assert.equal(await farewell(await greet(result)), 'announce_required');
  assert.equal(await farewell(await greet({ type: 'ping', id: '1' })), 'announce_required');
  assert.equal(await farewell(await greet({ jsonrpc: '2.0', id: 1, method: 'ping' })), 'announce_required');
  assert.deepEqual(events.heard, []);
});

test('an announce of another major version, or one that is not valid, is refused with the reason', async (context) => {
  const { greet } = await site(context);
  const good = await announce(new ScriptedWorker());
  assert.equal(await farewell(await greet({ ...good, protocol_version: '3.0' })), 'unsupported_version');
  const reason = await farewell(await greet({ ...good, worker: { agent_id: 'with a blank' } }));
  assert.match(String(reason), /^invalid_announce: E_FORMAT \/worker\/agent_id/);
});

test('a link that says nothing is closed after the time for the handshake', async (context) => {
  const { dial } = await site(context, { handshakeTimeoutMs: 30 });
  await Recorder.closing(await dial()).end();
});

for (const kind of linkKinds) {
  test(`on a listener of the host, workers come in beside everybody else: ${kind.name}`, async (context) => {
    const { bus, events } = await site(context);
    const greeted = Promise.withResolvers<unknown>();
    const a2e: Dialect = { speaks: () => true, onMessage: greeted.resolve, malformed: () => {} };
    const limits = { handshakeTimeoutMs: 60_000, maxPending: 10, maxDepth: 64, maxMessageBytes: 1024 * 1024 };
    const acceptor = new Acceptor([a2e, bus.dialect], limits);
    const listener = await kind.listen((link) => acceptor.accept(link));
    const membership = joinOverLink(new ScriptedWorker(), () => listener.dial(), { log: quiet });
    await events.peer('worker-1');
    const other = await listener.dial();
    const recorder = Recorder.on(other);
    const request = { type: 'handshake/req', id: 'a' };
    other.send(other.text ? JSON.stringify(request) : request);
    assert.deepEqual(await within(greeted.promise, 'the other dialect to be greeted'), request);
    other.destroy();
    await recorder.end();
    await membership.close();
    acceptor.close();
    await listener.close();
  });
}

test('a second link of a worker replaces the first, whose end is not reported', async (context) => {
  const { events, greet } = await site(context);
  const worker = new ScriptedWorker();
  const first = await greet(await announce(worker));
  await events.peer('worker-1');
  await greet(await announce(worker));
  assert.equal(await farewell(first), 'superseded');
  await events.until(() => events.of('SESSION_ANNOUNCE').length === 2, 'the second announce');
  assert.deepEqual(events.comings, ['joined worker-1', 'joined worker-1']);
  assert.equal(events.peers.get('worker-1')?.reachable, true);
});

test('a process whose name another one has taken stays away', async (context) => {
  const { events, join } = await site(context);
  const first = join(new ScriptedWorker({ incarnation: 'life-1' }));
  await events.peer('worker-1');
  join(new ScriptedWorker({ incarnation: 'life-2' }));
  const ended = await within(first.closed, 'the first to give up');
  assert.equal(ended?.code, 'superseded');
  assert.equal(first.connected, false);
  assert.equal(events.of('SESSION_ANNOUNCE').at(-1)?.incarnation, 'life-2');
});

test('invalid messages are counted, and the session continues', async () => {
  const events = new PeerRecorder();
  const bus = streamBus({ name: 'orchestrator', log: quiet });
  await bus.start(events);
  const listener = await listenTcp({ port: 0 }, (link) => bus.accept(link));
  const link = await connectTcp(listener.address);
  const recorder = Recorder.closing(link);
  link.send(JSON.stringify(await announce(new ScriptedWorker())));
  await events.peer('worker-1');
  const bad = [
    'no JSON at all',
    '[]',
    '"text"',
    '{"type":"TASK_RESULT","protocol_version":"2.0","task_id":"t","status":"done","status":"error"}',
    '{"type":"TASK_RESULT","protocol_version":"2.0","task_id":"t"}',
    '{"type":"TASK_RESULT","protocol_version":"2.0","__proto__":{},"task_id":"t","status":"done"}',
    '{"type":"NO_SUCH_TYPE","protocol_version":"2.0"}',
    '{"type":"TASK_CANCEL","protocol_version":"2.0","task_id":"t"}',
    '{"type":"TASK_DISPATCH","protocol_version":"2.0","task":{"task_id":"t"},"brief":"do"}',
    `${'['.repeat(5_000)}`,
  ];
  for (const line of bad) link.send(line);
  link.send(`{"type":"TASK_RESULT","note":"${'x'.repeat(1024 * 1024)}"}`);
  link.send(JSON.stringify(fleetMessage('TASK_PROGRESS', { task_id: 't', seq: 1, phase: 'running' })));
  await events.until(() => events.of('TASK_PROGRESS').length === 1, 'the message behind all that');
  assert.equal(events.oddities.length, bad.length + 1);
  assert.deepEqual(events.oddities[3], ['E_DUP_KEY']);
  assert.deepEqual(events.oddities[5], ['E_RESERVED_KEY']);
  assert.deepEqual(events.oddities.at(-1), ['E_LIMIT']);
  assert.equal(events.results().length, 0);
  assert.equal(recorder.causes.length, 0);
  await bus.close();
  await recorder.end();
  await listener.close();
});

test('a worker answers a malformed dispatch that names its task, counts the rest, and continues', async () => {
  const [client, server] = memoryPair();
  const worker = new ScriptedWorker();
  const recorder = Recorder.on(server);
  const served = workerOverStdio(worker, client, { log: quiet });
  await recorder.count(1);
  server.send({ ...fleetMessage('SESSION_ACCEPT', terms) });
  for (const bad of [{}, { type: 'TASK_DISPATCH' }, { type: 'SESSION_ANNOUNCE', protocol_version: '2.0' }, []]) {
    server.send(bad as Message);
  }
  server.send({ ...aDispatch('t-1'), protocol_version: '3.0' });
  server.send({ ...fleetMessage('TASK_POLL', { task_id: 't-9' }) });
  await recorder.until(() => recorder.messages.some(({ type }) => type === 'TASK_ACK'), 'the answer to the poll');
  const results = recorder.messages.filter(({ type }) => type === 'TASK_RESULT');
  assert.deepEqual(
    results.map(({ task_id, status }) => [task_id, status]),
    [['t-1', 'blocked']],
  );
  assert.deepEqual(worker.begun, []);
  await server.close();
  await served;
});

const terms = { peer_id: 'worker-1', features: ['ack', 'progress'], heartbeat_s: 15, lease_ttl_s: 45 };

test('the worker takes nothing before its announce was accepted', async () => {
  const [client, server] = memoryPair();
  const worker = new ScriptedWorker();
  const recorder = Recorder.on(server);
  const served = workerOverStdio(worker, client, { log: quiet });
  await recorder.count(1);
  server.send({ ...aDispatch('t-1') });
  await assert.rejects(served, { code: 'connection_lost' });
  assert.deepEqual(worker.begun, []);
});

test('only what the orchestrator has a feature for is sent to it', async () => {
  const [client, server] = memoryPair();
  const worker = new ScriptedWorker({ byHand: true });
  const recorder = Recorder.on(server);
  const served = workerOverStdio(worker, client, { log: quiet });
  await recorder.count(1);
  server.send({ ...fleetMessage('SESSION_ACCEPT', { ...terms, features: [] }) });
  server.send({ ...aDispatch('t-1') });
  await worker.until(() => worker.begun.length === 1, 'the task to begin');
  worker.tell(fleetMessage('TASK_PROGRESS', { task_id: 't-1', seq: 1, phase: 'running' }));
  worker.finish('t-1');
  await recorder.until(() => recorder.messages.some(({ type }) => type === 'TASK_RESULT'), 'the result');
  assert.deepEqual(
    recorder.messages.map(({ type }) => type),
    ['SESSION_ANNOUNCE', 'TASK_RESULT'],
  );
  // No peer will confirm it, so that it was sent from here is all there can be.
  await worker.until(() => worker.outbox.length === 0, 'the outbox to be empty');
  await server.close();
  await served;
});

/** Opens a listener of the bus, and a link to it. */
async function dialTcp(context: TestContext, bus: StreamBus): Promise<Link> {
  const listener = await listenTcp({ port: 0 }, (link) => bus.accept(link));
  const link = await connectTcp(listener.address);
  context.after(async () => {
    link.destroy();
    await listener.close();
  });
  return link;
}

test('a worker that falls silent has left after three heartbeats', async (context) => {
  const { bus, events } = await site(context, { heartbeatS: 0.02 });
  const link = await dialTcp(context, bus);
  const recorder = Recorder.on(link);
  link.send(JSON.stringify(await announce(new ScriptedWorker())));
  await events.peer('worker-1');
  await events.until(() => events.comings.length === 2, 'the end');
  assert.deepEqual(events.comings, ['joined worker-1', 'left worker-1: the peer was silent for 60 ms']);
  assert.ok(recorder.messages.some(({ type }) => type === 'SESSION_HEARTBEAT'));
});

test('a worker that promised no heartbeats may be silent', async (context) => {
  const { bus, events, join } = await site(context, { heartbeatS: 0.01 });
  const link = await dialTcp(context, bus);
  const recorder = Recorder.on(link);
  link.send(JSON.stringify(await announce(new ScriptedWorker({ features: ['ack'] }))));
  join(new ScriptedWorker({ agentId: 'other', features: ['heartbeat', 'accept'] }));
  // Far more than its bound.
  await events.until(() => events.of('SESSION_HEARTBEAT').length > 12, 'heartbeats of the other');
  assert.equal(events.peers.has('worker-1'), true);
  assert.equal(recorder.messages.length, 0);
});

test('a worker whose orchestrator falls silent dials again', async (context) => {
  const worker = new ScriptedWorker();
  const links = [Promise.withResolvers<Recorder>(), Promise.withResolvers<Recorder>()] as const;
  let accepted = 0;
  const listener = await listenTcp({ port: 0 }, (link) => {
    links[accepted++]?.resolve(Recorder.on(link));
    link.send(JSON.stringify(fleetMessage('SESSION_ACCEPT', { ...terms, features: ['heartbeat'], heartbeat_s: 0.02 })));
  });
  const changes: StateChange[] = [];
  const membership = joinOverLink(worker, () => connectTcp(listener.address), {
    log: quiet,
    reconnect: { livenessTimeoutMs: 10 },
    onState: (change) => {
      changes.push(change);
    },
  });
  context.after(async () => {
    await membership.close();
    await listener.close();
  });
  const first = await within(links[0].promise, 'a link');
  await within(links[1].promise, 'another link');
  assert.ok(first.messages.some(({ type }) => type === 'SESSION_HEARTBEAT'));
  const [, lost] = changes;
  // Its own setting is below the heartbeats that were agreed, which count.
  assert.ok(lost?.state === 'lost' && /silent for 60 ms/.test(lost.reason.message), JSON.stringify(changes));
});

test('after the end of the orchestrator a worker joins the next one and hands over what was done meanwhile', async () => {
  const worker = new ScriptedWorker({ byHand: true });
  let bus = streamBus({ name: 'orchestrator', log: quiet });
  const before = new PeerRecorder();
  await bus.start(before);
  const dial = async (): Promise<Link> => {
    const [client, server] = memoryPair();
    bus.accept(server);
    return client;
  };
  const membership = joinOverLink(worker, dial, {
    log: quiet,
    reconnect: { backoff: { firstDelayMs: 1, maxDelayMs: 5 } },
  });
  await (await before.peer('worker-1')).send(aDispatch('t-1'), structured);
  await bus.close();
  await worker.until(() => worker.attached.length === 0, 'the worker to notice');
  worker.finish('t-1');
  assert.deepEqual(worker.outbox, ['t-1']);
  bus = streamBus({ name: 'orchestrator', log: quiet });
  const after = new PeerRecorder();
  await bus.start(after);
  await after.until(() => after.results('t-1').length === 1, 'the result');
  await worker.until(() => worker.outbox.length === 0, 'its confirmation');
  assert.deepEqual(worker.begun, ['t-1']);
  await membership.close();
  await bus.close();
});

test('leaving is a goodbye, and the worker stays away', async (context) => {
  const { events, join } = await site(context);
  const membership = join(new ScriptedWorker());
  await events.peer('worker-1');
  await membership.close('shutting down');
  assert.equal(await membership.closed, undefined);
  await events.until(() => events.comings.length === 2, 'the goodbye');
  assert.deepEqual(events.comings, ['joined worker-1', 'asleep worker-1: shutting down']);
});

test('leaving ends also a dialling that never ends', async () => {
  const membership = joinOverLink(new ScriptedWorker(), () => new Promise(() => {}), { log: quiet });
  await within(membership.close(), 'the worker to leave');
  await assert.rejects(membership.accepted, { code: 'cancelled' });
});

test('leaving in the moment a link is there ends that link, too', async () => {
  const left = Promise.withResolvers<void>();
  let far: Recorder | undefined;
  const membership = joinOverLink(
    new ScriptedWorker(),
    async () => {
      const [client, server] = memoryPair();
      far = Recorder.on(server);
      // Behind the return, before the caller that dialled continues.
      queueMicrotask(() => void membership.close().then(left.resolve));
      return client;
    },
    { log: quiet },
  );
  await within(left.promise, 'the worker to leave');
  await far?.end();
  assert.deepEqual(far?.messages, []);
});

test('a dispatch whose link ends before the answer may have been taken', async (context) => {
  const { events, greet } = await site(context);
  const recorder = await greet(await announce(new ScriptedWorker()));
  const peer = await events.peer('worker-1');
  const sent = peer.send(aDispatch('t-1'), structured);
  await recorder.until(() => recorder.messages.some(({ type }) => type === 'TASK_DISPATCH'), 'the dispatch');
  recorder.messages.length = 0;
  await Promise.all([
    assert.rejects(sent, { code: 'connection_lost' }),
    (async () => {
      const worker = new ScriptedWorker();
      await greet(await announce(worker));
    })(),
  ]);
});

test('a dispatch without an answer fails as timeout, and a cancelled one with the reason', async (context) => {
  const { events, greet } = await site(context, { ackTimeoutMs: 20 });
  await greet(await announce(new ScriptedWorker()));
  const peer = await events.peer('worker-1');
  await assert.rejects(peer.send(aDispatch('t-1'), structured), { code: 'timeout' });
  const giveUp = AbortSignal.abort(new Error('not wanted'));
  await assert.rejects(peer.send(aDispatch('t-2'), { ...structured, signal: giveUp }), /not wanted/);
});

test('an acknowledgement settles the dispatch it names; one that names none, the oldest of its task', async (context) => {
  const { events, dial } = await site(context);
  const link = await dial();
  Recorder.on(link);
  link.send((await announce(new ScriptedWorker())) as never);
  const peer = await events.peer('worker-1');
  const settled: string[] = [];
  const ids = ['t-1#1', 't-1#2', 't-2#1', 't-2#2'];
  const sends = ids.map((id) => {
    const [taskId = '', attempt] = id.split('#');
    return peer.send(aDispatch(taskId, {}, Number(attempt)), structured).then(() => settled.push(id));
  });
  const acknowledge = async (task_id: string, causation_id?: string): Promise<void> => {
    const envelope = causation_id === undefined ? {} : { envelope: { causation_id } };
    link.send({ ...fleetMessage('TASK_ACK', { task_id, accepted: true, state: 'accepted' }), ...envelope });
    await turns();
  };
  await acknowledge('t-2', 't-2#2');
  assert.deepEqual(settled, ['t-2#2']);
  await acknowledge('t-1', 't-1#3');
  await acknowledge('t-3');
  assert.deepEqual(settled, ['t-2#2'], 'what nothing waits for settles nothing');
  await acknowledge('t-2');
  await acknowledge('t-1', 't-1#2');
  await acknowledge('t-1');
  assert.deepEqual(settled, ['t-2#2', 't-2#1', 't-1#2', 't-1#1']);
  await Promise.all(sends);
});

test('a worker that does not read is sent nothing more and its dispatches are refused', async (context) => {
  const { events, dial } = await site(context);
  const link = await dial();
  const recorder = Recorder.on(link);
  link.send((await announce(new ScriptedWorker())) as never);
  const peer = await events.peer('worker-1');
  link.pause(true);
  let sent = 0;
  const cancel = fleetMessage('TASK_CANCEL', { task_id: 't-1' });
  await assert.rejects(
    async () => {
      for (; sent < 100_000; sent++) await peer.send(cancel, structured);
    },
    { code: 'over_capacity' },
  );
  await assert.rejects(peer.send(aDispatch('t-1'), structured), { code: 'over_capacity' });
  assert.equal(events.comings.length, 1);
  link.pause(false);
  const received = (type: string): number => recorder.messages.filter((message) => message.type === type).length;
  await recorder.until(() => received('TASK_CANCEL') >= sent, 'what was sent');
  await turns(20);
  assert.deepEqual([received('TASK_CANCEL'), received('TASK_DISPATCH')], [sent, 0], 'what was refused was not sent');
});

test('a worker is not read faster than what it says is kept', async (context) => {
  const { events, dial } = await site(context);
  const link = await dial();
  const recorder = Recorder.on(link);
  link.send((await announce(new ScriptedWorker())) as never);
  await events.peer('worker-1');
  const disk = Promise.withResolvers<void>();
  events.keep = () => disk.promise;
  for (let number = 0; number < 1_000; number++) {
    link.send({ ...fleetMessage('TASK_RESULT', { task_id: `t-${number}`, status: 'done' }) });
  }
  await events.until(() => events.results().length > 250, 'the first results');
  await turns(20);
  assert.ok(events.results().length <= 257, `${events.results().length} results are being kept at once`);
  assert.ok(link.buffered > 0);
  disk.resolve();
  await events.until(() => events.results().length === 1_000, 'all results');
  await recorder.until(() => recorder.messages.filter(({ type }) => type === 'TASK_ACK').length === 1_000, 'all acks');
});

test('a link to a worker that is kept from here is opened again when it ends', async (context) => {
  const { bus, events } = await site(context, { auth, reconnect: { backoff: { firstDelayMs: 1, maxDelayMs: 5 } } });
  const workers = [new ScriptedWorker({ incarnation: 'life-1' }), new ScriptedWorker({ incarnation: 'life-2' })];
  const ends: Link[] = [];
  let opened = 0;
  const leave = bus.supervise(async () => {
    const worker = workers[opened++];
    if (worker === undefined) throw new Error('no more workers');
    const [ours, theirs] = memoryPair();
    ends.push(theirs);
    void workerOverStdio(worker, theirs, { log: quiet }).catch(() => {});
    return ours;
  }, 'handfast worker --stdio');
  await events.peer('worker-1');
  ends[0]!.destroy('killed');
  await events.until(() => events.of('SESSION_ANNOUNCE').length === 2, 'the second life');
  assert.equal(events.of('SESSION_ANNOUNCE')[1]?.incarnation, 'life-2');
  await events.peers.get('worker-1')!.send(aDispatch('t-1'), structured);
  await events.until(() => events.results('t-1').length === 1, 'its result');
  await within(leave(), 'the worker to be let go');
  assert.equal(bus.size, 0);
});
