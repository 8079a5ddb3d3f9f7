/**
 * Search by words and by literal parts: queries of the two full-text tables, bounded in work however common a word is.
 *
 * Used by `search.ts`. A query is literal text: each word becomes a quoted term, so no character of it is syntax.
 */
import type { MemoryDatabase } from './database.ts';
import { wordsOf } from './words.ts';

/** Rows of the words of a query that are scored; the commonest words are left out past it. */
const MAX_SCORED_ROWS = 8000;
/** Rows that are looked at where a word alone is more common than that, the newest first. */
const MAX_SCANNED_ROWS = 20_000;
/** Of the matches of the rarer words, so many get their score over all words of the query. */
const MAX_COMPLETED = 120;
/** Words of a query that are looked at. */
const MAX_QUERY_WORDS = 64;
/** How much the entries may grow until a counted frequency is counted again. */
const RECOUNT_GROWTH = 1.25;
const MAX_FREQUENCIES = 50_000;
/** BM25 at which the lexical part of a score is a half. */
const HALF_SCORE = 8;
/** Parts of a literal query that are looked up; what they find is compared with the whole. */
const MAX_GRAMS = 8;
const GRAM = 3;
/** Longer queries are sentences: their words find them. */
const MAX_LITERAL = 256;

export interface LexicalMatch {
  readonly id: number;
  /** 0 to 1. */
  readonly score: number;
}

const quoted = (term: string): string => `"${term.replaceAll('"', '""')}"`;

/**
 * Entries with any of the words, the best first, at most `count`. Exact BM25 over all words where `exact`; else the
 * commonest words of a long query only count where the rarer ones are found too.
 */
export function searchWords(
  database: MemoryDatabase,
  folded: string,
  count: number,
  accepts: (id: number) => boolean,
  exact = false,
): LexicalMatch[] {
  const words = [...new Set(wordsOf(folded, true))].slice(0, MAX_QUERY_WORDS);
  if (words.length === 0) return [];
  const ranked = words
    .map((word) => ({ word, rows: rowsWith(database, word) }))
    .filter(({ rows }) => rows > 0)
    .sort((left, right) => left.rows - right.rows);
  const [rarest] = ranked;
  if (rarest === undefined) return [];
  if (!exact && rarest.rows > MAX_SCORED_ROWS) return newestWith(database, rarest.word, count, accepts);
  const terms = exact ? ranked : affordable(ranked);
  const found = database
    .sql('SELECT rowid AS id, rank FROM words WHERE words MATCH ? ORDER BY rank')
    .iterate(terms.map(({ word }) => quoted(word)).join(' OR ')) as IterableIterator<unknown> as IterableIterator<{
    id: number;
    rank: number;
  }>;
  const matches: LexicalMatch[] = [];
  for (const { id, rank } of found) {
    if (!accepts(id)) continue;
    matches.push({ id, score: -rank / (-rank + HALF_SCORE) });
    if (matches.length === count) break;
  }
  return terms.length === ranked.length ? matches : completed(database, ranked, matches);
}

/** The first matches with the BM25 of every word, also of those that were left out; the others follow as they were. */
function completed(
  database: MemoryDatabase,
  ranked: readonly Term[],
  matches: readonly LexicalMatch[],
): LexicalMatch[] {
  const { rows, words } = totals(database);
  const average = words / rows;
  const weights = new Map(
    // As FTS5 computes it, so that scores of short and long queries compare.
    ranked.map((term) => [term.word, Math.max(1e-6, Math.log((rows - term.rows + 0.5) / (term.rows + 0.5)))]),
  );
  const read = database.sql('SELECT text FROM entry WHERE id = ?');
  const first = matches.slice(0, MAX_COMPLETED).map(({ id, score }) => {
    const row = read.get(id) as { text: string } | undefined;
    if (row === undefined) return { id, score };
    const all = wordsOf(row.text);
    const counts = new Map<string, number>();
    for (const word of all) if (weights.has(word)) counts.set(word, (counts.get(word) ?? 0) + 1);
    const length = BM25_K * (1 - BM25_B + (BM25_B * all.length) / average);
    let sum = 0;
    for (const [word, count] of counts)
      sum += ((weights.get(word) as number) * count * (BM25_K + 1)) / (count + length);
    return { id, score: sum / (sum + HALF_SCORE) };
  });
  first.sort((left, right) => right.score - left.score || right.id - left.id);
  const lowest = first.at(-1)?.score ?? 0;
  return [...first, ...matches.slice(MAX_COMPLETED).map(({ id, score }) => ({ id, score: Math.min(score, lowest) }))];
}

