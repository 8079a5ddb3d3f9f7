/**
 * The skills of a host: those of all roots, with their versions, and the faults of the others. Scanned again when they are
 * listed and when a call finds that its files have changed.
 *
 * An earlier root wins: of two skills of the same name and version the second is reported. A name means its newest version in
 * the first root that has it.
 */
import { statSync } from 'node:fs';
import { basename, dirname, relative } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { SerialWork } from '../../../base/serial-work.ts';
import { MAX_SKILL_TEXT_BYTES, type SkillRoot, scanSkills } from '../../../base/skills/scan.ts';
import { failure } from '../errors.ts';
import { ownedWell, readSkillFiles, type SkillFiles, textOf } from './files.ts';
import { readSkillFile, type SkillFacts } from './skill-file.ts';

export interface TrustedRoot {
  /** Absolute. */
  readonly path: string;
  readonly source: 'user' | 'system' | 'project';
}

/** A skill that a scan found. Its files are read again for every run. */
export interface Skill extends SkillFacts {
  readonly root: TrustedRoot;
  /** Absolute path of its folder. */
  readonly folder: string;
  /** Path of its `SKILL.md` below the root. */
  readonly file: string;
  readonly manifest: SkillFiles['manifest'];
  readonly digest: string;
}

export interface Problem {
  /** Absolute. */
  readonly path: string;
  readonly message: string;
}

export interface Listing {
  /** The version that each name means. */
  readonly skills: ReadonlyMap<string, Skill>;
  readonly problems: readonly Problem[];
}

/** A skill with the bytes that run. */
export interface LoadedSkill {
  readonly skill: Skill;
  readonly files: ReadonlyMap<string, Buffer>;
}

const SKILL_FILE = 'SKILL.md';
const MAX_PROBLEMS = 100;
/**
 * Maximum time for checking the schemas of all skills in one scan. The first call of a skill finds the problems of the rest.
 */
const SCHEMAS_MS = 2_000;
/** Number of attempts of a call whose files change while it reads them. */
const MAX_READS = 3;

export class Library {
  readonly #roots: readonly TrustedRoot[];
  readonly #freshMs: number;
  readonly #now: () => number;
  readonly #work = new SerialWork();
  /** The versions of each name, the one it means first. */
  #versions = new Map<string, readonly Skill[]>();
  #problems: readonly Problem[] = [];
  #scannedAt = Number.NEGATIVE_INFINITY;
  readonly #onChange: () => void;

  /**
   * @param freshMs maximum age of a scan that serves a list
   * @param onChange called when a scan found other skills than the one before
   * @param now monotonic milliseconds
   */
  constructor(roots: readonly TrustedRoot[], freshMs: number, onChange: () => void, now = () => performance.now()) {
    this.#roots = roots;
    this.#freshMs = freshMs;
    this.#onChange = onChange;
    this.#now = now;
  }

  async list(): Promise<Listing> {
    await this.#scan(this.#freshMs);
    return {
      skills: new Map([...this.#versions].map(([name, [first]]) => [name, first as Skill])),
      problems: this.#problems,
    };
  }

  /**
   * Returns the versions of a skill, the one that its name means first; undefined: no root has that name. Fails with
   * `unknown_skill`.
   */
  async versions(name: string, version = ''): Promise<readonly [Skill, ...Skill[]] | undefined> {
    await this.#scan(Number.POSITIVE_INFINITY);
    let found = this.#find(name, version);
    if (found === undefined) {
      // The skill may have been added a moment ago.
      await this.#scan(Math.min(this.#freshMs, 100));
      found = this.#find(name, version);
    }
    if (found !== undefined) return found;
    const others = this.#versions.get(name);
    if (others === undefined) return undefined;
    const known = others.map((each) => each.version);
    throw failure(
      'unknown',
      `the skill ${JSON.stringify(name.slice(0, 64))} has no version ${JSON.stringify(version.slice(0, 64))}; it has ${known.join(', ')}`,
      {
        versions: known,
      },
    );
  }

  /**
   * Returns a skill with its present files, which its manifest describes; undefined: no root has that name. Fails with
   * `unknown_skill`, `skill.changed`.
   */
  async load(name: string, version = ''): Promise<LoadedSkill | undefined> {
    for (let read = 0; read < MAX_READS; read++) {
      const [skill] = (await this.versions(name, version)) ?? [];
      if (skill === undefined) return undefined;
      const now = filesOf(skill.folder);
      if (now?.digest === skill.digest) return { skill, files: now.files };
      await this.#scan(0);
    }
    throw failure('changed', `the files of the skill ${JSON.stringify(name)} change while they are read; try again`);
  }

  #find(name: string, version: string): readonly [Skill, ...Skill[]] | undefined {
    const all = this.#versions.get(name) ?? [];
    const first = version === '' ? all[0] : all.find((each) => each.version === version);
    return first && [first, ...all.filter((each) => each !== first)];
  }

  #scan(freshMs: number): Promise<void> {
    // Runs after the scan under way; the result may be fresh by then.
    return this.#work.run(async () => {
      if (this.#now() - this.#scannedAt <= freshMs) return;
      const begun = this.#now();
      const before = digests(this.#versions);
      await this.#read();
      this.#scannedAt = begun;
      if (before !== digests(this.#versions)) this.#onChange();
    });
  }

  async #read(): Promise<void> {
    const problems: Problem[] = [];
    const until = performance.now() + SCHEMAS_MS;
    const found = new Map<string, Skill[]>();
    for (const root of this.#roots) {
      try {
        ownedWell(statSync(root.path), 'the root');
      } catch (error) {
        // A root need not exist.
        const { code, message } = error as NodeJS.ErrnoException;
        if (code !== 'ENOENT') problems.push({ path: root.path, message: code ?? message });
        continue;
      }
      const place: SkillRoot = { path: root.path, foreign: false, confined: true };
      const { skills, errors } = await scanSkills([place], async () => true);
      problems.push(...errors.map(problemOf));
      for (const { sourcePath } of skills) {
        try {
          const skill = await skillOf(dirname(sourcePath), root, until - performance.now());
          problems.push(...skill.faults.map((message) => ({ path: sourcePath, message })));
          // Reading one skill takes milliseconds of this thread.
          await turn();
          const same = found.get(skill.name)?.find(({ version }) => version === skill.version);
          if (same === undefined) found.set(skill.name, [...(found.get(skill.name) ?? []), skill]);
          else
            problems.push({ path: sourcePath, message: `${same.folder} has ${skill.name} ${skill.version} already` });
        } catch (error) {
          problems.push({ path: sourcePath, message: (error as Error).message });
        }
      }
    }
    this.#versions = new Map(
      [...found].sort(([one], [other]) => (one < other ? -1 : 1)).map(([name, all]) => [name, ordered(all)]),
    );
    this.#problems = problems.slice(0, MAX_PROBLEMS);
  }
}

