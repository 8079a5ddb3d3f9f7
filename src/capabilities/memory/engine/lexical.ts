/**
 * Search by words and by literal parts: queries of the two full-text tables, with bounded work even for common words.
 *
 * A query is literal text: each word becomes a quoted term, so none of its characters is syntax.
 */
import type { MemoryDatabase } from './database.ts';
import { readVarints } from './packs.ts';
import { type Posting, postingOf } from './postings.ts';
import type { SignatureIndex } from './signatures.ts';
import { WordScores } from './word-scores.ts';
import { wordsOf } from './words.ts';

/**
 * Maximum number of entries with the words of a query that are scored; above it the commonest words are left out. Some 10 ms.
 */
const MAX_SCORED_ROWS = 100_000;
/** Maximum number of scanned rows if a word alone exceeds that bound, the newest first. */
const MAX_SCANNED_ROWS = 20_000;
/** Maximum number of words of a query that count. */
const MAX_QUERY_WORDS = 64;
/** Growth of the entries after which a counted frequency is counted again. */
const RECOUNT_GROWTH = 1.25;
const MAX_FREQUENCIES = 50_000;
/** BM25 at which the lexical part of a score is a half. */
const HALF_SCORE = 8;
/** Parts of a literal query that are looked up; the entries they find are compared with the whole query. */
const MAX_GRAMS = 8;
const GRAM = 3;
/** Whole words that are looked up for the same purpose. */
const MAX_INNER_WORDS = 16;
/** Maximum number of entries with them that are compared one by one; above it, parts of all words narrow the search. */
const MAX_READ = 300;
const PLAIN = /^[\x21-\x7e]+$/;
/** Longer queries are sentences: their words find them. */
const MAX_LITERAL = 256;

export interface LexicalMatch {
  readonly id: number;
  /** 0 to 1. */
  readonly score: number;
}

const quoted = (term: string): string => `"${term.replaceAll('"', '""')}"`;

/**
 * Returns entries with any of the words, the best first, at most `count`; only those that `fitting` marks by their positions in
 * the index.
 */
export function searchWords(
  database: MemoryDatabase,
  index: SignatureIndex,
  folded: string,
  count: number,
  fitting: Uint8Array,
): LexicalMatch[] {
  const words = [...new Set(wordsOf(folded, true))].slice(0, MAX_QUERY_WORDS);
  const ranked = words
    .map((word) => ({ word, rows: rowsWith(database, word) }))
    .filter(({ rows }) => rows > 0)
    .sort((left, right) => left.rows - right.rows);
  const [rarest] = ranked;
  if (rarest === undefined) return [];
  if (rarest.rows > MAX_SCORED_ROWS)
    return newestWith(database, rarest.word, count, (id) => fitting[index.placeOf(id)] === 1);
  const all = totals(database);
  const scores = new WordScores(index, all.words / all.rows);
  for (const { word, rows } of affordable(ranked, all.rows)) {
    scores.add(listOf(database, index, { word, rows }), weightOf(rows, all.rows));
  }
  return scores.best(count, fitting).map(({ id, score }) => ({ id, score: score / (score + HALF_SCORE) }));
}

/** Returns the list of the entries that have a word: the one in memory, or the one read now. */
function listOf(database: MemoryDatabase, index: SignatureIndex, { word, rows }: Term): Posting {
  const known = index.postings.get(word);
  if (known !== undefined) return known;
  const { ids } = database.sql('SELECT group_concat(doc) AS ids FROM word_hits WHERE term = ?').get(word) as {
    ids: string | null;
  };
  const list = postingOf(ids ?? '', rows, index);
  index.postings.set(word, list);
  return list;
}

/** Returns the weight of a word, as in FTS5: the rarer, the more; close to zero if half of all entries have it. */
const weightOf = (rows: number, all: number): number => Math.max(1e-6, Math.log((all - rows + 0.5) / (rows + 0.5)));

/** Returns rows and words of the whole index, as FTS5 has counted them. */
function totals(database: MemoryDatabase): { rows: number; words: number } {
  const { block } = database.sql('SELECT block FROM words_data WHERE id = 1').get() as { block: Uint8Array };
  const [rows = 0, words = 0] = readVarints(block, 2);
  return { rows: Math.max(1, rows), words: Math.max(1, words) };
}

/** A word of a query, and the number of entries that have it. */
interface Term {
  readonly word: string;
  readonly rows: number;
}

