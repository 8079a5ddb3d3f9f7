/**
 * The events that each client gets: everything by default, subscriptions with replay, filters, gaps, and private events.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createRpcServer, type RpcServerOptions } from '../../../src/control/rpc/rpc-server.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import { ROLES } from '../../../src/session/roles.ts';
import type { Link } from '../../../src/transport/link.ts';
import { memoryPair } from '../../../src/transport/memory.ts';
import { turns } from '../../contract/recorder.ts';
import fc from '../../support/properties.ts';
import { fakeControl, testMethods } from './fake-control.ts';
import { peerOf, RpcPeer } from './rpc-peer.ts';

function serverWith(options: RpcServerOptions = {}) {
  const control = fakeControl();
  const server = createRpcServer(control, options);
  control.events.open('s');
  control.events.open('other');
  return { control, events: control.events, server, peer: peerOf(server) };
}

const upTo = (last: number, first = 1): number[] => Array.from({ length: last - first + 1 }, (_, at) => first + at);

describe('without a subscription', () => {
  test('every event of every session comes, as 1.0.0 has it, with its number', async () => {
    const { events, peer } = serverWith();
    events.publish('s', 'session.status', { pending: true });
    events.publish('other', 'session.status');
    events.publish('', 'state.changed', { reason: 'x' });
    await peer.quiet();
    assert.deepEqual(
      peer.events.map(({ type, payload, seq }) => [type, payload.session_id, seq]),
      [
        ['session.status', 's', 1],
        ['session.status', 'other', 1],
        ['state.changed', undefined, 1],
      ],
    );
  });

  test('weakness 16: the handshake can ask for none, or leave types out', async () => {
    const { events, server, peer } = serverWith();
    const none = peerOf(server);
    await none.call('rpc.handshake', { events: false });
    await peer.call('rpc.handshake', { opt_out_events: ['session.stream.*', 'session.status', 7, 'x'.repeat(1000)] });
    for (const type of ['session.stream.chunk', 'session.status', 'session.status.other', 'session.completed']) {
      events.publish('s', type);
    }
    await Promise.all([peer.quiet(), none.quiet()]);
    assert.deepEqual(
      peer.events.map(({ type }) => type),
      ['session.status.other', 'session.completed'],
    );
    assert.deepEqual(none.events, []);
    await none.call('rpc.handshake', { events: true });
    await peer.call('rpc.handshake', { opt_out_events: [] });
    events.publish('s', 'session.status');
    await Promise.all([peer.quiet(), none.quiet()]);
    assert.deepEqual([peer.events.length, none.events.length], [3, 1]);
  });

  test('debug steps come only to the connection that asked for them', async () => {
    const { events, server, peer } = serverWith();
    const curious = peerOf(server);
    assert.equal(events.wantsDebug(), false);
    assert.deepEqual(await curious.call('debug.set', { super_debug: true }), { super_debug: true });
    await curious.call('events.subscribe', { session_id: 's' });
    assert.equal(events.wantsDebug(), true);
    events.publish('s', 'session.debug', { stage: 'request' });
    await Promise.all([peer.quiet(), curious.quiet()]);
    assert.deepEqual([peer.events.length, curious.events.length], [0, 1]);
    await curious.call('debug.set', { super_debug: false });
    events.publish('s', 'session.debug', { stage: 'request' });
    await curious.quiet();
    assert.deepEqual([curious.events.length, events.wantsDebug()], [1, false]);
  });

  test('two clients see the same session, driven by either', async () => {
    const { server, peer } = serverWith();
    const second = peerOf(server);
    await peer.call(testMethods.emit, { session_id: 's', count: 5 });
    await second.until('s', 5);
    assert.deepEqual(second.seqs('s'), peer.seqs('s'));
  });
});

describe('a subscription', () => {
  test('weakness 16: from the first one on, only what is subscribed comes', async () => {
    const { events, peer } = serverWith();
    const answer = await peer.call('events.subscribe', { session_id: 's' });
    assert.deepEqual(answer, {
      subscription_id: answer.subscription_id,
      session_id: 's',
      after_seq: 0,
      last_seq: 0,
      gap: null,
    });
    for (const session of ['s', 'other', '']) events.publish(session, 'session.status');
    await peer.quiet();
    assert.deepEqual(
      peer.events.map(({ payload }) => payload.session_id),
      ['s'],
    );
    await peer.call('rpc.handshake', { events: true });
    events.publish('other', 'session.status');
    await peer.quiet();
    assert.equal(peer.events.length, 1);
  });

  test('without a session it follows the server', async () => {
    const { events, peer } = serverWith();
    events.publish('', 'state.changed', { reason: 'before' });
    const { session_id } = await peer.call('events.subscribe', { after_seq: 0 });
    events.publish('', 'state.changed', { reason: 'after' });
    events.publish('s', 'session.status');
    await peer.event('state.changed', 3);
    await peer.quiet();
    assert.equal(session_id, null);
    // The first one came live, before there was a subscription.
    assert.deepEqual(
      peer.events.map(({ payload }) => payload.reason),
      ['before', 'before', 'after'],
    );
  });

  test('weakness 17: what was missed comes first, behind the answer, then what happens', async () => {
    const { events, server } = serverWith();
    for (let at = 0; at < 300; at++) events.publish('s', 'session.status');
    const peer = peerOf(server);
    const id = peer.begin('events.subscribe', { session_id: 's', after_seq: 40 });
    const { result } = await peer.answer(id);
    assert.deepEqual([(result as { last_seq: number }).last_seq, peer.messages[0]?.id], [300, id]);
    await peer.until('s', 100);
    events.publish('s', 'session.completed');
    await peer.until('s', 261);
    await peer.quiet();
    assert.deepEqual(peer.seqs('s'), upTo(301, 41));
  });

  test('types narrow it, exactly or by their beginning, in replay and live', async () => {
    const { events, server } = serverWith();
    const publish = () => {
      for (const type of ['session.status', 'session.tool.call.started', 'session.tool.results', 'session.completed']) {
        events.publish('s', type);
      }
    };
    publish();
    const peer = peerOf(server);
    await peer.call('events.subscribe', {
      session_id: 's',
      after_seq: 0,
      types: ['session.tool.*', 'session.completed'],
    });
    publish();
    await peer.event('session.completed', 2);
    await peer.quiet();
    assert.deepEqual(peer.seqs('s'), [2, 3, 4, 6, 7, 8]);
  });

  test('what retention removed is reported in the reply', async () => {
    const { events, server } = serverWith();
    for (let at = 0; at < 10; at++) events.publish('s', 'session.status');
    events.forget('s', 6);
    const peer = peerOf(server);
    const { gap, after_seq } = await peer.call('events.subscribe', { session_id: 's', after_seq: 2 });
    assert.deepEqual([gap, after_seq], [{ from_seq: 3, to_seq: 6 }, 2]);
    await peer.until('s', 4);
    assert.deepEqual(peer.seqs('s'), [7, 8, 9, 10]);
    const gone = peerOf(server);
    events.forget('s', 10);
    assert.deepEqual((await gone.call('events.subscribe', { session_id: 's', after_seq: 9 })).gap, {
      from_seq: 10,
      to_seq: 10,
    });
    events.publish('s', 'session.status');
    await gone.until('s', 1);
    assert.deepEqual(gone.seqs('s'), [11]);
  });

  test('what is lost while it replays is reported where it is missing', async () => {
    const { events, server } = serverWith();
    for (let at = 0; at < 400; at++) events.publish('s', 'session.status');
    const peer = peerOf(server);
    events.beforeRead = () => {
      // The first page was read for the answer.
      if (events.reads === 2) events.forget('s', 200);
    };
    const { subscription_id } = await peer.call('events.subscribe', { session_id: 's', after_seq: 0 });
    await peer.recorder.until(() => peer.seqs('s').at(-1) === 400, 'the replay');
    assert.deepEqual(peer.seqs('s'), [...upTo(128), 200, ...upTo(400, 201)]);
    const gap = peer.events.find(({ type }) => type === 'events.gap');
    assert.deepEqual(gap?.payload, { session_id: 's', subscription_id, from_seq: 129, to_seq: 200 });
  });

  test('a second one of the same session takes the place of the first', async () => {
    const { events, peer } = serverWith();
    const first = await peer.call('events.subscribe', { session_id: 's', types: ['none'] });
    await peer.call('events.subscribe', { session_id: 's' });
    events.publish('s', 'session.status');
    await peer.quiet();
    assert.equal(peer.events.length, 1);
    assert.deepEqual(await peer.call('events.unsubscribe', { subscription_id: first.subscription_id }), {
      removed: false,
    });
  });

  test('that is ended sends nothing more, and the others continue', async () => {
    const { events, peer } = serverWith();
    const { subscription_id } = await peer.call('events.subscribe', { session_id: 's' });
    await peer.call('events.subscribe', { session_id: 'other' });
    assert.deepEqual(await peer.call('events.unsubscribe', { subscription_id }), { removed: true });
    assert.deepEqual(await peer.call('events.unsubscribe', { subscription_id }), { removed: false });
    for (const session of ['s', 'other']) events.publish(session, 'session.status');
    await peer.quiet();
    assert.deepEqual(
      peer.events.map(({ payload }) => payload.session_id),
      ['other'],
    );
  });

  test('is refused for a session that is not there, a number that was never issued, and too many of them', async () => {
    const { events, peer } = serverWith({ limits: { maxSubscriptions: 2 } });
    const unknown = await peer.refusal('events.subscribe', { session_id: 'nobody' });
    assert.deepEqual(
      [unknown.code, unknown.message, unknown.data.kind],
      [-32603, 'unknown session: nobody', 'session_not_found'],
    );
    events.publish('s', 'session.status');
    for (const after_seq of [2, -1, 0.5]) {
      const { code, data } = await peer.refusal('events.subscribe', { session_id: 's', after_seq });
      assert.deepEqual([code, data.field], [-32602, 'after_seq']);
    }
    const many = await peer.refusal('events.subscribe', { session_id: 's', types: Array(65).fill('x') });
    assert.deepEqual([many.code, many.data.field], [-32602, 'types']);
    await peer.call('events.subscribe', { session_id: 's' });
    await peer.call('events.subscribe', { session_id: 'other' });
    await peer.call('events.subscribe', { session_id: 's' });
    assert.equal((await peer.refusal('events.subscribe')).data.kind, 'over_capacity');
  });

  test('of many asked for at once no more are made than there may be', async () => {
    const { events, peer } = serverWith({ limits: { maxSubscriptions: 2 } });
    const sessions = ['s', 'other', ''];
    for (const session of sessions) events.publish(session, 'session.status');
    const asked = sessions.map((session_id) => peer.call('events.subscribe', { session_id, after_seq: 0 }));
    const made = (await Promise.allSettled(asked)).map(({ status }) => status);
    assert.deepEqual(made, ['fulfilled', 'fulfilled', 'rejected']);
  });

  test('whose journal fails, or whose session is deleted, says that it ended', async () => {
    const { control, events, server } = serverWith();
    for (let at = 0; at < 400; at++) events.publish('s', 'session.status');
    const peer = peerOf(server);
    events.beforeRead = () => {
      if (events.reads === 2) throw new Error('disk on fire');
    };
    const { subscription_id } = await peer.call('events.subscribe', { session_id: 's', after_seq: 0 });
    const ended = await peer.event('events.ended');
    assert.deepEqual(ended.payload, {
      session_id: 's',
      subscription_id,
      kind: 'runtime_error',
      message: 'the journal failed',
    });
    assert.deepEqual(control.logged, ['error events cannot be read from the journal']);
    events.beforeRead = () => {
      if (events.reads === 4) events.delete('s');
    };
    await peer.call('events.subscribe', { session_id: 's', after_seq: 0 });
    assert.equal((await peer.event('events.ended', 2)).payload.kind, 'session_not_found');
  });
});

describe('replay and live', () => {
  /** Changes for a subscriber, in any order. */
  const step = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({ do: fc.constant('publish' as const), count: fc.integer({ min: 1, max: 40 }) }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('turns' as const), count: fc.integer({ min: 1, max: 5 }) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('pause' as const), count: fc.constant(0) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('read' as const), count: fc.constant(0) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('resubscribe' as const), count: fc.nat() }) },
  );

  test('weakness 17: no hole and no double, however events, pages and a slow reader meet', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 25 }),
        fc.nat(300),
        fc.array(fc.nat(3)),
        async (steps, stored, waits) => {
          const { events, server } = serverWith({
            limits: { pullBytes: 2_000, sendBufferBytes: 1e9, maxSendBufferBytes: 1e9 },
          });
          for (let at = 0; at < stored; at++) events.publish('s', 'session.status');
          // The journal answers now and then later.
          events.beforeRead = () => turns(waits[events.reads % Math.max(1, waits.length)] ?? 0);
          const peer = peerOf(server);
          let after = Math.floor(stored / 2);
          let from = 0;
          const check = async () => {
            await peer.recorder.until(
              () => (peer.seqs('s').slice(from).at(-1) ?? after) === events.lastSeq('s'),
              'all',
            );
            assert.deepEqual(peer.seqs('s').slice(from), upTo(events.lastSeq('s'), after + 1));
          };
          await peer.call('events.subscribe', { session_id: 's', after_seq: after });
          for (const { do: what, count } of steps) {
            if (what === 'publish') for (let at = 0; at < count; at++) events.publish('s', 'session.status');
            else if (what === 'turns') await turns(count);
            else if (what === 'pause') peer.link.pause(true);
            else if (what === 'read') peer.link.pause(false);
            else {
              peer.link.pause(false);
              await check();
              after = count % (events.lastSeq('s') + 1);
              from = peer.seqs('s').length;
              await peer.call('events.subscribe', { session_id: 's', after_seq: after });
            }
          }
          peer.link.pause(false);
          await check();
          await peer.quiet();
          await check();
          await peer.close();
        },
      ),
      { numRuns: 60 },
    );
  });

  test('two subscriptions that are behind are both caught up, page by page', async () => {
    const { events, server } = serverWith();
    for (const session of ['s', 'other']) for (let at = 0; at < 700; at++) events.publish(session, 'session.status');
    const peer = peerOf(server);
    await Promise.all(['s', 'other'].map((session_id) => peer.call('events.subscribe', { session_id, after_seq: 0 })));
    await Promise.all([peer.until('s', 700), peer.until('other', 700)]);
    for (const session of ['s', 'other']) assert.deepEqual(peer.seqs(session), upTo(700));
  });

  test('a cancelled subscription never begins', async () => {
    const { events, server } = serverWith();
    for (let at = 0; at < 10; at++) events.publish('s', 'session.status');
    const peer = peerOf(server);
    const gate = Promise.withResolvers<void>();
    events.beforeRead = () => gate.promise;
    const id = peer.begin('events.subscribe', { session_id: 's', after_seq: 0 });
    peer.cancel(id);
    await peer.quiet();
    gate.resolve();
    assert.equal((await peer.answer(id)).error?.code, -32800);
    events.publish('s', 'session.status');
    await peer.quiet();
    // It is a client without a subscription still.
    assert.deepEqual(peer.seqs('s'), [11]);
  });
});

