/** Compares the fast searches with the slow ones: the BM25 of FTS5, a scan of every text, every cosine. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { MemoryDatabase } from '../../../src/capabilities/memory/engine/database.ts';
import { dot } from '../../../src/capabilities/memory/engine/embedder.ts';
import { hashedEmbedder } from '../../../src/capabilities/memory/engine/hashed.ts';
import { loadedIndex } from '../../../src/capabilities/memory/engine/index-loading.ts';
import { searchLiteral, searchWords } from '../../../src/capabilities/memory/engine/lexical.ts';
import { search } from '../../../src/capabilities/memory/engine/search.ts';
import { fold, wordsOf } from '../../../src/capabilities/memory/engine/words.ts';
import { deleteVersion, prepare, storeVersion } from '../../../src/capabilities/memory/engine/writes.ts';
import { openedDatabase, seeded, temporaryFolder } from './support.ts';

const EMBEDDER = 1;
const embed = hashedEmbedder.embedNow as (text: string) => Float32Array;

const VOCABULARY = [
  ...['c++', 'node.js', "it's", '-x', 'foo:bar', 'Ελλάδα', 'naïve', '東京駅', 'ไทย', '🚀', 'the', 'of', 'Straße'],
  ...Array.from({ length: 200 }, (_, n) => `word${n.toString(36)}${'abcdefg'.slice(0, n % 7)}`),
];

/**
 * Returns a database of `count` entries whose words follow Zipf's law: half of them exist when the index is loaded, a quarter
 * comes from another connection, and a quarter from this one, while the lists of all words are in memory. Every ninth is
 * deleted.
 */
async function filled(t: TestContext, count: number) {
  const file = join(temporaryFolder(t), 'memory.db');
  const opened = (): MemoryDatabase => openedDatabase(t, file);
  const database = opened();
  const random = seeded(11);
  const word = (): string => VOCABULARY[Math.floor(VOCABULARY.length ** random() - 1)] as string;
  const sentence = (words: number): string => Array.from({ length: words }, word).join(' ');
  let part = 0;
  const store = (from: number, to: number, into = database): Promise<void> =>
    into.write(() => {
      part = into.makePart('e test');
      for (let n = from; n < to; n += 1) {
        const entry = {
          ...{ key: { n }, content: sentence(3 + Math.floor(random() * 20)), tier: 'episodic' as const, tags: [] },
          ...{ source: '', score: 1, ttl: 0, createdAt: 0, updatedAt: 0, supersedes: [], metadata: undefined },
          ...{ validFrom: undefined, validUntil: undefined },
        };
        storeVersion(
          { database: into, part, now: 1, historyVersions: 5, embedder: EMBEDDER },
          prepare(entry, hashedEmbedder),
        );
      }
    });
  const drop = (from: number, to: number): Promise<void> =>
    database.write(() => {
      for (let id = from; id < to; id += 9) deleteVersion(database, id);
    });
  await store(0, count / 2);
  await drop(1, count / 2);
  const index = loadedIndex(database, EMBEDDER);
  const searchAll = (): void => {
    assert.equal(loadedIndex(database, EMBEDDER), index);
    const all = new Uint8Array(index.size).fill(1);
    for (const one of VOCABULARY) searchWords(database, index, fold(one), 1, all);
  };
  searchAll();
  await store(count / 2, (count * 3) / 4, opened());
  searchAll();
  await store((count * 3) / 4, count);
  await drop(count / 2 + 4, count);
  const fitting = index.fitting({
    parts: Uint8Array.from({ length: part + 1 }, (_, at) => Number(at === part)),
    at: 2,
    now: 2,
  });
  const texts = database.db.prepare('SELECT id, text FROM entry ORDER BY id DESC').all() as {
    id: number;
    text: string;
  }[];
  return { database, index, fitting, part, texts, random, sentence };
}

