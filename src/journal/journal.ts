/**
 * The journal contract: an append-only event log per session, read by cursor. Resume, replay, history, audit and
 * live views are readers of it.
 *
 * `test/contract/journal.test.ts` holds every implementation (`memory.ts`, `journal/sqlite/sqlite.ts`) to this contract.
 */
import type { HandfastError } from '../wire/errors.ts';

/**
 * The durability of an append.
 *
 * `durable`: persisted before its promise resolves. `volatile`: stored in memory at once and, by a journal on disk,
 * written behind; a crash may cost the newest ones. Tool traffic is volatile, turns, tasks and approvals are durable.
 */
export type Durability = 'durable' | 'volatile';

/** An entry of a session's log. */
export interface JournalEntry {
  /** Per-session integer, strictly growing from 1, never reused. */
  readonly cursor: number;
  /**
   * Time of the append, epoch milliseconds. Recorded only; it decides nothing except when a whole old session may be
   * dropped.
   */
  readonly ts: number;
  /** Its kind: `request`, `event`, `reply`, `error`, `cancel`, `opened`, `attached`, `detached`, `closed`, … */
  readonly kind: string;
  /** The id of the request it belongs to, or `''`. */
  readonly request: string;
  /** The message as sent or received: JSON text, or the object itself where no text was made (in-memory links). */
  readonly body: string | object;
}

/** An entry about to be appended. The writer owns cursors: `cursor` must be above the session's last. */
export type NewEntry = JournalEntry;

/** A range that retention evicted, or that a failure or a crash lost: `from` and `to` are inclusive cursors. */
export interface Gap {
  readonly kind: 'gap';
  readonly from: number;
  readonly to: number;
}

export interface Page {
  readonly entries: readonly JournalEntry[];
  /**
   * Set when entries between the asked-for cursor and the first one returned are no longer stored. A page ends before a
   * later gap; the next page starts with that gap.
   */
  readonly gap?: Gap;
  /**
   * The session's last cursor at the time of reading; 0 when nothing was ever written. Never below that of a volatile
   * entry that was appended before, nor of a durable one that was acknowledged, not even after a crash that cost the
   * entry: a caller that continues above it never reuses a cursor that a peer has seen.
   */
  readonly last: number;
}

/** Facts about a session that has entries. */
export interface JournalSession {
  readonly session: string;
  /** Oldest stored cursor; `last + 1` when all were evicted. */
  readonly first: number;
  readonly last: number;
  /** Bytes of the stored bodies. */
  readonly bytes: number;
  /** The owner, as its first append named it; absent = that append named no owner. */
  readonly owner?: string;
}

/**
 * The amount that is stored of a session. The bound that is reached first evicts the oldest entries, at the latest when
 * newer ones are written: entries that still wait for eviction may be readable beyond it.
 */
export interface Retention {
  /** Most entries stored per session. Default 4,096. */
  readonly maxEntries: number;
  /** Most body bytes stored per session. Default 8 MiB. */
  readonly maxBytes: number;
}

export const DEFAULT_RETENTION: Retention = { maxEntries: 4096, maxBytes: 8 * 1024 * 1024 };

/** A session with a record. */
export interface RecordedSession {
  readonly session: string;
  /** The value of `Page.last`. */
  readonly last: number;
  /** `''` = no owner. */
  readonly owner: string;
  readonly record: string;
}

/** One text for each session, beside its entries: data for the next process that opens the journal. */
export interface SessionRecords {
  /**
   * Sets the record of a session; `''` removes it. It is stored with the entries of the session, from the first one on, and
   * behind like volatile ones: a crash may cost the newest change. Retention of entries does not evict it.
   */
  put(session: string, record: string): void;
  /** Returns the sessions with a record in the file. */
  all(): readonly RecordedSession[];
}

export interface Journal {
  /** Absent where nothing outlives the process. */
  readonly records?: SessionRecords;

  /**
   * Appends entries of one session in order. They are readable through `read` and `follow` at once on the appending
   * side; durable ones may still be rolled back until they are acknowledged. An object given as body belongs to the
   * journal from then on: a later change to it may show.
   *
   * `durable` (the default): the returned promise is the durability promise of the implementation. The in-memory
   * journal returns `undefined` at once; the SQLite journal resolves when the entries, and all earlier ones of the
   * session, are on disk (group commit). Rejects with `disk_full` (retryable) or `runtime_error`; then no entry of this
   * batch is stored.
   *
   * `volatile`: returns `undefined`, since no wait is needed. Entries that later could not be written are counted in
   * {@link Journal.volatileFailures} and read as a gap. Only an immediate refusal (a cursor that does not grow, a
   * closed journal) returns a promise; it rejects, and a caller need not await it.
   *
   * `owner`: the owner of the session, in whose share it counts; the first append of a session sets it permanently.
   * Default: no owner, and no share.
   */
  append(
    session: string,
    entries: readonly NewEntry[],
    durability?: Durability,
    owner?: string,
  ): Promise<void> | undefined;

  /** Volatile entries accepted and then lost because they could not be written. Evicted entries do not count. */
  readonly volatileFailures: number;

  /**
   * The reason why a durable entry could not be stored now, as far as earlier writes show: for checks before work whose
   * outcome must be stored. A failure that can pass, such as a full disk, is tried again. Absent: never.
   */
  readonly unwritable?: HandfastError | undefined;

  /**
   * Entries with `cursor > after`, oldest first, at most `limit` (default 256). With `maxBytes` a page may end with the first entry by
   * which its bodies exceed that: then further ones are read from there.
   */
  read(session: string, after: number, limit?: number, maxBytes?: number): Promise<Page>;

  /**
   * Yields the stored entries after `after`, then those that arrive, without gaps or duplicates between; a range that
   * is no longer stored is one `gap`. Ends when `signal` aborts, when the session is deleted, or when the journal
   * closes.
   */
  follow(session: string, after: number, signal?: AbortSignal): AsyncIterable<JournalEntry | Gap>;

  /** Returns the sessions that have entries, newest write first; with `owner`, those of this owner only. */
  sessions(limit?: number, owner?: string): Promise<readonly JournalSession[]>;

  /** Returns the owner of a session with entries; undefined for one without an owner, and for an unknown one. */
  owner(session: string): string | undefined;

  /**
   * Frees the resources, in memory and in the file, that the journal holds ready for entries of a session: its writer
   * expects no more of them soon. A later append still works and costs a little more. Absent: nothing is held ready.
   */
  release?(session: string): void;

  /** Forgets a session and its entries. Forgetting an unknown one is fine. */
  delete(session: string): Promise<void>;

  /** Flushes and closes. Idempotent; later calls of the others reject with `runtime_error`. */
  close(): Promise<void>;
}