describe('a session that is loaded', () => {
  test('is replayed whole before the answer, and nothing of it comes twice', async () => {
    const { events, server } = serverWith();
    for (let at = 0; at < 300; at++) events.publish('s', 'session.status');
    const peer = peerOf(server);
    events.beforeRead = () => {
      if (events.reads < 4) events.publish('s', 'session.status');
      events.publish('other', 'session.status');
    };
    const id = peer.begin('session.load', { session_id: 's' });
    const { result } = await peer.answer(id);
    assert.equal((result as { replayed_to_seq: number }).replayed_to_seq, 303);
    assert.deepEqual(peer.seqs('s'), upTo(303));
    assert.equal(peer.messages.at(-1)?.id, id);
    events.publish('s', 'session.status');
    await peer.quiet();
    assert.deepEqual(peer.seqs('s'), upTo(304));
    assert.deepEqual(peer.seqs('other'), upTo(events.lastSeq('other')));
  });

  test('starts its subscription again, with the same types', async () => {
    const { events, server } = serverWith();
    for (const type of ['session.status', 'session.completed']) events.publish('s', type);
    const peer = peerOf(server);
    const { subscription_id } = await peer.call('events.subscribe', { session_id: 's', types: ['session.completed'] });
    await peer.call('session.load', { session_id: 's' });
    events.publish('s', 'session.completed');
    await peer.quiet();
    assert.deepEqual(peer.seqs('s'), [2, 3]);
    assert.deepEqual(await peer.call('events.unsubscribe', { subscription_id }), { removed: true });
  });

  test('and given up leaves the client as it was', async () => {
    const { events, server } = serverWith();
    for (let at = 0; at < 10; at++) events.publish('s', 'session.status');
    const peer = peerOf(server);
    const gate = Promise.withResolvers<void>();
    events.beforeRead = () => gate.promise;
    const id = peer.begin('session.load', { session_id: 's' });
    await peer.quiet();
    peer.cancel(id);
    assert.equal((await peer.answer(id)).error?.code, -32800);
    gate.resolve();
    events.publish('s', 'session.status');
    await peer.quiet();
    assert.deepEqual(peer.seqs('s'), [11]);
  });
});

