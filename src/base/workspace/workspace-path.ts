/**
 * Workspace confinement: resolves a caller's path to an entry inside the workspace, or refuses it.
 *
 * It applies to every file tool, the working directory of `shell` and the images of prompts. With a guard it refuses
 * protected paths as well (`protected-paths.ts`). The path is walked one component at a time from the descriptor of the
 * workspace. This code reads and follows links, never the system. So nothing outside is opened, and no error reveals
 * whether something exists outside. Replacing a directory by a link during or after the walk has no effect: the checked
 * directory is the one that is held open. An absolute path may lead to the workspace through a link outside: the walk
 * begins at the workspace.
 */
import type { Stats } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readlink, realpath } from 'node:fs/promises';
import { isAbsolute, relative } from 'node:path';
import { fail } from '../../wire/errors.ts';
import { isShortage, whyNotStarted } from '../not-started.ts';
import { errnoOf, fileError, fileFailure, outsideWorkspace, shown } from './file-error.ts';
import { type Addressing, bestAddressing, HeldDirectory, readFlags } from './held-directory.ts';
import { type Access, type Denial, denies, type PathGuard, protectedPath, stronger } from './protected-paths.ts';

/** Limit of links followed on one path, and of retries when an entry changes during the walk; the limit of Linux. */
const MAX_LINKS = 40;

/** The kind of an entry. `other` is a FIFO, socket or device; a link is always resolved first. */
export type EntryKind = 'missing' | 'file' | 'directory' | 'other';

/** A path resolved inside the workspace. Disposing it closes the held directory. */
export interface ResolvedPath extends AsyncDisposable {
  /** The directory that holds the entry; the workspace itself for the workspace. */
  readonly parent: HeldDirectory;
  /** Name in `parent`: one component, or `.` for the workspace. */
  readonly name: string;
  /** Path from the workspace with `/` between names and links resolved; `.` for the workspace. */
  readonly path: string;
  /** The path as the caller gave it, for messages. */
  readonly asked: string;
  readonly kind: EntryKind;
  /** Of the entry when it was resolved; undefined when it is missing. */
  readonly stats: Stats | undefined;
  /** The guard that checked the entry, and checks the opened file. */
  readonly guard: PathGuard | undefined;
}

export interface LocateOptions {
  /** Refuses protected paths. Default: none is. */
  readonly guard?: PathGuard | undefined;
  /** Purpose for which the entry is located. Default `read`. */
  readonly access?: Access;
  /** Creates the directories that lead to the last component. Default false. */
  readonly createDirectories?: boolean;
  /** Addressing of directories. Default: {@link bestAddressing}. */
  readonly addressing?: Addressing;
}

function kindOf(stats: Stats): EntryKind {
  if (stats.isFile()) return 'file';
  return stats.isDirectory() ? 'directory' : 'other';
}

/** Components of `path` below the root; undefined when an absolute path leads to no place in it. */
async function componentsBelow(roots: readonly string[], path: string): Promise<string[] | undefined> {
  if (!isAbsolute(path)) return path.split('/');
  for (const root of roots) {
    const prefix = root.endsWith('/') ? root : `${root}/`;
    if (path === root) return [];
    if (path.startsWith(prefix)) return path.slice(prefix.length).split('/');
  }
  return behindLink(roots.at(-1) as string, path);
}

/**
 * Components of an absolute path that reaches the workspace, or a folder in it, through a link outside: a home that is a link, another
 * name of the workspace. Only the names behind that place are walked, so that no link widens the reach of a path.
 * @param root its path without links
 */
async function behindLink(root: string, path: string): Promise<string[] | undefined> {
  const names = path.split('/').filter((name) => name !== '' && name !== '.');
  let reached = '';
  for (const [at, name] of names.entries()) {
    if (name === '..') return undefined;
    reached += `/${name}`;
    const real = await realpath(reached).catch(() => undefined);
    if (real === undefined) return undefined;
    if (real === root || real.startsWith(root.endsWith('/') ? root : `${root}/`)) {
      return [...relative(root, real).split('/'), ...names.slice(at + 1), ...(path.endsWith('/') ? [''] : [])];
    }
  }
  return undefined;
}

