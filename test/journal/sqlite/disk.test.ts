/**
 * The SQLite journal on a disk that is full, fails, or fails at the worst moment.
 *
 * Tests that need root (`mount`) or `strace` are skipped with a reason if these are missing; the last suite puts the
 * same failures between the journal and SQLite and runs everywhere.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { DEFAULT_RETENTION, type JournalEntry } from '../../../src/journal/journal.ts';
import { MIGRATIONS } from '../../../src/journal/sqlite/rows.ts';
import { sqliteJournal } from '../../../src/journal/sqlite/sqlite.ts';
import { SqliteStore } from '../../../src/journal/sqlite/store.ts';
import {
  FailingDatabase,
  SQLITE_BUSY,
  SQLITE_CORRUPT,
  SQLITE_FULL,
  SQLITE_IOERR_FSYNC,
  SQLITE_IOERR_SHMSIZE,
  SQLITE_IOERR_WRITE,
} from '../fixtures/failing-database.ts';
import { recognisable, recognisableRange } from '../fixtures/recognisable.ts';
import { acknowledged, startWriter } from '../fixtures/writer.ts';

/** Far above the duration of any of these; only present so that a lost wake-up fails instead of hanging. */
const TIMEOUT = { timeout: 300_000 };
const failsWith = (code: string) => (error: unknown) => (error as { code?: string }).code === code;

let directory = '';
before(() => {
  directory = mkdtempSync(join(tmpdir(), 'handfast-disk-'));
});
after(() => rmSync(directory, { recursive: true }));

/** Returns the reason why file systems cannot be mounted here, or false. */
function noMount(): string | false {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'mounting a small tmpfs needs root on Linux';
  const probe = mkdtempSync(join(tmpdir(), 'handfast-mount-'));
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', probe]).status === 0;
  if (mounted) spawnSync('umount', [probe]);
  rmSync(probe, { recursive: true });
  return mounted ? false : 'this system does not allow to mount a tmpfs';
}

/** Returns the reason why system calls cannot be traced here, or false. */
function noStrace(): string | false {
  const probe = spawnSync('strace', ['-f', '-qq', '-o', '/dev/null', '-e', 'inject=fsync:error=EIO', 'true']);
  return probe.status === 0 ? false : 'strace is missing or not allowed to trace';
}

describe('sqlite journal: a full disk', TIMEOUT, () => {
  it('refuses with disk_full, keeps reading, and writes again once there is room', { skip: noMount() }, async () => {
    const disk = join(directory, 'small');
    execFileSync('mkdir', [disk]);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', disk]);
    try {
      writeFileSync(join(disk, 'ballast'), Buffer.alloc(512 * 1024));
      const journal = await sqliteJournal({ file: join(disk, 'journal.db') });
      let kept = 0;
      let refused = 0;
      while (refused < 5) {
        assert.ok(kept < 2000, 'two megabytes hold no two thousand entries');
        const batch = recognisableRange(kept + 1, kept + 3);
        try {
          await journal.append('s', batch);
          kept += 3;
        } catch (error) {
          assert.ok(failsWith('disk_full')(error), String(error));
          assert.equal((error as { retryable: boolean }).retryable, true);
          refused += 1;
          assert.equal((await journal.read('s', 0, 1)).last, kept);
        }
      }
      assert.ok(kept > 0);
      assert.equal(journal.failed, undefined);
      assert.deepEqual([...(await journal.read('s', 0, 5000)).entries], recognisableRange(1, kept));
      rmSync(join(disk, 'ballast'));
      await journal.append('s', recognisableRange(kept + 1, kept + 3));
      await journal.close();
      const again = await sqliteJournal({ file: join(disk, 'journal.db') });
      assert.deepEqual([...(await again.read('s', 0, 5000)).entries], recognisableRange(1, kept + 3));
      await again.close();
    } finally {
      execFileSync('umount', [disk]);
    }
  });

  it('rejects with disk_full when there is no room to create the file', { skip: noMount() }, async () => {
    const disk = join(directory, 'tiny');
    execFileSync('mkdir', [disk]);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=128k', 'tmpfs', disk]);
    try {
      assert.throws(() => writeFileSync(join(disk, 'ballast'), Buffer.alloc(1024 * 1024)), { code: 'ENOSPC' });
      await assert.rejects(sqliteJournal({ file: join(disk, 'journal.db') }), failsWith('disk_full'));
      rmSync(join(disk, 'ballast'));
      const journal = await sqliteJournal({ file: join(disk, 'journal.db') });
      await journal.close();
    } finally {
      execFileSync('umount', [disk]);
    }
  });
});

