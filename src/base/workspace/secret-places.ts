/**
 * Finds protected paths under other names: folders called `.handfast`, and hard links to protected files. A program
 * sees the whole folder at once, so the search runs before its start. The tree of folders is remembered, so that a
 * further search reads only the folders that changed. A search shares the process in turns.
 */
import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fail, type HandfastError } from '../../wire/errors.ts';
import { setNewest } from '../evict-oldest.ts';
import { Turns } from '../turns.ts';
import { shown } from './file-error.ts';
import {
  entityOf,
  identityOf,
  isSecretName,
  type LinkedFile,
  type PathGuard,
  type PresentPath,
  statsOf,
} from './protected-paths.ts';

/** Entries that one search may look at. */
const MAX_ENTRIES = 1_000_000;
/** Places that one program may be covered from. */
const MAX_PLACES = 1_000;
/** Lag of the file system's clock behind that of the process, milliseconds, at most. */
const CLOCK_SLACK_MS = 50;

interface Folder {
  readonly readAt: number;
  readonly changedAt: number;
  readonly inode: number;
  readonly below: readonly string[];
  readonly files: readonly string[];
}

/** By root, the folders below it as they were read last. */
const trees = new Map<string, Map<string, Folder>>();
/** Bound on roots whose folders are remembered. */
const MAX_TREES = 8;

/**
 * Returns the places below `root`, a real path, at which a program would find secrets under other names.
 *
 * Fails with `tool_denied`, reason `protected_path`, if they cannot all be found.
 * @param isWhole true for a program that sees all files of the system: a further name outside of `root` would stay
 * readable
 */
export async function secretPlaces(
  guard: PathGuard,
  root: string,
  { isWhole, signal }: { readonly isWhole: boolean; readonly signal?: AbortSignal | undefined },
): Promise<PresentPath[]> {
  const linked = guard.linked();
  const isLinked = linked === undefined || linked.size > 0;
  const places: PresentPath[] = [];
  const found = new Map<string, Set<string>>();
  const onFile = (path: string): void => {
    const stats = statsOf(path, lstatSync);
    if (stats === undefined || stats.nlink < 2) return;
    const identity = identityOf(stats);
    const file = linked?.get(identity);
    if (linked !== undefined && file === undefined) return;
    if (file?.names.has(path) === true) return;
    places.push({ path, isFolder: false, deny: file?.deny ?? 'all', identity: entityOf(stats) });
    found.set(identity, (found.get(identity) ?? new Set()).add(path));
  };
  await walk(root, { onFile: isLinked ? onFile : undefined, onSecret: addTo(places), signal });
  if (places.length > MAX_PLACES) throw notCovered(`${places.length} files could be names of protected ones`);
  if (isWhole && linked !== undefined) {
    for (const [identity, file] of linked) mustBeCovered(file, found.get(identity)?.size ?? 0);
  }
  return places;
}

/** Returns the entries below `root`, a real path, with the name `.handfast`. Fails as {@link secretPlaces} does. */
export async function secretNames(root: string): Promise<PresentPath[]> {
  const found: PresentPath[] = [];
  await walk(root, { onFile: undefined, onSecret: addTo(found), signal: undefined });
  return found;
}

const addTo =
  (found: PresentPath[]): Walk['onSecret'] =>
  (path, isFolder) => {
    const stats = statsOf(path, lstatSync);
    if (stats !== undefined) found.push({ path, isFolder, deny: 'all', identity: entityOf(stats) });
  };

/**
 * Throws if a protected file has further names outside of the workspace. Names of a plugin elsewhere belong to a store
 * of packages; names of a secret elsewhere are not covered.
 */
function mustBeCovered({ path, links, names, deny }: LinkedFile, found: number): void {
  if (deny === 'changes' || names.size + found >= links) return;
  throw notCovered(
    `"${shown(path)}" has ${links - names.size - found} further names outside of the workspace; delete these hard links`,
  );
}

/** Returns the refusal of a program. */
export const notCovered = (why: string): HandfastError =>
  fail('tool_denied', `the program was not run: protected paths cannot be hidden from it: ${why}`, {
    reason: 'protected_path',
  });

interface Walk {
  readonly onFile: ((path: string) => void) | undefined;
  readonly onSecret: (path: string, isFolder: boolean) => void;
  readonly signal: AbortSignal | undefined;
}

async function walk(root: string, { onFile, onSecret, signal }: Walk): Promise<void> {
  const before = trees.get(root) ?? new Map<string, Folder>();
  const now = new Map<string, Folder>();
  const open = [root];
  let entries = 0;
  const turns = new Turns();
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    const folder = readFolder(path, before.get(path));
    if (folder === undefined) continue;
    now.set(path, folder);
    entries += 1 + folder.below.length + (onFile === undefined ? 0 : folder.files.length);
    if (entries > MAX_ENTRIES) throw notCovered(`the workspace has more than ${MAX_ENTRIES} entries`);
    for (const name of folder.below) {
      if (isSecretName(name)) onSecret(join(path, name), true);
      else open.push(join(path, name));
    }
    for (const name of folder.files) {
      if (isSecretName(name)) onSecret(join(path, name), false);
      else onFile?.(join(path, name));
    }
    while (turns.over) {
      await turns.next();
      signal?.throwIfAborted();
    }
  }
  setNewest(trees, root, now, MAX_TREES);
}

/**
 * Returns the entries of a folder: those of the earlier reading if it has not changed since. Undefined: it was removed,
 * or is closed to this process.
 */
function readFolder(path: string, before: Folder | undefined): Folder | undefined {
  const stats = statsOf(path, lstatSync);
  if (stats?.isDirectory() !== true) return undefined;
  const isSame = before?.inode === stats.ino && before.changedAt === stats.mtimeMs;
  if (isSame && before.changedAt + CLOCK_SLACK_MS < before.readAt) return before;
  const readAt = Date.now();
  const below: string[] = [];
  const files: string[] = [];
  try {
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      if (entry.isDirectory()) below.push(entry.name);
      else if (entry.isFile()) files.push(entry.name);
    }
  } catch {
    return undefined;
  }
  return { readAt, changedAt: stats.mtimeMs, inode: stats.ino, below, files };
}
