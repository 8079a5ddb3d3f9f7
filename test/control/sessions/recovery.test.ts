/**
 * Recovery by a new process from the data of the old one. The old one stays where it was, with a backend that never comes back;
 * killed processes are in `test/faults/session-kill.test.ts`.
 */
// A process of its own: its stores fail, and the failures stay in the process.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { openSessionStore } from '../../../src/control/sessions/store/store.ts';
import type { LiveTurn } from '../../../src/control/sessions/turns/live-turn.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import {
  queueList,
  sessionClose,
  sessionGet,
  sessionList,
  sessionSteer,
  sessionTurns,
} from '../../../src/protocol/session-rpc.ts';
import { type ScriptedBackendOptions, type ScriptedStep, scriptedBackend } from '../support/scripted-backend.ts';
import { ALICE, Harness, type HarnessOptions, inShort, isTerminal, QUIET, seen } from './harness.ts';

/** Makes a data directory in memory that outlives its servers. */
function dataDirectory() {
  const journal = memoryJournal({ retention: { maxEntries: 1e6, maxBytes: 1e9 } });
  const store = openSessionStore({ file: ':memory:' });
  return {
    journal,
    store,
    start: (options: HarnessOptions = {}) => Harness.start({ journal, store, ...options }),
  };
}

/** Returns all events that a session ever had. */
async function stored(harness: Harness, session: string) {
  const { events } = await harness.sessions.events.read(session, 0, 10_000);
  return events.map(seen);
}

async function endsOf(harness: Harness, session: string): Promise<[string, string][]> {
  return (await stored(harness, session))
    .filter(isTerminal)
    .map(({ payload }) => [payload.turn_id, payload.stop_reason]);
}

/** Waits for the end of a turn, which may have come before any listener. */
async function over(harness: Harness, session: string, turnId: string): Promise<void> {
  const isOver = (await endsOf(harness, session)).some(([id]) => id === turnId);
  if (!isOver) await harness.ended(turnId);
}

const asking: ScriptedBackendOptions = { asks: true };
const toolCall = { id: 'c1', name: 'bash', input: { command: 'echo ran' } };

