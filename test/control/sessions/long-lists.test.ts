/** Long lists: how much of them is in memory, and how much is read to open, continue and page through a long session. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { atOnce } from '../../../src/base/turns.ts';
import { longReply } from '../../../src/control/sessions/history/long-replies.ts';
import { ChunkedList, type ChunkSource, type ListChange } from '../../../src/control/sessions/record/chunked-list.ts';
import { NEWEST } from '../../../src/control/sessions/record/folded.ts';
import {
  historyGet,
  historyList,
  sessionFork,
  sessionGet,
  sessionLoad,
  sessionMessages,
  sessionResume,
  sessionSend,
} from '../../../src/protocol/session-rpc.ts';
import type { HandfastError } from '../../../src/wire/errors.ts';
import { countedTurns } from '../../support/counted-turns.ts';
import fc from '../../support/properties.ts';
import { scriptedBackend } from '../support/scripted-backend.ts';
import { Harness, QUIET } from './harness.ts';

/** Stored chunks, as the catalogue has them; counts the texts that are read. */
class Chunks implements ChunkSource {
  readonly #rows: { place: ReturnType<ChunkSource['place']>; text: string }[] = [];
  reads = 0;

  get count(): number {
    return this.#rows.length;
  }

  place(number: number): ReturnType<ChunkSource['place']> {
    return this.#rows[number]!.place;
  }

  read(number: number): string {
    this.reads += 1;
    return this.#rows[number]!.text;
  }

  store(change: ListChange | undefined): void {
    for (const { number, items, ...place } of change?.chunks ?? [])
      this.#rows[number] = { place, text: JSON.stringify(items) };
    if (change !== undefined) this.#rows.length = change.count;
  }
}

type Step =
  | { readonly do: 'push' | 'replace'; readonly sizes: readonly number[] }
  | { readonly do: 'set' | 'slice' | 'newest'; readonly at: number }
  | { readonly do: 'store' | 'trim' | 'reopen' };

const sizes = fc.array(fc.integer({ min: 1, max: 20_000 }), { maxLength: 8 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('push' as const), sizes }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('replace' as const), sizes }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('set', 'slice', 'newest'), at: fc.nat(60) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('store', 'trim', 'reopen') }) },
);

test('a list of which parts are in the store alone is the list that it would be in memory', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      let list = new ChunkedList<{ n: number }>();
      const chunks = new Chunks();
      let expected: { n: number; size: number }[] = [];
      let n = 0;
      const store = (): void => {
        chunks.store(list.change());
        list.stored();
      };
      for (const one of steps) {
        switch (one.do) {
          case 'push':
            for (const size of one.sizes) {
              n += 1;
              list.push({ n }, size, n);
              expected.push({ n, size });
            }
            break;
          case 'replace':
            expected = one.sizes.map((size) => ({ n: ++n, size }));
            list.replace(
              expected.map((item) => ({ n: item.n })),
              one.sizes.reduce((all, size) => all + size, 0),
            );
            break;
          case 'set':
            if (one.at >= expected.length) break;
            n += 1;
            list.set(one.at, { n });
            expected[one.at] = { n, size: expected[one.at]!.size };
            break;
          case 'slice':
            assert.deepEqual(
              list.slice(one.at, one.at + 7).map((item) => item.n),
              expected.slice(one.at, one.at + 7).map((item) => item.n),
            );
            break;
          case 'newest': {
            const some = list.newest(one.at * 1000).map((item) => item.n);
            assert.deepEqual(
              some,
              expected.slice(expected.length - some.length).map((item) => item.n),
            );
            break;
          }
          case 'store':
            store();
            break;
          case 'trim':
            store();
            list.trim(chunks, 1000);
            break;
          case 'reopen':
            store();
            list = ChunkedList.stored(chunks);
        }
        const numbers = expected.map((item) => item.n);
        assert.equal(list.length, expected.length);
        assert.deepEqual(
          [...list.forward(3)].map((item) => item.n),
          numbers.slice(3),
        );
        assert.deepEqual(
          [...list.backward(numbers.length - 2)].map((item) => item.n),
          numbers.slice(0, -2).reverse(),
        );
      }
      assert.equal(list.last?.n, expected.at(-1)?.n);
      assert.deepEqual(
        list.items.map((item) => item.n),
        expected.map((item) => item.n),
      );
    }),
    { numRuns: 300 },
  );
});

const KIB = 1024;

