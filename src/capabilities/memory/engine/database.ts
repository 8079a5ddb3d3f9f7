/**
 * The database of one principal's memories, and the one of the shared spaces: tables, opening, the parts that entries belong
 * to. Several processes may have it open.
 *
 * `writes.ts` and `reads.ts` contain every rule about entries.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type Damage, openDatabase } from '../../../base/sqlite/database.ts';
import { GroupCommit, type Write } from '../../../base/sqlite/group-commit.ts';
import type { DatabaseLoss } from '../../../base/sqlite/losses.ts';
import type { WriteCount } from '../../../base/sqlite/write-count.ts';
import { HandfastError } from '../../../wire/errors.ts';
import { Counters, holdsSql, NEVER, type Times } from './counters.ts';
import { refreshIndex } from './index-loading.ts';
import { Packs } from './packs.ts';
import type { SignatureIndex } from './signatures.ts';

const APPLICATION_ID = 0x48464d45;

/** Returns the time in epoch seconds. */
export const seconds = (): number => Date.now() / 1000;

/**
 * An entry is a row for each of its versions; ids only grow. `starts` and `ends` bound the time when a version holds:
 * `valid_from` and `valid_until` as stored, cut by the versions around it. The two full-text tables hold no text themselves.
 */
const MIGRATIONS = [
  `CREATE TABLE memory (
     id TEXT NOT NULL PRIMARY KEY, agent TEXT NOT NULL, namespace TEXT NOT NULL, scope TEXT NOT NULL, name TEXT NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE part (
     part INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, used_at REAL NOT NULL,
     entries INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0
   ) STRICT;
   CREATE TABLE entry (
     id INTEGER PRIMARY KEY AUTOINCREMENT, part INTEGER NOT NULL, key TEXT NOT NULL, content TEXT NOT NULL,
     text TEXT NOT NULL, tags TEXT NOT NULL, source TEXT NOT NULL, score REAL NOT NULL, ttl INTEGER NOT NULL,
     created_at REAL NOT NULL, updated_at REAL NOT NULL, stored_at REAL NOT NULL, valid_until REAL NOT NULL,
     starts REAL NOT NULL, ends REAL NOT NULL, expires REAL NOT NULL, importance REAL NOT NULL,
     metadata TEXT, provenance TEXT, supersedes TEXT, bytes INTEGER NOT NULL, sum INTEGER NOT NULL
   ) STRICT;
   CREATE INDEX entry_key ON entry (part, key);
   CREATE INDEX entry_part ON entry (part, id, starts, ends, expires);
   CREATE INDEX entry_source ON entry (part, source) WHERE source <> '';
   CREATE INDEX entry_stored ON entry (part, stored_at);
   CREATE INDEX entry_expires ON entry (expires) WHERE expires < ${NEVER};
   CREATE TABLE tag (part INTEGER NOT NULL, tag TEXT NOT NULL, entry INTEGER NOT NULL, PRIMARY KEY (part, tag, entry)) STRICT, WITHOUT ROWID;
   CREATE TABLE successor (part INTEGER NOT NULL, key TEXT NOT NULL, by TEXT NOT NULL, PRIMARY KEY (part, key, by)) STRICT, WITHOUT ROWID;
   CREATE INDEX successor_by ON successor (part, by);
   CREATE TABLE embedder (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
   CREATE TABLE vector (entry INTEGER PRIMARY KEY, embedder INTEGER NOT NULL, numbers BLOB NOT NULL) STRICT;
   CREATE TABLE signature (entry INTEGER PRIMARY KEY, embedder INTEGER NOT NULL, bits BLOB NOT NULL) STRICT;
   CREATE VIRTUAL TABLE words USING fts5(
     text, content='', tokenize="unicode61 remove_diacritics 0 categories 'L* M* N* P* S* Co Cf'");
   CREATE VIRTUAL TABLE grams USING fts5(text, content='', detail=none, columnsize=0, tokenize='trigram case_sensitive 1');
   CREATE VIRTUAL TABLE word_rows USING fts5vocab(words, row);
   INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
   INSERT INTO grams (grams, rank) VALUES ('secure-delete', 1);`,
  // Vectors and signatures have a new form; they are computed again in the background.
  `CREATE VIRTUAL TABLE word_hits USING fts5vocab(words, instance);
   DELETE FROM vector;
   DELETE FROM signature;`,
  // The index of searches in packs, which later writes fill; and counters, so that lists and amounts need not count rows.
  `CREATE TABLE pack (
     first INTEGER PRIMARY KEY, last INTEGER NOT NULL, changed INTEGER NOT NULL, sum INTEGER NOT NULL, data BLOB NOT NULL
   ) STRICT;
   CREATE INDEX pack_changed ON pack (changed);
   ALTER TABLE part ADD COLUMN counted_at REAL NOT NULL DEFAULT 0;
   ALTER TABLE part ADD COLUMN holding INTEGER NOT NULL DEFAULT 0;
   UPDATE part SET counted_at = unixepoch();
   UPDATE part SET holding = (SELECT count(*) FROM entry WHERE entry.part = part.part AND ${holdsSql('entry', 'counted_at')});
   CREATE TABLE amount (tier TEXT PRIMARY KEY, entries INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
   INSERT INTO amount SELECT column1, (SELECT coalesce(sum(entries), 0) FROM part WHERE substr(name, 1, 1) = column1),
     (SELECT coalesce(sum(bytes), 0) FROM part WHERE substr(name, 1, 1) = column1) FROM (VALUES ('w'), ('e'), ('s'), ('x'), ('l'));
   ALTER TABLE embedder ADD COLUMN vectors INTEGER NOT NULL DEFAULT 0;
   UPDATE embedder SET vectors = (SELECT count(*) FROM vector WHERE vector.embedder = embedder.id);
   CREATE INDEX entry_ends ON entry (part, ends) WHERE ends < ${NEVER};
   CREATE INDEX entry_future ON entry (part, starts) WHERE starts > stored_at;
   CREATE INDEX entry_below ON entry (part, score) WHERE score < 0;`,
  // Entries up to this id have their text in an older form; they get the form of `words.ts` in the background.
  `CREATE TABLE unfolded (upto INTEGER NOT NULL) STRICT;
   INSERT INTO unfolded SELECT coalesce(max(id), 0) FROM entry;`,
];

