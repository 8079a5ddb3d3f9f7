/**
 * Task records on disk: one SQLite file, opened, locked, checked, set aside when damaged, migrated here;
 * `store-rows.ts` reads and writes it.
 *
 * What `put` has resolved is synced to disk. All puts of one turn of the event loop share one commit, since
 * `node:sqlite` is synchronous and a sync is what takes its time. One process per file; the lock ends with the process.
 */
import { mkdirSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { takeFileLock } from '../../host/file-lock.ts';
import { createPrivate, setAside } from '../../journal/sqlite-file.ts';
import { fail, type HandfastError } from '../../wire/errors.ts';
import { isFatal, storeFailure } from './store-failure.ts';
import { pageLimit, superseded } from './store-query.ts';
import { type Database, TaskRows } from './store-rows.ts';
import type { Stored, TaskQuery, TaskRecord, TaskStore } from './task.ts';

/** Marks a file as ours ("HFTK"), so that another program's database is never taken for one. */
const APPLICATION_ID = 0x4846544b;
const BUSY_TIMEOUT_MS = 1000;
/** Puts that wait for the next commit; at this many it is made at once, so that what waits is bounded. */
const MAX_BATCH = 4096;
/** How much goes into SQLite's log before it is copied into the file, in a turn of its own. */
const CHECKPOINT_BYTES = 4 * 1024 * 1024;
/** Where no turn ends, the log grows up to this. */
const MAX_LOG_BYTES = 4 * CHECKPOINT_BYTES;
/** Ended tasks forgotten in one transaction. */
const PRUNE_STEP = 500;
/** Open tasks read at a time. */
const PAGE = 256;

/** Step n takes a file from `user_version` n to n + 1. Steps are only ever added. */
const MIGRATIONS: readonly string[] = [
  // What was asked and what was decided are apart, because they may be large, and do not change when the rest does.
  `CREATE TABLE tasks (
     number INTEGER PRIMARY KEY, task_id TEXT NOT NULL UNIQUE, revision INTEGER NOT NULL, state TEXT NOT NULL,
     parked INTEGER NOT NULL, worker TEXT, batch TEXT, ended_at INTEGER, record TEXT NOT NULL
   ) STRICT;
   CREATE INDEX open_tasks ON tasks (number) WHERE ended_at IS NULL;
   CREATE INDEX ended_tasks ON tasks (ended_at) WHERE ended_at IS NOT NULL;
   CREATE INDEX batches ON tasks (batch, number) WHERE batch IS NOT NULL;
   CREATE TABLE reasons (number INTEGER PRIMARY KEY, spec TEXT NOT NULL, explanation TEXT NOT NULL) STRICT;
   CREATE TABLE counters (name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;`,
];

export interface SqliteTaskStoreOptions {
  /** Path of the database. It is made 0600, directories that do not exist yet 0700. */
  readonly file: string;
  /**
   * With it, a damaged file is moved to `<file>.corrupt-<time>`, this is called once, and the store starts empty. Without
   * it, opening rejects with `journal_corrupt` and the file stays where it is.
   */
  readonly onCorrupt?: (damage: { readonly reason: string; readonly movedTo: string }) => void;
  /** Epoch milliseconds; names a damaged file. */
  readonly now?: () => number;
}

/**
 * Opens or creates the store in `file`. Rejects with `journal_locked`, `journal_corrupt`, `disk_full`, or `runtime_error`
 * when the file is another program's or was written by a newer version; then it is left untouched.
 */
export async function sqliteTaskStore(options: SqliteTaskStoreOptions): Promise<TaskStore> {
  const { onCorrupt, now = Date.now } = options;
  const file = resolve(options.file);
  let release: (() => void) | undefined;
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    release = takeFileLock(`${file}.lock`);
    if (release === undefined) throw fail('journal_locked', 'another process has the task store open');
    try {
      return new SqliteTaskStore(prepare(file), release);
    } catch (thrown) {
      if (onCorrupt === undefined || storeFailure(thrown).code !== 'journal_corrupt') throw thrown;
      onCorrupt({ reason: (thrown as Error).message, movedTo: setAside(file, now()) });
      return new SqliteTaskStore(prepare(file), release);
    }
  } catch (thrown) {
    release?.();
    throw storeFailure(thrown);
  }
}

/** Opens, checks and migrates. */
function prepare(file: string): Database {
  createPrivate(file);
  const db = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
  try {
    const number = (sql: string) => Object.values(db.prepare(sql).get() ?? {})[0] as number;
    const version = number('PRAGMA user_version');
    const foreign = number('PRAGMA application_id') !== APPLICATION_ID;
    if (foreign && (version !== 0 || number('SELECT count(*) FROM sqlite_schema') !== 0)) {
      throw fail('runtime_error', 'the task store is the database of another program');
    }
    if (version > MIGRATIONS.length) {
      throw fail('runtime_error', `the task store was written by a newer version (schema ${version})`);
    }
    // Checkpoints are ours: SQLite's own would make somebody's commit wait for them, and keep a failed sync to itself.
    db.exec('PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA temp_store=MEMORY');
    const finding = Object.values(db.prepare('PRAGMA quick_check(1)').get() ?? {})[0];
    if (finding !== 'ok') throw fail('journal_corrupt', `the task store is damaged: ${String(finding)}`);
    for (let step = version; step < MIGRATIONS.length; step += 1) {
      db.exec(`BEGIN IMMEDIATE; ${MIGRATIONS[step]}
        PRAGMA application_id=${APPLICATION_ID}; PRAGMA user_version=${step + 1}; COMMIT`);
    }
    return db;
  } catch (thrown) {
    db.close();
    throw thrown;
  }
}

