/**
 * The SQLite journal at work: group commit, reads, followers. `sqlite.ts` opens the file and hands it over.
 *
 * Everything appended in one turn of the event loop is one transaction. `node:sqlite` is synchronous, so a commit holds
 * the event loop for as long as the disk takes to sync; sharing it is what makes that cheap. Until then the entries are
 * held in memory, where `read` and `follow` find them.
 */
import { fail, type HandfastError } from '../wire/errors.ts';
import { Follower } from './follow.ts';
import type { Gap, Journal, JournalEntry, JournalSession, NewEntry, Page, Retention } from './journal.ts';
import { follows, journalClosed, outOfOrder } from './refusals.ts';
import { isFatal, journalError } from './sqlite-failure.ts';
import { type Database, encode, JournalRows, type Statement, type StoredEntry } from './sqlite-rows.ts';
import { SqliteSession } from './sqlite-session.ts';

/**
 * A batch this large is committed within the `append` that filled it. So what waits in memory is bounded, and a
 * producer in a tight loop feels the disk instead of meeting an error.
 */
export const MAX_BATCH_ENTRIES = 4096;
/** The same bound in body bytes. */
export const MAX_BATCH_BYTES = 4 * 1024 * 1024;
/** Sessions whose counters stay in memory while nobody uses them. */
const MAX_IDLE_SESSIONS = 10_000;

/** What the next commit holds. Its promise is the one every `append` of the batch returned. */
interface Batch {
  readonly committed: PromiseWithResolvers<void>;
  readonly sessions: Set<SqliteSession>;
  readonly deleted: Set<string>;
  readonly timer: NodeJS.Immediate;
  entries: number;
  bytes: number;
}

/** Needs a database that is open, checked and migrated; owns it from now on. `release` is called when it is closed. */
export class SqliteStore implements Journal {
  readonly #db: Database;
  readonly #rows: JournalRows;
  readonly #retention: Retention;
  readonly #release: () => void;
  readonly #begin: Statement;
  readonly #commit: Statement;
  readonly #rollback: Statement;
  readonly #sessions = new Map<string, SqliteSession>();
  #sweepAt = MAX_IDLE_SESSIONS;
  #batch: Batch | undefined;
  #written: number;
  #failed: HandfastError | undefined;
  #closed = false;

  constructor(db: Database, retention: Retention, release: () => void) {
    this.#db = db;
    this.#rows = new JournalRows(db);
    this.#retention = retention;
    this.#release = release;
    this.#begin = db.prepare('BEGIN IMMEDIATE');
    this.#commit = db.prepare('COMMIT');
    this.#rollback = db.prepare('ROLLBACK');
    this.#written = this.#rows.highestWritten();
  }

  /** Why nothing can be written any more, or undefined. Reads go on; only closing and opening again may help. */
  get failed(): HandfastError | undefined {
    return this.#failed;
  }

