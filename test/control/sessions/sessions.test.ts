/**
 * Sessions as such: their owners, and how they are listed, opened, closed, forked and deleted.
 */
// A process of its own: its stores fail, and the failures stay in the process.
import assert from 'node:assert/strict';
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import {
  historyClear,
  queueClear,
  sessionClose,
  sessionConfigure,
  sessionDelete,
  sessionExport,
  sessionFork,
  sessionGet,
  sessionImport,
  sessionInterrupt,
  sessionList,
  sessionLoad,
  sessionMessages,
  sessionRename,
  sessionResume,
  sessionSend,
  sessionTurns,
} from '../../../src/protocol/session-rpc.ts';
import { ROLES } from '../../../src/session/roles.ts';
import { HandfastError } from '../../../src/wire/errors.ts';
import { scriptedBackend } from '../support/scripted-backend.ts';
import { Harness, inShort, isTerminal, ROOT } from './harness.ts';

const failsWith = (code: string, message?: RegExp | string) => (thrown: unknown) => {
  assert.ok(thrown instanceof HandfastError);
  assert.equal(thrown.code, code);
  if (typeof message === 'string') assert.equal(thrown.message, message);
  else if (message !== undefined) assert.match(thrown.message, message);
  return true;
};

const BOB = { name: 'bob', ...ROLES.client, backends: ['*'] };

