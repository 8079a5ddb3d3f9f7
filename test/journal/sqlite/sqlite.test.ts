/**
 * The SQLite journal as a file: its permissions, its writer, the failures it survives, the files it refuses to open.
 * Its contract as a journal is in `test/contract/journal.test.ts`; a failing disk is in `disk.test.ts`.
 */
// A process of its own: its stores fail, and the failures stay in the process.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { type Damage, sqliteJournal } from '../../../src/journal/sqlite/sqlite.ts';
import { random } from '../fixtures/random.ts';
import { ROOMY, recognisable, recognisableRange } from '../fixtures/recognisable.ts';
import { acknowledged, startWriter } from '../fixtures/writer.ts';

/** Far above the duration of any of these; only present so that a lost wake-up fails instead of hanging. */
const TIMEOUT = { timeout: 300_000 };
const failsWith =
  (code: string, message = /./) =>
  (error: unknown) =>
    (error as { code?: string }).code === code && message.test((error as Error).message);
const mode = (path: string) => statSync(path).mode & 0o777;
const NOW = Date.UTC(2031, 1, 3, 4, 5, 6);

let directory = '';
let files = 0;
/** Returns a path that no other test uses. */
function freshFile(): string {
  files += 1;
  return join(directory, `journal-${files}.db`);
}
before(() => {
  directory = mkdtempSync(join(tmpdir(), 'handfast-sqlite-'));
});
after(() => rmSync(directory, { recursive: true }));

describe('sqlite journal: the file', TIMEOUT, () => {
  it('makes its files 0600 and the directories it creates 0700, and leaves others as they are', async () => {
    const outer = join(directory, 'shared');
    const file = join(outer, 'state', 'journal.db');
    const first = await sqliteJournal({ file });
    await first.append('s', [recognisable(1)]);
    const names = readdirSync(join(outer, 'state'));
    assert.ok(
      names.includes('journal.db-wal') && names.includes('journal.db-shm') && names.includes('journal.db.lock'),
    );
    for (const name of names) assert.equal(mode(join(outer, 'state', name)), 0o600, name);
    assert.equal(mode(outer), 0o700);
    assert.equal(mode(join(outer, 'state')), 0o700);
    await first.close();
    chmodSync(outer, 0o755);
    chmodSync(file, 0o644);
    const second = await sqliteJournal({ file });
    assert.equal(mode(file), 0o600);
    assert.equal(mode(outer), 0o755);
    await second.close();
  });

  it('keeps entries, sessions, retention and order over a restart', async () => {
    const file = freshFile();
    const retention = { maxEntries: 100 };
    const first = await sqliteJournal({ file, retention });
    await first.append('old', recognisableRange(1, 10));
    await first.append('s', recognisableRange(1, 150));
    await first.append('quiet', [recognisable(1)]);
    await first.append('gone', [recognisable(1)]);
    await first.delete('gone');
    const before = await first.sessions();
    await first.close();
    const second = await sqliteJournal({ file, retention });
    assert.deepEqual(await second.sessions(), before);
    assert.deepEqual(
      before.map(({ session, first: oldest, last }) => [session, oldest, last]),
      [
        ['quiet', 1, 1],
        ['s', 51, 150],
        ['old', 1, 10],
      ],
    );
    const page = await second.read('s', 0);
    assert.deepEqual(page.gap, { kind: 'gap', from: 1, to: 50 });
    assert.deepEqual([...page.entries], recognisableRange(51, 150));
    await assert.rejects(second.append('s', [recognisable(150)]), failsWith('runtime_error'));
    await second.append('s', recognisableRange(151, 200));
    assert.deepEqual([...(await second.read('s', 0)).entries], recognisableRange(101, 200));
    await second.append('old', [recognisable(11)]);
    assert.deepEqual(
      (await second.sessions()).map(({ session }) => session),
      ['old', 's', 'quiet'],
    );
    await second.close();
  });

  it('deletes evicted rows, not only hides them, large ones sooner', async () => {
    for (const [retention, body, most] of [
      [{ maxEntries: 10 }, '', 10 + 64],
      [{ maxBytes: 10_000 }, 'x'.repeat(1000), 10 + 2],
    ] as const) {
      const file = freshFile();
      const journal = await sqliteJournal({ file, retention });
      for (let cursor = 1; cursor <= 300; cursor += 1) await journal.append('s', [{ ...recognisable(cursor), body }]);
      assert.equal((await journal.read('s', 0)).entries.length, 10);
      await journal.close();
      const db = new DatabaseSync(file, { readOnly: true });
      const { rows } = db.prepare('SELECT count(*) AS rows FROM blocks').get() as { rows: number };
      db.close();
      assert.ok(rows >= 10 && rows <= most, `${rows} rows for 10 entries`);
    }
  });

  it('stores an object as it was when it was appended', async () => {
    const journal = await sqliteJournal({ file: freshFile() });
    const body = { state: 'before' };
    const acknowledgement = journal.append('s', [{ ...recognisable(1), body }]);
    body.state = 'after';
    for (const wait of [undefined, acknowledgement]) {
      await wait;
      assert.deepEqual((await journal.read('s', 0)).entries[0]?.body, { state: 'before' });
    }
    await journal.close();
  });

  it('refuses an entry that cannot be stored without harming the others of the same turn', async () => {
    const journal = await sqliteJournal({ file: freshFile() });
    const loop: Record<string, unknown> = {};
    loop.self = loop;
    const good = journal.append('s', [recognisable(1)]);
    for (const wrong of [{ body: loop }, { body: { toJSON: () => undefined } }, { ts: Number.NaN }, { body: null }]) {
      const entry = { ...recognisable(2), ...wrong } as ReturnType<typeof recognisable>;
      await assert.rejects(journal.append('s', [entry]), failsWith('runtime_error'));
    }
    await good;
    assert.deepEqual([...(await journal.read('s', 0)).entries], [recognisable(1)]);
    await journal.close();
  });

  it('can be read by another program while it is open', async () => {
    const file = freshFile();
    const journal = await sqliteJournal({ file });
    await journal.append('s', recognisableRange(1, 20));
    const db = new DatabaseSync(file, { readOnly: true });
    assert.equal(db.prepare('SELECT count(*) AS rows FROM blocks').get()?.rows, 20);
    await journal.append('s', [recognisable(21)]);
    assert.equal(db.prepare('SELECT count(*) AS rows FROM blocks').get()?.rows, 21);
    db.close();
    await journal.close();
  });
});

