/**
 * Shares of owners in both journals: the counts, the owner whose oldest entries are evicted, and the state after a
 * restart.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Journal } from '../../src/journal/journal.ts';
import { sharedMemoryJournal } from '../../src/journal/memory.ts';
import { type JournalShareLimits, JournalShares } from '../../src/journal/shares.ts';
import { sqliteJournal } from '../../src/journal/sqlite/sqlite.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const RETENTION = { maxEntries: 1_000, maxBytes: 1_000_000 };
const entry = (cursor: number, bytes = 100) => ({
  cursor,
  ts: cursor,
  kind: 'event',
  request: '',
  body: 'x'.repeat(bytes),
});
const amount = (bytes: number, entries = 1_000) => ({ bytes, entries });

interface Opened {
  readonly journal: Journal;
  readonly shares: JournalShares;
  readonly file: string;
  bytes(): Readonly<Record<string, number>>;
}

async function open(
  t: TestContext,
  kind: 'sqlite' | 'memory',
  limits: JournalShareLimits,
  file = join(temporaryFolder(t), 'journal.db'),
): Promise<Opened> {
  const shares = new JournalShares(limits);
  const expiry = { maxAgeMs: 0, maxSessions: 1_000, retains: (session: string) => session.startsWith('living') };
  const journal =
    kind === 'memory'
      ? sharedMemoryJournal(RETENTION, shares)
      : await sqliteJournal({ file, retention: RETENTION, shares, expiry });
  t.after(() => journal.close());
  return { journal, shares, file, bytes: () => shares.usage.journal_bytes.principals };
}

/** Appends `count` entries of 100 bytes to a session of an owner. */
async function fill({ journal }: Opened, session: string, owner: string, count: number): Promise<void> {
  const { last } = await journal.read(session, 0, 1);
  for (let at = 1; at <= count; at += 1) journal.append(session, [entry(last + at)], 'volatile', owner);
  await settled(journal);
}

/** Waits until waiting entries are written, and excess ones evicted, a slice a turn. */
async function settled(journal: Journal): Promise<void> {
  await journal.sessions(1);
  for (let turn = 0; turn < 50; turn += 1) await delay(0);
}

const stored = async ({ journal }: Opened, session: string): Promise<number> =>
  (await journal.read(session, 0, 1_000)).entries.length;

for (const kind of ['sqlite', 'memory'] as const) {
  test(`${kind}: an owner past its share loses its oldest sessions, and another one nothing`, async (t) => {
    const opened = await open(t, kind, { perOwner: amount(8_000), total: amount(100_000) });
    await fill(opened, 'b', 'bob', 20);
    for (const session of ['a1', 'a2', 'a3']) await fill(opened, session, 'ann', 30);
    assert.deepEqual([await stored(opened, 'b'), await stored(opened, 'a3')], [20, 30]);
    assert.ok((await stored(opened, 'a1')) < 30);
    const { ann = 0, bob } = opened.bytes();
    assert.ok(ann <= 8_000 && ann >= 4_000, `${ann} bytes are left`);
    assert.equal(bob, 2_000);
    await opened.journal.delete('a3');
    await settled(opened.journal);
    assert.equal(opened.bytes().ann, ann - 3_000);
  });

  test(`${kind}: a living session alone loses its own oldest entries, and readers find the gap`, async (t) => {
    const opened = await open(t, kind, { perOwner: amount(1e9, 50), total: amount(1e9, 1e9) });
    await fill(opened, 'living', 'ann', 200);
    const { entries, gap, last } = await opened.journal.read('living', 0, 1_000);
    assert.ok(entries.length <= 50 && entries.length > 30, `${entries.length} are left`);
    assert.deepEqual([entries.at(-1)?.cursor, last], [200, 200]);
    assert.deepEqual(gap, { kind: 'gap', from: 1, to: 200 - entries.length });
  });

  test(`${kind}: past the sum of all, the owner with most loses its oldest`, async (t) => {
    const opened = await open(t, kind, { perOwner: amount(100_000), total: amount(10_000) });
    for (let at = 0; at < 8; at += 1) await fill(opened, `a${at}`, 'ann', 10);
    await fill(opened, 'b', 'bob', 15);
    await fill(opened, 'c', 'cid', 15);
    const { ann = 0, bob, cid } = opened.bytes();
    assert.deepEqual([bob, cid], [1_500, 1_500]);
    assert.ok(ann < 8_000 && ann >= 3_000, `${ann} bytes are left`);
  });
}

test('sqlite: sessions that have ended go before living ones, however old these are', async (t) => {
  const opened = await open(t, 'sqlite', { perOwner: amount(8_000), total: amount(1e9) });
  await fill(opened, 'living', 'ann', 30);
  for (const session of ['a1', 'a2']) await fill(opened, session, 'ann', 30);
  assert.deepEqual([await stored(opened, 'living'), await stored(opened, 'a2')], [30, 30]);
  const left = await stored(opened, 'a1');
  assert.ok(left > 0 && left < 30, `${left} are left of the older one, no more were evicted than had to be`);
});

test('sqlite: what each owner has is known at the start, also where its row is damaged, and of no session without one', async (t) => {
  const limits = { perOwner: amount(1e9), total: amount(1e9) };
  const first = await open(t, 'sqlite', limits);
  await fill(first, 'a', 'ann', 10);
  await fill(first, 'b', 'bob', 20);
  await first.journal.append('unowned', [entry(1)]);
  await first.journal.close();
  const second = await open(t, 'sqlite', limits, first.file);
  assert.deepEqual(second.shares.usage.journal_entries.principals, { bob: 20, ann: 10 });
  // The owner of a session stays that of its first entry.
  second.journal.append('a', [entry(11)], 'volatile', 'bob');
  await settled(second.journal);
  assert.deepEqual(second.bytes(), { bob: 2_000, ann: 1_100 });
  await second.journal.close();
  const db = new DatabaseSync(first.file);
  db.exec(`UPDATE usage SET bytes = 5 WHERE owner = 'ann'`);
  db.close();
  assert.deepEqual((await open(t, 'sqlite', limits, first.file)).bytes(), { bob: 2_000, ann: 1_100 });
});