describe('weakness 26: what is private to its owner', () => {
  const tokens = { ann: 'token-of-ann', ben: 'token-of-ben', root: 'token-of-root' };
  async function guarded() {
    const control = fakeControl();
    const auth = createAuthenticator(
      Object.entries(tokens).map(([name, token]) => ({
        principal: { name, ...ROLES.client, admin: name === 'root' },
        digests: [tokenDigest(token)],
      })),
    );
    const server = createRpcServer(control, { auth });
    control.events.open('s', 'ann');
    const client = async (name: keyof typeof tokens) => {
      const peer = peerOf(server);
      await peer.call('rpc.handshake', { token: tokens[name], client_name: `${name}'s client`, client_version: 1 });
      return peer;
    };
    const [ann, ben, root] = await Promise.all([client('ann'), client('ben'), client('root')]);
    return { control, server, ann, ben, root };
  }

  test('events of a session go to its owner and to operators; those of the server to everybody', async () => {
    const { control, ann, ben, root } = await guarded();
    control.events.publish('s', 'session.status');
    control.events.publish('', 'state.changed');
    await Promise.all([ann, ben, root].map((peer) => peer.quiet()));
    assert.deepEqual(
      [ann, ben, root].map((peer) => peer.events.length),
      [2, 1, 2],
    );
  });

  test('a session of another principal looks like none', async () => {
    const { ben, root } = await guarded();
    const foreign = await ben.refusal('events.subscribe', { session_id: 's' });
    const none = await ben.refusal('events.subscribe', { session_id: 'x' });
    assert.deepEqual(
      { ...foreign, message: '', data: { ...foreign.data, session_id: '' } },
      { ...none, message: '', data: { ...none.data, session_id: '' } },
    );
    assert.equal((await ben.refusal('session.load', { session_id: 's' })).data.kind, 'session_not_found');
    assert.equal((await root.call('events.subscribe', { session_id: 's' })).session_id, 's');
  });

  test('weakness 1: the server knows its clients; a client sees its own, an operator all of them', async () => {
    const { ann, root } = await guarded();
    await ann.call('events.subscribe', { session_id: 's', role: 'driver' });
    const { clients } = (await ann.call('system.clients')) as { clients: Record<string, unknown>[] };
    assert.deepEqual(clients, [
      {
        connection_id: clients[0]?.connection_id,
        client_name: "ann's client",
        client_version: null,
        principal: 'ann',
        transport: 'memory',
        connected_at: clients[0]?.connected_at,
        subscriptions: [{ session_id: 's', role: 'driver' }],
      },
    ]);
    assert.match(String(clients[0]?.connected_at), /^\d{4}-.*Z$/);
    const all = (await root.call('system.clients')) as { clients: { principal: string }[] };
    assert.deepEqual(
      all.clients.map(({ principal }) => principal),
      ['ann', 'ben', 'root'],
    );
  });

  test('ending the server takes an operator', async () => {
    const { control, ann } = await guarded();
    const { code, data } = await ann.refusal('system.shutdown');
    assert.deepEqual([code, data.reason, data.kind], [-32003, 'unauthorized', 'unauthorized']);
    assert.deepEqual(control.ended, []);
    await ann.quiet();
  });
});

