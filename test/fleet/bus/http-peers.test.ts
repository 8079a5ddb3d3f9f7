/** Deployed receivers that know nothing but text, as peers of the orchestrator. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import {
  type HttpPeerBus,
  type HttpPeerBusOptions,
  httpPeerBus,
} from '../../../src/fleet/bus/http/orchestrator-bus.ts';
import type { FleetPeer } from '../../../src/fleet/bus/peer.ts';
import { listenHttp } from '../../../src/fleet/bus/plain/http-listener.ts';
import { fleetMessage } from '../../../src/fleet/messages/encode.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import { principalWith } from '../../../src/session/roles.ts';
import type { HandfastError } from '../../../src/wire/errors.ts';
import { within } from '../../contract/recorder.ts';
import { aDispatch } from '../bus-contract.ts';
import { PeerRecorder } from '../support/peer-recorder.ts';
import { ScriptedWorker } from '../support/scripted-worker.ts';
import { quiet } from '../support/stream-links.ts';
import { resultBlock, taskIdIn, type UpstreamOptions, UpstreamReceiver } from '../support/upstream-receiver.ts';

const inline = { mode: 'inline' } as const;
const plain = { mode: 'plain' } as const;

interface Stage {
  readonly bus: HttpPeerBus;
  readonly events: PeerRecorder;
  readonly receiver: UpstreamReceiver;
  readonly peer: FleetPeer;
}

async function staged(
  context: TestContext,
  upstream: UpstreamOptions = {},
  options: Partial<HttpPeerBusOptions> & { token?: () => string } = {},
): Promise<Stage> {
  const receiver = await new UpstreamReceiver(upstream).listen();
  const events = new PeerRecorder();
  const { token, ...more } = options;
  const peers = [{ name: 'claude-1', url: receiver.url, ...(token && { token }) }];
  // A request that gets an answer is answered, however busy the machine is.
  const bus = httpPeerBus({ name: 'orchestrator', peers, log: quiet, acceptedAfterMs: 60_000, ...more });
  await bus.start(events);
  context.after(async () => {
    await bus.close();
    await receiver.close();
  });
  await events.until(() => events.peers.get('claude-1')?.reachable === true, 'the receiver to be found');
  return { bus, events, receiver, peer: events.peers.get('claude-1')! };
}

/** Opens the port to which managed receivers send their replies. */
async function replyPort(context: TestContext): Promise<{ url: string; serve(bus: HttpPeerBus): void }> {
  let bus: HttpPeerBus | undefined;
  const listener = await listenHttp({
    port: 0,
    hasTokens: false,
    handle: (request, response) => bus?.handle(request, response),
  });
  context.after(() => listener.close());
  return {
    url: listener.address,
    serve(served) {
      bus = served;
    },
  };
}

test('a task goes out as hints in the text, and its result comes out of the reply', async (context) => {
  const { events, receiver, peer } = await staged(context, {
    agent: (prompt) => `All good.\n\n${resultBlock({ task_id: taskIdIn(prompt), status: 'done', tokens_spent: 900 })}`,
  });
  assert.deepEqual([peer.structured, [...peer.features]], [false, []]);
  const requirements = { required_mcp: ['context-mode'] };
  await peer.send(aDispatch('t-1', { requirements, envelope: { context_id: 'c-1', attempt: 2 } }), inline);
  const [prompt] = receiver.prompts;
  assert.match(prompt!, /^TASK DISPATCH \(inline\)\ntask_id: t-1\n/);
  assert.match(prompt!, /required_mcp: \[context-mode\]/);
  assert.match(prompt!, /Brief: do it\n/);
  assert.doesNotMatch(prompt!, /Working directory/);
  assert.deepEqual(receiver.contexts, ['c-1']);
  const [result] = events.results('t-1');
  assert.equal(result?.status, 'done');
  assert.equal(result?.prose, 'All good.');
  assert.equal(result?.envelope.attempt, 2);
  // A model's figure of itself is nothing but its word.
  assert.deepEqual([result?.tokens_spent, result?.usage?.source], [900, 'claimed']);
});

test('in plain mode the peer gets the bare brief, and its words are the result', async (context) => {
  const { events, receiver, peer } = await staged(context, { agent: () => 'I have fixed it.' });
  await peer.send(aDispatch('t-1'), plain);
  assert.deepEqual(receiver.prompts, ['do it']);
  const [result] = events.results('t-1');
  assert.deepEqual([result?.status, result?.prose, result?.conformance], ['done', 'I have fixed it.', 'unstructured']);
});

