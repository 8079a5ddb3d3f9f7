/**
 * `npm run bench:memory`: the cost of a memory, beside libraries that search in memory, in the same run.
 *
 *   npm run bench:memory -- [--entries N] [--queries N] [--only ours|quality]
 *
 * The entries are sentences of made-up words whose frequencies follow Zipf's law, from a seed. A hybrid search of
 * Handfast goes through the engine's thread, as from a host; its recall is against exact BM25 over all words and exact
 * cosines of all vectors, fused in the same way. Then the quality of each ranking on questions about this repository
 * (`memory/quality.ts`).
 */
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { MemoryDatabase, seconds } from '../src/capabilities/memory/engine/database.ts';
import { dot } from '../src/capabilities/memory/engine/embedder.ts';
import { MemoryEngine } from '../src/capabilities/memory/engine/engine.ts';
import { fuse } from '../src/capabilities/memory/engine/fusion.ts';
import { hashedEmbedder } from '../src/capabilities/memory/engine/hashed.ts';
import { loadedIndex } from '../src/capabilities/memory/engine/index-loading.ts';
import { searchLiteral } from '../src/capabilities/memory/engine/lexical.ts';
import type { NewEntry, RankingName } from '../src/capabilities/memory/engine/types.ts';
import { fold, wordsOf } from '../src/capabilities/memory/engine/words.ts';
import { canonical } from '../src/capabilities/memory/key.ts';
import { MEMORY_DEFAULTS } from '../src/capabilities/memory/limits.ts';
import { contenders } from './memory/contenders.ts';
import { quality } from './memory/quality.ts';
import { type Timing, timed } from './memory/timing.ts';
import { sentences } from './memory/words.ts';
import { thisMachine } from './report.ts';

const { values } = parseArgs({
  options: { entries: { type: 'string' }, queries: { type: 'string' }, only: { type: 'string' } },
});
const count = Number(values.entries ?? 100_000);
const queryCount = Number(values.queries ?? 100);
const print = (line: string): void => void process.stdout.write(`${line}\n`);

const asker = { principal: 'bench', agent: 'bench', session: 'bench' };
const BATCH = 100;
/** Single entries that are on their way at once. */
const PARALLEL = 64;
const SINGLE_WRITES = 2000;

const { maxEntries, maxBytes, maxEntryBytes, historyVersions, workingDays } = MEMORY_DEFAULTS;

const engineIn = (folder: string): MemoryEngine =>
  new MemoryEngine({
    folder,
    quotaEntries: maxEntries,
    quotaBytes: maxBytes,
    maxEntryBytes,
    historyVersions,
    workingDays,
  });

const entryOf = (key: string, content: string): NewEntry => ({
  key: { key },
  content,
  tier: 'episodic',
  tags: ['turn'],
  source: 'bench',
  score: 1,
  ttl: 0,
  createdAt: 0,
  updatedAt: 0,
  validFrom: undefined,
  validUntil: undefined,
  supersedes: [],
  metadata: undefined,
});

