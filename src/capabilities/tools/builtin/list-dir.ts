/**
 * The work of `list_dir`: the entries of a directory, level by level down to a depth. Loaded on the first call. Links are
 * listed, never followed, and their targets are not returned.
 */
import type { Stats } from 'node:fs';
import { opendir } from 'node:fs/promises';
import { counted } from '../../../base/counted.ts';
import { fileError, outsideWorkspace } from '../../../base/workspace/file-error.ts';
import type { HeldDirectory } from '../../../base/workspace/held-directory.ts';
import { holdDirectory } from '../../../base/workspace/workspace-path.ts';
import type { CallContext } from '../../../host/context.ts';
import { result, type ShapedResult } from '../tool.ts';

/** Names read from one directory; a larger one is reported as truncated. Bounds memory. */
const MAX_NAMES = 100_000;
/** Entries whose states are read together. */
const STAT_BATCH = 32;

export interface ListDirArgs {
  readonly path: string;
  readonly depth: number;
  readonly hidden: boolean;
  readonly limit: number;
}

export interface DirectoryEntry {
  /** Path relative to the workspace. */
  readonly path: string;
  readonly type: 'file' | 'directory' | 'symlink' | 'other';
  /** Bytes; files only. */
  readonly size?: number;
  /** Time of the last change of the content, ISO 8601. */
  readonly mtime: string;
}

export interface Listing {
  readonly path: string;
  readonly entries: readonly DirectoryEntry[];
  readonly truncated: boolean;
}

/**
 * Lists a directory of the workspace, sorted by path. When there are more entries than `limit`, the deepest levels are
 * left out first. Fails with `tool_error` (`not_found`, `not_a_directory`, …) or `tool_denied`.
 */
export async function listDir(args: ListDirArgs, context: CallContext): Promise<ShapedResult<Listing>> {
  const { directory, path } = await holdDirectory(context.workspace, args.path, { guard: context.pathGuard });
  const entries: DirectoryEntry[] = [];
  let truncated = false;
  try {
    truncated = await listInto(entries, directory, path, args, context.signal);
  } catch (error) {
    context.signal.throwIfAborted();
    throw fileError(error, args.path);
  } finally {
    await directory.close();
  }
  // Level by level, so that a limit cuts the deepest entries first.
  let level = entries.filter((entry) => entry.type === 'directory');
  for (let depth = 1; depth < args.depth && level.length > 0 && !truncated; depth += 1) {
    const before = entries.length;
    for (const { path: below } of level) {
      truncated = (await listBelow(entries, below, args, context)) || truncated;
      if (truncated) break;
    }
    level = entries.slice(before).filter((entry) => entry.type === 'directory');
  }
  entries.sort((one, other) => (one.path < other.path ? -1 : 1));
  const summary = `${counted(entries.length, 'entry', 'entries')} in ${path}${truncated ? ' (there are more)' : ''}`;
  return result({ path, entries, truncated }, { summary, truncated });
}

/** Lists a directory further down; skips one that vanished or may not be read. */
async function listBelow(
  entries: DirectoryEntry[],
  path: string,
  args: ListDirArgs,
  context: CallContext,
): Promise<boolean> {
  context.signal.throwIfAborted();
  try {
    const { directory } = await holdDirectory(context.workspace, path, { guard: context.pathGuard });
    await using _ = directory;
    return await listInto(entries, directory, path, args, context.signal);
  } catch {
    context.signal.throwIfAborted();
    return false;
  }
}

/** Appends the entries of one directory; returns true when some were left out. */
async function listInto(
  entries: DirectoryEntry[],
  directory: HeldDirectory,
  path: string,
  args: ListDirArgs,
  signal: AbortSignal,
): Promise<boolean> {
  const { names, more } = await namesOf(directory, args.hidden, signal);
  const room = args.limit - entries.length;
  const listed = names.slice(0, room);
  const found: DirectoryEntry[] = [];
  for (let from = 0; from < listed.length; from += STAT_BATCH) {
    signal.throwIfAborted();
    const batch = listed.slice(from, from + STAT_BATCH);
    const stats = await Promise.all(batch.map((name) => directory.entry(name)));
    for (const [index, name] of batch.entries()) {
      const stat = stats[index];
      if (stat !== undefined) found.push(entryOf(path === '.' ? name : `${path}/${name}`, stat));
    }
  }
  if (!(await directory.confirm())) throw outsideWorkspace(path);
  entries.push(...found);
  return more || names.length > room;
}

async function namesOf(
  directory: HeldDirectory,
  hidden: boolean,
  signal: AbortSignal,
): Promise<{ names: string[]; more: boolean }> {
  const names: string[] = [];
  // Leaving the loop closes the directory.
  for await (const { name } of await opendir(directory.at('.'), { bufferSize: 512 })) {
    signal.throwIfAborted();
    if (!hidden && name.startsWith('.')) continue;
    if (names.length === MAX_NAMES) return { names: names.sort(), more: true };
    names.push(name);
  }
  return { names: names.sort(), more: false };
}

function entryOf(path: string, stats: Stats): DirectoryEntry {
  const mtime = stats.mtime.toISOString();
  if (stats.isFile()) return { path, type: 'file', size: stats.size, mtime };
  if (stats.isDirectory()) return { path, type: 'directory', mtime };
  return { path, type: stats.isSymbolicLink() ? 'symlink' : 'other', mtime };
}
