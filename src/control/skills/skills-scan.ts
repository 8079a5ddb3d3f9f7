/**
 * Finds the skills on disk: every `SKILL.md` below the search roots. Called by `skills.ts`.
 *
 * Links are followed, as users link their skills into several places; a tree that links back into itself is walked once.
 * A file that cannot be read is reported and skipped, so that one broken skill never hides the others.
 */
import type { Dirent } from 'node:fs';
import { open, readdir, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { descriptionOf } from './skills-text.ts';

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
  /** One line each: what could not be read, and why. */
  readonly errors: readonly string[];
}

/** Where skills are looked for. */
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
const MAX_BYTES = 256 * 1024;
/** Most errors in a result. */
const MAX_ERRORS = 100;

/**
 * The search roots, in order: `.agents/skills` from the repository's root down to the working directory where it exists,
 * `skills` of the data directory, `.agents/skills` of the home directory. The last two are named even when missing.
 */
export async function skillDirectories({ cwd, dataDirectory, home }: SkillPlaces): Promise<string[]> {
  const project: string[] = [];
  for (const directory of await fromRepositoryRoot(cwd)) {
    const candidate = join(directory, '.agents', 'skills');
    if (await isDirectory(candidate)) project.push(candidate);
  }
  return [...new Set([...project, join(dataDirectory, 'skills'), join(home, '.agents', 'skills')])];
}

/** Scans the roots in order; of a file that is reached twice the first path counts. Never rejects. */
export async function scanSkills(directories: readonly string[]): Promise<SkillScan> {
  const errors: string[] = [];
  const skills = new Map<string, FoundSkill>();
  for (const root of directories) await scanRoot(root, skills, errors);
  const sorted = [...skills.values()].sort(
    (one, other) => compare(one.name, other.name) || compare(one.sourcePath, other.sourcePath),
  );
  return { skills: sorted, errors: errors.slice(0, MAX_ERRORS) };
}

const compare = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0);

async function scanRoot(root: string, skills: Map<string, FoundSkill>, errors: string[]): Promise<void> {
  if (!(await isDirectory(root))) return;
  const seen = new Set<string>();
  // Level by level: when a root is too large, what lies deepest is left out.
  let level = [root];
  for (let depth = 0; level.length > 0 && depth <= MAX_LEVELS; depth += 1) {
    const below: string[] = [];
    for (const directory of level) {
      const real = await realpath(directory).catch(() => undefined);
      if (real === undefined || seen.has(real)) continue;
      if (seen.size >= MAX_DIRECTORIES) {
        errors.push(`${root}: more than ${MAX_DIRECTORIES} directories; the rest is not searched`);
        return;
      }
      seen.add(real);
      below.push(...(await scanDirectory(directory, skills, errors)));
    }
    level = below;
  }
}

/** Takes the skill of one directory in; returns the directories in it. */
async function scanDirectory(
  directory: string,
  skills: Map<string, FoundSkill>,
  errors: string[],
): Promise<readonly string[]> {
  let entries: Dirent[];
  try {
    entries = await readdir(directory, { withFileTypes: true });
  } catch (error) {
    errors.push(`${directory}: cannot be listed (${reasonOf(error)})`);
    return [];
  }
  const below: string[] = [];
  for (const entry of entries.sort((one, other) => compare(one.name, other.name))) {
    const path = join(directory, entry.name);
    if (entry.name === FILE_NAME) await takeIn(path, skills, errors);
    else if (
      !entry.name.startsWith('.') &&
      (entry.isDirectory() || (entry.isSymbolicLink() && (await isDirectory(path))))
    )
      below.push(path);
  }
  return below;
}

async function takeIn(path: string, skills: Map<string, FoundSkill>, errors: string[]): Promise<void> {
  try {
    const real = await realpath(path);
    if (skills.has(real)) return;
    const text = await readText(path);
    if (text.trim() === '') errors.push(`${path}: is empty`);
    else {
      const name = basename(dirname(path));
      skills.set(real, { name, description: descriptionOf(text), sourcePath: path, text });
    }
  } catch (error) {
    errors.push(`${path}: ${reasonOf(error)}`);
  }
}

async function readText(path: string): Promise<string> {
  // Checked before it is opened: opening a FIFO would wait for a writer.
  const { size } = await regular(path);
  if (size > MAX_BYTES) throw new Error(`is larger than ${MAX_BYTES} bytes`);
  const handle = await open(path);
  try {
    const buffer = Buffer.alloc(MAX_BYTES);
    const { bytesRead } = await handle.read(buffer, 0, MAX_BYTES, 0);
    return buffer.toString('utf8', 0, bytesRead);
  } finally {
    await handle.close();
  }
}

async function regular(path: string): Promise<{ size: number }> {
  const stats = await stat(path);
  if (!stats.isFile()) throw new Error('is not a file');
  return stats;
}

/** The directories from the nearest ancestor that holds `.git` down to `cwd`; `cwd` alone outside a repository. */
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

/** Errno names instead of the system's sentences, which repeat the path. */
function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' ? 'leads nowhere' : (code ?? message);
}