describe('sqlite journal: one writer', TIMEOUT, () => {
  it('refuses a second writer and names the process that has the file', async () => {
    const file = freshFile();
    await using holder = startWriter([file, 'hold']);
    await holder.line(/^open/);
    await assert.rejects(sqliteJournal({ file }), (error: unknown) => {
      assert.ok(failsWith('journal_locked')(error));
      assert.deepEqual((error as { detail: unknown }).detail, { pid: holder.child.pid });
      assert.equal((error as { retryable: boolean }).retryable, true);
      return true;
    });
    holder.child.stdin?.end();
    await holder.ended;
    const journal = await sqliteJournal({ file });
    await using refused = startWriter([file, 'hold']);
    assert.equal(await refused.line(/./), `failed journal_locked {"pid":${process.pid}}`);
    await assert.rejects(sqliteJournal({ file }), failsWith('journal_locked'));
    // The refusals, one of them in this very process, must not have loosened the lock.
    await using again = startWriter([file, 'hold']);
    assert.match(await again.line(/./), /^failed journal_locked/);
    await journal.append('s', [recognisable(1)]);
    await journal.close();
  });

  it('names no process when the one on record is gone', async () => {
    const file = freshFile();
    const journal = await sqliteJournal({ file });
    const gone = spawnSync(process.execPath, ['--version']).pid;
    writeFileSync(`${file}.pid`, `${gone}\n`);
    await assert.rejects(sqliteJournal({ file }), (error: unknown) => {
      assert.ok(failsWith('journal_locked', /another process/)(error));
      assert.deepEqual((error as { detail: unknown }).detail, {});
      return true;
    });
    await journal.close();
  });

  it('is free at once when the writer was killed', async () => {
    const file = freshFile();
    const holder = startWriter([file, 'hold']);
    await holder.line(/^open/);
    await holder.kill();
    assert.ok(existsSync(`${file}.pid`), 'the killed process could not tidy up');
    const journal = await sqliteJournal({ file });
    await journal.close();
    assert.ok(!existsSync(`${file}.pid`));
  });

  it('loses nothing acknowledged when the writer is killed at any moment', async () => {
    const file = freshFile();
    const seed = Date.now() % 1_000_000;
    const below = random(seed);
    for (let round = 1; round <= 20; round += 1) {
      await using writer = startWriter([file, 's', '200', String([1, 1, 4, 16][round % 4])]);
      const opened = Number((await writer.line(/^open/)).split(' ')[1]);
      // Some die before the first acknowledgement, some after the last.
      const until = below(201);
      if (until > 0) await writer.line(new RegExp(`^ack ${opened + until}$`));
      await writer.kill();
      const journal = await sqliteJournal({ file, retention: ROOMY });
      const page = await journal.read('s', 0, 10_000);
      const where = `seed ${seed}, round ${round}, killed at ${opened + until}`;
      assert.ok(page.last >= Math.max(opened, acknowledged(writer.lines)), where);
      assert.deepEqual([...page.entries], recognisableRange(1, page.last), where);
      await journal.close();
    }
    const db = new DatabaseSync(file, { readOnly: true });
    assert.deepEqual({ ...db.prepare('PRAGMA integrity_check').get() }, { integrity_check: 'ok' });
    db.close();
  });
});

