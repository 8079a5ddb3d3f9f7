/**
 * The file of a worker's journal: opens the database.
 *
 * `synchronous=FULL` in WAL mode: a commit that returned is on disk.
 */
import { join } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type Damage, openDatabase, soleOwner } from '../../base/sqlite/database.ts';
import type { DatabaseLoss } from '../../base/sqlite/losses.ts';
import type { WriteCount } from '../../base/sqlite/write-count.ts';

export type { Damage as JournalDamage, DatabaseSync as JournalDatabase, StatementSync as JournalStatement };

/** Marks a file as a worker's journal ("HFWJ"), so that the database of another program is never used. */
const APPLICATION_ID = 0x4846574a;
/** Its name in errors. */
const WHAT = 'the journal of the worker';

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
  `CREATE TABLE denials (
     number INTEGER PRIMARY KEY, task_id TEXT NOT NULL UNIQUE, attempt INTEGER NOT NULL, digest TEXT, reason TEXT,
     denied_at INTEGER NOT NULL
   ) STRICT;`,
];

export interface OpenedJournal {
  readonly database: DatabaseSync;
  /** Set when the file was damaged and moved away; an empty one replaced it. */
  readonly damage: Damage | undefined;
  /** Set when the file lost writes. */
  readonly loss: DatabaseLoss | undefined;
  /** Counts its transactions. */
  readonly count: WriteCount | undefined;
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
  let damage: Damage | undefined;
  let loss: DatabaseLoss | undefined;
  const opened = openDatabase(
    {
      file: join(home, 'worker.db'),
      what: WHAT,
      applicationId: APPLICATION_ID,
      migrations: MIGRATIONS,
      synchronous: 'FULL',
      ownCheckpoints: true,
      lock: soleOwner('another worker has this home folder open; give each worker its own'),
      onCorrupt: (found) => {
        damage = found;
      },
      onLoss: (found) => {
        loss = found;
      },
      now: () => now,
    },
    (database, release, _mark, count) => ({ database, damage, release, count }),
  );
  return { ...opened, loss };
}