/** Starts a server with one stored session with this number of turns, whose answers are long: nothing of it is in memory. */
async function longSession(turns: number, characters: number) {
  const first = await Harness.start();
  const id = await first.create();
  const session = first.sessions.open(id);
  for (let n = 0; n < turns; n += 1) {
    const turn = `t${n}`;
    const [prompt, answer] = [`prompt ${n}`, `${n} ${'x'.repeat(characters)}`];
    session.appendMessage('user', prompt, turn);
    session.appendMessage('assistant', answer, turn);
    session.remember([
      { role: 'user', turn, text: prompt },
      { role: 'assistant', turn, text: answer },
    ]);
  }
  await session.flushed();
  await first.sessions.stop();
  const { store, journal } = first;
  const backend = scriptedBackend();
  const harness = await Harness.start({ store, journal, backend });
  return { harness, id, backend, store };
}

/** Runs work; returns the number of characters of JSON that were parsed meanwhile. */
async function parsing<Result>(work: () => Promise<Result>): Promise<{ result: Result; parsed: number }> {
  const { parse } = JSON;
  let parsed = 0;
  JSON.parse = (text: string, ...more) => {
    parsed += text.length;
    return parse(text, ...more);
  };
  try {
    return { result: await work(), parsed };
  } finally {
    JSON.parse = parse;
  }
}

test('opening a long session reads and sends its end, and a request for all of it is an error', async () => {
  const { harness, id } = await longSession(400, 64 * KIB);
  for (const method of [sessionGet, sessionResume, sessionLoad]) {
    const { result, parsed } = await parsing(() =>
      harness.call<object, object>(method as never, { session_id: id, messages: 100 }),
    );
    assert.ok(JSON.stringify(result).length <= 256 * KIB, method.name);
    assert.ok(parsed <= 512 * KIB, `${method.name} parsed ${parsed}`);
    const state = 'state' in result ? result.state : result;
    const { messages, message_count, messages_cursor } = state as Awaited<
      ReturnType<typeof harness.call<object, never>>
    >;
    assert.equal(message_count, 800);
    assert.equal((messages as { text: string }[]).at(-1)?.text.slice(0, 4), '399 ');
    assert.equal(typeof messages_cursor, 'string');
    const isTooLarge = ({ code, message }: HandfastError) =>
      code === 'too_large' && message.includes('session.messages');
    await assert.rejects(harness.call<object, object>(method as never, { session_id: id }), isTooLarge);
  }
  await assert.rejects(harness.call(sessionFork, { session_id: id }), { code: 'too_large' });
  await harness.stop();
});

test('a session that just fits a reply is read and written in many turns of the event loop, and so is its chat', async (t) => {
  const { harness, id, backend } = await longSession(200, 64 * KIB);
  const turns = countedTurns(t);
  const counted = async <Result>(title: string, work: () => Promise<Result>): Promise<Result> => {
    const before = turns();
    const result = await work();
    assert.ok(turns() - before >= 10, `${title} took ${turns() - before} turns`);
    return result;
  };
  const state = await counted('get', () => harness.call(sessionGet, { session_id: id }));
  assert.deepEqual([state.messages.length, state.history.length], [400, 400]);
  const loaded = await counted('load', () => harness.call(sessionLoad, { session_id: id }));
  assert.deepEqual(loaded.state.messages, state.messages);
  const fork = await counted('fork', () => harness.call(sessionFork, { session_id: id }));
  assert.deepEqual(fork.state.history, state.history);
  backend.script({ text: 'done' });
  await harness.turn(fork.session_id, 'go on');
  const chat = await counted('the chat', () => harness.call(historyGet, { last: true }));
  assert.deepEqual(chat.messages.slice(0, 400), state.history);
  await harness.stop();
});

test('items that were measured together are stored, also where their size has no equal whole parts', async () => {
  const warnings: string[] = [];
  const warn = (message: string, facts?: object): void => void warnings.push(`${message} ${JSON.stringify(facts)}`);
  const harness = await Harness.start({ log: { ...QUIET, warn } });
  const id = await harness.create();
  const session = harness.sessions.open(id);
  for (let n = 0; n < 40; n += 1) {
    const turn = `t${n}`;
    const answers = Array.from({ length: 1 + (n % 7) }, (_, at) => `${'y'.repeat(7_001)}${at}`);
    session.remember(answers.map((text) => ({ role: 'assistant', turn, text })));
  }
  await session.flushed();
  await harness.stop();
  assert.deepEqual(warnings, []);
});

test('a long reply is the JSON of its value', async () => {
  const items = Array.from({ length: 50 }, (_, at) => ({ at, text: `"\u2028é${'x'.repeat(20_000)}`, left: undefined }));
  const value = { a: 1, none: undefined, empty: [], of: { items, at: new Date(0), deep: { deeper: { list: [1] } } } };
  const withHole = { ...value, hole: [undefined, null, () => 1] };
  for (const each of [value, withHole, {}]) {
    const reply = await longReply(each, 1024 * KIB);
    assert.equal(reply.text(), JSON.stringify(each));
    assert.equal(reply.value(), each);
  }
});