describe('sqlite journal: damage', TIMEOUT, () => {
  const SESSIONS = ['a', 'b', 'c'];
  let whole = '';

  before(async () => {
    whole = freshFile();
    const journal = await sqliteJournal({ file: whole });
    for (const session of SESSIONS) await journal.append(session, recognisableRange(1, 40));
    await journal.close();
  });

  /** Returns a copy of the whole journal, with `damage` done to its bytes. */
  function damagedCopy(damage: (bytes: Buffer) => void): string {
    const file = freshFile();
    const bytes = readFileSync(whole);
    damage(bytes);
    writeFileSync(file, bytes);
    return file;
  }

  const kinds: Record<string, (file: string) => void> = {
    'a header of garbage': (file) => writeFileSync(file, Buffer.alloc(8192, 'not a database ')),
    'a page of garbage': (file) => {
      const bytes = readFileSync(file);
      const page = Math.floor(bytes.length / 4096 / 2) * 4096;
      bytes.fill(0xa5, page, page + 4096);
      writeFileSync(file, bytes);
    },
    'a truncated file': (file) => truncateSync(file, Math.floor(statSync(file).size / 2)),
    'a file cut within its header': (file) => truncateSync(file, 40),
    'an emptied file with a log beside it': (file) => {
      truncateSync(file, 0);
      writeFileSync(`${file}-wal`, Buffer.alloc(4096, 1));
    },
    'a table definition that changed': (file) => {
      const bytes = readFileSync(file);
      bytes.write('evictet', bytes.indexOf('evicted INTEGER'));
      writeFileSync(file, bytes);
    },
  };

  for (const [kind, damage] of Object.entries(kinds)) {
    it(`finds ${kind}, leaves it without onCorrupt, sets it aside with it`, async () => {
      const file = freshFile();
      copyFileSync(whole, file);
      damage(file);
      const bytes = readFileSync(file);
      await assert.rejects(sqliteJournal({ file }), failsWith('journal_corrupt', /journal-\d+\.db is damaged/));
      assert.deepEqual(readFileSync(file), bytes);
      for (const suffix of ['', '-2']) {
        const reports: Damage[] = [];
        const journal = await sqliteJournal({ file, now: () => NOW, onCorrupt: (report) => reports.push(report) });
        const movedTo = `${file}.corrupt-20310203T040506Z${suffix}`;
        assert.deepEqual(
          reports.map((report) => report.movedTo),
          [movedTo],
        );
        assert.match(reports[0]?.reason ?? '', /./);
        assert.deepEqual(readFileSync(movedTo), bytes);
        assert.deepEqual(await journal.sessions(), []);
        await journal.append('a', [recognisable(1)]);
        await journal.close();
        // Once more, in the same second.
        writeFileSync(file, bytes);
        if (kind.startsWith('an emptied')) writeFileSync(`${file}-wal`, Buffer.alloc(4096, 1));
      }
    });
  }

  it('never returns a wrong entry after a flipped bit: it is found at opening, at reading, or harmless', async () => {
    const seed = Date.now() % 1_000_000;
    const below = random(seed);
    const outcomes = { opening: 0, reading: 0, harmless: 0 };
    for (let round = 1; round <= 120; round += 1) {
      const size = statSync(whole).size;
      // A third of them in the hundred bytes of the header, where every field means something.
      const place = round % 3 === 0 ? below(100) : below(size);
      const bit = below(8);
      const file = damagedCopy((bytes) => {
        bytes[place] = (bytes[place] ?? 0) ^ (1 << bit);
      });
      const where = `seed ${seed}, byte ${place}, bit ${bit}`;
      const journal = await sqliteJournal({ file }).catch((error: { code: string; message: string }) => {
        // In the header, a bit can also make it another program's file or a newer version's.
        const refused = error.code === 'runtime_error' && place < 100;
        assert.ok(error.code === 'journal_corrupt' || refused, `${where}: ${error.code} ${error.message}`);
        outcomes.opening += 1;
      });
      if (!journal) continue;
      for (const session of SESSIONS) {
        try {
          const page = await journal.read(session, 0);
          assert.deepEqual([...page.entries], recognisableRange(1, 40), where);
          outcomes.harmless += 1;
        } catch (error) {
          assert.ok(failsWith('journal_corrupt')(error), `${where}: ${error}`);
          outcomes.reading += 1;
        }
      }
      await journal.close();
      rmSync(file);
    }
    assert.ok(outcomes.opening > 0 && outcomes.reading > 0 && outcomes.harmless > 0, JSON.stringify(outcomes));
  });

  it('a damaged entry fails its own session only, which can still be deleted and begun again', async () => {
    const file = damagedCopy((bytes) => {
      bytes[bytes.indexOf('17:rrrr') + 3] = 'x'.charCodeAt(0);
    });
    const journal = await sqliteJournal({ file });
    const results = await Promise.allSettled(SESSIONS.map((session) => journal.read(session, 0)));
    const hurt = SESSIONS.filter((_, index) => results[index]?.status === 'rejected');
    assert.equal(hurt.length, 1);
    const [session = ''] = hurt;
    await assert.rejects(journal.read(session, 0), failsWith('journal_corrupt', /entry 17/));
    assert.deepEqual([...(await journal.read(session, 17)).entries], recognisableRange(18, 40));
    const items = journal.follow(session, 0)[Symbol.asyncIterator]();
    await assert.rejects(items.next(), failsWith('journal_corrupt'));
    assert.equal((await items.next()).done, true);
    assert.equal(journal.failed, undefined);
    await journal.delete(session);
    await journal.append(session, [recognisable(1)]);
    assert.deepEqual([...(await journal.read(session, 0)).entries], [recognisable(1)]);
    await journal.close();
  });

  for (const [what, where] of [
    ['in the middle', 'last = 12'],
    ['at the end', 'last = 40'],
    ['at the beginning', 'last = 1'],
  ] as const) {
    it(`finds that an entry is missing ${what} of a session`, async () => {
      const file = freshFile();
      const whole = await sqliteJournal({ file });
      for (let cursor = 1; cursor <= 40; cursor += 1) await whole.append('b', [recognisable(cursor)]);
      await whole.close();
      const db = new DatabaseSync(file);
      db.exec(`DELETE FROM blocks WHERE session = 'b' AND ${where}`);
      db.close();
      const journal = await sqliteJournal({ file });
      await assert.rejects(journal.read('b', 0), failsWith('journal_corrupt', /missing/));
      await journal.close();
    });
  }

  it('keeps its log short, however much is written', async () => {
    const file = freshFile();
    const journal = await sqliteJournal({ file });
    const body = 'x'.repeat(50_000);
    for (let cursor = 1; cursor <= 400; cursor += 1) {
      const written = journal.append(
        's',
        [{ ...recognisable(cursor), body }],
        cursor % 4 === 0 ? 'durable' : 'volatile',
      );
      await written;
    }
    const { size } = statSync(`${file}-wal`);
    assert.ok(size < 4 * 1024 * 1024, `${size} bytes after twenty million`);
    await journal.close();
  });

  it('finds a session whose counters were changed, before it appends to it', async () => {
    const file = damagedCopy(() => {});
    const db = new DatabaseSync(file);
    db.exec("UPDATE sessions SET last = 12 WHERE session = 'b'");
    db.close();
    const journal = await sqliteJournal({ file });
    await assert.rejects(journal.append('b', [recognisable(13)]), failsWith('journal_corrupt', /session "b"/));
    await assert.rejects(journal.read('b', 0), failsWith('journal_corrupt'));
    await journal.append('a', [recognisable(41)]);
    await journal.delete('b');
    assert.deepEqual(
      (await journal.sessions()).map(({ session }) => session),
      ['a', 'c'],
    );
    await journal.close();
  });

  it('refuses a file of a newer version, and of another program, and leaves both as they are', async () => {
    const newer = damagedCopy(() => {});
    let db = new DatabaseSync(newer);
    db.exec('PRAGMA user_version=1000');
    db.close();
    const foreign = freshFile();
    db = new DatabaseSync(foreign);
    db.exec('CREATE TABLE addresses (name TEXT)');
    db.close();
    for (const [file, reason] of [
      [newer, /newer version/],
      [foreign, /another program/],
    ] as const) {
      const bytes = readFileSync(file);
      const onCorrupt = () => assert.fail('neither of them is damaged');
      await assert.rejects(sqliteJournal({ file, onCorrupt }), failsWith('runtime_error', reason));
      assert.deepEqual(readFileSync(file), bytes);
      assert.ok(!existsSync(`${file}.pid`), 'the lock was given back');
    }
  });
});
