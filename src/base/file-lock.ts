/**
 * A lock between processes that the operating system itself releases when its holder dies, however it dies: the lock
 * SQLite uses on a database file, used without any database. Node offers no other such lock, and files that hold a
 * process id stay behind after a crash and mean nothing across containers.
 *
 * It protects databases, the audit, so that two hosts never write one chain, and the settings of a data directory.
 */
import { accessSync, constants, rmSync } from 'node:fs';
import { fail, type HandfastError } from '../wire/errors.ts';
import { otherKindAt, readRegularSync, writeRegularSync } from './regular-file.ts';
import { sleep } from './sleep.ts';
import { resultCode, SQLITE_BUSY, SQLITE_CANTOPEN, SQLITE_NOTADB } from './sqlite/failure.ts';
import { connect, createPrivate } from './sqlite/file.ts';

/**
 * Acquires the lock that `file` names; the file is made if need be, for its owner alone, and stays. Returns the function
 * that releases it, or undefined when another process has it. Throws the errors of the file system, and `runtime_error` for a
 * file that cannot be a lock, with its path and the remedy.
 */
export function acquireFileLock(file: string): (() => void) | undefined {
  const other = otherKindAt(file);
  if (other !== undefined) throw damagedLock(file, `it is ${other}`);
  // Not opened when it is there: closing any descriptor of it would drop the lock this very process may hold (POSIX).
  createPrivate(file);
  let database: ReturnType<typeof connect> | undefined;
  try {
    database = connect(file, 0);
    // The lock file is never written, so no journal file is needed beside it.
    database.exec('PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE');
    const held = database;
    return () => held.close();
  } catch (thrown) {
    database?.close();
    const code = resultCode(thrown);
    if (code === SQLITE_BUSY) return undefined;
    // Handfast never writes into a lock file.
    if ((code & 0xff) === SQLITE_NOTADB) throw damagedLock(file, 'it has content, and a lock file has none', thrown);
    if ((code & 0xff) === SQLITE_CANTOPEN) throw damagedLock(file, unopened(file), thrown);
    throw thrown;
  }
}

/** Waits for {@link acquireFileLock}. Undefined when another process still has the lock after `ms`; rejects when the signal aborts. */
export async function waitForFileLock(
  file: string,
  { ms, pollMs, signal }: { readonly ms: number; readonly pollMs: number; readonly signal?: AbortSignal },
): Promise<(() => void) | undefined> {
  for (let waited = 0; ; waited += pollMs) {
    signal?.throwIfAborted();
    const release = acquireFileLock(file);
    if (release !== undefined || waited >= ms) return release;
    await sleep(pollMs);
  }
}

/** Returns the reason why a file cannot be opened for writing. */
function unopened(file: string): string {
  try {
    accessSync(file, constants.R_OK | constants.W_OK);
    return 'it cannot be opened';
  } catch (thrown) {
    return `it cannot be opened: ${(thrown as NodeJS.ErrnoException).code}`;
  }
}

function damagedLock(path: string, why: string, cause?: unknown): HandfastError {
  const message = `the lock file ${path} cannot be used: ${why}; stop the hosts that use its folder, then remove it`;
  return fail('runtime_error', message, { path, reason: 'lock_damaged' }, cause);
}

/** The outcome of {@link acquireNamedLock}: the release of the lock, or the process that has it, where known. */
export interface NamedLock {
  /** Releases the lock; undefined when another process holds it. */
  readonly release: (() => void) | undefined;
  readonly holder: number | undefined;
}

/**
 * Acquires a lock and writes the process id of its owner to `pidFile`, for the message of a refused process. Throws
 * errors of the file system during the acquisition.
 */
export function acquireNamedLock(file: string, pidFile: string): NamedLock {
  const unlock = acquireFileLock(file);
  if (unlock === undefined) return { release: undefined, holder: livingPid(pidFile) };
  try {
    // Not in the lock file itself, which only SQLite may open.
    writeRegularSync(pidFile, `${process.pid}\n`);
  } catch {
    // Best effort: it only improves the message of a refused process.
  }
  const release = (): void => {
    try {
      rmSync(pidFile, { force: true });
    } catch {
      // As above. Where this cannot be removed, the error that ends the use of the lock is another one, and counts.
    }
    unlock();
  };
  return { release, holder: undefined };
}

/** Returns the process named in `pidFile`, unless it has ended: then the file is from an earlier owner. */
function livingPid(pidFile: string): number | undefined {
  let pid = 0;
  try {
    pid = Number.parseInt(readRegularSync(pidFile).toString(), 10);
    if (pid > 0) process.kill(pid, 0);
  } catch (thrown) {
    // Not permitted to signal it, but it lives.
    if ((thrown as NodeJS.ErrnoException).code !== 'EPERM') return undefined;
  }
  return pid > 0 ? pid : undefined;
}
