/**
 * The remains of an ended session in the SQLite journal: its rows, and no data that an opening, a sweep or a list would
 * have to read again for each of them.
 */
import assert from 'node:assert/strict';
import { copyFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { tool } from '../../../src/capabilities/tools/tool.ts';
import { Expiry, type WrittenSession } from '../../../src/journal/sqlite/expiry.ts';
import { JournalRows } from '../../../src/journal/sqlite/rows.ts';
import { type SqliteJournal, sqliteJournal } from '../../../src/journal/sqlite/sqlite.ts';
import { testHost } from '../../../src/testing.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { recognisable, recognisableRange } from '../fixtures/recognisable.ts';

const nameOf = (number: number): string => `s${String(number).padStart(6, '0')}`;

/** Returns a journal with ended sessions whose volatile entries are in the file. */
async function withEnded(t: TestContext, count: number): Promise<{ journal: SqliteJournal; file: string }> {
  const file = join(temporaryFolder(t), 'journal.db');
  const journal = await sqliteJournal({ file });
  t.after(() => journal.close());
  for (let number = 0; number < count; number += 1) {
    journal.append(nameOf(number), recognisableRange(1, 3), 'volatile');
    journal.release?.(nameOf(number));
  }
  // Waiting entries are written before the sessions are listed.
  await journal.sessions(1);
  return { journal, file };
}

function rowsOf<Row>(file: string, sql: string): Row[] {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    return db.prepare(sql).all() as Row[];
  } finally {
    db.close();
  }
}

test('a released session holds no reservation in the file: a killed process leaves none to be ended', async (t) => {
  const { journal, file } = await withEnded(t, 500);
  journal.append('running', recognisableRange(1, 3), 'volatile');
  await journal.sessions(1);
  const held = rowsOf<{ session: string }>(file, 'SELECT session FROM sessions WHERE reserved > 0');
  assert.deepEqual(
    held.map(({ session }) => session),
    ['running'],
  );

  const copy = `${file}.killed`;
  for (const suffix of ['', '-wal']) if (existsSync(file + suffix)) copyFileSync(file + suffix, copy + suffix);
  const again = await sqliteJournal({ file: copy });
  t.after(() => again.close());
  assert.deepEqual((await again.read(nameOf(7), 0)).entries, recognisableRange(1, 3));
  assert.equal((await again.read(nameOf(7), 0)).last, 3, 'what ended whole continues where it ended');
  assert.ok((await again.read('running', 0)).last > 3, 'cursors of the running one may have been used');
});

test('a released session may continue: its cursors are reserved again before they are used', async (t) => {
  const { journal, file } = await withEnded(t, 1);
  journal.append(nameOf(0), [recognisable(4)], 'volatile');
  const held = rowsOf<{ reserved: number }>(file, 'SELECT reserved FROM sessions');
  assert.ok((held[0]?.reserved ?? 0) > 4, 'on disk before the append returned');
  assert.deepEqual((await journal.read(nameOf(0), 0)).entries, recognisableRange(1, 4));
});

test('a released session may continue at once: readers and writers find what was appended meanwhile', async (t) => {
  const { journal } = await withEnded(t, 1);
  const name = nameOf(0);
  journal.append(name, [recognisable(4)], 'volatile');
  await journal.sessions(1);
  journal.release?.(name);
  // The release has not been written yet.
  journal.append(name, [recognisable(5)], 'volatile');
  assert.deepEqual((await journal.read(name, 0)).entries, recognisableRange(1, 5));
  const follower = journal.follow(name, 0)[Symbol.asyncIterator]();
  for (let cursor = 1; cursor <= 5; cursor++) assert.deepEqual((await follower.next()).value, recognisable(cursor));
  const next = follower.next();
  journal.append(name, [recognisable(6)], 'volatile');
  assert.deepEqual((await next).value, recognisable(6));
  await journal.sessions(1);
  assert.deepEqual((await journal.read(name, 0)).entries, recognisableRange(1, 6));
  await follower.return?.();
});

test('a session of a host gives its reservation back when it ends', async (t) => {
  const file = join(temporaryFolder(t), 'journal.db');
  const journal = await sqliteJournal({ file });
  t.after(() => journal.close());
  const sender = tool({
    name: 'sends',
    description: 'Sends an event',
    input: {},
    run: async (_input: object, { emit }) => {
      await emit('log', { level: 'info', message: 'x' });
      return {};
    },
  });
  await using host = await testHost({ tools: [sender], journal });
  const reserved = async (): Promise<boolean[]> => {
    await journal.sessions(1);
    return rowsOf<{ reserved: number }>(file, 'SELECT reserved FROM sessions').map((row) => row.reserved > 0);
  };
  const agent = await host.connect({ capabilities: ['tools'] });
  await agent.tools.call('sends', {});
  assert.deepEqual(await reserved(), [true]);
  await agent.close();
  for (let turns = 0; turns < 500 && (await reserved())[0]; turns += 1)
    await new Promise((done) => setTimeout(done, 10));
  assert.deepEqual(await reserved(), [false]);
});

test('no statement of the journal reads every session', async (t) => {
  const { journal, file } = await withEnded(t, 1);
  await journal.close();
  const db = new DatabaseSync(file);
  t.after(() => db.close());
  const statements: string[] = [];
  new JournalRows({
    exec: () => {},
    close: () => {},
    isTransaction: false,
    prepare(sql) {
      statements.push(sql);
      return db.prepare(sql) as unknown as ReturnType<ConstructorParameters<typeof JournalRows>[0]['prepare']>;
    },
  });
  // Asked for once, of a file that a damage took, or that has no mark yet.
  const rare = /count\(\*\)|max\(max\(|sum\(bytes\)/;
  const scans = statements
    .filter((sql) => !rare.test(sql))
    .flatMap((sql) =>
      db
        .prepare(`EXPLAIN QUERY PLAN ${sql}`)
        .all(...Array.from({ length: sql.split('?').length - 1 }, () => 1))
        .map(({ detail }) => `${detail}: ${sql}`),
    )
    .filter((step) => /^(SCAN (sessions|blocks)\b|USE TEMP B-TREE)/.test(step))
    // The newest first, as many as are asked for; or those that hold a reservation or a record.
    .filter(
      (step) =>
        !/^SCAN sessions USING (COVERING )?INDEX (sessions_by_write|reserved_sessions|recorded_sessions)/.test(step),
    );
  assert.deepEqual(scans, []);
});

test('a sweep looks at the sessions page by page, and drops what is too old or too much of all pages', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const held = new Map<string, WrittenSession>();
  for (let written = 1; written <= 5000; written += 1) {
    const session = nameOf(written);
    held.set(session, { session, written, owner: '' });
  }
  let most = 0;
  const expiry = new Expiry(
    {
      names(limit, after) {
        const page = [...held.values()].filter(({ written }) => written > (after?.written ?? 0)).slice(0, limit);
        most = Math.max(most, page.length);
        return page;
      },
      writtenBefore: () => 100,
      busy: () => false,
      drop: (sessions) => sessions.every((session) => held.delete(session)),
      failed: (thrown) => assert.fail(String(thrown)),
    },
    { maxAgeMs: 1, maxSessions: 2000, retains: (session) => session === nameOf(50) },
  );
  t.after(() => expiry.stop());
  t.mock.timers.tick(1000);
  for (let turns = 0; turns < 1000 && held.size > 2001; turns += 1) await new Promise((done) => setImmediate(done));
  assert.deepEqual([...held.keys()].slice(0, 2), [nameOf(50), nameOf(3001)]);
  assert.equal(held.size, 2001);
  assert.ok(most < 2000, `${most} at a time`);
});
