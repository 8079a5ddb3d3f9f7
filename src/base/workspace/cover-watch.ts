/**
 * Watches the covers of protected paths while programs run in them. A cover is a mount: the system drops it together
 * with the directory entry it lies on, and a protected name that appears later has none. In both cases the program must
 * end.
 *
 * Events of the folders that lead to protected paths arrive within milliseconds. Every quarter of a second all are
 * checked again, since the system may drop events, and the workspace is searched for new folders called `.handfast`.
 */
import { type FSWatcher, lstatSync, watch } from 'node:fs';
import { dirname, join } from 'node:path';
import { errnoOf } from './file-error.ts';
import { entityOf, isHidden, type PathGuard, type PresentPath, realPathOf, statsOf } from './protected-paths.ts';
import { notCovered, secretNames } from './secret-places.ts';

/** Shortest time between two searches of a workspace; a search takes at most a twentieth of the time. */
const SEARCH_MS = 250;
const SEARCH_SHARE = 20;

/** Calls `onLost` once, when a cover hides its file no more. Returns the function that ends the watch. */
export type Watch = (onLost: () => void) => () => void;

/** The state of the protected paths, as a search has found it. */
interface Seen {
  readonly present: readonly PresentPath[];
  /** Entries called `.handfast` in the workspace. */
  readonly secrets: readonly PresentPath[];
}

/** Searches a workspace for the covers of all programs that run in it. */
class Searches {
  readonly #guard: PathGuard;
  readonly #workspace: string;
  readonly #onIdle: () => void;
  readonly #checks = new Set<(seen: Seen | undefined) => void>();
  #timer: NodeJS.Timeout | undefined;
  #isSearching = false;

  /** @param onIdle called when the last program has ended */
  constructor(guard: PathGuard, workspace: string, onIdle: () => void) {
    this.#guard = guard;
    this.#workspace = workspace;
    this.#onIdle = onIdle;
  }

