/**
 * The repository of a folder, read from `.git` without running git: trust is bound to it.
 *
 * The author of the folder wrote its `.git` file, so a name in it proves nothing: a worktree belongs to a repository
 * only when that repository's own `worktrees/` folder points back at it. A link in the place of `.git`, or a
 * `commondir` that leads elsewhere, makes the folder a separate repository.
 *
 * @see docs/security/trust.md#identity
 */
import { lstatSync, realpathSync } from 'node:fs';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { readBounded } from '../base/bounded-file.ts';
import { leadsOut } from '../base/is-inside.ts';

/** A folder as trust knows it. */
export interface Place {
  /** The repository: the real path of its common `.git` folder, else of the folder itself. */
  readonly repository: string;
  /** Real path of the top of the working tree: paths of trusted files start here. */
  readonly top: string;
  /** Real path of the folder. */
  readonly folder: string;
  /** True when git would find a repository in this folder, also one whose `.git` proves nothing. */
  readonly isRepository: boolean;
}

/** The files of git hold one path. */
const MAX_POINTER_BYTES = 8192;
/** More levels than any file system has folders on one path. */
const MAX_LEVELS = 256;

/** Returns the place of a folder. Fails as `realpath` does when the folder is missing. */
export function placeOf(path: string): Place {
  const folder = realpathSync(path);
  let top = folder;
  for (let level = 0; level < MAX_LEVELS; level += 1) {
    const found = lstatSync(join(top, '.git'), { throwIfNoEntry: false });
    if (found !== undefined) {
      const repository = found.isDirectory() ? join(top, '.git') : found.isFile() ? worktreeOf(top) : undefined;
      return { repository: repository ?? top, top, folder, isRepository: true };
    }
    // Git takes a folder with these names for a repository without `.git`, and obeys the settings in it.
    if (looksBare(top)) return { repository: top, top, folder, isRepository: true };
    if (dirname(top) === top) break;
    top = dirname(top);
  }
  return { repository: folder, top: folder, folder, isRepository: false };
}

/** Returns true for `HEAD` beside `objects`, or beside a `commondir` that names another folder with them. */
function looksBare(folder: string): boolean {
  const has = (name: string): boolean => lstatSync(join(folder, name), { throwIfNoEntry: false }) !== undefined;
  return has('HEAD') && (has('objects') || has('commondir'));
}

/**
 * Returns the path of a file in the form of the store's entries: from the top of the working tree, absolute outside of
 * it.
 */
export function nameIn({ top }: Pick<Place, 'top'>, file: string): string {
  const way = relative(top, file);
  return leadsOut(way) ? file : way.split(sep).join('/');
}

/** Returns the repository of a worktree whose top is `top`, when that repository lists it. */
function worktreeOf(top: string): string | undefined {
  try {
    const pointer = join(top, '.git');
    const named = /^gitdir: (.+)$/.exec(lineOf(pointer) ?? '')?.[1];
    if (named === undefined) return undefined;
    // Only real paths from now on: a link of the folder must not replace a part of the repository.
    const admin = realpathSync(resolve(top, named));
    if (basename(dirname(admin)) !== 'worktrees') return undefined;
    const common = dirname(dirname(admin));
    const commonSays = lineOf(join(admin, 'commondir'));
    const back = lineOf(join(admin, 'gitdir'));
    if (commonSays === undefined || back === undefined) return undefined;
    if (realpathSync(resolve(admin, commonSays)) !== common) return undefined;
    const pointedAt = resolve(admin, back);
    return realpathSync(dirname(pointedAt)) === top && basename(pointedAt) === '.git' ? common : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the one line of a file of git; undefined for any other content. */
function lineOf(file: string): string | undefined {
  const read = readBounded(file, MAX_POINTER_BYTES);
  if (read.kind !== 'file') return undefined;
  const text = read.bytes.toString('utf8').replace(/\r?\n$/, '');
  return /[\n\0]/.test(text) || text === '' ? undefined : text;
}
