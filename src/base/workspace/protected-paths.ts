/**
 * Paths that the tools of restricted principals neither read nor change, wherever they lie: configuration, tokens,
 * data, journals, audit; and paths that may be read but not changed, because they run or decide rights.
 *
 * A path is known by its identity, not by its spelling: by device and inode, and by its name in a folder that is known
 * by device and inode. So links, renames, bind mounts, case and `..` do not help, and a protected name that does not
 * exist yet cannot be created. Every entry on the way to a path is checked, and every folder and file of a search.
 *
 * Its calls are synchronous: some stats for each tool call.
 */
import { lstatSync, readdirSync, readlinkSync, realpathSync, type Stats, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { fail, type HandfastError } from '../../wire/errors.ts';
import { setNewest } from '../evict-oldest.ts';
import { shown } from './file-error.ts';

/** A protected path. */
export interface ProtectedPath {
  /** Absolute. Need not exist. */
  readonly path: string;
  /**
   * - `folder`: with everything in it
   * - `file`: this name
   * - `database`: with the files that SQLite and its owner put beside it, `<name>-…` and `<name>.…`
   * - `audit`: with rotated files, and those of further processes
   */
  readonly kind: 'folder' | 'file' | 'database' | 'audit';
  /** `all`: neither read nor changed. `changes`: may be read. */
  readonly deny: Denial;
  /** Real path of a workspace in this folder, which stays open. Then `path` is a real path too. */
  readonly except?: string | undefined;
}

/** A protected file with several names. */
export interface LinkedFile {
  readonly path: string;
  readonly deny: Denial;
  /** Number of its names. */
  readonly links: number;
  /** Names at protected paths. */
  readonly names: Set<string>;
}

/** A file or folder that exists at a protected path. */
export interface PresentPath {
  /** Real path. */
  readonly path: string;
  readonly isFolder: boolean;
  readonly deny: Denial;
  /** Of the file or folder that is there, by {@link entityOf}. */
  readonly identity: string;
  /** See {@link ProtectedPath}. */
  readonly except?: string | undefined;
}

/** Returns true for a path in a folder whose cover hides everything in it, also files that appear there later. */
export const isHidden = (path: string, covers: readonly PresentPath[]): boolean =>
  covers.some(({ path: folder, deny, except }) => deny === 'all' && isIn(path, folder) && !isAtOrIn(path, except));

const isIn = (path: string, folder: string): boolean => path.startsWith(`${folder}/`);
const isAtOrIn = (path: string, folder: string | undefined): boolean =>
  folder !== undefined && (path === folder || isIn(path, folder));

export type Denial = 'all' | 'changes';

/** The intended access of a caller. */
export type Access = 'read' | 'change';

/**
 * Names that no restricted principal changes in any folder: git runs files of its folder, and the next `handfast` that
 * starts beside a configuration uses it.
 */
const UNCHANGEABLE_NAMES = new Set(['.git', 'handfast.yaml', 'fleet.yaml']);
/** The folder of a user, also of one that this server does not use: secrets. */
const SECRET_NAME = '.handfast';
/** Returns true for the name of the folder of a user. */
export const isSecretName = (name: string): boolean => folded(name) === SECRET_NAME;
/** The environments of processes hold tokens, and their links lead to every file. */
const PROCESSES = '/proc';
/** Copies of repositories in data folders: they hold no secret, and are large. */
const NOT_SCANNED = new Set(['worktrees']);
/** Entries of data folders that are looked at for hard links. In larger ones every file with several links counts as theirs. */
const MAX_SCANNED = 5_000;
/** Identities remembered; the oldest go first. */
const MAX_KNOWN = 16_384;
/** Lag of the file system's clock behind that of the process, milliseconds, at most. */
const CLOCK_SLACK_MS = 50;

/** Facts about a file or folder that is, or was, at a protected path. */
interface Known {
  readonly deny: Denial;
  /** Distinguishes it from a later file with the same inode. */
  readonly generation: number;
  /** The check at which it was last found at its path. */
  readonly round: number;
}

/** A protected name in a folder. */
interface ProtectedName {
  readonly kind: ProtectedPath['kind'];
  readonly deny: Denial;
  readonly name: string;
}

/** Names in one folder. */
interface NamesIn {
  readonly generation: number;
  readonly rules: Map<string, ProtectedName & { readonly matches: (name: string) => boolean }>;
}

/** A guard's knowledge as plain data, with the former locations of the paths. */
export interface GuardMemory {
  readonly paths: readonly ProtectedPath[];
  readonly known: readonly (readonly [key: string, Known])[];
  readonly names: readonly (readonly [key: string, generation: number, rules: readonly ProtectedName[]])[];
}

type Place = Pick<Stats, 'dev' | 'ino'>;

/** Returns the identity of a file or folder under any name. */
export const identityOf = ({ dev, ino }: Place): string => `${dev}:${ino}`;

/**
 * Returns an identity that also distinguishes a file from a later one with its inode, if the file system stores times
 * of birth.
 */
export const entityOf = ({ dev, ino, birthtimeMs }: Stats): string => `${dev}:${ino}:${birthtimeMs}`;

/** Returns the birth time. File systems without it have a weaker sign: a moved file keeps its time of change. */
const generationOf = (stats: Stats): number => stats.birthtimeMs || (stats.isDirectory() ? 0 : stats.mtimeMs);

/**
 * Folds a name as file systems do that compare names without case and composition; both steps, since ſ is another small
 * s.
 */
const folded = (name: string): string => name.normalize('NFC').toUpperCase().toLowerCase();

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');

/** Returns true for names that belong to a protected one. */
function family(kind: ProtectedPath['kind'], name: string): (name: string) => boolean {
  const own = folded(name);
  if (kind === 'file' || kind === 'folder') return (other) => other === own;
  if (kind === 'database') {
    return (other) => other === own || other.startsWith(`${own}-`) || other.startsWith(`${own}.`);
  }
  const [, stem = '', ending = ''] = /^(.*?)(\.[^.]*)?$/.exec(own) ?? [];
  const rotated = new RegExp(`^${escaped(stem)}(?:-\\d+)?${escaped(ending)}(?:\\..*)?$`);
  return (other) => rotated.test(other);
}

/** Returns `tool_denied`, `detail.reason: 'protected_path'`; `path` in the caller's spelling. */
export function protectedPath(path: string): HandfastError {
  return fail('tool_denied', `"${shown(path)}" is protected: only an administrator may use it`, {
    reason: 'protected_path',
    path: shown(path),
  });
}

/** Returns true when a denial forbids an access. */
export const denies = (denial: Denial | undefined, access: Access): boolean =>
  denial === 'all' || (denial === 'changes' && access === 'change');

/** Returns the stronger of two denials. */
export const stronger = (one: Denial | undefined, other: Denial | undefined): Denial | undefined =>
  one === 'all' || other === undefined ? one : other;

export class PathGuard {
  readonly #paths: ProtectedPath[] = [];
  readonly #known = new Map<string, Known>();
  readonly #names = new Map<string, NamesIn>();
  #round = 0;
  /** Start of the last scan, epoch milliseconds; -1 before the first. */
  #scannedAt = -1;
  #scanIsPartial = false;

  constructor(paths: readonly ProtectedPath[]) {
    this.protect(paths);
  }

  /** Protects further paths. Protected paths stay protected. */
  protect(paths: readonly ProtectedPath[]): void {
    for (const { path, kind, deny, except } of paths) {
      const added = { path: resolve(path), kind, deny, except };
      const isKnown = this.#paths.some((one) => one.path === added.path && one.kind === kind && one.deny === deny);
      if (!isKnown) this.#paths.push(added);
    }
  }

  /** Returns another guard with the knowledge of this one: for a thread. */
  static recall({ paths, known, names }: GuardMemory): PathGuard {
    const guard = new PathGuard(paths);
    for (const [key, each] of known) guard.#known.set(key, { ...each, round: -1 });
    for (const [key, generation, rules] of names) for (const rule of rules) guard.#addName(key, generation, rule);
    return guard;
  }

  /** Returns the data for {@link recall}. */
  memory(): GuardMemory {
    const names = [...this.#names].map(([key, { generation, rules }]) => {
      const plain = [...rules.values()].map(({ kind, deny, name }) => ({ kind, deny, name }));
      return [key, generation, plain] as const;
    });
    return { paths: this.#paths, known: [...this.#known], names };
  }

  /** Finds out where the protected paths are now. Called once for each tool call, before anything else is asked. */
  refresh(): void {
    this.#round += 1;
    for (const each of this.#paths) this.#locate(each);
    const processes = statsOf(PROCESSES);
    if (processes !== undefined) this.#remember(processes, 'all', this.#round);
    if (this.#scannedAt < 0) this.#scan();
  }

  /** Returns the existing files and folders at the protected paths, by real path: for a sandbox to cover. */
  present(): readonly PresentPath[] {
    return this.#paths.flatMap(({ path, kind, deny, except }) => {
      const isSingle = kind === 'folder' || kind === 'file';
      const matches = family(kind, basename(path));
      const names = isSingle ? [basename(path)] : namesIn(dirname(path)).filter((name) => matches(folded(name)));
      return names.flatMap((name) => {
        const stats = statsOf(join(dirname(path), name));
        if (stats === undefined) return [];
        const isFolder = stats.isDirectory();
        return { path: realpathSync(join(dirname(path), name)), isFolder, deny, identity: entityOf(stats), except };
      });
    });
  }

  /**
   * Returns the protected files that have hard links, by {@link identityOf}. Undefined if the data folders hold too
   * many files to scan: each file with several names can then be one of theirs.
   */
  linked(): ReadonlyMap<string, LinkedFile> | undefined {
    const found = new Map<string, LinkedFile>();
    const add = (path: string, deny: Denial, stats: Stats | undefined): void => {
      if (stats?.isFile() !== true || stats.nlink < 2) return;
      const before = found.get(identityOf(stats));
      const strongest = stronger(before?.deny, deny) ?? deny;
      const names = (before?.names ?? new Set<string>()).add(path);
      found.set(identityOf(stats), { path, deny: strongest, links: stats.nlink, names });
    };
    const isWhole = this.#visit((path, stats) => add(path, 'all', stats));
    for (const { path, deny } of this.present()) if (deny === 'changes') add(path, deny, statsOf(path, lstatSync));
    return isWhole ? found : undefined;
  }

  /** Returns true if the name, in this folder, belongs to a protected path. */
  protects(folder: string, name: string): boolean {
    const plain = folded(name);
    return this.#paths.some(({ path, kind }) => dirname(path) === folder && family(kind, basename(path))(plain));
  }

  /** Returns the folders of protected files, whose names change while programs run. */
  folders(): ReadonlySet<string> {
    return new Set(this.#paths.filter(({ deny }) => deny === 'all').map(({ path }) => dirname(path)));
  }

  /** Returns the denial of a workspace that lies in a protected folder, or is one. */
  above(workspace: string): Denial | undefined {
    let denial: Denial | undefined;
    for (let path = workspace; ; path = dirname(path)) {
      const stats = statsOf(path);
      if (stats !== undefined) denial = stronger(denial, this.#identity(stats));
      if (dirname(path) === path) return denial;
    }
  }

  /**
   * Returns the denial of an entry: by its name in its folder, and by its identity. `stats` is undefined for a missing
   * entry.
   */
  entry(folder: Stats, name: string, stats: Stats | undefined): Denial | undefined {
    const plain = folded(name);
    if (plain === SECRET_NAME) return 'all';
    let denial: Denial | undefined = UNCHANGEABLE_NAMES.has(plain) ? 'changes' : undefined;
    const names = this.#names.get(identityOf(folder));
    if (names !== undefined && names.generation === generationOf(folder)) {
      for (const { matches, deny } of names.rules.values()) if (matches(plain)) denial = stronger(denial, deny);
    }
    return stats === undefined ? denial : stronger(denial, this.opened(stats));
  }

  /** Returns the denial of a file or folder by its identity: for a file that was just opened. */
  opened(stats: Stats): Denial | undefined {
    const denial = this.#identity(stats);
    if (denial === 'all' || !stats.isFile() || stats.nlink < 2) return denial;
    // Another of its names may be in a protected folder. A link changes the time of the inode: a file that was linked
    // since the last scan is newer than the scan.
    if (stats.ctimeMs + CLOCK_SLACK_MS >= this.#scannedAt) this.#scan();
    return this.#scanIsPartial ? 'all' : stronger(denial, this.#identity(stats));
  }

  #identity(stats: Stats): Denial | undefined {
    const known = this.#known.get(identityOf(stats));
    if (known === undefined) return undefined;
    const isSame = known.round === this.#round || stats.nlink > 1 || known.generation === generationOf(stats);
    return isSame ? known.deny : undefined;
  }

  #locate({ path, kind, deny, except }: ProtectedPath): void {
    if (except !== undefined) return this.#locateAround(path, except, deny);
    const stats = statsOf(path, lstatSync);
    if (stats === undefined) return this.#anchor(path, kind, deny);
    if (kind !== 'folder') this.#protectName(path, kind, deny);
    if (!stats.isSymbolicLink()) return this.#remember(stats, deny, this.#round);
    const target = statsOf(path);
    // The creator of a link's target decides its content.
    if (target === undefined) return this.#anchor(resolve(realpathSync(dirname(path)), readlinkSync(path)), kind, deny);
    this.#remember(target, deny, this.#round);
    if (kind !== 'folder') this.#protectName(realpathSync(path), kind, deny);
  }

  /** Records the entries of a folder that do not lead to the workspace in it. */
  #locateAround(folder: string, workspace: string, deny: Denial): void {
    for (let above = dirname(workspace); isAtOrIn(above, folder); above = dirname(above)) {
      for (const name of namesIn(above)) {
        const path = join(above, name);
        const stats = isAtOrIn(workspace, path) ? undefined : statsOf(path);
        if (stats !== undefined) this.#remember(stats, deny, this.#round);
      }
    }
  }

  /** Protects a path that does not exist: neither the first missing name on the way nor the name itself can be created. */
  #anchor(path: string, kind: ProtectedPath['kind'], deny: Denial): void {
    for (let missing = path; ; missing = dirname(missing)) {
      const isWhole = missing === path;
      if (this.#protectName(missing, isWhole ? kind : 'file', isWhole ? deny : 'changes')) return;
      if (dirname(missing) === missing) return;
    }
  }

  /** Protects a name in its folder; false when the folder does not exist. */
  #protectName(path: string, kind: ProtectedPath['kind'], deny: Denial): boolean {
    const folder = statsOf(dirname(path));
    if (folder?.isDirectory() !== true) return false;
    this.#addName(identityOf(folder), generationOf(folder), { kind, deny, name: basename(path) });
    return true;
  }

  #addName(key: string, generation: number, rule: ProtectedName): void {
    let names = this.#names.get(key);
    if (names?.generation !== generation) {
      names = { generation, rules: new Map() };
      this.#names.set(key, names);
    }
    const { kind, deny, name } = rule;
    const id = `${kind} ${deny} ${name}`;
    if (!names.rules.has(id)) names.rules.set(id, { ...rule, matches: family(kind, name) });
  }

  #remember(stats: Stats, deny: Denial, round: number): void {
    const key = identityOf(stats);
    const known = this.#known.get(key);
    if (round < 0 && known?.round === this.#round) return;
    const generation = generationOf(stats);
    const before = known?.generation === generation ? known.deny : undefined;
    setNewest(this.#known, key, { deny: stronger(before, deny) ?? deny, generation, round }, MAX_KNOWN);
  }

  /** Remembers every file of the protected folders, and of the families of protected files, for their hard links. */
  #scan(): void {
    this.#scannedAt = Date.now();
    this.#scanIsPartial = !this.#visit((_path, stats) => {
      if (stats?.isFile() === true) this.#remember(stats, 'all', -1);
    });
  }

  /** Calls `seen` with every entry that may not be read. Returns false if they are more than {@link MAX_SCANNED}. */
  #visit(seen: (path: string, stats: Stats | undefined) => void): boolean {
    let left = MAX_SCANNED;
    const open = new Set(this.#paths.map(({ except }) => except));
    const visit = (folder: string, matches: (name: string) => boolean, isDeep: boolean): void => {
      for (const name of namesIn(folder)) {
        if (!matches(folded(name)) || left === 0) continue;
        left -= 1;
        const path = join(folder, name);
        const stats = statsOf(path, lstatSync);
        seen(path, stats);
        const isEntered = isDeep && !NOT_SCANNED.has(name) && !open.has(path);
        if (isEntered && stats?.isDirectory() === true) visit(path, matches, isDeep);
      }
    };
    for (const { path, kind, deny } of this.#paths) {
      if (deny !== 'all') continue;
      if (kind === 'folder') visit(path, () => true, true);
      else visit(dirname(path), family(kind, basename(path)), false);
    }
    return left > 0;
  }
}

/** Returns the stats; undefined for a missing path, and for one that this process may not even look at. */
export function statsOf(path: string, look: typeof statSync = statSync): Stats | undefined {
  try {
    return look(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/** Returns the real path; for a path that does not exist, that of its existing part. */
export function realPathOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return dirname(path) === path ? path : join(realPathOf(dirname(path)), basename(path));
  }
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
