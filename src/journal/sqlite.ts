/**
 * The SQLite journal: what is durable is on disk before the promise of `append` resolves, what is volatile is written
 * behind. The one file that imports `node:sqlite`, and itself imported lazily by whoever is configured to keep a journal
 * on disk.
 *
 * Acknowledged means synced: WAL with `synchronous=FULL`. Here the file is opened: locked against a second writer,
 * checked, set aside when damaged, migrated. `sqlite-store.ts` does the rest.
 */
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fail, type HandfastError } from '../wire/errors.ts';
import { DEFAULT_RETENTION, type Durability, type Journal, type NewEntry, type Retention } from './journal.ts';
import type { SessionExpiry } from './sqlite-expiry.ts';
import { isDamage, journalError } from './sqlite-failure.ts';
import { createPrivate, makePrivate, setAside } from './sqlite-file.ts';
import { APPLICATION_ID, MIGRATIONS } from './sqlite-rows.ts';
import { SqliteStore } from './sqlite-store.ts';

export type { SessionExpiry };

/** How long a statement waits for a foreign reader or backup tool that holds the file for a moment. */
const BUSY_TIMEOUT_MS = 1000;

/** What happened to a journal file that was found damaged. */
export interface Damage {
  /** What was wrong, for a log. */
  readonly reason: string;
  /** Where the file is now, absolute. Its `-wal`, if there was one, is beside it. */
  readonly movedTo: string;
}

export interface SqliteJournalOptions {
  /** Path of the database file. It and its companions are made 0600, directories that do not exist yet 0700. */
  readonly file: string;
  readonly retention?: Partial<Retention>;
  /**
   * With it, a damaged file is moved to `<file>.corrupt-<time>`, this is called once, and the journal starts empty.
   * Without it, opening rejects with `journal_corrupt` and the file stays where it is: history is never dropped silently.
   * The host passes it, and logs: a restart must not need an operator.
   */
  readonly onCorrupt?: (damage: Damage) => void;
  /**
   * Drops whole sessions, a second after opening and then every hour. Default: none is ever dropped. The file does not
   * shrink by it; the space is used again.
   */
  readonly expiry?: SessionExpiry;
  /** Epoch milliseconds; names the damaged file, and tells how old a session is. */
  readonly now?: () => number;
}

/** A journal on disk. */
export interface SqliteJournal extends Journal {
  append(session: string, entries: readonly NewEntry[], durability?: 'durable'): Promise<void>;
  append(session: string, entries: readonly NewEntry[], durability?: Durability): Promise<void> | undefined;
  /**
   * Why the last write of volatile entries failed; undefined again once one has succeeded. While it is set they wait in
   * memory, as many as retention keeps, up to 32,768 entries or 16 MiB in all; past that they are lost and counted.
   */
  readonly volatileFailure: HandfastError | undefined;
  /**
   * Set when the disk failed to sync or the file was found damaged while in use. Every later durable `append` and `delete`
   * rejects with its code; reads go on, volatile entries are held in memory. A host with this set is not ready.
   */
  readonly failed: HandfastError | undefined;
}

/**
 * Opens or creates the journal in `file`. A durable `append` resolves when its entries, and all earlier ones of the
 * session, are synced to disk; all durable appends of one turn of the event loop share one commit, and fail together with
 * `disk_full` when there is no room for it. Whoever does not wait for the promise must still handle its rejection.
 *
 * Volatile entries are written some 100 ms later, many in one transaction that does not wait for the disk, and at the
 * latest by `close`. Those which retention would take by then are not written at all. If the process is killed, what it
 * had not written yet is lost, about the last 100 ms; if the machine loses power, also what was not synced since, about
 * two megabytes. What is lost is always the end of what was volatile: an entry is only ever there with all the earlier ones
 * of its session, and what is missing is read as a gap.
 *
 * A crash takes no cursor back. Before a session's volatile entries use cursors, a range of a million is reserved in the
 * file; when it was not closed in good order, `last` of the session is the end of that range, and the rest of it is a
 * gap. So who continues a session above `last` can trust that no peer has seen those cursors with other content. The one
 * exception is a disk that failed before the crash, so that the reservation itself could not be written.
 *
 * A durable commit that would hold over 4,096 entries or 4 MiB happens inside `append`, as does the write of volatile
 * ones when over 32,768 of them or 16 MiB wait. So memory is bounded and nothing is refused for load. One process writes;
 * others may read the file meanwhile. The lock ends with the process.
 *
 * Rejects with `journal_locked` (`detail.pid` says who, if known), `journal_corrupt`, `disk_full`, or `runtime_error`
 * when the file cannot be opened, is another program's, or was written by a newer version; then it is left untouched.
 *
 * Opening reads the whole file once (`PRAGMA quick_check`), about 0.7 s per GiB in the page cache. A flipped bit inside
 * a body is found when its entry is read, or a volatile neighbour of it: that read rejects with `journal_corrupt`, others
 * are not affected.
 */
