/**
 * The hybrid search of one database: words, literal parts and vectors, fused into one ranking. @see docs/memory.md#ranking
 */
import { type MemoryDatabase, seconds } from './database.ts';
import type { Embedder } from './embedder.ts';
import { fuse, type Ranking } from './fusion.ts';
import { loadedIndex } from './index-loading.ts';
import { searchLiteral, searchWords } from './lexical.ts';
import { cosineWith } from './stored-vectors.ts';
import type { RankingName } from './types.ts';
import { fold } from './words.ts';

/** Maximum number of candidates of each ranking. */
const MAX_MATCHES = 400;
const MAX_LITERAL_MATCHES = 200;
/** Nearest entries by their signatures, whose exact vectors are compared. */
const MAX_RESCORED = 400;
const MAX_NEAREST = 200;
/** A literal match counts less than a separate ranking: mostly the words have found it already. */
const LITERAL_WEIGHT = 0.5;

/** The query of a search in one database. */
export interface SearchQuery {
  readonly text: string;
  /** The vector of the text; undefined: no vectors. */
  readonly vector: Float32Array | undefined;
  readonly ranking: RankingName;
  readonly parts: readonly number[];
  /** Entries valid at this time, epoch seconds; undefined: at any. */
  readonly at: number | undefined;
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

/** Returns the found entries, the best first. */
export function search(
  database: MemoryDatabase,
  query: SearchQuery,
  embedder: Embedder,
  embedderId: number,
): SearchHit[] {
  const index = loadedIndex(database, embedderId);
  const fitting = index.fitting({ parts: maskOf(query.parts), at: query.at, now: seconds(), ids: query.ids });
  const folded = fold(query.text);
  const rankings: Ranking[] = [];
  const lexical = new Map<number, number>();
  const near = new Map<number, number>();
  let literal: ReadonlySet<number> = new Set();
  if (query.ranking !== 'vector') {
    const words = searchWords(database, index, folded, MAX_MATCHES, fitting);
    for (const { id, score } of words) lexical.set(id, score);
    const parts = searchLiteral(database, index, folded, MAX_LITERAL_MATCHES, fitting);
    literal = new Set(parts);
    // Among entries that contain the literal query, the better match of words comes first.
    parts.sort((left, right) => (lexical.get(right) ?? 0) - (lexical.get(left) ?? 0) || right - left);
    rankings.push(
      { ids: words.map(({ id }) => id), scores: words.map(({ score }) => score), weight: 1 },
      { ids: parts, scores: parts.map((id) => lexical.get(id) ?? 0), weight: LITERAL_WEIGHT },
    );
  }
  if (query.ranking !== 'lexical' && query.vector !== undefined) {
    const candidates = index.nearest(query.vector, MAX_RESCORED, fitting);
    const nearest = rescored(database, query.vector, candidates, embedderId).filter(
      ({ score }) => score >= embedder.floor,
    );
    for (const { id, score } of nearest.slice(0, MAX_NEAREST)) near.set(id, Math.min(1, score));
    rankings.push({ ids: [...near.keys()], scores: [...near.values()], weight: embedder.weight });
  }
  return fuse(rankings).map(({ id, score }) => ({
    id,
    score,
    lexical: lexical.get(id) ?? 0,
    vector: near.get(id) ?? 0,
    literal: literal.has(id),
  }));
}

/** Returns the cosine of each candidate, the nearest first. */
function rescored(
  database: MemoryDatabase,
  vector: Float32Array,
  ids: readonly number[],
  embedder: number,
): { id: number; score: number }[] {
  const statement = database.sql(
    'SELECT entry, numbers FROM vector WHERE entry IN (SELECT value FROM json_each(?)) AND embedder = ?',
  );
  // An object for each row takes longer than its vector.
  statement.setReturnArrays(true);
  const rows = statement.all(JSON.stringify(ids), embedder) as unknown as [id: number, numbers: Uint8Array][];
  const found = rows.map(([id, numbers]) => ({ id, score: cosineWith(vector, numbers) }));
  return found.sort((left, right) => right.score - left.score || right.id - left.id);
}

function maskOf(parts: readonly number[]): Uint8Array {
  const mask = new Uint8Array(Math.max(0, ...parts) + 1);
  for (const part of parts) mask[part] = 1;
  return mask;
}
