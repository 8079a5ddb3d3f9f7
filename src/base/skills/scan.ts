/**
 * Finds the skills on disk: every `SKILL.md` below the search roots.
 *
 * Links are followed, as users link their skills into several places; a tree that links back into itself is walked
 * once. Nothing outside of a confined root is read. A file that cannot be read is reported and skipped, so that one
 * broken skill never hides the others.
 */
import type { Dirent } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, sep } from 'node:path';
import { readBounded } from '../bounded-file.ts';
import { descriptionOf } from './text.ts';

/** A skill as it was found. */
export interface FoundSkill {
  /** Name of its directory. */
  readonly name: string;
  readonly description: string;
  /** Absolute path of its `SKILL.md`, as it was reached. */
  readonly sourcePath: string;
  /** The whole text. */
  readonly text: string;
}

export interface SkillScan {
  /** Sorted by name, then path. */
  readonly skills: readonly FoundSkill[];
  /** One line for each skill that could not be read, with the reason. */
  readonly errors: readonly string[];
}

/** Returns true if exactly this content of a `SKILL.md` may be used, although it came with a folder. */
export type SkillTrust = (path: string, bytes: Uint8Array) => Promise<boolean>;

/** A folder that is searched. */
export interface SkillRoot {
  readonly path: string;
  /** True below the working directory's repository: its author, not this user, wrote the files. */
  readonly foreign: boolean;
  /** True: links that lead out of it are reported and not followed. */
  readonly confined?: boolean;
}

/** Folders that are searched for skills. */
export interface SkillPlaces {
  /** Absolute path of the working directory. */
  readonly cwd: string;
  /** Absolute path of the data directory; its `skills` is searched. */
  readonly dataDirectory: string;
  /** Absolute path of the user's home. */
  readonly home: string;
}

const FILE_NAME = 'SKILL.md';
/** Levels below a root, and directories of one root, that are looked at. */
const MAX_LEVELS = 6;
const MAX_DIRECTORIES = 2000;
/** A larger skill would fill the context of most models. */
export const MAX_SKILL_TEXT_BYTES = 256 * 1024;
/** Most errors in a result. */
const MAX_ERRORS = 100;

/**
 * Returns the search roots, in order: `.agents/skills` from the repository's root down to the working directory if it
 * exists, `skills` of the data directory, `.agents/skills` of the home directory. The last two are named even when
 * missing.
 */
export async function skillRoots({ cwd, dataDirectory, home }: SkillPlaces): Promise<readonly SkillRoot[]> {
  const own = [join(dataDirectory, 'skills'), join(home, '.agents', 'skills')];
  const roots: SkillRoot[] = [];
  for (const directory of await fromRepositoryRoot(cwd)) {
    const path = join(directory, '.agents', 'skills');
    if (!own.includes(path) && (await isDirectory(path))) roots.push({ path, foreign: true });
  }
  return [...roots, ...[...new Set(own)].map((path) => ({ path, foreign: false }))];
}

/**
 * Scans the roots in order; if a file is reached twice, the first path counts. In a foreign root only files that
 * `trust` accepts are read as skills; the rest is reported. Never rejects.
 */
export async function scanSkills(roots: readonly SkillRoot[], trust: SkillTrust): Promise<SkillScan> {
  const scan: Scan = { errors: [], skills: new Map(), trust };
  for (const root of roots) await scanRoot(root, scan);
  const sorted = [...scan.skills.values()].sort(
    (one, other) => compare(one.name, other.name) || compare(one.sourcePath, other.sourcePath),
  );
  return { skills: sorted, errors: scan.errors.slice(0, MAX_ERRORS) };
}

/** One scan while it runs. */
interface Scan {
  readonly errors: string[];
  /** By real path. */
  readonly skills: Map<string, FoundSkill>;
  readonly trust: SkillTrust;
}

/** Rules that apply below a root. */
interface Rules {
  readonly foreign: boolean;
  /** Real path that nothing may lead out of. */
  readonly within: string | undefined;
}