test('the score of each entry is that of FTS5, also after deletions, and whether the index was loaded or grew', {
  timeout: 120_000,
}, async (t) => {
  const { database, index, fitting, sentence } = await filled(t, 1200);
  const exact = database.db.prepare('SELECT rowid AS id, -rank AS score FROM words WHERE words MATCH ?');
  for (let query = 0; query < 60; query += 1) {
    const folded = fold(sentence(1 + (query % 5)));
    const terms = [...new Set(wordsOf(folded, true))].map((one) => `"${one.replaceAll('"', '""')}"`);
    const bm25 = new Map(
      (exact.all(terms.join(' OR ')) as { id: number; score: number }[]).map(({ id, score }) => [id, score]),
    );
    const found = searchWords(database, index, folded, 2000, fitting);
    for (const { id, score } of found) {
      const expected = (bm25.get(id) as number) / ((bm25.get(id) as number) + 8);
      assert.ok(Math.abs(score - expected) < 1e-4, `${folded}: ${score} instead of ${expected} for ${id}`);
    }
    // A word that half of all entries have counts nothing beside others.
    const counted = [...bm25.values()].filter((score) => score > 1e-3).length;
    assert.ok(found.length >= counted, `${folded}: ${found.length} of ${counted}`);
  }
});

test('the entries with a text as it stands are found, all of them, by any part of any text', {
  timeout: 120_000,
}, async (t) => {
  const { database, index, fitting, texts, random, sentence } = await filled(t, 1200);
  for (let query = 0; query < 300; query += 1) {
    const { text } = texts[Math.floor(random() * texts.length)] as { text: string };
    const characters = [...text];
    const from = Math.floor(random() * characters.length);
    const part = characters.slice(from, from + 1 + Math.floor(random() * 40)).join('');
    const folded = query % 5 === 0 ? fold(sentence(2 + (query % 3))) : part.trim();
    if (folded === '') continue;
    const expected = texts.filter((one) => one.text.includes(folded)).map(({ id }) => id);
    const found = searchLiteral(database, index, folded, 2000, fitting);
    assert.deepEqual(found, expected, JSON.stringify(folded));
  }
});

test('the nearest vectors are among the first of a search, but for what rounding hides', {
  timeout: 120_000,
}, async (t) => {
  const { database, part, texts, sentence } = await filled(t, 4000);
  const vectors = texts.map(({ id, text }) => ({ id, vector: embed(text) }));
  let hits = 0;
  let wanted = 0;
  for (let query = 0; query < 30; query += 1) {
    const text = sentence(3 + (query % 6));
    const vector = embed(text);
    const near = vectors
      .map(({ id, vector: other }) => ({ id, score: dot(vector, other) }))
      .filter(({ score }) => score > hashedEmbedder.floor)
      .sort((left, right) => right.score - left.score)
      .slice(0, 10);
    const question = { text, vector, ranking: 'vector' as const, parts: [part], at: 2 };
    const found = search(database, question, hashedEmbedder, EMBEDDER).slice(0, 10);
    const lowest = Math.min(...found.map((hit) => hit.vector));
    // An entry as near as the last of them may stand for it.
    hits += near.filter(({ id, score }) => found.some((hit) => hit.id === id) || score < lowest + 0.005).length;
    wanted += near.length;
  }
  assert.ok(hits / wanted > 0.97, `${hits} of ${wanted}`);
});

test('a clock that was set back: what is stored later holds, and a fact of the future stays one', async (t) => {
  const database = openedDatabase(t, join(temporaryFolder(t), 'm.db'));
  const store = (key: string, content: string, now: number, validFrom?: number) =>
    database.write(() => {
      const entry = {
        ...{ key: { key }, content, tier: 'episodic' as const, tags: [], source: '', score: 1, ttl: 0 },
        ...{ createdAt: 0, updatedAt: 0, supersedes: [], metadata: undefined, validFrom, validUntil: undefined },
      };
      const context = { database, part: database.makePart('e test'), now, historyVersions: 5, embedder: EMBEDDER };
      storeVersion(context, prepare(entry, hashedEmbedder));
    });
  const at = (key: string, time: number) =>
    database.db
      .prepare('SELECT content FROM entry WHERE key = ? AND starts <= ? AND ends > ?')
      .all(`{"key":"${key}"}`, time, time)
      .map(({ content }) => content);
  await store('fact', 'first', 100);
  await store('fact', 'second', 90);
  await store('fact', 'third', 95);
  assert.deepEqual(at('fact', 101), ['"third"']);
  await store('fact', 'fourth', 110);
  assert.deepEqual(at('fact', 105), ['"third"']);
  assert.deepEqual(at('fact', 111), ['"fourth"']);
  await store('plan', 'later', 100, 200);
  await store('plan', 'now', 110);
  assert.deepEqual([at('plan', 150), at('plan', 250)], [['"now"'], ['"later"']]);
});
