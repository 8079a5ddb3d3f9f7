/**
 * A question is on disk before any client hears of it: the disk of these tests takes its time, fails, or loses its process.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Journal, NewEntry } from '../../../src/journal/journal.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { sessionInterrupt } from '../../../src/protocol/session-rpc.ts';
import { fail } from '../../../src/wire/errors.ts';
import { scriptedBackend } from '../support/scripted-backend.ts';
import { Harness, inShort } from './harness.ts';

const roomy = { maxEntries: 1e6, maxBytes: 1e9 };
const toolCall = { id: 'c1', name: 'bash', input: { command: 'echo ran' } };
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Makes a journal whose process can end at any time: entries it had not synced by then are gone. */
function crashable() {
  const memory = memoryJournal({ retention: roomy });
  const synced: [string, NewEntry][] = [];
  let unsynced: [string, NewEntry][] = [];
  const disk = {
    /** Resolves when the next sync may happen; rejects when it cannot. */
    ready: Promise.resolve(),
    /** Stops syncing until the hold is released. */
    hold(): Disposable & { release(): void } {
      const gate = Promise.withResolvers<void>();
      disk.ready = gate.promise;
      return { release: gate.resolve, [Symbol.dispose]: gate.resolve };
    },
  };
  const journal: Journal = Object.assign(Object.create(memory), {
    append(session: string, entries: readonly NewEntry[], durability?: 'durable' | 'volatile') {
      memory.append(session, entries, durability);
      unsynced.push(...entries.map((entry): [string, NewEntry] => [session, entry]));
      if (durability === 'volatile') return undefined;
      const { ready } = disk;
      return nextTurn()
        .then(() => ready)
        .then(() => {
          synced.push(...unsynced);
          unsynced = [];
        });
    },
    read: memory.read.bind(memory),
    sessions: memory.sessions.bind(memory),
    close: memory.close.bind(memory),
  });
  /** Returns the entries that a new process finds. */
  const afterCrash = (): Journal => {
    const found = memoryJournal({ retention: roomy });
    for (const [session, entry] of synced) found.append(session, [entry]);
    return found;
  };
  return { journal, disk, afterCrash };
}

