/**
 * The journal is the session: an emitted event is folded, journaled and published, and exists again after a restart.
 */
// A process of its own: its stores fail, and the failures stay in the process.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { EventPage } from '../../../src/control/contract/events.ts';
import { stateJson, stateOf } from '../../../src/control/sessions/history/views.ts';
import { EventHub } from '../../../src/control/sessions/log/event-hub.ts';
import { OpenSession, type SessionDeps } from '../../../src/control/sessions/log/open-session.ts';
import { RESERVED } from '../../../src/control/sessions/log/published.ts';
import { wholeOf } from '../../../src/control/sessions/record/folded.ts';
import { openSessionStore } from '../../../src/control/sessions/store/store.ts';
import type { Journal, NewEntry } from '../../../src/journal/journal.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { sqliteJournal } from '../../../src/journal/sqlite/sqlite.ts';
import { NO_USAGE } from '../../../src/protocol/session-types.ts';
import fc from '../../support/properties.ts';
import { diskThatFills } from '../support/full-disk.ts';
import { Harness, inShort, QUIET } from './harness.ts';

const roomy = { maxEntries: 1e6, maxBytes: 1e9 };

let directory = '';
before(() => {
  directory = mkdtempSync(join(tmpdir(), 'handfast-log-'));
});
after(() => rmSync(directory, { recursive: true }));

function partsOf(journal: Journal = memoryJournal({ retention: roomy })): SessionDeps {
  const store = openSessionStore({ file: ':memory:' });
  return {
    store,
    journal,
    hub: new EventHub(QUIET),
    log: QUIET,
    storage: { add() {} },
    now: Date.now,
    onLoad: () => {},
    unwritten: new Set(),
    onUnstored: () => {},
  };
}

function begun(parts: SessionDeps, id = 's1'): OpenSession {
  const session = OpenSession.fresh(id, parts);
  session.emit('session.created', { owner: 'alice', cwd: '/work', backend: 'b', title: '', settings: {} });
  return session;
}

/** Returns everything that is known of a session, as plain values. */
const known = (session: OpenSession) => JSON.parse(JSON.stringify(wholeOf(session.folded)));

/** One change of a session, by name. */
const change = fc.oneof(
  fc.record({
    kind: fc.constant('say'),
    text: fc.oneof(fc.string({ maxLength: 20 }), fc.constant('"unsent":true')),
    unsent: fc.boolean(),
  }),
  fc.record({ kind: fc.constant('queue'), id: fc.nat(9) }),
  fc.record({ kind: fc.constant('start'), id: fc.nat(9) }),
  fc.record({ kind: fc.constant('chunk'), text: fc.string({ maxLength: 10 }) }),
  fc.record({ kind: fc.constant('call'), id: fc.nat(3), done: fc.boolean() }),
  fc.record({ kind: fc.constant('end'), id: fc.nat(9) }),
  fc.record({ kind: fc.constant('remember'), count: fc.integer({ min: 1, max: 3 }), replace: fc.boolean() }),
  fc.record({ kind: fc.constant('steer'), id: fc.nat(5) }),
  fc.record({ kind: fc.constant('approval'), id: fc.nat(4), state: fc.constantFrom('pending', 'allowed') }),
  fc.record({ kind: fc.constant('status'), pending: fc.boolean() }),
  fc.record({ kind: fc.constant('cleared') }),
  fc.record({ kind: fc.constant('closed') }),
  fc.record({ kind: fc.constant('snapshot') }),
  fc.record({ kind: fc.constant('rest') }),
) as fc.Arbitrary<Change>;

type Change = { kind: string; id?: number; text?: string; [more: string]: unknown };

