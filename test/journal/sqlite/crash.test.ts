/**
 * The content of the SQLite journal after a process ended in the middle of durable and volatile appends: all
 * acknowledged durable entries, all volatile entries except the last ones, in order, and no cursor that could be used
 * twice.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import type { Journal, JournalEntry } from '../../../src/journal/journal.ts';
import { RESERVED_CURSORS } from '../../../src/journal/sqlite/session.ts';
import { sqliteJournal } from '../../../src/journal/sqlite/sqlite.ts';
import { random } from '../fixtures/random.ts';
import { ROOMY, recognisable, recognisableRange } from '../fixtures/recognisable.ts';
import { acknowledged, startWriter } from '../fixtures/writer.ts';

/** Far above the duration of any of these; only present so that a lost wake-up fails instead of hanging. */
const TIMEOUT = { timeout: 300_000 };

let directory = '';
let files = 0;
/** Returns a path that no other test uses. */
function freshFile(): string {
  files += 1;
  return join(directory, `journal-${files}.db`);
}
before(() => {
  directory = mkdtempSync(join(tmpdir(), 'handfast-crash-'));
});
after(() => rmSync(directory, { recursive: true }));

/** Returns a copy of the files on disk now, in the state after a kill. `cut` shortens the log. */
function leftBehind(file: string, cut = (log: Buffer) => log): string {
  const copy = freshFile();
  writeFileSync(copy, readFileSync(file));
  if (existsSync(`${file}-wal`)) writeFileSync(`${copy}-wal`, cut(readFileSync(`${file}-wal`)));
  return copy;
}

/** Reads a session to its end: stored cursors, and evicted or lost ones. Fails on gaps, duplicates and wrong content. */
async function contents(journal: Journal, session: string, where: string) {
  const there = new Set<number>();
  const gone: [from: number, to: number][] = [];
  let at = 0;
  for (;;) {
    const page = await journal.read(session, at, 100);
    if (page.gap !== undefined) {
      assert.equal(page.gap.from, at + 1, where);
      gone.push([page.gap.from, page.gap.to]);
      at = page.gap.to;
    }
    for (const entry of page.entries) {
      assert.deepEqual(entry, recognisable(at + 1), where);
      at += 1;
      there.add(at);
    }
    if (page.gap === undefined && page.entries.length === 0) {
      assert.equal(at, page.last, where);
      return { there, gone, last: page.last };
    }
  }
}

