/**
 * The file beside the journal: the catalogue of sessions, their snapshots, the saved chats, and the counter of
 * message ids.
 *
 * Its data about sessions is derived: the journal is the truth, and a catalogue that is behind it is brought up by
 * `recovery.ts`. So its commits do not wait for the disk, except for message ids, which only it has. One process per file: its
 * opener holds the lock of the journal in the same directory.
 */
import { dirname, resolve } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { type Damage, openDatabase } from '../../../base/sqlite/database.ts';
import { type DatabaseLoss, recordedLoss, recordLoss } from '../../../base/sqlite/losses.ts';
import { StoreWrites } from '../../../base/sqlite/store-writes.ts';
import type { WriteCount } from '../../../base/sqlite/write-count.ts';
import { Catalogue } from './store-catalogue.ts';
import { SavedChats } from './store-chats.ts';
import { type LostImage, StoredImages } from './store-images.ts';
import { MessageIds } from './store-message-ids.ts';

/** Marks a file as a store of sessions ("HFSE"), so that another program's database is never taken for one. */
const APPLICATION_ID = 0x48465345;
/** The folder of images beside the file. */
const IMAGES = 'session-images';
/** Their name in reports of their loss. */
const IMAGES_WHAT = 'the images of conversations';

/** Step n takes a file from `user_version` n to n + 1. Steps are only ever added. */
/** Its name in errors. */
const STORE = 'the session store';
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
  // A list reads rows in order, and none of their snapshots: the cost of a page depends on its rows, not on the number of
  // sessions.
  `CREATE TABLE heads (session INTEGER PRIMARY KEY, head TEXT NOT NULL) STRICT;
   INSERT INTO heads SELECT key, head FROM sessions WHERE head IS NOT NULL;
   ALTER TABLE sessions DROP COLUMN head;
   DROP INDEX sessions_by_update;
   CREATE INDEX sessions_listed ON sessions (closed, updated, id, title) WHERE deleted = 0;
   CREATE INDEX sessions_listed_by_owner ON sessions (owner, closed, updated, id, title) WHERE deleted = 0;
   CREATE INDEX sessions_listed_by_cwd ON sessions (cwd, closed, updated, id) WHERE deleted = 0;
   CREATE TABLE session_counts (
     owner TEXT NOT NULL, cwd TEXT NOT NULL, closed INTEGER NOT NULL, sessions INTEGER NOT NULL,
     PRIMARY KEY (owner, cwd, closed)
   ) STRICT, WITHOUT ROWID;
   CREATE TRIGGER session_counted AFTER INSERT ON sessions WHEN new.deleted = 0 BEGIN
     INSERT INTO session_counts VALUES (new.owner, new.cwd, new.closed, 1), (new.owner, '', new.closed, 1),
       ('', new.cwd, new.closed, 1), ('', '', new.closed, 1)
     ON CONFLICT DO UPDATE SET sessions = sessions + 1;
   END;
   CREATE TRIGGER session_uncounted AFTER DELETE ON sessions WHEN old.deleted = 0 BEGIN
     UPDATE session_counts SET sessions = sessions - 1
       WHERE owner IN (old.owner, '') AND cwd IN (old.cwd, '') AND closed = old.closed;
     DELETE FROM session_counts
       WHERE owner IN (old.owner, '') AND cwd IN (old.cwd, '') AND closed = old.closed AND sessions = 0;
   END;
   CREATE TRIGGER session_recounted AFTER UPDATE OF owner, cwd, closed, deleted ON sessions
   WHEN (old.owner, old.cwd, old.closed, old.deleted) IS NOT (new.owner, new.cwd, new.closed, new.deleted) BEGIN
     UPDATE session_counts SET sessions = sessions - 1
       WHERE old.deleted = 0 AND owner IN (old.owner, '') AND cwd IN (old.cwd, '') AND closed = old.closed;
     DELETE FROM session_counts
       WHERE owner IN (old.owner, '') AND cwd IN (old.cwd, '') AND closed = old.closed AND sessions = 0;
     INSERT INTO session_counts
       SELECT owner, cwd, new.closed, 1 FROM (SELECT new.owner AS owner UNION ALL SELECT ''),
         (SELECT new.cwd AS cwd UNION ALL SELECT '') WHERE new.deleted = 0
     ON CONFLICT DO UPDATE SET sessions = sessions + 1;
   END;
   INSERT INTO session_counts
     SELECT o, c, closed, count(*) FROM (
       SELECT owner AS o, cwd AS c, closed FROM sessions WHERE deleted = 0
       UNION ALL SELECT owner, '', closed FROM sessions WHERE deleted = 0
       UNION ALL SELECT '', cwd, closed FROM sessions WHERE deleted = 0
       UNION ALL SELECT '', '', closed FROM sessions WHERE deleted = 0
     ) GROUP BY o, c, closed;
   CREATE INDEX chats_by_owner ON chats (owner, revision);
   CREATE TABLE chat_counts (owner TEXT NOT NULL PRIMARY KEY, chats INTEGER NOT NULL) STRICT, WITHOUT ROWID;
   CREATE TRIGGER chat_counted AFTER INSERT ON chats BEGIN
     INSERT INTO chat_counts VALUES (new.owner, 1), ('', 1) ON CONFLICT DO UPDATE SET chats = chats + 1;
   END;
   CREATE TRIGGER chat_uncounted AFTER DELETE ON chats BEGIN
     UPDATE chat_counts SET chats = chats - 1 WHERE owner IN (old.owner, '');
   END;
   INSERT INTO chat_counts SELECT owner, count(*) FROM chats GROUP BY owner UNION ALL SELECT '', count(*) FROM chats;`,
  // The position of each chunk stands before its text, so that a list is opened at its end.
  `CREATE TABLE chunks (
     session INTEGER NOT NULL, list TEXT NOT NULL, number INTEGER NOT NULL, first INTEGER NOT NULL,
     count INTEGER NOT NULL, before INTEGER NOT NULL, size INTEGER NOT NULL, mark INTEGER NOT NULL, items TEXT NOT NULL,
     PRIMARY KEY (session, list, number)
   ) STRICT;
   INSERT INTO chunks
     SELECT session, list, number, coalesce(sum(count) OVER earlier, 0), count, coalesce(sum(size) OVER earlier, 0), size, 0,
       items
     FROM (SELECT *, json_array_length(items) AS count, length(items) AS size FROM lists)
     WINDOW earlier AS (
       PARTITION BY session, list ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
     );
   DROP TABLE lists;
   ALTER TABLE chunks ADD COLUMN packed BLOB;
   ALTER TABLE chat_turns ADD COLUMN packed BLOB;
   ALTER TABLE chat_turns ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
   UPDATE chat_turns SET bytes = octet_length(items);`,
];

