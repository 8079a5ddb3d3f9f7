/**
 * The index of a ranked search: one SQLite file with the words of the workspace's files and their positions, but not their
 * text.
 *
 * It is a cache: a file that does not open is replaced, and a crash of the system may lose it. Several searches may use it
 * concurrently. @see https://www.sqlite.org/fts5.html
 */
import { rmSync } from 'node:fs';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { resultCode, SQLITE_BUSY, SQLITE_FULL, SQLITE_IOERR } from '../../../base/sqlite/failure.ts';
import { connect, createPrivate } from '../../../base/sqlite/file.ts';
import { inTransaction } from '../../../base/sqlite/transaction.ts';
import { indexed, MAX_PASSAGES, PASSAGES_VERSION, type Passage } from './passages.ts';

const PAGE_BYTES = 4_096;
/** Weight of a query word in the path of a passage, relative to one in its text. */
const PATH_WEIGHT = 2;

/** The known state of a file. */
export interface IndexedFile {
  readonly id: number;
  /** Identifies its content without reading it; compared as text. */
  readonly state: string;
  readonly kind: FileKind;
}

export type FileKind = 'text' | 'binary' | 'too_large';

/** A change of the index. */
export type IndexChange =
  | { readonly path: string; readonly state: string; readonly kind: FileKind; readonly passages: readonly Passage[] }
  | { readonly removed: string };

/** A passage that has a word of the query. */
export interface RankedPassage {
  readonly fileId: number;
  /** Number of the passage in its file, counted from 0. */
  readonly at: number;
  /** BM25: more is better. */
  readonly score: number;
}

const TABLES = `
  CREATE TABLE files(id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, state TEXT NOT NULL, kind TEXT NOT NULL) STRICT;
  CREATE VIRTUAL TABLE passages USING fts5(path, text, content='', contentless_delete=1,
    tokenize="porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'");
  PRAGMA user_version=${PASSAGES_VERSION}`;

export class PassageIndex implements Disposable {
  readonly #database: DatabaseSync;
  readonly #put: StatementSync;
  readonly #addPassage: StatementSync;
  readonly #known: StatementSync;
  readonly #remove: StatementSync;
  readonly #removePassages: StatementSync;

  private constructor(database: DatabaseSync, maxBytes: number) {
    this.#database = database;
    // The log of a transaction that a stopped thread leaves is not applied; a sync would only protect a cache.
    database.exec(`PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; PRAGMA journal_size_limit=0;
      PRAGMA max_page_count=${Math.max(1, Math.floor(maxBytes / PAGE_BYTES))}`);
    const { user_version } = database.prepare('PRAGMA user_version').get() as { user_version: number };
    if (user_version === 0) inTransaction(database, () => createTables(database));
    else if (user_version !== PASSAGES_VERSION) throw new Error(`an index of version ${user_version}`);
    this.#known = database.prepare('SELECT id, state, kind FROM files WHERE path = ?');
    this.#put = database.prepare('INSERT INTO files(path, state, kind) VALUES(?, ?, ?) RETURNING id');
    this.#addPassage = database.prepare('INSERT INTO passages(rowid, path, text) VALUES(?, ?, ?)');
    this.#remove = database.prepare('DELETE FROM files WHERE id = ?');
    this.#removePassages = database.prepare('DELETE FROM passages WHERE rowid >= ? AND rowid < ?');
  }

  /**
   * Opens the file, or creates it. A statement waits up to `waitMs` for another search that writes. If the file cannot be
   * written, the index is in memory, for this search alone.
   */
  static open(file: string, { maxBytes, waitMs }: { maxBytes: number; waitMs: number }): PassageIndex {
    const open = (place: string) => {
      const database = connect(place, waitMs);
      try {
        return new PassageIndex(database, maxBytes);
      } catch (thrown) {
        database.close();
        throw thrown;
      }
    };
    for (const isLast of [false, true]) {
      try {
        createPrivate(file);
        return open(file);
      } catch (thrown) {
        if (isLast || isOccupied(thrown)) break;
        PassageIndex.remove(file);
      }
    }
    return open(':memory:');
  }

  /** Removes a damaged file; the next search makes a new one. */
  static remove(file: string): void {
    for (const suffix of ['', '-wal', '-shm']) rmSync(file + suffix, { force: true, recursive: true });
  }

  /** Returns all files by path. */
  files(): Map<string, IndexedFile> {
    const files = new Map<string, IndexedFile>();
    const rows = this.#database.prepare('SELECT id, path, state, kind FROM files').iterate();
    for (const row of rows as Iterable<{ path: string } & IndexedFile>) {
      files.set(row.path, { id: row.id, state: row.state, kind: row.kind });
    }
    return files;
  }

  /**
   * Applies the changes; returns false if the space does not suffice for some of them, or another search writes for too long.
   */
  apply(changes: readonly IndexChange[]): boolean {
    try {
      inTransaction(this.#database, () => {
        for (const change of changes) this.#apply(change);
      });
      return true;
    } catch (thrown) {
      if (!isOccupied(thrown)) throw thrown;
      if (changes.length === 1 || (resultCode(thrown) & 0xff) === SQLITE_BUSY) return false;
      // The first half may still fit.
      const half = changes.length >> 1;
      return this.apply(changes.slice(0, half)) && this.apply(changes.slice(half));
    }
  }

  #apply(change: IndexChange): void {
    const isRemoval = 'removed' in change;
    const known = this.#known.get(isRemoval ? change.removed : change.path) as IndexedFile | undefined;
    // Another search was faster.
    if (!isRemoval && known?.state === change.state) return;
    if (known !== undefined) {
      const first = known.id * MAX_PASSAGES;
      this.#removePassages.run(first, first + MAX_PASSAGES);
      this.#remove.run(known.id);
    }
    if (isRemoval) return;
    const { path, state, kind, passages } = change;
    const { id } = this.#put.get(path, state, kind) as { id: number };
    const words = indexed(path);
    for (const [at, { text }] of passages.entries()) this.#addPassage.run(id * MAX_PASSAGES + at, words, indexed(text));
  }

  /** Yields the passages that have a word, the best first. `match` is the result of `matchOf` for a query. */
  *search(match: string): Generator<RankedPassage, void, undefined> {
    const statement = this.#database.prepare(
      `SELECT rowid AS id, bm25(passages, ${PATH_WEIGHT}, 1) AS score FROM passages WHERE passages MATCH ? ORDER BY score, rowid`,
    );
    for (const { id, score } of statement.iterate(match) as Iterable<{ id: number; score: number }>) {
      yield { fileId: Math.floor(id / MAX_PASSAGES), at: id % MAX_PASSAGES, score: -score };
    }
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }
}

/** Makes the tables, in its transaction: of two searches that open a new file, one makes them. */
function createTables(database: DatabaseSync): void {
  const { user_version } = database.prepare('PRAGMA user_version').get() as { user_version: number };
  if (user_version === 0) database.exec(TABLES);
}

/** Returns true when the disk is full, or another search writes the file: the file stays unchanged. */
function isOccupied(thrown: unknown): boolean {
  return [SQLITE_BUSY, SQLITE_FULL, SQLITE_IOERR].includes(resultCode(thrown) & 0xff);
}
