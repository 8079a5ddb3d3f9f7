/**
 * The write-behind of the SQLite journal: the times at which volatile entries reach the file, the cost of a failing
 * disk, and the bounds of the memory they wait in. The cost of a crash is in `crash.test.ts`.
 */
// A process of its own: its stores fail, and the failures stay in the process.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it, mock } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { DEFAULT_RETENTION, type JournalEntry, type Retention } from '../../../src/journal/journal.ts';
import { SqliteStore } from '../../../src/journal/sqlite/store.ts';
import { MAX_WAITING_BYTES, MAX_WAITING_ENTRIES, WRITE_BEHIND_MS } from '../../../src/journal/sqlite/write-behind.ts';
import fc from '../../support/properties.ts';
import { FailingDatabase, SQLITE_FULL, SQLITE_IOERR_FSYNC } from '../fixtures/failing-database.ts';
import { recognisable, recognisableRange } from '../fixtures/recognisable.ts';

const failsWith = (code: string) => (error: unknown) => (error as { code?: string }).code === code;
/** Returns an entry without weight, for tests where only numbers matter. */
const light = (cursor: number): JournalEntry => ({ ...recognisable(cursor), body: '' });
const cursors = (entries: readonly JournalEntry[]) => entries.map(({ cursor }) => cursor);

interface Opened {
  readonly db: FailingDatabase;
  readonly store: SqliteStore;
  /** Makes every later transaction take this number of milliseconds. */
  slow(ms: number): void;
}

function opened(retention: Partial<Retention> = {}): Opened {
  const db = new FailingDatabase();
  let blockedMs = 0;
  const store = new SqliteStore(
    db,
    { ...DEFAULT_RETENTION, ...retention },
    () => {},
    () => Date.now() + blockedMs,
  );
  const slow = (ms: number) => {
    db.committing = () => {
      blockedMs += ms;
    };
  };
  return { db, store, slow };
}

const blocks = (db: FailingDatabase) => db.select('SELECT session, first, last, entries FROM blocks ORDER BY id');
const stored = (db: FailingDatabase) =>
  Number(db.select('SELECT coalesce(sum(entries), 0) AS entries FROM blocks')[0]?.entries);

