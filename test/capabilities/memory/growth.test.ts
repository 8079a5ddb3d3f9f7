/** Lists, amounts and the first search read no more rows when the number of entries grows. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { connect } from '../../../src/base/sqlite/file.ts';
import type { MemoryDatabase } from '../../../src/capabilities/memory/engine/database.ts';
import { forget } from '../../../src/capabilities/memory/engine/forgetting.ts';
import { hashedEmbedder } from '../../../src/capabilities/memory/engine/hashed.ts';
import { loadedIndex } from '../../../src/capabilities/memory/engine/index-loading.ts';
import { entriesOf, PACK_ENTRIES } from '../../../src/capabilities/memory/engine/packs.ts';
import {
  countEntries,
  countedEntries,
  type Filter,
  filterOf,
  historyOf,
  listEntries,
  type Source,
} from '../../../src/capabilities/memory/engine/reads.ts';
import { search } from '../../../src/capabilities/memory/engine/search.ts';
import type { NewEntry } from '../../../src/capabilities/memory/engine/types.ts';
import { packAll, pendingVectors, refoldAll } from '../../../src/capabilities/memory/engine/upkeep.ts';
import { deleteKey, prepare, replaceText, storeVersion } from '../../../src/capabilities/memory/engine/writes.ts';
import { openedDatabase, seeded, temporaryFolder } from './support.ts';

const EMBEDDER = 1;
const embed = hashedEmbedder.embedNow as (text: string) => Float32Array;

function opened(t: TestContext, file: string): MemoryDatabase {
  const database = openedDatabase(t, file);
  database.db.exec(`INSERT OR IGNORE INTO embedder (id, name) VALUES (${EMBEDDER}, 'test')`);
  return database;
}

const WORDS = Array.from({ length: 60 }, (_, n) => `word${n.toString(36)}`);

const entryOf = (n: number, content: string, more: Partial<NewEntry> = {}): NewEntry => ({
  ...{ key: { n }, content, tier: 'episodic', tags: [`tag${n % 3}`], source: 'test', score: 1, ttl: 0 },
  ...{ createdAt: 0, updatedAt: 0, validFrom: undefined, validUntil: undefined, supersedes: [], metadata: undefined },
  ...more,
});

const store = (database: MemoryDatabase, name: string, entries: readonly NewEntry[], now: number): Promise<number> =>
  database.write(() => {
    const part = database.makePart(name);
    for (const entry of entries)
      storeVersion({ database, part, now, historyVersions: 5, embedder: EMBEDDER }, prepare(entry, hashedEmbedder));
    return part;
  });

/** Returns the plan of every statement that work prepares in a fresh connection. */
function plansOf(database: MemoryDatabase, work: () => void): string[] {
  const texts = new Set<string>();
  const real = database.sql.bind(database);
  database.sql = (text) => {
    texts.add(text);
    return real(text);
  };
  work();
  database.sql = real;
  const { db } = database;
  return [...texts]
    .filter((text) => text.startsWith('SELECT'))
    .flatMap((text) =>
      db
        .prepare(`EXPLAIN QUERY PLAN ${text}`)
        .all()
        .map((row) => `${row.detail}  <- ${text}`),
    );
}

const all = (parts: number[], database: MemoryDatabase): Source => ({
  database,
  parts: parts.map((part) => ({ part, tier: 'episodic' })),
});

test('no list, count or amount scans or sorts a table', async (t) => {
  const database = opened(t, join(temporaryFolder(t), 'memory.db'));
  const now = Date.now() / 1000;
  const part = await store(database, 'e one', [entryOf(1, 'a'), entryOf(2, 'b')], now);
  const other = await store(database, 's two', [entryOf(3, 'c')], now);
  const source = all([part, other], database);
  const later = now + 10;
  const filters: Filter[] = [
    filterOf([], [], later, later),
    { ...filterOf([], [], later, later), minScore: 0 },
    filterOf([], [], undefined, later),
    filterOf([], ['tag1', 'tag2'], later, later),
    filterOf([{ n: 1 }], [], later, later),
  ];
  const plans = plansOf(database, () => {
    for (const filter of filters) {
      if (filter.tags.length + filter.keys.length === 0) assert.equal(countedEntries(source, filter), 3);
      listEntries(source, filter, Number.MAX_SAFE_INTEGER, 2);
    }
    database.usage();
    pendingVectors(database, EMBEDDER);
  });
  // The tiers are five rows; lists of a request are read as JSON; those of keys, and the few entries that time has changed, are
  // sorted.
  const bad = plans.filter(
    (plan) =>
      (/\bSCAN (?!amount|json_each)/.test(plan) && !/SCAN \d/.test(plan)) ||
      (plan.startsWith('USE TEMP B-TREE FOR ORDER BY') && !/key IN|UNION/.test(plan)),
  );
  assert.deepEqual(bad, []);
});

