/**
 * Group commit for a SQLite database in WAL mode: all writes of one turn of the event loop are one transaction, and
 * waiting for the disk happens off this thread, which continues meanwhile. Writes that arrive while the disk is busy
 * are the next transaction.
 *
 * With `synchronous=NORMAL` SQLite syncs only when the log is copied into the file and started again, so that the file
 * stays whole. The sync of the log here makes a commit survive a loss of power.
 * @see https://www.sqlite.org/pragma.html#pragma_synchronous
 */
import { close, closeSync, fdatasync, fdatasyncSync, fsyncSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { fail, type HandfastError } from '../../wire/errors.ts';
import { storeFailed, storeWorks } from '../failing-stores.ts';
import { isFatal, sqliteFailure, syncFailure } from './failure.ts';
import { mayWrite } from './file.ts';
import type { WriteCount } from './write-count.ts';

export interface GroupCommitOptions {
  readonly db: DatabaseSync;
  /** Name of the database in errors: "the task store". */
  readonly what: string;
  /** Counts the transactions, so that a loss of the newest is noticed. */
  readonly count?: WriteCount | undefined;
  /** Called when a transaction was rolled back: none of its writes exists. */
  readonly undone?: () => void;
}

/** Does a write, and returns about how many bytes it wrote. */
export type Write = () => number;

/** A batch of this many writes is committed within the call that filled it, so that the waiting writes are bounded. */
const MAX_BATCH = 4096;
/** Time for which a write without a waiting caller may stay in memory; the next awaited write takes it along. */
const BEHIND_MS = 100;
/** Bytes of a page and its header that even a small change puts into the log. */
const PAGE_LOG_BYTES = 4120;
/** Size of the log at which it is copied into the file, in a separate turn of the event loop. */
const CHECKPOINT_BYTES = 16 * 1024 * 1024;
/** Size up to which the log grows if no turn ends. */
const MAX_LOG_BYTES = 4 * CHECKPOINT_BYTES;

interface Batch {
  readonly done: PromiseWithResolvers<void>;
  readonly writes: Write[];
  /** A caller waits until it is on disk. */
  awaited: boolean;
  /** Its number, once it is committed. */
  count: number;
}

const nothing = (): void => {};

export class GroupCommit {
  readonly #options: GroupCommitOptions;
  readonly #begin: StatementSync;
  readonly #commit: StatementSync;
  readonly #rollback: StatementSync;
  readonly #checkpoint: StatementSync;
  /** The log, to be synced; undefined where this file system has none: then each commit syncs by itself. */
  readonly #log: number | undefined;
  #batch: Batch | undefined;
  #soon: NodeJS.Immediate | undefined;
  #behind: NodeJS.Timeout | undefined;
  #checkpointer: NodeJS.Immediate | undefined;
  /** About how many bytes went into the log since it was copied into the file. */
  #logged = 0;
  /** In the log, and not known to be on disk. */
  #unsynced: Batch[] = [];
  #syncing = false;
  #fatal: HandfastError | undefined;
  #closed = false;

  /** Takes over a migrated database and its checkpoints. Fails as `sqliteFailure` describes when its log cannot be opened. */
  constructor(options: GroupCommitOptions) {
    const { db, what } = options;
    this.#options = options;
    this.#begin = db.prepare('BEGIN IMMEDIATE');
    this.#commit = db.prepare('COMMIT');
    this.#rollback = db.prepare('ROLLBACK');
    this.#checkpoint = db.prepare('PRAGMA wal_checkpoint(PASSIVE)');
    try {
      this.#log = openLog(db);
    } catch (thrown) {
      throw sqliteFailure(thrown, what, db.location());
    }
  }

  /**
   * The failure after which no later write may be trusted: the disk failed to sync or the file was found damaged. Never
   * cleared.
   */
  get fatal(): HandfastError | undefined {
    return this.#fatal;
  }

  /**
   * Does a write in the next transaction; resolves when that is on disk. The transaction is undone whole when one of its
   * writes throws, and all of them reject with that. Rejects with `interrupted` after `close`.
   */
  write(write: Write): Promise<void> {
    if (this.#fatal !== undefined) return Promise.reject(this.#fatal);
    if (this.#closed) return Promise.reject(fail('interrupted', `${this.#options.what} is closed`));
    const batch = this.#add(write);
    batch.awaited = true;
    if (!this.#syncing) this.#soon ??= setImmediate(this.flush);
    return batch.done.promise;
  }

  /** Does a write without a waiting caller: with the next awaited one, or some 100 ms from now. */
  writeBehind(write: Write): void {
    if (this.#closed || this.#fatal !== undefined) return;
    this.#add(write);
    if (this.#behind !== undefined) return;
    this.#behind = setTimeout(this.flush, BEHIND_MS);
    this.#behind.unref();
  }

  /** Commits the waiting writes, now; waiting callers are resolved when they are on disk. Does not throw. */
  readonly flush = (): void => {
    clearImmediate(this.#soon);
    clearTimeout(this.#behind);
    this.#soon = undefined;
    this.#behind = undefined;
    const batch = this.#batch;
    if (batch === undefined) return;
    this.#batch = undefined;
    const failure = this.transact(() => {
      let bytes = batch.writes.length * PAGE_LOG_BYTES;
      for (const write of batch.writes) bytes += write();
      return bytes;
    }, batch.awaited);
    batch.count = this.#options.count?.written ?? 0;
    if (failure !== undefined) batch.done.reject(failure);
    else if (this.#log === undefined || !batch.awaited) batch.done.resolve();
    else {
      this.#unsynced.push(batch);
      if (!this.#syncing) this.#sync(this.#log);
    }
  };

  /**
   * Runs one transaction, now, without a sync. Returns the reason of a failure; then none of its writes exists.
   * `syncs`: a sync follows.
   */
  transact(work: Write, syncs = false): HandfastError | undefined {
    if (this.#fatal !== undefined) return this.#fatal;
    const { count } = this.#options;
    try {
      this.#begin.run();
      this.#logged += work();
      count?.add();
      this.#commit.run();
    } catch (thrown) {
      this.#undo();
      return this.#note(thrown);
    }
    // If the log is synced next, that writes the mark.
    count?.committed(!syncs || this.#log === undefined);
    if (this.#fatal === undefined) storeWorks(this);
    if (this.#logged > MAX_LOG_BYTES) this.#emptyLog();
    else if (this.#logged > CHECKPOINT_BYTES) this.#checkpointer ??= setImmediate(this.#emptyLog);
    return undefined;
  }

  /** Returns why the database failed, and accepts no more writes where that forbids it. */
  #note(thrown: unknown): HandfastError {
    const { what, db } = this.#options;
    const file = db.location();
    const failure = sqliteFailure(thrown, what, file);
    if (isFatal(thrown)) this.#fatal ??= failure;
    storeFailed(this, what, failure, this.#fatal !== undefined, () => mayWrite(file));
    return failure;
  }

  /** Commits the waiting writes, syncs them within this call, and closes the log; the caller still owns the database. */
  close(): void {
    if (this.#closed) return;
    this.flush();
    this.#closed = true;
    storeWorks(this);
    clearImmediate(this.#checkpointer);
    this.#options.count?.refresh();
    if (this.#log === undefined) return;
    if (this.#unsynced.length > 0 || this.#syncing) {
      let failure: unknown;
      try {
        fdatasyncSync(this.#log);
      } catch (thrown) {
        failure = thrown;
      }
      this.#settle(this.#unsynced.splice(0), failure);
    }
    // A sync that is under way still needs the descriptor.
    if (!this.#syncing) closeSync(this.#log);
  }

  #add(write: Write): Batch {
    if (this.#batch !== undefined && this.#batch.writes.length >= MAX_BATCH) this.flush();
    if (this.#batch === undefined) {
      this.#batch = { done: Promise.withResolvers<void>(), writes: [], awaited: false, count: 0 };
      // Only waiting callers get a failure.
      this.#batch.done.promise.catch(nothing);
    }
    this.#batch.writes.push(write);
    return this.#batch;
  }

  /** Copies the log into the file, apart from the commits: a caller that awaits one does not wait for this. */
  readonly #emptyLog = (): void => {
    clearImmediate(this.#checkpointer);
    this.#checkpointer = undefined;
    this.#logged = 0;
    try {
      this.#checkpoint.get();
    } catch (thrown) {
      // Entries in the log stay there; only after a failed sync may no write follow.
      this.#note(thrown);
    }
  };

  #undo(): void {
    this.#options.undone?.();
    try {
      if (this.#options.db.isTransaction) this.#rollback.run();
    } catch (thrown) {
      this.#fatal ??= sqliteFailure(thrown, this.#options.what);
    }
  }

  #sync(log: number): void {
    this.#syncing = true;
    const batches = this.#unsynced;
    this.#unsynced = [];
    fdatasync(log, (thrown) => {
      this.#syncing = false;
      this.#settle(batches, thrown ?? undefined);
      if (this.#closed) {
        close(log, nothing);
      } else if (this.#unsynced.length > 0) this.#sync(log);
      else if (this.#batch?.awaited) this.#soon ??= setImmediate(this.flush);
    });
  }

  /**
   * Resolves or rejects the waiting callers. After a failed sync the kernel may have dropped the pages it could not
   * write: a later success would prove nothing.
   */
  #settle(batches: readonly Batch[], thrown: unknown): void {
    if (thrown !== undefined) {
      this.#fatal ??= syncFailure(thrown, this.#options.what);
      if (!this.#closed) storeFailed(this, this.#options.what, this.#fatal, true);
    } else {
      // Before a caller learns of it, so that a kill right after the reply finds it in the mark.
      this.#options.count?.synced(batches.at(-1)?.count ?? 0);
    }
    for (const { done } of batches) {
      if (this.#fatal === undefined) done.resolve();
      else done.reject(this.#fatal);
    }
  }
}

/** Opens the log beside the database, and syncs its content so far, and its name. */
function openLog(db: DatabaseSync): number | undefined {
  if (Object.values(db.prepare('PRAGMA journal_mode').get() ?? {})[0] !== 'wal') return undefined;
  const file = db.location() as string;
  // The first read makes the log.
  db.prepare('SELECT count(*) FROM sqlite_schema').get();
  const log = openSync(`${file}-wal`, 'r+');
  try {
    fdatasyncSync(log);
    syncFolder(dirname(file));
    db.exec('PRAGMA synchronous=NORMAL');
    return log;
  } catch (thrown) {
    closeSync(log);
    throw thrown;
  }
}

/**
 * Syncs a folder, so that the names of new files in it survive a loss of power. Windows persists them by itself and
 * opens no folders.
 */
function syncFolder(folder: string): void {
  if (process.platform === 'win32') return;
  const descriptor = openSync(folder, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