describe('sqlite journal: write-behind', () => {
  beforeEach(() => mock.timers.enable({ apis: ['setTimeout', 'setImmediate', 'Date'] }));
  afterEach(() => mock.timers.reset());

  it('writes what came within a while in one transaction without a sync, entries of a session side by side', async () => {
    const { db, store } = opened();
    for (let cursor = 1; cursor <= 40; cursor += 1) {
      store.append('a', [light(cursor)], 'volatile');
      store.append('b', [light(cursor)], 'volatile');
    }
    mock.timers.tick(WRITE_BEHIND_MS - 1);
    assert.equal(db.runs, 0);
    mock.timers.tick(1);
    assert.deepEqual(
      blocks(db),
      [
        { session: 'a', first: 1, last: 40, entries: 40 },
        { session: 'b', first: 1, last: 40, entries: 40 },
      ].map((row) => Object.assign(Object.create(null), row)),
    );
    assert.deepEqual(db.executed, ['PRAGMA synchronous=NORMAL']);
    assert.equal(db.runs, 1 + 2 * 2 + 1, 'a block and a row for each, between BEGIN and COMMIT');
    const { runs } = db;
    mock.timers.tick(60_000);
    assert.equal(db.runs, runs, 'nothing more came, so nothing is done');
    await store.close();
  });

  it('spreads many sessions over many turns, and leaves what comes meanwhile for the next round', async () => {
    mock.timers.reset();
    mock.timers.enable({ apis: ['setTimeout', 'Date'] });
    const { db, store } = opened();
    const thousands = (from: number) => {
      const entries = Array.from({ length: 1000 }, (_, index) => light(from + index));
      for (let session = 0; session < 10; session += 1) store.append(`s${session}`, entries, 'volatile');
    };
    thousands(1);
    mock.timers.tick(WRITE_BEHIND_MS);
    assert.equal(stored(db), 3000, 'the third session passes 2,048 entries');
    thousands(1001);
    const steps: number[] = [];
    for (let before = -1; before !== stored(db); ) {
      before = stored(db);
      await turn();
      steps.push(stored(db) - before);
    }
    assert.deepEqual(steps, [4000, 4000, 4000, 2000, 0], 'the seven left, with what they have by now');
    mock.timers.tick(WRITE_BEHIND_MS);
    assert.equal(stored(db), 20_000);
    await store.close();
  });

  it('never writes what retention would take from the waiting ones anyway', async () => {
    const { db, store } = opened({ maxEntries: 10 });
    await Promise.all([store.append('s', recognisableRange(1, 10)), mock.timers.tick(1)]);
    for (let cursor = 11; cursor <= 1000; cursor += 1) store.append('s', [recognisable(cursor)], 'volatile');
    const seen = await store.read('s', 0);
    assert.deepEqual(seen.gap, { kind: 'gap', from: 1, to: 990 });
    assert.deepEqual([...seen.entries], recognisableRange(991, 1000));
    const before = db.runs;
    mock.timers.tick(WRITE_BEHIND_MS);
    assert.ok(db.runs - before <= 8, `${db.runs - before} statements for ten entries`);
    assert.equal(stored(db), 10);
    assert.deepEqual(await store.read('s', 0), seen);
    assert.equal(store.volatileFailures, 0);
    await store.close();
  });

  it('takes earlier volatile entries of the session along with a durable one, synced, and leaves other sessions', async () => {
    const { db, store } = opened();
    store.append('s', [light(1), light(2)], 'volatile');
    store.append('other', [light(1)], 'volatile');
    const acknowledged = store.append('s', [light(3)]);
    store.append('s', [light(4)], 'volatile');
    mock.timers.tick(1);
    await acknowledged;
    assert.deepEqual(
      blocks(db).map(({ session, first, last }) => [session, first, last]),
      [
        ['s', 1, 2],
        ['s', 3, 3],
        ['s', 4, 4],
      ],
      'a durable entry has a row of its own',
    );
    assert.deepEqual(db.executed, ['PRAGMA synchronous=FULL']);
    mock.timers.tick(WRITE_BEHIND_MS);
    assert.deepEqual(db.executed.at(-1), 'PRAGMA synchronous=NORMAL');
    assert.equal(blocks(db).length, 4);
    await store.close();
  });

  it('keeps what could not be written in memory, tries again, and says why meanwhile', async () => {
    const { db, store } = opened();
    db.break(SQLITE_FULL);
    store.append('s', recognisableRange(1, 3), 'volatile');
    mock.timers.tick(WRITE_BEHIND_MS);
    assert.equal(store.volatileFailure?.code, 'disk_full');
    assert.deepEqual([...(await store.read('s', 0)).entries], recognisableRange(1, 3));
    const { runs } = db;
    store.append('s', [recognisable(4)], 'volatile');
    for (let cursor = 1; cursor <= MAX_WAITING_ENTRIES / 2; cursor += 1) {
      store.append(`s${cursor % 10}`, [light(cursor)], 'volatile');
    }
    mock.timers.tick(500);
    assert.equal(db.runs, runs, 'a disk that fails is left alone for a second');
    db.break(0);
    mock.timers.tick(500);
    assert.equal(store.volatileFailure, undefined);
    assert.equal(stored(db), 4 + MAX_WAITING_ENTRIES / 2);
    assert.equal(store.volatileFailures, 0);
    assert.deepEqual([...(await store.read('s', 0)).entries], recognisableRange(1, 4));
    await store.close();
  });

  it('restores only what was durable when a commit fails, in any order', async () => {
    const { db, store } = opened();
    store.append('s', [recognisable(1)], 'volatile');
    const follower = store.follow('s', 0)[Symbol.asyncIterator]();
    const behind = store.follow('s', 0)[Symbol.asyncIterator]();
    assert.deepEqual((await behind.next()).value, recognisable(1));
    const refused = assert.rejects(store.append('s', [recognisable(2)]), failsWith('disk_full'));
    store.append('s', [recognisable(3)], 'volatile');
    for (const cursor of [1, 2]) assert.deepEqual((await follower.next()).value, recognisable(cursor));
    db.failNext(1, SQLITE_FULL);
    mock.timers.tick(1);
    await refused;
    await assert.rejects(follower.next(), failsWith('disk_full'));
    assert.deepEqual((await behind.next()).value, recognisable(3));
    assert.deepEqual(cursors((await store.read('s', 0)).entries), [1, 3]);
    await assert.rejects(store.append('s', [recognisable(3)]), failsWith('runtime_error'));
    mock.timers.tick(WRITE_BEHIND_MS);
    assert.equal(stored(db), 2);
    assert.deepEqual(cursors((await store.read('s', 0)).entries), [1, 3]);
    await behind.return?.();
    await store.close();
  });

  for (const [bound, size, most] of [
    ['entries', 0, MAX_WAITING_ENTRIES],
    ['bytes', 64 * 1024, MAX_WAITING_BYTES / (64 * 1024)],
  ] as const) {
    const body = 'x'.repeat(size);
    const append = (store: SqliteStore, from: number, to: number) => {
      // Across sessions, so that retention does not limit their number.
      for (let cursor = from; cursor <= to; cursor += 1) {
        const entry = { ...recognisable(Math.ceil(cursor / 40)), body };
        store.append(`s${cursor % 40}`, [entry], 'volatile');
      }
    };

    it(`writes within the append once too many ${bound} wait`, async () => {
      const { db, store } = opened();
      append(store, 1, most);
      assert.equal(db.runs, 0);
      append(store, most + 1, most * 2);
      assert.ok(stored(db) >= most * 0.9, `${stored(db)} of ${most * 2} written`);
      assert.equal(store.volatileFailures, 0);
      await store.close();
    });

    it(`gives up what waits when the disk fails and too many ${bound} do, counts it and shows a gap`, async () => {
      const { db, store } = opened();
      await Promise.all([store.append('s1', [recognisable(1)]), mock.timers.tick(1)]);
      db.break(SQLITE_FULL);
      append(store, 41, 40 + most);
      assert.equal(store.volatileFailures, 0);
      append(store, 41 + most, 40 + most);
      append(store, 41 + most, 80 + most);
      assert.equal(store.volatileFailures, most + 1);
      const { runs } = db;
      append(store, 81 + most, 80 + most * 2);
      assert.equal(db.runs, runs, 'a disk that fails is not tried at every append');
      assert.ok(store.volatileFailures >= most * 2);
      db.break(0);
      mock.timers.tick(1000);
      assert.equal(store.volatileFailure, undefined);
      const first = await store.read('s1', 0);
      assert.deepEqual(cursors(first.entries), [1], 'a page ends before a gap');
      assert.equal(first.gap, undefined);
      const rest = await store.read('s1', 1, 10_000);
      assert.equal(rest.gap?.from, 2);
      const { last } = first;
      const kept = (rest.gap?.to ?? 0) + 1;
      assert.ok(kept > most / 40 && kept <= last, `kept from ${kept}`);
      assert.deepEqual(
        cursors(rest.entries),
        Array.from({ length: last - kept + 1 }, (_, index) => kept + index),
      );
      const items = store.follow('s1', 0)[Symbol.asyncIterator]();
      assert.equal(((await items.next()).value as JournalEntry).cursor, 1);
      assert.deepEqual((await items.next()).value, rest.gap);
      assert.equal(((await items.next()).value as JournalEntry).cursor, kept);
      await store.close();
    });
  }

  it('counts what waits, not what has been written', async () => {
    const { db, store } = opened();
    for (let round = 0; round < 5; round += 1) {
      const { runs } = db;
      for (let cursor = 1; cursor <= 10_000; cursor += 1) {
        store.append(`s${cursor % 10}`, [light(round * 1000 + Math.ceil(cursor / 10))], 'volatile');
      }
      assert.equal(db.runs, runs);
      mock.timers.tick(WRITE_BEHIND_MS * 2);
      assert.ok(stored(db) >= Math.min((round + 1) * 10_000, 40_960));
    }
    await store.close();
  });

  it('writes nothing durable without its sync, even when volatile entries must be written first', async () => {
    const { db, store } = opened();
    const acknowledged = store.append('s0', [light(1)]);
    for (let cursor = 2; cursor <= MAX_WAITING_ENTRIES + 50; cursor += 1) {
      store.append(`s${cursor % 40}`, [light(cursor)], 'volatile');
    }
    assert.deepEqual(db.executed, ['PRAGMA synchronous=FULL', 'PRAGMA synchronous=NORMAL']);
    await acknowledged;
    await store.close();
  });

  it('reserves cursors with a sync, once, when a stored session gets its first volatile entry', async () => {
    const { db, store } = opened();
    await Promise.all([store.append('s', [light(1)]), mock.timers.tick(1)]);
    store.append('other', [light(1)], 'volatile');
    mock.timers.tick(WRITE_BEHIND_MS);
    const { length } = db.executed;
    store.append('s', [light(2)], 'volatile');
    assert.deepEqual(db.executed.slice(length), ['PRAGMA synchronous=FULL']);
    assert.deepEqual(db.select("SELECT reserved > 2 AS enough, last FROM sessions WHERE session = 's'")[0]?.enough, 1);
    const { runs } = db;
    store.append('s', [light(3)], 'volatile');
    assert.equal(db.runs, runs);
    await store.close();
  });

  it('evicts no more of a block than it must', async () => {
    const { db, store } = opened({ maxBytes: 103 });
    for (const from of [1, 101]) {
      const entries = recognisableRange(from, from + 99).map((entry) => ({ ...entry, body: 'x' }));
      store.append('s', entries, 'volatile');
      mock.timers.tick(WRITE_BEHIND_MS);
    }
    const { entries, gap } = await store.read('s', 0);
    assert.deepEqual([gap?.to, entries[0]?.cursor, entries.length], [97, 98, 103]);
    assert.deepEqual(await store.sessions(), [{ session: 's', first: 98, last: 200, bytes: 103 }]);
    assert.equal(blocks(db).length, 2);
    await store.close();
  });

  it('takes no more writes once the log could not be synced while it was copied into the file', async () => {
    const { db, store } = opened();
    db.failCheckpoint = SQLITE_FULL;
    const append = (cursor: number) =>
      store.append('s', [{ ...light(cursor), body: 'x'.repeat(3_000_000) }], 'volatile');
    append(1);
    mock.timers.tick(WRITE_BEHIND_MS);
    assert.ok(store.failed === undefined, 'without room the log just stays as it is');
    db.failCheckpoint = SQLITE_IOERR_FSYNC;
    append(2);
    mock.timers.tick(WRITE_BEHIND_MS);
    assert.ok(failsWith('runtime_error')(store.failed));
    await assert.rejects(store.append('s', [light(3)]), failsWith('runtime_error'));
    await store.close();
  });

  it('counts an entry that turns out not to be JSON, shows it as a gap, and writes its neighbours', async () => {
    const { db, store } = opened();
    const loop: Record<string, unknown> = {};
    loop.self = loop;
    store.append('s', [recognisable(1), { ...recognisable(2), body: loop }, recognisable(3)], 'volatile');
    store.append('t', [recognisable(1)], 'volatile');
    mock.timers.tick(WRITE_BEHIND_MS);
    assert.equal(store.volatileFailures, 1);
    assert.equal(store.volatileFailure, undefined);
    assert.equal(stored(db), 3);
    assert.deepEqual([...(await store.read('s', 0)).entries], [recognisable(1)]);
    const rest = await store.read('s', 1);
    assert.deepEqual(rest.gap, { kind: 'gap', from: 2, to: 2 });
    assert.deepEqual([...rest.entries], [recognisable(3)]);
    await store.close();
  });

  it('refuses at once what could never be written', async () => {
    const { db, store } = opened();
    for (const wrong of [{ ts: Number.NaN }, { kind: 7 }, { request: undefined }, { body: null }, { body: 1 }]) {
      const entry = { ...recognisable(1), ...wrong } as unknown as JournalEntry;
      await assert.rejects(async () => store.append('s', [entry], 'volatile'), failsWith('runtime_error'));
    }
    assert.equal((await store.read('s', 0)).last, 0);
    mock.timers.tick(WRITE_BEHIND_MS);
    assert.equal(db.runs, 0);
    await store.close();
  });

  it('continues in memory, within its bounds, once the disk has failed for good', async () => {
    const { db, store } = opened({ maxEntries: 5 });
    await Promise.all([store.append('s', [recognisable(1)]), mock.timers.tick(1)]);
    db.failNext(2, SQLITE_IOERR_FSYNC);
    const refused = assert.rejects(store.append('s', [recognisable(2)]), failsWith('runtime_error'));
    mock.timers.tick(1);
    await refused;
    assert.equal(store.failed?.code, 'runtime_error');
    const { runs } = db;
    for (let cursor = 2; cursor <= 20; cursor += 1) store.append('s', [recognisable(cursor)], 'volatile');
    mock.timers.tick(60_000);
    assert.equal(db.runs, runs);
    const page = await store.read('s', 0);
    assert.deepEqual(page.gap, { kind: 'gap', from: 1, to: 15 });
    assert.deepEqual([...page.entries], recognisableRange(16, 20));
    await store.close();
    assert.equal(store.volatileFailures, 5);
  });

  it('lets a slow disk have a tenth of the time, as long as there is room, and forgets it after a rest', async () => {
    const { db, store, slow } = opened();
    slow(50);
    store.append('s', [light(1)], 'volatile');
    mock.timers.tick(WRITE_BEHIND_MS);
    assert.equal(stored(db), 1);
    store.append('s', [light(2)], 'volatile');
    mock.timers.tick(449);
    assert.equal(stored(db), 1);
    mock.timers.tick(1);
    assert.equal(stored(db), 2);
    mock.timers.tick(1000);
    store.append('s', [light(3)], 'volatile');
    mock.timers.tick(WRITE_BEHIND_MS);
    assert.equal(stored(db), 3);
    // Half of the room is where patience ends.
    for (let cursor = 1; cursor <= MAX_WAITING_ENTRIES / 2 + 1; cursor += 1) {
      store.append(`s${cursor % 10}`, [light(cursor)], 'volatile');
    }
    mock.timers.tick(0);
    assert.equal(stored(db), 3 + MAX_WAITING_ENTRIES / 2 + 1);
    await store.close();
  });

  it('does not wait with a session that has a lot to write', async () => {
    for (const [entries, size] of [
      [4097, 0],
      [3, 1024 * 1024],
    ] as const) {
      const { db, store } = opened({ maxEntries: 100_000 });
      const list = Array.from({ length: entries }, (_, index) => ({ ...light(index + 1), body: 'x'.repeat(size) }));
      store.append('s', list.slice(0, 1), 'volatile');
      store.append('s', list.slice(1, -1), 'volatile');
      mock.timers.tick(0);
      assert.equal(stored(db), 0);
      store.append('s', list.slice(-1), 'volatile');
      mock.timers.tick(0);
      assert.equal(stored(db), entries);
      await store.close();
    }
  });

  it('stops waiting when it is closed, with everything written', async () => {
    const { db, store } = opened();
    store.append('s', recognisableRange(1, 20), 'volatile');
    const rows = { entries: 0 };
    const close = db.close.bind(db);
    db.close = () => {
      rows.entries = stored(db);
      close();
    };
    await store.close();
    assert.equal(rows.entries, 20);
    mock.timers.tick(60_000);
  });

  it('holds what a plain list holds, in any order of writes, failures and reopenings', () =>
    fc.assert(
      fc.asyncProperty(
        fc.record({ maxEntries: fc.integer({ min: 1, max: 300 }), maxBytes: fc.integer({ min: 1, max: 6000 }) }),
        fc.array(
          fc.record({
            step: fc.constantFrom('volatile', 'volatile', 'volatile', 'durable', 'write', 'fail', 'crash', 'reopen'),
            sizes: fc.array(fc.integer({ min: 0, max: 60 }), { minLength: 1, maxLength: 120 }),
          }),
          { minLength: 1, maxLength: 30 },
        ),
        fc.integer({ min: 1, max: 300 }),
        async (bounds, steps, limit) => {
          const retention = { ...DEFAULT_RETENTION, ...bounds };
          const db = new FailingDatabase();
          db.close = () => {};
          const open = () =>
            new SqliteStore(
              db,
              retention,
              () => {},
              () => 0,
            );
          let store = open();
          const model = new PlainList(retention);
          for (const { step, sizes } of steps) {
            const entries = sizes.map((size, index) => ({ ...light(model.last + index + 1), body: 'x'.repeat(size) }));
            switch (step) {
              case 'volatile':
                store.append('s', entries, 'volatile');
                model.append(entries);
                break;
              case 'durable':
                await Promise.all([store.append('s', entries), mock.timers.tick(1)]);
                model.append(entries);
                model.write();
                break;
              case 'write':
                mock.timers.tick(1000);
                model.write();
                break;
              case 'fail': {
                db.break(SQLITE_FULL);
                const refused = assert.rejects(store.append('s', entries), failsWith('disk_full'));
                mock.timers.tick(1000);
                await refused;
                db.break(0);
                break;
              }
              case 'crash':
                // No timer of the old one runs any more.
                mock.timers.reset();
                mock.timers.enable({ apis: ['setTimeout', 'setImmediate', 'Date'] });
                store = open();
                model.crash((await store.read('s', 0, 0)).last);
                break;
              case 'reopen':
                await store.close();
                store = open();
                model.write();
                break;
            }
            await model.compare(store, limit);
          }
          await store.close();
        },
      ),
      { numRuns: 120 },
    ));
});

