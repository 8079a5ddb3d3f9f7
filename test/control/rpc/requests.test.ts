/**
 * Requests of one connection: replies and their order, refusals, and that all requests settle.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createRpcServer, type RpcServerOptions } from '../../../src/control/rpc/rpc-server.ts';
import { memoryPair } from '../../../src/transport/memory.ts';
import { within } from '../../contract/recorder.ts';
import { type FakeOptions, fakeControl, testMethods } from './fake-control.ts';
import { peerOf, RpcPeer } from './rpc-peer.ts';

function serverWith(options: RpcServerOptions = {}, fake: FakeOptions = {}) {
  const control = fakeControl(fake);
  const server = createRpcServer(control, options);
  return { control, server, peer: peerOf(server) };
}

describe('answers', () => {
  test('a request is answered with its result and its own id, for any id', async () => {
    const { peer } = serverWith();
    for (const id of [7, -7, 1.5, 'abc', '', null]) {
      peer.send({ jsonrpc: '2.0', id, method: testMethods.echo.name, params: { text: ' hi ' } });
      assert.deepEqual((await peer.answer(id)).result, { text: 'hi' });
    }
  });

  test('requests run side by side and are answered as they are done', async () => {
    const { control, peer } = serverWith();
    const slow = peer.begin(testMethods.wait, { name: 'slow' });
    const fast = peer.begin(testMethods.echo, { text: 'fast' });
    await peer.answer(fast);
    assert.equal(
      peer.messages.some(({ id }) => id === slow),
      false,
    );
    control.waiting.get('slow')?.release();
    assert.deepEqual((await peer.answer(slow)).result, { waited: true });
  });

  test('two requests of one id are both answered', async () => {
    const { control, peer } = serverWith();
    for (const name of ['a', 'b']) {
      peer.send({ jsonrpc: '2.0', id: 'same', method: testMethods.wait.name, params: { name } });
    }
    await peer.quiet();
    for (const { release } of [...control.waiting.values()]) release();
    await peer.recorder.until(() => peer.messages.filter(({ id }) => id === 'same').length === 2, 'both answers');
  });

  test('events a handler emits before it waits precede its answer', async () => {
    const { control, peer } = serverWith();
    control.events.open('s');
    await peer.call(testMethods.emit, { session_id: 's', count: 3 });
    assert.deepEqual(
      peer.messages.map(({ method, id }) => method ?? id),
      ['event', 'event', 'event', 1],
    );
    await peer.call('session.create', {});
    const order = peer.messages.slice(4).map(({ method, id }) => method ?? id);
    assert.deepEqual(order, ['event', 2]);
  });

  test('a result that is nothing is null', async () => {
    const more = [
      { method: { ...testMethods.wait, name: 'test.nothing' }, needs: 'none' as const, handle: () => undefined },
    ];
    const { peer } = serverWith({}, { more });
    const { result } = await peer.answer(peer.begin('test.nothing'));
    assert.equal(result, null);
  });

  test('work after an answer runs behind it, and its failure harms no other request', async () => {
    const order: string[] = [];
    const more = [
      {
        method: { ...testMethods.wait, name: 'test.after' },
        needs: 'none' as const,
        handle: (_params: object, call: { afterAnswer(work: () => void): void }) => {
          call.afterAnswer(() => {
            order.push('after');
            throw new Error('broken');
          });
          order.push('handled');
          return {};
        },
      },
    ];
    const { control, peer } = serverWith({}, { more });
    await peer.call('test.after');
    await peer.quiet();
    assert.deepEqual(order, ['handled', 'after']);
    assert.deepEqual(control.logged, ['error work after a reply failed']);
  });
});

describe('failures', () => {
  test('weakness 2: a failure of the work says what it is, of which session, and whether trying again helps', async () => {
    const { peer } = serverWith();
    assert.deepEqual(await peer.refusal(testMethods.fail, { how: 'busy', session_id: ' s1 ' }), {
      code: -32603,
      message: 'session is busy; use enqueue=true to queue the prompt',
      data: { session_id: 's1', reason: 'internal_error', kind: 'session_busy', retryable: true },
    });
  });

  test('a bug tells its caller where to look and nothing else', async () => {
    const { control, peer } = serverWith();
    for (const how of ['now', 'later', 'text']) {
      const { code, message, data } = await peer.refusal(testMethods.fail, { how });
      assert.deepEqual([code, message], [-32603, 'the request failed']);
      assert.deepEqual(Object.keys(data).sort(), ['correlation_id', 'kind', 'reason', 'retryable']);
      assert.deepEqual([data.reason, data.kind], ['internal_error', 'runtime_error']);
    }
    assert.equal(control.logged.filter((line) => line === 'error a request failed').length, 3);
    assert.doesNotMatch(JSON.stringify(peer.messages), /passwd|just a text/);
  });

  test('parameters are refused in the words of the protocol, the first wrong one only', async () => {
    const { peer } = serverWith();
    assert.deepEqual(await peer.refusal(testMethods.echo, {}), {
      code: -32602,
      message: 'invalid params for test.echo: `text` must be a non-empty string',
      data: { field: 'text', reason: 'invalid_params', kind: 'schema_violation', retryable: false },
    });
    assert.deepEqual(await peer.refusal(testMethods.echo, []), {
      code: -32602,
      message: 'invalid params for test.echo: expected object',
      data: { reason: 'invalid_params', kind: 'schema_violation', retryable: false },
    });
  });

  test('names that every object has are not methods', async () => {
    const { peer } = serverWith();
    for (const method of ['toString', '__proto__', 'constructor', 'hasOwnProperty']) {
      const { code, data } = await peer.refusal(method);
      assert.deepEqual([code, data.reason, data.method], [-32601, 'method_not_found', method]);
    }
  });

  test('two handlers of one method are a mistake that is found at once', () => {
    const control = fakeControl();
    const twice = { ...control, handlers: [...control.handlers, ...control.handlers.slice(0, 1)] };
    assert.throws(() => createRpcServer(twice), { code: 'runtime_error' });
  });
});

describe('giving up', () => {
  test('weakness 22: a request that is cancelled is answered with -32800, and its handler aborted', async () => {
    const { control, peer } = serverWith();
    const id = peer.begin(testMethods.wait, { name: 'login' });
    await peer.quiet();
    const { call } = control.waiting.get('login')!;
    peer.cancel(id);
    const { error } = await peer.answer(id);
    assert.deepEqual([error?.code, error?.data.reason, error?.data.kind], [-32800, 'cancelled', 'cancelled']);
    assert.equal(call.signal.reason.code, 'cancelled');
    assert.equal(control.waiting.size, 0);
  });

  test('what a handler emits while it gives up precedes the answer', async () => {
    const more = [
      {
        method: { ...testMethods.wait, name: 'test.login' },
        needs: 'none' as const,
        handle: async (_params: object, call: { signal: AbortSignal }) => {
          await new Promise((resolve) => call.signal.addEventListener('abort', resolve));
          control.events.emit('auth.flow.failed', { provider: 'openai', message: 'cancelled' });
          throw new Error('the login was given up');
        },
      },
    ];
    const { control, peer } = serverWith({}, { more });
    const id = peer.begin('test.login');
    peer.cancel(id);
    const { error } = await peer.answer(id);
    assert.equal(error?.code, -32800);
    assert.deepEqual(
      peer.messages.map(({ method }) => method),
      ['event', undefined],
    );
  });

  test('a handler that does not listen is answered for, once, and keeps its place until it is done', async () => {
    const limits = { settleMs: 20, maxInFlight: 1 };
    const { control, peer } = serverWith({ limits });
    const id = peer.begin(testMethods.wait, { name: 'deaf' });
    peer.cancel(id);
    assert.equal((await peer.answer(id)).error?.code, -32800);
    assert.equal((await peer.refusal(testMethods.echo, { text: 'x' })).code, -32001);
    control.waiting.get('deaf')?.release();
    await peer.quiet();
    assert.deepEqual(await peer.call(testMethods.echo, { text: 'x' }), { text: 'x' });
    assert.equal(peer.messages.filter((message) => message.id === id).length, 1);
  });

  test('a handler that had finished anyway is answered with what it did', async () => {
    const { control, peer } = serverWith();
    const id = peer.begin(testMethods.wait, { name: 'deaf' });
    peer.cancel(id);
    await peer.quiet();
    control.waiting.get('deaf')?.release();
    assert.deepEqual((await peer.answer(id)).result, { waited: true });
  });

  test('cancels that mean nothing are ignored: unknown ids, answered requests, no id, a cancel as a request', async () => {
    const { control, peer } = serverWith();
    const id = peer.begin(testMethods.wait, { name: 'kept' });
    await peer.call(testMethods.echo, { text: 'x' });
    for (const params of [{ id: 'nobody' }, { id: 2 }, {}, null, [], 'x', { id: String(id) }]) {
      peer.send({ jsonrpc: '2.0', method: '$/cancel_request', params });
    }
    assert.equal((await peer.refusal('$/cancel_request', { id })).code, -32601);
    assert.equal(control.waiting.size, 1);
    control.waiting.get('kept')?.release();
    assert.deepEqual((await peer.answer(id)).result, { waited: true });
  });

  test('the end of the link aborts every running handler, and nothing is sent to a closed link', async () => {
    const { control, server, peer } = serverWith();
    peer.begin(testMethods.wait, { name: 'a' });
    peer.begin(testMethods.wait, { name: 'b' });
    await peer.quiet();
    const signals = [...control.waiting.values()].map(({ call }) => call.signal);
    peer.link.destroy('cut');
    await within(
      Promise.all(
        signals.map(
          (signal) =>
            new Promise((resolve) => {
              if (signal.aborted) resolve(undefined);
              else signal.addEventListener('abort', resolve);
            }),
        ),
      ),
      'the signals',
    );
    assert.deepEqual(
      signals.map(({ reason }) => reason.code),
      ['connection_lost', 'connection_lost'],
    );
    assert.equal(server.size, 0);
  });

  test('the end of the input: what was read is answered, then the link is closed', async () => {
    const control = fakeControl();
    const server = createRpcServer(control, { limits: { settleMs: 50 } });
    const [ours, theirs] = memoryPair();
    const peer = new RpcPeer(ours);
    let ended = () => {};
    // The in-memory pair ends both directions at once, so the end is reported by hand.
    server.accept({
      ...linkOf(theirs),
      open: (receiver) => {
        ended = () => receiver.ended();
        theirs.open(receiver);
      },
    });
    const done = peer.begin(testMethods.wait, { name: 'done' });
    const late = peer.begin(testMethods.wait, { name: 'late' });
    await peer.quiet();
    ended();
    peer.begin(testMethods.echo, { text: 'not read' });
    control.waiting.get('done')?.release();
    assert.deepEqual((await peer.answer(done)).result, { waited: true });
    assert.equal((await peer.answer(late)).error?.data.kind, 'interrupted');
    assert.equal((await peer.recorder.end()).clean, true);
    assert.equal(peer.messages.length, 3);
  });
});

/** Returns a link as a plain object whose members can be replaced. */
function linkOf(link: ReturnType<typeof memoryPair>[0]) {
  return {
    transport: link.transport,
    peer: link.peer,
    text: link.text,
    get buffered() {
      return link.buffered;
    },
    open: link.open.bind(link),
    send: link.send.bind(link),
    drained: link.drained.bind(link),
    pause: link.pause.bind(link),
    setMaxMessageBytes: link.setMaxMessageBytes.bind(link),
    close: link.close.bind(link),
    destroy: link.destroy.bind(link),
  };
}

