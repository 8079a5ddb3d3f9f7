/**
 * The files of a database: created for their owner alone, opened, and moved away when they are damaged.
 *
 * The only file that loads `node:sqlite` in this process.
 */
import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  fdatasyncSync,
  lstatSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { isOutOfSpace } from '../disk-space.ts';
import { mustBeRegular, openRegularSync } from '../regular-file.ts';

/** A database, and the files that SQLite has beside it. */
const COMPANIONS = ['', '-wal', '-shm', '-journal'];

/**
 * Connects to a database file, or to a new one in memory for `:memory:`. A statement waits up to `timeoutMs` for another
 * process that holds the file for a moment. Throws `EISDIR` or `EFTYPE` where something else than a file lies in the place of
 * one: SQLite would wait for it, or call the database damaged.
 */
export function connect(file: string, timeoutMs: number): DatabaseSync {
  // At the first use: not every importer needs it.
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
  if (file !== ':memory:') for (const suffix of COMPANIONS) mustBeRegular(file + suffix);
  return new DatabaseSync(file, { timeout: timeoutMs });
}

/**
 * Moves a damaged file and its companions away; the file first, since without it the others mean nothing. Returns where it is
 * now. `now` is epoch milliseconds.
 */
export function setAside(file: string, now: number): string {
  const stamp = new Date(now).toISOString().replace(/[-:]|\.\d+/g, '');
  let target = `${file}.corrupt-${stamp}`;
  for (let n = 2; statSync(target, { throwIfNoEntry: false }) !== undefined; n += 1) {
    target = `${file}.corrupt-${stamp}-${n}`;
  }
  for (const suffix of ['', '-wal', '-shm']) {
    if (statSync(file + suffix, { throwIfNoEntry: false }) !== undefined) renameSync(file + suffix, target + suffix);
  }
  return target;
}

/** Makes sure the file exists and only its owner can read it. */
export function createPrivate(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600));
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== 'EEXIST') throw thrown;
    makePrivate(file);
  }
}

export function makePrivate(file: string): void {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (stat !== undefined && (stat.mode & 0o077) !== 0) chmodSync(file, 0o600);
}

/**
 * Returns the obstacle to opening or writing a database, by its code of the system, which SQLite does not give.
 * Undefined if none is found.
 */
export function obstacleAt(file: string): string | undefined {
  try {
    for (const path of [file, `${file}-wal`, `${file}-shm`, `${file}.mark`]) {
      // For a link, checks its target, which must exist.
      if (lstatSync(path, { throwIfNoEntry: false }) === undefined) continue;
      mustBeRegular(path);
      accessSync(path, constants.R_OK | constants.W_OK);
    }
    accessSync(dirname(file), constants.W_OK | constants.X_OK);
    return undefined;
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code;
  }
}

const PROBE_BYTES = 4096;

/** Returns false when the system refuses to let a database or its log grow. */
export const mayGrow = (file: string): boolean => !isOutOfSpace(growthProblem(file));

/**
 * Returns true when a database can be opened and may grow, as far as the file system shows. One in memory, without a
 * file, always may.
 */
export const mayWrite = (file: string | null | undefined): boolean =>
  !file || (obstacleAt(file) === undefined && growthProblem(file) === undefined);

/** Returns the reason why a database or its log cannot grow. The test writes a file beside it, which is removed. */
function growthProblem(file: string): unknown {
  const probe = `${file}.probe`;
  const [size = 0, logSize = 0] = [file, `${file}-wal`].map((path) => statSync(path, { throwIfNoEntry: false })?.size);
  try {
    const descriptor = openRegularSync(probe, 'w');
    try {
      const written = writeSync(descriptor, Buffer.alloc(PROBE_BYTES), 0, PROBE_BYTES, Math.max(size, logSize));
      fdatasyncSync(descriptor);
      return written === PROBE_BYTES ? undefined : Object.assign(new Error('a short write'), { code: 'ENOSPC' });
    } finally {
      closeSync(descriptor);
      rmSync(probe, { force: true });
    }
  } catch (thrown) {
    return thrown;
  }
}
