/** A prompt that is sent twice under one key is one turn, with anything between. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openSessionStore } from '../../../src/control/sessions/store/store.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { sessionFork, sessionGet, sessionSend, sessionTurns } from '../../../src/protocol/session-rpc.ts';
import { diskThatFills } from '../support/full-disk.ts';
import { scriptedBackend } from '../support/scripted-backend.ts';
import { Harness } from './harness.ts';

const roomy = { maxEntries: 1e6, maxBytes: 1e9 };

test('it is answered as the first time: while it runs, while it waits, and when it is over', async () => {
  await using harness = await Harness.start();
  const session_id = await harness.create();
  const first = Promise.withResolvers<void>();
  harness.backend.script({ text: 'one', after: first.promise }, { text: 'two' });
  const one = { session_id, text: ' first ', idempotency_key: 'key-1' };
  const two = { session_id, text: 'second', enqueue: true, idempotency_key: 'key-2' };
  const answers = await Promise.all([harness.call(sessionSend, one), harness.call(sessionSend, one)]);
  assert.deepEqual(answers[0], answers[1], 'not even when both are under way');
  const waiting = await harness.call(sessionSend, two);
  assert.deepEqual([answers[0].queued, waiting.queued], [false, true]);
  assert.deepEqual(await harness.call(sessionSend, one), answers[0], 'and it is not said to be busy');
  assert.deepEqual(await harness.call(sessionSend, two), waiting);
  first.resolve();
  await harness.ended(waiting.turn_id);
  assert.deepEqual(await harness.call(sessionSend, two), waiting);
  const { turns } = await harness.call(sessionTurns, { session_id });
  assert.deepEqual(
    turns.map(({ turn_id }) => turn_id),
    [waiting.turn_id, answers[0].turn_id],
  );
  assert.equal(JSON.stringify(turns).includes('key-'), false);
});

test('a restart in between changes nothing, and a fork of the session knows nothing of it', async () => {
  const journal = memoryJournal({ retention: roomy });
  const store = openSessionStore({ file: ':memory:' });
  const old = await Harness.start({ journal, store });
  const session_id = await old.create();
  old.backend.script({ deaf: true });
  const sent = { session_id, text: 'go', idempotency_key: 'key' };
  const answer = await old.call(sessionSend, sent);

  await using harness = await Harness.start({ journal, store });
  assert.deepEqual(await harness.call(sessionSend, sent), answer);
  assert.equal((await harness.call(sessionTurns, { session_id })).turns.length, 1);
  const fork = await harness.call(sessionFork, { session_id });
  harness.backend.script({ text: 'new' });
  const other = await harness.call(sessionSend, { ...sent, session_id: fork.session_id });
  assert.notEqual(other.turn_id, answer.turn_id);
  await harness.ended(other.turn_id);
});

test('a key stands for one prompt: another one under it is refused and not dropped', async () => {
  await using harness = await Harness.start({ backend: scriptedBackend() });
  const session_id = await harness.create();
  harness.backend.script({ text: 'one' }, { text: 'two' });
  const { turn_id } = await harness.call(sessionSend, { session_id, text: 'one', idempotency_key: 'key' });
  await harness.ended(turn_id);
  for (const [text, idempotency_key] of [
    ['two', 'key'],
    ['one', 'k'.repeat(129)],
  ] as const) {
    await assert.rejects(harness.call(sessionSend, { session_id, text, idempotency_key }), {
      code: 'schema_violation',
      message: /idempotency_key/,
    });
  }
  await harness.turn(session_id, 'one');
  const { messages } = await harness.call(sessionGet, { session_id });
  assert.deepEqual(
    messages.map(({ text }) => text),
    ['one', 'one', 'one', 'two'],
    'without a key each is its own',
  );
});

test('a client that was refused may send again', async () => {
  const disk = diskThatFills();
  await using harness = await Harness.start({ journal: disk.journal });
  const session_id = await harness.create();
  const sent = { session_id, text: 'go', idempotency_key: 'key' };
  disk.isFull = true;
  await assert.rejects(harness.call(sessionSend, sent), { code: 'disk_full' });
  disk.isFull = false;
  harness.backend.script({ text: 'there' });
  const { turn_id } = await harness.call(sessionSend, sent);
  assert.equal((await harness.ended(turn_id)).payload.stop_reason, 'end_turn');
  assert.equal((await harness.call(sessionSend, sent)).turn_id, turn_id);
});