/** Maximum time that a write waits for another process that writes. */
const BUSY_MS = 10_000;

/** Size of SQLite's page cache: 32 MiB. A search reads some 400 vectors, each on a separate page. */
const CACHE_KIB = 32_768;

/** Precision of the last use of a part, in seconds. The time matters after days. */
const USED_S = 60;

export interface MemoryDatabaseOptions {
  readonly file: string;
  /** Called when the file was damaged and is replaced. */
  readonly onCorrupt: (damage: Damage) => void;
  /** Path of the quarantined file that this one replaces. */
  readonly movedTo?: string | undefined;
  /** Called when the file lost writes. */
  readonly onLoss: (loss: DatabaseLoss) => void;
}

export class MemoryDatabase {
  readonly db: DatabaseSync;
  readonly commits: GroupCommit;
  /** The index for searches by vectors; undefined until the first search. */
  index: SignatureIndex | undefined;
  /** Number of the embedder whose signatures the index has. */
  embedder = 0;
  /** Number of commits of other connections that the index has seen. */
  version = -1;
  /** Number of the newest change of a pack that the index has. */
  changes = 0;
  readonly packs = new Packs((text) => this.sql(text));
  readonly counters = new Counters((text) => this.sql(text));
  /** Entries up to this id have the vectors of the embedder, as far as this process has seen. */
  embeddedTo = 0;
  /** Time of its last use, monotonic milliseconds. */
  usedAt = 0;
  /** Time of the last use of a part before this process opened the file, epoch milliseconds; 0: never. */
  readonly newestBefore: number;
  /** Frequencies of words, with the number of entries at the time of the count. */
  readonly frequencies = new Map<string, { rows: number; of: number }>();
  readonly #release: () => void;
  readonly #statements = new Map<string, StatementSync>();
  #closed = false;

  private constructor(db: DatabaseSync, release: () => void, count: WriteCount | undefined) {
    this.db = db;
    this.#release = release;
    const { at } = db.prepare('SELECT max(used_at) AS at FROM part').get() as { at: number | null };
    this.newestBefore = (at ?? 0) * 1000;
    this.commits = new GroupCommit({
      db,
      what: 'the memory',
      count,
      // The index must drop the changes of the undone transaction.
      undone: () => {
        this.index = undefined;
        this.packs.undo();
        this.counters.undo();
      },
    });
  }

  static open({ file, onCorrupt, onLoss, movedTo }: MemoryDatabaseOptions): MemoryDatabase {
    return openDatabase(
      {
        file,
        what: 'the memory',
        applicationId: APPLICATION_ID,
        migrations: MIGRATIONS,
        synchronous: 'FULL',
        ownCheckpoints: true,
        onCorrupt,
        onLoss,
        movedTo,
      },
      (db, release, _mark, count) => {
        db.exec(`PRAGMA busy_timeout=${BUSY_MS}; PRAGMA secure_delete=ON; PRAGMA cache_size=-${CACHE_KIB}`);
        // Reads every table once, so that a damaged definition is found here.
        for (const table of [
          'memory',
          'part',
          'entry',
          'tag',
          'successor',
          'embedder',
          'vector',
          'signature',
          'pack',
          'unfolded',
        ]) {
          db.prepare(`SELECT * FROM ${table} LIMIT 1`).get();
        }
        db.prepare(`SELECT rowid FROM words WHERE words MATCH '"a"' LIMIT 1`).get();
        db.prepare(`SELECT rowid FROM grams WHERE grams MATCH '"aaa"' LIMIT 1`).get();
        return new MemoryDatabase(db, release, count);
      },
    );
  }

