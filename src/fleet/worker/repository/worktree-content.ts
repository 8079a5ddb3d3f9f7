/**
 * Finds the work that would be lost with a worktree: files that are in no commit, those that git ignores or does not look at,
 * work in submodules, commits that nothing else has.
 *
 * It is checked before a worktree is removed, and where a conversation continues in another.
 */

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { copyFile, lstat, mkdir, readdir, readlink, realpath, rm, stat, symlink } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import {
  decodeNames,
  fileNamed,
  LIST_IGNORED,
  readNames,
  readStatus,
  type StatusEntry,
} from '../../../base/git-output.ts';
import { isPresent } from '../../../base/is-present.ts';
import { nextTurn } from '../../../base/next-turn.ts';
import { readRegular, writeRegularSync } from '../../../base/regular-file.ts';
import { git, stampsOf, type TreeMark } from './git.ts';

/** Files that are copied for a conversation that continues elsewhere. */
const MAX_COPIED = 5000;
/**
 * Maximum bytes of the list of an index (enough for a million files), and number of files looked at in a turn of the event
 * loop.
 */
const MAX_INDEX = 128 * 1024 * 1024;
const FILES_PER_TURN = 10_000;
/** Bytes of other lists. A worktree with longer ones stays. */
const MAX_LIST = 8 * 1024 * 1024;
/** Submodules in submodules that are followed. Deeper ones count as work. */
const MAX_DEPTH = 8;
/** Changed files that are compared with the commit byte by byte. */
const MAX_COMPARED = 5000;
const SHA1_DIGITS = 40;
/** File in the folder of a worktree in the repository: the files that differed from the commit right after the checkout. */
const FRESH_FILE = 'handfast-fresh.json';

/** Paths from the top of the worktree, as `decodeNames` has them. */
export interface WorktreeContent {
  readonly head: string | null;
  readonly branch: string | null;
  /**
   * Differ from the commit, without those that did so when it was checked out and were not touched since, or have its bytes.
   */
  readonly uncommitted: readonly string[];
  /** Ignored by git; folders end with `/`. */
  readonly ignored: readonly string[];
}

/** Rejects with `runtime_error` when git cannot tell. */
export async function contentOf(path: string): Promise<WorktreeContent> {
  const [status, ignored, index, fresh] = await Promise.all([
    statusOf(path),
    ignoredIn(path),
    indexOf(path),
    freshFiles(path),
  ]);
  const uncommitted = await withoutCommitted(
    path,
    status.entries.filter((entry) => !fresh.has(entry.path)),
  );
  const { hidden, submodules } = index;
  for (const { name, commit } of submodules) {
    if (await holdsWork(join(path, name), commit, MAX_DEPTH)) uncommitted.push(name);
  }
  return {
    head: status.head,
    branch: status.branch,
    uncommitted: [...new Set([...uncommitted, ...hidden])],
    ignored,
  };
}

const whole = (path: string, words: readonly string[], bytes = MAX_LIST): Promise<string> =>
  git(path, words, undefined, bytes);

async function statusOf(path: string) {
  const words = ['--untracked-files=all', '--no-renames', '--ignore-submodules=none'];
  return readStatus(await whole(path, ['status', '--porcelain=v2', '--branch', '-z', ...words]));
}

/**
 * Returns the paths of entries whose content differs from the commit's. Git lists a file with the bytes of its commit as
 * changed where its rules for line ends or a filter would commit other bytes.
 */
async function withoutCommitted(top: string, entries: readonly StatusEntry[]): Promise<string[]> {
  const found: string[] = [];
  for (const [at, entry] of entries.entries()) {
    if (at >= MAX_COMPARED || !(await isCommitted(top, entry))) found.push(entry.path);
  }
  return found;
}

async function isCommitted(top: string, { fields, path }: StatusEntry): Promise<boolean> {
  // Changed in the working tree alone, with the mode of the index.
  const [, blob = ''] = /^1 \.M N\.\.\. \d+ (100\d+) \1 \w+ (\w+) $/.exec(fields)?.slice(1) ?? [];
  const file = fileNamed(join(top, path));
  if (blob === '' || !(await lstat(file)).isFile()) return false;
  const hash = createHash(blob.length === SHA1_DIGITS ? 'sha1' : 'sha256');
  hash.update(`blob ${(await stat(file)).size}\0`);
  for await (const bytes of createReadStream(file)) hash.update(bytes);
  return hash.digest('hex') === blob;
}

async function ignoredIn(path: string): Promise<readonly string[]> {
  return readNames(await whole(path, LIST_IGNORED));
}

