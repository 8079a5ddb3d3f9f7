/**
 * Walks the files below a directory in the order of their paths, in the search thread (`search-worker.ts`).
 *
 * Directories are opened one from the other and never through a link, so the walk cannot leave the workspace. The calls
 * are synchronous: this thread has nothing else to do, and it can be stopped from outside at any point.
 */
import {
  closeSync,
  type Dirent,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readSync,
  realpathSync,
  type Stats,
  statSync,
} from 'node:fs';
import { join } from 'node:path';
import {
  type Addressing,
  directoryFlags,
  entryPath,
  type HeldDirectory,
  readFlags,
} from '../../../base/workspace/held-directory.ts';
import type { PathGuard } from '../../../base/workspace/protected-paths.ts';
import { type IgnoreRules, noRules } from './ignore-rules.ts';

/** Maximum nesting of directories; deeper ones are left out. Each costs one open descriptor. */
const MAX_DEPTH = 128;
const MAX_GITIGNORE_BYTES = 1024 * 1024;

export interface WalkOptions {
  /** Obey `.gitignore` files from the workspace down. `.git` itself is never entered. */
  readonly gitignore: boolean;
  /** Include names that begin with a dot. */
  readonly hidden: boolean;
  /** Returns true when a directory is worth reading; `path` from the start. */
  mayHold(path: string): boolean;
  /** Protected folders are not entered, protected files not opened. */
  readonly guard?: PathGuard | undefined;
}

/** One file or link of the walk. */
export interface WalkedFile {
  /** Path relative to the workspace. */
  readonly path: string;
  /** Path from the start directory. */
  readonly fromStart: string;
  readonly link: boolean;
  /**
   * Opens a regular file for reading; undefined when it is no longer a regular file or may not be read. The caller closes the
   * descriptor.
   */
  open(): number | undefined;
  /**
   * Returns the present state of a file; undefined when it is no longer a regular file or may not be read. Valid as long as
   * `open`.
   */
  stats(): Stats | undefined;
}

/** Counts of the entries that the walk could not read. */
export interface WalkNotes {
  unreadable: number;
  tooDeep: number;
}

/** A directory that is being read. */
interface Level {
  readonly fd: number;
  readonly realPath: string;
  /** Path relative to the workspace, `''` at its top. */
  readonly path: string;
  readonly fromStart: string;
  readonly rules: IgnoreRules;
  readonly entries: readonly Dirent[];
  next: number;
}

/**
 * Yields the files below `start`, whose path from the workspace is `path` (`.` = the workspace). A file can be opened only
 * until the next one is requested.
 */
export function* walkTree(
  root: HeldDirectory,
  start: HeldDirectory,
  path: string,
  options: WalkOptions,
  notes: WalkNotes,
): Generator<WalkedFile, void, undefined> {
  const top = path === '.' ? '' : path;
  const { addressing } = start;
  const { guard } = options;
  const rules = options.gitignore ? rulesAbove(root, top, guard) : noRules;
  const levels: Level[] = [];
  const enter = (
    parentFd: number,
    parentPath: string,
    name: string,
    where: string,
    fromStart: string,
    rules: IgnoreRules,
  ) => {
    const level = openLevel(addressing, parentFd, parentPath, name, guard);
    if (level === undefined) {
      notes.unreadable += 1;
      return;
    }
    const own = options.gitignore ? withOwnRules(addressing, level, where, rules, guard) : rules;
    levels.push({ ...level, path: where, fromStart, rules: own, next: 0 });
  };
  try {
    enter(start.fd, start.realPath, '.', top, '', rules);
    for (let level = levels.at(-1); level !== undefined; level = levels.at(-1)) {
      const entry = level.entries[level.next];
      if (entry === undefined) {
        closeSync(level.fd);
        levels.pop();
        continue;
      }
      level.next += 1;
      const { name } = entry;
      if (name === '.git' || (!options.hidden && name.startsWith('.'))) continue;
      const where = level.path === '' ? name : `${level.path}/${name}`;
      const directory = entry.isDirectory();
      if (level.rules.ignores(where, directory)) continue;
      const fromStart = level.fromStart === '' ? name : `${level.fromStart}/${name}`;
      if (directory) {
        if (!options.mayHold(fromStart)) continue;
        if (levels.length === MAX_DEPTH) notes.tooDeep += 1;
        else enter(level.fd, level.realPath, name, where, fromStart, level.rules);
      } else if (entry.isFile() || entry.isSymbolicLink()) {
        const { fd, realPath } = level;
        const open = () => openRegular(addressing, fd, realPath, name, guard);
        const stats = () => statsOfRegular(addressing, fd, realPath, name, guard);
        yield { path: where, fromStart, link: entry.isSymbolicLink(), open, stats };
      }
    }
  } finally {
    for (const level of levels) closeSync(level.fd);
  }
}

