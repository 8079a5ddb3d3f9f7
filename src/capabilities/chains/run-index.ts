/**
 * The stored runs of one principal, by id and in the order in which they are listed: finding a page of them, or the oldest one,
 * does not visit the others.
 */
import type { Turns } from '../../base/turns.ts';
import type { Store } from '../../host/store/store.ts';
import { newestFirst, type Place } from './run-order.ts';
import type { StoredRun } from './stored.ts';

/** Runs read at a time. */
const PAGE = 100;

export class RunIndex {
  readonly #byId = new Map<string, StoredRun>();
  /** The newest first. */
  readonly #ordered: StoredRun[] = [];

  /** Reads the runs of a store, in turns. */
  static async read(store: Store, turns: Turns): Promise<RunIndex> {
    const all = new RunIndex();
    for (let after = ''; ; ) {
      const page = store.list<StoredRun>({ prefix: 'run/', after, limit: PAGE });
      for (const { key, value } of page) {
        all.set(value);
        after = key;
      }
      if (page.length < PAGE) return all;
      while (turns.over) await turns.next();
    }
  }

  get size(): number {
    return this.#byId.size;
  }

  get(id: string): StoredRun | undefined {
    return this.#byId.get(id);
  }

  /** Adds a run, or replaces the one with its id. */
  set(run: StoredRun): void {
    this.delete(run.chain_id);
    this.#byId.set(run.chain_id, run);
    this.#ordered.splice(this.#behind(run), 0, run);
  }

  delete(id: string): void {
    const known = this.#byId.get(id);
    if (known === undefined) return;
    this.#byId.delete(id);
    // The run is the last one that is not behind its own position.
    this.#ordered.splice(this.#behind(known) - 1, 1);
  }

  /** Yields the runs behind a position, the newest first; also while runs are added and deleted. */
  *from(place?: Place): Generator<StoredRun> {
    for (let last = place; ; ) {
      const next = this.#ordered[last === undefined ? 0 : this.#behind(last)];
      if (next === undefined) return;
      yield next;
      last = next;
    }
  }

  /** Yields the runs, the oldest first. */
  *oldest(): Generator<StoredRun> {
    for (let at = this.#ordered.length - 1; at >= 0; at -= 1) yield this.#ordered[at] as StoredRun;
  }

  /** Returns the number of the first run behind a position. */
  #behind(place: Place): number {
    let [low, high] = [0, this.#ordered.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (newestFirst(this.#ordered[middle] as StoredRun, place) > 0) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
