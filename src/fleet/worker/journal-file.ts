/**
 * The file of a worker's journal: locked against a second worker, checked, set aside when damaged, migrated. The one file
 * of the worker that imports `node:sqlite`; `journal.ts` works with what it opens.
 *
 * `synchronous=FULL` in WAL mode: a commit that returned is on disk.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { takeFileLock } from '../../host/file-lock.ts';
import { createPrivate, setAside } from '../../journal/sqlite-file.ts';
import { fail, HandfastError } from '../../wire/errors.ts';

export type { DatabaseSync as JournalDatabase, StatementSync as JournalStatement };

/** Marks a file as a worker's journal ("HFWJ"), so that another program's database is never taken for one. */
const APPLICATION_ID = 0x4846574a;
const BUSY_TIMEOUT_MS = 1000;

const SQLITE_CORRUPT = 11;
const SQLITE_FULL = 13;
const SQLITE_NOTADB = 26;

/** Step n takes a file from `user_version` n to n + 1. Steps are only ever added. */
const MIGRATIONS: readonly string[] = [
  `CREATE TABLE tasks (
     number INTEGER PRIMARY KEY, task_id TEXT NOT NULL, digest TEXT NOT NULL, attempt INTEGER NOT NULL,
     state INTEGER NOT NULL, outlet TEXT NOT NULL, about TEXT NOT NULL, processes TEXT NOT NULL DEFAULT '[]',
     crashes INTEGER NOT NULL DEFAULT 0, result TEXT, delivered INTEGER NOT NULL DEFAULT 0,
     accepted_at INTEGER NOT NULL, ended_at INTEGER, UNIQUE (task_id, attempt)
   ) STRICT;
   CREATE INDEX tasks_unfinished ON tasks (number) WHERE state < 2;
   CREATE INDEX tasks_undelivered ON tasks (number) WHERE state = 2 AND delivered = 0;
   CREATE TABLE small_values (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;`,
];

/** A damaged file that was moved away; an empty one took its place. */
export interface JournalDamage {
  readonly reason: string;
  readonly movedTo: string;
}

export interface OpenedJournal {
  readonly database: DatabaseSync;
  readonly damage: JournalDamage | undefined;
  /** Gives the lock back; after the database was closed. */
  readonly release: () => void;
}

/**
 * Opens `<home>/worker.db`, made 0600 in a folder made 0700. `now` is epoch milliseconds and names a damaged file.
 *
 * Fails with `journal_locked` when another worker has this home, `disk_full`, and `runtime_error` for the database of
 * another program or of a newer version, which is left untouched.
 */
export function openJournalFile(home: string, now: number): OpenedJournal {
  const file = join(home, 'worker.db');
  try {
    mkdirSync(home, { recursive: true, mode: 0o700 });
    const release = takeFileLock(`${file}.lock`);
    if (release === undefined) throw fail('journal_locked', 'another worker has this home folder open');
    try {
      createPrivate(file);
      try {
        return { database: prepare(file), damage: undefined, release };
      } catch (thrown) {
        if (workerJournalError(thrown).code !== 'journal_corrupt') throw thrown;
        const damage = { reason: (thrown as Error).message, movedTo: setAside(file, now) };
        createPrivate(file);
        return { database: prepare(file), damage, release };
      }
    } catch (thrown) {
      release();
      throw thrown;
    }
  } catch (thrown) {
    throw workerJournalError(thrown);
  }
}

function prepare(file: string): DatabaseSync {
  const database = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
  try {
    const number = (sql: string) => Object.values(database.prepare(sql).get() ?? {})[0] as number;
    const version = number('PRAGMA user_version');
    const foreign = number('PRAGMA application_id') !== APPLICATION_ID;
    if (foreign && (version !== 0 || number('SELECT count(*) FROM sqlite_schema') !== 0)) {
      throw fail('runtime_error', 'the journal of the worker is the database of another program');
    }
    if (version > MIGRATIONS.length) {
      throw fail('runtime_error', `the journal of the worker was written by a newer version (schema ${version})`);
    }
    database.exec('PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY');
    const finding = Object.values(database.prepare('PRAGMA quick_check(1)').get() ?? {})[0];
    if (finding !== 'ok') throw fail('journal_corrupt', `the journal of the worker is damaged: ${String(finding)}`);
    for (let step = version; step < MIGRATIONS.length; step += 1) {
      database.exec(`BEGIN IMMEDIATE; ${MIGRATIONS[step]}
        PRAGMA application_id=${APPLICATION_ID}; PRAGMA user_version=${step + 1}; COMMIT`);
    }
    return database;
  } catch (thrown) {
    database.close();
    throw thrown;
  }
}

/** Turns what SQLite or the file system threw into an error of the table. Messages name no path. */
export function workerJournalError(thrown: unknown): HandfastError {
  if (thrown instanceof HandfastError) return thrown;
  const { errcode, code } = (thrown ?? {}) as { errcode?: unknown; code?: unknown };
  const primary = typeof errcode === 'number' ? errcode & 0xff : 0;
  if (primary === SQLITE_FULL || code === 'ENOSPC') {
    return fail('disk_full', 'the journal of the worker could not be written: the disk is full', {}, thrown);
  }
  if (primary === SQLITE_CORRUPT || primary === SQLITE_NOTADB) {
    return fail('journal_corrupt', 'the journal of the worker is damaged', {}, thrown);
  }
  return fail('runtime_error', 'the journal of the worker failed', {}, thrown);
}
