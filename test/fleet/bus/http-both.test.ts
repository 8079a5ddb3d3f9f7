/**
 * Both ends of the HTTP dialect here against each other: the features they agree on beyond text.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type HttpPeerBusOptions, httpPeerBus } from '../../../src/fleet/bus/http/orchestrator-bus.ts';
import { httpReceiver, type ReceiverOptions } from '../../../src/fleet/bus/http/worker-server.ts';
import type { FleetPeer } from '../../../src/fleet/bus/peer.ts';
import { listenHttp } from '../../../src/fleet/bus/plain/http-listener.ts';
import { fleetMessage } from '../../../src/fleet/messages/encode.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import { principalWith } from '../../../src/session/roles.ts';
import type { HandfastError } from '../../../src/wire/errors.ts';
import { aDispatch } from '../bus-contract.ts';
import { PeerRecorder } from '../support/peer-recorder.ts';
import { type ScriptedOptions, ScriptedWorker } from '../support/scripted-worker.ts';
import { quiet } from '../support/stream-links.ts';

const structured = { mode: 'structured' } as const;
/** For tasks that are at work for long: silence soon counts as a yes. */
const silence = { acceptedAfterMs: 20 };
const BOSS = 'token-of-the-boss';
const WORKER = 'token-of-worker-1';

interface Stage {
  readonly worker: ScriptedWorker;
  readonly events: PeerRecorder;
  readonly peer: FleetPeer;
  /** Ends all connections of the worker's port. */
  cut(): void;
}

async function staged(
  context: TestContext,
  scripted: ScriptedOptions = {},
  how: { managed?: boolean; bus?: Partial<HttpPeerBusOptions>; receiver?: Partial<ReceiverOptions> } = {},
): Promise<Stage> {
  const worker = new ScriptedWorker(scripted);
  const events = new PeerRecorder();
  const sockets = new Set<{ destroy(): void }>();
  let url = '';
  const handlers: { receiver?: ReturnType<typeof httpReceiver>; bus?: ReturnType<typeof httpPeerBus> } = {};
  const port = await listenHttp({
    port: 0,
    hasTokens: true,
    handle(request, response) {
      sockets.add(request.socket);
      handlers.receiver?.handle(request, response);
    },
  });
  url = port.address;
  const replies = await listenHttp({ port: 0, hasTokens: true, handle: (...pair) => handlers.bus?.handle(...pair) });
  const receiver = httpReceiver({
    worker,
    repoPath: '/repo',
    url: () => url,
    log: quiet,
    auth: createAuthenticator([{ principal: { name: 'boss', fleet: { submit: true } }, digests: [tokenDigest(BOSS)] }]),
    ...(how.managed && { callbacks: new Map([['boss', { url: replies.address, token: () => WORKER }]]) }),
    ...how.receiver,
  });
  handlers.receiver = receiver;
  const bus = httpPeerBus({
    name: 'orchestrator',
    peers: [{ name: 'worker-1', url, token: () => BOSS }],
    auth: createAuthenticator([{ principal: principalWith('worker-1', ['worker']), digests: [tokenDigest(WORKER)] }]),
    log: quiet,
    // A request that gets an answer is answered, however busy the machine is.
    acceptedAfterMs: 60_000,
    pollDelayMs: 5,
    ...how.bus,
  });
  handlers.bus = bus;
  await bus.start(events);
  context.after(async () => {
    worker.close();
    await bus.close();
    receiver.close();
    await Promise.all([port.close(), replies.close()]);
  });
  return {
    worker,
    events,
    peer: await events.peer('worker-1'),
    cut() {
      for (const socket of sockets) socket.destroy();
      sockets.clear();
    },
  };
}

test('a worker behind HTTP is found by its card and described by its announce before the first task', async (context) => {
  const { events, peer, worker } = await staged(context);
  assert.equal(peer.structured, true);
  assert.deepEqual([...peer.features].sort(), ['announce', 'cancel', 'poll', 'steer']);
  assert.equal(events.of('SESSION_ANNOUNCE')[0]?.incarnation, worker.incarnation);
});

