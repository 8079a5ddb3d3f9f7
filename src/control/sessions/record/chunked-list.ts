/**
 * A list that is mostly appended to and stored in pieces. It knows which of its chunks changed since they were stored, so that
 * storing a long list costs only its additions; of a stored list only the newest chunks are in memory, so that opening and
 * continuing it costs no more than a short one.
 *
 * Messages, history and turns of a session are such lists (`control/sessions/record/folded.ts`);
 * `control/sessions/log/open-session.ts` stores them.
 */

/** A chunk is closed once it holds this many items, or this many characters of JSON. */
const CHUNK_ITEMS = 128;
const CHUNK_SIZE = 32 * 1024;

/** Position of a chunk in its list. */
export interface ChunkPlace {
  /** Index of its first item. */
  readonly first: number;
  readonly count: number;
  /** Approximate characters of JSON in the chunks before it, and in itself. */
  readonly before: number;
  readonly size: number;
  /** Mark that its first item was pushed with, like a sequence number; 0 = unknown. */
  readonly mark: number;
}

/** The stored chunks of a list, numbered from 0. */
export interface ChunkSource {
  /** Number of chunks. */
  readonly count: number;
  place(number: number): ChunkPlace;
  /** Returns the JSON of an array of items. */
  read(number: number): string;
  /** Returns the items in that text. Default: the value of the JSON. */
  parse?(text: string): unknown[];
}

interface Chunk extends ChunkPlace {
  count: number;
  size: number;
  stored: boolean;
}

/** The changes that make the stored list equal to this one. */
export interface ListChange {
  /** Chunks the list has; stored ones from this number on are none of it any more. */
  readonly count: number;
  readonly chunks: readonly (ChunkPlace & { readonly number: number; readonly items: readonly unknown[] })[];
}

export class ChunkedList<Item> {
  /** Has the chunks that are not in memory: the chunks before number {@link #base}. */
  #source: ChunkSource | undefined;
  #base = 0;
  /** Index of the first item in memory, and the characters before it. */
  #first = 0;
  #before = 0;
  #items: Item[] = [];
  #chunks: Chunk[] = [];
  /** Every chunk in memory before this one is stored as it is. */
  #clean = 0;
  #dirty = false;
  #size = 0;

  /** Makes a list as it was stored: its chunks are read when they are needed. */
  static stored<Item>(source: ChunkSource): ChunkedList<Item> {
    const list = new ChunkedList<Item>();
    if (source.count === 0) return list;
    const { first, count, before, size } = source.place(source.count - 1);
    list.#source = source;
    list.#base = source.count;
    list.#first = first + count;
    list.#before = before + size;
    list.#size = before + size;
    return list;
  }

  get length(): number {
    return this.#first + this.#items.length;
  }

  /** Approximate number of characters of its JSON. */
  get size(): number {
    return this.#size;
  }

  /** Number of items in memory. */
  get held(): number {
    return this.#size - this.#before;
  }

  /** All items: the same array until `replace`. It grows in place; callers must not change it. Reads all of a stored list. */
  get items(): readonly Item[] {
    this.#loadWhile(() => true);
    return this.#items;
  }

  /** Returns the newest items, with at least `size` characters if the list has as many; the array grows in place. */
  newest(size: number): readonly Item[] {
    this.#loadWhile((held) => held < size);
    return this.#items;
  }

  /** The newest item. */
  get last(): Item | undefined {
    this.#loadWhile((held) => held === 0);
    return this.#items.at(-1);
  }

