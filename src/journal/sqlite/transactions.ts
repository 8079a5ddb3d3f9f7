/**
 * Transactions of the SQLite journal, synced or not, and the emptying of SQLite's log. `store.ts` decides their
 * content.
 */
import type { Database, Statement } from './rows.ts';

/** Bytes of SQLite's log at which it is copied into the file: some milliseconds of the event loop, in a separate turn. */
const CHECKPOINT_BYTES = 2 * 1024 * 1024;
/** Size up to which the log grows if no turn ends, as in a loop that only appends. */
const MAX_LOG_BYTES = 4 * CHECKPOINT_BYTES;

/** Members of the store that transactions use. */
export interface TransactionDeps {
  /** Approximate bytes in SQLite's log; set to 0 when it was copied into the file. */
  readonly log: { logged: number };
  /** Called when a rollback or the copying of the log failed. */
  failed(what: 'rollback' | 'checkpoint', thrown: unknown): void;
  /** Called with the time for which writing held the event loop. */
  spent(ms: number): void;
  /** Returns milliseconds of a clock that is never set. */
  now(): number;
}

export class Transactions {
  readonly #db: Database;
  readonly #deps: TransactionDeps;
  readonly #begin: Statement;
  readonly #commit: Statement;
  readonly #rollback: Statement;
  readonly #checkpoint: Statement;
  /** True if the database syncs at each commit, as last set; undefined = never set. */
  #syncs: boolean | undefined;
  #checkpointer: NodeJS.Immediate | undefined;

  constructor(db: Database, deps: TransactionDeps) {
    this.#db = db;
    this.#deps = deps;
    this.#begin = db.prepare('BEGIN IMMEDIATE');
    this.#commit = db.prepare('COMMIT');
    this.#rollback = db.prepare('ROLLBACK');
    this.#checkpoint = db.prepare('PRAGMA wal_checkpoint(PASSIVE)');
  }

  /** Runs one transaction, synced or not; when it throws, none of its writes happened. */
  run(work: () => void, synced = true): void {
    try {
      this.#sync(synced);
      this.#begin.run();
      work();
      this.#commit.run();
    } catch (thrown) {
      this.#undo();
      throw thrown;
    }
  }

  /** Copies the log into the file if it has grown: now, or in a separate turn. */
  trimLog(): void {
    const { logged } = this.#deps.log;
    if (logged > MAX_LOG_BYTES) this.#emptyLog();
    else if (logged > CHECKPOINT_BYTES) this.#checkpointer ??= setImmediate(this.#emptyLog);
  }

  stop(): void {
    clearImmediate(this.#checkpointer);
  }

  /** Copies the log into the file. Apart from the commits, so that a caller that waits for one does not wait for this. */
  readonly #emptyLog = (): void => {
    const { log, now, spent, failed } = this.#deps;
    clearImmediate(this.#checkpointer);
    this.#checkpointer = undefined;
    log.logged = 0;
    const started = now();
    try {
      this.#checkpoint.get();
    } catch (thrown) {
      // Entries in the log stay there; only after a failed sync may no write follow.
      failed('checkpoint', thrown);
    }
    spent(now() - started);
  };

  /**
   * Chooses whether the next commits sync. Without, a commit survives the end of the process at once and the loss of
   * power only after the next synced one or the next checkpoint; the file is whole either way.
   */
  #sync(synced: boolean): void {
    if (this.#syncs === synced) return;
    this.#db.exec(`PRAGMA synchronous=${synced ? 'FULL' : 'NORMAL'}`);
    this.#syncs = synced;
  }

  #undo(): void {
    try {
      if (this.#db.isTransaction) this.#rollback.run();
    } catch (thrown) {
      this.#deps.failed('rollback', thrown);
    }
  }
}
