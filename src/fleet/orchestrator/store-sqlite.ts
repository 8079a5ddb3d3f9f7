/**
 * Task records on disk: one SQLite file, which `store-rows.ts` reads and writes.
 *
 * A record is synced to disk, by group commit, when `put` resolves. One process per file; the lock ends with the process.
 */

import { type Damage, openDatabase, soleOwner } from '../../base/sqlite/database.ts';
import { sqliteFailure } from '../../base/sqlite/failure.ts';
import { GroupCommit } from '../../base/sqlite/group-commit.ts';
import type { DatabaseLoss } from '../../base/sqlite/losses.ts';
import type { WriteCount } from '../../base/sqlite/write-count.ts';
import { fail, type HandfastError } from '../../wire/errors.ts';
import { pageLimit, superseded } from './store-query.ts';
import { type Database, TaskRows } from './store-rows.ts';
import type { Stored, SubmitterUsage, TaskQuery, TaskRecord, TaskStore } from './task.ts';

/** Marks a file as a task store ("HFTK"), so that the database of another program is never used. */
const APPLICATION_ID = 0x4846544b;
/** Its name in errors. */
const WHAT = 'the task store';
/** Bytes that the removal of a task adds to the log: a page at most. */
const FORGET_BYTES = 4096;
/** Ended tasks removed in one transaction. */
const PRUNE_STEP = 500;
/** Open tasks read at a time. */
const PAGE = 256;

/** Step n takes a file from `user_version` n to n + 1. Steps are only ever added. */
const MIGRATIONS: readonly string[] = [
  // The request and the decision have separate columns, because they may be large, and do not change when the rest does.
  `CREATE TABLE tasks (
     number INTEGER PRIMARY KEY, task_id TEXT NOT NULL UNIQUE, revision INTEGER NOT NULL, state TEXT NOT NULL,
     parked INTEGER NOT NULL, worker TEXT, batch TEXT, ended_at INTEGER, record TEXT NOT NULL
   ) STRICT;
   CREATE INDEX open_tasks ON tasks (number) WHERE ended_at IS NULL;
   CREATE INDEX ended_tasks ON tasks (ended_at) WHERE ended_at IS NOT NULL;
   CREATE INDEX batches ON tasks (batch, number) WHERE batch IS NOT NULL;
   CREATE TABLE reasons (number INTEGER PRIMARY KEY, spec TEXT NOT NULL, explanation TEXT NOT NULL) STRICT;
   CREATE TABLE counters (name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;`,
  // Tasks of earlier versions have no submitter: only operators see them.
  `ALTER TABLE tasks ADD COLUMN submitter TEXT;
   CREATE INDEX submitters ON tasks (submitter, number) WHERE submitter IS NOT NULL;`,
  // Storage of the tasks of each submitter, summed by the database itself, so that it is known without reading them.
  `ALTER TABLE tasks ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
   CREATE TABLE usage (
     submitter TEXT NOT NULL PRIMARY KEY, bytes INTEGER NOT NULL, tasks INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;
   INSERT INTO usage SELECT coalesce(submitter, ''), 0, count(*) FROM tasks GROUP BY 1;
   CREATE TRIGGER task_added AFTER INSERT ON tasks BEGIN
     INSERT INTO usage VALUES (coalesce(new.submitter, ''), new.bytes, 1)
       ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes, tasks = tasks + 1;
   END;
   CREATE TRIGGER task_changed AFTER UPDATE OF bytes ON tasks WHEN new.bytes <> old.bytes BEGIN
     UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE submitter = coalesce(new.submitter, '');
   END;
   CREATE TRIGGER task_removed AFTER DELETE ON tasks BEGIN
     UPDATE usage SET bytes = bytes - old.bytes, tasks = tasks - 1 WHERE submitter = coalesce(old.submitter, '');
   END;`,
  // A page of ended tasks is read from one of these, so that its cost does not grow with the number of stored tasks. Open tasks
  // are few beside them, and have separate indexes: a task enters these once, when it ends.
  `CREATE INDEX ended_by_state ON tasks (state, number) WHERE ended_at IS NOT NULL;
   CREATE INDEX ended_by_worker ON tasks (worker, state, number) WHERE ended_at IS NOT NULL;
   CREATE INDEX ended_by_submitter ON tasks (submitter, state, number)
     WHERE ended_at IS NOT NULL AND submitter IS NOT NULL;
   CREATE INDEX parked_tasks ON tasks (number) WHERE parked = 1;`,
];