test('the first search reads packs and the newest entries alone, and finds as a later one does', async (t) => {
  const file = join(temporaryFolder(t), 'memory.db');
  const database = opened(t, file);
  const random = seeded(3);
  const word = (): string => WORDS[Math.floor(WORDS.length ** random() - 1)] as string;
  const now = Date.now() / 1000;
  const count = PACK_ENTRIES * 12;
  let part = 0;
  for (let n = 0; n < count; n += 100) {
    const batch = Array.from({ length: 100 }, (_, at) => entryOf(n + at, Array.from({ length: 8 }, word).join(' ')));
    part = await store(database, 'e test', batch, now + n / 1e4);
  }
  const fresh = opened(t, file);
  let single = 0;
  const { entries } = fresh.packs;
  fresh.packs.entries = function* (...args) {
    for (const entry of entries.apply(fresh.packs, args)) {
      single += 1;
      yield entry;
    }
  };
  const index = loadedIndex(fresh, EMBEDDER);
  assert.ok(index.size >= count);
  assert.ok(single <= 2 * PACK_ENTRIES, `${single} entries were read one by one`);
  const at = now + 10;
  const hits = (from: MemoryDatabase, text: string) =>
    search(from, { text, vector: embed(text), ranking: 'hybrid', parts: [part], at }, hashedEmbedder, EMBEDDER);
  loadedIndex(database, EMBEDDER);
  for (let query = 0; query < 20; query += 1) {
    const text = [word(), word(), word()].join(' ');
    assert.deepEqual(hits(opened(t, file), text), hits(database, text), text);
  }
});

test('an index that was loaded, grew, or took over the writes of others is the same, and so are the counters', {
  timeout: 120_000,
}, async (t) => {
  const file = join(temporaryFolder(t), 'memory.db');
  const writers = [opened(t, file), opened(t, file)] as const;
  const random = seeded(29);
  const upTo = (n: number): number => Math.floor(random() * n);
  // Parts are made by the clock.
  const begin = Date.now() / 1000 + 10;
  for (const writer of writers) loadedIndex(writer, EMBEDDER);
  for (let round = 0; round < 60; round += 1) {
    const writer = writers[upTo(2)] as MemoryDatabase;
    const now = begin + round;
    const name = `e part${upTo(2)}`;
    const entries = Array.from({ length: 1 + upTo(60) }, () =>
      entryOf(upTo(900), `${WORDS[upTo(60)]} ${upTo(1000)}`, {
        ttl: upTo(5) === 0 ? 1 + upTo(40) : 0,
        validFrom: upTo(9) === 0 ? now - 20 + upTo(40) : undefined,
        validUntil: upTo(9) === 0 ? now + 1 + upTo(30) : undefined,
        supersedes: upTo(20) === 0 ? [{ n: upTo(900) }] : [],
      }),
    );
    const part = await store(writer, name, entries, now);
    await writer.write(() => {
      // At times most of a range of entries is deleted, so that packs are merged.
      const from = upTo(900);
      for (let n = from; n < from + (round % 6 === 5 ? 300 : 5); n += 1) deleteKey(writer, part, JSON.stringify({ n }));
      if (round % 3 === 0) writer.counters.advance(part, now);
    });
    if (round % 10 !== 9) continue;
    const reader = opened(t, file);
    const text = `${WORDS[upTo(60)]} ${WORDS[upTo(60)]}`;
    const parts = [1, 2].filter((one) => reader.sql('SELECT 1 FROM part WHERE part = ?').get(one));
    const found = [reader, ...writers].map((from) =>
      search(from, { text, vector: embed(text), ranking: 'hybrid', parts, at: now }, hashedEmbedder, EMBEDDER),
    );
    assert.deepEqual(found[1], found[0]);
    assert.deepEqual(found[2], found[0]);
    checkPacks(reader);
    checkCounters(reader, parts, now);
  }
});