export async function sqliteJournal(options: SqliteJournalOptions): Promise<SqliteJournal> {
  const file = resolve(options.file);
  const { onCorrupt, expiry, now = Date.now } = options;
  const started = (store: SqliteStore): SqliteJournal => {
    if (expiry !== undefined) store.expire(expiry, now);
    return store;
  };
  let release: (() => void) | undefined;
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    release = lock(file);
    const retention = { ...DEFAULT_RETENTION, ...options.retention };
    try {
      return started(open(file, retention, release));
    } catch (thrown) {
      if (!(thrown instanceof FileDamaged)) throw thrown;
      if (onCorrupt === undefined) {
        throw fail('journal_corrupt', `the journal file ${file} is damaged: ${thrown.message}`, {}, thrown.cause);
      }
      onCorrupt({ reason: thrown.message, movedTo: setAside(file, now()) });
      return started(open(file, retention, release));
    }
  } catch (thrown) {
    release?.();
    throw journalError(thrown);
  }
}

/** Says that the file is not what was once written; never leaves this file. */
class FileDamaged extends Error {}

/**
 * Takes the write lock: an exclusive SQLite lock on the empty file `<file>.lock`, which the operating system drops with
 * the process, however it ends. Apart from the journal itself, so that others can still read that, and so that a
 * damaged file can be moved away under the lock.
 */
function lock(file: string): () => void {
  const held = `${file}.lock`;
  // Not in the lock file: reading that through another descriptor of this process would drop the lock (POSIX).
  const pidFile = `${file}.pid`;
  createPrivate(held);
  const db = new DatabaseSync(held, { timeout: 0 });
  try {
    db.exec('PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE');
  } catch (thrown) {
    db.close();
    const error = journalError(thrown);
    if (error.code !== 'journal_locked') throw error;
    const pid = livingPid(pidFile);
    const who = pid === undefined ? 'another process' : `process ${pid}`;
    throw fail('journal_locked', `${who} has the journal ${file} open`, pid === undefined ? {} : { pid }, thrown);
  }
  try {
    writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 });
  } catch {
    // Only a courtesy to whoever is refused.
  }
  return () => {
    try {
      rmSync(pidFile, { force: true });
    } finally {
      db.close();
    }
  };
}

/** The process named in `pidFile`, unless it is gone: then the file was left by an earlier holder. */
function livingPid(pidFile: string): number | undefined {
  let pid = 0;
  try {
    pid = Number.parseInt(readFileSync(pidFile, 'utf8'), 10);
    if (pid > 0) process.kill(pid, 0);
  } catch (thrown) {
    // Not permitted to signal it, but it lives.
    if ((thrown as NodeJS.ErrnoException).code !== 'EPERM') return undefined;
  }
  return pid > 0 ? pid : undefined;
}

/** Opens, checks and migrates. Throws {@link FileDamaged} when the file should be set aside. */
function open(file: string, retention: Retention, release: () => void): SqliteStore {
  const bytes = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  const logBytes = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  // SQLite takes an empty file for a new database and drops the log beside it, and with it what was acknowledged.
  if (bytes === 0 && logBytes > 0) throw new FileDamaged('the file is empty but its log is not');
  createPrivate(file);
  for (const suffix of ['-wal', '-shm']) makePrivate(file + suffix);
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
    const version = identify(db);
    // Checkpoints are the store's: SQLite's own would keep it to itself when one of them fails to sync.
    db.exec('PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA temp_store=MEMORY');
    const finding = Object.values(db.prepare('PRAGMA quick_check(1)').get() ?? {})[0];
    if (finding !== 'ok') throw new FileDamaged(String(finding));
    migrate(db, version);
    return new SqliteStore(db, retention, release);
  } catch (thrown) {
    db?.close();
    // The version is ours and yet a statement does not fit the tables: their definition was damaged.
    const misfit = (thrown as { errcode?: unknown }).errcode === 1;
    if (isDamage(thrown) || misfit) throw new FileDamaged((thrown as Error).message, { cause: thrown });
    throw thrown;
  }
}

/** The schema version of the file; 0 for a new one. Reads only, so that a file that is not ours stays as it is. */
function identify(db: DatabaseSync): number {
  const number = (sql: string) => Object.values(db.prepare(sql).get() ?? {})[0] as number;
  const version = number('PRAGMA user_version');
  const application = number('PRAGMA application_id');
  if (application !== APPLICATION_ID) {
    if (application === 0 && version === 0 && number('SELECT count(*) FROM sqlite_schema') === 0) return 0;
    throw fail('runtime_error', 'the journal file is the database of another program');
  }
  if (version > MIGRATIONS.length) {
    throw fail(
      'runtime_error',
      `the journal file was written by a newer version (schema ${version}, known up to ${MIGRATIONS.length})`,
    );
  }
  return version;
}

function migrate(db: DatabaseSync, from: number): void {
  for (let version = from; version < MIGRATIONS.length; version += 1) {
    db.exec(`BEGIN IMMEDIATE; ${MIGRATIONS[version]}
      PRAGMA application_id=${APPLICATION_ID}; PRAGMA user_version=${version + 1}; COMMIT`);
  }
}