/** Returns the newest version of the first root, then all others, the newest first. */
function ordered(all: readonly Skill[]): Skill[] {
  const [{ root }] = all as [Skill];
  const newest = all.toSorted((one, other) => compareVersions(other.version, one.version));
  const first = newest.find((each) => each.root === root) as Skill;
  return [first, ...newest.filter((each) => each !== first)];
}

/**
 * Compares versions part by part; numbers by their value, and a version with a further part behind a `-` comes before one
 * without.
 */
export function compareVersions(one: string, other: string): number {
  const [a, b] = [one, other].map((version) => version.replace(/\+.*$/, '').split('-', 2)) as [string[], string[]];
  const difference = compareParts((a[0] as string).split('.'), (b[0] as string).split('.'));
  if (difference !== 0 || a[1] === b[1]) return difference;
  if (a[1] === undefined || b[1] === undefined) return a[1] === undefined ? 1 : -1;
  return compareParts(a[1].split('.'), b[1].split('.'));
}

function compareParts(one: readonly string[], other: readonly string[]): number {
  for (let at = 0; at < Math.max(one.length, other.length); at++) {
    const [a = '', b = ''] = [one[at], other[at]];
    if (a === b) continue;
    const [x, y] = [Number(a || '0'), Number(b || '0')];
    if (Number.isNaN(x) || Number.isNaN(y))
      return Number.isNaN(x) === Number.isNaN(y) ? (a < b ? -1 : 1) : Number.isNaN(x) ? 1 : -1;
    if (x !== y) return x - y;
  }
  return 0;
}

async function skillOf(folder: string, root: TrustedRoot, schemasMs: number): Promise<Skill> {
  const { files, manifest, digest } = readSkillFiles(folder);
  const bytes = files.get(SKILL_FILE) as Buffer;
  if (bytes.length > MAX_SKILL_TEXT_BYTES) throw new Error(`is larger than ${MAX_SKILL_TEXT_BYTES} bytes`);
  const text = textOf(bytes);
  if (text === undefined) throw new Error('is no valid UTF-8');
  const facts = await readSkillFile(text, schemasMs);
  const { name, version, entry } = facts;
  const own = basename(folder);
  if (own !== name && own !== `${name}@${version}` && !(own === version && basename(dirname(folder)) === name)) {
    throw new Error(`its folder must be ${name}, ${name}@${version} or ${name}/${version}, it is ${own}`);
  }
  if (entry !== undefined && !files.has(entry)) throw new Error(`entry: there is no file ${entry}`);
  return { ...facts, root, folder, file: relative(root.path, `${folder}/${SKILL_FILE}`), manifest, digest };
}

function filesOf(folder: string): SkillFiles | undefined {
  try {
    return readSkillFiles(folder);
  } catch {
    return undefined;
  }
}

const digests = (versions: ReadonlyMap<string, readonly Skill[]>): string =>
  [...versions.values()]
    .flat()
    .map(({ folder, digest }) => `${folder} ${digest}`)
    .join('\n');

/** Parses a line of the scan: `<path>: <what>`. */
function problemOf(line: string): Problem {
  const at = line.indexOf(': ');
  return { path: line.slice(0, at), message: line.slice(at + 2) };
}