/** Checks that every pack equals the rows of its entries, and that packs follow each other. */
function checkPacks(database: MemoryDatabase): void {
  let last = 0;
  for (const pack of database.packs.after(-1)) {
    assert.ok(pack.first > last && pack.last >= pack.first);
    last = pack.last;
    const rows = [...database.packs.entries(pack.first, pack.last)];
    assert.deepEqual([...entriesOf(pack)], rows);
    assert.ok(rows.length <= PACK_ENTRIES);
  }
}

function checkCounters(database: MemoryDatabase, parts: readonly number[], now: number): void {
  const { db } = database;
  const one = (sql: string, ...values: number[]): number =>
    Object.values(db.prepare(sql).get(...values) ?? {})[0] as number;
  assert.equal(database.usage().entries, one('SELECT count(*) FROM entry'));
  assert.equal(database.usage().bytes, one('SELECT coalesce(sum(bytes), 0) FROM entry'));
  assert.equal(pendingVectors(database, EMBEDDER), 0);
  for (const part of parts) {
    assert.equal(
      one('SELECT entries FROM part WHERE part = ?', part),
      one('SELECT count(*) FROM entry WHERE part = ?', part),
    );
    for (const at of [now, now + 7, now + 100]) {
      const filter = filterOf([], [], at, at);
      const source = all([part], database);
      const counted = countedEntries(source, filter);
      assert.equal(counted, countEntries(source, filter), `part ${part} at ${at - now}`);
    }
    const every = filterOf([], [], undefined, now);
    assert.equal(countedEntries(all([part], database), every), countEntries(all([part], database), every));
  }
}

test('pages of a list by tags have each entry once, the newest first', async (t) => {
  const database = opened(t, join(temporaryFolder(t), 'memory.db'));
  const now = Date.now() / 1000;
  const entries = Array.from({ length: 90 }, (_, n) => entryOf(n, `c${n}`, { tags: [`tag${n % 3}`, `even${n % 2}`] }));
  const source = all(
    [await store(database, 'e one', entries, now), await store(database, 's one', entries, now)],
    database,
  );
  const filter = filterOf([], ['tag1', 'even0'], now, now);
  const ids: number[] = [];
  for (let before = Number.MAX_SAFE_INTEGER; ; before = ids.at(-1) as number) {
    const rows = listEntries(source, filter, before, 7);
    if (rows.length === 0) break;
    ids.push(...rows.map(({ id }) => id));
  }
  assert.deepEqual(
    ids,
    [...new Set(ids)].sort((left, right) => right - left),
  );
  assert.equal(ids.length, countEntries(source, filter));
  assert.equal(ids.length, 120);
  assert.equal(historyOf(source, JSON.stringify({ n: 1 }), now, 1).total, 2);
});

test('forgetting deletes in several transactions, a key with all its versions, and does not count expired entries', async (t) => {
  const database = opened(t, join(temporaryFolder(t), 'memory.db'));
  const now = Date.now() / 1000 - 100;
  const entries = Array.from({ length: 450 }, (_, n) => entryOf(n, `c${n}`, { tags: [n < 430 ? 'goes' : 'stays'] }));
  await store(database, 'e one', entries, now);
  await store(
    database,
    'e one',
    entries.map((entry) => ({ ...entry, content: `${entry.content} again` })),
    now + 1,
  );
  const part = await store(database, 'e one', [entryOf(1000, 'old', { tags: ['goes'], ttl: 1 })], now);
  let writes = 0;
  const real = database.write.bind(database);
  database.write = (work, bytes) => {
    writes += 1;
    return real(work, bytes);
  };
  const request = {
    memory: '',
    keys: [],
    tags: ['goes'],
    sources: [],
    tier: 'episodic',
    before: undefined,
    space: '',
  } as const;
  const reply = await forget(all([part], database), request);
  assert.equal(reply.deleted, 430);
  assert.equal(reply.erased, true);
  assert.ok(writes >= 5, `${writes} transactions`);
  assert.equal(database.usage().entries, 40);
  assert.deepEqual(await forget(all([part], database), request), {
    deleted: 0,
    erased: true,
    changed: [],
    more: false,
  });
  checkPacks(database);
  checkCounters(database, [part], Date.now() / 1000 + 10);
});