describe('a session', () => {
  test('weakness 9: keeps the title it was given; without one its first prompt is the title, for good', async () => {
    await using harness = await Harness.start();
    const named = await harness.create({ title: 'My title' });
    const plain = await harness.create();
    harness.backend.script({ text: '1' }, { text: '2' }, { text: '3' });
    await harness.turn(named, 'hello');
    await harness.turn(plain, `  first \n prompt ${'x'.repeat(100)}`);
    await harness.turn(plain, 'second prompt');
    const title = async (session_id: string) => (await harness.call(sessionGet, { session_id })).title;
    assert.equal(await title(named), 'My title');
    assert.equal(await title(plain), `first prompt ${'x'.repeat(67)}`);
    await harness.call(sessionRename, { session_id: plain, title: 'Another' });
    assert.equal(await title(plain), 'Another');
  });

  test('weakness 12: can be listed, closed, opened again, and forgotten', async () => {
    await using harness = await Harness.start();
    const id = await harness.create({ title: 'one' });
    harness.backend.script({ text: 'hi' }, { text: 'again' });
    await harness.turn(id, 'hello');
    await harness.call(sessionClose, { session_id: id });
    assert.equal((await harness.call(sessionList, {})).total, 0);
    const { sessions } = await harness.call(sessionList, { include_closed: true });
    assert.deepEqual([sessions[0]?.session_id, sessions[0]?.closed, sessions[0]?.message_count], [id, true, 2]);
    assert.deepEqual(harness.sessions.liveIds(), []);
    await assert.rejects(harness.send(id, 'x'), failsWith('session_closed'));
    const loaded = await harness.call(sessionLoad, { session_id: id });
    assert.deepEqual([loaded.state.closed, loaded.state.messages.length], [false, 2]);
    assert.equal(loaded.replayed_to_seq, loaded.state.seq);
    assert.deepEqual(harness.sessions.liveIds(), [id]);
    await harness.turn(id, 'go on');
    const log = harness.sessions.open(id);
    await harness.call(sessionDelete, { session_id: id });
    await assert.rejects(
      harness.call(sessionGet, { session_id: id }),
      failsWith('session_not_found', `unknown session: ${id}`),
    );
    assert.throws(() => log.emit('session.renamed', { title: 'x' }), failsWith('session_closed'));
    assert.equal((await harness.call(sessionList, { include_closed: true })).total, 0);
    assert.deepEqual(
      (await harness.journal.sessions()).map(({ session }) => session).filter((stream) => stream.includes(id)),
      [],
    );
    assert.deepEqual(
      harness.events('').map(({ payload }) => payload.reason),
      ['session_created', 'session_closed', 'session_loaded', 'session_deleted'],
    );
    assert.deepEqual(harness.backend.released, [id, id]);
  });

  test('that is closed while a turn runs ends it, and what waits, first', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    harness.backend.script({ delay_ms: 60_000 });
    const running = await harness.send(id, 'one');
    const waiting = await harness.send(id, 'two', { enqueue: true });
    await harness.call(sessionClose, { session_id: id });
    const ends = harness.events(id).filter(isTerminal);
    assert.deepEqual(
      ends.map(({ payload }) => [payload.turn_id, payload.stop_reason]),
      [
        [waiting, 'closed'],
        [running, 'closed'],
      ],
    );
    assert.deepEqual(inShort(harness.events(id)).slice(-2), ['status ready', 'session.closed']);
  });

  test('that is deleted while a turn runs ends it exactly once', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    harness.backend.script({ delay_ms: 60_000 });
    const running = await harness.send(id, 'one');
    await harness.call(sessionDelete, { session_id: id });
    const { payload } = await harness.ended(running);
    assert.equal(payload.stop_reason, 'closed');
    const closed = harness.events(id).at(-1);
    assert.deepEqual([closed?.type, closed?.payload.reason], ['session.closed', 'deleted']);
  });

  test('belongs to the principal that made it: for all others but an administrator it does not exist', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    const asBob = { session_id: id };
    for (const call of [
      () => harness.call(sessionGet, asBob, BOB),
      () => harness.call(sessionSend, { ...asBob, text: 'x' }, BOB),
      () => harness.call(sessionInterrupt, asBob, BOB),
      () => harness.call(sessionClose, asBob, BOB),
      () => harness.call(sessionDelete, asBob, BOB),
      () => harness.call(sessionFork, asBob, BOB),
      () => harness.call(sessionExport, asBob, BOB),
      () => harness.call(sessionMessages, asBob, BOB),
      () => harness.call(queueClear, asBob, BOB),
      () => harness.call(historyClear, asBob, BOB),
    ]) {
      await assert.rejects(call, failsWith('session_not_found', `unknown session: ${id}`));
    }
    assert.equal((await harness.call(sessionList, {}, BOB)).total, 0);
    assert.equal((await harness.call(sessionList, {}, ROOT)).sessions[0]?.owner, 'alice');
    assert.equal((await harness.call(sessionGet, { session_id: id }, ROOT)).id, id);
    assert.deepEqual(harness.sessions.liveIds('bob'), []);
  });

  test('weakness 13: has a working directory and settings of its own', async () => {
    const cwd = realpathSync(mkdtempSync(join(tmpdir(), 'handfast-cwd-')));
    writeFileSync(join(cwd, 'file'), '');
    await using harness = await Harness.start({ defaults: { model: 'the default', thinking: 'HIGH' } });
    const id = await harness.create({ cwd, model: 'mine', thinking_level: 'low', max_rounds: 3 });
    const other = await harness.create();
    harness.backend.script({ text: '1' }, { text: '2' });
    await harness.turn(id, 'hello');
    await harness.turn(other, 'hello');
    const [mine, theirs] = harness.backend.turns;
    assert.deepEqual([mine?.cwd, theirs?.cwd], [cwd, process.cwd()]);
    assert.deepEqual(mine?.settings, { model: 'mine', thinking: 'LOW', maxRounds: 3 });
    assert.deepEqual(theirs?.settings, { model: 'the default', thinking: 'HIGH' });
    for (const bad of [join(cwd, 'file'), join(cwd, 'none')]) {
      await assert.rejects(
        harness.create({ cwd: bad }),
        failsWith('schema_violation', /`cwd` must be the path of a folder/),
      );
    }
    rmSync(cwd, { recursive: true });
  });

  test('can be configured, and refuses what it does not understand', async () => {
    await using harness = await Harness.start();
    const id = await harness.create({ approvals: 'deny' });
    const { settings } = await harness.call(sessionConfigure, {
      session_id: id,
      parallel_tools: true,
      provider: 'openai',
    });
    assert.deepEqual(settings, { approvals: 'deny', parallelTools: true, provider: 'openai' });
    for (const bad of [
      { thinking_level: 'ultra' },
      { provider: 'acme' },
      { max_rounds: 0 },
      { turn_timeout_ms: 1.5 },
    ]) {
      const [field] = Object.keys(bad);
      await assert.rejects(
        harness.call(sessionConfigure, { session_id: id, ...bad }),
        failsWith('schema_violation', new RegExp(`\`${field}\` must be `)),
      );
    }
    await assert.rejects(harness.create({ backend: 'none' }), failsWith('schema_violation', /one of: scripted/));
    await assert.rejects(harness.create({ mcp_servers: ['x'] }), failsWith('schema_violation', /mcp_servers/));
  });

  test('follows the default backend of the moment, unless it names one', async () => {
    const other = scriptedBackend({ name: 'other' });
    let name = 'scripted';
    await using harness = await Harness.start({ backends: [other], defaultBackend: () => name });
    const id = await harness.create();
    const fixed = await harness.create({ backend: 'scripted' });
    name = 'other';
    other.script({ text: 'from the other' });
    harness.backend.script({ text: 'from the first' });
    await harness.turn(id, 'hello');
    await harness.turn(fixed, 'hello');
    assert.deepEqual([other.turns.length, harness.backend.turns.length], [1, 1]);
    assert.equal((await harness.call(sessionGet, { session_id: id })).backend, 'other');
  });

  test('weakness 12: is unloaded when nothing happens in it, and loaded when it is asked for', async () => {
    await using harness = await Harness.start({ limits: { idleMs: 5 } });
    const id = await harness.create();
    harness.backend.script({ text: 'hi' }, { text: 'again' });
    await harness.turn(id, 'hello');
    const held = harness.sessions.open(id);
    const released: string[] = [];
    harness.journal.release = (session) => void released.push(session);
    const deadline = performance.now() + 60_000;
    while (harness.sessions.opened().length > 0) {
      assert.ok(performance.now() < deadline, 'it was not let go of');
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    assert.equal(released.length, 1, 'its reserved cursors are given back');
    // A reference a caller had to it is the same session still.
    assert.equal(harness.sessions.events.ownerOf(id), 'alice');
    assert.equal(held.record.messages.length, 2);
    assert.equal(harness.sessions.open(id), held);
    await harness.turn(id, 'again');
    assert.equal(held.record.messages.length, 4);
  });

  test('weakness 18: there are only so many; a busy server says so, one with stale sessions closes the stalest', async () => {
    let now = Date.parse('2026-01-01T00:00:00Z');
    // Its owner may have all of them.
    const principalOf = (name: string) => ({ name, limits: { maxSessions: 4 } });
    await using harness = await Harness.start({ limits: { sessions: 2 }, now: () => now, principalOf });
    const stale = await harness.create();
    const fresh = await harness.create();
    await assert.rejects(harness.create(), failsWith('over_capacity'));
    now += 25 * 60 * 60 * 1000;
    harness.backend.script({ text: 'hi' });
    await harness.turn(fresh, 'hello');
    const third = await harness.create();
    assert.deepEqual(harness.sessions.liveIds(), [fresh, third]);
    assert.equal((await harness.call(sessionGet, { session_id: stale })).closed, true);
    await assert.rejects(harness.call(sessionResume, { session_id: stale }), failsWith('over_capacity'));
  });
});