describe('limits', () => {
  test('weakness 18: one request too many is refused with -32001 and may be tried again; what ends work is still heard', async () => {
    const { control, peer } = serverWith({ limits: { maxInFlight: 2 } });
    const first = peer.begin(testMethods.wait, { name: 'a' });
    peer.begin(testMethods.wait, { name: 'b' });
    const refused = await peer.refusal(testMethods.wait, { name: 'c' });
    assert.deepEqual(refused, {
      code: -32001,
      message: 'too many requests of this connection are running',
      data: { max_in_flight: 2, retry_after_ms: 100, reason: 'over_capacity', kind: 'over_capacity', retryable: true },
    });
    assert.equal((await peer.call('system.ping')).ok, true);
    assert.deepEqual(await peer.call('events.unsubscribe', { subscription_id: 'none' }), { removed: false });
    peer.cancel(first);
    await peer.answer(first);
    assert.deepEqual(await peer.call(testMethods.echo, { text: 'room' }), { text: 'room' });
    control.waiting.get('b')?.release();
  });

  test('one client too many is refused and disconnected; a free slot is used again', async () => {
    const { server, peer } = serverWith({ limits: { maxConnections: 1 } });
    await peer.quiet();
    const second = peerOf(server);
    const { error } = await second.answer(null);
    assert.deepEqual([error?.code, error?.data.kind], [-32001, 'over_capacity']);
    await second.recorder.end();
    await peer.close();
    await peerOf(server).quiet();
  });
});