/** Makes a change below the API of the project, as another program would. */
async function tampered(file: string, work: (db: DatabaseSync) => void): Promise<void> {
  const db = connect(file, 1000);
  work(db);
  db.close();
}

test('a damaged pack is not believed, and a memory of an older version is packed', async (t) => {
  const file = join(temporaryFolder(t), 'memory.db');
  const database = opened(t, file);
  const now = Date.now() / 1000;
  const entries = Array.from({ length: PACK_ENTRIES * 6 }, (_, n) => entryOf(n, `${WORDS[n % 60]} ${n}`));
  const part = await store(database, 'e one', entries, now);
  const query = { text: 'word5 65', vector: embed('word5 65'), ranking: 'hybrid', parts: [part], at: now + 1 } as const;
  const expected = search(database, query, hashedEmbedder, EMBEDDER);
  assert.ok(expected.length > 0);
  await tampered(file, (db) => {
    db.exec(`UPDATE pack SET data = zeroblob(length(data)) WHERE first = 1;
      UPDATE pack SET data = substr(data, 1, 100) WHERE first = (SELECT max(first) FROM pack)`);
  });
  assert.deepEqual(search(opened(t, file), query, hashedEmbedder, EMBEDDER), expected);
  await tampered(file, (db) => db.exec('DELETE FROM pack'));
  const fresh = opened(t, file);
  assert.ok(fresh.packs.isBehind);
  await packAll(fresh);
  assert.ok(!fresh.packs.isBehind);
  checkPacks(fresh);
  assert.deepEqual(search(fresh, query, hashedEmbedder, EMBEDDER), expected);
  // A connection that has the index in memory takes the packs over.
  assert.deepEqual(search(database, query, hashedEmbedder, EMBEDDER), expected);
});

test('entries of an older version get the text that searches look for, in writes of a bounded size', async (t) => {
  const database = opened(t, join(temporaryFolder(t), 'm.db'));
  const now = Date.now() / 1000;
  const part = await store(
    database,
    'e one',
    Array.from({ length: 150 }, (_, n) => entryOf(n, n % 2 === 0 ? `Straße ${n}` : `road ${n}`)),
    now,
  );
  const rows = database.db.prepare('SELECT id, text FROM entry ORDER BY id').all() as { id: number; text: string }[];
  const found = (word: string) =>
    (database.db.prepare('SELECT count(*) AS n FROM words WHERE words MATCH ?').get(`"${word}"`) as { n: number }).n;
  assert.deepEqual([found('strasse'), found('straße')], [75, 0]);
  // As the earlier version wrote them.
  await database.write(() => {
    for (const { id, text } of rows) replaceText(database, id, text, text.replace('strasse', 'straße'));
    database.sql('UPDATE unfolded SET upto = ?').run(rows.at(-1)?.id ?? 0);
  });
  assert.deepEqual([found('strasse'), found('straße')], [0, 75]);
  await deleteKeyOf(database, part, rows[0]?.id as number);
  await refoldAll(database);
  assert.deepEqual([found('strasse'), found('straße')], [74, 0]);
  assert.deepEqual({ ...database.sql('SELECT upto FROM unfolded').get() }, { upto: 0 });
  await packAll(database);
  loadedIndex(database, EMBEDDER);
  database.db.exec(`INSERT INTO words (words) VALUES ('integrity-check')`);
});

const deleteKeyOf = (database: MemoryDatabase, part: number, id: number): Promise<number> =>
  database.write(() => {
    const { key } = database.sql('SELECT key FROM entry WHERE id = ?').get(id) as { key: string };
    return deleteKey(database, part, key);
  });