describe('lists and pages', () => {
  test('weakness 8: sessions come in pages, the latest changed first, with the true total', async () => {
    let now = 1_700_000_000_000;
    await using harness = await Harness.start({ now: () => now });
    const ids: string[] = [];
    for (let count = 0; count < 5; count += 1) {
      now += 1000;
      ids.unshift(await harness.create({ title: count % 2 === 0 ? `even ${count}%` : `odd ${count}` }));
    }
    const first = await harness.call(sessionList, { limit: 2 });
    assert.equal(first.total, 5);
    // One that was shown already changes: none behind it moves.
    now += 1000;
    await harness.call(sessionRename, { session_id: ids[0]!, title: 'even now' });
    const second = await harness.call(sessionList, { limit: 2, cursor: first.next_cursor! });
    const third = await harness.call(sessionList, { limit: 2, cursor: second.next_cursor! });
    const seen = [first, second, third].flatMap(({ sessions }) => sessions.map(({ session_id }) => session_id));
    assert.deepEqual(seen, ids);
    assert.equal(third.next_cursor, null);
    const evens = await harness.call(sessionList, { query: 'EVEN' });
    assert.equal(evens.total, 3);
    assert.equal((await harness.call(sessionList, { query: '0%' })).total, 1);
    assert.equal((await harness.call(sessionList, { cwd: '/nowhere' })).total, 0);
    await assert.rejects(harness.call(sessionList, { cursor: 'x' }), failsWith('schema_violation', /cursor/));
  });

  test('messages and turns come in pages from either end, and neither repeat nor skip while more are said', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    for (const text of ['a', 'b', 'c', 'd']) {
      harness.backend.script({ text });
      await harness.turn(id, `prompt ${text}`);
    }
    const down = await harness.call(sessionMessages, { session_id: id, limit: 3, order: 'newest' });
    assert.deepEqual([down.total, down.messages.map(({ text }) => text)], [8, ['d', 'prompt d', 'c']]);
    const up = await harness.call(sessionMessages, { session_id: id, limit: 5 });
    const firstTurns = await harness.call(sessionTurns, { session_id: id, limit: 3 });
    harness.backend.script({ text: 'e' });
    await harness.turn(id, 'prompt e');
    const downNext = await harness.call(sessionMessages, {
      session_id: id,
      order: 'newest',
      cursor: down.next_cursor!,
    });
    assert.deepEqual(
      downNext.messages.map(({ text }) => text),
      ['prompt c', 'b', 'prompt b', 'a', 'prompt a'],
    );
    assert.equal(downNext.next_cursor, null);
    const upNext = await harness.call(sessionMessages, { session_id: id, cursor: up.next_cursor! });
    assert.deepEqual(
      upNext.messages.map(({ text }) => text),
      ['c', 'prompt d', 'd', 'prompt e', 'e'],
    );
    const moreTurns = await harness.call(sessionTurns, { session_id: id, cursor: firstTurns.next_cursor! });
    assert.deepEqual(
      [...firstTurns.turns, ...moreTurns.turns].map(({ prompt }) => prompt),
      ['prompt d', 'prompt c', 'prompt b', 'prompt a'],
    );
  });
});

