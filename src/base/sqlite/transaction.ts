/** One transaction of a database, for owners that write without a group commit. */
import type { DatabaseSync } from 'node:sqlite';

/** Does `work` in one transaction: when it throws, nothing of it has happened. */
export function inTransaction(database: DatabaseSync, work: () => void): void {
  database.exec('BEGIN IMMEDIATE');
  try {
    work();
    database.exec('COMMIT');
  } catch (thrown) {
    if (database.isTransaction) database.exec('ROLLBACK');
    throw thrown;
  }
}