function apply(session: OpenSession, { kind, id = 0, text = '', ...rest }: Change): void {
  const turn = `t${id}`;
  switch (kind) {
    case 'say':
      session.appendMessage('user', text, turn, rest.unsent === true ? { unsent: true } : {});
      break;
    case 'queue':
      session.emit('session.turn.queued', { text: turn, images: [], enqueued_at: 'then' }, turn);
      break;
    case 'start':
      session.emit('session.turn.started', { text: turn, started_at: 'now' }, turn);
      break;
    case 'chunk':
      session.emit('session.stream.chunk', { chunk: { thoughts: [], answerText: text } }, turn);
      break;
    case 'call': {
      const data = { toolRound: 1, call: { name: 'n', input: {}, providerToolName: 'n', callId: turn } };
      const executed = { name: 'n', ok: true, result: null, callId: turn };
      if (rest.done) session.emit('session.tool.call.completed', { data: { toolRound: 1, executed } }, turn);
      else session.emit('session.tool.call.started', { data }, turn);
      break;
    }
    case 'end':
      session.emit(
        'session.completed',
        { answer_length: 0, stop_reason: 'end_turn', usage: NO_USAGE, duration_ms: 1 },
        turn,
      );
      break;
    case 'remember':
      session.remember(
        Array.from({ length: rest.count as number }, (_, at) => ({ role: 'assistant', turn, text: `${text}${at}` })),
        rest.replace === true ? 'replace' : 'append',
      );
      break;
    case 'steer':
      session.note('steer.added', { steer: { id: turn, text, whenLate: 'report' } });
      break;
    case 'approval':
      session.emit(rest.state === 'pending' ? 'approval.requested' : 'approval.resolved', {
        approval: { id: `a${id}`, turn_id: turn, state: rest.state } as never,
      });
      break;
    case 'status':
      session.emit('session.status', {
        pending: rest.pending === true,
        status_label: rest.pending === true ? 'busy' : 'ready',
      });
      break;
    case 'cleared':
      session.emit('session.cleared', {});
      break;
    case 'closed':
      session.emit('session.closed', { reason: 'x' });
      break;
    case 'snapshot':
      session.snapshot();
      break;
    case 'rest':
      session.unload();
      break;
  }
}

