/**
 * Confinement: turns a path a caller gave into a place inside the workspace, or refuses.
 *
 * Every file tool, the working directory of `shell` and the images of prompts come through here. The path is walked one
 * component at a time from the workspace's own descriptor; links are read and followed by this code and never by the
 * system, so nothing outside is opened, and whether something exists outside cannot be told from the answer. Exchanging
 * a directory for a link during the walk or after it changes nothing, because what was checked is what is held.
 */
import type { Stats } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readlink } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import { fail } from '../../wire/errors.ts';
import { errnoOf, fileError, fileFailure, outsideWorkspace, shown } from './file-error.ts';
import { type Addressing, bestAddressing, HeldDirectory, readFlags } from './held-directory.ts';

/** Links followed on one path, and retries when an entry changes between two looks; as many as Linux allows. */
const MAX_LINKS = 40;

/** What was found at a place. `other` is a FIFO, socket or device; a link is always resolved first. */
export type EntryKind = 'missing' | 'file' | 'directory' | 'other';

/** A place inside the workspace. Disposing it closes the held directory. */
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
  /** Of the entry when it was found; undefined when missing. */
  readonly stats: Stats | undefined;
}

export interface LocateOptions {
  /** Creates the directories that lead to the last component. Default false. */
  readonly createDirectories?: boolean;
  /** How directories are addressed; the safest way this machine has by default. */
  readonly addressing?: Addressing;
}

function kindOf(stats: Stats): EntryKind {
  if (stats.isFile()) return 'file';
  return stats.isDirectory() ? 'directory' : 'other';
}

/** Components of `path` below `root`; undefined when an absolute path does not begin with it. */
function componentsBelow(roots: readonly string[], path: string): string[] | undefined {
  if (!isAbsolute(path)) return path.split('/');
  for (const root of roots) {
    const prefix = root.endsWith('/') ? root : `${root}/`;
    if (path === root) return [];
    if (path.startsWith(prefix)) return path.slice(prefix.length).split('/');
  }
  return undefined;
}

/** The directories open on the way from the workspace to where the walk is; the first is the workspace. */
class Trail {
  readonly held: HeldDirectory[];
  readonly names: string[] = [];

  constructor(root: HeldDirectory) {
    this.held = [root];
  }

  get last(): HeldDirectory {
    return this.held[this.held.length - 1]!;
  }

  async up(): Promise<void> {
    this.names.pop();
    await this.held.pop()?.close();
  }

  async toRoot(): Promise<void> {
    while (this.names.length > 0) await this.up();
  }

  down(directory: HeldDirectory, name: string): void {
    this.held.push(directory);
    this.names.push(name);
  }

  /** Closes all but `kept`. */
  async close(kept?: HeldDirectory): Promise<void> {
    for (const directory of this.held) if (directory !== kept) await directory.close();
  }
}

/**
 * Finds the place of `path` in `workspace`. The last component may be missing.
 *
 * Fails with `tool_denied` (`outside_workspace`) when the path, or a link on it, leaves the workspace, even if it would
 * come back; with `tool_error` and a reason of `file-error.ts` when a directory on the way is missing or unusable.
 */
export async function locate(workspace: string, path: string, options: LocateOptions = {}): Promise<ResolvedPath> {
  const { createDirectories = false, addressing = bestAddressing } = options;
  if (path.includes('\0')) {
    throw fail('tool_error', 'a path may not hold a NUL character', { reason: 'bad_path', path: shown(path) });
  }
  let root: HeldDirectory;
  try {
    root = await HeldDirectory.openTrusted(workspace, addressing);
  } catch (error) {
    throw fail('tool_error', 'the workspace cannot be opened', { reason: 'workspace_missing' }, error);
  }
  const trail = new Trail(root);
  try {
    const place = await walk(trail, [workspace, root.realPath], path, createDirectories);
    await trail.close(place.parent);
    return place;
  } catch (error) {
    await trail.close();
    throw fileError(error, path);
  }
}

