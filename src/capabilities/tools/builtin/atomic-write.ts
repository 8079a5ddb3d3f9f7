/**
 * Replaces the content of a file in one step: a reader sees the old content or the new, never a mixture, even after a crash.
 *
 * A temporary file in the same directory is written and synced, then renamed over the name, then the directory is synced. Hard
 * links to the old file still have the old content; that is the price of the one step.
 */
import { randomBytes } from 'node:crypto';
import { type BigIntStats, constants, lstatSync, renameSync } from 'node:fs';
import { access, type FileHandle, link, open, rm } from 'node:fs/promises';
import { errnoOf, fileError, fileFailure, outsideWorkspace } from '../../../base/workspace/file-error.ts';
import type { ResolvedPath } from '../../../base/workspace/workspace-path.ts';

/** Identifies the state of a file without reading it. */
export interface FileState {
  readonly ino: bigint;
  readonly size: bigint;
  readonly mtimeNs: bigint;
  readonly ctimeNs: bigint;
}

/** Returns the state of an open file. */
export async function stateOf(handle: FileHandle): Promise<FileState> {
  return pick(await handle.stat({ bigint: true }));
}

function pick(stats: BigIntStats): FileState {
  return { ino: stats.ino, size: stats.size, mtimeNs: stats.mtimeNs, ctimeNs: stats.ctimeNs };
}

function sameState(one: FileState, other: FileState): boolean {
  return (
    one.ino === other.ino && one.size === other.size && one.mtimeNs === other.mtimeNs && one.ctimeNs === other.ctimeNs
  );
}

export interface ReplaceOptions {
  /**
   * The expected state of the target at the moment of the rename: `anything`, `nothing` (a new file), or a file in the given
   * state. Otherwise nothing is changed and the call returns false.
   */
  readonly expect: 'anything' | 'nothing' | FileState;
  readonly signal: AbortSignal;
  /** Makes the temporary name unique. */
  readonly randomName?: () => string;
}

/**
 * Replaces or creates the file at `place`. Returns false when the file there is not the expected one.
 *
 * An existing file retains its permission bits and, where the host may set it, its owner; a new one gets the defaults of
 * the host. Fails with `tool_error` (`is_a_directory`, `not_a_regular_file`, `permission_denied`, `no_space`, …).
 */
export async function replaceFile(place: ResolvedPath, content: Uint8Array, options: ReplaceOptions): Promise<boolean> {
  const { expect, signal, randomName = () => randomBytes(9).toString('hex') } = options;
  const { parent, name, asked, stats } = place;
  if (place.kind === 'directory') throw fileFailure('is_a_directory', asked, 'is a directory');
  if (place.kind === 'other') throw fileFailure('not_a_regular_file', asked, 'is not a regular file');
  const temporary = parent.at(`.${randomName()}.tmp`);
  const target = parent.at(name);
  let created = false;
  try {
    if (!(await parent.confirm())) throw outsideWorkspace(asked);
    // A rename would also replace a read-only file, which no editor does without asking.
    if (stats !== undefined) await access(target, constants.W_OK);
    // Readable only by the owner until it has the permissions of the file it replaces.
    const mode = stats === undefined ? 0o666 : 0o600;
    const handle = await open(
      temporary,
      constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW,
      mode,
    );
    created = true;
    try {
      if (!(await parent.confirm())) throw outsideWorkspace(asked);
      if (stats !== undefined) await copyOwnerAndMode(handle, stats);
      await handle.writeFile(content, { signal });
      await handle.sync();
    } finally {
      await handle.close();
    }
    signal.throwIfAborted();
    if (!(await parent.confirm())) throw outsideWorkspace(asked);
    const done = expect === 'nothing' ? await linkNew(temporary, target) : renameOver(temporary, target, expect);
    if (!done) return false;
    created = expect === 'nothing';
    await parent.sync();
    return true;
  } catch (error) {
    signal.throwIfAborted();
    throw fileError(error, asked);
  } finally {
    if (created) await rm(temporary, { force: true });
  }
}

async function copyOwnerAndMode(handle: FileHandle, stats: { uid: number; gid: number; mode: number }): Promise<void> {
  try {
    await handle.chown(stats.uid, stats.gid);
  } catch (error) {
    // Only root may change the owner of a file; without that right, the file belongs to the host's user.
    if (errnoOf(error) !== 'EPERM') throw error;
  }
  // Not the set-user and set-group bits: the kernel drops them on a write as well.
  await handle.chmod(stats.mode & 0o777);
}

/** Gives the new file its name only if nothing has it. */
async function linkNew(temporary: string, target: string): Promise<boolean> {
  try {
    await link(temporary, target);
    return true;
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'EEXIST') return false;
    // File systems without hard links: the check and the rename are then two steps.
    if (errno !== 'EPERM' && errno !== 'ENOTSUP' && errno !== 'ENOSYS') throw error;
    return renameOver(temporary, target, 'missing');
  }
}

/**
 * Renames if the target is as expected. Synchronous on purpose: no other call of this process can come between the look
 * and the rename, so of two edits that started from the same content only one succeeds.
 */
function renameOver(temporary: string, target: string, expect: 'anything' | 'missing' | FileState): boolean {
  if (expect !== 'anything') {
    const now = lstatSync(target, { bigint: true, throwIfNoEntry: false });
    if (expect === 'missing' ? now !== undefined : now === undefined || !sameState(pick(now), expect)) return false;
  }
  renameSync(temporary, target);
  return true;
}
