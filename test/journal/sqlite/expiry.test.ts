/**
 * The sessions that the SQLite journal drops as a whole, and the times of dropping: the rule against a source that only
 * counts, then the file.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it, type TestContext } from 'node:test';
import {
  Expiry,
  type ExpirySource,
  type SessionExpiry,
  type WrittenSession,
} from '../../../src/journal/sqlite/expiry.ts';
import { sqliteJournal } from '../../../src/journal/sqlite/sqlite.ts';
import { recognisable } from '../fixtures/recognisable.ts';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const NOW = Date.UTC(2031, 1, 3, 4, 5, 6);
const THIRTY_DAYS: SessionExpiry = { maxAgeMs: 30 * DAY_MS, maxSessions: 1_000_000, retains: () => false };

describe('sqlite journal: which sessions expire', () => {
  /** Returns a journal that is only a list: sessions and days since they were written to, in the order of their writes. */
  function swept(
    t: TestContext,
    sessions: [string, number][],
    rule: Partial<SessionExpiry> = {},
    source: Partial<ExpirySource> = {},
    apis: ('setTimeout' | 'setImmediate')[] = ['setTimeout', 'setImmediate'],
  ) {
    t.mock.timers.enable({ apis });
    const held = new Map(sessions.map(([session, days], at) => [session, { written: at + 1, days }]));
    const state = { passedMs: 0, looks: 0, drops: [] as string[][], failures: [] as unknown[] };
    const expiry = new Expiry(
      {
        names: (limit, after) =>
          [...held]
            .map(([session, { written }]) => ({ session, written, owner: session.split('@')[1] ?? '' }))
            .filter(({ written }) => written > (after?.written ?? 0))
            .slice(0, limit),
        writtenBefore(ageMs) {
          state.looks++;
          const old = [...held.values()].filter(({ days }) => days * DAY_MS + state.passedMs >= ageMs);
          return Math.max(0, ...old.map(({ written }) => written));
        },
        busy: () => false,
        drop(names) {
          state.drops.push([...names]);
          for (const name of names) held.delete(name);
          return true;
        },
        failed: (thrown) => void state.failures.push(thrown),
        ...source,
      },
      { ...THIRTY_DAYS, ...rule },
    );
    t.after(() => expiry.stop());
    return { held, state, expiry, pass: (ms: number) => t.mock.timers.tick(ms), left: () => [...held.keys()] };
  }

  it('those older than the limit, a second after opening', (t) => {
    const { state, pass, left } = swept(t, [
      ['a', 90],
      ['b', 31],
      ['c', 29],
      ['d', 1],
    ]);
    pass(999);
    assert.equal(state.looks, 0);
    pass(1);
    assert.deepEqual([state.drops, left()], [[['a', 'b']], ['c', 'd']]);
  });

  it('again every hour', (t) => {
    const { state, pass, left } = swept(t, [
      ['a', 29.5],
      ['b', 29.2],
      ['c', 1],
    ]);
    pass(1000);
    assert.deepEqual(state.drops, []);
    state.passedMs += 15 * HOUR_MS;
    pass(HOUR_MS);
    assert.deepEqual(left(), ['b', 'c']);
    state.passedMs += 15 * HOUR_MS;
    pass(HOUR_MS - 1);
    assert.deepEqual(left(), ['b', 'c']);
    pass(1);
    assert.deepEqual(left(), ['c']);
  });

  it('never those that are kept or used', (t) => {
    const keeps = (session: string): boolean => session === 'lives' || session.startsWith('session/');
    const busy = ({ session }: WrittenSession): boolean => session === 'read';
    const sessions: [string, number][] = ['lives', 'session/chat', 'a', 'read', 'b'].map((name) => [name, 99]);
    const { pass, left } = swept(t, sessions, { retains: keeps }, { busy });
    pass(1000);
    assert.deepEqual(left(), ['lives', 'session/chat', 'read']);
  });

  it('the oldest of too many, of any age, and with a limit of 0 days none else', (t) => {
    const sessions: [string, number][] = [0, 1, 2, 3, 4].map((at) => [`s${at}`, 99 - at]);
    const { state, pass, left } = swept(t, [['kept', 99], ...sessions], {
      maxAgeMs: 0,
      maxSessions: 3,
      retains: (session) => session === 'kept',
    });
    pass(1000);
    assert.deepEqual(left(), ['kept', 's2', 's3', 's4']);
    assert.equal(state.looks, 0);
  });

  it('of too many, those of owners with more than an equal part', (t) => {
    const names = ['b0@bob', 'a0@ann', 'a1@ann', 'b1@bob', 'a2@ann', 'a3@ann', 'a4@ann'];
    const sessions = names.map((name): [string, number] => [name, 1]);
    const { pass, left } = swept(t, sessions, { maxAgeMs: 0, maxSessions: 4 });
    pass(1000);
    assert.deepEqual(left(), ['b0@bob', 'b1@bob', 'a3@ann', 'a4@ann']);
  });

  it('a few in each turn, so that no caller waits for a thousand, and none after it was stopped', async (t) => {
    const many = Array.from({ length: 1_000 }, (_, at): [string, number] => [`s${at}`, 99]);
    const { state, pass, left, expiry } = swept(t, many, {}, {}, ['setTimeout']);
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    pass(1000);
    assert.equal(left().length, 984);
    await turn();
    assert.equal(left().length, 968);
    for (let turns = 0; turns < 10; turns++) await turn();
    assert.ok(state.drops.every(({ length }) => length <= 16));
    expiry.stop();
    const before = left().length;
    assert.ok(before > 0 && before < 968);
    pass(HOUR_MS);
    await turn();
    assert.equal(left().length, before);
  });

  it('not on a disk that fails: the sweep ends and the next one tries again', (t) => {
    let works = false;
    const { held, pass, state } = swept(
      t,
      [['a', 99]],
      {},
      {
        names() {
          if (!works) throw new Error('the disk failed');
          return [...held].map(([session, { written }]) => ({ session, written, owner: '' }));
        },
      },
    );
    pass(1000);
    assert.equal(state.failures.length, 1);
    works = true;
    pass(HOUR_MS);
    assert.deepEqual([state.failures.length, state.drops], [1, [['a']]]);
  });
});