/** Submodules that are checked out, and files whose changes git does not look for. */
async function indexOf(path: string) {
  const hidden: string[] = [];
  const submodules: { readonly name: string; readonly commit: string }[] = [];
  const output = await whole(path, ['ls-files', '--stage', '-v', '-z'], MAX_INDEX);
  for (let at = 0, count = 1, end = 0; end !== -1; at = end + 1, count += 1) {
    if (count % FILES_PER_TURN === 0) await new Promise<void>(nextTurn);
    end = output.indexOf('\0', at);
    // A file as nearly all are.
    if (end === -1 || output.startsWith('H 100', at)) continue;
    const entry = output.slice(at, end);
    const [, tag = '', mode, commit = '', name = ''] = /^(.) (\d+) (\w+) \d\t(.*)$/s.exec(entry) ?? [];
    if (mode === '160000') {
      if (await isPresent(fileNamed(join(path, name, '.git')))) submodules.push({ name, commit });
      // Lower case: assume-unchanged. `S`: skip-worktree, which is usual for a file that is not checked out.
    } else if (/[a-zS]/.test(tag) && (await isPresent(fileNamed(join(path, name))))) hidden.push(name);
  }
  return { hidden, submodules };
}

/** True when a submodule has something that its commit in the repository above and its remotes do not have. */
async function holdsWork(path: string, commit: string, depth: number): Promise<boolean> {
  if (depth === 0) return true;
  const [status, ignored, { hidden, submodules }] = await Promise.all([statusOf(path), ignoredIn(path), indexOf(path)]);
  if (status.entries.length + ignored.length + hidden.length > 0) return true;
  const elsewhere = ['--not', '--remotes', '--tags', commit];
  if ((await git(path, ['rev-list', '--count', 'HEAD', '--all', ...elsewhere])).trim() !== '0') return true;
  for (const { name, commit: recorded } of submodules) {
    if (await holdsWork(join(path, name), recorded, depth - 1)) return true;
  }
  return false;
}

/**
 * Copies uncommitted files from one worktree to another that is at the same commit; false: they are too many, and nothing was
 * copied. Submodules are not part of it.
 */
export async function copyUncommitted(from: string, to: string): Promise<boolean> {
  const words = ['--untracked-files=all', '--no-renames', '--ignore-submodules=all'];
  const { entries } = readStatus(await whole(from, ['status', '--porcelain=v2', '-z', ...words]));
  if (entries.length > MAX_COPIED) return false;
  const fresh = await freshFiles(from);
  for (const { path } of entries) {
    if (fresh.has(path)) continue;
    const [source, target] = [join(from, path), join(to, path)];
    // A link on the way that git does not look at must not lead the copy out of the worktree.
    if (!(await isWithin(to, dirname(target)))) continue;
    await rm(fileNamed(target), { recursive: true, force: true });
    if (!(await isPresent(fileNamed(source)))) continue;
    await mkdir(fileNamed(dirname(target)), { recursive: true });
    await copy(source, target);
  }
  return true;
}

/** Copies a file, a link as it is, or a folder, whose names are bytes. */
async function copy(source: string, target: string): Promise<void> {
  const [from, to] = [fileNamed(source), fileNamed(target)];
  const stats = await lstat(from);
  if (stats.isSymbolicLink()) await symlink(await readlink(from, 'buffer'), to);
  else if (stats.isDirectory()) {
    await mkdir(to);
    for (const name of await readdir(from, 'buffer')) {
      const text = decodeNames(name);
      await copy(join(source, text), join(target, text));
    }
  } else if (stats.isFile()) await copyFile(from, to);
}

async function isWithin(top: string, folder: string): Promise<boolean> {
  let existing = folder;
  while (!(await isPresent(fileNamed(existing)))) existing = dirname(existing);
  const real = decodeNames(await realpath(fileNamed(existing), 'buffer'));
  return real === top || real.startsWith(top + sep);
}

/** Notes the files that differ from the commit right after a checkout: line ends and filters can change them. */
export async function noteFresh({ top, stamps }: TreeMark): Promise<void> {
  if (stamps.size === 0) return;
  writeRegularSync(await freshFile(top), JSON.stringify([...stamps]));
}

/** Returns the noted files that are still as the checkout left them. */
async function freshFiles(path: string): Promise<ReadonlySet<string>> {
  const noted = await notedFresh(path);
  const stamps = await stampsOf(path, [...noted.keys()]);
  return new Set([...noted.keys()].filter((file) => noted.get(file) === stamps.get(file)));
}

async function notedFresh(path: string): Promise<ReadonlyMap<string, string>> {
  try {
    return new Map(JSON.parse(await readRegular(await freshFile(path))) as [string, string][]);
  } catch {
    return new Map();
  }
}

const freshFile = async (path: string): Promise<string> =>
  join((await git(path, ['rev-parse', '--absolute-git-dir'])).replace(/\n$/, ''), FRESH_FILE);
