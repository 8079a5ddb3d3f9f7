/**
 * One reader of a growing session log: the stored entries, then those that arrive.
 *
 * Both journals (`memory.ts`, `journal/sqlite/sqlite.ts`) return it from `follow`. It queues nothing: it remembers a
 * cursor and asks the store for the next few entries when its reader requests one. So a reader that reads nothing costs
 * a few entries at most, and gaps and duplicates cannot arise: its one position only grows.
 */
import type { HandfastError } from '../wire/errors.ts';
import type { Gap, JournalEntry, Page } from './journal.ts';

/** A session as its followers see it. */
export interface Followable {
  /** Returns the next few entries with `cursor > after` that are held now, with the gap before them; may throw. */
  page(after: number): Page;
  /** Registers a follower: from now on the session calls {@link Follower.wake} after appends. */
  join(follower: Follower): void;
  leave(follower: Follower): void;
}

type Item = JournalEntry | Gap;

interface Waiting {
  resolve(result: IteratorResult<Item, undefined>): void;
  reject(reason: unknown): void;
}

const DONE: IteratorReturnResult<undefined> = Object.freeze({ done: true, value: undefined });

/**
 * The iterator behind `Journal.follow`. It joins the session at the first `next()` and leaves it when it ends: on
 * `return()` (a `for await` calls it), when the signal aborts, when the session is deleted, when the journal closes. An
 * end takes effect at once; entries that were stored but not yet requested are not delivered after it.
 */
export class Follower implements AsyncIterableIterator<Item, undefined> {
  readonly #open: () => Followable;
  readonly #signal: AbortSignal | undefined;
  #state: 'new' | 'live' | 'ended' = 'new';
  #source: Followable | undefined;
  /** The cursor up to which everything was delivered, or reported as a gap. */
  #position: number;
  #page: readonly JournalEntry[] = [];
  #index = 0;
  /** Calls of `next()` that found nothing yet. More than one only when a reader does not await its calls. */
  #waiting: Waiting[] = [];
  #failure: HandfastError | undefined;

  /** @param open called once, at the first `next()`; throws when the journal is closed */
  constructor(open: () => Followable, after: number, signal?: AbortSignal) {
    this.#open = open;
    this.#position = Math.max(0, after);
    this.#signal = signal;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Item, undefined>> {
    try {
      if (this.#state === 'new') this.#start();
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#state === 'ended') return Promise.resolve(DONE);
      // While an earlier call waits no entry is available: an append wakes it before this can run.
      const item = this.#next();
      if (item !== undefined) return Promise.resolve({ done: false, value: item });
    } catch (thrown) {
      // A `for await` does not call `return()` after a rejection, so the leaving is done here.
      this.end();
      this.#failure = undefined;
      return Promise.reject(thrown);
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
    });
  }

  return(): Promise<IteratorResult<Item, undefined>> {
    this.end();
    this.#failure = undefined;
    return Promise.resolve(DONE);
  }

  /** Resolves the waiting calls; the session calls it after an append. */
  wake(): void {
    while (this.#waiting.length > 0) {
      let item: Item | undefined;
      try {
        item = this.#next();
      } catch (thrown) {
        const waiting = this.#waiting.shift();
        this.end();
        waiting?.reject(thrown);
        return;
      }
      if (item === undefined) return;
      this.#waiting.shift()?.resolve({ done: false, value: item });
    }
  }

  /** Ends the iteration in good order: the session was deleted, the journal closed, the signal aborted. */
  readonly end = (): void => {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    this.#signal?.removeEventListener('abort', this.end);
    this.#source?.leave(this);
    this.#source = undefined;
    this.#page = [];
    for (const waiting of this.#waiting.splice(0)) waiting.resolve(DONE);
  };

  /**
   * Entries above `last` were rolled back because they could not be written. A reader that has not seen them never
   * will; one that has seen them gets an error: its next call rejects with `failure`, and it may follow again from the
   * last cursor it knows to be stored.
   */
  rollBack(last: number, failure: HandfastError): void {
    this.#page = [];
    this.#index = 0;
    if (this.#position <= last || this.#state === 'ended') return;
    const [first] = this.#waiting.splice(0, 1);
    if (first === undefined) this.#failure = failure;
    else first.reject(failure);
    this.end();
  }

  #start(): void {
    if (this.#signal?.aborted) return this.end();
    this.#source = this.#open();
    this.#source.join(this);
    this.#signal?.addEventListener('abort', this.end, { once: true });
    this.#state = 'live';
  }

  #next(): Item | undefined {
    let entry = this.#page[this.#index];
    if (entry === undefined) {
      const page = this.#source?.page(this.#position);
      if (page === undefined) return undefined;
      this.#page = page.entries;
      this.#index = 0;
      if (page.gap !== undefined) {
        this.#position = page.gap.to;
        return page.gap;
      }
      entry = this.#page[0];
      if (entry === undefined) return undefined;
    }
    this.#index += 1;
    this.#position = entry.cursor;
    return entry;
  }
}