const leadsOut = (real: string, within: string | undefined): boolean =>
  within !== undefined && real !== within && !real.startsWith(within.endsWith(sep) ? within : `${within}${sep}`);

const compare = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0);

async function scanRoot({ path: root, foreign, confined = false }: SkillRoot, scan: Scan): Promise<void> {
  if (!(await isDirectory(root))) return;
  const within = confined ? await realpath(root) : undefined;
  const seen = new Set<string>();
  // Level by level: when a root is too large, the deepest entries are left out.
  let level = [root];
  for (let depth = 0; level.length > 0 && depth <= MAX_LEVELS; depth += 1) {
    const below: string[] = [];
    for (const directory of level) {
      const real = await realpath(directory).catch(() => undefined);
      if (real === undefined || seen.has(real)) continue;
      if (seen.size >= MAX_DIRECTORIES) {
        scan.errors.push(`${root}: more than ${MAX_DIRECTORIES} directories; the rest is not searched`);
        return;
      }
      seen.add(real);
      if (leadsOut(real, within)) scan.errors.push(`${directory}: leads out of ${root}`);
      else below.push(...(await scanDirectory(directory, { foreign, within }, scan)));
    }
    level = below;
  }
}

/** Adds the skill of one directory; returns the directories in it. */
async function scanDirectory(directory: string, rules: Rules, scan: Scan): Promise<readonly string[]> {
  let entries: Dirent[];
  try {
    entries = await readdir(directory, { withFileTypes: true });
  } catch (error) {
    scan.errors.push(`${directory}: cannot be listed (${reasonOf(error)})`);
    return [];
  }
  const below: string[] = [];
  for (const entry of entries.sort((one, other) => compare(one.name, other.name))) {
    const path = join(directory, entry.name);
    if (entry.name === FILE_NAME) await addSkill(path, rules, scan);
    else if (
      !entry.name.startsWith('.') &&
      (entry.isDirectory() || (entry.isSymbolicLink() && (await isDirectory(path))))
    )
      below.push(path);
  }
  return below;
}

async function addSkill(path: string, { foreign, within }: Rules, { skills, errors, trust }: Scan): Promise<void> {
  try {
    const real = await realpath(path);
    if (leadsOut(real, within)) {
      errors.push(`${path}: leads out of its root`);
      return;
    }
    if (skills.has(real)) return;
    const read = readBounded(real, MAX_SKILL_TEXT_BYTES);
    if (read.kind !== 'file') {
      errors.push(`${path}: ${read.kind === 'absent' ? 'leads nowhere' : read.reason}`);
      return;
    }
    // Before a byte of it is interpreted.
    if (foreign && !(await trust(path, read.bytes))) {
      errors.push(`${path}: is not trusted; to look at it and trust it, run: handfast trust add`);
      return;
    }
    const text = read.bytes.toString('utf8');
    if (text.trim() === '') errors.push(`${path}: is empty`);
    else {
      const name = basename(dirname(path));
      skills.set(real, { name, description: descriptionOf(text), sourcePath: path, text });
    }
  } catch (error) {
    errors.push(`${path}: ${reasonOf(error)}`);
  }
}

/** Returns the directories from the nearest ancestor that holds `.git` down to `cwd`; `cwd` alone outside a repository. */
async function fromRepositoryRoot(cwd: string): Promise<string[]> {
  const upwards: string[] = [];
  for (let directory = cwd; ; directory = dirname(directory)) {
    upwards.push(directory);
    if (await exists(join(directory, '.git'))) return upwards.reverse();
    if (dirname(directory) === directory) return [cwd];
  }
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

const isDirectory = (path: string): Promise<boolean> =>
  stat(path).then(
    (stats) => stats.isDirectory(),
    () => false,
  );

/** Returns errno names instead of the system's sentences, which repeat the path. */
function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' ? 'leads nowhere' : (code ?? message);
}