describe('forks, exports and imports', () => {
  test('a fork continues from a turn on its own, and the original does not change', async () => {
    await using harness = await Harness.start();
    const id = await harness.create({ title: 'origin' });
    harness.backend.script({ text: 'one' }, { text: 'two' }, { text: 'forked' });
    const first = await harness.turn(id, 'first');
    await harness.turn(id, 'second');
    const { session_id: fork, state } = await harness.call(sessionFork, { session_id: id, through_turn_id: first });
    assert.equal(state.title, 'origin');
    assert.deepEqual(state.history, [
      { role: 'user', text: 'first' },
      { role: 'assistant', text: 'one' },
    ]);
    const original = await harness.call(sessionGet, { session_id: id });
    const ids = [...original.messages, ...state.messages].map((message) => message.id);
    assert.equal(new Set(ids).size, ids.length, 'no message number is used twice');
    await harness.turn(fork, 'elsewhere');
    assert.deepEqual(
      (await harness.call(sessionGet, { session_id: fork })).history.map(({ text }) => text),
      ['first', 'one', 'elsewhere', 'forked'],
    );
    assert.equal((await harness.call(sessionGet, { session_id: id })).history.length, 4);
    const { sessions } = await harness.call(sessionList, {});
    assert.equal(sessions.find(({ session_id }) => session_id === fork)?.parent_session_id, id);
    await assert.rejects(
      harness.call(sessionFork, { session_id: id, through_turn_id: 'none' }),
      failsWith('not_found'),
    );
  });

  test('a fork of a fork, and one while a turn runs, have what is over', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    harness.backend.script({ text: 'one' }, { delay_ms: 60_000 });
    const first = await harness.turn(id, 'first');
    const running = await harness.send(id, 'second');
    await harness.event(({ payload }) => payload.message?.text === 'second');
    const { session_id: fork, state } = await harness.call(sessionFork, { session_id: id });
    assert.deepEqual(
      [state.messages.map(({ text }) => text), state.history.map(({ text }) => text)],
      [
        ['first', 'one'],
        ['first', 'one'],
      ],
    );
    const again = await harness.call(sessionFork, { session_id: fork, through_turn_id: first });
    assert.equal(again.state.messages.length, 2);
    await harness.call(sessionInterrupt, { session_id: id });
    await harness.ended(running);
  });

  test('an export has all of a session in pages, and an import makes the conversation again', async () => {
    await using harness = await Harness.start();
    const id = await harness.create({ title: 'to keep' });
    harness.backend.script(
      { tool_calls: [{ id: 'c1', name: 'bash', input: { command: 'echo hi' } }] },
      { text: 'done' },
    );
    await harness.turn(id, 'use it');
    const lines: string[] = [];
    let after: number | undefined;
    for (;;) {
      const page = await harness.call(sessionExport, { session_id: id, limit: 4, after_seq: after });
      assert.equal(page.format, 'handfast.session/1');
      lines.push(...page.lines);
      if (page.next_after_seq === null) break;
      after = page.next_after_seq;
    }
    const kinds = lines.slice(1).map((line) => JSON.parse(line).kind);
    assert.deepEqual(
      kinds.filter((kind) => !kind.includes('history') && !kind.includes('chat.') && !kind.includes('provider.')),
      harness.events(id).map(({ type }) => type),
    );
    const imported = await harness.call(sessionImport, { lines });
    const original = await harness.call(sessionGet, { session_id: id });
    assert.equal(imported.state.title, 'to keep');
    assert.deepEqual(imported.state.history, original.history);
    assert.deepEqual(
      imported.state.messages.map(({ text }) => text),
      original.messages.map(({ text }) => text),
    );
    const { record } = harness.sessions.open(imported.session_id);
    assert.deepEqual(
      record.history.map(({ role }) => role),
      ['user', 'assistant', 'tool', 'assistant'],
    );
  });

  test('an import takes nothing over that has not the shape it must have', async () => {
    await using harness = await Harness.start();
    const head = JSON.stringify({ format: 'handfast.session/1' });
    const line = (seq: number, kind: string, payload: unknown) => JSON.stringify({ seq, kind, timestamp: 7, payload });
    const { state } = await harness.call(sessionImport, {
      lines: [
        head,
        line(1, 'session.message.appended', { message: { id: 1, kind: 'user', text: 'fine' } }),
        line(2, 'session.message.appended', { message: { id: 2, kind: 'root', text: 'bad kind' } }),
        line(3, 'session.message.appended', { message: null }),
        line(4, 'history.append', { items: [{ role: 'assistant', turn: 't', text: 7 }, null, { role: 'x' }] }),
        line(5, '__proto__', { polluted: true }),
        line(6, 'session.turn.queued', {}),
        line(7, 'record.restored', { head: null }),
        line(8, 'no.such.kind', {}),
      ],
    });
    assert.deepEqual(
      state.messages.map(({ text }) => text),
      ['fine'],
    );
    assert.deepEqual([state.history, state.queue, state.pending], [[], [], false]);
    for (const lines of [[], ['x'], ['{}'], [head, '[]'], [head, '{"seq":"1"}']]) {
      await assert.rejects(harness.call(sessionImport, { lines }), failsWith('schema_violation', /not an export/));
    }
    const cut = { lines: [head, '', '{"seq":1,'] };
    await assert.rejects(
      harness.call(sessionImport, cut),
      failsWith('schema_violation', /line 3 is not a JSON object/),
    );
    await assert.rejects(harness.call(sessionImport, {}), failsWith('schema_violation', /`lines`/));
  });

  test('a long import is stored in pieces that an export has in pages, and an item that is too long is refused', async () => {
    await using harness = await Harness.start();
    const head = JSON.stringify({ format: 'handfast.session/1' });
    const history = Array.from({ length: 4000 }, (_, at) => ({
      role: 'user',
      turn: `t${at}`,
      text: `${at} ${'x'.repeat(500)}`,
    }));
    const messages = history.map(({ text }, at) => ({ id: at + 1, kind: 'user', text }));
    const turns = history.map(({ turn }) => ({ turnId: turn, prompt: 'x', endedAt: 'then', lastMessageId: 7 }));
    const line = (payload: object) => JSON.stringify({ seq: 1, kind: 'record.restored', timestamp: '', payload });
    const whole = { head: {}, messages, history, turns };
    const { session_id } = await harness.call(sessionImport, { lines: [head, line(whole)] });
    const entries = (await harness.journal.read(`session/${session_id}`, 0, 1000)).entries;
    assert.ok(entries.every(({ body }) => (body as string).length < 400_000));
    const lines: string[] = [];
    let pages = 0;
    for (let after: number | null = 0; after !== null; pages++) {
      const page: { lines: readonly string[]; next_after_seq: number | null } = await harness.call(sessionExport, {
        session_id,
        after_seq: after,
      });
      lines.push(...page.lines);
      after = page.next_after_seq;
    }
    assert.ok(pages > 3, `${pages} pages`);
    const again = await harness.call(sessionImport, { lines });
    for (const id of [session_id, again.session_id]) {
      const state = await harness.call(sessionGet, { session_id: id });
      assert.deepEqual(
        [state.messages.map(({ text }) => text), state.history.map(({ text }) => text)],
        [messages.map(({ text }) => text), history.map(({ text }) => text)],
      );
    }
    const long = line({ ...whole, history: [{ role: 'user', turn: 't', text: 'x'.repeat(3_000_000) }] });
    await assert.rejects(
      harness.call(sessionImport, { lines: [head, long] }),
      failsWith('too_large', /2097152 characters/),
    );
  });
});

