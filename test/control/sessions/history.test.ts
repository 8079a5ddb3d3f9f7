/** Saved chats: listing, finding, and taking them up again. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EXPORT_FORMAT, importLines } from '../../../src/control/sessions/history/exports.ts';
import {
  historyGet,
  historyList,
  sessionDelete,
  sessionGet,
  sessionRename,
} from '../../../src/protocol/session-rpc.ts';
import { ROLES } from '../../../src/session/roles.ts';
import { HandfastError } from '../../../src/wire/errors.ts';
import { scriptedBackend } from '../support/scripted-backend.ts';
import { ALICE, Harness, inShort, ROOT } from './harness.ts';

const BOB = { name: 'bob', ...ROLES.client, backends: ['*'] };

const fails = (message: string) => (thrown: unknown) => {
  assert.ok(thrown instanceof HandfastError);
  assert.deepEqual([thrown.code, thrown.message], ['not_found', message]);
  return true;
};

/** Saves chats with these prompts, one session each; returns the sessions. */
async function save(harness: Harness, ...prompts: readonly string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const prompt of prompts) {
    const id = await harness.create();
    harness.backend.script({ text: `reply to ${prompt}` });
    await harness.turn(id, prompt);
    ids.push(id);
  }
  return ids;
}

describe('saved chats', () => {
  test('weakness 8: pages have the true total and the true next place, also by a cursor that does not move', async () => {
    await using harness = await Harness.start();
    const [first] = await save(harness, 'one', 'two', 'three', 'four', 'five');
    const page = await harness.call(historyList, { limit: 2 });
    assert.deepEqual([page.total, page.cursor, page.limit, page.next_cursor], [5, 0, 2, 2]);
    const titles = (of: typeof page) => of.sessions.map(({ title }) => title);
    assert.deepEqual(titles(page), ['five', 'four']);
    // The oldest is written to and moves to the front: by offset a row would be shown twice.
    harness.backend.script({ text: 'more' });
    await harness.turn(first!, 'again');
    assert.deepEqual(titles(await harness.call(historyList, { limit: 2, cursor: 2 })), ['four', 'three']);
    const next = await harness.call(historyList, { limit: 2, page_cursor: page.next_page_cursor! });
    assert.deepEqual([titles(next), next.cursor, next.next_cursor], [['three', 'two'], 2, null]);
    const far = await harness.call(historyList, { cursor: 50 });
    assert.deepEqual([far.total, far.sessions, far.next_cursor, far.next_page_cursor], [5, [], null, null]);
    await assert.rejects(harness.call(historyList, { page_cursor: 'nonsense' }), /page_cursor/);
  });

  test('a page has at most 1,000 of them, however many are asked for, and says so', async () => {
    await using harness = await Harness.start();
    const facts = { owner: 'alice', title: 't', provider: null, model: 'm', thinking: 'HIGH', origin: 's' } as const;
    for (let at = 0; at < 1005; at++) harness.store.chats.write({ ...facts, id: `c${at}` }, 0, [], 1);
    const page = await harness.call(historyList, { limit: 1e9 });
    assert.deepEqual([page.total, page.limit, page.sessions.length, page.next_cursor], [1005, 1000, 1000, 1000]);
    const rest = await harness.call(historyList, { limit: 1e9, page_cursor: page.next_page_cursor! });
    assert.deepEqual([rest.sessions.length, rest.sessions.at(-1)?.id, rest.next_cursor], [5, 'c0', null]);
  });

  test('weakness 9: a chat keeps its title while it continues, and follows the name of its session', async () => {
    await using harness = await Harness.start();
    const [id] = await save(harness, 'first prompt');
    harness.backend.script({ text: 'more' });
    await harness.turn(id!, 'second prompt');
    const chat = async () => (await harness.call(historyList, {})).sessions[0];
    assert.deepEqual([(await chat())?.title, (await chat())?.messageCount], ['first prompt', 4]);
    await harness.call(sessionRename, { session_id: id!, title: 'renamed' });
    assert.equal((await chat())?.title, 'renamed');
  });

  test('weakness 10: a chat remembers its tools, and gives them to the session that loads it', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    harness.backend.script(
      { text: 'Looking.', tool_calls: [{ id: 'c1', name: 'bash', input: { command: 'echo found' } }] },
      { text: ' Done.' },
    );
    await harness.turn(id, 'look');
    const { id: chat, messages } = await harness.call(historyGet, { last: true });
    assert.deepEqual(
      messages.map(({ role, text }) => [role, text]),
      [
        ['user', 'look'],
        ['assistant', 'Looking. Done.'],
      ],
    );
    const other = await harness.create();
    await harness.sessions.resumeChat(other, chat, ALICE);
    const tool = harness.sessions.open(other).record.history[2];
    assert.ok(tool?.role === 'tool');
    assert.deepEqual([tool.callId, tool.ok, tool.result], ['c1', true, 'found\n']);
  });

  test('a failed or interrupted turn is saved, a turn no model was asked about is not', async () => {
    let configured = true;
    await using harness = await Harness.start({ backend: scriptedBackend({ isConfigured: () => configured }) });
    const id = await harness.create();
    harness.backend.script({ error: 'broken' });
    await harness.turn(id, 'fails');
    assert.equal((await harness.call(historyList, {})).sessions[0]?.messageCount, 1);
    configured = false;
    const other = await harness.create();
    await harness.turn(other, 'never asked');
    assert.equal((await harness.call(historyList, {})).total, 1);
  });

  test('weakness 27: a path finds only what was handed out, and tells nothing of the disk', async () => {
    await using harness = await Harness.start();
    await save(harness, 'one');
    const { sessions } = await harness.call(historyList, {});
    const path = sessions[0]!.rolloutPath;
    assert.equal((await harness.call(historyGet, { rollout_path: path })).title, 'one');
    for (const foreign of ['/etc/passwd', 'no-such-file', `../${path}`, `${path}/..`, 'chats/x.jsonl']) {
      await assert.rejects(
        harness.call(historyGet, { rollout_path: foreign }),
        fails(`failed to load chat: ${foreign}`),
      );
    }
    await assert.rejects(harness.call(historyGet, { rollout_path: path }, BOB), fails(`failed to load chat: ${path}`));
  });

  test('are found by id in either case and by an unmistakable beginning, and only by their owner', async () => {
    let count = 0;
    const newId = () => {
      count += 1;
      return `aa${count}bb-0000`;
    };
    await using harness = await Harness.start({ newId });
    await save(harness, 'one', 'two');
    const [two, one] = (await harness.call(historyList, {})).sessions;
    assert.equal((await harness.call(historyGet, { id: one!.id.toUpperCase() })).title, 'one');
    assert.equal((await harness.call(historyGet, { id: two!.id.slice(0, 4) })).title, 'two');
    await assert.rejects(harness.call(historyGet, { id: 'aa' }), fails('no saved chat matched id: aa'));
    await assert.rejects(harness.call(historyGet, { id: '%' }), fails('no saved chat matched id: %'));
    await assert.rejects(harness.call(historyGet, { id: one!.id }, BOB), fails(`no saved chat matched id: ${one!.id}`));
    await assert.rejects(harness.call(historyGet, { last: true }, BOB), fails('no saved chat history yet'));
    assert.equal((await harness.call(historyList, {}, BOB)).total, 0);
    assert.equal((await harness.call(historyList, {}, ROOT)).total, 2);
  });

  test('loading one replaces messages and history, reports it, and continues in the same chat', async () => {
    await using harness = await Harness.start();
    await save(harness, 'old');
    const { sessions } = await harness.call(historyList, {});
    const chat = sessions[0]!.id;
    const id = await harness.create();
    harness.backend.script({ text: 'unrelated' }, { text: 'new reply' });
    await harness.turn(id, 'something else');
    const resumed = await harness.sessions.resumeChat(id, chat.slice(0, 12), ALICE);
    assert.equal(resumed, chat);
    const { settings } = harness.sessions.open(id).record;
    assert.deepEqual(settings, { model: 'scripted-1', provider: 'openai', thinking: 'HIGH' });
    const state = await harness.call(sessionGet, { session_id: id });
    assert.equal(state.activeSessionId, chat);
    assert.equal(state.title, 'old');
    assert.deepEqual(state.history, [
      { role: 'user', text: 'old' },
      { role: 'assistant', text: 'reply to old' },
    ]);
    assert.deepEqual(
      state.messages.map(({ text }) => text),
      ['old', 'reply to old'],
    );
    assert.ok(inShort(harness.events(id)).includes('session.cleared'));
    await harness.turn(id, 'and now');
    const saved = await harness.call(historyGet, { id: chat });
    assert.equal(saved.messageCount, 4);
    assert.equal((await harness.call(historyList, {})).total, 2);
  });

  test('weakness 12: two sessions in one chat never overwrite each other: the second continues in a copy', async () => {
    await using harness = await Harness.start();
    const [writer] = await save(harness, 'shared');
    const chat = (await harness.call(historyList, {})).sessions[0]!.id;
    const second = await harness.create();
    await harness.sessions.resumeChat(second, undefined, ALICE);
    harness.backend.script({ text: 'first goes on' }, { text: 'second goes on' }, { text: 'and on' });
    await harness.turn(writer!, 'mine');
    await harness.turn(second, 'yours');
    await harness.turn(second, 'more');
    const texts = async (id: string) =>
      (await harness.call(historyGet, { id })).messages.filter(({ role }) => role === 'user').map(({ text }) => text);
    const copy = (await harness.call(sessionGet, { session_id: second })).activeSessionId!;
    assert.notEqual(copy, chat);
    assert.deepEqual(
      [await texts(chat), await texts(copy)],
      [
        ['shared', 'mine'],
        ['shared', 'yours', 'more'],
      ],
    );
  });

  test('are removed with the session that started them, unless another has continued them', async () => {
    await using harness = await Harness.start();
    const [one, two] = await save(harness, 'one', 'two');
    const chatOfTwo = (await harness.call(sessionGet, { session_id: two! })).activeSessionId!;
    const other = await harness.create();
    await harness.sessions.resumeChat(other, chatOfTwo, ALICE);
    harness.backend.script({ text: 'more' });
    await harness.turn(other, 'more');
    await harness.call(sessionDelete, { session_id: one! });
    await harness.call(sessionDelete, { session_id: two! });
    const { sessions } = await harness.call(historyList, {});
    assert.deepEqual(
      sessions.map(({ id }) => id),
      [chatOfTwo],
    );
  });

  test('a chat that cannot be saved is reported in the session, whose turn ends as it would have', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    harness.store.chats.write = () => {
      throw new Error('no room');
    };
    harness.backend.script({ text: 'fine' });
    await harness.turn(id, 'hello');
    assert.deepEqual(inShort(harness.events(id)).slice(-4), [
      'assistant fine',
      'system chat history save failed: no room',
      'completed end_turn',
      'status ready',
    ]);
  });

  test('taking one up while a turn runs ends that first', async () => {
    await using harness = await Harness.start();
    await save(harness, 'old');
    const id = await harness.create();
    harness.backend.script({ delay_ms: 60_000 });
    const running = await harness.send(id, 'wait');
    const chat = (await harness.call(historyList, {})).sessions[0]!.id;
    await harness.sessions.resumeChat(id, chat, ALICE);
    assert.equal((await harness.ended(running)).payload.stop_reason, 'cleared');
    await assert.rejects(harness.sessions.resumeChat(id, 'zzz', ALICE), fails('no saved chat matched id: zzz'));
  });
});

test('an import keeps what was left out for a provider, and nothing of another shape', async () => {
  const mark = (leavesOut: unknown) => ({ role: 'user', turn: 'a', text: '', unsent: true, leavesOut });
  const history = [
    { role: 'user', turn: 'a', text: 'refused' },
    mark({ part: 'turn', reason: `no ${'o'.repeat(1_000)}`, more: 1 }),
    mark({ part: 'all', reason: 'no' }),
    mark({ part: 'turn', reason: 1 }),
    mark('turn'),
  ];
  const payload = { head: { record: { title: '' } }, messages: [], history, turns: [] };
  const { history: taken } = await importLines([
    JSON.stringify({ format: EXPORT_FORMAT, seq: 1 }),
    JSON.stringify({ seq: 1, kind: 'record.restored', timestamp: '', payload }),
  ]);
  const leftOut = taken.map((item) => (item.role === 'user' ? item.leavesOut : undefined));
  assert.deepEqual(Object.keys(leftOut[1] ?? {}), ['part', 'reason']);
  assert.ok(leftOut[1]!.reason.length <= 400);
  assert.deepEqual([leftOut[0], ...leftOut.slice(2)], [undefined, undefined, undefined, undefined]);
});