describe('after a restart', () => {
  test('a running turn is ended, what it answered is stored, and the queue continues', async () => {
    const data = dataDirectory();
    const old = await data.start();
    const id = await old.create();
    old.backend.script({ text: 'half of it', tool_calls: [{ ...toolCall, input: { command: 'sleep 60' } }] });
    const running = await old.send(id, 'one');
    await old.event(({ type }) => type === 'session.tool.call.started');
    const waiting = await old.send(id, 'two', { enqueue: true });
    const steered = await old.call(sessionSteer, { session_id: id, text: 'also', when_late: 'queue' });

    await using harness = await data.start({ backend: scripted({ text: 'three' }, { text: 'four' }) });
    await over(harness, id, waiting);
    assert.deepEqual(await endsOf(harness, id), [
      [running, 'restart'],
      [steered.steer_id!, 'end_turn'],
      [waiting, 'end_turn'],
    ]);
    const told = inShort(await stored(harness, id));
    const at = told.indexOf('done c1 false');
    assert.deepEqual(told.slice(at, at + 5), [
      'done c1 false',
      'assistant half of it',
      'system response interrupted by a restart of the server. partial output kept.',
      'interrupted restart',
      'status ready',
    ]);
    const state = await harness.call(sessionGet, { session_id: id });
    assert.deepEqual(
      state.history.map(({ text }) => text),
      ['one', 'half of it', 'also', 'three', 'two', 'four'],
    );
    const tool = harness.sessions.open(id).record.history.find(({ role }) => role === 'tool');
    assert.equal(tool?.role === 'tool' && tool.ok, false);
    endTools(old);
  });

  test('a turn that waited for the user continues where it was, and ends once', async () => {
    const data = dataDirectory();
    const old = await data.start({ backend: scriptedBackend(asking) });
    const id = await old.create();
    old.backend.script({ text: 'May I? ', tool_calls: [toolCall] });
    const turnId = await old.send(id, 'run it');
    const asked = await old.event(({ type }) => type === 'approval.requested');
    const waiting = await old.send(id, 'then this', { enqueue: true });

    const backend = scriptedBackend(asking);
    backend.script({ text: 'It ran.' }, { text: 'next' });
    await using harness = await data.start({ backend });
    const { approval } = asked.payload;
    assert.equal((await harness.call(queueList, { session_id: id })).queue[0]?.id, waiting);
    assert.equal(harness.sessions.open(id).record.approvals[0]?.state, 'pending');
    harness.broker.answer(harness.sessions.open(id), approval.id, { decision: 'allow', remember: 'once' }, 'alice');
    await over(harness, id, waiting);
    assert.deepEqual(await endsOf(harness, id), [
      [turnId, 'end_turn'],
      [waiting, 'end_turn'],
    ]);
    assert.equal(backend.turns[0]?.continued, true);
    // Its owner has not called since; its rights are those that are configured.
    assert.deepEqual(backend.turns[0]?.principal, ALICE);
    assert.deepEqual(backend.turns[0]?.prompt, { text: 'run it', images: [] });
    const told = await stored(harness, id);
    assert.equal(told.filter(({ type }) => type === 'session.tool.call.started').length, 1);
    const done = told.find(({ type }) => type === 'session.tool.call.completed');
    assert.equal(done?.payload.data.executed.result, 'ran\n');
    const { messages } = await harness.call(sessionGet, { session_id: id });
    assert.equal(messages.find(({ kind }) => kind === 'assistant')?.text, 'May I? It ran.');
  });

  test('a question of a turn that cannot continue is withdrawn', async () => {
    const data = dataDirectory();
    const old = await data.start({ backend: scriptedBackend(asking) });
    const id = await old.create();
    old.backend.script({ tool_calls: [toolCall] });
    const turnId = await old.send(id, 'run it');
    const asked = await old.event(({ type }) => type === 'approval.requested');
    await using harness = await data.start({ backend: scriptedBackend({ continues: false }) });
    assert.deepEqual(await endsOf(harness, id), [[turnId, 'restart']]);
    const resolved = (await stored(harness, id)).find(({ type }) => type === 'approval.resolved');
    assert.deepEqual(
      [resolved?.payload.approval.id, resolved?.payload.approval.state],
      [asked.payload.approval.id, 'cancelled'],
    );
    assert.deepEqual(harness.sessions.open(id).record.approvals, []);
  });

  test('sessions are listed, titled and readable as before, and numbers continue', async () => {
    const data = dataDirectory();
    let now = Date.now() - 60_000;
    const old = await data.start({ now: () => now++ });
    const [one, two] = [await old.create({ title: 'one' }), await old.create({ title: 'two' })];
    old.backend.script({ text: 'hi' });
    await old.turn(two, 'hello');
    const before = old.sessions.open(two).record;
    await old.call(sessionClose, { session_id: one });
    await using harness = await data.start({ backend: scripted({ text: 'again' }) });
    assert.deepEqual(harness.sessions.liveIds(), [two]);
    const { sessions } = await harness.call(sessionList, { include_closed: true });
    assert.deepEqual(
      sessions.map(({ title, closed, message_count }) => [title, closed, message_count]),
      [
        ['one', true, 0],
        ['two', false, 2],
      ],
    );
    await harness.turn(two, 'more');
    const { record } = harness.sessions.open(two);
    assert.deepEqual(record.messages.slice(0, 2), before.messages.slice(0, 2));
    assert.ok(record.messages[2]!.id > before.messages[1]!.id);
    const { turns } = await harness.call(sessionTurns, { session_id: two });
    assert.equal(turns.length, 2);
    const seqs = (await stored(harness, two)).map(({ seq }) => seq);
    assert.deepEqual(
      seqs,
      seqs.map((_, at) => at + 1),
    );
  });

  test('a deletion that was cut short is finished, and a session that no client was notified of is none', async () => {
    const data = dataDirectory();
    const old = await data.start();
    const id = await old.create();
    data.store.catalogue.markDeleted(id);
    data.store.catalogue.put({
      ...{ id: 'phantom', owner: 'alice', title: '', cwd: '/', backend: 'b', createdAt: 1, updatedAt: 1 },
      ...{
        messageCount: 0,
        pending: false,
        closed: false,
        queueLength: 0,
        approvalsPending: 0,
        parent: null,
        subagent: null,
      },
      ...{ seq: 0, cursor: 0 },
    });
    await using harness = await data.start();
    assert.equal((await harness.call(sessionList, { include_closed: true })).total, 0);
    assert.deepEqual(
      (await data.journal.sessions()).filter(({ session }) => session.startsWith('session/')),
      [],
    );
  });

  test('a session whose beginning is lost is left alone, and the others come back', async () => {
    const data = dataDirectory();
    const old = await data.start();
    const id = await old.create();
    const body = '{"jsonrpc":"2.0","method":"event","params":{"type":"x","timestamp":"","payload":{},"seq":9}}';
    data.journal.append('session/headless', [{ cursor: 9 * 256, ts: 1, kind: 'x', request: '', body }]);
    const errors: string[] = [];
    await using harness = await data.start({ log: { ...QUIET, error: (message) => void errors.push(message) } });
    assert.deepEqual(harness.sessions.liveIds(), [id]);
    assert.equal(errors.length, 1);
  });

  test('something that held a session without being a turn no longer does', async () => {
    const data = dataDirectory();
    const backend = scriptedBackend({ compact: () => new Promise(() => {}) });
    const old = await data.start({ backend });
    const id = await old.create();
    void old.sessions.compress(id);
    await old.event(({ payload }) => payload.status_label === 'compressing context...');
    const waiting = await old.send(id, 'later', { enqueue: true });
    await using harness = await data.start({ backend: scripted({ text: 'now' }) });
    await over(harness, id, waiting);
    assert.ok(inShort(await stored(harness, id)).includes('status ready'));
  });
});

