/**
 * The hybrid search: words, literal parts and vectors, fused into one ranking.
 *
 * Called by `reads.ts` for one database. @see docs/memory.md#ranking
 */
import { type MemoryDatabase, seconds } from './database.ts';
import { dot, type Embedder } from './embedder.ts';
import { fuse, type Ranking } from './fusion.ts';
import { loadedIndex } from './index-loading.ts';
import { searchLiteral, searchWords } from './lexical.ts';
import { signatureOf, type Wanted } from './signatures.ts';
import type { RankingName } from './types.ts';
import { fold } from './words.ts';

/** Most candidates of each ranking. */
const MAX_MATCHES = 400;
const MAX_LITERAL_MATCHES = 200;
/** Nearest signatures whose exact vectors are compared. */
const MAX_RESCORED = 1200;
const MAX_NEAREST = 200;
/** A literal match counts less than a ranking of its own: mostly the words have found it already. */
const LITERAL_WEIGHT = 0.5;

/** What a search looks for, in one database. */
export interface SearchQuery {
  readonly text: string;
  /** Of the text; undefined: no vectors. */
  readonly vector: Float32Array | undefined;
  readonly ranking: RankingName;
  readonly parts: readonly number[];
  /** Valid at this time, epoch seconds. */
  readonly at: number;
  /** Only these; undefined: all. */
  readonly ids?: ReadonlySet<number> | undefined;
}

export interface SearchHit {
  readonly id: number;
  readonly score: number;
  readonly lexical: number;
  readonly vector: number;
  readonly literal: boolean;
}

/** The entries found, the best first. */
export function search(
  database: MemoryDatabase,
  query: SearchQuery,
  embedder: Embedder,
  embedderId: number,
): SearchHit[] {
  const index = loadedIndex(database, embedderId);
  const wanted: Wanted = { parts: maskOf(query.parts), at: query.at, now: seconds(), ids: query.ids };
  const accepts = (id: number): boolean => index.accepts(id, wanted);
  const folded = fold(query.text);
  const rankings: Ranking[] = [];
  const lexical = new Map<number, number>();
  const near = new Map<number, number>();
  let literal: ReadonlySet<number> = new Set();
  if (query.ranking !== 'vector') {
    const words = searchWords(database, folded, MAX_MATCHES, accepts);
    for (const { id, score } of words) lexical.set(id, score);
    const parts = searchLiteral(database, folded, MAX_LITERAL_MATCHES, accepts);
    literal = new Set(parts);
    // Among those that have the query as it stands, the better match of words comes first.
    parts.sort((left, right) => (lexical.get(right) ?? 0) - (lexical.get(left) ?? 0) || right - left);
    rankings.push({ ids: words.map(({ id }) => id), weight: 1 }, { ids: parts, weight: LITERAL_WEIGHT });
  }
  if (query.ranking !== 'lexical' && query.vector !== undefined) {
    const candidates = index.nearest(signatureOf(query.vector), MAX_RESCORED, wanted);
    const nearest = rescored(database, query.vector, candidates, embedderId).filter(
      ({ score }) => score >= embedder.floor,
    );
    for (const { id, score } of nearest.slice(0, MAX_NEAREST)) near.set(id, Math.min(1, score));
    rankings.push({ ids: [...near.keys()], weight: embedder.weight });
  }
  return fuse(rankings).map(({ id, score }) => ({
    id,
    score,
    lexical: lexical.get(id) ?? 0,
    vector: near.get(id) ?? 0,
    literal: literal.has(id),
  }));
}

/** The exact cosine of each candidate, the nearest first. */
function rescored(
  database: MemoryDatabase,
  vector: Float32Array,
  ids: readonly number[],
  embedder: number,
): { id: number; score: number }[] {
  const read = database.sql('SELECT numbers FROM vector WHERE entry = ? AND embedder = ?');
  const found: { id: number; score: number }[] = [];
  for (const id of ids) {
    const row = read.get(id, embedder) as { numbers: Uint8Array } | undefined;
    if (row !== undefined) found.push({ id, score: dot(vector, vectorIn(row.numbers)) });
  }
  return found.sort((left, right) => right.score - left.score || right.id - left.id);
}

/** A stored vector. Copied where its bytes do not lie at a multiple of four. */
function vectorIn(bytes: Uint8Array): Float32Array {
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
  return new Float32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength >>> 2);
}

function maskOf(parts: readonly number[]): Uint8Array {
  const mask = new Uint8Array(Math.max(0, ...parts) + 1);
  for (const part of parts) mask[part] = 1;
  return mask;
}