/** The model of one session: all that was ever appended and not lost. */
class PlainList {
  readonly #retention: Retention;
  #entries: JournalEntry[] = [];
  #written = 0;
  last = 0;

  constructor(retention: Retention) {
    this.#retention = retention;
  }

  append(entries: readonly JournalEntry[]): void {
    this.#entries.push(...entries);
    this.last = entries.at(-1)?.cursor ?? this.last;
  }

  write(): void {
    this.#written = this.#entries.length;
  }

  crash(last: number): void {
    assert.ok(last >= this.last || (last === 0 && this.#written === 0), `${last} after ${this.last}`);
    this.#entries.length = this.#written;
    this.last = last;
  }

  /** Returns the entries that retention leaves: the longest end of the list that is within it. */
  #kept(): JournalEntry[] {
    const kept = [...this.#entries];
    const sizeOf = ({ body }: JournalEntry) => (body as string).length;
    let bytes = kept.reduce((sum, entry) => sum + sizeOf(entry), 0);
    while (kept.length > this.#retention.maxEntries || bytes > this.#retention.maxBytes) {
      bytes -= sizeOf(kept.shift() as JournalEntry);
    }
    return kept;
  }

  async compare(store: SqliteStore, limit: number): Promise<void> {
    const seen: JournalEntry[] = [];
    let at = 0;
    let gapBefore = false;
    for (;;) {
      const page = await store.read('s', at, limit);
      assert.ok(page.gap === undefined || (page.gap.from === at + 1 && !gapBefore), 'gaps that touch are one');
      gapBefore = page.gap !== undefined && page.entries.length === 0;
      assert.ok(page.entries.length <= limit);
      seen.push(...page.entries);
      at = page.entries.at(-1)?.cursor ?? page.gap?.to ?? at;
      if (page.gap === undefined && page.entries.length === 0) {
        assert.equal(page.last, this.last);
        assert.ok(at === this.last, `read up to ${at} of ${this.last}`);
        break;
      }
    }
    const kept = this.#kept();
    // Waiting entries may be readable beyond the retained ones, never instead of them.
    const surplus = seen.length - kept.length;
    assert.ok(surplus >= 0 && (surplus === 0 || this.#written < this.#entries.length), `${surplus} too many`);
    assert.deepEqual(seen.slice(surplus), kept);
    assert.deepEqual(seen, this.#entries.slice(this.#entries.length - seen.length));
  }
}
