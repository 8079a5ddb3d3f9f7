/** The streams of tasks: how they are named, and that nothing of an ended one is held ready. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TaskJournal, taskStream } from '../../../src/fleet/orchestrator/task-journal.ts';
import type { Journal } from '../../../src/journal/journal.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { settle } from './support/virtual-clock.ts';

/** Makes a journal in memory that notes the order of appends and releases. */
function noted(): { journal: Journal; notes: string[] } {
  const memory = memoryJournal();
  const notes: string[] = [];
  const journal: Journal = {
    append(session, entries, durability, owner) {
      notes.push(`${entries.map(({ kind }) => kind).join(' ')} to ${session}`);
      return memory.append(session, entries, durability, owner);
    },
    volatileFailures: 0,
    read: (session, after, limit) => memory.read(session, after, limit),
    follow: (session, after, signal) => memory.follow(session, after, signal),
    sessions: (limit, owner) => memory.sessions(limit, owner),
    owner: (session) => memory.owner(session),
    release: (session) => void notes.push(`release ${session}`),
    delete: (session) => memory.delete(session),
    close: () => memory.close(),
  };
  return { journal, notes };
}

test('streams are in the order of their tasks, so that a database adds new ones in one place', () => {
  const names = [1, 9, 10, 99, 100, 1_000_000].map((number) => taskStream({ number, task_id: `id-${-number}` }));
  assert.deepEqual(names.toSorted(), names);
  assert.notEqual(taskStream({ number: 1, task_id: 'a' }), taskStream({ number: 1, task_id: 'b' }));
});

test('the stream of an ended task is released after its last event, also one that follows later', async () => {
  const { journal, notes } = noted();
  const events = new TaskJournal(journal, () => 0);
  const task = { task_id: 't', number: 1 };
  const name = taskStream(task);
  events.begin(task, undefined);
  events.write(task, 'submitted', {});
  await settle();
  events.write(task, 'ended', {});
  events.end('t');
  await settle();
  assert.deepEqual(notes, [`submitted to ${name}`, `ended to ${name}`, `release ${name}`]);

  notes.length = 0;
  events.write(task, 'stale_result', {});
  events.end('t');
  await settle();
  assert.deepEqual(notes, [`stale_result to ${name}`, `release ${name}`]);
});
