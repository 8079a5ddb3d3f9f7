/**
 * The journal contract: an append-only event log per session, read by cursor. Resume, replay, history, audit and the
 * console's timeline are readers of it.
 *
 * `test/contract/journal.test.ts` holds every implementation (`memory.ts`, `sqlite.ts`) to what is said here.
 */

/** What a session wrote down. */
export interface JournalEntry {
  /** Per-session integer, strictly growing from 1, never reused. */
  readonly cursor: number;
  /** When it was appended, epoch milliseconds. Recorded only; nothing is decided by it. */
  readonly ts: number;
  /** What it is: `request`, `event`, `reply`, `error`, `cancel`, `opened`, `attached`, `detached`, `closed`, … */
  readonly kind: string;
  /** The id of the request it belongs to, or `''`. */
  readonly request: string;
  /** The message as sent or received: JSON text, or the object itself where no text was made (in-memory links). */
  readonly body: string | object;
}

/** An entry about to be appended. The writer owns cursors: `cursor` must be above the session's last. */
export type NewEntry = JournalEntry;

/** A range that retention has taken away: `from` and `to` are inclusive cursors. */
export interface Gap {
  readonly kind: 'gap';
  readonly from: number;
  readonly to: number;
}

export interface Page {
  readonly entries: readonly JournalEntry[];
  /** Set when entries between the asked-for cursor and the first one returned are gone. */
  readonly gap?: Gap;
  /** The session's last cursor at the time of reading; 0 when nothing was ever written. */
  readonly last: number;
}

/** What is known of a session that has entries. */
export interface JournalSession {
  readonly session: string;
  /** Oldest cursor still held; `last + 1` when all were evicted. */
  readonly first: number;
  readonly last: number;
  /** Bytes of the bodies still held. */
  readonly bytes: number;
}

/** How much of a session is kept. Whichever bound is reached first evicts the oldest entries. */
export interface Retention {
  /** Most entries kept per session. Default 4,096. */
  readonly maxEntries: number;
  /** Most body bytes kept per session. Default 8 MiB. */
  readonly maxBytes: number;
}

export const DEFAULT_RETENTION: Retention = { maxEntries: 4096, maxBytes: 8 * 1024 * 1024 };

export interface Journal {
  /**
   * Appends entries of one session in order.
   *
   * The returned promise is the durability promise of the implementation: the in-memory journal returns `undefined` at
   * once; the SQLite journal resolves when the entries are on disk (group commit). Entries are readable through
   * `read` and `follow` at once on the appending side. Rejects with `disk_full` (retryable) or `runtime_error`;
   * then nothing of this batch is kept.
   */
  append(session: string, entries: readonly NewEntry[]): Promise<void> | undefined;

  /** Entries with `cursor > after`, oldest first, at most `limit` (default 256). */
  read(session: string, after: number, limit?: number): Promise<Page>;

  /**
   * What is stored after `after`, then what arrives, with no hole and no double between; a range that retention took
   * is one `gap`. Ends when `signal` aborts, when the session is deleted, or when the journal closes.
   */
  follow(session: string, after: number, signal?: AbortSignal): AsyncIterable<JournalEntry | Gap>;

  /** The sessions that have entries, newest write first. */
  sessions(limit?: number): Promise<readonly JournalSession[]>;

  /** Forgets a session and its entries. Forgetting an unknown one is fine. */
  delete(session: string): Promise<void>;

  /** Flushes and closes. Idempotent; later calls of the others reject with `runtime_error`. */
  close(): Promise<void>;
}