test('a reply without the block that was asked for is not taken for done', async (context) => {
  const { events, peer } = await staged(context, { agent: () => 'I have fixed it.' });
  await peer.send(aDispatch('t-1'), inline);
  assert.equal(events.results('t-1')[0]?.status, 'partial');
});

test('an announce in the first reply becomes the description of the peer, under any name', async (context) => {
  const announce = await new ScriptedWorker({ agentId: 'somebody-else' }).announce();
  const { events, peer } = await staged(context, {
    agent: (prompt) =>
      ['```json', JSON.stringify(announce), '```', resultBlock({ task_id: taskIdIn(prompt), status: 'done' })].join(
        '\n',
      ),
  });
  await peer.send(aDispatch('t-1'), inline);
  const [heard] = events.heard.filter(({ message }) => message.type === 'SESSION_ANNOUNCE');
  assert.equal(heard?.peerId, 'claude-1');
  assert.equal(events.of('SESSION_ANNOUNCE')[0]?.agent_id, 'somebody-else');
  assert.equal(events.results('t-1')[0]?.status, 'done');
});

test('a receiver that works long has the task, and its result comes later', async (context) => {
  const work = Promise.withResolvers<string>();
  const { events, peer } = await staged(context, { agent: () => work.promise }, { acceptedAfterMs: 10 });
  await peer.send(aDispatch('t-1'), plain);
  assert.equal(events.of('TASK_ACK')[0]?.state, 'accepted');
  assert.equal(events.results().length, 0);
  work.resolve('done now');
  await events.until(() => events.results('t-1').length === 1, 'the result');
});

test('a managed receiver is taken at its word, and its reply is found by its context', async (context) => {
  const port = await replyPort(context);
  const work = Promise.withResolvers<void>();
  const { bus, events, receiver, peer } = await staged(context, {
    managed: { url: port.url },
    agent: async (prompt) => {
      await work.promise;
      return `Ready. ${resultBlock({ status: 'done', task_id: taskIdIn(prompt) })}`;
    },
  });
  port.serve(bus);
  await peer.send(aDispatch('t-1', { envelope: { context_id: 'c-1', attempt: 1 } }), inline);
  assert.equal(events.of('TASK_ACK')[0]?.state, 'accepted');
  work.resolve();
  await events.until(() => events.results('t-1').length === 1, 'the result');
  await within(
    (async () => {
      while (receiver.called.length === 0) await new Promise((resolve) => setImmediate(resolve));
    })(),
    'the answer to the call',
  );
  assert.equal((receiver.called[0] as { error?: unknown }).error, undefined);
});

test('a late reply that was not kept is refused, so that the receiver tries again, and a repeated one is the same task', async (context) => {
  const port = await replyPort(context);
  const { bus, events, receiver, peer } = await staged(context, {
    managed: { url: port.url },
    agent: () => new Promise(() => {}),
  });
  port.serve(bus);
  await peer.send(aDispatch('t-1', { envelope: { context_id: 'c-1', attempt: 1 } }), plain);
  let full = true;
  events.keep = () => {
    if (full) throw new Error('the disk is full');
  };
  const refused = (await receiver.call('Ready.', 'c-1')) as { error?: { code: number } };
  assert.equal(refused.error?.code, -32000);
  full = false;
  assert.equal(((await receiver.call('Ready.', 'c-1')) as { error?: unknown }).error, undefined);
  assert.equal(((await receiver.call('Ready.', 'c-1')) as { error?: unknown }).error, undefined);
  assert.deepEqual(
    events.results().map(({ task_id }) => task_id),
    ['t-1', 't-1', 't-1'],
  );
  const lost = (await receiver.call('Ready.', 'another context')) as { error?: { code: number } };
  assert.equal(lost.error?.code, -32000);
});

test('a reply to a task of before the restart is recalled from the store', async (context) => {
  const port = await replyPort(context);
  const { bus, events, receiver } = await staged(
    context,
    { managed: { url: port.url } },
    {
      recall: async (peerId, contextId) =>
        peerId === 'claude-1' && contextId === 'c-old'
          ? { taskId: 't-old', attempt: 3, replySchema: 'prose' }
          : undefined,
    },
  );
  port.serve(bus);
  await receiver.call('It is done.', 'c-old');
  const [result] = events.results('t-old');
  assert.deepEqual([result?.status, result?.envelope.attempt], ['done', 3]);
});