export interface SqliteTaskStoreOptions {
  /** Path of the database. It is made 0600, directories that do not exist yet 0700. */
  readonly file: string;
  /**
   * With it, a damaged file is moved to `<file>.corrupt-<time>`, this is called once, and the store starts empty. Without
   * it, opening rejects with `journal_corrupt` and the file stays where it is.
   */
  readonly onCorrupt?: (damage: Damage) => void;
  /** Called at opening when the file lost writes. */
  readonly onLoss?: (loss: DatabaseLoss) => void;
  /** Epoch milliseconds; names a damaged file. */
  readonly now?: () => number;
}

/**
 * Opens or creates the store in `file`. Rejects with `journal_locked`, `journal_corrupt`, `disk_full`, or `runtime_error` when
 * the file belongs to another program or to a newer version; then it is left untouched.
 */
export async function sqliteTaskStore(options: SqliteTaskStoreOptions): Promise<TaskStore> {
  return openDatabase(
    {
      ...options,
      what: WHAT,
      applicationId: APPLICATION_ID,
      migrations: MIGRATIONS,
      synchronous: 'FULL',
      ownCheckpoints: true,
      lock: soleOwner('another process has the task store open; stop that process'),
    },
    (database, release, _mark, count) => new SqliteTaskStore(database, release, count),
  );
}

const storeFailure = (thrown: unknown): HandfastError => sqliteFailure(thrown, WHAT);

class SqliteTaskStore implements TaskStore {
  readonly #db: Database;
  readonly #rows: TaskRows;
  readonly #commits: GroupCommit;
  readonly #release: () => void;
  #closed = false;

  constructor(db: Database, release: () => void, count: WriteCount | undefined) {
    this.#db = db;
    this.#rows = new TaskRows(db);
    this.#release = release;
    this.#commits = new GroupCommit({ db, what: WHAT, count, undone: () => this.#rows.forgetWritten() });
  }

  async put(record: TaskRecord, revision: number): Promise<number> {
    this.#usable();
    let written: number | undefined;
    await this.#commits.write(() => {
      written = this.#rows.put(record, revision);
      return written ?? 0;
    });
    if (written !== undefined) return revision + 1;
    const { task_id, number } = record;
    throw superseded(task_id, this.#rows.revisionOf(task_id) === undefined ? number : undefined);
  }

  async get(taskId: string): Promise<Stored | undefined> {
    return this.#read(() => this.#rows.get(taskId));
  }

  async *open(): AsyncIterable<Stored> {
    for (let after = 0; ; ) {
      const page = this.#read(() => this.#rows.open(after, PAGE));
      yield* page;
      if (page.length < PAGE) return;
      after = (page.at(-1) as Stored).record.number;
    }
  }

  async find(query: TaskQuery): Promise<readonly TaskRecord[]> {
    return this.#read(() => this.#rows.find(query, pageLimit(query)));
  }

  async lastNumber(): Promise<number> {
    return this.#read(() => this.#rows.lastNumber());
  }

  async prune(before: number, maxTasks: number): Promise<number> {
    for (let pruned = 0; ; ) {
      this.#usable();
      this.#commits.flush();
      let step = 0;
      const failure = this.#commits.transact(() => {
        step = this.#rows.prune(before, maxTasks, PRUNE_STEP);
        return step * FORGET_BYTES;
      });
      if (failure !== undefined) throw failure;
      pruned += step;
      if (step < PRUNE_STEP) return pruned;
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  async usage(): Promise<readonly SubmitterUsage[]> {
    this.#usable();
    this.#commits.flush();
    return this.#read(() => this.#rows.usage());
  }

  async evict(submitter: string, bytes: number): Promise<void> {
    for (let left = bytes; left > 0; ) {
      this.#usable();
      this.#commits.flush();
      let evicted = 0;
      const failure = this.#commits.transact(() => {
        evicted = this.#rows.evict(submitter, left, PRUNE_STEP);
        return evicted;
      });
      if (failure !== undefined) throw failure;
      if (evicted === 0) return;
      left -= evicted;
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#commits.close();
    try {
      this.#db.close();
    } catch {
      // Acknowledged records are in the log beside the file; the next process to open it reads them.
    } finally {
      this.#release();
    }
  }

  /** Fails where nothing can be written any more. */
  #usable(): void {
    if (this.#closed) throw fail('runtime_error', 'the task store is closed');
    const why = this.#commits.fatal;
    if (why === undefined) return;
    throw fail(why.code as 'runtime_error', `the task store takes no more writes: ${why.message}`, {}, why);
  }

  #read<T>(read: () => T): T {
    if (this.#closed) throw fail('runtime_error', 'the task store is closed');
    try {
      return read();
    } catch (thrown) {
      throw storeFailure(thrown);
    }
  }
}