  /** Calls `check` after each search; with undefined where the workspace cannot be searched. */
  add(check: (seen: Seen | undefined) => void): () => void {
    this.#checks.add(check);
    this.#plan(SEARCH_MS);
    return () => {
      if (!this.#checks.delete(check) || this.#checks.size > 0) return;
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#onIdle();
    };
  }

  #plan(ms: number): void {
    if (this.#timer !== undefined || this.#isSearching || this.#checks.size === 0) return;
    this.#timer = setTimeout(() => void this.#search(), ms).unref();
  }

  async #search(): Promise<void> {
    this.#timer = undefined;
    this.#isSearching = true;
    const started = performance.now();
    let seen: Seen | undefined;
    try {
      const secrets = await secretNames(this.#workspace);
      seen = { present: this.#guard.present(), secrets };
    } catch {
      // The workspace has too many entries by now.
    }
    this.#isSearching = false;
    this.#plan(Math.max(SEARCH_MS, SEARCH_SHARE * (performance.now() - started)));
    for (const check of [...this.#checks]) check(seen);
  }
}

/** Of the workspaces in which programs run, by guard and workspace. */
const searches = new WeakMap<PathGuard, Map<string, Searches>>();

function searchesOf(guard: PathGuard, workspace: string): Searches {
  const known = searches.get(guard) ?? new Map<string, Searches>();
  searches.set(guard, known);
  const found = known.get(workspace) ?? new Searches(guard, workspace, () => known.delete(workspace));
  known.set(workspace, found);
  return found;
}

export interface CoverWatchOptions {
  readonly guard: PathGuard;
  /** Absolute real path. */
  readonly workspace: string;
  /** The findings of the guard, and of the search of the workspace, when the cover was made. */
  readonly present: readonly PresentPath[];
  readonly places: readonly PresentPath[];
}

/**
 * Watches the covers of one program from now on. Fails with `tool_denied`, reason `protected_path`, where the system has no room for the
 * watch.
 */
export function watchCovers({ guard, workspace, present, places }: CoverWatchOptions): {
  readonly watch: Watch;
  readonly end: () => void;
} {
  const hidden = [...present, ...places].filter(({ deny }) => deny === 'all');
  const covered = new Set(hidden.map(({ identity }) => identity));
  const isSafe = (path: string): boolean => isHidden(path, hidden);
  const isCovered = ({ path, identity }: PresentPath): boolean => covered.has(identity) || isSafe(path);
  const parents = [...guard.folders(), ...hidden.map(({ path }) => dirname(path))];
  // The host replaces its own files in a hidden folder while programs run.
  const folders = new Set(parents.filter((folder) => !isSafe(join(realPathOf(folder), '*'))));
  /** Each folder on the way to a protected path, as it is now. */
  const above = new Map<string, string | undefined>();
  for (const folder of folders) {
    for (let path = folder; dirname(path) !== path; path = dirname(path)) {
      if (!isSafe(path)) above.set(path, entityAt(path));
    }
  }
  const names = new Set(hidden.map(({ path }) => path));
  const isNamed = (folder: string, name: string): boolean =>
    !isSafe(join(folder, name)) && (names.has(join(folder, name)) || guard.protects(folder, name));

  let onLost: (() => void) | undefined;
  let isLost = false;
  const watchers: FSWatcher[] = [];
  let endSearches = (): void => {};
  const end = (): void => {
    for (const watcher of watchers.splice(0)) watcher.close();
    endSearches();
  };
  const lose = (): void => {
    if (isLost) return;
    isLost = true;
    end();
    onLost?.();
  };
  const isChanged = (now: readonly PresentPath[]): boolean =>
    now.some((each) => each.deny === 'all' && !isCovered(each)) ||
    places.some(({ path, identity }) => !isSafe(path) && isOther(identity, entityAt(path, lstatSync))) ||
    [...above].some(([path, identity]) => isOther(identity, entityAt(path)));
  const check = (): void => {
    if (!isLost && isChanged(guard.present())) lose();
  };
  const onEvent = (folder: string, event: string, name: string | null): void => {
    // Other events change the content of a file, not its identity.
    if (event !== 'rename') return;
    if (name === null || above.has(join(folder, name))) return check();
    // The entry is a new one, also where it has the inode of the one before.
    if (isNamed(folder, name) && statsOf(join(folder, name), lstatSync) !== undefined) lose();
  };
  try {
    for (const folder of new Set([...folders, ...[...above.keys()].map(dirname)])) {
      const watcher = watching(folder, (event, name) => onEvent(folder, event, name));
      if (watcher !== undefined) watchers.push(watcher);
    }
  } catch (error) {
    end();
    throw error;
  }
  endSearches = searchesOf(guard, workspace).add((seen) => {
    if (isLost) return;
    if (seen === undefined || !seen.secrets.every(isCovered) || isChanged(seen.present)) lose();
  });
  const watch: Watch = (given) => {
    onLost = given;
    if (isLost) given();
    else check();
    return end;
  };
  return { watch, end };
}

/**
 * Watches for folders called `.handfast` that are created in a view of the workspace.
 * @param isShown returns true if the view shows an entry that appears there
 */
export function watchView(
  guard: PathGuard,
  workspace: string,
  places: readonly PresentPath[],
  isShown: (path: string) => boolean,
): Watch {
  const covered = new Set(places.map(({ identity }) => identity));
  return (onLost) => {
    const end = searchesOf(guard, workspace).add((seen) => {
      const isNew = ({ identity, path }: PresentPath): boolean => !covered.has(identity) && isShown(path);
      if (seen !== undefined && !seen.secrets.some(isNew)) return;
      end();
      onLost();
    });
    return end;
  };
}

/** Returns a watcher of a folder; undefined if it does not exist. The events of the folder above then show its creation. */
function watching(folder: string, onEvent: (event: string, name: string | null) => void): FSWatcher | undefined {
  try {
    const watcher = watch(folder, { persistent: false }, onEvent);
    // A folder that was removed has no names.
    watcher.on('error', () => watcher.close());
    return watcher;
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === 'ENOENT' || reason === 'ENOTDIR' || reason === 'EACCES') return undefined;
    throw notCovered(`the system watches no more folders (${reason}); raise fs.inotify.max_user_watches`);
  }
}

function entityAt(path: string, look?: typeof lstatSync): string | undefined {
  const stats = statsOf(path, look);
  return stats && entityOf(stats);
}

/** Returns true if a path leads to another file now. A missing file shows nothing. */
const isOther = (before: string | undefined, now: string | undefined): boolean => now !== undefined && now !== before;