async function walk(
  trail: Trail,
  roots: readonly string[],
  asked: string,
  createDirectories: boolean,
): Promise<ResolvedPath> {
  const first = componentsBelow(roots, asked);
  if (first === undefined) throw outsideWorkspace(asked);
  const pending = first.reverse();
  let detours = 0;
  const detour = () => {
    detours += 1;
    if (detours > MAX_LINKS) throw fileFailure('too_many_links', asked, 'passes through too many symbolic links');
  };
  const found = (name: string, stats: Stats | undefined): ResolvedPath => {
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
      [Symbol.asyncDispose]: () => parent.close(),
    };
  };

  for (;;) {
    const name = pending.pop();
    // Nothing left: the path ended in `.`, `..` or a slash, and the directory walked into is what was asked for.
    if (name === undefined) return found('.', await lstat(trail.last.at('.')));
    if (name === '' || name === '.') continue;
    if (name === '..') {
      if (trail.names.length === 0) throw outsideWorkspace(asked);
      await trail.up();
      continue;
    }
    const here = trail.last;
    const stats = await lstatOrMissing(here, name);
    if (!(await here.confirm())) throw outsideWorkspace(asked);
    const last = pending.every((part) => part === '' || part === '.');
    if (stats?.isSymbolicLink()) {
      detour();
      const target = await readlinkOrChanged(here, name);
      if (target === undefined) pending.push(name);
      else {
        const parts = componentsBelow(roots, target);
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
      // Nothing is created on a way that goes back up.
      if (!createDirectories || pending.includes('..')) throw fileFailure('not_found', asked, 'does not exist');
      await makeDirectory(here, name);
    } else if (!stats.isDirectory()) {
      throw fileFailure('not_a_directory', asked, 'passes through something that is not a directory');
    }
    try {
      trail.down(await here.openChild(name), name);
    } catch (error) {
      const errno = errnoOf(error);
      if (errno !== 'ENOTDIR' && errno !== 'ELOOP' && errno !== 'ENOENT') throw error;
      // It was a directory a moment ago: look at it again.
      detour();
      pending.push(name);
    }
  }
}

async function lstatOrMissing(directory: HeldDirectory, name: string): Promise<Stats | undefined> {
  try {
    return await lstat(directory.at(name));
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Where a link points, or undefined when it is no link any more. */
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
    // Somebody else made it at the same time.
    if (errnoOf(error) !== 'EEXIST') throw error;
    return;
  }
  await parent.sync();
}

/**
 * Opens the regular file at a place for reading. Fails with `not_found`, `is_a_directory` or `not_a_regular_file`; never
 * waits on a FIFO and never opens a device.
 */
export async function openFile(place: ResolvedPath): Promise<{ handle: FileHandle; stats: Stats }> {
  if (place.kind === 'missing') throw fileFailure('not_found', place.asked, 'does not exist');
  if (place.kind === 'directory') throw fileFailure('is_a_directory', place.asked, 'is a directory');
  if (place.kind === 'other') throw notRegular(place);
  let handle: FileHandle | undefined;
  try {
    handle = await open(place.parent.at(place.name), readFlags);
    const stats = await handle.stat();
    // The entry may have been exchanged since it was found.
    if (!stats.isFile()) throw notRegular(place);
    if (!(await place.parent.confirm())) throw outsideWorkspace(place.asked);
    return { handle, stats };
  } catch (error) {
    await handle?.close();
    throw fileError(error, place.asked);
  }
}

function notRegular(place: ResolvedPath): Error {
  return fileFailure('not_a_regular_file', place.asked, 'is not a regular file');
}

/** Opens the directory `path` in the workspace. Fails with `not_found` or `not_a_directory`. */
export async function holdDirectory(
  workspace: string,
  path: string,
  options: LocateOptions = {},
): Promise<{ directory: HeldDirectory; path: string }> {
  await using place = await locate(workspace, path, options);
  if (place.kind === 'missing') throw fileFailure('not_found', path, 'does not exist');
  if (place.kind !== 'directory') throw fileFailure('not_a_directory', path, 'is not a directory');
  try {
    const directory = await place.parent.openChild(place.name);
    return { directory, path: place.path };
  } catch (error) {
    throw fileError(error, path);
  }
}
