/**
 * Search by words and by literal parts: queries of the two full-text tables, bounded in work however common a word is.
 *
 * Used by `search.ts`. A query is literal text: each word becomes a quoted term, so no character of it is syntax.
 */
import type { MemoryDatabase } from './database.ts';
import { wordsOf } from './words.ts';

/** Rows of the words of a query that are scored; the commonest words are left out past it. */
const MAX_SCORED_ROWS = 6000;
/** Rows that are looked at where a word alone is more common than that, the newest first. */
const MAX_SCANNED_ROWS = 20_000;
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
  return matches;
}

/** The rarest words, as many as are scored within the bound; the rarest of all in any case. */
function affordable<Term extends { readonly rows: number }>(ranked: readonly Term[]): Term[] {
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