for (const managed of [false, true]) {
  const how = managed ? 'called back' : 'answered at once';
  test(`a dispatch goes as a message, and its result comes as one, ${how}`, async (context) => {
    const usage = { source: 'measured', input: 5, output: 2 } as const;
    const { events, peer, worker } = await staged(
      context,
      { resultOf: () => ({ usage, prose: 'Fixed.' }) },
      { managed },
    );
    const dispatch = aDispatch('t-1', {
      requirements: { worktree: true },
      envelope: { context_id: 'c-1', attempt: 2 },
    });
    await peer.send(dispatch, structured);
    await events.until(() => events.results('t-1').length > 0, 'the result');
    const [result] = events.results('t-1');
    assert.deepEqual([result?.status, result?.tokens_spent, result?.usage?.source], ['done', 7, 'measured']);
    assert.deepEqual([result?.prose, result?.envelope.attempt], ['Fixed.', 2]);
    assert.equal(worker.journal.get('t-1')?.dispatch.worktree, true);
    await worker.until(() => worker.outbox.length === 0, 'the result to count as delivered');
  });
}

test('a task that takes long is asked about and cancelled meanwhile', async (context) => {
  const { events, peer, worker } = await staged(context, { byHand: true }, { bus: silence });
  await peer.send(aDispatch('t-1'), structured);
  await worker.until(() => worker.begun.length === 1, 'the task to begin');
  await peer.send(fleetMessage('TASK_POLL', { task_id: 't-1' }), structured);
  assert.equal(events.of('TASK_ACK').at(-1)?.state, 'running');
  await peer.send(fleetMessage('TASK_STEER', { task_id: 't-1', steer_id: 's-1', text: 'faster' }), structured);
  await peer.send(fleetMessage('TASK_CANCEL', { task_id: 't-1' }), structured);
  await events.until(() => events.results('t-1').length > 0, 'the end');
  assert.equal(events.results('t-1')[0]?.error_summary, 'canceled');
  assert.deepEqual(
    worker.handled.map(({ type }) => type),
    ['TASK_POLL', 'TASK_STEER', 'TASK_CANCEL'],
  );
});

test('a connection that is cut in the middle of a task is made up for by asking', async (context) => {
  const { events, peer, worker, cut } = await staged(context, { byHand: true }, { bus: silence });
  await peer.send(aDispatch('t-1'), structured);
  await worker.until(() => worker.begun.length === 1, 'the task to begin');
  cut();
  await events.until(() => events.of('TASK_ACK').some(({ state }) => state === 'running'), 'the poll to be answered');
  worker.finish('t-1');
  await events.until(() => events.results('t-1').length > 0, 'the result');
  await worker.until(() => worker.outbox.length === 0, 'the result to count as delivered');
  assert.deepEqual(worker.begun, ['t-1']);
});

test('a receiver that gives up waiting is asked until the task has ended', async (context) => {
  const how = { bus: silence, receiver: { replyTimeoutMs: 30 } };
  const { events, peer, worker } = await staged(context, { byHand: true }, how);
  await peer.send(aDispatch('t-1'), structured);
  await events.until(() => events.of('TASK_ACK').some(({ state }) => state === 'running'), 'the poll to be answered');
  worker.finish('t-1');
  await events.until(() => events.results('t-1').length > 0, 'the result');
  assert.equal(events.results('t-1')[0]?.status, 'done');
});

test('a task that runs already is reported as such', async (context) => {
  const { peer, worker } = await staged(context, { byHand: true });
  const first = peer.send(aDispatch('t-1'), structured);
  await worker.until(() => worker.begun.length === 1, 'the task to begin');
  await assert.rejects(peer.send(aDispatch('t-1', {}, 2), structured), (error: HandfastError) => {
    assert.deepEqual([error.code, error.detail.reason], ['over_capacity', 'in_flight']);
    return true;
  });
  worker.finish('t-1');
  await first;
});

test('a refusal comes as a result, with nothing begun', async (context) => {
  const { events, peer, worker } = await staged(context);
  worker.draining = true;
  await peer.send(aDispatch('t-1'), structured);
  const [result] = events.results('t-1');
  assert.deepEqual([result?.status, result?.blocked?.code, result?.tokens_spent], ['blocked', 'draining', 0]);
  assert.deepEqual(worker.begun, []);
});

test('results of a managed worker wait while the orchestrator is away, and are kept when it is back', async (context) => {
  const { events, peer, worker } = await staged(context, { byHand: true, retryMs: 10 }, { managed: true });
  await peer.send(aDispatch('t-1', { envelope: { context_id: 'c-1', attempt: 1 } }), structured);
  let tries = 0;
  events.keep = (message) => {
    if (message.type === 'TASK_RESULT' && ++tries < 3) throw new Error('the disk is full');
  };
  worker.finish('t-1');
  await worker.until(() => worker.outbox.length === 0, 'the result to be kept');
  assert.equal(tries, 3);
});