describe('a session log', () => {
  test('what is read back is what was, after any events and with snapshots at any place', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(change, { maxLength: 60 }), async (changes) => {
        const parts = partsOf();
        const session = begun(parts);
        for (const one of changes) apply(session, one);
        const was = known(session);
        const back = await OpenSession.recover('s1', parts);
        assert.deepEqual(known(back!), was);
        // From the journal alone it is the same.
        const other = { ...parts, store: openSessionStore({ file: ':memory:' }) };
        assert.deepEqual(known((await OpenSession.recover('s1', other))!), was);
        parts.store.close();
        other.store.close();
      }),
      { numRuns: 60 },
    );
  });

  test('its state as text is the state as a value, also straight from the store', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 40 }), (changes) => {
        const parts = partsOf();
        const session = begun(parts);
        for (const one of changes) apply(session, one);
        const value = JSON.stringify(stateOf(session.folded));
        assert.equal(stateJson(session.folded), value);
        session.unload();
        assert.equal(stateJson(session.folded), value, 'its lists are unread yet');
        assert.equal(JSON.stringify(stateOf(session.folded)), value);
        parts.store.close();
      }),
      { numRuns: 100 },
    );
  });

  test('writes session and turn first into what it sends, and the text it sends is the text it keeps', async () => {
    const parts = partsOf();
    const lines: string[] = [];
    parts.hub.listen(({ line }) => void lines.push(line));
    const session = begun(parts);
    session.emit('session.status', { pending: true, status_label: 'preparing...', detail: undefined }, 't1');
    assert.match(
      lines[1]!,
      /^\{"jsonrpc":"2.0","method":"event","params":\{"type":"session.status","timestamp":"[^"]+","payload":\{"session_id":"s1","turn_id":"t1","pending":true,"status_label":"preparing..."\},"seq":2\}\}$/,
    );
    const { entries } = await parts.journal.read('session/s1', 0);
    assert.deepEqual(
      entries.filter(({ kind }) => kind !== RESERVED).map(({ body }) => body),
      lines,
    );
  });

  test('weakness 17: what is not sent takes no number, however much of it there is', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    const log = harness.sessions.open(id);
    for (let count = 0; count < 700; count += 1) log.remember([{ role: 'user', turn: 't', text: `${count}` }]);
    log.emit('session.renamed', { title: 'after' });
    const { events, gap } = await harness.sessions.events.read(id, 0, 100);
    assert.equal(gap, undefined);
    assert.deepEqual(
      events.map(({ seq }) => seq),
      events.map((_, at) => at + 1),
    );
    assert.equal(events.at(-1)?.type, 'session.renamed');
    assert.equal(log.record.history.length, 700);
  });

  test('tells every listener the same order, also of what a listener causes, and survives one that fails', () => {
    const parts = partsOf();
    const first: number[] = [];
    const second: number[] = [];
    parts.hub.listen(({ type, seq }) => {
      first.push(seq);
      if (type === 'session.renamed') session.emit('session.plan', { entries: [] });
    });
    parts.hub.listen(() => {
      throw new Error('broken listener');
    });
    const stop = parts.hub.listen(({ seq }) => void second.push(seq));
    const session = begun(parts);
    session.emit('session.renamed', { title: 'x' });
    assert.deepEqual(
      [first, second],
      [
        [1, 2, 3],
        [1, 2, 3],
      ],
    );
    stop();
    session.emit('session.renamed', { title: 'y' });
    assert.equal(second.length, 3);
  });

  test('messages of all sessions are numbered from 1, each number once, over restarts too', () => {
    const file = join(directory, 'ids.db');
    const seen: number[] = [];
    for (let start = 0; start < 3; start += 1) {
      const store = openSessionStore({ file });
      for (let count = 0; count < 3; count += 1) seen.push(store.messageIds.next());
      if (start < 2) store.close();
      else store.messageIds.seen(5000);
      if (start === 2) {
        assert.equal(store.messageIds.next(), 5001);
        store.close();
      }
    }
    assert.deepEqual(seen, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  test('stays within what changed: a snapshot of a long session writes its end, not all of it', () => {
    const parts = partsOf();
    const session = begun(parts);
    for (let count = 0; count < 2000; count += 1) session.appendMessage('user', `message ${count}`);
    session.snapshot();
    session.appendMessage('user', 'one more');
    const [messages] = ['messages'].map((name) => session.folded[name as 'messages'].change());
    assert.equal(messages?.chunks.length, 1);
    assert.ok(messages!.chunks[0]!.items.length <= 128);
    assert.ok(session.snapshot());
    const back = parts.store.catalogue.load('s1');
    assert.equal(back?.session.messages.length, 2001);
  });
});

describe('reading events', () => {
  test('weakness 17: begins anywhere, in pages, and says when it ends', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    harness.backend.script({ text: 'hi' });
    await harness.turn(id, 'hello');
    const { events } = harness.sessions;
    const last = events.lastSeq(id);
    const all: EventPage['events'][number][] = [];
    for (let at = 0; ; ) {
      const page = await events.read(id, at, 3);
      assert.equal(page.last, last);
      all.push(...page.events);
      if (page.events.length === 0) break;
      at = page.events.at(-1)!.seq;
    }
    assert.deepEqual(
      all.map(({ line }) => line),
      harness.published.filter(({ session }) => session === id).map(({ line }) => line),
    );
    assert.deepEqual(all[0]?.params, harness.published.find(({ session }) => session === id)?.params);
    assert.deepEqual((await events.read(id, last, 10)).events, []);
    await assert.rejects(events.read('none', 0, 10), { code: 'session_not_found' });
    assert.throws(() => events.lastSeq('none'), { code: 'session_not_found' });
    assert.deepEqual([events.ownerOf(id), events.ownerOf('none'), events.ownerOf('')], ['alice', undefined, '']);
  });

  test('events that are gone are a gap and nothing else', async () => {
    await using harness = await Harness.start({
      journal: memoryJournal({ retention: { maxEntries: 10, maxBytes: 1e9 } }),
    });
    const id = await harness.create();
    const log = harness.sessions.open(id);
    for (let count = 0; count < 30; count += 1) log.emit('session.renamed', { title: `${count}` });
    const page = await harness.sessions.events.read(id, 5, 100);
    assert.deepEqual(page.gap, { from_seq: 6, to_seq: 21 });
    assert.deepEqual([page.events[0]?.seq, page.events.at(-1)?.seq, page.last], [22, 31, 31]);
  });

  test('events of the server have numbers of their own, and are replayed', async () => {
    await using harness = await Harness.start();
    await harness.create();
    harness.serverEvents.emit('auth.flow.started', { provider: 'openai' });
    const { events, last } = await harness.sessions.events.read('', 0, 10);
    assert.deepEqual(
      events.map(({ seq, type, owner }) => [seq, type, owner]),
      [
        [1, 'state.changed', ''],
        [2, 'auth.flow.started', ''],
      ],
    );
    assert.equal(last, 2);
  });
});

