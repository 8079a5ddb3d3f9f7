/**
 * The errors that owners of a database report when SQLite or the file system fails, and the allowed next steps.
 * Messages name no path: they may travel to a peer.
 *
 * @see https://www.sqlite.org/rescode.html
 */
import { fail, HandfastError } from '../../wire/errors.ts';
import { isOutOfSpace } from '../disk-space.ts';
import { mayGrow, obstacleAt } from './file.ts';

/** A statement or a definition that SQLite does not understand. */
export const SQLITE_ERROR = 1;
/** Another connection has the lock. */
export const SQLITE_BUSY = 5;
const SQLITE_LOCKED = 6;
/** Reading or writing the file failed. */
export const SQLITE_IOERR = 10;
const SQLITE_CORRUPT = 11;
/** No space on the disk, or the database is as large as it may be. */
export const SQLITE_FULL = 13;
/** The file cannot be opened. */
export const SQLITE_CANTOPEN = 14;
/** The file has other content. */
export const SQLITE_NOTADB = 26;
const SQLITE_IOERR_SHORT_READ = SQLITE_IOERR | (2 << 8);
const SQLITE_IOERR_WRITE = SQLITE_IOERR | (3 << 8);
const SQLITE_IOERR_FSYNC = SQLITE_IOERR | (4 << 8);
const SQLITE_IOERR_DIR_FSYNC = SQLITE_IOERR | (5 << 8);
const SQLITE_IOERR_SHMSIZE = SQLITE_IOERR | (19 << 8);

/** Returns the extended result code of an error thrown by `node:sqlite`; 0 for any other error. */
export function resultCode(thrown: unknown): number {
  const code = (thrown as { errcode?: unknown } | null)?.errcode;
  return typeof code === 'number' ? code : 0;
}

/**
 * Turns an error of SQLite or the file system into an error of the table; the original is its `cause`. `what` is the
 * name of the database in the message, for example `the task store`. With `file`, the path of the database, the cause
 * of a failed write is determined: SQLite names a full disk, but not a used-up quota or file size limit.
 */
export function sqliteFailure(thrown: unknown, what: string, file?: string | null): HandfastError {
  if (thrown instanceof HandfastError) return thrown;
  const code = resultCode(thrown);
  const detail = code === 0 ? {} : { sqlite: code };
  // Without room for its shared-memory file SQLite reports an input/output error, but space is all that is missing.
  const full =
    code === SQLITE_IOERR_SHMSIZE ||
    isOutOfSpace(thrown) ||
    (code === SQLITE_IOERR_WRITE && file && !mayGrow(file)) ||
    (code & 0xff) === SQLITE_FULL;
  if (full) {
    return fail('disk_full', `${what} could not be written: the disk is full; free space on it`, detail, thrown);
  }
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return fail('journal_corrupt', `${what} is damaged`, detail, thrown);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return fail('journal_locked', `another process is writing to ${what}; stop that process`, detail, thrown);
    case SQLITE_IOERR:
      return isFatal(thrown) ? syncFailure(thrown, what) : ioFailure(thrown, what, 'EIO', detail);
    default: {
      const { code: errno } = thrown as NodeJS.ErrnoException;
      if (code === 0 && typeof errno === 'string' && /^E[A-Z0-9]+$/.test(errno))
        return ioFailure(thrown, what, errno, {});
      const obstacle = file ? obstacleAt(file) : undefined;
      if (obstacle !== undefined) return ioFailure(thrown, what, obstacle, detail);
      const { message } = thrown as Partial<Error>;
      return fail('runtime_error', `${what} failed${message ? `: ${message}` : ''}`, detail, thrown);
    }
  }
}

function ioFailure(thrown: unknown, what: string, reason: string, detail: object): HandfastError {
  const other = reason === 'EISDIR' ? 'a folder' : reason === 'EFTYPE' ? 'a pipe, a socket or a device' : undefined;
  const remedy =
    other === undefined
      ? 'check the disk and the rights of its folder'
      : `${other} lies where its file, its log or its mark belongs: move it away`;
  const message = `${what} could not be read or written (${reason}); ${remedy}`;
  return fail('runtime_error', message, { ...detail, reason }, thrown);
}

/** Returns the error of a failed sync, for any cause: writes since the previous sync may not be trusted. */
export function syncFailure(thrown: unknown, what: string): HandfastError {
  if (thrown instanceof HandfastError) return thrown;
  const code = resultCode(thrown);
  // SQLite does not report which error of the system it met.
  const reason = code === 0 ? ((thrown as NodeJS.ErrnoException).code ?? 'EIO') : 'EIO';
  const detail = { ...(code !== 0 && { sqlite: code }), reason };
  const remedy = isOutOfSpace(thrown) ? 'free space on the disk' : 'check the disk';
  const message = `${what} could not be synced to disk (${reason}), so nothing more is stored; ${remedy}, then restart the host`;
  return new HandfastError(isOutOfSpace(thrown) ? 'disk_full' : 'runtime_error', message, {
    detail,
    retryable: false,
    cause: thrown,
  });
}

/**
 * Returns true when no later write may be trusted. After a failed sync the kernel may have dropped the pages it could
 * not write, so trying again would acknowledge missing data; in a damaged file a write can do further damage.
 */
export function isFatal(thrown: unknown): boolean {
  const code = resultCode(thrown);
  return (
    [SQLITE_IOERR_FSYNC, SQLITE_IOERR_DIR_FSYNC].includes(code) || [SQLITE_CORRUPT, SQLITE_NOTADB].includes(code & 0xff)
  );
}

/** Returns true when an error while opening means that the file itself differs from its written state. */
export function isDamage(thrown: unknown): boolean {
  if (thrown instanceof HandfastError) return thrown.code === 'journal_corrupt';
  const code = resultCode(thrown);
  return [SQLITE_CORRUPT, SQLITE_NOTADB].includes(code & 0xff) || code === SQLITE_IOERR_SHORT_READ;
}
