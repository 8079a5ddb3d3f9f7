/**
 * Turns as their sender follows them, against a composed server: iterating, awaiting, both, leaving early, several at once; and
 * that all of it leaves nothing behind on the server.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ControlClient } from '../../../src/control-client/control.ts';
import { within } from '../../contract/recorder.ts';
import { isEnd, readUntil, seqs, stand } from './stand.ts';

/** Returns the server's subscriptions of a client. Asked on the same link, so everything sent before counts. */
async function subscriptions(control: ControlClient): Promise<number> {
  const { clients } = await control.rpc.systemClients();
  return clients.flatMap((client) => client.subscriptions).length;
}

describe('a turn', () => {
  test('can be iterated, awaited, or both in any order', async (t) => {
    const { connect, backend, tcp } = await stand(t);
    const control = await connect(tcp);
    const session = await control.create();
    for (let n = 0; n < 4; n++) backend.script({ text: 'one two', pieces: ['one ', 'two'] });

    const awaited = await session.prompt('a');
    assert.equal((await awaited.result()).text, 'one two');
    assert.deepEqual(await Array.fromAsync(awaited), []);

    const both = await session.prompt('b');
    const result = both.result();
    const events = await readUntil(both, () => false);
    assert.deepEqual(
      events.filter(({ type }) => type === 'session.stream.chunk').length > 0 && events.at(-1)?.type,
      'session.completed',
    );
    assert.equal((await result).text, 'one two');

    const left = await session.prompt('c');
    for await (const _ of left) break;
    assert.equal((await left.result()).text, 'one two');
    assert.equal(await left.result(), await left.result());

    await session.prompt('d');
    assert.equal((await session.state()).queue.length, 0);
  });

  test('that no reader follows to its end holds no subscription behind it', async (t) => {
    const { connect, backend, tcp } = await stand(t);
    const control = await connect(tcp);
    const session = await control.create();
    backend.script({ text: 'a' }, { text: 'b' }, { text: 'c' });
    const [, second, third] = [await session.prompt('1'), await session.prompt('2'), await session.prompt('3')];
    for await (const _ of second) break;
    await third.result();
    assert.equal(await subscriptions(control), 0);
  });

  test('that failed has what failed, one that was interrupted what was said so far', async (t) => {
    const { connect, backend, tcp } = await stand(t);
    const session = await (await connect(tcp)).create();
    backend.script({ error: 'the model is ill' });
    const { stopReason, error, text } = await (await session.prompt('a')).result();
    assert.deepEqual(
      [stopReason, error?.code, error?.message, text],
      ['error', 'provider_error', 'the model is ill', ''],
    );
    backend.script({ text: 'half', tool_calls: [{ id: '1', name: 'bash', input: { command: 'sleep 30' } }] });
    const turn = await session.prompt('b');
    for await (const event of turn) if (event.type === 'session.tool.call.started') break;
    await session.interrupt(turn.turnId);
    const interrupted = await turn.result();
    assert.deepEqual([interrupted.stopReason, interrupted.text], ['interrupted', 'half']);
  });

  test('that waits in the queue is followed from its place there, and told when it is dropped', async (t) => {
    const { connect, backend, tcp } = await stand(t);
    const session = await (await connect(tcp)).create();
    backend.script({ text: 'x', delay_ms: 60_000 }, { text: 'second' });
    const first = await session.prompt('1');
    const second = await session.prompt('2');
    const third = await session.prompt('3');
    assert.deepEqual([first.queued, second.queued, third.queued], [false, true, true]);
    assert.deepEqual(
      (await session.queue()).map(({ text }) => text),
      ['2', '3'],
    );
    assert.equal(await session.clearQueue(), 2);
    assert.equal((await third.result()).stopReason, 'cleared');
    assert.equal((await second.result()).stopReason, 'cleared');
    const fourth = await session.prompt('4');
    await session.interrupt(first.turnId);
    assert.equal((await first.result()).stopReason, 'interrupted');
    assert.equal((await fourth.result()).text, 'second');
    const own = await readUntil(fourth, () => false);
    assert.deepEqual(own, []);
  });

  test('is released by the signal of its prompt, and continues', async (t) => {
    const { connect, backend, tcp } = await stand(t);
    const control = await connect(tcp);
    const session = await control.create();
    const hold = Promise.withResolvers<void>();
    backend.script({ text: 'later', after: hold.promise });
    const giveUp = new AbortController();
    const turn = await session.prompt('a', { signal: giveUp.signal });
    const result = turn.result();
    giveUp.abort();
    await assert.rejects(result, { code: 'cancelled' });
    assert.equal(await subscriptions(control), 0);
    await assert.rejects(session.prompt('b', { signal: giveUp.signal }), { code: 'cancelled' });
    const events = session.events({ afterSeq: 0 });
    hold.resolve();
    await readUntil(events, isEnd(turn.turnId));
  });

  test('does not get its end when the client is closed, but an error', async (t) => {
    const { connect, backend, tcp } = await stand(t);
    const control = await connect(tcp);
    const session = await control.create();
    backend.script({ text: 'x', delay_ms: 60_000 });
    const turn = await session.prompt('a');
    const lost = [turn.result(), readUntil(turn, () => false), turn.result()].map((each) =>
      assert.rejects(each, { code: 'connection_lost' }),
    );
    await control.close();
    await Promise.all(lost);
    await assert.rejects(turn.result(), { code: 'connection_lost' });
  });
});

test('several readers of a session see the same events, from any position, and release them', async (t) => {
  const { connect, backend, tcp, webSocket } = await stand(t);
  const [one, other] = [await connect(tcp), await connect(webSocket)];
  const session = await one.create();
  const again = await other.open(session.id);
  backend.script({ text: 'a' }, { text: 'b' });
  await (await session.prompt('1')).result();
  const { seq } = await session.state();
  const readers = [0, 2, seq].map((afterSeq) => session.events({ afterSeq }));
  const reading = readers.map((reader) => readUntil(reader, () => false));
  const lost = assert.rejects(
    readUntil(again.events({ afterSeq: 0 }), () => false),
    { code: 'connection_lost' },
  );
  const turn = await session.prompt('2');
  const { stopReason } = await turn.result();
  assert.equal(stopReason, 'end_turn');
  const last = await within(
    (async () => {
      for (;;) {
        const state = await session.state();
        if (!state.pending) return state.seq;
      }
    })(),
    'the end',
  );
  const whole = await readUntil(again.events({ afterSeq: 0 }), (event) => event.seq === last);
  assert.deepEqual(
    seqs(whole),
    Array.from({ length: last }, (_, at) => at + 1),
  );
  for (const reader of readers) reader.end();
  const read = await Promise.all(reading);
  for (const [at, after] of [0, 2, seq].entries()) {
    assert.deepEqual(
      seqs(read[at] ?? []),
      seqs(whole).filter((each) => each > after),
    );
  }
  assert.equal(await subscriptions(one), 1, 'only the reader of the other client is left');
  await other.close();
  await lost;
});

test('events of the server come apart from those of sessions', async (t) => {
  const { connect, tcp } = await stand(t);
  const control = await connect(tcp);
  const events = control.events();
  await events.started();
  const { id } = await control.create();
  const [created] = await readUntil(events, ({ type }) => type === 'state.changed');
  assert.ok(created?.type === 'state.changed');
  assert.deepEqual([created.payload.reason, created.payload.session_id], ['session_created', id]);
  await events.return();
  assert.equal(await subscriptions(control), 0);
});