test('the messages of a long session are paged in both directions, each page of a bounded size', async () => {
  const { harness, id } = await longSession(60, 64 * KIB);
  for (const order of ['oldest', 'newest'] as const) {
    const texts: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await harness.call(sessionMessages, { session_id: id, order, limit: 50, ...(cursor && { cursor }) });
      assert.ok(JSON.stringify(page).length <= 512 * KIB);
      assert.equal(page.total, 120);
      texts.push(...page.messages.map(({ text }) => text.slice(0, 10)));
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
    if (order === 'newest') texts.reverse();
    const expected = Array.from({ length: 60 }, (_, n) => [`prompt ${n}`.slice(0, 10), `${n} xxxxxxxxxx`.slice(0, 10)]);
    assert.deepEqual(texts, expected.flat());
  }
  await harness.stop();
});

test('a page that begins in the middle follows the messages, and its events are found by number', async () => {
  const { harness, id } = await longSession(60, 8 * KIB);
  const state = await harness.call(sessionGet, { session_id: id, messages: 5 });
  const cursor = state.messages_cursor ?? '';
  const page = await harness.call(sessionMessages, { session_id: id, order: 'newest', limit: 5, cursor });
  assert.equal(page.messages[0]?.id, (state.messages[0]?.id ?? 0) - 1);
  const { events } = await harness.sessions.events.read(id, state.messages_after_seq ?? 0, 1000);
  const appended = events.map(({ params }) => (params.payload.message as { id: number } | undefined)?.id);
  for (const { id: message } of state.messages) assert.ok(appended.includes(message));
  assert.ok((state.messages_after_seq ?? 0) > 0);
  await harness.stop();
});

test('a prompt in a long session runs with the end of its history, and holds no more in memory', async () => {
  const { harness, id, backend } = await longSession(400, 64 * KIB);
  backend.script({ text: 'done' });
  const { parsed } = await parsing(() => harness.turn(id, 'go on'));
  assert.ok(parsed < 4 * NEWEST.history, `parsed ${parsed}`);
  const [request] = backend.requests;
  const given = JSON.stringify(request?.history).length;
  assert.ok(given > NEWEST.history / 2 && given < 2 * NEWEST.history, `given ${given}`);
  const { used: bytes } = harness.sessions.memory;
  assert.ok(bytes < 2 * NEWEST.history, `held ${bytes}`);
  await harness.stop();
});

test('a long session is saved whole as a chat in many turns, and is too long for a reply however short its compressed text is', async (t) => {
  const { harness, id, backend, store } = await longSession(540, 64 * KIB);
  backend.script({ text: 'done' });
  const turns = countedTurns(t);
  await harness.turn(id, 'go on');
  assert.ok(turns() >= 20, `${turns()} turns`);
  const [chat] = (await harness.call(historyList, {})).sessions;
  assert.equal(chat?.messageCount, 2 * 541);
  const items = atOnce(store.chats.items(chat.id));
  assert.deepEqual([items[0]?.turn, items.length], ['t0', 2 * 541]);
  await assert.rejects(harness.call(historyGet, { id: chat.id }), { code: 'too_large' });

  // Another session continues it, then the first one: in a copy, which is written in parts too.
  store.chats.write(store.chats.get(chat.id)!, 541, [{ turn: 'other', items: [], messageCount: 0 }], 0);
  backend.script({ text: 'done again' });
  const before = turns();
  await harness.turn(id, 'and on');
  assert.ok(turns() - before >= 8, `${turns() - before} turns`);
  const [copy] = (await harness.call(historyList, {})).sessions;
  assert.notEqual(copy?.id, chat.id);
  assert.equal(copy?.messageCount, 2 * 542);
  const copied = atOnce(store.chats.items(copy.id));
  assert.deepEqual(copied.slice(0, items.length), items);
  assert.deepEqual(
    copied.slice(items.length).map((item) => (item.role === 'tool' ? '' : item.text)),
    ['and on', 'done again'],
  );
  await harness.stop();
});

test('a prompt that is longer than its row is known again by its key, and by all of its text', async () => {
  const harness = await Harness.start();
  const id = await harness.create();
  harness.backend.script({ text: 'done' });
  const text = `${'p'.repeat(10_000)}1`;
  const first = await harness.call(sessionSend, { session_id: id, text, idempotency_key: 'k' });
  await harness.ended(first.turn_id);
  const again = await harness.call(sessionSend, { session_id: id, text, idempotency_key: 'k' });
  assert.equal(again.turn_id, first.turn_id);
  const other = `${'p'.repeat(10_000)}2`;
  await assert.rejects(harness.call(sessionSend, { session_id: id, text: other, idempotency_key: 'k' }), {
    code: 'schema_violation',
  });
  await harness.stop();
});
