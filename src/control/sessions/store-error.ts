/** What the session store tells its callers when SQLite or the file system fails. Messages name no path. */
import { fail, HandfastError } from '../../wire/errors.ts';

const SQLITE_CORRUPT = 11;
const SQLITE_FULL = 13;
const SQLITE_NOTADB = 26;

/** Turns what SQLite or the file system threw into an error of the table; the original is its `cause`. */
export function storeError(thrown: unknown): HandfastError {
  if (thrown instanceof HandfastError) return thrown;
  const { errcode, code } = (thrown ?? {}) as { errcode?: unknown; code?: unknown };
  const primary = typeof errcode === 'number' ? errcode & 0xff : 0;
  if (primary === SQLITE_FULL || code === 'ENOSPC') {
    return fail('disk_full', 'the session store could not be written: the disk is full', {}, thrown);
  }
  if (primary === SQLITE_CORRUPT || primary === SQLITE_NOTADB) {
    return fail('journal_corrupt', 'the session store is damaged', {}, thrown);
  }
  return fail('runtime_error', 'the session store failed', {}, thrown);
}
