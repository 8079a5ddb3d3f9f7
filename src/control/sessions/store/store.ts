/**
 * The file beside the journal: the catalogue of sessions, their snapshots, the saved chats, and the counter of
 * message ids.
 *
 * What it knows of sessions is derived: the journal is the truth, and a catalogue that is behind it is brought up by
 * `recovery.ts`. So its commits do not wait for the disk, but for message ids, which only it has. One
 * process per file: its opener holds the lock of the journal in the same directory.
 */
import type { DatabaseSync } from 'node:sqlite';
import { type Damage, openDatabase } from '../../../base/sqlite/database.ts';
import { sqliteFailure } from '../../../base/sqlite/failure.ts';
import type { DatabaseLoss } from '../../../base/sqlite/losses.ts';
import type { WriteCount } from '../../../base/sqlite/write-count.ts';
import type { HandfastError } from '../../../wire/errors.ts';
import { Catalogue } from './store-catalogue.ts';
import { SavedChats } from './store-chats.ts';
import { MessageIds } from './store-message-ids.ts';

/** Marks a file as ours ("HFSE"), so that another program's database is never taken for one. */
const APPLICATION_ID = 0x48465345;
/** What errors call it. */
const WHAT = 'the session store';

/** Step n takes a file from `user_version` n to n + 1. Steps are only ever added. */
const MIGRATIONS: readonly string[] = [
  `CREATE TABLE sessions (
     key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, title TEXT NOT NULL, cwd TEXT NOT NULL,
     backend TEXT NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL, messages INTEGER NOT NULL,
     pending INTEGER NOT NULL, closed INTEGER NOT NULL, queued INTEGER NOT NULL, approvals INTEGER NOT NULL,
     parent TEXT, seq INTEGER NOT NULL, cursor INTEGER NOT NULL, deleted INTEGER NOT NULL DEFAULT 0, head TEXT
   ) STRICT;
   CREATE INDEX sessions_by_update ON sessions (updated, id);
   CREATE TABLE lists (
     session INTEGER NOT NULL, list TEXT NOT NULL, number INTEGER NOT NULL, items TEXT NOT NULL,
     PRIMARY KEY (session, list, number)
   ) STRICT;
   CREATE TABLE chats (
     key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, title TEXT NOT NULL, provider TEXT,
     model TEXT NOT NULL, thinking TEXT NOT NULL, routing TEXT, created INTEGER NOT NULL, updated INTEGER NOT NULL,
     revision INTEGER NOT NULL, messages INTEGER NOT NULL, length INTEGER NOT NULL, origin TEXT NOT NULL
   ) STRICT;
   CREATE INDEX chats_by_revision ON chats (revision);
   CREATE TABLE chat_turns (
     chat INTEGER NOT NULL, position INTEGER NOT NULL, turn TEXT NOT NULL, messages INTEGER NOT NULL,
     items TEXT NOT NULL, PRIMARY KEY (chat, position)
   ) STRICT;
   CREATE TABLE small_values (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;`,
  'ALTER TABLE sessions ADD COLUMN subagent TEXT;',
];

export interface SessionStoreOptions {
  /** Path of the database, or `:memory:`. The file is made 0600, directories that do not exist yet 0700. */
  readonly file: string;
  /**
   * With it, a damaged file is moved aside, this is called, and an empty one takes its place: sessions come back out of the
   * journal, saved chats do not. Without it, opening fails with `journal_corrupt` and the file stays where it is.
   */
  readonly onCorrupt?: (damage: Damage) => void;
  /** Called at opening when it lost saved chats, or message ids. */
  readonly onLoss?: (loss: DatabaseLoss) => void;
  /** Epoch milliseconds. */
  readonly now?: () => number;
}

/** What is stored beside the journal. */
export interface SessionStore {
  readonly catalogue: Catalogue;
  readonly chats: SavedChats;
  readonly messageIds: MessageIds;
  /** Gives the file back. Closing twice is fine. */
  close(): void;
}

/**
 * Opens or creates the store. Fails with `journal_corrupt`, `disk_full`, or `runtime_error` when the file is another
 * program's or was written by a newer version; then it is left untouched.
 */
export function openSessionStore(options: SessionStoreOptions): SessionStore {
  return openDatabase(
    {
      ...options,
      what: WHAT,
      applicationId: APPLICATION_ID,
      migrations: MIGRATIONS,
      synchronous: 'NORMAL',
    },
    (db, release, _mark, count) => assemble(db, release, count),
  );
}

/** Turns what the store threw while it was in use into an error of the table; the original is its `cause`. */
export const storeFailure = (thrown: unknown): HandfastError => sqliteFailure(thrown, WHAT);

/** What only this file has is counted: the catalogue comes back out of the journal. */
function assemble(db: DatabaseSync, release: () => void, count: WriteCount | undefined): SessionStore {
  let open = true;
  const messageIds = new MessageIds(db, count);
  return {
    catalogue: new Catalogue(db),
    chats: new SavedChats(db, count),
    messageIds,
    close() {
      if (!open) return;
      open = false;
      messageIds.close();
      db.close();
      release();
    },
  };
}
