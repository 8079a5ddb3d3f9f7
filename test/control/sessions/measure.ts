/**
 * Measures a session of 100,000 events: the cost of an event, and the time to open the session and read a page of it. Prints
 * numbers, asserts nothing. Run by hand: `node -C handfast-source test/control/sessions/measure.ts [turns|stream]`; `stream`
 * has few turns of many chunks, `turns` (the worse case) many turns of few events.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSessionStore } from '../../../src/control/sessions/store/store.ts';
import { sqliteJournal } from '../../../src/journal/sqlite/sqlite.ts';
import { sessionGet, sessionMessages, sessionTurns } from '../../../src/protocol/session-rpc.ts';
import { Harness } from './harness.ts';

const shape = process.argv[2] === 'stream' ? { turns: 100, pieces: 990 } : { turns: 10_000, pieces: 1 };
const directory = mkdtempSync(join(tmpdir(), 'handfast-measure-'));
const print = (what: string, ms: number): void => void process.stdout.write(`${what}: ${ms.toFixed(1)} ms\n`);

async function timed<Value>(what: string, work: () => Value | Promise<Value>): Promise<Value> {
  const started = performance.now();
  const value = await work();
  print(what, performance.now() - started);
  return value;
}

async function start(): Promise<Harness> {
  const retention = { maxEntries: 1e7, maxBytes: 1e10 };
  const journal = await sqliteJournal({ file: join(directory, 'journal.db'), retention });
  const store = openSessionStore({ file: join(directory, 'sessions.db') });
  return timed('start', () => Harness.start({ journal, store }));
}

const first = await start();
const id = await first.create();
const pieces = Array.from({ length: shape.pieces }, (_, at) => `piece ${at} `);
const began = performance.now();
for (let count = 0; count < shape.turns; count += 1) {
  first.backend.script({ pieces });
  await first.turn(id, `prompt number ${count}`);
  // The test's own notes are no part of the measurement.
  for (const list of [first.published, first.backend.requests, first.backend.turns]) list.length = 0;
}
const events = first.sessions.events.lastSeq(id);
print(`${events} events, each`, (performance.now() - began) / events);
await first.stop();

const second = await start();
await timed('open', () => second.sessions.open(id).record.messages.length);
await timed('a page of messages', () => second.call(sessionMessages, { session_id: id, order: 'newest' }));
await timed('a page of turns', () => second.call(sessionTurns, { session_id: id }));
await timed('500 events', () => second.sessions.events.read(id, events - 500, 500));
await timed('the whole state', () => second.call(sessionGet, { session_id: id }));
await second.stop();
rmSync(directory, { recursive: true });