const BM25_K = 1.2;
const BM25_B = 0.75;

/** Rows and words of the whole index, as FTS5 has counted them. */
function totals(database: MemoryDatabase): { rows: number; words: number } {
  const { block } = database.sql('SELECT block FROM words_data WHERE id = 1').get() as { block: Uint8Array };
  let at = 0;
  // SQLite's numbers of variable length: seven bits a byte, the high one says that more follow.
  const next = (): number => {
    let value = 0;
    for (;;) {
      const byte = block[at++] ?? 0;
      value = value * 128 + (byte & 0x7f);
      if (byte < 0x80) return value;
    }
  };
  return { rows: Math.max(1, next()), words: Math.max(1, next()) };
}

/** A word of a query, and how many entries have it. */
interface Term {
  readonly word: string;
  readonly rows: number;
}

/** The rarest words, as many as are scored within the bound; the rarest of all in any case. */
function affordable(ranked: readonly Term[]): Term[] {
  let left = MAX_SCORED_ROWS;
  return ranked.filter(({ rows }, at) => {
    left -= rows;
    return at === 0 || left >= 0;
  });
}

/** Where every word is in thousands of entries, BM25 says little: the newest come first. */
function newestWith(
  database: MemoryDatabase,
  word: string,
  count: number,
  accepts: (id: number) => boolean,
): LexicalMatch[] {
  const matches: LexicalMatch[] = [];
  const rows = database
    .sql('SELECT rowid AS id FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?')
    .iterate(quoted(word), MAX_SCANNED_ROWS) as IterableIterator<unknown> as IterableIterator<{ id: number }>;
  for (const { id } of rows) {
    if (accepts(id)) matches.push({ id, score: 0.01 });
    if (matches.length === count) break;
  }
  return matches;
}

/** How many entries have a word, counted now or when there were nearly as many entries. */
function rowsWith(database: MemoryDatabase, word: string): number {
  const { entries } = database.usage();
  const known = database.frequencies.get(word);
  if (known !== undefined && known.rows > 100 && entries <= known.of * RECOUNT_GROWTH) return known.rows;
  const row = database.sql('SELECT doc AS rows FROM word_rows WHERE term = ?').get(word) as
    | { rows: number }
    | undefined;
  const rows = row?.rows ?? 0;
  if (database.frequencies.size >= MAX_FREQUENCIES) database.frequencies.clear();
  database.frequencies.set(word, { rows, of: entries });
  return rows;
}

/** Entries that have the query as it stands, the newest first, at most `count`. */
export function searchLiteral(
  database: MemoryDatabase,
  folded: string,
  count: number,
  accepts: (id: number) => boolean,
): number[] {
  if (folded === '' || folded.length > MAX_LITERAL) return [];
  const characters = [...folded];
  const rows =
    characters.length < GRAM
      ? database.sql('SELECT id, text FROM entry WHERE instr(text, ?) > 0 ORDER BY id DESC').iterate(folded)
      : database
          .sql(
            `SELECT rowid AS id, (SELECT text FROM entry WHERE id = grams.rowid) AS text
             FROM grams WHERE grams MATCH ? ORDER BY rowid DESC LIMIT ${MAX_SCANNED_ROWS}`,
          )
          .iterate(gramsOf(characters).map(quoted).join(' AND '));
  const ids: number[] = [];
  for (const { id, text } of rows as IterableIterator<unknown> as IterableIterator<{
    id: number;
    text: string | null;
  }>) {
    if (!accepts(id) || text?.includes(folded) !== true) continue;
    ids.push(id);
    if (ids.length === count) break;
  }
  return ids;
}

/** Some parts of three characters, evenly spread: enough to leave few candidates. */
function gramsOf(characters: readonly string[]): string[] {
  const last = characters.length - GRAM;
  const step = Math.max(1, Math.ceil(last / (MAX_GRAMS - 1)));
  const grams: string[] = [];
  for (let at = 0; at < last; at += step) grams.push(characters.slice(at, at + GRAM).join(''));
  grams.push(characters.slice(last).join(''));
  return grams;
}
