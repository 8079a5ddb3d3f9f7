/**
 * Opens a database of the project: locks it against a second process, checks it, quarantines it when it is damaged, and
 * migrates it to the newest schema. Its owner supplies the name and the durability, and does the rest.
 */
import { accessSync, constants, existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { fail, type HandfastError } from '../../wire/errors.ts';
import { storeFailed, storeWorks } from '../failing-stores.ts';
import { acquireFileLock } from '../file-lock.ts';
import { isDamage, resultCode, SQLITE_ERROR, sqliteFailure } from './failure.ts';
import { connect, createPrivate, makePrivate, mayWrite, setAside } from './file.ts';
import { type DatabaseLoss, recordedLoss, recordLoss } from './losses.ts';
import { Mark, sameAsClosed, wasOpen } from './mark.ts';
import { WriteCount } from './write-count.ts';

/** Bytes of the log at which SQLite copies it into the file, where its owner does not. */
const CHECKPOINT_BYTES = 1000 * 4096;
/**
 * Largest file that is read whole after its process was killed: some 50 ms. Damage in a larger one is found when that
 * part is read.
 */
const MAX_CHECKED_BYTES = 64 * 1024 * 1024;

/** Time for which a statement waits for a foreign reader or backup tool that holds the file for a moment. */
const BUSY_TIMEOUT_MS = 1000;

/** A report of a file that was found damaged. */
export interface Damage {
  /** Description of the damage, for a log. */
  readonly reason: string;
  /** Present path of the file, absolute. Its `-wal`, if it had one, is beside it. */
  readonly movedTo: string;
}

export interface DatabaseOptions {
  /** Path of the database, or `:memory:`. It and its companions are made 0600, directories that do not exist yet 0700. */
  readonly file: string;
  /** Name in messages, for example `the task store`. */
  readonly what: string;
  /** Marks a file as of this kind, so that another program's database is never opened as one. */
  readonly applicationId: number;
  /** Step n migrates a file from `user_version` n to n + 1. */
  readonly migrations: readonly string[];
  /** `FULL`: a commit that returned is on disk. `NORMAL`: it is after the next checkpoint; the file is whole either way. */
  readonly synchronous: 'FULL' | 'NORMAL';
  /**
   * True when its owner makes the checkpoints: SQLite's own would make a commit wait for them, and hide a failed
   * sync to itself.
   */
  readonly ownCheckpoints?: boolean;
  /** Size of the pages of a new file, the least that a small change writes. Default SQLite's, 4,096. */
  readonly pageBytes?: 1024 | undefined;
  /** Acquires the lock of a file for as long as it is open; throws when another process has it. See {@link soleOwner}. */
  readonly lock?: (file: string) => () => void;
  /**
   * Called once after a damaged file was moved to `<file>.corrupt-<time>`, before an empty one replaces it. Without
   * this option, opening fails with `journal_corrupt` and the file stays in its place.
   */
  readonly onCorrupt?: (damage: Damage) => void;
  /**
   * Called at each opening of a file that lost writes: the newest are missing, or a damaged file was replaced. It is
   * called again at later openings until the record of the loss is deleted. Only with this option are writes counted.
   */
  readonly onLoss?: (loss: DatabaseLoss) => void;
  /** Path to which its owner has moved the damaged file that this one replaces. */
  readonly movedTo?: string | undefined;
  /** Returns epoch milliseconds; they name a damaged file. */
  readonly now?: () => number;
  /** Largest file that is read whole at opening after its process was killed. Default 64 MiB. */
  readonly maxCheckedBytes?: number;
}

/**
 * Returns the lock of a database that one process has at a time; a second process fails with `journal_locked` and
 * `message`.
 */
export function soleOwner(message: string): (file: string) => () => void {
  return (file) => {
    const release = acquireFileLock(`${file}.lock`);
    if (release === undefined) throw fail('journal_locked', message);
    return release;
  };
}

/**
 * Opens or creates a database and returns the result of `use`, which owns the database from then on, and calls
 * `release` when it has closed it. The owner counts its writes in `count`, which exists with `onLoss`, or itself in
 * `mark`; both are undefined in memory. Prepare statements in `use`: a mismatch with the tables is then found as
 * damage.
 *
 * Fails with the error of the lock, `journal_corrupt`, `disk_full`, or `runtime_error` when the file cannot be opened,
 * is another program's, or was written by a newer version; then it is left untouched.
 */
export function openDatabase<Opened>(
  options: DatabaseOptions,
  use: (database: DatabaseSync, release: () => void, mark: Mark | undefined, count: WriteCount | undefined) => Opened,
): Opened {
  const { what, onCorrupt, onLoss, now = Date.now } = options;
  const inMemory = options.file === ':memory:';
  const file = inMemory ? options.file : resolve(options.file);
  let unlock = (): void => {};
  let mark: Mark | undefined;
  let { movedTo } = options;
  const release = (): void => {
    mark?.close(file);
    unlock();
  };
  const open = (): Opened => {
    if (!inMemory) prepareFiles(file);
    return openFile(file, options, mark !== undefined && isTrusted(mark, file, options), (database) => {
      mark?.start();
      const count = mark === undefined || onLoss === undefined ? undefined : new WriteCount(database, mark);
      const loss = mark && count && missingFrom(mark, count, { what, file, movedTo, now });
      // Statements are prepared first, so that a file that does not match is quarantined before a loss is reported.
      const opened = use(database, release, mark, count);
      canOpen(file);
      const told = loss ?? (count && recordedLoss(file));
      if (told !== undefined) onLoss?.(told);
      return opened;
    });
  };
  try {
    if (!inMemory) {
      mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
      unlock = options.lock?.(file) ?? unlock;
      mark = new Mark(`${file}.mark`);
    }
    try {
      return open();
    } catch (thrown) {
      if (!(thrown instanceof FileDamaged)) throw thrown;
      if (onCorrupt === undefined) {
        throw fail('journal_corrupt', `${what} is damaged: ${thrown.message}`, {}, thrown.cause);
      }
      movedTo = setAside(file, now());
      onCorrupt({ reason: thrown.message, movedTo });
      if (mark !== undefined) mark.replaced = true;
      return open();
    }
  } catch (thrown) {
    mark?.abandon();
    unlock();
    const failure = sqliteFailure(thrown, what, inMemory ? undefined : file);
    if (!inMemory && failure.code !== 'journal_locked') cannotOpen(file, options, failure);
    throw failure;
  }
}

/** Files that could not be opened, each with its owner in the list of failing stores. */
const unopened = new Map<string, object>();

function cannotOpen(file: string, { what, lock }: DatabaseOptions, failure: HandfastError): void {
  const owner = unopened.get(file) ?? {};
  unopened.set(file, owner);
  storeFailed(owner, what, failure, false, () => (mayPass(failure) || !existsSync(file)) && mayOpen(file, lock));
}

/**
 * Returns true when the file can be opened as far as the checks show. Another process that has the file now does not
 * matter.
 */
function mayOpen(file: string, lock: DatabaseOptions['lock']): boolean {
  if (!mayWrite(file)) return false;
  try {
    lock?.(file)();
    return true;
  } catch (thrown) {
    return (thrown as Partial<HandfastError>).code === 'journal_locked';
  }
}

/**
 * Returns true when the disk or the system failed. The contents of a file (damaged, of another program or version) stay
 * unchanged.
 */
const mayPass = ({ code, detail }: HandfastError): boolean =>
  code === 'disk_full' || (code === 'runtime_error' && (detail.reason !== undefined || detail.sqlite !== undefined));

function canOpen(file: string): void {
  const owner = unopened.get(file);
  if (owner === undefined) return;
  unopened.delete(file);
  storeWorks(owner);
}

/** Returns the writes that a file lost since its mark was written; later ones are numbered above them. */
function missingFrom(
  mark: Mark,
  count: WriteCount,
  { what, file, movedTo, now }: { what: string; file: string; movedTo: string | undefined; now: () => number },
): DatabaseLoss | undefined {
  const { written = 0, synced = 0 } = mark.found ?? {};
  const { written: ends_at } = count;
  if (movedTo === undefined && written <= ends_at) {
    count.committed();
    return undefined;
  }
  const loss = {
    what,
    file,
    ends_at: movedTo === undefined ? ends_at : 0,
    of: Math.max(written, ends_at),
    acknowledged: synced > ends_at,
    ...(movedTo !== undefined && { moved_to: movedTo }),
    found_at: new Date(now()).toISOString(),
  };
  // First: after a kill in between, the next opening finds the loss again.
  recordLoss(loss);
  count.continueAfter(loss.of);
  return loss;
}

/** Reports that the file differs from its written state; never leaves this file. */
class FileDamaged extends Error {}

function prepareFiles(file: string): void {
  const bytes = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  const logBytes = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  // SQLite treats an empty file as a new database and drops the log beside it, and with it acknowledged writes.
  if (bytes === 0 && logBytes > 0) throw new FileDamaged('the file is empty but its log is not');
  createPrivate(file);
  // SQLite opens a file without the right to write for reading alone, and reports it at the first write.
  accessSync(file, constants.R_OK | constants.W_OK);
  for (const suffix of ['-wal', '-shm']) makePrivate(file + suffix);
}

/**
 * Returns true for a file that is not read whole before it is used: one unchanged since it was closed, and a large one
 * whose process was killed. The mark shows that the newest writes of the latter exist.
 */
function isTrusted(mark: Mark, file: string, { maxCheckedBytes = MAX_CHECKED_BYTES }: DatabaseOptions): boolean {
  if (sameAsClosed(mark, file)) return true;
  return wasOpen(mark) && (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > maxCheckedBytes;
}

/**
 * Opens, checks and migrates. Throws {@link FileDamaged} when the file should be quarantined. The check reads the whole
 * file, so a `trusted` file is not checked.
 */
function openFile<Opened>(
  file: string,
  options: DatabaseOptions,
  trusted: boolean,
  use: (database: DatabaseSync) => Opened,
): Opened {
  let database: DatabaseSync | undefined;
  let ready = false;
  try {
    database = connect(file, BUSY_TIMEOUT_MS);
    const version = identify(database, options);
    const pageBytes = version === 0 ? options.pageBytes : undefined;
    const pages = pageBytes === undefined ? '' : `PRAGMA page_size=${pageBytes};`;
    const checkpoints = `PRAGMA wal_autocheckpoint=${options.ownCheckpoints === true ? 0 : checkpointPages(database, pageBytes)};`;
    database.exec(
      `${pages} PRAGMA journal_mode=WAL; PRAGMA synchronous=${options.synchronous}; ${checkpoints} PRAGMA temp_store=MEMORY`,
    );
    const finding = trusted ? 'ok' : first(database, 'PRAGMA quick_check(1)');
    if (finding !== 'ok') throw new FileDamaged(String(finding));
    migrate(database, version, options);
    ready = true;
    return use(database);
  } catch (thrown) {
    database?.close();
    // The version is correct and yet a statement does not match the tables: their definition was damaged.
    const misfit = ready && resultCode(thrown) === SQLITE_ERROR;
    if (isDamage(thrown) || misfit) throw new FileDamaged((thrown as Error).message, { cause: thrown });
    throw thrown;
  }
}

/** Returns the pages of a checkpoint. SQLite counts pages: the bytes of the log are the same for every page size. */
const checkpointPages = (database: DatabaseSync, pageBytes = first(database, 'PRAGMA page_size') as number): number =>
  Math.max(1, Math.round(CHECKPOINT_BYTES / pageBytes));

/** Returns the first value of the first row. */
function first(database: DatabaseSync, sql: string): unknown {
  return Object.values(database.prepare(sql).get() ?? {})[0];
}

/** Returns the schema version of the file; 0 for a new one. Only reads, so that a file of another program stays unchanged. */
function identify(database: DatabaseSync, { what, applicationId, migrations }: DatabaseOptions): number {
  const version = first(database, 'PRAGMA user_version') as number;
  const application = first(database, 'PRAGMA application_id');
  if (application !== applicationId) {
    if (application === 0 && version === 0 && first(database, 'SELECT count(*) FROM sqlite_schema') === 0) return 0;
    throw fail('runtime_error', `${what} is the database of another program; move it away, or use another data folder`);
  }
  if (version > migrations.length) {
    const known = `schema ${version}, known up to ${migrations.length}`;
    throw fail(
      'runtime_error',
      `${what} was written by a newer version (${known}); update Handfast, or use another data folder`,
    );
  }
  return version;
}

function migrate(database: DatabaseSync, from: number, { applicationId, migrations }: DatabaseOptions): void {
  for (let version = from; version < migrations.length; version += 1) {
    database.exec(`BEGIN IMMEDIATE; ${migrations[version]}
      PRAGMA application_id=${applicationId}; PRAGMA user_version=${version + 1}; COMMIT`);
  }
}