describe('stopping', () => {
  test('ends every turn and every prompt that waits, once, and takes nothing in any more', async () => {
    const data = dataDirectory();
    const harness = await data.start();
    const [id, idle] = [await harness.create(), await harness.create()];
    harness.backend.script({ deaf: true, text: 'never' });
    const running = await harness.send(id, 'one');
    const waiting = await harness.send(id, 'two', { enqueue: true });
    const stopping = harness.sessions.stop();
    await assert.rejects(harness.send(id, 'three', { enqueue: true }), { code: 'interrupted' });
    await assert.rejects(harness.send(idle, 'three'), { code: 'interrupted' });
    await assert.rejects(harness.create(), { code: 'interrupted' });
    await stopping;
    await harness.sessions.stop();
    assert.deepEqual(await endsOf(harness, id), [
      [waiting, 'shutdown'],
      [running, 'shutdown'],
    ]);
    await using next = await data.start();
    assert.deepEqual((await endsOf(next, id)).length, 2);
    assert.deepEqual(next.sessions.liveIds(), [id, idle]);
  });

  test('may leave turns that only wait for the user to the next process', async () => {
    const data = dataDirectory();
    const old = await data.start({ backend: scriptedBackend(asking) });
    const id = await old.create();
    old.backend.script({ tool_calls: [toolCall] });
    const turnId = await old.send(id, 'run it');
    const { payload } = await old.event(({ type }) => type === 'approval.requested');
    await old.sessions.stop({ keepWaiting: true });
    old.broker.close();
    const backend = scriptedBackend(asking);
    backend.script({ text: 'It ran.' });
    await using harness = await data.start({ backend });
    const log = harness.sessions.open(id);
    assert.equal(log.record.approvals[0]?.state, 'pending');
    harness.broker.answer(log, payload.approval.id, { decision: 'allow', remember: 'once' }, 'alice');
    await over(harness, id, turnId);
    assert.deepEqual(await endsOf(harness, id), [[turnId, 'end_turn']]);
  });
});

function scripted(...rounds: readonly ScriptedStep[]) {
  const backend = scriptedBackend();
  backend.script(...rounds);
  return backend;
}

/** Ends by hand the tools that the old process started, since that process is not really gone. */
function endTools(old: Harness): void {
  for (const turn of old.backend.turns) (turn as LiveTurn).suspend(new Error('the test is over'));
}
