/** Lists of sessions: a page seeks to its place, the count is stored, with any filter. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { openSessionStore } from '../../../src/control/sessions/store/store.ts';
import {
  addSearch,
  pageSql,
  type SessionFilter,
  type SessionPlace,
  type SessionRow,
} from '../../../src/control/sessions/store/store-catalogue.ts';
import { type ChatFacts, SQL } from '../../../src/control/sessions/store/store-chats.ts';
import type { ParamsOf } from '../../../src/protocol/rpc-reader.ts';
import { sessionCreate, sessionList } from '../../../src/protocol/session-rpc.ts';
import { countedTurns } from '../../support/counted-turns.ts';
import { ALICE, Harness, ROOT } from './harness.ts';

const FILTERS: readonly SessionFilter[] = [
  {},
  { includeClosed: true },
  { owner: 'o1' },
  { owner: 'o1', includeClosed: true },
  { cwd: '/w1' },
  { owner: 'o2', cwd: '/w1', includeClosed: true },
  { query: '7' },
  { owner: 'o0', query: 'TITLE 1', includeClosed: true },
];

const row = (n: number, more: Partial<SessionRow> = {}): SessionRow => ({
  id: `s${n}`,
  owner: `o${n % 3}`,
  title: `title ${n}`,
  cwd: `/w${n % 4}`,
  backend: 'b',
  createdAt: n,
  // Several share a time: the id decides between them.
  updatedAt: 1000 + Math.floor(n / 3),
  messageCount: n,
  pending: false,
  closed: n % 5 === 0,
  queueLength: 0,
  approvalsPending: 0,
  parent: null,
  subagent: null,
  seq: 0,
  cursor: 0,
  ...more,
});

const fits = ({ owner, cwd, includeClosed = false, query }: SessionFilter, one: SessionRow): boolean =>
  (owner === undefined || one.owner === owner) &&
  (cwd === undefined || one.cwd === cwd) &&
  (includeClosed || !one.closed) &&
  (query === undefined || one.title.toLowerCase().includes(query.toLowerCase()));

const latestFirst = (a: SessionRow, b: SessionRow): number => b.updatedAt - a.updatedAt || (a.id < b.id ? 1 : -1);

test('pages and counts are those of a plain filter and sort, while sessions come, change, close and go', () => {
  const { catalogue, close } = openSessionStore({ file: ':memory:' });
  let state = 1;
  const random = (): number => {
    // Lehmer's generator: each run makes equal steps.
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
  const known = new Map<string, SessionRow>();
  for (let step = 0; step < 1500; step += 1) {
    const n = Math.floor(random() * 200);
    const id = `s${n}`;
    const before = known.get(id);
    const what = random();
    if (before !== undefined && what < 0.2) {
      if (what < 0.1) catalogue.markDeleted(id);
      catalogue.remove(id);
      known.delete(id);
      continue;
    }
    const changed = row(n, {
      updatedAt: 1000 + step,
      closed: random() < 0.3,
      title: `title ${Math.floor(random() * 99)}`,
    });
    catalogue.put(changed);
    known.set(id, changed);
  }
  for (const filter of FILTERS) {
    const expected = [...known.values()].filter((one) => fits(filter, one)).sort(latestFirst);
    assert.equal(catalogue.count(filter), expected.length, JSON.stringify(filter));
    const found: string[] = [];
    let place: SessionPlace | undefined;
    for (;;) {
      const page = catalogue.page(filter, place, 7);
      found.push(...page.map(({ id }) => id));
      place = page.at(-1);
      if (place === undefined) break;
    }
    assert.deepEqual(
      found,
      expected.map(({ id }) => id),
      JSON.stringify(filter),
    );
  }
  close();
});

test('titles are found by their folded form, and signs of patterns are signs', () => {
  const { catalogue, close } = openSessionStore({ file: ':memory:' });
  for (const [n, title] of ['Straße nach Ωmega', '100% done_', 'Cafe\u0301'].entries())
    catalogue.put(row(n, { title, closed: false }));
  for (const [query, count] of [
    ['STRASSE', 1],
    ['ωMEGA', 1],
    ['café', 1],
    ['CAFE', 1],
    ['0% D', 1],
    ['%', 1],
    ['_', 1],
    ['', 3],
    ['none', 0],
  ] as const) {
    assert.equal(catalogue.count({ query }), count, query);
    assert.equal(catalogue.page({ query }, undefined, 9).length, count, query);
  }
  close();
});

test('every page is a search in an index in the order of the list: nothing is sorted, and no table is scanned', () => {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-list-'));
  const file = join(folder, 'sessions.db');
  openSessionStore({ file }).close();
  const db = new DatabaseSync(file, { readOnly: true });
  addSearch(db);
  for (const filter of FILTERS) {
    for (const hasPlace of [false, true]) {
      const plan = db.prepare(`EXPLAIN QUERY PLAN ${pageSql(filter, hasPlace)}`).all({}) as { detail: string }[];
      const steps = plan.map(({ detail }) => detail).filter((detail) => !/^(MERGE|LEFT|RIGHT)/.test(detail));
      assert.equal(steps.length, filter.includeClosed === true ? 2 : 1, JSON.stringify(plan));
      for (const step of steps)
        assert.match(step, /^SEARCH sessions USING INDEX sessions_listed/, JSON.stringify(filter));
    }
  }
  db.close();
  rmSync(folder, { recursive: true });
});

test('saved chats are listed, counted and found by searches in indexes', () => {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-list-'));
  const file = join(folder, 'sessions.db');
  const { chats, close } = openSessionStore({ file });
  const facts = (n: number): ChatFacts => ({
    id: `c${n}`,
    owner: `o${n % 2}`,
    title: 't',
    provider: null,
    model: 'm',
    thinking: 'HIGH',
    origin: 's',
  });
  for (let n = 0; n < 9; n += 1) chats.write(facts(n), 0, [], n);
  chats.write(facts(3), 0, [], 10);
  chats.remove('c8');
  assert.deepEqual([chats.count(null), chats.count('o0'), chats.count('o1'), chats.count('o2')], [8, 4, 4, 0]);
  assert.deepEqual(
    chats.list('o1', { before: null, skip: 0 }, 9).map(({ id }) => id),
    ['c3', 'c7', 'c5', 'c1'],
  );
  close();
  const db = new DatabaseSync(file, { readOnly: true });
  for (const name of ['find', 'listAll', 'listOwned', 'count', 'put'] as const) {
    const plan = db.prepare(`EXPLAIN QUERY PLAN ${SQL[name]}`).all() as { detail: string }[];
    for (const { detail } of plan) assert.doesNotMatch(detail, /SCAN chats|TEMP B-TREE/, name);
  }
  db.close();
  rmSync(folder, { recursive: true });
});

test('a store of an earlier version keeps its snapshots, and its sessions are counted', () => {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-list-'));
  const file = join(folder, 'sessions.db');
  openSessionStore({ file }).close();
  const old = new DatabaseSync(file);
  for (const { name, type } of old.prepare("SELECT name, type FROM sqlite_schema WHERE type = 'trigger'").all())
    old.exec(`DROP ${type} ${name}`);
  old.exec('DROP TABLE chat_counts; DROP INDEX chats_by_owner');
  for (const column of ['packed', 'bytes']) old.exec(`ALTER TABLE chat_turns DROP COLUMN ${column}`);
  old.exec(`DROP TABLE chunks;
    CREATE TABLE lists (
      session INTEGER NOT NULL, list TEXT NOT NULL, number INTEGER NOT NULL, items TEXT NOT NULL,
      PRIMARY KEY (session, list, number)
    ) STRICT;
    INSERT INTO lists VALUES (1, 'messages', 0, '[{"id":1,"kind":"user","text":"a"},{"id":2,"kind":"user","text":"b"}]'),
      (1, 'messages', 1, '[{"id":3,"kind":"user","text":"c"}]'), (1, 'turns', 0, '[]');
    DROP TABLE session_counts; DROP TABLE heads;
    DROP INDEX sessions_listed; DROP INDEX sessions_listed_by_owner; DROP INDEX sessions_listed_by_cwd;
    ALTER TABLE sessions DROP COLUMN subagent; ALTER TABLE sessions ADD COLUMN head TEXT;
    ALTER TABLE sessions ADD COLUMN subagent TEXT;
    CREATE INDEX sessions_by_update ON sessions (updated, id);
    INSERT INTO sessions (id, owner, title, cwd, backend, created, updated, messages, pending, closed, queued, approvals,
      seq, cursor, head) VALUES
      ('a', 'o', 't', '/w', 'b', 1, 2, 0, 0, 0, 0, 0, 3, 4,
        '{"record":{"id":"a","owner":"o","title":"kept"},"running":null,"chatLength":0}'),
      ('b', 'o', 't', '/w', 'b', 1, 2, 0, 0, 1, 0, 0, 0, 0, NULL);
    PRAGMA user_version = 2`);
  old.close();
  const { catalogue, close } = openSessionStore({ file });
  const kept = catalogue.load('a')?.session;
  assert.equal(kept?.record.title, 'kept');
  assert.equal(kept.messages.length, 3);
  assert.deepEqual(
    kept.messages.slice(1, 3).map(({ text }) => text),
    ['b', 'c'],
  );
  assert.deepEqual(
    kept.messages.items.map(({ text }) => text),
    ['a', 'b', 'c'],
  );
  assert.equal(catalogue.load('b'), undefined);
  assert.deepEqual([catalogue.count({}), catalogue.count({ owner: 'o', includeClosed: true })], [1, 2]);
  close();
  rmSync(folder, { recursive: true });
});

test('a list counts what a principal may see, and a query is counted once', async () => {
  const harness = await Harness.start();
  for (let n = 0; n < 7; n += 1) await harness.call(sessionCreate, { title: `plan ${n}` }, n < 5 ? ALICE : ROOT);
  const list = (params: ParamsOf<typeof sessionList>, principal = ALICE) =>
    harness.call(sessionList, params, principal);
  assert.equal((await list({})).total, 5);
  assert.equal((await list({}, ROOT)).total, 7);
  const first = await list({ query: 'plan', limit: 2 });
  assert.equal(first.total, 5);
  const { catalogue } = harness.store;
  let counts = 0;
  const count = catalogue.count.bind(catalogue);
  catalogue.count = (filter) => {
    counts += 1;
    return count(filter);
  };
  const second = await list({ query: 'plan', limit: 2, cursor: first.next_cursor ?? '' });
  const third = await list({ query: 'plan', limit: 2, cursor: second.next_cursor ?? '' });
  assert.deepEqual([second.total, third.total, third.next_cursor, counts], [5, 5, null, 0]);
  const titles = [first, second, third].flatMap(({ sessions }) => sessions.map(({ title }) => title));
  assert.deepEqual(titles.toSorted(), ['plan 0', 'plan 1', 'plan 2', 'plan 3', 'plan 4']);
  await harness.stop();
});

test('pages that are asked for at once are read in several turns of the event loop', async (t) => {
  await using harness = await Harness.start();
  for (let at = 0; at < 3; at++) await harness.create();
  const turns = countedTurns(t);
  const pages = await Promise.all(Array.from({ length: 64 }, () => harness.call(sessionList, { limit: 2 })));
  assert.ok(pages.every(({ sessions, total }) => sessions.length === 2 && total === 3));
  assert.ok(turns() >= 5, `${turns()} turns`);
});
