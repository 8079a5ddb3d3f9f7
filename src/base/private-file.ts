/**
 * Files that only their owner may read: written whole or not at all, mode 0600 in a folder of mode 0700.
 *
 * For settings, credentials, the model cache, and the folder of this user's token. A file that others could read is
 * closed and reported; one that belongs to another user is refused, because its owner decides what is in it.
 */
import { constants } from 'node:fs';
import { chmod, mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { fail } from '../wire/errors.ts';
import { isOutOfSpace } from './disk-space.ts';
import type { Log } from './log.ts';
import { replaceFile } from './replace-file.ts';

/** True if the system has Unix permission bits; on Windows the user's folders are private already. */
const HAS_MODES = process.platform !== 'win32';
/** Longest file read: the model cache of every provider together stays well below. */
const MAX_FILE_BYTES = 32 * 1024 * 1024;

/** Makes a folder that only this user can enter, or makes an existing one so. Fails with `config_invalid`. */
export async function ensurePrivateFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    if (!HAS_MODES) return;
    const { mode, uid } = await stat(folder);
    if (!isOurs(uid)) throw unusable(folder, 'belongs to another user');
    // A folder's listing holds no secret, so restricting it afterwards is enough.
    if ((mode & 0o077) !== 0) await chmod(folder, 0o700);
  } catch (thrown) {
    throw refused(folder, thrown);
  }
}

/**
 * Returns the text of a private file; undefined when it does not exist. Permissions are checked on the opened file:
 * bits for others are removed, and `log` is warned, because the content may have been read. Fails with `config_invalid`
 * when the file is another user's, is not a regular file, or is too long.
 */
export async function readPrivateFile(file: string, log: Log): Promise<string | undefined> {
  try {
    // Not blocking: a pipe in the file's place must not hold up the start.
    await using handle = await open(file, constants.O_RDONLY | (HAS_MODES ? constants.O_NONBLOCK : 0));
    const found = await handle.stat();
    if (!found.isFile()) throw unusable(file, 'is not a file');
    if (found.size > MAX_FILE_BYTES) throw unusable(file, `is longer than ${MAX_FILE_BYTES} bytes`);
    if (HAS_MODES) {
      if (!isOurs(found.uid)) throw unusable(file, 'belongs to another user');
      if ((found.mode & 0o077) !== 0) {
        await handle.chmod(0o600);
        log.warn('other users could read a private file; its permissions were corrected; replace the secrets in it', {
          file,
        });
      }
    }
    return await handle.readFile('utf8');
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw refused(file, thrown);
  }
}

/**
 * Puts `text` in the place of the file in one step; once it returns the text is on disk. A crash leaves the old file or
 * the new one. Fails with `disk_full` or `runtime_error`.
 */
export async function writePrivateFile(file: string, text: string): Promise<void> {
  try {
    await replaceFile(file, text);
    await syncFolder(dirname(file));
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    // The name alone: the client that requested the change gets this message and need not know the folder.
    const what = `${basename(file)} cannot be written${code ? ` (${code})` : ''}`;
    throw fail(isOutOfSpace(thrown) ? 'disk_full' : 'runtime_error', what, {}, thrown);
  }
}

/** Returns the path to which {@link setAside} moves a file. */
export const asideOf = (file: string): string => `${file}.unusable`;

/** Quarantines a file with unusable content; an older quarantined one is replaced. Returns its new path. */
export async function setAside(file: string): Promise<string> {
  await rename(file, asideOf(file));
  return asideOf(file);
}

/** Removes the file, if it is there. */
export async function removePrivateFile(file: string): Promise<void> {
  await rm(file, { force: true });
}

/** Makes a rename last; systems that cannot sync a folder do without. */
async function syncFolder(folder: string): Promise<void> {
  try {
    await using handle = await open(folder, constants.O_RDONLY);
    await handle.sync();
  } catch {
    // The rename itself has happened.
  }
}

/** Returns true for files of this user, or for any file when this is root, which can read everything anyway. */
function isOurs(uid: number): boolean {
  const self = process.geteuid!();
  return uid === self || self === 0;
}

function unusable(path: string, why: string, cause?: unknown) {
  return fail('config_invalid', `${path} ${why}`, { path }, cause);
}

/** Returns failures of the file system as a `HandfastError`, and a `HandfastError` unchanged. */
function refused(path: string, thrown: unknown) {
  const { code, errno } = thrown as NodeJS.ErrnoException;
  return errno === undefined ? thrown : unusable(path, `cannot be used (${code})`, thrown);
}
