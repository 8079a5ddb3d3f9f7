/**
 * A lock between processes that the operating system itself releases when its holder dies, however it dies: the lock
 * SQLite takes on a database file, used without any database. Node offers no other such lock, and files that hold a
 * process id stay behind after a crash and mean nothing across containers.
 *
 * Held by the audit, so that two hosts never write one chain.
 */
import { closeSync, openSync } from 'node:fs';

/** SQLite's "somebody else has it". */
const SQLITE_BUSY = 5;

/**
 * Takes the lock that `file` stands for; the file is made if need be and stays. Returns the function that releases it,
 * or undefined when somebody has it. Throws what the file system throws.
 */
export function takeFileLock(file: string): (() => void) | undefined {
  closeSync(openSync(file, 'a', 0o600));
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
  const database = new DatabaseSync(file, { timeout: 0 });
  try {
    // Nothing is ever written, so no journal file is needed beside it.
    database.exec('PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE');
    return () => database.close();
  } catch (cause) {
    database.close();
    if ((cause as { errcode?: number }).errcode === SQLITE_BUSY) return undefined;
    throw cause;
  }
}
