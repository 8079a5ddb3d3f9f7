/**
 * The SQLite journal: durable entries are on disk before the promise of `append` resolves, volatile ones are written
 * later. Imported lazily by hosts with a journal on disk.
 *
 * Acknowledged means synced: WAL with `synchronous=FULL`. This file sets the options with which
 * `base/sqlite/database.ts` opens the file; `store.ts` does the rest.
 */
import { resolve } from 'node:path';
import { acquireNamedLock } from '../../base/file-lock.ts';
import { type Damage, openDatabase } from '../../base/sqlite/database.ts';
import { fail, type HandfastError } from '../../wire/errors.ts';
import { DEFAULT_RETENTION, type Durability, type Journal, type NewEntry, type Retention } from '../journal.ts';
import type { JournalShares } from '../shares.ts';
import type { SessionExpiry } from './expiry.ts';
import { APPLICATION_ID, MIGRATIONS } from './rows.ts';
import { SqliteStore } from './store.ts';

export type { Damage, SessionExpiry };

export interface SqliteJournalOptions {
  /** Path of the database file. It and its companions are made 0600, directories that do not exist yet 0700. */
  readonly file: string;
  readonly retention?: Partial<Retention>;
  /** Bounds of single sessions in place of `retention`, by name. */
  readonly retentionOf?: Readonly<Record<string, Retention>>;
  /**
   * Called once after a damaged file was moved to `<file>.corrupt-<time>`; the journal then starts empty. Without this
   * option, opening rejects with `journal_corrupt` and the file stays in its place: history is never dropped silently.
   * The host passes it, and logs: a restart must not need an operator.
   */
  readonly onCorrupt?: (damage: Damage) => void;
  /**
   * Called once with the `journal_damaged` error when a journal whose newest entries are missing is opened: its log was
   * damaged or deleted, or it is an older copy. `detail.last_good` has the last cursors of the sessions with the newest
   * writes; every session continues after `detail.continues_after`, and the missing entries are read as a gap. Without
   * this option, opening rejects with that error, and so does every later opening.
   */
  readonly onDamaged?: (error: HandfastError) => void;
  /**
   * True where a session may be continued although the journal lost it whole, as when its name is stored elsewhere too.
   * Then, after a damage, reading an unknown session reports the cursor above which its cursors are unused. Default:
   * names are never used again, and an unknown session is new.
   */
  readonly namesReturn?: boolean;
  /**
   * For sessions that write little at a time, each time synced: a new file has small pages, durable entries of one commit share a
   * block, and blocks are compressed. Default false: less work for much that is written together, and a flipped bit costs no more
   * than one durable entry.
   */
  readonly sparing?: boolean;
  /**
   * Drops whole sessions, a second after opening and then every hour. Default: none is ever dropped. The file does not
   * shrink by it; the space is used again. Age is the time the journal was in use, not a difference of entries' times; of a
   * pause at most a day counts, and at most an eighth of the age.
   */
  readonly expiry?: SessionExpiry;
  /**
   * Holds owners of sessions to their shares: past one, their oldest sessions are dropped that `expiry` does not
   * retain, then the others lose their oldest entries. Default: only the retention of each session bounds its stored
   * entries.
   * @internal
   */
  readonly shares?: JournalShares;
  /** Returns epoch milliseconds; they name the damaged file, and show how long the journal was not open. */
  readonly now?: () => number;
  /** Returns milliseconds of a clock that is never set; default `performance.now`. Determines the age of a session. */
  readonly monotonicNow?: () => number;
}

/** A journal on disk. */
export interface SqliteJournal extends Journal {
  append(session: string, entries: readonly NewEntry[], durability?: 'durable', owner?: string): Promise<void>;
  append(
    session: string,
    entries: readonly NewEntry[],
    durability?: Durability,
    owner?: string,
  ): Promise<void> | undefined;
  /**
   * Reason why the last write of volatile entries failed; undefined again once one has succeeded. While it is set they
   * wait in memory, as many as retention allows, up to 32,768 entries or 16 MiB in all; past that they are lost and
   * counted.
   */
  readonly volatileFailure: HandfastError | undefined;
  /**
   * Set when the disk failed to sync or the file was found damaged while in use. Every later durable `append` and `delete`
   * rejects with its code; reads continue, volatile entries are buffered in memory. A host with this set is not ready.
   */
  readonly failed: HandfastError | undefined;
  /** Set when the newest entries were found missing at opening: the error that `onDamaged` was called with. */
  readonly damaged: HandfastError | undefined;
}