test('replies are taken from the peer whose token they bring, and from no other', async (context) => {
  const port = await replyPort(context);
  const auth = createAuthenticator([
    { principal: principalWith('claude-1', ['worker']), digests: [tokenDigest('token-of-claude-1')] },
    { principal: { name: 'stranger', capabilities: ['*'] }, digests: [tokenDigest('token-of-a-stranger')] },
  ]);
  const { bus, events, receiver, peer } = await staged(
    context,
    { managed: { url: port.url, token: 'token-of-claude-1' }, agent: () => new Promise(() => {}) },
    { auth },
  );
  port.serve(bus);
  await peer.send(aDispatch('t-1', { envelope: { context_id: 'c-1', attempt: 1 } }), plain);
  assert.deepEqual(await receiver.call('Done.', 'c-1', 'token-of-nobody'), { error: 'the token is missing or wrong' });
  const strange = (await receiver.call('Done.', 'c-1', 'token-of-a-stranger')) as { error?: { code: number } };
  assert.equal(strange.error?.code, -32000);
  assert.equal(events.results().length, 0);
  await receiver.call('Done.', 'c-1');
  assert.equal(events.results('t-1').length, 1);
});

test('a second turn in a context that is busy is refused as such, for both numbers', async (context) => {
  const begun = Promise.withResolvers<void>();
  const work = Promise.withResolvers<string>();
  const agent = (): Promise<string> => {
    begun.resolve();
    return work.promise;
  };
  const { receiver, peer } = await staged(context, { agent });
  const envelope = { context_id: 'c-1', attempt: 1 };
  const first = peer.send(aDispatch('t-1', { envelope }), plain);
  await within(begun.promise, 'the first turn to begin');
  await assert.rejects(peer.send(aDispatch('t-2', { envelope }), plain), { code: 'over_capacity' });
  receiver.error = {
    code: -31001,
    message: 'busy',
    data: [{ reason: 'FLEET_BUSY', metadata: { retry_after_s: '12', busy: 'in_flight' } }],
  };
  await assert.rejects(peer.send(aDispatch('t-3'), plain), (error: HandfastError) => {
    assert.equal(error.code, 'over_capacity');
    assert.deepEqual([error.detail.retry_after_ms, error.detail.reason], [12_000, 'in_flight']);
    return true;
  });
  work.resolve('done now');
  await first;
});

test('a reply that says busy is a refusal, one that says error is an error', async (context) => {
  const said: string[] = ['[busy] one turn at a time', '[error] not signed in', '   '];
  const { events, peer } = await staged(context, { agent: () => said.shift()! });
  await assert.rejects(peer.send(aDispatch('t-1'), plain), { code: 'over_capacity' });
  await peer.send(aDispatch('t-2'), plain);
  await peer.send(aDispatch('t-3'), plain);
  const [signedOut, empty] = events.results();
  assert.deepEqual([signedOut?.status, empty?.status, empty?.error_summary], ['error', 'error', 'empty output']);
});

for (const [what, code, expected] of [
  ['cannot be parsed', -32700, 'invalid_message'],
  ['has wrong params', -32602, 'invalid_message'],
] as const) {
  test(`a request the receiver says ${what} is refused`, async (context) => {
    const { receiver, peer } = await staged(context);
    receiver.error = { code, message: 'no' };
    await assert.rejects(peer.send(aDispatch('t-1'), plain), { code: expected });
  });
}

test('a turn that failed at the receiver is an error of the task', async (context) => {
  const { events, receiver, peer } = await staged(context);
  receiver.error = { code: -32000, message: 'timeout after 300 s' };
  await peer.send(aDispatch('t-1'), plain);
  assert.deepEqual(
    events.results('t-1').map(({ status, error_summary }) => [status, error_summary]),
    [['error', 'timeout after 300 s']],
  );
});

test('a brief that is too long is refused before it is sent, never cut', async (context) => {
  const { events, receiver, peer } = await staged(context);
  await peer.send(aDispatch('t-1', { brief: 'x'.repeat(262_100) }), inline);
  assert.equal(events.results('t-1')[0]?.blocked?.code, 'brief_too_large');
  assert.equal(receiver.prompts.length, 0);
  await peer.send(aDispatch('t-2', { brief: 'x'.repeat(262_100) }), plain);
  assert.deepEqual(
    receiver.prompts.map((prompt) => prompt.length),
    [262_100],
  );
});

test('the token is read for each call, and again when it was refused', async (context) => {
  let current = 'old';
  const reads: string[] = [];
  const { receiver, peer } = await staged(
    context,
    { token: () => current },
    {
      token: () => {
        reads.push(current);
        return reads.length === 1 ? 'stale' : current;
      },
    },
  );
  current = 'new';
  await peer.send(aDispatch('t-1'), plain);
  assert.deepEqual(receiver.tokens, ['Bearer stale', 'Bearer new']);
  assert.equal(receiver.prompts.length, 1);
});

