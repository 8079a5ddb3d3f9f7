/**
 * Links that are cut at random places while turns run: every reader sees every event once and in order, with anything under
 * way is settled, and a server that does not come back is the end.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { StateChange } from '../../../src/connection/reconnect.ts';
import { within } from '../../contract/recorder.ts';
import { PATIENCE_MS } from '../../support/peer.ts';
import { type Item, isEnd, range, readUntil, seqs, stand, TOKEN } from './stand.ts';

/** Returns numbers from 0 to 1 that are the same in every run. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return state / 0x7fffffff;
  };
}

/** Makes a call again when the link was lost during it. */
async function insist<T>(call: () => Promise<T>): Promise<T> {
  const until = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if ((error as { code?: string }).code !== 'connection_lost' || performance.now() > until) throw error;
    }
  }
}

describe('a link that is lost', () => {
  for (const seed of [1, 2, 3, 4, 5, 6]) {
    test(`at random places, costs no reader an event and shows none twice (${seed})`, async (t) => {
      const chance = random(seed);
      const { backend, tcp, connect, relay } = await stand(t, { guarded: true });
      // Too little for a whole turn, enough for a handshake.
      const { relay: between, address } = await relay(() => 4_000 + Math.floor(chance() * 30_000));
      const changes: StateChange[] = [];
      const reconnect = { backoff: { firstDelayMs: 1, maxDelayMs: 20 } };
      const control = await connect(address, { token: TOKEN, reconnect, onState: (change) => changes.push(change) });
      const steady = await connect(tcp, { token: TOKEN });
      const session = await insist(() => control.create());
      const watcher = await steady.open(session.id);
      const pieces = Array.from({ length: 60 }, (_, at) => `piece ${at} of many; `);
      for (let n = 0; n < 3; n++) {
        backend.script(
          { text: '', pieces, tool_calls: [{ id: `c${n}`, name: 'bash', input: { command: 'echo hi' } }] },
          { text: '', pieces },
        );
      }
      const early = session.events({ afterSeq: 0 });
      const late = session.events({ afterSeq: 3 });
      const steadyEvents = watcher.events({ afterSeq: 0 });
      const turns: string[] = [];
      for (let n = 0; n < 3; n++) turns.push((await watcher.prompt(`prompt ${n}`)).turnId);
      const last = isEnd(turns[2] as string);
      const [whole, seen, seenLate] = await Promise.all(
        [steadyEvents, early, late].map((events) => readUntil(events, last)),
      );
      const end = seqs(whole as Item[]).at(-1) as number;
      assert.deepEqual(seqs(whole as Item[]), range(1, end));
      assert.deepEqual(seen, whole);
      assert.deepEqual(seenLate, whole?.slice(3));
      assert.ok(between.cuts > 0, 'the link was cut');
      const losses = changes.filter((change) => change.state === 'lost' && change.attempt === 1).length;
      const resumed = changes.filter(({ state }) => state === 'resumed').length;
      // It may be lost once more by now: further events follow the end of a turn.
      assert.equal(losses, resumed + (control.state === 'lost' ? 1 : 0));
    });
  }

  test('leaves a turn to be followed to its end, by every kind of reader', async (t) => {
    const { backend, connect, relay } = await stand(t);
    const { relay: between, address } = await relay();
    const control = await connect(address);
    const session = await control.create();
    const hold = Promise.withResolvers<void>();
    backend.script({ text: 'first half, ', tool_calls: [{ id: '1', name: 'bash', input: { command: 'true' } }] });
    backend.script({ text: 'second half', after: hold.promise });
    const turn = await session.prompt('go');
    const result = turn.result();
    for await (const event of turn) if (event.type === 'session.tool.call.completed') break;
    between.cut();
    hold.resolve();
    const { stopReason, text } = await within(result, 'the end of the turn');
    assert.deepEqual([stopReason, text], ['end_turn', 'first half, second half']);
  });

  test('under a prompt that was taken, has it sent again, and there is one turn', async (t) => {
    const { backend, connect, relay, server } = await stand(t);
    const { relay: between, address } = await relay();
    const control = await connect(address);
    const session = await control.create();
    for (let n = 0; n < 2; n++) backend.script({ text: `answer ${n}` });
    let cuts = 0;
    // Told in the moment it is taken: its answer finds no link any more.
    server.sessions.events.listen(({ type }) => {
      if (type === 'session.turn.started' && cuts++ === 0) between.cut();
    });
    const turn = await within(session.prompt('go'), 'the answer of the second sending');
    const { stopReason, text } = await within(turn.result(), 'the end of the turn');
    assert.deepEqual([stopReason, text, turn.queued], ['end_turn', 'answer 0', false]);
    const { turns } = await control.rpc.sessionTurns({ session_id: session.id });
    assert.deepEqual(
      turns.map(({ turn_id }) => turn_id),
      [turn.turnId],
    );
    assert.equal(backend.requests.length, 1);
  });

  test('rejects the calls under way, holds those made meanwhile, and sends none twice', async (t) => {
    const { backend, connect, relay } = await stand(t, {
      scripted: {
        compact: ({ signal }) =>
          new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      },
      rpcLimits: { settleMs: 50 },
    });
    // Bytes of a new connection: while it is 0, no client gets through.
    let budget = Number.POSITIVE_INFINITY;
    const { relay: between, address } = await relay(() => budget);
    const states: string[] = [];
    const lost = Promise.withResolvers<void>();
    const control = await connect(address, {
      onState({ state }) {
        if (states.at(-1) !== state) states.push(state);
        if (state === 'lost') lost.resolve();
      },
    });
    const session = await control.create();
    backend.script({ text: 'a' });
    const underWay = assert.rejects(control.rpc.commandExecute({ session_id: session.id, raw_command: '/compress' }), {
      code: 'connection_lost',
      retryable: false,
      detail: { may_have_run: true },
    });
    await control.rpc.ping();
    budget = 0;
    between.cut();
    await lost.promise;
    assert.equal(control.state, 'lost');
    await assert.rejects(control.rpc.ping({}, { timeoutMs: 1 }), { code: 'timeout' });
    await assert.rejects(control.rpc.ping({}, { signal: AbortSignal.abort() }), { code: 'cancelled' });
    budget = Number.POSITIVE_INFINITY;
    const turn = await session.prompt('only once');
    assert.equal((await turn.result()).text, 'a');
    await underWay;
    assert.deepEqual(states, ['open', 'lost', 'resumed']);
    assert.deepEqual(
      (await session.state()).messages.map(({ kind }) => kind),
      ['user', 'assistant'],
    );
  });

  test('within the handshake of a new link is dialled again', async (t) => {
    const { connect, relay } = await stand(t);
    // The handshake is cut after its request on the second to fifth connection.
    let budget = Number.POSITIVE_INFINITY;
    const { relay: between, address } = await relay(() =>
      between.connections < 5 ? budget : Number.POSITIVE_INFINITY,
    );
    const resumed = Promise.withResolvers<void>();
    const control = await connect(address, { onState: ({ state }) => state === 'resumed' && resumed.resolve() });
    budget = 150;
    between.cut();
    await within(Promise.race([resumed.promise, control.closed]), 'the client to resume');
    assert.ok(between.connections >= 5, `${between.connections} connections`);
    await control.rpc.ping();
  });

  test('for good ends the client: readers get what waits for them, then the reason', async (t) => {
    const { connect, relay, backend } = await stand(t);
    const { relay: between, address } = await relay();
    const ended = Promise.withResolvers<string | undefined>();
    const control = await connect(address, {
      reconnect: { maxMs: 200 },
      onState: (change) => change.state === 'closed' && ended.resolve(change.error?.code),
    });
    const session = await control.create();
    const events = session.events({ afterSeq: 0 });
    await events.started();
    backend.script({ text: 'x', delay_ms: 60_000 });
    const turn = await session.prompt('a');
    const result = assert.rejects(turn.result(), { code: 'connection_lost' });
    await between.close();
    assert.equal(await within(ended.promise, 'the end'), 'connection_lost');
    await result;
    await assert.rejects(
      readUntil(events, () => false),
      { code: 'connection_lost' },
    );
    await assert.rejects(control.rpc.ping(), { code: 'connection_lost' });
  });

  test('is not dialled again when the client is closed meanwhile, or when that was not wanted', async (t) => {
    const { connect, relay, server } = await stand(t);
    const { relay: between, address } = await relay();
    const [patient, hasty] = [await connect(address), await connect(address, { reconnect: { maxMs: 0 } })];
    const gone = assert.rejects(hasty.events().next(), { code: 'connection_lost' });
    between.cut();
    await gone;
    assert.equal(hasty.state, 'closed');
    await patient.close();
    await within(
      (async () => {
        while (server.rpc.size > 0) await new Promise((resolve) => setTimeout(resolve, 2));
      })(),
      'the server to be without clients',
    );
  });
});

test('a reader that dawdles while the link is lost again and again gets everything from the journal', async (t) => {
  const { backend, connect, relay } = await stand(t);
  const { relay: between, address } = await relay();
  const control = await connect(address);
  const session = await control.create();
  const pieces = Array.from({ length: 3_000 }, (_, at) => `${at} `);
  backend.script({ text: '', pieces });
  const slow = session.events({ afterSeq: 0 });
  const turn = await session.prompt('much');
  const read: Item[] = [];
  const isLast = isEnd(turn.turnId);
  for await (const item of slow) {
    read.push(item);
    if (item.type !== 'gap' && isLast(item)) break;
    if (read.length % 500 === 0) {
      between.cut();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
  assert.deepEqual(seqs(read), range(1, read.length));
  assert.ok(read.length > 3_000);
});
