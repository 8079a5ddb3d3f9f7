/**
 * A list that is mostly appended to and stored in pieces: it knows which of its chunks changed since they were stored, so
 * that keeping a long list costs what was added to it and not what it holds.
 *
 * Messages, history and turns of a session are such lists (`control/sessions/record/folded.ts`); `control/sessions/log/open-session.ts` stores them.
 */

/** A chunk is closed once it holds this many items, or this many characters of JSON. */
const CHUNK_ITEMS = 128;
const CHUNK_SIZE = 32 * 1024;

interface Chunk {
  /** Index of its first item. */
  readonly first: number;
  count: number;
  size: number;
  stored: boolean;
}

/** What has to be written so that the stored list is this one. */
export interface ListChange {
  /** Chunks the list has; stored ones from this number on are none of it any more. */
  readonly count: number;
  readonly chunks: readonly { readonly number: number; readonly items: readonly unknown[] }[];
}

export class ChunkedList<Item> {
  #texts: readonly string[] | undefined;
  #items: Item[] = [];
  #chunks: Chunk[] = [];
  /** Every chunk before this one is stored as it is. */
  #clean = 0;
  #dirty = false;
  #size = 0;

  /** A list as it was stored: the JSON of its chunks, which is parsed when the items are first needed. */
  static stored<Item>(texts: readonly string[]): ChunkedList<Item> {
    const list = new ChunkedList<Item>();
    list.#texts = texts;
    for (const text of texts) list.#size += text.length;
    return list;
  }

  /** About how many characters its JSON has. */
  get size(): number {
    return this.#size;
  }

  /** The items: the same array until `replace`. It grows in place; callers must not change it. */
  get items(): readonly Item[] {
    this.#parse();
    return this.#items;
  }

  /** The JSON of its chunks, each an array of items; undefined once the items were parsed. */
  get texts(): readonly string[] | undefined {
    return this.#texts;
  }

  /** `size`: about how many characters its JSON has. */
  push(item: Item, size: number): void {
    this.#parse();
    let chunk = this.#chunks.at(-1);
    if (chunk === undefined || chunk.count >= CHUNK_ITEMS || chunk.size >= CHUNK_SIZE) {
      chunk = { first: this.#items.length, count: 0, size: 0, stored: false };
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
    this.#parse();
    this.#items[index] = item;
    // What is replaced is nearly always near the end.
    const number = this.#chunks.findLastIndex(({ first }) => first <= index);
    if (number !== -1) this.#changed(number);
  }

  /** Becomes another list; `items` is a new array afterwards. */
  replace(items: readonly Item[], size: number): void {
    this.#texts = undefined;
    this.#items = [];
    this.#chunks = [];
    this.#size = 0;
    this.#clean = 0;
    this.#dirty = true;
    const each = Math.ceil(size / Math.max(1, items.length));
    for (const item of items) this.push(item, each);
  }

  /** What changed since {@link stored} was called; undefined when nothing did. */
  change(): ListChange | undefined {
    if (!this.#dirty) return undefined;
    const chunks = [];
    for (let number = this.#clean; number < this.#chunks.length; number += 1) {
      const { first, count, stored } = this.#chunks[number] as Chunk;
      if (!stored) chunks.push({ number, items: this.#items.slice(first, first + count) });
    }
    return { count: this.#chunks.length, chunks };
  }

  /** The last {@link change} was stored. */
  stored(): void {
    for (let number = this.#clean; number < this.#chunks.length; number += 1) {
      (this.#chunks[number] as Chunk).stored = true;
    }
    this.#clean = this.#chunks.length;
    this.#dirty = false;
  }

  #parse(): void {
    if (this.#texts === undefined) return;
    for (const text of this.#texts) {
      const items = JSON.parse(text) as Item[];
      this.#chunks.push({ first: this.#items.length, count: items.length, size: 0, stored: true });
      for (const item of items) this.#items.push(item);
    }
    this.#texts = undefined;
    // The size of the last chunk is not known: the next item starts a new one.
    const last = this.#chunks.at(-1);
    if (last !== undefined) last.size = CHUNK_SIZE;
    this.#clean = this.#chunks.length;
  }

  #changed(number: number): void {
    (this.#chunks[number] as Chunk).stored = false;
    this.#clean = Math.min(this.#clean, number);
    this.#dirty = true;
  }
}