test('a peer that refuses the token is reported to the operator and gets no task', async (context) => {
  const alerts: unknown[] = [];
  const { receiver, peer } = await staged(
    context,
    { token: () => 'right' },
    { token: () => 'wrong', log: { ...quiet, error: (message) => alerts.push(message) } },
  );
  await assert.rejects(peer.send(aDispatch('t-1'), plain), { code: 'unauthorized' });
  assert.equal(receiver.tokens.length, 2);
  assert.deepEqual(alerts, ['peer refuses the token']);
});

for (const [status, code] of [
  [413, 'too_large'],
  [503, 'unreachable'],
  [404, 'unreachable'],
  [502, 'connection_lost'],
] as const) {
  test(`an answer of ${status} fails as ${code}`, async (context) => {
    const { receiver, peer } = await staged(context);
    receiver.status = status;
    await assert.rejects(peer.send(aDispatch('t-1'), plain), { code });
  });
}

test('a connection that ends in the place of an answer leaves open what became of the task', async (context) => {
  const { receiver, peer } = await staged(context);
  receiver.hangUp = true;
  await assert.rejects(peer.send(aDispatch('t-1'), plain), { code: 'connection_lost' });
});

test('a receiver that goes is noticed, and noticed again when it is back', async (context) => {
  const { events, receiver, peer } = await staged(context, {}, { healthIntervalMs: 10 });
  receiver.healthy = false;
  await events.until(() => events.comings.some((coming) => coming.startsWith('left')), 'the receiver to be missed');
  assert.equal(peer.reachable, false);
  receiver.healthy = true;
  await events.until(() => events.comings.at(-1) === 'joined claude-1', 'the receiver to be back');
  assert.equal(peer.reachable, true);
});

test('an address without a peer is unreachable, and known to the operator all the same', async () => {
  const events = new PeerRecorder();
  // A port that the system gives to no process that asks for any.
  const bus = httpPeerBus({ name: 'o', peers: [{ name: 'claude-1', url: 'http://127.0.0.1:1' }], log: quiet });
  await bus.start(events);
  const peer = events.peers.get('claude-1')!;
  assert.equal(peer.reachable, false);
  await assert.rejects(peer.send(aDispatch('t-1'), plain), { code: 'unreachable' });
  await bus.close();
});

test('messages that are no tasks are not sent to a peer that reads text', async (context) => {
  const { receiver, peer } = await staged(context);
  const cancel = fleetMessage('TASK_CANCEL', { task_id: 't-1' });
  await assert.rejects(peer.send(cancel, plain), { code: 'capability_missing' });
  assert.deepEqual(receiver.prompts, []);
});

test('the orchestrator says how it is, and refuses what is no reply', async (context) => {
  const port = await replyPort(context);
  const { bus } = await staged(context, {}, { version: '1.2.3' });
  port.serve(bus);
  const get = async (path: string): Promise<unknown> => (await fetch(`${port.url}${path}`)).json();
  assert.deepEqual(await get('/health'), { ok: true, version: '1.2.3', peer_count: 1 });
  assert.equal(((await get('/.well-known/agent-card.json')) as { name: string }).name, 'orchestrator');
  const post = async (body: string, type = 'application/json'): Promise<{ status: number; code?: number }> => {
    const response = await fetch(`${port.url}/jsonrpc`, { method: 'POST', headers: { 'content-type': type }, body });
    const said = (await response.json()) as { error?: { code?: number } };
    return { status: response.status, code: said.error?.code };
  };
  const call = (method: string, params: unknown): string => JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const message = { role: 'user', parts: [{ text: 'hello' }] };
  assert.deepEqual(await post('{"jsonrpc": '), { status: 200, code: -32700 });
  assert.deepEqual(await post('[]'), { status: 200, code: -32600 });
  assert.deepEqual(await post(call('tasks/get', {})), { status: 200, code: -32601 });
  assert.deepEqual(await post(call('SendMessage', { message, contextId: 'c' })), { status: 200, code: -32602 });
  assert.deepEqual(await post(call('message/send', { message: { parts: [] } })), { status: 200, code: -32602 });
  assert.equal((await post(call('SendMessage', { message }), 'text/plain')).status, 415);
  assert.equal(
    (await post(call('SendMessage', { message: { parts: [{ text: 'x'.repeat(1024 * 1024) }] } }))).status,
    413,
  );
});