interface Waiting {
  readonly record: TaskRecord;
  readonly revision: number;
  resolve(revision: number): void;
  reject(error: HandfastError): void;
}

class SqliteTaskStore implements TaskStore {
  readonly #db: Database;
  readonly #rows: TaskRows;
  readonly #release: () => void;
  #waiting: Waiting[] = [];
  #timer: NodeJS.Immediate | undefined;
  #checkpointer: NodeJS.Immediate | undefined;
  #logged = 0;
  #failed: HandfastError | undefined;
  #closed = false;

  constructor(db: Database, release: () => void) {
    this.#db = db;
    this.#rows = new TaskRows(db);
    this.#release = release;
  }

  put(record: TaskRecord, revision: number): Promise<number> {
    const refusal = this.#refusal();
    if (refusal !== undefined) return Promise.reject(refusal);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ record, revision, resolve, reject });
      this.#timer ??= setImmediate(this.#flush);
      if (this.#waiting.length >= MAX_BATCH) this.#flush();
    });
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
      const refusal = this.#refusal();
      if (refusal !== undefined) throw refusal;
      this.#flush();
      let step = 0;
      const failure = this.#transact(() => {
        step = this.#rows.prune(before, maxTasks, PRUNE_STEP);
      });
      if (failure !== undefined) throw failure;
      pruned += step;
      if (step < PRUNE_STEP) return pruned;
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#flush();
    this.#closed = true;
    clearImmediate(this.#checkpointer);
    try {
      this.#db.close();
    } catch {
      // What was acknowledged is in the log beside the file; the next one to open it takes it over.
    } finally {
      this.#release();
    }
  }

  #refusal(): HandfastError | undefined {
    if (this.#closed) return fail('runtime_error', 'the task store is closed');
    const why = this.#failed;
    return why && fail(why.code as 'runtime_error', `the task store takes no more writes: ${why.message}`, {}, why);
  }

  #read<T>(read: () => T): T {
    if (this.#closed) throw fail('runtime_error', 'the task store is closed');
    try {
      return read();
    } catch (thrown) {
      throw storeFailure(thrown);
    }
  }

  /** Commits what waits and settles its promises. Does not throw. */
  readonly #flush = (): void => {
    clearImmediate(this.#timer);
    this.#timer = undefined;
    const batch = this.#waiting;
    if (batch.length === 0) return;
    this.#waiting = [];
    const stale = new Set<Waiting>();
    const failure = this.#transact(() => {
      stale.clear();
      for (const one of batch) if (!this.#rows.put(one.record, one.revision)) stale.add(one);
    });
    for (const one of batch) {
      if (failure !== undefined) one.reject(failure);
      else if (stale.has(one)) one.reject(this.#superseded(one.record));
      else one.resolve(one.revision + 1);
    }
  };

  #superseded({ task_id, number }: TaskRecord): HandfastError {
    return superseded(task_id, this.#rows.revisionOf(task_id) === undefined ? number : undefined);
  }

  /** One synced transaction. Returns why it could not be; then nothing of it happened. Does not throw. */
  #transact(work: () => void): HandfastError | undefined {
    try {
      this.#rows.begin.run();
      work();
      this.#rows.commit.run();
    } catch (thrown) {
      return this.#undo(thrown);
    }
    this.#logged += this.#rows.takeWritten();
    if (this.#logged > MAX_LOG_BYTES) this.#emptyLog();
    else if (this.#logged > CHECKPOINT_BYTES) this.#checkpointer ??= setImmediate(this.#emptyLog);
    return undefined;
  }

  #undo(thrown: unknown): HandfastError {
    const failure = this.#note(thrown);
    this.#rows.forgetWritten();
    try {
      if (this.#db.isTransaction) this.#rows.rollback.run();
    } catch (again) {
      this.#failed ??= storeFailure(again);
    }
    return failure;
  }

  /** Copies the log into the file, apart from the commits: who waits for one does not wait for this. */
  readonly #emptyLog = (): void => {
    clearImmediate(this.#checkpointer);
    this.#checkpointer = undefined;
    this.#logged = 0;
    try {
      this.#rows.checkpoint.get();
    } catch (thrown) {
      // What is in the log stays there; only when it was a sync that failed may nothing follow.
      this.#note(thrown);
    }
  };

  #note(thrown: unknown): HandfastError {
    const error = storeFailure(thrown);
    if (isFatal(thrown)) this.#failed ??= error;
    return error;
  }
}