export interface SessionStoreOptions {
  /** Path of the database, or `:memory:`. The file is made 0600, directories that do not exist yet 0700. */
  readonly file: string;
  /**
   * With it, a damaged file is quarantined, this is called, and an empty one takes its place: sessions come back out of the
   * journal, saved chats do not. Without it, opening fails with `journal_corrupt` and the file stays where it is.
   */
  readonly onCorrupt?: (damage: Damage) => void;
  /** Called at opening when it lost saved chats, or message ids, and with the first image that is found missing or damaged. */
  readonly onLoss?: (loss: DatabaseLoss) => void;
  /** Called when an image that is read is missing or damaged. */
  readonly onLostImage?: (lost: LostImage) => void;
  /** Epoch milliseconds. */
  readonly now?: () => number;
}

/** The stores beside the journal. */
export interface SessionStore {
  readonly catalogue: Catalogue;
  readonly chats: SavedChats;
  readonly messageIds: MessageIds;
  readonly images: StoredImages;
  /** Gives the file back. Closing twice is fine. */
  close(): void;
}

/**
 * Opens or creates the store. Fails with `journal_corrupt`, `disk_full`, or `runtime_error` when the file belongs to another
 * program or to a newer version; then it is left untouched.
 */
export function openSessionStore(options: SessionStoreOptions): SessionStore {
  return openDatabase(
    {
      ...options,
      what: STORE,
      applicationId: APPLICATION_ID,
      migrations: MIGRATIONS,
      synchronous: 'NORMAL',
      pageBytes: 1024,
    },
    (db, release, _mark, count) => assemble(db, options, release, count),
  );
}

/** Returns the store of images. A database in memory has its images itself. */
function imagesOf({
  file,
  onLoss = () => {},
  onLostImage = () => {},
  now = Date.now,
}: SessionStoreOptions): StoredImages {
  if (file === ':memory:') return new StoredImages(undefined, onLostImage);
  const folder = resolve(dirname(file), IMAGES);
  const earlier = recordedLoss(folder);
  if (earlier !== undefined) onLoss(earlier);
  return new StoredImages(folder, (lost) => {
    onLostImage(lost);
    if (recordedLoss(folder) !== undefined) return;
    const found_at = new Date(now()).toISOString();
    const loss = { what: IMAGES_WHAT, file: folder, parts: true, ends_at: 0, of: 0, acknowledged: true, found_at };
    recordLoss(loss);
    onLoss(loss);
  });
}

/** Writes of data that only this file has are counted: the catalogue is rebuilt from the journal. */
function assemble(
  db: DatabaseSync,
  options: SessionStoreOptions,
  release: () => void,
  count: WriteCount | undefined,
): SessionStore {
  let open = true;
  const images = imagesOf(options);
  const writes = new StoreWrites(STORE, options.file);
  const messageIds = new MessageIds(db, writes, count);
  return {
    catalogue: new Catalogue(db, images, writes),
    chats: new SavedChats(db, images, writes, count),
    messageIds,
    images,
    close() {
      if (!open) return;
      open = false;
      messageIds.close();
      writes.close();
      db.close();
      release();
    },
  };
}
