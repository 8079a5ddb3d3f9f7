/**
 * What the task store tells its callers when SQLite or the file system fails. Messages name no path: they may travel.
 *
 * @see https://www.sqlite.org/rescode.html
 */
import { fail, HandfastError } from '../../wire/errors.ts';

const SQLITE_BUSY = 5;
const SQLITE_LOCKED = 6;
const SQLITE_IOERR = 10;
const SQLITE_CORRUPT = 11;
const SQLITE_FULL = 13;
const SQLITE_NOTADB = 26;
const SQLITE_IOERR_FSYNC = SQLITE_IOERR | (4 << 8);
const SQLITE_IOERR_DIR_FSYNC = SQLITE_IOERR | (5 << 8);
const SQLITE_IOERR_SHMSIZE = SQLITE_IOERR | (19 << 8);

function resultCode(thrown: unknown): number {
  const code = (thrown as { errcode?: unknown } | null)?.errcode;
  return typeof code === 'number' ? code : 0;
}

/** Turns what was thrown into an error of the table; the original is its `cause`. */
export function storeFailure(thrown: unknown): HandfastError {
  if (thrown instanceof HandfastError) return thrown;
  const code = resultCode(thrown);
  // Without room for its shared-memory file SQLite reports an input/output error, but space is all that is missing.
  const full = code === SQLITE_IOERR_SHMSIZE || (thrown as { code?: unknown } | null)?.code === 'ENOSPC';
  if (full || (code & 0xff) === SQLITE_FULL) {
    return fail('disk_full', 'the task store could not be written: the disk is full', {}, thrown);
  }
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return fail('journal_corrupt', 'the task store is damaged', {}, thrown);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return fail('journal_locked', 'another process is writing to the task store', {}, thrown);
    default:
      return fail('runtime_error', 'the task store failed', code === 0 ? {} : { sqlite: code }, thrown);
  }
}

/**
 * True when no later write may be trusted: after a failed sync the kernel may have dropped the pages it could not write,
 * and in a damaged file a write can do further damage.
 */
export function isFatal(thrown: unknown): boolean {
  const code = resultCode(thrown);
  return (
    [SQLITE_IOERR_FSYNC, SQLITE_IOERR_DIR_FSYNC].includes(code) || [SQLITE_CORRUPT, SQLITE_NOTADB].includes(code & 0xff)
  );
}
