/**
 * The journal of a run: the events of its nodes in order, and the part of them that is on disk.
 *
 * Entries of one moment share a row of the store, and rows of all runs share its transactions and syncs. An effect of an entry
 * may be seen only after `flushed`.
 */
import type { Store } from '../../../host/store/store.ts';
import type { ChainError } from '../chains.schema.ts';

/** One entry. Nodes and items are numbers, so that maps of a million items stay small. */
export interface Entry {
  /** The kind of the entry. */
  readonly p:
    | 'run'
    | 'start'
    | 'done'
    | 'branch'
    | 'skip'
    | 'retry'
    | 'error'
    | 'wait'
    | 'deliver'
    | 'pause'
    | 'resume'
    | 'reset'
    | 'compensate'
    | 'compensated'
    | 'spent'
    | 'abandon'
    | 'stop'
    | 'end';
  /** The node, by its number in the definition. */
  readonly n?: number;
  /** The item of a map, or the number of its items. */
  readonly i?: number;
  /** The attempt, from 1. */
  readonly a?: number;
  /** The output, or the data of an event. */
  readonly o?: unknown;
  readonly e?: ChainError;
  /** Of an error or stop: the policy that the chain followed. `skip` of a compensation: its condition was false. */
  readonly policy?: 'abort' | 'skip' | 'node' | 'compensate';
  /** Of a wait: when it ends, epoch milliseconds. Of a retry: its delay. */
  readonly ms?: number;
  /** The name of an event, or the state of a run that stops or ended. */
  readonly name?: string;
  /** Of a start or compensation: the number of the entry that first had this key; absent: this one. */
  readonly k?: number;
  /** Amounts that an attempt has spent. */
  readonly tokens?: number;
  readonly usd?: number;
  /** Nodes that are run again. */
  readonly nodes?: readonly number[];
}

export interface Row {
  /** Epoch milliseconds. */
  readonly at: number;
  readonly e: readonly Entry[];
}

/** Entries of a row, so that a page of the history finds the row that its first entry is in. */
export const ROW_ENTRIES = 512;

export interface JournalDeps {
  /** Undefined for a run that is not durable. */
  readonly store: Store | undefined;
  readonly table: string;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** The store refused or lost entries: nothing of this run may follow. */
  readonly failed: (error: unknown) => void;
}

export class RunJournal {
  readonly #deps: JournalDeps;
  #seq: number;
  #pending: Entry[] = [];
  #flushed: PromiseWithResolvers<void> | undefined;
  #last: Promise<void> | undefined;
  #broken: { readonly error: unknown } | undefined;

  /** @param seq of the last entry that is stored */
  constructor(deps: JournalDeps, seq = 0) {
    this.#deps = deps;
    this.#seq = seq;
  }

  /** The number of the last entry, written or not. */
  get seq(): number {
    return this.#seq + this.#pending.length;
  }

  append(entry: Entry): void {
    if (this.#deps.store === undefined || this.#broken !== undefined) {
      this.#seq += 1;
      return;
    }
    this.#pending.push(entry);
    if (this.#flushed !== undefined) {
      if (this.#pending.length >= ROW_ENTRIES) this.#flush();
      return;
    }
    this.#flushed = Promise.withResolvers();
    // Runs after all entries of this moment: nodes that end together, and those that start because of it, share one row.
    process.nextTick(this.#flush);
  }

  /** Settles when all entries so far are on disk or lost; undefined: they are, or nothing is stored. Never rejects: see `failed`. */
  flushed(): Promise<void> | undefined {
    return this.#flushed?.promise ?? this.#last;
  }

  /** Resolves when all entries so far are on disk. Rejects with the error of the store that refused or lost any. */
  async kept(): Promise<void> {
    await this.flushed();
    if (this.#broken !== undefined) throw this.#broken.error;
  }

  /**
   * Writes the remaining entries now, in one transaction with the writes of `more`. Rejects with the error of the store, also
   * with that of earlier entries: nothing of this run may follow them.
   */
  async close(more?: () => void): Promise<void> {
    const { store } = this.#deps;
    if (store === undefined) return;
    const entries = this.#take();
    const waiting = this.#flushed;
    this.#flushed = undefined;
    try {
      if (this.#broken !== undefined) throw this.#broken.error;
      await store.atomically(() => {
        if (entries.length > 0) this.#write(store, entries);
        more?.();
      });
    } catch (error) {
      this.#broken ??= { error };
      throw error;
    } finally {
      waiting?.resolve();
    }
  }

  readonly #flush = (): void => {
    const { store } = this.#deps;
    const waiting = this.#flushed;
    if (store === undefined || waiting === undefined) return;
    this.#flushed = undefined;
    const written = this.#write(store, this.#take());
    this.#last = waiting.promise;
    written
      .catch((error) => {
        this.#broken ??= { error };
        this.#deps.failed(error);
      })
      .finally(() => {
        if (this.#last === waiting.promise) this.#last = undefined;
        waiting.resolve();
      });
  };

  #take(): Entry[] {
    const entries = this.#pending;
    this.#pending = [];
    return entries;
  }

  /** Writes a row under the number of its first entry. */
  #write(store: Store, entries: readonly Entry[]): Promise<void> {
    const first = this.#seq + 1;
    this.#seq += entries.length;
    const row: Row = { at: this.#deps.now(), e: entries };
    return store.rows<Row>(this.#deps.table).replace(first, row);
  }
}

/** Rows read at a time: each may have many entries. */
const PAGE = 4;

/** Reads the entries of a run, oldest first, starting with the row that has the entry behind `after`. */
export function* readJournal(
  store: Store,
  table: string,
  after = 0,
): Generator<{ readonly seq: number; readonly at: number; readonly entry: Entry }> {
  let from = Math.max(0, after - ROW_ENTRIES);
  for (;;) {
    const rows = store.rows<Row>(table).list({ after: from, limit: PAGE });
    for (const { id, row } of rows) {
      from = id;
      for (const [at, entry] of row.e.entries()) if (id + at > after) yield { seq: id + at, at: row.at, entry };
    }
    if (rows.length < PAGE) return;
  }
}

/** Rows deleted at a time. */
const DELETED = 16;

/** Deletes a journal, several rows at a time. */
export async function deleteJournal(store: Store, table: string): Promise<void> {
  for (;;) {
    const rows = store.rows<Row>(table).list({ limit: DELETED });
    if (rows.length === 0) return;
    await store.atomically(() => {
      for (const { id } of rows) void store.rows<Row>(table).delete(id);
    });
  }
}
