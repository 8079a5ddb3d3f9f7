/**
 * Counts the writes of a database in the database itself and in its mark, so that a file that lost its newest ones is
 * noticed when it is opened: its log was damaged or deleted, the file was deleted, or an older copy took its place.
 *
 * It exists for databases with `onLoss`. The journal counts its entries instead.
 * @see docs/decisions/0055-each-database-knows-its-losses.md
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Mark } from './mark.ts';
import { inTransaction } from './transaction.ts';

/** One row; its page is the only cost in the log. */
const TABLE = `CREATE TABLE IF NOT EXISTS write_count (id INTEGER PRIMARY KEY CHECK (id = 1), writes INTEGER NOT NULL) STRICT;
  INSERT OR IGNORE INTO write_count VALUES (1, 0)`;

export class WriteCount {
  readonly #db: DatabaseSync;
  readonly #mark: Mark;
  readonly #put: StatementSync;
  readonly #add: StatementSync;
  readonly #read: StatementSync;
  #written: number;
  /** The number of the transaction under way. */
  #next = 0;
  #synced = 0;

  /** Adds the table to a database without one. Throws the errors of SQLite. */
  constructor(db: DatabaseSync, mark: Mark) {
    const known = db.prepare(`SELECT 1 FROM sqlite_schema WHERE name = 'write_count'`).get();
    if (known === undefined) db.exec(TABLE);
    this.#db = db;
    this.#mark = mark;
    this.#put = db.prepare('UPDATE write_count SET writes = ? WHERE id = 1 AND writes = ?');
    this.#add = db.prepare('UPDATE write_count SET writes = writes + 1 RETURNING writes');
    this.#read = db.prepare('SELECT writes FROM write_count');
    this.#written = this.#stored();
  }

  /** Number of the newest committed write. */
  get written(): number {
    return this.#written;
  }

  /** Counts a transaction; called inside of it. {@link committed} follows once it is committed. */
  add(): void {
    const next = this.#written + 1;
    // If another process has written in between, its count is read; that takes longer.
    this.#next = this.#put.run(next, this.#written).changes === 1 ? next : (this.#add.get()?.writes as number);
  }

  /**
   * Records that the transaction that was counted last is committed. With `mark` false, {@link synced} soon writes the
   * mark. Never throws.
   */
  committed(mark = true): void {
    this.#written = Math.max(this.#written, this.#next);
    if (mark) this.#mark.update({ written: this.#written });
  }

  /** Records that the writes up to this one are on disk. Never throws. */
  synced(written: number): void {
    this.#synced = Math.max(this.#synced, written);
    this.#mark.update({ written: this.#written, synced: this.#synced });
  }

  /** Does `work` in one transaction that counts. When it throws, nothing of it has happened. */
  transaction(work: () => void): void {
    inTransaction(this.#db, () => {
      work();
      this.add();
    });
    this.committed();
  }

  /** Continues above the count of the mark, so that a loss is reported once. */
  continueAfter(written: number): void {
    this.#db.prepare('UPDATE write_count SET writes = max(writes, ?)').run(written + 1);
    this.#written = this.#stored();
    this.synced(this.#written);
  }

  /**
   * Takes over the count of writes of other processes, for the mark. Must run before the database is closed. Never
   * throws.
   */
  refresh(): void {
    try {
      this.#written = this.#stored();
      this.committed();
    } catch {
      // The mark then states less.
    }
  }

  #stored(): number {
    return this.#read.get()?.writes as number;
  }
}
