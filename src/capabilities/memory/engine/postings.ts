/**
 * The entries that have a word, and their counts of it: the lists of the words that were searched last, in memory. The
 * commonest words of a language are in most queries, and reading the list of one from the full-text index takes milliseconds.
 *
 * Owned by `signatures.ts`, since a list has the positions of its index. Deleted entries stay in a list until it is read again:
 * a search leaves them out, as it does with the index.
 */

/** The entries with a word. */
export interface Posting {
  /** The number of entries. */
  size: number;
  /** Their positions in the index, ascending; longer than `size`. */
  places: Uint32Array;
  /** The number of occurrences of the word in each. */
  counts: Uint16Array;
}

/** Maximum number of rows of all lists, of six bytes each. */
const MAX_ROWS = 1_000_000;
/** Shorter lists are not stored: they are read within microseconds. */
const MIN_ROWS = 64;
const MAX_COUNT = 65_535;
const COMMA = 44;
const ZERO = 48;

export class Postings {
  /** The most recently used list is the last. */
  readonly #lists = new Map<string, Posting>();
  #rows = 0;

  /** Returns the list of a word, if it is in memory. */
  get(word: string): Posting | undefined {
    const list = this.#lists.get(word);
    if (list === undefined) return undefined;
    this.#lists.delete(word);
    this.#lists.set(word, list);
    return list;
  }

  /** Stores a list that was read; evicts the least recently used ones. */
  set(word: string, list: Posting): void {
    if (list.size < MIN_ROWS) return;
    this.#lists.set(word, list);
    this.#rows += list.size;
    for (const [oldest, { size }] of this.#lists) {
      if (this.#rows <= MAX_ROWS) break;
      this.#lists.delete(oldest);
      this.#rows -= size;
    }
  }

  /** Adds a new entry to the lists of its words, with repeats. Its position is behind all others. */
  add(place: number, words: readonly string[]): void {
    if (this.#lists.size === 0) return;
    for (const word of words) {
      const list = this.#lists.get(word);
      if (list !== undefined) this.#rows += count(list, place);
    }
  }

  clear(): void {
    this.#lists.clear();
    this.#rows = 0;
  }
}

/** Counts an occurrence in an entry, whose position is the last or behind it. Returns the number of entries that this adds. */
function count(list: Posting, place: number): number {
  const { size, places } = list;
  if (size > 0 && places[size - 1] === place) {
    list.counts[size - 1] = Math.min(MAX_COUNT, (list.counts[size - 1] as number) + 1);
    return 0;
  }
  if (size === places.length) {
    list.places = new Uint32Array(size * 2 + 8);
    list.places.set(places);
    const { counts } = list;
    list.counts = new Uint16Array(size * 2 + 8);
    list.counts.set(counts);
  }
  list.places[size] = place;
  list.counts[size] = 1;
  list.size += 1;
  return 1;
}

/** The index for which a list is made: a `SignatureIndex`. */
interface Places {
  /** Returns the position of an id; -1 without it. */
  placeOf(id: number): number;
  idAt(place: number): number;
}

/**
 * Returns the list of a word, from the ids of the entries that have it: ascending, one for each occurrence, with commas in
 * between. SQLite returns one text in less time than as many rows.
 * @param rows approximate number of entries
 */
export function postingOf(occurrences: string, rows: number, index: Places): Posting {
  const list = { size: 0, places: new Uint32Array(rows), counts: new Uint16Array(rows) };
  let id = 0;
  let last = 0;
  let place = -1;
  for (let at = 0; at <= occurrences.length; at += 1) {
    const code = at === occurrences.length ? COMMA : occurrences.charCodeAt(at);
    if (code !== COMMA) {
      id = id * 10 + code - ZERO;
      continue;
    }
    if (id !== last) place = placeAfter(index, place, last, id);
    last = id;
    id = 0;
    // Entries that another process has stored since the index was updated are not in it yet.
    if (place !== -1) count(list, place);
  }
  return list;
}

/** Returns the position of an id: if no entry was deleted in between, it is as far on as the id. */
function placeAfter(index: Places, place: number, last: number, id: number): number {
  const guess = place + id - last;
  return place !== -1 && index.idAt(guess) === id ? guess : index.placeOf(id);
}
