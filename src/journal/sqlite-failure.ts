/**
 * What the SQLite journal tells its callers when SQLite or the file system fails. Used by `sqlite.ts` and
 * `sqlite-store.ts`. Messages name no path: they may travel to a peer.
 *
 * @see https://www.sqlite.org/rescode.html
 */
import { type ErrorName, fail, HandfastError } from '../wire/errors.ts';

const SQLITE_BUSY = 5;
const SQLITE_LOCKED = 6;
const SQLITE_IOERR = 10;
const SQLITE_CORRUPT = 11;
const SQLITE_FULL = 13;
const SQLITE_NOTADB = 26;
const SQLITE_IOERR_SHORT_READ = SQLITE_IOERR | (2 << 8);
const SQLITE_IOERR_FSYNC = SQLITE_IOERR | (4 << 8);
const SQLITE_IOERR_DIR_FSYNC = SQLITE_IOERR | (5 << 8);
const SQLITE_IOERR_SHMSIZE = SQLITE_IOERR | (19 << 8);

/** The extended result code of an error thrown by `node:sqlite`; 0 for any other error. */
function resultCode(thrown: unknown): number {
  const code = (thrown as { errcode?: unknown } | null)?.errcode;
  return typeof code === 'number' ? code : 0;
}

const text: Partial<Record<ErrorName, string>> = {
  disk_full: 'the journal could not be written: the disk is full',
  journal_corrupt: 'the journal file is damaged',
  journal_locked: 'another process is writing to the journal file',
};

function nameOf(thrown: unknown): ErrorName {
  const code = resultCode(thrown);
  // Without room for its shared-memory file SQLite reports an input/output error, but space is all that is missing.
  if (code === SQLITE_IOERR_SHMSIZE) return 'disk_full';
  switch (code & 0xff) {
    case SQLITE_FULL:
      return 'disk_full';
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return 'journal_corrupt';
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return 'journal_locked';
  }
  return (thrown as { code?: unknown } | null)?.code === 'ENOSPC' ? 'disk_full' : 'runtime_error';
}

/** Turns what SQLite or the file system threw into an error of the table; the original is its `cause`. */
export function journalError(thrown: unknown): HandfastError {
  if (thrown instanceof HandfastError) return thrown;
  const name = nameOf(thrown);
  return fail(
    name,
    text[name] ?? 'the journal failed',
    resultCode(thrown) === 0 ? {} : { sqlite: resultCode(thrown) },
    thrown,
  );
}

/**
 * True when no later write may be trusted. After a failed sync the kernel may have dropped the pages it could not
 * write, so trying again would acknowledge what is not there; in a damaged file a write can do further damage.
 */
export function isFatal(thrown: unknown): boolean {
  const code = resultCode(thrown);
  return (
    [SQLITE_IOERR_FSYNC, SQLITE_IOERR_DIR_FSYNC].includes(code) || [SQLITE_CORRUPT, SQLITE_NOTADB].includes(code & 0xff)
  );
}

/** True when an error while opening means that the file itself is not what was once written. */
export function isDamage(thrown: unknown): boolean {
  return journalError(thrown).code === 'journal_corrupt' || resultCode(thrown) === SQLITE_IOERR_SHORT_READ;
}