describe('what is acknowledged', () => {
  test('is on disk: an answer and the events wait for the journal', async () => {
    const inner = memoryJournal({ retention: roomy });
    let gate = Promise.withResolvers<void>();
    gate.resolve();
    const journal: Journal = Object.assign(Object.create(inner), {
      volatileFailures: 0,
      append: (session: string, entries: readonly NewEntry[], durability?: 'durable' | 'volatile') => {
        inner.append(session, entries, durability);
        return durability === 'volatile' ? undefined : gate.promise;
      },
      read: inner.read.bind(inner),
      sessions: inner.sessions.bind(inner),
      close: inner.close.bind(inner),
    });
    await using harness = await Harness.start({ journal });
    const id = await harness.create();
    gate = Promise.withResolvers();
    harness.backend.script({ text: 'hi' });
    let answered = false;
    const sent = harness.send(id, 'hello').then((turnId) => {
      answered = true;
      return turnId;
    });
    for (let turn = 0; turn < 5; turn += 1) await nextTurn();
    assert.equal(answered, false);
    assert.equal(harness.sessions.open(id).record.statusLabel, 'preparing...');
    const seen = harness.events(id).map(({ type }) => type);
    assert.deepEqual(seen, ['session.created'], 'no event leaves that a crash could take back');
    assert.equal(harness.sessions.events.lastSeq(id), 1);
    assert.deepEqual((await harness.sessions.events.read(id, 0, 10)).last, 1, 'a replay ends where it does');
    assert.equal(harness.backend.turns.length, 0, 'nothing is done for a prompt that could be forgotten');
    gate.resolve();
    const turnId = await sent;
    assert.ok(answered);
    await harness.ended(turnId);
  });

  test('when the disk is full a prompt is refused and its turn ends; afterwards all is written that was not', async () => {
    const disk = diskThatFills();
    await using harness = await Harness.start({ journal: disk.journal });
    const id = await harness.create();
    disk.isFull = true;
    await assert.rejects(harness.send(id, 'hello'), { code: 'disk_full' });
    const end = harness.events(id).find(({ type }) => type === 'session.error');
    assert.deepEqual([end?.payload.kind, end?.payload.retryable], ['disk_full', true]);
    await assert.rejects(harness.create(), { code: 'disk_full' });
    disk.isFull = false;
    harness.backend.script({ text: 'now' });
    await harness.turn(id, 'again');
    const was = harness.sessions.open(id).record;
    const parts = partsOf(disk.journal);
    const back = await OpenSession.recover(id, parts);
    assert.deepEqual(back?.record.messages, was.messages);
    assert.deepEqual(back?.record.history, was.history);
    assert.equal(back?.record.seq, was.seq);
    // Missing events are reported as a gap.
    const { gap } = await harness.sessions.events.read(id, 1, 100);
    assert.equal(gap?.from_seq, 2);
    assert.deepEqual(harness.sessions.liveIds(), [id]);
    assert.ok(inShort(harness.events(id)).includes('completed end_turn'));
  });
});

describe('the store', () => {
  test('weakness 30: a second server on the same data directory is refused before it can write', async () => {
    const file = join(directory, 'locked.db');
    const journal = await sqliteJournal({ file });
    await assert.rejects(sqliteJournal({ file }), { code: 'journal_locked' });
    await journal.close();
  });

  test('refuses the database of another program, sets a damaged one aside, and starts again from the journal', async () => {
    const journal = memoryJournal({ retention: roomy });
    const file = join(directory, 'store.db');
    const { DatabaseSync } = await import('node:sqlite');
    const foreign = join(directory, 'foreign.db');
    new DatabaseSync(foreign).exec('CREATE TABLE other (x); PRAGMA user_version=3');
    assert.throws(() => openSessionStore({ file: foreign }), { code: 'runtime_error' });
    let id = '';
    {
      await using harness = await Harness.start({
        store: openSessionStore({ file }),
        journal: Object.assign(Object.create(journal), {
          append: journal.append.bind(journal),
          read: journal.read.bind(journal),
          sessions: journal.sessions.bind(journal),
          close: async () => {},
        }),
      });
      id = await harness.create();
      harness.backend.script({ text: 'kept' });
      await harness.turn(id, 'hello');
    }
    const { writeFileSync } = await import('node:fs');
    writeFileSync(file, 'this is no database, and long enough to be looked at'.repeat(100));
    assert.throws(() => openSessionStore({ file }), { code: 'journal_corrupt' });
    const moved: string[] = [];
    const store = openSessionStore({ file, onCorrupt: ({ movedTo }) => void moved.push(movedTo) });
    assert.equal(moved.length, 1);
    await using harness = await Harness.start({ store, journal });
    const { messages } = harness.sessions.open(id).record;
    assert.deepEqual(
      messages.map(({ text }) => text),
      ['hello', 'kept'],
    );
    assert.ok(store.messageIds.next() > messages.at(-1)!.id);
  });
});