/**
 * Returns the rarest words, as many as the bound allows to score, without those whose weight is close to zero; the rarest word
 * in any case.
 */
function affordable(ranked: readonly Term[], all: number): Term[] {
  let left = MAX_SCORED_ROWS;
  return ranked.filter(({ rows }, at) => {
    left -= rows;
    return at === 0 || (left >= 0 && rows * 2 < all);
  });
}

/** Returns the newest entries with a word: where every word is in thousands of entries, BM25 says little. */
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

/** Returns the number of entries that have a word, counted now or when nearly as many entries existed. */
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

/**
 * Returns entries that contain the literal query, the newest first, at most `count`; only those that `fitting` marks by their
 * positions in the index.
 */
export function searchLiteral(
  database: MemoryDatabase,
  index: SignatureIndex,
  folded: string,
  count: number,
  fitting: Uint8Array,
): number[] {
  const characters = [...folded];
  if (folded === '' || folded.length > MAX_LITERAL) return [];
  const places = characters.length < GRAM ? undefined : placesWithInner(database, index, folded, fitting);
  const textOf = database.sql('SELECT id, text FROM entry WHERE id = ?');
  const rows =
    characters.length < GRAM
      ? database.sql(`SELECT id, text FROM entry ORDER BY id DESC LIMIT ${MAX_SCANNED_ROWS}`).iterate()
      : places !== undefined
        ? places.reverse().map((place) => textOf.get(index.idAt(place)) ?? { id: 0, text: null })
        : database
            .sql(
              `SELECT rowid AS id, (SELECT text FROM entry WHERE id = grams.rowid) AS text
               FROM grams WHERE grams MATCH ? ORDER BY rowid DESC LIMIT ${MAX_SCANNED_ROWS}`,
            )
            .iterate(gramsOf(characters).map(quoted).join(' AND '));
  const ids: number[] = [];
  for (const { id, text } of rows as Iterable<unknown> as Iterable<{ id: number; text: string | null }>) {
    if (fitting[index.placeOf(id)] !== 1 || text?.includes(folded) !== true) continue;
    ids.push(id);
    if (ids.length === count) break;
  }
  return ids;
}

/**
 * Returns the positions of the entries that may contain a literal text, ascending; undefined if they are too many to compare
 * each. The words between the first and the last, which may be parts of longer ones, are whole words there.
 */
function placesWithInner(
  database: MemoryDatabase,
  index: SignatureIndex,
  folded: string,
  fitting: Uint8Array,
): number[] | undefined {
  const inner = wordsOf(folded.split(' ').slice(1, -1).join(' ')).slice(0, MAX_INNER_WORDS);
  const terms = inner.map((word) => ({ word, rows: rowsWith(database, word) }));
  // FTS5 may split a word of other letters differently.
  if (terms.some(({ word, rows }) => rows === 0 && PLAIN.test(word))) return [];
  const ranked = terms.filter(({ rows }) => rows > 0).sort((left, right) => left.rows - right.rows);
  const [rarest] = ranked;
  if (rarest === undefined || rarest.rows > MAX_SCORED_ROWS) return undefined;
  let places: number[] | undefined;
  for (const term of affordable(ranked, index.size)) {
    const list = listOf(database, index, term);
    places = places === undefined ? fittingOf(list, fitting) : common(places, list);
  }
  return places !== undefined && places.length <= MAX_READ ? places : undefined;
}

const fittingOf = ({ size, places }: Posting, fitting: Uint8Array): number[] =>
  Array.from(places.subarray(0, size).filter((place) => fitting[place] === 1));

/** Returns those of some positions, ascending, that a list has, too. */
function common(places: readonly number[], { size, places: others }: Posting): number[] {
  let at = 0;
  return places.filter((place) => {
    while (at < size && (others[at] as number) < place) at += 1;
    return at < size && others[at] === place;
  });
}

/** Returns parts of three characters, evenly spread: enough to leave few candidates. */
function gramsOf(characters: readonly string[]): string[] {
  const last = characters.length - GRAM;
  const step = Math.max(1, Math.ceil(last / (MAX_GRAMS - 1)));
  const grams: string[] = [];
  for (let at = 0; at < last; at += step) grams.push(characters.slice(at, at + GRAM).join(''));
  grams.push(characters.slice(last).join(''));
  return grams;
}
