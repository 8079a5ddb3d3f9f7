/**
 * The open SQLite journal: transactions, reads, followers. `sqlite.ts` opens the file.
 *
 * All durable entries that are appended in one turn of the event loop are one transaction. `node:sqlite` is
 * synchronous, so a commit blocks the event loop until the disk has synced; sharing the commit makes that cheap.
 * Volatile entries wait longer, and their transactions do not sync (`write-behind.ts`). Until they are written, entries
 * are buffered in memory, where `read` and `follow` find them.
 */

import { isFatal, sqliteFailure } from '../../base/sqlite/failure.ts';
import type { Mark, Marked } from '../../base/sqlite/mark.ts';
import { fail, type HandfastError } from '../../wire/errors.ts';
import { Follower } from '../follow.ts';
import type {
  Durability,
  Gap,
  Journal,
  JournalEntry,
  JournalSession,
  NewEntry,
  Page,
  Retention,
  SessionRecords,
} from '../journal.ts';
import { follows, journalClosed, outOfOrder, refuse } from '../refusals.ts';
import type { Amount } from '../shares.ts';
import { textOf, unfit } from './block.ts';
import { Expiry, type ExpirySource, type SessionExpiry, type WrittenSession } from './expiry.ts';
import { lossOf } from './loss.ts';
import { OwnerShares } from './owner-shares.ts';
import { Progress, type ProgressState } from './progress.ts';
import { type Database, JournalRows, type OwnedSession } from './rows.ts';
import { type DurableEntry, RESERVED_CURSORS, SqliteSession } from './session.ts';
import type { Batch, StoreOptions } from './store-parts.ts';
import { Transactions } from './transactions.ts';
import { Writable } from './writable.ts';
import { WriteBehind } from './write-behind.ts';

/**
 * A durable batch this large is committed within the `append` that filled it. So the entries that wait in memory are
 * bounded, and a producer in a tight loop is slowed by the disk instead of getting an error.
 */
export const MAX_BATCH_ENTRIES = 4096;
/** The same bound in body bytes. */
export const MAX_BATCH_BYTES = 4 * 1024 * 1024;
/** Step of the mark's promise of cursors. It is synced each time, so a wide step makes it rare; a damage costs the numbers. */
const MARKED_CURSORS = 16 * RESERVED_CURSORS;
/** Bound on unused sessions whose counters stay in memory. */
const MAX_IDLE_SESSIONS = 10_000;

const NONE: ReadonlySet<string> = new Set();
/** Its name in errors. */
const WHAT = 'the journal file';

/** Needs a database that is open, checked and migrated; owns it from now on. `release` is called when it is closed. */
export class SqliteStore implements Journal {
  readonly #db: Database;
  readonly #rows: JournalRows;
  readonly #retention: Retention;
  readonly #retentionOf: ReadonlyMap<string, Retention>;
  readonly #release: () => void;
  readonly #transactions: Transactions;
  readonly #now: () => number;
  readonly #sessions = new Map<string, SqliteSession>();
  readonly #behind: WriteBehind;
  #sweepAt = MAX_IDLE_SESSIONS;
  #batch: Batch | undefined;
  readonly #mark: Mark | undefined;
  /** Counts appends; see `SqliteSession.written`. */
  #written: number;
  /** The newest append that a commit contains. */
  #committed: number;
  /** Cursor up to which, as the mark states, cursors may be in use. */
  #promised: number;
  /** Cursors up to here may have been used under names that a damage took: see `namesReturn`. */
  #lostTo = 0;
  #damaged: HandfastError | undefined;
  #failed: HandfastError | undefined;
  readonly #writable: Writable;
  #closed = false;
  #expiry: Expiry | undefined;
  #expires: SessionExpiry | undefined;
  readonly #owners: OwnerShares;