async function measureOurs(
  texts: readonly string[],
  queries: readonly string[],
  earlier: readonly string[],
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-bench-memory-'));
  try {
    const engine = engineIn(folder);
    const { memory } = await engine.run('init', asker, { agent: 'bench', namespace: 'default', scope: {} });
    const store = (entries: NewEntry[]): Promise<unknown> =>
      engine.run('store', asker, { memory, entries, at: entries.map((_, at) => at) });
    let begin = performance.now();
    const before = process.cpuUsage();
    for (let at = 0; at < texts.length; at += BATCH) {
      await store(texts.slice(at, at + BATCH).map((text, n) => entryOf(`k${at + n}`, text)));
    }
    const { user, system } = process.cpuUsage(before);
    print(
      `ours: write, ${BATCH} a request        ${((performance.now() - begin) / texts.length).toFixed(3)} ms an entry, cpu ${((user + system) / 1000 / texts.length).toFixed(3)} ms`,
    );
    begin = performance.now();
    let next = 0;
    const one = async (): Promise<void> => {
      while (next < SINGLE_WRITES) {
        const n = next++;
        await store([entryOf(`single${n}`, texts[n % texts.length] as string)]);
      }
    };
    await Promise.all(Array.from({ length: PARALLEL }, one));
    print(
      `ours: write, 1 a request, ${PARALLEL} at once ${((performance.now() - begin) / SINGLE_WRITES).toFixed(3)} ms an entry`,
    );
    const search = async (query: string, ranking: RankingName): Promise<string[]> => {
      const reply = await engine.run('retrieve', asker, {
        memory,
        spaces: [],
        keys: [],
        tags: [],
        tier: undefined,
        query,
        limit: 10,
        minScore: 0,
        cursor: '',
        asOf: undefined,
        ranking,
        allVersions: false,
      });
      return reply.entries.map(({ key }) => canonical(key));
    };
    begin = performance.now();
    await search('warm up', 'hybrid');
    print(`ours: first search, loads the index ${(performance.now() - begin).toFixed(0)} ms`);
    for (const [at, ranking] of (['lexical', 'vector', 'hybrid'] as const).entries()) {
      // Each has separate queries: cached data of one would flatter the next.
      const own = ranking === 'hybrid' ? queries : earlier.slice(at * queryCount, (at + 1) * queryCount);
      report(`ours: ${ranking}`, await timed(own, (query) => search(query, ranking)));
    }
    const found = new Map<string, string[]>();
    for (const query of queries) found.set(query, await search(query, 'hybrid'));
    await engine.close();
    const files = readdirSync(folder).filter((name) => name.endsWith('.db'));
    const bytes = files.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
    print(`ours: recall@10 of exact hybrid     ${exactRecall(join(folder, files[0] as string), found).toFixed(3)}`);
    print(`ours: file                          ${(bytes / texts.length).toFixed(0)} bytes an entry`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns the share of the exact first ten that a search had among its own, over the queries. */
function exactRecall(file: string, found: ReadonlyMap<string, readonly string[]>): number {
  const database = MemoryDatabase.open({ file, onCorrupt: () => {}, onLoss: () => {} });
  const now = seconds();
  const ids: number[] = [];
  const vectors: Float32Array[] = [];
  // As the entries have them before they are stored in fewer bytes.
  const embed = hashedEmbedder.embedNow as (text: string) => Float32Array;
  for (const row of database.db.prepare('SELECT id, text FROM entry').iterate()) {
    const { id, text } = row as unknown as { id: number; text: string };
    ids.push(id);
    vectors.push(embed(text));
  }
  const current = new Set(
    (database.db.prepare('SELECT id FROM entry WHERE starts <= ? AND ends > ?').all(now, now) as { id: number }[]).map(
      ({ id }) => id,
    ),
  );
  const index = loadedIndex(database, 1);
  const fitting = new Uint8Array(index.size).map((_, place) => (current.has(index.idAt(place)) ? 1 : 0));
  const keyOf = database.db.prepare('SELECT key FROM entry WHERE id = ?');
  let hits = 0;
  let wanted = 0;
  for (const [query, keys] of found) {
    const folded = fold(query);
    const accepts = (id: number): boolean => current.has(id);
    const words = exactWords(database, folded).filter(({ id }) => accepts(id));
    const lexical = new Map(words.map(({ id, score }) => [id, score]));
    const literal = searchLiteral(database, index, folded, 200, fitting);
    literal.sort((left, right) => (lexical.get(right) ?? 0) - (lexical.get(left) ?? 0) || right - left);
    const vector = embed(query);
    const near = ids
      .map((id, at) => ({ id, score: dot(vector, vectors[at] as Float32Array) }))
      .filter(({ id, score }) => score >= hashedEmbedder.floor && accepts(id))
      .sort((left, right) => right.score - left.score || right.id - left.id)
      .slice(0, 200);
    const exact = fuse([
      { ids: words.slice(0, 400).map(({ id }) => id), scores: words.map(({ score }) => score), weight: 1 },
      { ids: literal, scores: literal.map((id) => lexical.get(id) ?? 0), weight: 0.5 },
      { ids: near.map(({ id }) => id), scores: near.map(({ score }) => score), weight: hashedEmbedder.weight },
    ]).slice(0, 10);
    const ours = new Set(keys);
    wanted += exact.length;
    hits += exact.filter(({ id }) => ours.has((keyOf.get(id) as { key: string }).key)).length;
  }
  database.close();
  return hits / wanted;
}

/** Returns the best entries by the BM25 of FTS5 itself, over all words of the query. */
function exactWords({ db }: MemoryDatabase, folded: string): { id: number; score: number }[] {
  const terms = [...new Set(wordsOf(folded, true))].map((word) => `"${word.replaceAll('"', '""')}"`);
  return db
    .prepare('SELECT rowid AS id, -rank AS score FROM words WHERE words MATCH ? ORDER BY rank LIMIT 1000')
    .all(terms.join(' OR ')) as { id: number; score: number }[];
}

function report(name: string, { p50, p95, cpu }: Timing): void {
  print(
    `${name.padEnd(35)} p50 ${p50.toFixed(2).padStart(8)} ms   p95 ${p95.toFixed(2).padStart(8)} ms   cpu ${cpu.toFixed(2).padStart(8)} ms`,
  );
}

const machine = thisMachine();
print(`${count} entries, ${queryCount} queries; ${machine.cpu}, ${machine.cores} cores, Node ${machine.node}`);
if (values.only !== 'quality') {
  const { texts, queries: drawn } = sentences(count, queryCount * 3);
  const queries = drawn.slice(0, queryCount);
  await measureOurs(texts, queries, drawn.slice(queryCount));
  if (values.only !== 'ours') {
    for (const { name, build } of contenders) {
      const begin = performance.now();
      const search = await build(texts);
      print(`${name}: index built in ${((performance.now() - begin) / 1000).toFixed(1)} s`);
      report(name, await timed(queries, search));
    }
  }
}
if (values.only !== 'ours') await quality(print);