describe('sqlite journal: expired sessions in the file', { timeout: 300_000 }, () => {
  let directory = '';
  before(() => {
    directory = mkdtempSync(join(tmpdir(), 'handfast-expiry-'));
  });
  after(() => rmSync(directory, { recursive: true }));

  it('are gone with all their rows, the others are whole, and none goes unless it is asked for', async (t) => {
    const file = join(directory, 'journal.db');
    // The times of entries mean nothing for their age.
    const aged = (cursor: number, days: number) => ({ ...recognisable(cursor), ts: NOW - days * DAY_MS });
    let passedMs = 0;
    const clocks = { now: () => NOW + passedMs, monotonicNow: () => passedMs };
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const first = await sqliteJournal({ file, expiry: { ...THIRTY_DAYS, retains: () => true }, ...clocks });
    for (const session of ['old', 'read', 'waits']) await first.append(session, [aged(1, 1), aged(2, 0)]);
    // Volatile entries of a while ago are written in blocks of many.
    for (let cursor = 1; cursor <= 300; cursor++) void first.append('volatile', [aged(cursor, 0)], 'volatile');
    assert.equal((await first.sessions()).length, 4);
    t.mock.timers.tick(1000);
    passedMs = 29 * DAY_MS;
    t.mock.timers.tick(HOUR_MS);
    await first.append('young', [aged(1, 99), aged(2, 99)]);
    await first.close();

    const journal = await sqliteJournal({ file, expiry: THIRTY_DAYS, ...clocks });
    passedMs += 2 * DAY_MS;
    const controller = new AbortController();
    const reading = journal.follow('read', 1, controller.signal)[Symbol.asyncIterator]();
    assert.equal((await reading.next()).value?.cursor, 2);
    // Used again before a sweep: the last entry counts.
    await journal.append('waits', [aged(3, 99)]);
    assert.equal((await journal.sessions()).length, 5);
    const names = async () => (await journal.sessions()).map(({ session }) => session).sort();
    t.mock.timers.tick(1000);
    // Each round of it is a separate turn.
    for (let turns = 0; turns < 1000 && (await names()).length > 3; turns++) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.deepEqual(await names(), ['read', 'waits', 'young']);
    assert.deepEqual(await journal.read('old', 0), { entries: [], last: 0 });
    assert.equal((await journal.read('waits', 0)).entries.length, 3);
    controller.abort();
    await journal.close();

    const db = new DatabaseSync(file, { readOnly: true });
    const left = db.prepare('SELECT DISTINCT session FROM blocks ORDER BY session').all();
    db.close();
    assert.deepEqual(
      left.map(({ session }) => session),
      ['read', 'waits', 'young'],
    );
    const again = await sqliteJournal({ file });
    await again.append('old', [aged(1, 0)]);
    assert.equal((await again.read('old', 0)).entries.length, 1, 'a name may be used again');
    await again.close();
  });
});