type OpenLevel = Pick<Level, 'fd' | 'realPath' | 'entries'>;

function openLevel(
  addressing: Addressing,
  fd: number,
  realPath: string,
  name: string,
  guard: PathGuard | undefined,
): OpenLevel | undefined {
  let opened: number | undefined;
  try {
    opened = openSync(entryPath(addressing, fd, realPath, name), directoryFlags(addressing));
    if (guard?.entry(fstatSync(fd), name, fstatSync(opened)) === 'all') throw new Error('protected');
    const ownPath = join(realPath, name);
    const entries = readdirSync(entryPath(addressing, opened, ownPath, '.'), { withFileTypes: true });
    if (!isStillThere(addressing, opened, ownPath)) throw new Error('moved');
    // Sorted by full paths: a directory counts with the slash that follows it.
    const keyed = entries.map((entry) => ({ entry, key: entry.isDirectory() ? `${entry.name}/` : entry.name }));
    keyed.sort((one, other) => (one.key < other.key ? -1 : 1));
    return { fd: opened, realPath: ownPath, entries: keyed.map(({ entry }) => entry) };
  } catch {
    if (opened !== undefined) closeSync(opened);
    return undefined;
  }
}

/** Returns true when the path still leads to the open descriptor, without a link, if entries are addressed by path. */
function isStillThere(addressing: Addressing, fd: number, realPath: string): boolean {
  if (addressing === 'descriptor') return true;
  const own = fstatSync(fd);
  const there = statSync(realPath);
  return realpathSync(realPath) === realPath && own.ino === there.ino && own.dev === there.dev;
}

function openRegular(
  addressing: Addressing,
  fd: number,
  realPath: string,
  name: string,
  guard: PathGuard | undefined,
): number | undefined {
  let opened: number | undefined;
  try {
    const path = entryPath(addressing, fd, realPath, name);
    // Checked before the file is opened: closing a database of this process would drop its lock.
    if (guard?.entry(fstatSync(fd), name, lstatSync(path)) === 'all') return undefined;
    opened = openSync(path, readFlags);
    const stats = fstatSync(opened);
    const isProtected = guard?.opened(stats) === 'all';
    if (stats.isFile() && !isProtected && isStillThere(addressing, fd, realPath)) return opened;
  } catch {
    // Vanished, exchanged for a link, or not readable for the host: the caller counts it.
  }
  if (opened !== undefined) closeSync(opened);
  return undefined;
}

function statsOfRegular(
  addressing: Addressing,
  fd: number,
  realPath: string,
  name: string,
  guard: PathGuard | undefined,
): Stats | undefined {
  try {
    const stats = lstatSync(entryPath(addressing, fd, realPath, name));
    return stats.isFile() && guard?.entry(fstatSync(fd), name, stats) !== 'all' ? stats : undefined;
  } catch {
    return undefined;
  }
}

function withOwnRules(
  addressing: Addressing,
  level: OpenLevel,
  path: string,
  rules: IgnoreRules,
  guard: PathGuard | undefined,
): IgnoreRules {
  if (!level.entries.some((entry) => entry.name === '.gitignore' && entry.isFile())) return rules;
  const text = readGitignore(addressing, level.fd, level.realPath, guard);
  return text === undefined ? rules : rules.with(path, text);
}

function readGitignore(
  addressing: Addressing,
  fd: number,
  realPath: string,
  guard: PathGuard | undefined,
): string | undefined {
  const file = openRegular(addressing, fd, realPath, '.gitignore', guard);
  if (file === undefined) return undefined;
  try {
    const buffer = Buffer.allocUnsafe(Math.min(fstatSync(file).size, MAX_GITIGNORE_BYTES));
    return buffer.toString('utf8', 0, readSync(file, buffer));
  } finally {
    closeSync(file);
  }
}

/**
 * Returns the rules of the directories from the workspace down to the one above `path`. No rules when they ignore `path`
 * itself: a caller that names an ignored directory wants to see its content.
 */
function rulesAbove(root: HeldDirectory, path: string, guard: PathGuard | undefined): IgnoreRules {
  let rules = noRules;
  if (path === '') return rules;
  const { addressing } = root;
  let fd = root.fd;
  let realPath = root.realPath;
  let above = '';
  const opened: number[] = [];
  try {
    for (const name of path.split('/')) {
      const text = readGitignore(addressing, fd, realPath, guard);
      if (text !== undefined) rules = rules.with(above, text);
      above = above === '' ? name : `${above}/${name}`;
      if (rules.ignores(above, true)) return noRules;
      fd = openSync(entryPath(addressing, fd, realPath, name), directoryFlags(addressing));
      opened.push(fd);
      realPath = join(realPath, name);
    }
    return rules;
  } catch {
    // A directory on the path was moved: its rules no longer apply to the walked files.
    return rules;
  } finally {
    for (const descriptor of opened) closeSync(descriptor);
  }
}