/** The open directories from the workspace to the current one; the first is the workspace. */
class Trail {
  readonly held: HeldDirectory[];
  readonly names: string[] = [];
  readonly #guard: PathGuard | undefined;
  /** For each held directory: the denial for everything in it. */
  readonly #denials: (Denial | undefined)[];

  constructor(root: HeldDirectory, guard: PathGuard | undefined) {
    this.held = [root];
    this.#guard = guard;
    this.#denials = [guard?.above(root.realPath)];
  }

  get last(): HeldDirectory {
    return this.held[this.held.length - 1]!;
  }

  /** Returns the denial of an entry of the last directory, or of that directory itself (`.`). */
  denialOf(name: string, stats: Stats | undefined): Denial | undefined {
    const inherited = this.#denials[this.#denials.length - 1];
    if (this.#guard === undefined || name === '.') return inherited;
    return stronger(inherited, this.#guard.entry(this.last.stats(), name, stats));
  }

  async up(): Promise<void> {
    this.names.pop();
    this.#denials.pop();
    await this.held.pop()?.close();
  }

  async toRoot(): Promise<void> {
    while (this.names.length > 0) await this.up();
  }

  down(directory: HeldDirectory, name: string): void {
    this.#denials.push(this.#guard === undefined ? undefined : this.denialOf(name, directory.stats()));
    this.held.push(directory);
    this.names.push(name);
  }

  /** Closes all but `except`. */
  async close(except?: HeldDirectory): Promise<void> {
    for (const directory of this.held) if (directory !== except) await directory.close();
  }
}

/**
 * Resolves `path` in `workspace`. The last component may be missing.
 *
 * Fails with `tool_denied` (`outside_workspace`) when the path, or a link on it, leaves the workspace, even if it would
 * return, or is protected from the access (`protected_path`); with `tool_error` and a reason of `file-error.ts` when a
 * directory on the way is missing or unusable.
 */
export async function locate(workspace: string, path: string, options: LocateOptions = {}): Promise<ResolvedPath> {
  const { addressing = bestAddressing, guard } = options;
  if (path.includes('\0')) {
    throw fail('tool_error', 'a path must not contain a NUL character', { reason: 'bad_path', path: shown(path) });
  }
  let root: HeldDirectory;
  try {
    root = await HeldDirectory.openTrusted(workspace, addressing);
  } catch (error) {
    throw fail(
      'tool_error',
      isShortage(error)
        ? `the workspace cannot be opened: ${whyNotStarted(error)}`
        : 'the workspace cannot be opened; check that its folder exists',
      { reason: 'workspace_missing' },
      error,
    );
  }
  let trail: Trail;
  try {
    guard?.refresh();
    trail = new Trail(root, guard);
  } catch (error) {
    await root.close();
    throw fileError(error, path);
  }
  try {
    const resolved = await walk(trail, [workspace, root.realPath], path, options);
    await trail.close(resolved.parent);
    return resolved;
  } catch (error) {
    await trail.close();
    throw fileError(error, path);
  }
}

async function walk(
  trail: Trail,
  roots: readonly string[],
  asked: string,
  { createDirectories = false, guard, access = 'read' }: LocateOptions,
): Promise<ResolvedPath> {
  const first = await componentsBelow(roots, asked);
  if (first === undefined) throw outsideWorkspace(asked);
  const pending = first.reverse();
  let detours = 0;
  const detour = () => {
    detours += 1;
    if (detours > MAX_LINKS) throw fileFailure('too_many_links', asked, 'passes through too many symbolic links');
  };
  const permit = (denial: Denial | undefined, wanted: Access): void => {
    if (denies(denial, wanted)) throw protectedPath(asked);
  };
  const found = (name: string, stats: Stats | undefined): ResolvedPath => {
    permit(trail.denialOf(name, stats), access);
    const parent = trail.last;
    const kind = stats === undefined ? 'missing' : kindOf(stats);
    const where = name === '.' ? trail.names : [...trail.names, name];
    return {
      parent,
      name,
      path: where.length === 0 ? '.' : where.join('/'),
      asked,
      kind,
      stats,
      guard,
      [Symbol.asyncDispose]: () => parent.close(),
    };
  };

  for (;;) {
    const name = pending.pop();
    // The path ended in `.`, `..` or a slash: the current directory is the result.
    if (name === undefined) return found('.', await lstat(trail.last.at('.')));
    if (name === '' || name === '.') continue;
    if (name === '..') {
      if (trail.names.length === 0) throw outsideWorkspace(asked);
      await trail.up();
      continue;
    }
    const here = trail.last;
    const stats = await here.entry(name);
    if (!(await here.confirm())) throw outsideWorkspace(asked);
    const last = pending.every((part) => part === '' || part === '.');
    if (stats?.isSymbolicLink()) {
      detour();
      const target = await readlinkOrChanged(here, name);
      if (target === undefined) pending.push(name);
      else {
        const parts = await componentsBelow(roots, target);
        if (parts === undefined) throw outsideWorkspace(asked);
        if (isAbsolute(target)) await trail.toRoot();
        for (const part of parts.reverse()) pending.push(part);
      }
      continue;
    }
    if (last) {
      const directory = stats?.isDirectory() === true;
      if (pending.length > 0 && !directory) throw fileFailure('not_a_directory', asked, 'is not a directory');
      return found(name, stats);
    }
    if (stats === undefined) {
      // A path that leads up again creates nothing.
      if (!createDirectories || pending.includes('..')) throw fileFailure('not_found', asked, 'does not exist');
      permit(trail.denialOf(name, undefined), 'change');
      await makeDirectory(here, name);
    } else if (!stats.isDirectory()) {
      throw fileFailure('not_a_directory', asked, 'passes through something that is not a directory');
    }
    try {
      trail.down(await here.openChild(name), name);
      permit(trail.denialOf('.', undefined), 'read');
    } catch (error) {
      const errno = errnoOf(error);
      if (errno !== 'ENOTDIR' && errno !== 'ELOOP' && errno !== 'ENOENT') throw error;
      // The entry was replaced since it was checked: check it again.
      detour();
      pending.push(name);
    }
  }
}

/** Returns the target of a link, or undefined when the entry is no longer a link. */
async function readlinkOrChanged(directory: HeldDirectory, name: string): Promise<string | undefined> {
  try {
    return await readlink(directory.at(name));
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'EINVAL' || errno === 'ENOENT') return undefined;
    throw error;
  }
}

async function makeDirectory(parent: HeldDirectory, name: string): Promise<void> {
  try {
    await mkdir(parent.at(name));
  } catch (error) {
    // Another process created it at the same time.
    if (errnoOf(error) !== 'EEXIST') throw error;
    return;
  }
  await parent.sync();
}

/**
 * Opens a resolved regular file for reading. Fails with `not_found`, `is_a_directory` or `not_a_regular_file`; never
 * waits on a FIFO and never opens a device.
 */
export async function openFile(resolved: ResolvedPath): Promise<{ handle: FileHandle; stats: Stats }> {
  if (resolved.kind === 'missing') throw fileFailure('not_found', resolved.asked, 'does not exist');
  if (resolved.kind === 'directory') throw fileFailure('is_a_directory', resolved.asked, 'is a directory');
  if (resolved.kind === 'other') throw notRegular(resolved);
  let handle: FileHandle | undefined;
  try {
    handle = await open(resolved.parent.at(resolved.name), readFlags);
    const stats = await handle.stat();
    // The entry may have been replaced since it was resolved.
    if (!stats.isFile()) throw notRegular(resolved);
    if (resolved.guard?.opened(stats) === 'all') throw protectedPath(resolved.asked);
    if (!(await resolved.parent.confirm())) throw outsideWorkspace(resolved.asked);
    return { handle, stats };
  } catch (error) {
    await handle?.close();
    throw fileError(error, resolved.asked);
  }
}

function notRegular(resolved: ResolvedPath): Error {
  return fileFailure('not_a_regular_file', resolved.asked, 'is not a regular file');
}

/** Opens the directory `path` in the workspace. Fails with `not_found` or `not_a_directory`. */
export async function holdDirectory(
  workspace: string,
  path: string,
  options: LocateOptions = {},
): Promise<{ directory: HeldDirectory; path: string }> {
  await using resolved = await locate(workspace, path, options);
  if (resolved.kind === 'missing') throw fileFailure('not_found', path, 'does not exist');
  if (resolved.kind !== 'directory') throw fileFailure('not_a_directory', path, 'is not a directory');
  try {
    const directory = await resolved.parent.openChild(resolved.name);
    return { directory, path: resolved.path };
  } catch (error) {
    throw fileError(error, path);
  }
}