describe('a question that a client has seen', () => {
  test('is asked still when the process ends in that moment, and its answer lets the turn continue', async () => {
    const { journal, afterCrash } = crashable();
    const old = await Harness.start({ journal, backend: scriptedBackend({ asks: true }) });
    const id = await old.create();
    let found: Journal | undefined;
    old.sessions.events.listen(({ type }) => {
      if (type === 'approval.requested') found = afterCrash();
    });
    old.backend.script({ text: 'May I? ', tool_calls: [toolCall] });
    const turnId = await old.send(id, 'run it');
    const asked = await old.event(({ type }) => type === 'approval.requested');
    assert.ok(found);

    const backend = scriptedBackend({ asks: true });
    backend.script({ text: 'It ran.' });
    await using harness = await Harness.start({ journal: found, backend });
    const { approval } = asked.payload;
    const { events } = await harness.sessions.events.read(id, 0, 10_000);
    const told = events.filter(({ type }) => type === 'approval.requested');
    assert.deepEqual(
      told.map(({ params }) => (params.payload as typeof asked.payload).approval.id),
      [approval.id],
      'a client that comes back can read of it',
    );
    assert.deepEqual(harness.sessions.open(id).record.approvals, [approval]);
    const answer = { decision: 'allow', remember: 'once' } as const;
    assert.equal(harness.broker.answer(harness.sessions.open(id), approval.id, answer, 'alice').accepted, true);
    assert.equal((await harness.ended(turnId)).payload.stop_reason, 'end_turn');
    const done = harness.events(id).find(({ type }) => type === 'session.tool.call.completed');
    assert.equal(done?.payload.data.executed.result, 'ran\n');
  });

  test('is on disk: until then no client receives it or anything behind it, and the session continues', async () => {
    const { journal, disk } = crashable();
    await using harness = await Harness.start({ journal, backend: scriptedBackend({ asks: true }) });
    const id = await harness.create();
    const rest = Promise.withResolvers<void>();
    harness.backend.script({ text: 'May I? ', tool_calls: [toolCall], after: rest.promise }, { text: 'It ran.' });
    const turnId = await harness.send(id, 'run it');
    using held = disk.hold();
    rest.resolve();
    const log = harness.sessions.open(id);
    for (let turn = 0; turn < 20; turn += 1) await nextTurn();
    log.emit('session.renamed', { title: 'meanwhile' });
    assert.equal(log.record.title, 'meanwhile');
    assert.equal(inShort(harness.events(id)).includes('renamed meanwhile'), false);
    assert.equal(inShort(harness.events(id)).includes('approval.requested'), false);
    assert.deepEqual(log.record.approvals, []);

    held.release();
    const { payload } = await harness.event(({ type }) => type === 'approval.requested');
    const numbers = harness.events(id).map(({ seq }) => seq);
    assert.deepEqual(
      numbers,
      [...numbers.keys()].map((at) => at + 1),
      'in order, none left out',
    );
    harness.broker.answer(log, payload.approval.id, { decision: 'allow', remember: 'once' }, 'alice');
    assert.equal((await harness.ended(turnId)).payload.stop_reason, 'end_turn');
  });

  test('cannot come behind the end of its turn: one that was interrupted meanwhile is withdrawn', async () => {
    const { journal, disk } = crashable();
    await using harness = await Harness.start({ journal, backend: scriptedBackend({ asks: true }) });
    const id = await harness.create();
    const rest = Promise.withResolvers<void>();
    harness.backend.script({ tool_calls: [toolCall], after: rest.promise });
    const turnId = await harness.send(id, 'run it');
    using held = disk.hold();
    rest.resolve();
    for (let turn = 0; turn < 20; turn += 1) await nextTurn();
    await harness.call(sessionInterrupt, { session_id: id });
    held.release();
    assert.equal((await harness.ended(turnId)).payload.stop_reason, 'interrupted');
    await harness.sessions.open(id).flushed();
    for (let turn = 0; turn < 5; turn += 1) await nextTurn();
    assert.equal(inShort(harness.events(id)).includes('approval.requested'), false);
    assert.deepEqual([...harness.broker.waiting()], []);
  });

  test('does not hang on a disk that fails: no client is asked, and the turn receives the reason', async () => {
    const { journal, disk } = crashable();
    await using harness = await Harness.start({ journal, backend: scriptedBackend({ asks: true }) });
    const id = await harness.create();
    const rest = Promise.withResolvers<void>();
    harness.backend.script({ tool_calls: [toolCall], after: rest.promise }, { text: 'So be it.' });
    const turnId = await harness.send(id, 'run it');
    disk.ready = Promise.reject(fail('disk_full', 'the journal could not be written: the disk is full'));
    disk.ready.catch(() => {});
    rest.resolve();
    const { payload } = await harness.ended(turnId);
    assert.deepEqual([payload.kind, payload.stop_reason], ['disk_full', 'error']);
    assert.equal(inShort(harness.events(id)).includes('approval.requested'), false);
    const done = harness.sessions.open(id).record.history.find((item) => item.role === 'tool');
    assert.equal(done?.ok, false);
    assert.deepEqual([...harness.broker.waiting()], []);
  });
});

test('the same call asked about twice at once is one question, also while it is on its way to the disk', async () => {
  const { journal, disk } = crashable();
  await using harness = await Harness.start({ journal });
  const id = await harness.create();
  const log = harness.sessions.open(id);
  using held = disk.hold();
  const request = {
    kind: 'tool',
    title: 'bash: echo ran',
    tool: { name: 'bash', input: { command: 'echo ran' }, call_id: 'c1' },
    risks: ['exec'],
  } as const;
  const { signal } = new AbortController();
  const both = [harness.broker.ask(log, 't', request, signal), harness.broker.ask(log, 't', request, signal)];
  held.release();
  const { payload } = await harness.event(({ type }) => type === 'approval.requested');
  harness.broker.answer(log, payload.approval.id, { decision: 'deny', remember: 'once' }, 'alice');
  const ends = await Promise.all(both);
  assert.deepEqual(
    ends.map(({ id: which, state }) => [which, state]),
    [
      [payload.approval.id, 'denied'],
      [payload.approval.id, 'denied'],
    ],
  );
  assert.equal(harness.events(id).filter(({ type }) => type === 'approval.requested').length, 1);
});
