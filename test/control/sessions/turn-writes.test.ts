/**
 * Bytes that a turn writes to the disk: counted in the logs of the databases, which have every page that a commit changed.
 */
import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { openSessionStore } from '../../../src/control/sessions/store/store.ts';
import { sqliteJournal } from '../../../src/journal/sqlite/sqlite.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { scriptedBackend } from '../support/scripted-backend.ts';
import { Harness } from './harness.ts';

const KIB = 1024;
/** Of the log and, once in a while, of the file: each changed page is written twice. */
const WRITTEN_BYTES = 64 * KIB;
const TURNS = 10;

/** Returns text of words, each different from the one before. */
function prose(characters: number): string {
  let text = '';
  for (let n = 1; text.length < characters; n += 1) text += `word${(n * 7919) % 1009} `;
  return text.slice(0, characters);
}

test('a turn whose tool gives 8 KiB writes no more than 64 KiB, and all of it is there again after a kill', async (t) => {
  const folder = temporaryFolder(t);
  const [file, journalFile] = [join(folder, 'sessions.db'), join(folder, 'sessions.journal.db')];
  const result = prose(8 * KIB);
  const backend = scriptedBackend({ tools: { read: () => ({ content: result }) } });
  const open = async () => ({
    store: openSessionStore({ file }),
    journal: await sqliteJournal({ file: journalFile, sparing: true, namesReturn: true, onDamaged() {} }),
  });
  const harness = await Harness.start({ backend, ...(await open()) });
  const id = await harness.create();
  const call = { id: 'c', name: 'read', input: {} };
  const turn = async (): Promise<void> => {
    backend.script({ tool_calls: [call] } as never, { text: 'read' });
    await harness.turn(id, 'read it');
    await harness.ready(id);
  };
  await turn();
  const logged = (): number => [file, journalFile].reduce((all, one) => all + statSync(`${one}-wal`).size, 0);
  const before = logged();
  for (let n = 0; n < TURNS; n += 1) await turn();
  const each = (logged() - before) / TURNS;
  assert.ok(each > 0, 'the logs were not emptied meanwhile');
  assert.ok(each <= WRITTEN_BYTES, `${each} bytes a turn`);
  const db = new DatabaseSync(journalFile, { readOnly: true });
  assert.equal(db.prepare('PRAGMA page_size').get()?.page_size, 1024);
  const { stored = 0, packed = 0 } = db
    .prepare('SELECT sum(length(bodies)) AS stored, sum(length(packed)) AS packed FROM blocks')
    .get() as { stored: number; packed: number };
  db.close();
  // The result is in three entries of each turn.
  assert.ok(stored + packed < TURNS * 12 * KIB, `${stored} and ${packed}`);
  const lines = harness.sessions.open(id).record.messages.map(({ text }) => text);
  const { history } = harness.sessions.open(id).record;
  await harness.stop();
  const again = await Harness.start(await open());
  const record = again.sessions.open(id).record;
  assert.deepEqual(
    record.messages.map(({ text }) => text),
    lines,
  );
  assert.deepEqual(record.history, history);
  await again.stop();
});
