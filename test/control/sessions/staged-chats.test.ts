/** Chats that are written in parts before any client can see them, also when their turn or process ends before. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { openSessionStore } from '../../../src/control/sessions/store/store.ts';
import type { SavedChats } from '../../../src/control/sessions/store/store-chats.ts';
import { historyList, sessionInterrupt } from '../../../src/protocol/session-rpc.ts';
import { scriptedBackend } from '../support/scripted-backend.ts';
import { Harness } from './harness.ts';

const FACTS = { owner: 'alice', title: 't', provider: null, model: 'm', thinking: 'HIGH', origin: 's1' } as const;

const turnsFrom = (first: number, count: number) =>
  Array.from({ length: count }, (_, at) => {
    const turn = `t${first + at}`;
    return { turn, items: [{ role: 'user' as const, turn, text: 'x'.repeat(1_000) }], messageCount: 1 };
  });

function storeIn(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'staged-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'sessions.db');
  const count = (sql: string): number => {
    const db = new DatabaseSync(file);
    try {
      return db.prepare(sql).get()?.n as number;
    } finally {
      db.close();
    }
  };
  return {
    open: () => openSessionStore({ file }),
    rows: () => count('SELECT count(*) AS n FROM chat_turns'),
    keys: () => count('SELECT count(DISTINCT key) AS n FROM chats'),
  };
}

function staged(chats: SavedChats, id: string, count: number) {
  const chat = chats.stage(id);
  for (const _ of chats.addStaged(chat, turnsFrom(0, count))) assert.equal(chats.get(id), undefined);
  assert.equal(chat.length, count);
  return chat;
}

test('a staged chat is no chat until it is written; one of a killed process is gone', (t) => {
  const { open, rows, keys } = storeIn(t);
  const store = open();
  const { chats } = store;
  const first = staged(chats, 'c1', 300);
  assert.deepEqual([chats.count(null), chats.list(null, { before: null, skip: 0 }, 10)], [0, []]);
  assert.equal(chats.find(null, 'c'), undefined);
  // Beside it: a chat that is written at once, and another staged chat.
  chats.write({ ...FACTS, id: 'c2' }, 0, turnsFrom(0, 2), 1);
  staged(chats, 'lost', 5);
  chats.write({ ...FACTS, id: 'c1' }, first.length, turnsFrom(300, 1), 2, first);
  chats.write({ ...FACTS, id: 'c3' }, 0, turnsFrom(0, 1), 3);
  store.close();

  assert.deepEqual([rows(), keys()], [301 + 2 + 5 + 1, 3]);
  const again = open();
  const listed = again.chats.list(null, { before: null, skip: 0 }, 10);
  assert.deepEqual(
    listed.map(({ id, length, messageCount }) => [id, length, messageCount]),
    [
      ['c3', 1, 1],
      ['c1', 301, 301],
      ['c2', 2, 2],
    ],
  );
  assert.equal(again.chats.lastTurn('c1'), 't300');
  again.chats.write({ ...FACTS, id: 'c1' }, 301, turnsFrom(301, 1), 4);
  assert.deepEqual([again.chats.get('c1')?.messageCount, again.chats.lastTurn('c1')], [302, 't301']);
  again.chats.remove('c1');
  again.close();
  assert.equal(rows(), 3);
});

test('keys of staged chats stay free also when others are written and removed meanwhile', (t) => {
  const { open } = storeIn(t);
  const { chats, close } = open();
  t.after(close);
  const open1 = staged(chats, 's1', 1);
  const open2 = staged(chats, 's2', 2);
  chats.write({ ...FACTS, id: 's2' }, 2, [], 1, open2);
  chats.write({ ...FACTS, id: 'a' }, 0, turnsFrom(0, 3), 2);
  chats.remove('a');
  const open3 = staged(chats, 's3', 3);
  chats.write({ ...FACTS, id: 'b' }, 0, turnsFrom(0, 4), 3);
  for (const [chat, id] of [
    [open1, 's1'],
    [open3, 's3'],
  ] as const)
    chats.write({ ...FACTS, id }, chat.length, [], 4, chat);
  assert.deepEqual(
    ['s1', 's2', 's3', 'b'].map((id) => chats.get(id)?.length),
    [1, 2, 3, 4],
  );
});

test('a turn that is interrupted while its chat is prepared saves the conversation once, and the next one too', async (t) => {
  const backend = scriptedBackend();
  const folder = mkdtempSync(join(tmpdir(), 'staged-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const store = openSessionStore({ file: join(folder, 'sessions.db') });
  const harness = await Harness.start({ backend, store });
  const id = await harness.create();
  const session = harness.sessions.open(id);
  for (let n = 0; n < 400; n += 1)
    session.remember([{ role: 'assistant', turn: `t${n}`, text: `${n} ${'y'.repeat(8_000)}` }]);
  const { chats } = store;
  const addStaged = chats.addStaged.bind(chats);
  t.mock.method(chats, 'addStaged', function* (...of: Parameters<typeof addStaged>) {
    const work = addStaged(...of);
    work.next();
    void harness.call(sessionInterrupt, { session_id: id });
    yield* work;
  });
  await harness.ended(await harness.send(id, 'stop'));
  t.mock.restoreAll();
  assert.equal(backend.requests.length, 0);
  const [chat] = (await harness.call(historyList, {})).sessions;
  assert.equal(chats.get(chat?.id ?? '')?.length, 401);
  backend.script({ text: 'done' });
  await harness.turn(id, 'go on');
  const { sessions } = await harness.call(historyList, {});
  assert.deepEqual(
    sessions.map((each) => [each.id, chats.get(each.id)?.length]),
    [[chat?.id, 402]],
  );
  // The size of a chat reads all of it: a turn that continues its chat does not ask for it.
  const size = t.mock.method(chats, 'size');
  backend.script({ text: 'done' });
  await harness.turn(id, 'and on');
  assert.equal(size.mock.callCount(), 0);
  await harness.stop();
});