describe('clearing', () => {
  test('weakness 5: a running turn is ended first, so that nothing of it comes into the emptied session', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    const gate = Promise.withResolvers<void>();
    harness.backend.script({ after: gate.promise, text: 'stale answer' }, { text: 'fresh' });
    const stale = await harness.send(id, 'one');
    const waiting = await harness.send(id, 'two', { enqueue: true });
    const cleared = harness.call(historyClear, { session_id: id });
    // While it is being cleared nothing else starts.
    await assert.rejects(harness.call(sessionSend, { session_id: id, text: 'three' }), failsWith('session_busy'));
    assert.deepEqual(await cleared, { session_id: id, cleared: true });
    gate.resolve();
    const ends = harness.events(id).filter(isTerminal);
    assert.deepEqual(
      ends.map(({ payload }) => [payload.turn_id, payload.stop_reason]),
      [
        [stale, 'cleared'],
        [waiting, 'cleared'],
      ],
    );
    const state = await harness.call(sessionGet, { session_id: id });
    assert.deepEqual([state.messages, state.history, state.pending, state.activeSessionId], [[], [], false, null]);
    await harness.turn(id, 'fresh start');
    assert.deepEqual(
      harness.backend.requests.at(-1)?.history.map((item) => item.role === 'user' && item.text),
      ['fresh start'],
    );
  });

  test('by command keeps the queue, which continues afterwards', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    harness.backend.script({ delay_ms: 60_000 });
    await harness.send(id, 'one');
    const waiting = await harness.send(id, 'two', { enqueue: true });
    harness.backend.rescript({ text: 'went on' });
    await harness.sessions.clear(id);
    await harness.ended(waiting);
    assert.deepEqual(
      (await harness.call(sessionGet, { session_id: id })).history.map(({ text }) => text),
      ['two', 'went on'],
    );
  });

  test('compressing ends a running turn, holds the queue, and is ready afterwards', async () => {
    const order: string[] = [];
    const gate = Promise.withResolvers<void>();
    const backend = scriptedBackend({
      compact: async ({ log }, reason) => {
        order.push(reason);
        await gate.promise;
        log.remember([{ role: 'assistant', turn: '', text: '## Conversation Summary' }], 'replace');
        return { ...NUMBERS, compressed: true, reason };
      },
    });
    await using harness = await Harness.start({ backend });
    const id = await harness.create();
    backend.script({ delay_ms: 60_000 }, { text: 'after' });
    await harness.send(id, 'one');
    const compressed = harness.sessions.compress(id);
    await harness.event(({ payload }) => payload.status_label === 'compressing context...');
    const waiting = await harness.send(id, 'two', { enqueue: true });
    assert.deepEqual(order, ['manual']);
    gate.resolve();
    assert.equal((await compressed).compressed, true);
    backend.rescript({ text: 'after' });
    await harness.ended(waiting);
    const told = inShort(harness.events(id)).filter((line) => line.startsWith('status'));
    const at = told.indexOf('status compressing context...');
    assert.deepEqual(told.slice(at - 1, at + 3), [
      'status ready',
      'status compressing context...',
      'status queued (1)',
      'status ready',
    ]);
  });

  test('compressing without a model says so', async () => {
    await using harness = await Harness.start({ backend: scriptedBackend({ isConfigured: () => false }) });
    const id = await harness.create();
    await assert.rejects(
      harness.sessions.compress(id),
      failsWith('not_configured', 'select a model first before running /compress'),
    );
  });
});

const NUMBERS = {
  estimated_tokens_before: 2,
  estimated_tokens_after: 1,
  model_context_window: 10,
  target_limit: 8,
  anchor_event_index_before: 0,
  anchor_event_index_after: 1,
};