describe('sqlite journal: a process that ends without closing it', TIMEOUT, () => {
  it('has all that was acknowledged and what was appended before it, whenever the writer is killed', async () => {
    const file = freshFile();
    const seed = Date.now() % 1_000_000;
    const below = random(seed);
    const promised = new Set<number>();
    let lost = 0;
    for (let round = 1; round <= 12; round += 1) {
      await using writer = startWriter([file, 's', '140', 'mixed']);
      const opened = Number((await writer.line(/^open/)).split(' ')[1]);
      const until = below(161);
      if (until > 140) await writer.line(/^done/);
      else if (until > 0) await writer.line(new RegExp(`^use ${opened + until} `));
      await writer.kill();
      const where = `seed ${seed}, round ${round}, killed at ${until}`;
      for (let cursor = opened + 1; cursor <= acknowledged(writer.lines); cursor += 1) promised.add(cursor);
      const [, appended = 0, other = 0] = (writer.lines.findLast((line) => line.startsWith('use')) ?? '').split(' ');
      // Every seventh is durable: no reader may rely on its cursor before it is acknowledged, and it reserves none.
      const unacknowledged = Number(appended) % 7 === 0 && !promised.has(Number(appended));
      const journal = await sqliteJournal({ file, retention: ROOMY });
      for (const [session, highest] of [
        ['s', Number(appended) - (unacknowledged ? 1 : 0)],
        ['s-volatile', Number(other)],
      ] as const) {
        const { there, gone, last } = await contents(journal, session, where);
        // A session of which nothing reached the disk is not there at all, and cannot be taken for itself.
        assert.ok(last >= highest || (last === 0 && (session !== 's' || promised.size === 0)), where);
        if (session === 's') for (const cursor of promised) assert.ok(there.has(cursor), `${where}: ${cursor}`);
        lost += gone.length;
      }
      await journal.close();
    }
    assert.ok(promised.size > 0 && lost > 0, `${promised.size} promised, ${lost} gaps`);
    const db = new DatabaseSync(file, { readOnly: true });
    assert.deepEqual({ ...db.prepare('PRAGMA integrity_check').get() }, { integrity_check: 'ok' });
    db.close();
  });

  it('is whole wherever its log ends', async () => {
    const file = freshFile();
    const seed = Date.now() % 1_000_000;
    const below = random(seed);
    const journal = await sqliteJournal({ file });
    for (let cursor = 1; cursor <= 120; cursor += 1) {
      const name = `s${cursor % 3}`;
      const next = Math.ceil(cursor / 3);
      const acknowledgement = journal.append(name, [recognisable(next)], cursor % 7 === 0 ? 'durable' : 'volatile');
      await acknowledgement;
      if (cursor % 40 === 0) await journal.sessions();
    }
    const sizes = new Set<number>();
    for (let round = 1; round <= 40; round += 1) {
      const cut = below(readFileSync(`${file}-wal`).length);
      const where = `seed ${seed}, log cut at ${cut}`;
      const copy = await sqliteJournal({ file: leftBehind(file, (log) => log.subarray(0, cut)) });
      let size = 0;
      for (const session of ['s0', 's1', 's2']) {
        const { there, gone } = await contents(copy, session, where);
        size += there.size;
        // Whole up to where it ends, and then nothing.
        assert.ok(gone.length <= 1 && (gone[0]?.[0] ?? there.size + 1) === there.size + 1, where);
      }
      sizes.add(size);
      await copy.close();
    }
    assert.ok(sizes.size > 3, `it ended in ${sizes.size} places`);
    await journal.close();
  });

  it('reserves cursors on disk before a session that is there uses them for volatile entries', async () => {
    const file = freshFile();
    const journal = await sqliteJournal({ file });
    await journal.append('s', recognisableRange(1, 3));
    journal.append('s', [recognisable(4)], 'volatile');
    // In this very turn: not even a timer has run.
    const left = leftBehind(file);
    const again = await sqliteJournal({ file: left });
    const first = await contents(again, 's', 'after a crash');
    assert.deepEqual([...first.there], [1, 2, 3]);
    assert.ok(first.last >= 4 + RESERVED_CURSORS - 1);
    assert.deepEqual(first.gone, [[4, first.last]]);
    assert.equal((await again.sessions())[0]?.last, first.last);
    await assert.rejects(again.append('s', [recognisable(first.last)]));
    // Opens it a second time, before any entry of the second process is written.
    again.append('s', [recognisable(first.last + 1)], 'volatile');
    const third = await sqliteJournal({ file: leftBehind(left) });
    const second = await contents(third, 's', 'after two crashes');
    assert.ok(second.last > first.last);
    assert.deepEqual(second.gone, [[4, second.last]], 'two gaps with nothing between are one');
    await third.append('s', [recognisable(second.last + 1)]);
    assert.deepEqual([...(await third.read('s', 4)).entries], [recognisable(second.last + 1)]);
    await Promise.all([journal.close(), again.close(), third.close()]);
  });

  it('reserves again when the reserved cursors are used up', async () => {
    const file = freshFile();
    const journal = await sqliteJournal({ file });
    journal.append('s', [recognisable(1)], 'volatile');
    await journal.sessions();
    const far = RESERVED_CURSORS + 2;
    journal.append('s', [recognisable(far)], 'volatile');
    const again = await sqliteJournal({ file: leftBehind(file) });
    assert.ok((await again.read('s', 0)).last >= far);
    await Promise.all([journal.close(), again.close()]);
  });

  it('reserves nothing for a session that has only durable entries, and ends reservations when it is closed', async () => {
    const file = freshFile();
    const first = await sqliteJournal({ file });
    await first.append('durable', recognisableRange(1, 3));
    first.append('volatile', recognisableRange(1, 3), 'volatile');
    const crashed = await sqliteJournal({ file: leftBehind(file) });
    assert.deepEqual(await contents(crashed, 'durable', 'after a crash'), {
      there: new Set([1, 2, 3]),
      gone: [],
      last: 3,
    });
    await crashed.close();
    await first.close();
    const second = await sqliteJournal({ file });
    for (const session of ['durable', 'volatile']) {
      const { last, gone } = await contents(second, session, session);
      assert.deepEqual([last, gone], [3, []]);
    }
    await second.close();
  });

  it('does not bring a deleted session back under the cursors of its successor', async () => {
    const file = freshFile();
    const journal = await sqliteJournal({ file });
    await journal.append('s', recognisableRange(1, 3));
    const deleted = journal.delete('s');
    journal.append('s', [{ ...recognisable(1), body: 'second life' }], 'volatile');
    const again = await sqliteJournal({ file: leftBehind(file) });
    assert.equal((await again.read('s', 0)).last, 0);
    await deleted;
    assert.equal(((await journal.read('s', 0)).entries[0] as JournalEntry).body, 'second life');
    await Promise.all([journal.close(), again.close()]);
  });
});