describe('sqlite journal: syncs', TIMEOUT, () => {
  interface Traced {
    acks: number;
    syncs: number;
    /** Acknowledgements that left while anything in the log was not synced. */
    unsynced: number;
    /** Acknowledgements that left without a sync since the writer announced the use of the cursor. */
    early: number;
  }

  /** Runs a writer to its end under `strace`. */
  async function traced(parameters: readonly string[]): Promise<Traced> {
    const trace = join(directory, 'trace');
    const strace = ['strace', '-f', '-y', '-qq', '-o', trace, '-e', 'trace=fsync,fdatasync,pwrite64,write'];
    await using writer = startWriter(parameters, strace);
    await writer.line(/^done/);
    await writer.ended;
    const counts: Traced = { acks: 0, syncs: 0, unsynced: 0, early: 0 };
    let dirty = false;
    let synced = false;
    for (const line of readFileSync(trace, 'utf8').split('\n')) {
      if (/ write\(1<[^>]*>, "use /.test(line)) synced = false;
      else if (/ pwrite64\(\d+<[^>]*-wal>/.test(line)) dirty = true;
      else if (/ f(data)?sync\(\d+<[^>]*-wal>/.test(line)) {
        counts.syncs += 1;
        synced ||= dirty;
        dirty = false;
      } else if (/ write\(1<[^>]*>, "ack /.test(line)) {
        counts.acks += 1;
        counts.unsynced += dirty ? 1 : 0;
        counts.early += synced ? 0 : 1;
      }
    }
    return counts;
  }

  it('syncs the log between the last write to it and each acknowledgement', { skip: noStrace() }, async () => {
    const { acks, unsynced } = await traced([join(directory, 'synced.db'), 's', '30', '1']);
    assert.deepEqual([acks, unsynced], [30, 0]);
  });

  it('syncs for what is durable and not for what is volatile', { skip: noStrace() }, async () => {
    const { acks, early, syncs } = await traced([join(directory, 'mixed.db'), 's', '700', 'mixed']);
    assert.deepEqual([acks, early], [100, 0]);
    // Besides, one for each step to the tables of now, and a few for reserving cursors and giving them back, and checkpoints.
    assert.ok(syncs >= acks && syncs <= acks + MIGRATIONS.length + 7, `${syncs} syncs`);
  });

  it('accepts no more writes after a failed sync, and continues to read', { skip: noStrace() }, async () => {
    const file = join(directory, 'failing.db');
    await using writer = startWriter(
      [file, 's', '200', '1'],
      ['strace', '-f', '-qq', '-o', '/dev/null', '-e', 'inject=fsync,fdatasync:error=EIO:when=20+'],
    );
    await writer.line(/^store/);
    await writer.ended;
    const kept = acknowledged(writer.lines);
    assert.ok(kept > 0 && kept < 200, `${kept} acknowledged`);
    assert.deepEqual(writer.lines.slice(kept + 1), [
      'failed runtime_error {}',
      `readable ${kept}`,
      'failed runtime_error {}',
      'store runtime_error',
    ]);
    const journal = await sqliteJournal({ file });
    const page = await journal.read('s', 0, 1000);
    // The refused one may have reached the disk all the same; no caller was notified that it had.
    assert.ok(page.last === kept || page.last === kept + 1);
    assert.deepEqual([...page.entries], recognisableRange(1, page.last));
    await journal.close();
  });
});

describe('sqlite journal: a failure inside the commit', TIMEOUT, () => {
  const retention = { ...DEFAULT_RETENTION, maxEntries: 8 };

  async function prepared() {
    const db = new FailingDatabase();
    const store = new SqliteStore(db, retention, () => {});
    await store.append('a', recognisableRange(1, 100));
    await store.append('b', recognisableRange(1, 3));
    return { db, store };
  }

  it('keeps nothing of the batch and all of the rest, whichever statement fails', async () => {
    for (let failing = 1; ; failing += 1) {
      const { db, store } = await prepared();
      const before = await store.sessions();
      db.failNext(failing, SQLITE_FULL);
      const results = await Promise.allSettled([
        store.append('a', recognisableRange(101, 105)),
        store.delete('b'),
        store.append('b', [recognisable(1)]),
        store.append('new', [recognisable(1)]),
      ]);
      if (db.runs < db.failAt) {
        assert.ok(failing > 10, 'a batch like this takes more statements');
        assert.deepEqual(
          (await store.sessions()).map(({ session, last }) => [session, last]),
          [
            ['new', 1],
            ['b', 1],
            ['a', 105],
          ],
        );
        await store.close();
        return;
      }
      for (const result of results) {
        assert.ok(result.status === 'rejected' && failsWith('disk_full')(result.reason), `statement ${failing}`);
      }
      assert.deepEqual(await store.sessions(), before, `statement ${failing}`);
      assert.deepEqual([...(await store.read('a', 0)).entries], recognisableRange(93, 100));
      assert.deepEqual([...(await store.read('b', 0)).entries], recognisableRange(1, 3));
      assert.equal((await store.read('new', 0)).last, 0);
      // The disk has space again: everything succeeds, with the same cursors.
      await Promise.all([
        store.append('a', recognisableRange(101, 205)),
        store.append('b', [recognisable(4)]),
        store.append('new', [recognisable(1)]),
      ]);
      assert.deepEqual([...(await store.read('a', 0)).entries], recognisableRange(198, 205));
      assert.deepEqual([...(await store.read('b', 0)).entries], recognisableRange(1, 4));
      assert.deepEqual([...(await store.read('new', 0)).entries], [recognisable(1)]);
      await store.close();
    }
  });

  it('tells the followers that saw the lost entries, and no others', async () => {
    const { db, store } = await prepared();
    const ahead = store.follow('a', 100)[Symbol.asyncIterator]();
    const waitingAhead = store.follow('a', 100)[Symbol.asyncIterator]();
    const behind = store.follow('a', 98)[Symbol.asyncIterator]();
    const seen = [ahead.next(), waitingAhead.next()];
    db.failNext(1, SQLITE_FULL);
    const refused = assert.rejects(store.append('a', recognisableRange(101, 102)), failsWith('disk_full'));
    // Fetches the lost entries together with two that stay, but has not been given them when they are lost.
    seen.push(behind.next());
    assert.deepEqual(
      await Promise.all(seen.map(async (next) => ((await next).value as JournalEntry).cursor)),
      [101, 101, 99],
    );
    await waitingAhead.next();
    const waiting = assert.rejects(waitingAhead.next(), failsWith('disk_full'));
    await refused;
    await waiting;
    await assert.rejects(ahead.next(), failsWith('disk_full'));
    assert.equal((await ahead.next()).done, true);
    const replacement = { ...recognisable(101), body: 'what was kept in the end' };
    await store.append('a', [replacement]);
    assert.deepEqual((await behind.next()).value, recognisable(100));
    assert.deepEqual((await behind.next()).value, replacement);
    await store.close();
  });

  it('ends the followers of a session whose deletion was taken back', async () => {
    const { db, store } = await prepared();
    db.failNext(1, SQLITE_FULL);
    const refused = assert.rejects(store.delete('b'), failsWith('disk_full'));
    const next = store.follow('b', 0)[Symbol.asyncIterator]().next();
    await refused;
    assert.deepEqual(await next, { done: true, value: undefined });
    await store.append('b', [recognisable(4)]);
    assert.deepEqual([...(await store.read('b', 0)).entries], recognisableRange(1, 4));
    await store.close();
  });

  it('continues after a failed write, and stops for good after a failed sync or in a damaged file', async () => {
    for (const [errcode, code, fatal] of [
      [SQLITE_IOERR_WRITE, 'runtime_error', false],
      [SQLITE_IOERR_SHMSIZE, 'disk_full', false],
      [SQLITE_BUSY, 'journal_locked', false],
      [SQLITE_IOERR_FSYNC, 'runtime_error', true],
      [SQLITE_CORRUPT, 'journal_corrupt', true],
    ] as const) {
      const { db, store } = await prepared();
      db.failNext(3, errcode);
      await assert.rejects(store.append('a', [recognisable(101)]), failsWith(code));
      assert.equal(store.failed?.code, fatal ? code : undefined);
      const again = store.append('a', [recognisable(101)]);
      if (fatal) await assert.rejects(again, failsWith(code));
      else await again;
      if (fatal) await assert.rejects(store.delete('a'), failsWith(code));
      assert.equal((await store.read('a', 0)).last, fatal ? 100 : 101);
      await store.close();
    }
  });

  it('commits within the append once a batch is large, so that waiting entries stay bounded', async () => {
    const { db, store } = await prepared();
    const before = db.runs;
    let settled = false;
    for (let cursor = 1; cursor < 4096; cursor += 1) store.append('c', [{ ...recognisable(cursor), body: '' }]);
    assert.equal(db.runs, before);
    const last = store.append('c', [recognisable(4096)]);
    assert.ok(db.runs > before + 4096);
    last.then(() => {
      settled = true;
    });
    await Promise.resolve();
    assert.equal(settled, true);
    const runs = db.runs;
    const big = { ...recognisable(4097), body: 'x'.repeat(4 * 1024 * 1024) };
    store.append('c', [big]);
    assert.ok(db.runs > runs);
    await turn();
    await store.close();
  });

  it('reads no more for a follower than it may keep in memory, by count and by size', async () => {
    const { db, store } = await prepared();
    const large = (cursor: number) => ({ ...recognisable(cursor), body: 'x'.repeat(150_000) });
    await store.append('large', [1, 2, 3, 4].map(large));
    const items = store.follow('large', 0)[Symbol.asyncIterator]();
    const before = db.rowsRead;
    await items.next();
    assert.equal(db.rowsRead - before, 2, 'two of them pass 256 KiB');
    await store.close();
  });

  it('evicts unused sessions from memory, not what is stored of them', async () => {
    const { store } = await prepared();
    const follower = store.follow('b', 3)[Symbol.asyncIterator]();
    const next = follower.next();
    for (let session = 0; session < 25_000; session += 1)
      store.append(`s${session}`, [{ ...recognisable(1), body: '' }]);
    await store.append('b', [recognisable(4)]);
    assert.deepEqual((await next).value, recognisable(4));
    await assert.rejects(store.append('s0', [recognisable(1)]), failsWith('runtime_error'));
    await store.append('s0', [recognisable(2)]);
    assert.equal((await store.read('s24999', 0)).last, 1);
    await store.close();
  });
});