  /** Throws `journal_damaged` without `onDamaged`. `now` counts ms and is never set; it measures writing time and age. */
  constructor(
    db: Database,
    retention: Retention,
    release: () => void,
    now: () => number = () => performance.now(),
    { mark, onDamaged, namesReturn = false, retentionOf = {}, shares, sparing = false }: StoreOptions = {},
  ) {
    this.#db = db;
    this.#writable = new Writable(WHAT, db.location?.());
    this.#rows = new JournalRows(db, sparing);
    this.#retention = retention;
    this.#retentionOf = new Map(Object.entries(retentionOf));
    this.#release = release;
    this.#transactions = new Transactions(db, {
      log: this.#rows,
      now,
      spent: (ms) => this.#behind.spent(ms),
      failed: (what, thrown) => {
        // After a failed rollback, the content of the next commit is unknown.
        if (what === 'rollback') this.#failed ??= sqliteFailure(thrown, WHAT);
        else this.#note(thrown);
      },
    });
    this.#now = now;
    this.#behind = new WriteBehind(
      { commit: () => this.#flush(), write: (sessions) => this.#failed ?? this.#transact(false, NONE, sessions) },
      now,
    );
    const source = {
      lives: (session: OwnedSession) => (this.#expires?.retains(session.session) ?? true) || this.#isBusy(session),
      drop: (sessions: readonly string[]) => this.#drop(sessions),
      shrink: (session: string, amount: Amount) => this.#shrink(session, amount),
      failed: (thrown: unknown) => void this.#note(thrown),
    };
    this.#owners = new OwnerShares(this.#rows, source, now, shares);
    this.#mark = mark;
    this.#written = this.#rows.highestWritten();
    this.#committed = this.#written;
    const found = mark?.found;
    this.#promised = mark === undefined ? Number.POSITIVE_INFINITY : (found?.cursors ?? this.#rows.highestCursor());
    if (found !== undefined && found.written > this.#written) {
      this.#damaged = lossOf(this.#rows, found, this.#written);
      // The loss of a quarantined file has been reported.
      if (mark?.replaced !== true && onDamaged === undefined) throw this.#damaged;
      this.#continueAfter(found);
      if (mark?.replaced !== true) onDamaged?.(this.#damaged);
    }
    this.#unreserve(true);
    if (namesReturn) this.#lostTo = this.#rows.fact('lost_to');
  }

  /** Drops sessions by `rule`, from now on until the journal is closed. `wall` is epoch milliseconds. */
  expire(rule: SessionExpiry, wall: () => number): void {
    const stored = { progress: this.#rows.fact('progress'), seenAt: this.#rows.fact('seen_at') };
    const clock = new Progress(stored, rule.maxAgeMs, wall, this.#now);
    const source: ExpirySource = {
      names: (limit, after) => this.#rows.names(limit, after),
      writtenBefore: (ageMs) => this.#writtenBefore(ageMs, clock.advance()),
      busy: (session) => this.#isBusy(session),
      drop: (sessions) => this.#drop(sessions),
      failed: (thrown) => void this.#note(thrown),
    };
    this.#expires = rule;
    this.#expiry = new Expiry(source, rule);
  }

  /** Returns true while a reader or writer uses a session, or when it was written to after it was listed. */
  #isBusy({ session, written }: Pick<WrittenSession, 'session' | 'written'>): boolean {
    const record = this.#sessions.get(session);
    return record !== undefined && (!record.idle || record.written !== written);
  }

  /** Returns the newest append older than `ageMs`; stores the clock, and that all committed appends were made by now. */
  #writtenBefore(ageMs: number, { progress, seenAt }: ProgressState): number {
    if (this.#refusal() !== undefined) return 0;
    const written = this.#rows.writtenBefore(progress - ageMs);
    this.#transactions.run(() => {
      this.#rows.putFact('progress', progress);
      this.#rows.putFact('seen_at', seenAt);
      this.#rows.putAge(this.#committed, progress);
      this.#rows.trimAges(written);
    }, false);
    return written;
  }

  /**
   * The reason why no entry can be written any more, or undefined. Reads continue; only closing and opening again may
   * help.
   */
  get failed(): HandfastError | undefined {
    return this.#failed;
  }

  /** Set when the newest entries were found missing at opening. */
  get damaged(): HandfastError | undefined {
    return this.#damaged;
  }

  get unwritable(): HandfastError | undefined {
    return (
      this.#refusal() ??
      this.#writable.why(this.#behind.failure, () => {
        try {
          this.#transactions.run(() => this.#rows.putFact('tried', this.#rows.fact('tried') + 1));
          return undefined;
        } catch (thrown) {
          return this.#note(thrown);
        }
      })
    );
  }

  get volatileFailures(): number {
    return this.#behind.failures;
  }

  /** The reason why the last write of volatile entries failed; undefined once one has succeeded again. */
  get volatileFailure(): HandfastError | undefined {
    return this.#behind.failure;
  }

  append(session: string, entries: readonly NewEntry[], durability?: 'durable', owner?: string): Promise<void>;
  append(
    session: string,
    entries: readonly NewEntry[],
    durability?: Durability,
    owner?: string,
  ): Promise<void> | undefined;
  append(
    session: string,
    entries: readonly NewEntry[],
    durability?: Durability,
    owner = '',
  ): Promise<void> | undefined {
    return durability === 'volatile'
      ? this.#appendVolatile(session, entries, owner)
      : this.#appendDurable(session, entries, owner);
  }

  #appendVolatile(session: string, entries: readonly NewEntry[], owner: string): Promise<void> | undefined {
    if (this.#closed) return refuse(journalClosed(), 'volatile');
    let record = this.#sessions.get(session);
    if (record === undefined) {
      // A session that is being deleted must be removed from the file before its cursors are used again.
      if (this.#batch?.deleted.has(session)) this.#flush();
      try {
        record = this.#find(session);
      } catch (thrown) {
        return refuse(this.#note(thrown), 'volatile');
      }
    }
    let last = record === undefined ? 0 : record.last;
    for (const entry of entries) {
      const problem = follows(entry.cursor, last) ? unfit(entry) : outOfOrder(entry.cursor, last);
      if (problem !== undefined) return refuse(problem, 'volatile');
      last = entry.cursor;
    }
    if (entries.length === 0) return undefined;
    record ??= this.#load(session);
    if (owner !== '') record.ownedBy(owner);
    this.#startAfterLoss(record, entries[0]?.cursor ?? 0);
    if (last > record.reserved) this.#reserve(record, last);
    this.#written += 1;
    record.written = this.#written;
    record.addVolatile(entries);
    this.#behind.appended(record);
    return undefined;
  }

  #appendDurable(session: string, entries: readonly NewEntry[], owner: string): Promise<void> {
    const refusal = this.#refusal();
    if (refusal !== undefined) return Promise.reject(refusal);
    if (entries.length === 0) return Promise.resolve();
    let record: SqliteSession | undefined;
    const stored: DurableEntry[] = [];
    let bytes = 0;
    try {
      record = this.#find(session);
      let last = record?.last ?? 0;
      for (const entry of entries) {
        const problem = follows(entry.cursor, last) ? unfit(entry) : outOfOrder(entry.cursor, last);
        if (problem !== undefined) throw problem;
        last = entry.cursor;
        const { body } = entry;
        const text = typeof body === 'string' ? body : textOf(body);
        bytes += text.length;
        stored.push({ entry: { ...entry, body: text }, encoded: typeof body === 'string' ? 0 : 1 });
      }
    } catch (thrown) {
      return Promise.reject(this.#note(thrown));
    }
    record ??= this.#load(session);
    if (owner !== '') record.ownedBy(owner);
    this.#startAfterLoss(record, stored[0]?.entry.cursor ?? 0);
    this.#promise(stored.at(-1)?.entry.cursor ?? 0);
    const batch = this.#schedule();
    batch.sessions.add(record);
    batch.entries += stored.length;
    batch.bytes += bytes;
    this.#written += 1;
    record.written = this.#written;
    record.addDurable(stored);
    if (batch.entries >= MAX_BATCH_ENTRIES || batch.bytes >= MAX_BATCH_BYTES) this.#flush();
    return batch.committed.promise;
  }

  async read(session: string, after: number, limit = 256, maxBytes = Number.POSITIVE_INFINITY): Promise<Page> {
    if (this.#closed) throw journalClosed();
    try {
      const record = this.#find(session);
      return record?.page(Math.max(0, after), limit, maxBytes) ?? this.#unknown(Math.max(0, after));
    } catch (thrown) {
      throw this.#note(thrown);
    }
  }

  follow(session: string, after: number, signal?: AbortSignal): AsyncIterable<JournalEntry | Gap> {
    const open = () => {
      if (this.#closed) throw journalClosed();
      return this.#find(session) ?? this.#load(session);
    };
    return new Follower(open, after, signal);
  }

  async sessions(limit = 256, owner?: string): Promise<readonly JournalSession[]> {
    if (this.#closed) throw journalClosed();
    this.#flush();
    this.#behind.flush();
    try {
      return this.#rows.list(Math.max(0, limit), owner);
    } catch (thrown) {
      throw this.#note(thrown);
    }
  }

  owner(session: string): string | undefined {
    if (this.#closed) throw journalClosed();
    try {
      return this.#find(session)?.owner || undefined;
    } catch (thrown) {
      throw this.#note(thrown);
    }
  }

  release(session: string): void {
    if (this.#refusal() !== undefined) return;
    let record: SqliteSession | undefined;
    try {
      record = this.#find(session);
    } catch (thrown) {
      // A damaged session: a read of it reports that.
      return void this.#note(thrown);
    }
    if (record === undefined || record.reserved === 0) return;
    record.release();
    this.#behind.appended(record);
  }

  readonly records: SessionRecords = {
    put: (session, record) => {
      if (this.#closed) return;
      try {
        const known = this.#find(session) ?? (record === '' ? undefined : this.#load(session));
        known?.describe(record);
        // Without a row it is written with the first entries.
        if (known?.stored === true && !known.idle) this.#behind.appended(known);
      } catch (thrown) {
        this.#note(thrown);
      }
    },
    all: () => this.#rows.recorded(),
  };

  async delete(session: string): Promise<void> {
    const refusal = this.#refusal();
    if (refusal !== undefined) throw refusal;
    let record: SqliteSession | undefined;
    try {
      record = this.#find(session);
    } catch (thrown) {
      // A damaged session must be deletable; anything else is a reason to refuse.
      const error = this.#note(thrown);
      if (error.code !== 'journal_corrupt' || this.#failed !== undefined) throw error;
      record = this.#load(session);
    }
    if (record === undefined) return;
    this.#sessions.delete(session);
    const batch = this.#schedule();
    batch.sessions.delete(record);
    batch.deleted.add(session);
    this.#behind.settled(record);
    record.end();
    return batch.committed.promise;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#flush();
    // Cursors of unwritten entries stay reserved, so that these are known to be missing when the file is opened again.
    if (this.#behind.close() === undefined && this.#failed === undefined) this.#unreserve(false);
    this.#closed = true;
    this.#writable.close();
    this.#expiry?.stop();
    this.#owners.stop();
    this.#transactions.stop();
    for (const session of this.#sessions.values()) session.end();
    this.#sessions.clear();
    try {
      this.#db.close();
    } catch {
      // Acknowledged entries are in the log beside the file; the next process that opens it recovers them.
    } finally {
      this.#release();
    }
  }

  #refusal(): HandfastError | undefined {
    if (this.#closed) return journalClosed();
    const why = this.#failed;
    return (
      why && fail(why.code as 'runtime_error', `the journal accepts no more writes: ${why.message}`, why.detail, why)
    );
  }

  /** Returns the page of a session that the file does not have. */
  #unknown(after: number): Page {
    const last = this.#lostTo;
    if (after >= last) return { entries: [], last };
    return { entries: [], gap: { kind: 'gap', from: after + 1, to: last }, last };
  }

  /**
   * Starts a session whose entries a damage took, and whose writer continues above the cursors that may have been used:
   * readers get the gap.
   */
  #startAfterLoss(record: SqliteSession, first: number): void {
    if (this.#lostTo > 0 && record.last === 0 && first > this.#lostTo) record.startAfter(this.#lostTo);
  }

  /** Makes the mark state that cursors up to `cursor` may be in use, before they are. */
  #promise(cursor: number): void {
    if (cursor <= this.#promised) return;
    this.#promised = Math.min(cursor + MARKED_CURSORS, Number.MAX_SAFE_INTEGER);
    this.#mark?.update({ cursors: this.#promised }, true);
  }

  /** Drops unused sessions. Without a sync: a loss of power may undo it, then the next sweep repeats it. */
  #drop(sessions: readonly string[]): boolean {
    if (this.#refusal() !== undefined) return false;
    this.#flush();
    if (this.#transact(false, sessions, []) !== undefined) return false;
    for (const session of sessions) this.#sessions.delete(session);
    return true;
  }

  /** Evicts the oldest entries of a session, for the share of its owner. Like {@link #drop} without a sync. */
  #shrink(session: string, amount: Amount): boolean {
    if (this.#refusal() !== undefined) return false;
    this.#flush();
    const record = this.#find(session);
    if (record === undefined) return true;
    record.shrink(amount);
    return this.#transact(false, NONE, [record]) === undefined;
  }

  /** Returns the session, loaded if the file has it. */
  #find(session: string): SqliteSession | undefined {
    const record = this.#sessions.get(session);
    if (record !== undefined) return record;
    // Its rows stay until the commit, but no caller sees them any more.
    if (this.#batch?.deleted.has(session)) return undefined;
    const counters = this.#rows.find(session);
    return counters && this.#load(session, counters);
  }

  #load(session: string, counters?: ReturnType<JournalRows['find']>): SqliteSession {
    if (this.#sessions.size >= this.#sweepAt) {
      for (const [id, idle] of this.#sessions) if (idle.idle) this.#sessions.delete(id);
      this.#sweepAt = Math.max(MAX_IDLE_SESSIONS, this.#sessions.size * 2);
    }
    const created = new SqliteSession(session, this.#rows, this.#retentionOf.get(session) ?? this.#retention, counters);
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

  /** Commits the durable batch and settles its promise. Does not throw. */
  #flush(): void {
    const batch = this.#batch;
    if (batch === undefined) return;
    this.#batch = undefined;
    clearImmediate(batch.timer);
    const failure = this.#transact(true, batch.deleted, batch.sessions);
    if (failure === undefined) return batch.committed.resolve();
    // Their deletion did not happen: sessions created in their place must yield to the ones in the file.
    for (const id of batch.deleted) {
      const record = this.#sessions.get(id);
      if (record === undefined) continue;
      this.#behind.lost(record.waitingEntries);
      this.#behind.settled(record);
      record.end();
      this.#sessions.delete(id);
    }
    batch.committed.reject(failure);
  }

  /**
   * Deletes and writes in one transaction, synced or not. Returns why it could not; then nothing of it happened, and the
   * sessions have rolled back durable entries. Does not throw.
   */
  #transact(synced: boolean, deleted: Iterable<string>, sessions: Iterable<SqliteSession>): HandfastError | undefined {
    let written = 0;
    try {
      this.#transactions.run(() => {
        // Before the entries: a session deleted and written to again in one batch starts empty.
        for (const session of deleted) {
          this.#owners.remove(session);
          this.#rows.remove(session);
          written = this.#written + 1;
        }
        if (written > 0) {
          this.#rows.putFact('written', written);
          this.#written = written;
        }
        for (const session of sessions) {
          session.write();
          if (session.owner !== '') this.#owners.change(session.owner, session.growth);
          written = Math.max(written, session.written);
        }
        this.#owners.write();
      }, synced);
    } catch (thrown) {
      const failure = this.#note(thrown);
      this.#writable.failed(failure, synced, this.#failed !== undefined);
      this.#owners.settle(false);
      for (const session of sessions) session.rollBack(failure);
      return failure;
    }
    if (this.#failed === undefined) this.#writable.works(synced);
    this.#committed = Math.max(this.#committed, written);
    this.#mark?.update(synced ? { written: this.#committed, synced: this.#committed } : { written: this.#committed });
    for (const session of sessions) {
      this.#behind.settled(session);
      this.#behind.lost(session.settle());
      // One object less for each task that has ended; it can be loaded again.
      if (session.released && session.idle) this.#sessions.delete(session.id);
    }
    this.#owners.settle(true);
    this.#transactions.trimLog();
    return undefined;
  }

  /** Makes sure that the cursor of a volatile entry is not used again should its entry be lost. */
  #reserve(record: SqliteSession, cursor: number): void {
    record.reserve(cursor);
    this.#promise(record.reserved);
    // On a failing disk the reservation waits with the entries.
    if (!record.stored || this.#failed !== undefined || this.#behind.failure !== undefined) return;
    this.#flush();
    this.#transact(true, NONE, [record]);
  }

  /**
   * Handles lost writes: the remaining sessions continue after every cursor that may have been used, and their missing
   * entries are a gap. The writes count as made, so that they are reported once.
   */
  #continueAfter({ written, cursors }: Marked): void {
    this.#written = written + 1;
    this.#transactions.run(() => {
      for (const { session } of this.#rows.names(this.#rows.count())) this.#rows.unreserve(session, true, cursors);
      this.#rows.putFact('lost_to', cursors);
      this.#rows.putFact('written', this.#written);
    });
    this.#committed = this.#written;
    this.#mark?.update({ written: this.#written, synced: this.#written }, true);
  }

  /**
   * Ends all reservations in the file: when it is closed, none is needed any more; when it is opened, they are of a
   * process that did not close it, and the entries they covered are `lost`.
   */
  #unreserve(lost: boolean): void {
    const sessions = this.#rows.reserved();
    if (sessions.length === 0) return;
    try {
      this.#transactions.run(() => {
        for (const session of sessions) this.#rows.unreserve(session, lost);
      });
    } catch (thrown) {
      if (lost) throw thrown;
    }
  }

  /** Turns a thrown error into an error of the table, and stores it when no write may follow. */
  #note(thrown: unknown): HandfastError {
    const error = sqliteFailure(thrown, WHAT, this.#db.location?.());
    if (isFatal(thrown)) {
      this.#failed ??= error;
      this.#writable.failed(error, true, true);
    }
    return error;
  }
}
