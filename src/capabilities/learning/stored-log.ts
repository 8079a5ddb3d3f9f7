/**
 * A log in a plugin's store that holds the newest rows, each under a sequence number and an id. The id of a row is unique in
 * its whole store: a reward names only the id of its decision.
 *
 * Writes are collected by the caller's `atomically`.
 */
import { pairsBelow } from '../../base/bandits/stored.ts';
import type { Store } from '../../host/store/store.ts';

/** The range of rows of a log: from `first` to below `next`. */
interface Span {
  readonly first: number;
  readonly next: number;
}

export interface LoggedRow<Row> {
  readonly seq: number;
  readonly row: Row;
}

const SEQ_DIGITS = 12;

export class StoredLog<Row extends { readonly id: string }> {
  readonly #store: Store;
  readonly #name: string;
  readonly #most: number;

  /** @param most rows that are stored; the oldest is evicted for the next */
  constructor(store: Store, name: string, most: number) {
    this.#store = store;
    this.#name = name;
    this.#most = most;
  }

  /** Returns the log and the sequence number of an id. */
  static find(store: Store, id: string): { readonly log: string; readonly seq: number } | undefined {
    return store.get(`id/${id}`);
  }

  get span(): Span {
    return this.#store.get<Span>(`span/${this.#name}`) ?? { first: 1, next: 1 };
  }

  get(seq: number): Row | undefined {
    return this.#store.get<Row>(this.#keyOf(seq));
  }

  /** Appends a row and returns its number, and the row that was evicted for it. */
  append(row: Row): { readonly seq: number; readonly evicted?: LoggedRow<Row> } {
    const { first, next } = this.span;
    void this.#store.set(this.#keyOf(next), row);
    void this.#store.set(`id/${row.id}`, { log: this.#name, seq: next });
    const isFull = next - first >= this.#most;
    void this.#store.set(`span/${this.#name}`, { first: isFull ? first + 1 : first, next: next + 1 });
    if (!isFull) return { seq: next };
    const oldest = this.get(first);
    void this.#store.delete(this.#keyOf(first));
    if (oldest === undefined) return { seq: next };
    void this.#store.delete(`id/${oldest.id}`);
    return { seq: next, evicted: { seq: first, row: oldest } };
  }

  replace(seq: number, row: Row): void {
    void this.#store.set(this.#keyOf(seq), row);
  }

  /** Yields the rows after a number, oldest first. Not inside `atomically`. */
  *rows(after = 0): Generator<LoggedRow<Row>> {
    for (const { key, value } of pairsBelow<Row>(this.#store, this.#prefix, this.#keyOf(after))) {
      yield { seq: Number(key.slice(-SEQ_DIGITS)), row: value };
    }
  }

  /** Yields the rows before a number, newest first; 0: from the newest. */
  *newest(before = 0): Generator<LoggedRow<Row>> {
    const { first, next } = this.span;
    for (let seq = before === 0 ? next - 1 : Math.min(before, next) - 1; seq >= first; seq--) {
      const row = this.get(seq);
      if (row !== undefined) yield { seq, row };
    }
  }

  /** Yields the keys of everything this log stores. Not inside `atomically`. */
  *keys(): Generator<string> {
    for (const { seq, row } of this.rows()) {
      yield this.#keyOf(seq);
      yield `id/${row.id}`;
    }
    yield `span/${this.#name}`;
  }

  get #prefix(): string {
    return `log/${this.#name}/`;
  }

  #keyOf(seq: number): string {
    return `${this.#prefix}${String(seq).padStart(SEQ_DIGITS, '0')}`;
  }
}