  /** Returns items from `start` to before `end`. Items that are not in memory are read, and do not stay there. */
  slice(start: number, end: number): Item[] {
    const found: Item[] = [];
    if (start < this.#first) {
      for (let number = this.#chunkAt(start); number < this.#base; number += 1) {
        const { first } = this.#place(number);
        if (first >= end) break;
        const items = this.#read(number);
        for (const item of items.slice(Math.max(0, start - first), Math.max(0, end - first))) found.push(item);
      }
    }
    const { length } = this;
    if (end <= this.#first) return found;
    for (let at = Math.max(start, this.#first); at < Math.min(end, length); at += 1)
      found.push(this.#items[at - this.#first] as Item);
    return found;
  }

  /** Returns the item at an index; undefined behind the last one. */
  at(index: number): Item | undefined {
    return this.slice(index, index + 1)[0];
  }

  /** Yields items from `start` on, oldest first; one chunk that is not in memory is read at a time. */
  *forward(start: number): Generator<Item> {
    let at = start;
    while (at < this.length) {
      const { first, items } = this.#around(at);
      for (const item of items.slice(at - first)) yield item;
      at = first + items.length;
    }
  }

  /** Yields items before `end`, newest first; one chunk that is not in memory is read at a time. */
  *backward(end: number): Generator<Item> {
    let at = Math.min(end, this.length);
    while (at > 0) {
      const { first, items } = this.#around(at - 1);
      for (const item of items.slice(0, at - first).reverse()) yield item;
      at = first;
    }
  }

  /** Returns the items in memory, or those of the stored chunk that has an item. */
  #around(index: number): { readonly first: number; readonly items: readonly Item[] } {
    if (index >= this.#first) return { first: this.#first, items: this.#items };
    const number = this.#chunkAt(index);
    return { first: this.#place(number).first, items: this.#read(number) };
  }

  /** Returns the mark of the chunk that holds an item: its first item was pushed with it. */
  markAt(index: number): number {
    if (index < this.#first) return this.#place(this.#chunkAt(index)).mark;
    return this.#chunks.findLast(({ first }) => first <= index)?.mark ?? 0;
  }

  /** The JSON of its chunks, each an array of items; undefined once any item was parsed. */
  get texts(): readonly string[] | undefined {
    if (this.#source === undefined || this.#chunks.length > 0) return undefined;
    return Array.from({ length: this.#base }, (_, number) => (this.#source as ChunkSource).read(number));
  }

  /** @param about characters of its JSON; items that were measured together have equal parts, which need not be whole */
  push(item: Item, about: number, mark = 0): void {
    const size = Math.ceil(about);
    let chunk = this.#chunks.at(-1);
    if (chunk === undefined || chunk.count >= CHUNK_ITEMS || chunk.size >= CHUNK_SIZE) {
      chunk = { first: this.length, count: 0, before: this.#size, size: 0, mark, stored: false };
      this.#chunks.push(chunk);
    }
    this.#items.push(item);
    chunk.count += 1;
    chunk.size += size;
    this.#size += size;
    this.#changed(this.#chunks.length - 1);
  }

  /** Replaces one item. */
  set(index: number, item: Item): void {
    this.#loadWhile(() => this.#first > index);
    this.#items[index - this.#first] = item;
    // A replaced item is nearly always near the end.
    const at = this.#chunks.findLastIndex(({ first }) => first <= index);
    if (at !== -1) this.#changed(at);
  }

  /** Returns index of the newest item that fits; -1 where none does among the newest `limit`. */
  findLastIndex(fits: (item: Item) => boolean, limit = Number.POSITIVE_INFINITY): number {
    for (let at = this.length - 1, left = limit; at >= 0 && left > 0; at -= 1, left -= 1) {
      this.#loadWhile(() => this.#first > at);
      if (fits(this.#items[at - this.#first] as Item)) return at;
    }
    return -1;
  }

  /** Becomes another list; `items` is a new array afterwards. */
  replace(items: readonly Item[], size: number, mark = 0): void {
    this.#source = undefined;
    this.#base = 0;
    this.#first = 0;
    this.#before = 0;
    this.#items = [];
    this.#chunks = [];
    this.#size = 0;
    this.#clean = 0;
    this.#dirty = true;
    const each = Math.ceil(size / Math.max(1, items.length));
    for (const item of items) this.push(item, each, mark);
  }

  /** Returns the changes since {@link stored} was called; undefined when nothing changed. */
  change(): ListChange | undefined {
    if (!this.#dirty) return undefined;
    const chunks = [];
    for (let at = this.#clean; at < this.#chunks.length; at += 1) {
      const { stored, ...place } = this.#chunks[at] as Chunk;
      if (stored) continue;
      const from = place.first - this.#first;
      const items = this.#items.slice(from, from + place.count);
      chunks.push({ ...place, number: this.#base + at, items });
    }
    return { count: this.#base + this.#chunks.length, chunks };
  }

  /** Notes that the last {@link change} was stored. */
  stored(): void {
    for (let at = this.#clean; at < this.#chunks.length; at += 1) (this.#chunks[at] as Chunk).stored = true;
    this.#clean = this.#chunks.length;
    this.#dirty = false;
  }

  /** Evicts the oldest chunks in memory, which `source` has, as long as the rest has this many characters. */
  trim(source: ChunkSource, size: number): void {
    if (this.#dirty) return;
    let drop = 0;
    let { held } = this;
    for (; drop < this.#chunks.length; drop += 1) {
      held -= (this.#chunks[drop] as Chunk).size;
      if (held < size) break;
    }
    const oldest = this.#chunks[drop];
    if (drop === 0 || oldest === undefined) return;
    this.#source = source;
    // A new array: one that was given out stays as it is.
    this.#items = this.#items.slice(oldest.first - this.#first);
    this.#chunks = this.#chunks.slice(drop);
    this.#base += drop;
    this.#first = oldest.first;
    this.#before = oldest.before;
    this.#clean = this.#chunks.length;
  }

  /** Takes the chunk before those in memory in, as long as `wanted`, by the characters in memory. */
  #loadWhile(wanted: (held: number) => boolean): void {
    if (this.#base === 0 || !wanted(this.held)) return;
    const read: Item[][] = [];
    while (this.#base > 0 && wanted(this.held)) {
      const number = this.#base - 1;
      const place = this.#place(number);
      read.unshift(this.#read(number));
      this.#chunks.unshift({ ...place, stored: true });
      this.#clean += 1;
      this.#base = number;
      this.#first = place.first;
      this.#before = place.before;
    }
    this.#items = [...read.flat(), ...this.#items];
  }

  #place(number: number): ChunkPlace {
    return (this.#source as ChunkSource).place(number);
  }

  #read(number: number): Item[] {
    const source = this.#source as ChunkSource;
    const text = source.read(number);
    return (source.parse?.(text) ?? JSON.parse(text)) as Item[];
  }

  /** Returns number of the stored chunk that holds an item. */
  #chunkAt(index: number): number {
    let low = 0;
    let high = this.#base - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.#place(middle).first <= index) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  #changed(at: number): void {
    (this.#chunks[at] as Chunk).stored = false;
    this.#clean = Math.min(this.#clean, at);
    this.#dirty = true;
  }
}