  /** Returns a statement, prepared once. */
  sql(text: string): StatementSync {
    let statement = this.#statements.get(text);
    if (statement === undefined) {
      statement = this.db.prepare(text);
      this.#statements.set(text, statement);
    }
    return statement;
  }

  /**
   * Does a write in the next transaction; resolves with its result when it is on disk. `work` must not throw: that would undo
   * the writes of others in the transaction. `bytes` is the approximate size of the write.
   */
  async write<Result>(work: () => Result, bytes = 0): Promise<Result> {
    let made: { readonly value: Result } | undefined;
    const write: Write = () => {
      refreshIndex(this);
      made = { value: work() };
      this.counters.write();
      this.changes = this.packs.write() ?? this.changes;
      return bytes;
    };
    for (let attempt = 1; ; attempt += 1) {
      try {
        await this.commits.write(write);
        return (made as { readonly value: Result }).value;
      } catch (thrown) {
        // Another process held the file for as long as a write waits; its turn ends.
        if (attempt === MAX_ATTEMPTS || !(thrown instanceof HandfastError) || thrown.code !== 'journal_locked')
          throw thrown;
      }
    }
  }

  /** Sets the end of the validity of a stored entry. Inside a write, like the following methods. */
  end(id: number, ends: number): void {
    const { part, ...times } = this.sql('SELECT part, starts, ends, expires, stored_at FROM entry WHERE id = ?').get(
      id,
    ) as unknown as Times & { part: number };
    this.sql('UPDATE entry SET ends = ? WHERE id = ?').run(ends, id);
    this.counters.move(part, times, { ...times, ends });
    this.index?.end(id, ends);
    this.packs.end(id, ends);
  }

  /** Sets the expiry of an entry in the index. */
  expire(id: number, expires: number): void {
    this.index?.expire(id, expires);
    this.packs.expire(id, expires);
  }

  /** Makes the full-text index write its changes now, so that their cost counts before the commit. */
  settle(): void {
    this.db.exec('SAVEPOINT settled; RELEASE settled');
  }

  /** Sets the signature of an entry in the index. */
  sign(id: number, embedder: number, signature: Uint32Array): void {
    if (this.embedder === embedder) this.index?.sign(id, signature);
    this.packs.sign(id, embedder, signature);
  }

  /** Removes a deleted entry from the index. */
  remove(id: number): void {
    this.index?.remove(id);
    this.packs.remove(id);
  }

  /** Returns the number of a part; undefined when nothing was ever stored in it. */
  part(name: string): number | undefined {
    return (this.sql('SELECT part FROM part WHERE name = ?').get(name) as { part: number } | undefined)?.part;
  }

  /** Returns the number of a part, and makes the part if it does not exist. Inside a write. */
  makePart(name: string): number {
    const now = seconds();
    const known = this.sql('SELECT part, used_at FROM part WHERE name = ?').get(name) as
      | { part: number; used_at: number }
      | undefined;
    if (known === undefined) {
      return Number(
        this.sql('INSERT INTO part (name, used_at, counted_at) VALUES (?, ?, ?)').run(name, now, now).lastInsertRowid,
      );
    }
    if (now - known.used_at > USED_S) this.sql('UPDATE part SET used_at = ? WHERE part = ?').run(now, known.part);
    return known.part;
  }

  /** Returns entries and bytes of all parts of the file, or of one tier, by its first letter. */
  usage(tier?: string): { entries: number; bytes: number } {
    const row = (
      tier === undefined
        ? this.sql('SELECT sum(entries) AS entries, sum(bytes) AS bytes FROM amount').get()
        : this.sql('SELECT entries, bytes FROM amount WHERE tier = ?').get(tier)
    ) as { entries: number; bytes: number };
    return { entries: row.entries, bytes: row.bytes };
  }

  /**
   * Copies the log into the file and empties it, so that neither contains deleted data. Returns false when another process is
   * reading the log.
   */
  erase(): boolean {
    this.commits.flush();
    const { busy } = this.db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get() as { busy: number };
    return busy === 0;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.commits.close();
    this.db.close();
    this.#release();
  }

  /** Closes the damaged file without writing to it. */
  abandon(): void {
    if (this.#closed) return;
    this.#closed = true;
    try {
      this.commits.close();
      this.db.close();
    } catch {
      // Failures do not matter: the connection is not used again.
    } finally {
      this.#release();
    }
  }
}

const MAX_ATTEMPTS = 5;