describe('weakness 18: a reader that stops', () => {
  /** Connects a peer that does not read; returns it and the link its server sees. */
  function stopped(limits: RpcServerOptions['limits']) {
    const control = fakeControl();
    const { events } = control;
    events.open('s');
    const server = createRpcServer(control, { limits });
    const [ours, theirs] = memoryPair();
    server.accept(theirs);
    return { control, events, server, peer: new RpcPeer(ours), link: theirs as Link };
  }

  test('with a subscription it costs no more than its bound, and misses nothing', async () => {
    const { events, peer, link } = stopped({ pullBytes: 10_000 });
    await peer.call('events.subscribe', { session_id: 's' });
    peer.link.pause(true);
    let most = 0;
    for (let at = 0; at < 5_000; at++) {
      events.publish('s', 'session.stream.chunk');
      if (at % 100 === 0) await turns(1);
      most = Math.max(most, link.buffered);
    }
    assert.ok(most <= 11_000, `${most} bytes waited`);
    peer.link.pause(false);
    await peer.until('s', 5_000);
    assert.deepEqual(peer.seqs('s'), upTo(5_000));
  });

  test('without one it is let go after its grace', async () => {
    const { control, events, server, peer } = stopped({ sendBufferBytes: 2_000, slowConsumerMs: 30 });
    await peer.quiet();
    peer.link.pause(true);
    for (let at = 0; at < 100; at++) events.publish('s', 'session.stream.chunk');
    assert.equal(server.size, 1);
    await peer.recorder.end();
    assert.equal(server.size, 0);
    assert.deepEqual(control.logged, ['warn a client did not read and was dropped']);
  });

  test('without one it is let go at once when it would cost too much', async () => {
    const { events, server, peer } = stopped({ sendBufferBytes: 2_000, maxSendBufferBytes: 20_000 });
    await peer.quiet();
    peer.link.pause(true);
    for (let at = 0; at < 200; at++) events.publish('s', 'session.stream.chunk');
    await peer.recorder.end();
    assert.equal(server.size, 0);
  });

  test('that reads on in time stays', async () => {
    const { events, peer } = stopped({ sendBufferBytes: 2_000, slowConsumerMs: 5_000 });
    await peer.quiet();
    peer.link.pause(true);
    for (let at = 0; at < 100; at++) events.publish('s', 'session.stream.chunk');
    peer.link.pause(false);
    await peer.until('s', 100);
    await peer.quiet();
  });
});
