/**
 * A directory held open by a descriptor. Its entries are reached through the descriptor that was checked, not through a
 * path that another process may replace in between.
 *
 * Node has no `openat`. On Linux `/proc/self/fd/<n>/<name>` resolves from the descriptor, which does the same.
 * Elsewhere the path is used, and {@link HeldDirectory.confirm} checks afterwards that it still leads to the held
 * directory. A program that replaces and restores directories between the two can evade that check.
 */
import { constants, existsSync, fstatSync, type Stats } from 'node:fs';
import { type FileHandle, lstat, open, realpath, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf } from './file-error.ts';

/** Addressing of entries: from the descriptor (race-free) or by path with a check afterwards. */
export type Addressing = 'descriptor' | 'path';

/** The safest way of this machine. */
export const bestAddressing: Addressing =
  process.platform === 'linux' && existsSync('/proc/self/fd') ? 'descriptor' : 'path';

/**
 * Linux's O_PATH, which `fs.constants` does not list: a descriptor that only names the directory. It needs no read
 * permission and opens nothing that has side effects.
 */
const O_PATH = 0o10000000;

/** Flags that open a directory without following a link in its place. */
export function directoryFlags(addressing: Addressing): number {
  const access = addressing === 'descriptor' ? O_PATH : constants.O_RDONLY;
  return access | constants.O_DIRECTORY | constants.O_NOFOLLOW;
}

/** Flags that open a regular file for reading, never follow a link, and never wait for the other end of a FIFO. */
export const readFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Returns the path that addresses `name` in the directory open as `fd`; `realPath` is its real path when it was opened. */
export function entryPath(addressing: Addressing, fd: number, realPath: string, name: string): string {
  return addressing === 'descriptor' ? `/proc/self/fd/${fd}/${name}` : join(realPath, name);
}

/** One open directory. The code that opens it closes it; closing twice has no effect. */
export class HeldDirectory {
  readonly addressing: Addressing;
  /** Absolute path without links, as it was when the directory was opened. Never shown to a caller. */
  readonly realPath: string;
  readonly #handle: FileHandle;

  constructor(handle: FileHandle, realPath: string, addressing: Addressing) {
    this.#handle = handle;
    this.realPath = realPath;
    this.addressing = addressing;
  }

  /** Opens the directory at an absolute path that the host trusts: its workspace. */
  static async openTrusted(path: string, addressing: Addressing): Promise<HeldDirectory> {
    const realPath = await realpath(path);
    return new HeldDirectory(await open(realPath, directoryFlags(addressing)), realPath, addressing);
  }

  get fd(): number {
    return this.#handle.fd;
  }

  /** Returns the directory's current stats. */
  stats(): Stats {
    return fstatSync(this.#handle.fd);
  }

  /** Returns a path that leads to the entry `name` (one path component, or `.` for the directory itself). */
  at(name: string): string {
    return entryPath(this.addressing, this.#handle.fd, this.realPath, name);
  }

  /** Returns the stats of the entry `name`, links not followed; undefined when it does not exist. */
  async entry(name: string): Promise<Stats | undefined> {
    try {
      return await lstat(this.at(name));
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return undefined;
      throw error;
    }
  }

  /** Opens a directory in this one. Fails with ENOTDIR or ELOOP when the entry is a link or no directory. */
  async openChild(name: string): Promise<HeldDirectory> {
    const handle = await open(this.at(name), directoryFlags(this.addressing));
    return new HeldDirectory(handle, join(this.realPath, name), this.addressing);
  }

  /**
   * Resolves with true when entries reached by {@link at} since the directory was opened were inside it. That is always
   * so when they are addressed from the descriptor; otherwise the path must still lead here without passing a link.
   */
  async confirm(): Promise<boolean> {
    if (this.addressing === 'descriptor') return true;
    try {
      const [own, there, resolved] = await Promise.all([
        this.#handle.stat(),
        stat(this.realPath),
        realpath(this.realPath),
      ]);
      return resolved === this.realPath && own.ino === there.ino && own.dev === there.dev;
    } catch {
      return false;
    }
  }

  /** Writes the directory's entries to disk, where the file system can do that. */
  async sync(): Promise<void> {
    // An O_PATH descriptor cannot be synced, so a readable one of the same directory is opened.
    const handle = await open(this.at('.'), constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      await handle.sync();
    } catch (error) {
      // Some network and user-space file systems have no fsync for directories.
      const code = (error as NodeJS.ErrnoException).code;
      if (code !== 'EINVAL' && code !== 'ENOTSUP') throw error;
    } finally {
      await handle.close();
    }
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