  append(session: string, entries: readonly NewEntry[]): Promise<void> {
    const refusal = this.#refusal();
    if (refusal !== undefined) return Promise.reject(refusal);
    if (entries.length === 0) return Promise.resolve();
    let held: SqliteSession | undefined;
    const stored: StoredEntry[] = [];
    let bytes = 0;
    try {
      held = this.#find(session);
      let last = held?.last ?? 0;
      for (const entry of entries) {
        if (!follows(entry.cursor, last)) throw outOfOrder(entry.cursor, last);
        last = entry.cursor;
        const encoded = encode(entry);
        bytes += encoded.text.length;
        stored.push(encoded);
      }
    } catch (thrown) {
      return Promise.reject(this.#note(thrown));
    }
    held ??= this.#keep(session);
    const batch = this.#schedule();
    batch.sessions.add(held);
    batch.entries += stored.length;
    batch.bytes += bytes;
    held.add(stored);
    if (batch.entries >= MAX_BATCH_ENTRIES || batch.bytes >= MAX_BATCH_BYTES) this.#flush();
    return batch.committed.promise;
  }

  async read(session: string, after: number, limit = 256): Promise<Page> {
    if (this.#closed) throw journalClosed();
    try {
      const held = this.#find(session);
      return held?.page(Math.max(0, after), limit, Number.POSITIVE_INFINITY) ?? { entries: [], last: 0 };
    } catch (thrown) {
      throw this.#note(thrown);
    }
  }

  follow(session: string, after: number, signal?: AbortSignal): AsyncIterable<JournalEntry | Gap> {
    const open = () => {
      if (this.#closed) throw journalClosed();
      return this.#find(session) ?? this.#keep(session);
    };
    return new Follower(open, after, signal);
  }

  async sessions(limit = 256): Promise<readonly JournalSession[]> {
    if (this.#closed) throw journalClosed();
    this.#flush();
    try {
      return this.#rows.list(Math.max(0, limit));
    } catch (thrown) {
      throw this.#note(thrown);
    }
  }

  async delete(session: string): Promise<void> {
    const refusal = this.#refusal();
    if (refusal !== undefined) throw refusal;
    let held: SqliteSession | undefined;
    try {
      held = this.#find(session);
    } catch (thrown) {
      // A damaged session must be deletable; anything else is a reason to refuse.
      const error = this.#note(thrown);
      if (error.code !== 'journal_corrupt' || this.#failed !== undefined) throw error;
      held = this.#keep(session);
    }
    if (held === undefined) return;
    this.#sessions.delete(session);
    const batch = this.#schedule();
    batch.sessions.delete(held);
    batch.deleted.add(session);
    held.end();
    return batch.committed.promise;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#flush();
    this.#closed = true;
    for (const session of this.#sessions.values()) session.end();
    this.#sessions.clear();
    try {
      this.#db.close();
    } catch {
      // What was acknowledged is in the log beside the file; the next one to open it takes it over.
    } finally {
      this.#release();
    }
  }

  #refusal(): HandfastError | undefined {
    if (this.#closed) return journalClosed();
    const why = this.#failed;
    return (
      why && fail(why.code as 'runtime_error', `the journal takes no more writes: ${why.message}`, why.detail, why)
    );
  }

  /** The session, loaded when the file has it. */
  #find(session: string): SqliteSession | undefined {
    const held = this.#sessions.get(session);
    if (held !== undefined) return held;
    // Its rows are there until the commit, but for everybody here it is gone.
    if (this.#batch?.deleted.has(session)) return undefined;
    const counters = this.#rows.find(session);
    return counters && this.#keep(session, counters);
  }

  #keep(session: string, counters?: ReturnType<JournalRows['find']>): SqliteSession {
    if (this.#sessions.size >= this.#sweepAt) {
      for (const [id, idle] of this.#sessions) if (idle.idle) this.#sessions.delete(id);
      this.#sweepAt = Math.max(MAX_IDLE_SESSIONS, this.#sessions.size * 2);
    }
    const created = new SqliteSession(session, this.#rows, this.#retention, counters);
    this.#sessions.set(session, created);
    return created;
  }

  #schedule(): Batch {
    this.#batch ??= {
      committed: Promise.withResolvers(),
      sessions: new Set(),
      deleted: new Set(),
      timer: setImmediate(() => this.#flush()),
      entries: 0,
      bytes: 0,
    };
    return this.#batch;
  }

  /** Commits what waits and settles its promise. Does not throw. */
  #flush(): void {
    const batch = this.#batch;
    if (batch === undefined) return;
    this.#batch = undefined;
    clearImmediate(batch.timer);
    try {
      this.#begin.run();
      // Before the entries: a session deleted and written to again in one batch starts anew.
      for (const session of batch.deleted) this.#rows.remove(session);
      for (const session of batch.sessions) {
        this.#written += 1;
        session.write(this.#written);
      }
      this.#commit.run();
    } catch (thrown) {
      this.#takeBack(batch, this.#note(thrown));
      return;
    }
    for (const session of batch.sessions) session.settle();
    batch.committed.resolve();
  }

  #takeBack(batch: Batch, failure: HandfastError): void {
    try {
      if (this.#db.isTransaction) this.#rollback.run();
    } catch (thrown) {
      this.#failed ??= journalError(thrown);
    }
    for (const session of batch.sessions) session.takeBack(failure);
    // Their deletion did not happen: whatever took their place here must make room for what the file still has.
    for (const id of batch.deleted) {
      this.#sessions.get(id)?.end();
      this.#sessions.delete(id);
    }
    batch.committed.reject(failure);
  }

  /** Turns what was thrown into an error of the table, and remembers it when no write may follow. */
  #note(thrown: unknown): HandfastError {
    const error = journalError(thrown);
    if (isFatal(thrown)) this.#failed ??= error;
    return error;
  }
}