/**
 * Opens or creates the journal in `file`. A durable `append` resolves when its entries, and all earlier ones of the
 * session, are synced to disk; all durable appends of one turn of the event loop share one commit, and fail together
 * with `disk_full` when the disk is full. A caller that does not await the promise must still handle its rejection.
 *
 * Volatile entries are written some 100 ms later, many in one transaction that does not wait for the disk, and at the
 * latest by `close`. Those which retention would evict by then are not written at all. If the process is killed,
 * volatile entries it had not written yet are lost, about the last 100 ms; if the machine loses power, also those that
 * were not synced since, about two megabytes. Lost entries are always the last volatile ones: an entry is only ever
 * stored with all the earlier ones of its session, and missing entries are read as a gap.
 *
 * A crash never reuses a cursor. Before a session's volatile entries use cursors, a range of a million is reserved in
 * the file; when it was not closed in order, `last` of the session is the end of that range, and the rest of it is a
 * gap. So a caller that continues a session above `last` can trust that no peer has seen those cursors with other
 * content. The one exception is a disk that failed before the crash, so that the reservation itself could not be
 * written.
 *
 * A durable commit of over 4,096 entries or 4 MiB happens inside `append`, as does the write of volatile ones when over
 * 32,768 of them or 16 MiB wait. So memory is bounded and no append is refused for load. One process writes; others may
 * read the file meanwhile. The lock ends with the process.
 *
 * Rejects with `journal_locked` (`detail.pid`: the process, if known), `journal_corrupt`, `journal_damaged`,
 * `disk_full`, or `runtime_error` when the file cannot be opened, is another program's, or was written by a newer
 * version; then it is left untouched.
 *
 * Opening a file that was changed since it was closed reads it whole once (`PRAGMA quick_check`), about 0.7 s per GiB
 * in the page cache; one whose process was killed only up to 64 MiB. A flipped bit inside a body is found when its
 * entry is read, or a volatile neighbour of it: that read rejects with `journal_corrupt`, others are not affected. A
 * damaged or deleted log is found by the mark beside the file (`base/sqlite/mark.ts`): see `onDamaged`.
 */
export async function sqliteJournal(options: SqliteJournalOptions): Promise<SqliteJournal> {
  const file = resolve(options.file);
  const { expiry, now = Date.now } = options;
  const retention = { ...DEFAULT_RETENTION, ...options.retention };
  return openDatabase(
    {
      ...options,
      file,
      what: `the journal file ${file}`,
      applicationId: APPLICATION_ID,
      migrations: MIGRATIONS,
      synchronous: 'FULL',
      ownCheckpoints: true,
      pageBytes: options.sparing === true ? 1024 : undefined,
      lock,
    },
    (database, release, mark) => {
      const { onDamaged, namesReturn, retentionOf, monotonicNow, shares, sparing } = options;
      const more = { mark, onDamaged, namesReturn, retentionOf, shares, sparing };
      const store = new SqliteStore(database, retention, release, monotonicNow, more);
      if (expiry !== undefined) store.expire(expiry, now);
      return store;
    },
  );
}

/** Takes the write lock. Apart from the journal itself, so that others can still read that. */
function lock(file: string): () => void {
  const { release, holder } = acquireNamedLock(`${file}.lock`, `${file}.pid`);
  if (release !== undefined) return release;
  const owner = holder === undefined ? 'another process' : `process ${holder}`;
  throw fail(
    'journal_locked',
    `${owner} has the journal ${file} open; stop it, or name another data folder`,
    holder === undefined ? {} : { pid: holder },
  );
}
