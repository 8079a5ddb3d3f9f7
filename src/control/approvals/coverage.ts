/**
 * What a remembered answer covers: a key that two calls share exactly when one answer is
 * good for both. Pure; called by `broker.ts`.
 *
 * Kept narrow on purpose. A program is covered with its subcommand and any operands (`npm test …`) only where the
 * subcommand says what happens, and never with options, which make many programs run others. Everything a shell would
 * interpret, and every call that can lose data in a way nothing here understands, covers itself alone.
 */
import { createHash } from 'node:crypto';
import { dirname, resolve } from 'node:path';
import type { Approval } from '../../protocol/session-types.ts';

/** What one answer covers. */
export interface Coverage {
  /** Equal for calls that the same answer covers. */
  readonly key: string;
  /** The same for people: `shell: npm test …`. */
  readonly words: string;
}

/** The call an answer is about. */
type Call = Pick<NonNullable<Approval['tool']>, 'name' | 'input'>;

/**
 * Programs that are covered by their first words, and how many words that is. `run`-like subcommands take one more: the
 * script. Missing on purpose: interpreters, shells and whatever starts other programs by name.
 */
const SUBCOMMAND_WORDS: Readonly<Record<string, number>> = {
  bun: 2,
  cargo: 2,
  dotnet: 2,
  git: 2,
  go: 2,
  gradle: 2,
  make: 2,
  mvn: 2,
  npm: 2,
  pnpm: 2,
  yarn: 2,
};

/** Subcommands that name what they run in their next word. */
const NAMES_A_SCRIPT = new Set(['run', 'run-script']);

/** Subcommands that run, or set up, whatever follows: never covered by their first words. */
const RUNS_ANYTHING = new Set(['exec', 'x', 'dlx', 'create', 'init', 'config', 'submodule', 'filter-branch', 'bisect']);

/** A command line in which a shell would find nothing but words. */
const PLAIN_WORDS = /^[\w@%+:,./=\- ]+$/;

/** A program or a subcommand; an operand: no option, no assignment. */
const SUBCOMMAND = /^[a-z][\w:.-]*$/;
const OPERAND = /^[^-=][^=]*$/;

/** Members of a command's input that do not change what is run. */
const BESIDE_THE_POINT = new Set(['description', 'timeout', 'timeout_ms', 'timeout_seconds', 'max_output_bytes']);

/** Names under which tools take the file they work on. */
const PATH_MEMBERS = ['path', 'file_path', 'filePath', 'abs_path'];

/** What an answer for this call covers in a session that works in `cwd` (absolute). */
export function coverageOf(call: Call, risks: readonly string[], cwd: string): Coverage {
  const { name, input } = call;
  if (risks.includes('exec')) return commandCoverage(call, cwd) ?? exact(call, cwd);
  const path = PATH_MEMBERS.map((member) => input[member]).find((value) => typeof value === 'string');
  if (path !== undefined) {
    const folder = dirname(resolve(cwd, path));
    return { key: keyOf(name, 'folder', folder), words: `${name}: files directly in ${folder}` };
  }
  if (risks.includes('network')) {
    const origin = originOf(input.url);
    return origin === undefined
      ? exact(call, cwd)
      : { key: keyOf(name, 'origin', origin), words: `${name}: ${origin}` };
  }
  if (risks.includes('destructive') || risks.length === 0) return exact(call, cwd);
  return { key: keyOf(name, 'any'), words: `${name}: every call` };
}

/** The leading words of a plain command, where they suffice; undefined where only the call itself is covered. */
function commandCoverage({ name, input }: Call, cwd: string): Coverage | undefined {
  const words = wordsOf(input);
  if (words === undefined) return undefined;
  const others = Object.keys(input).filter((member) => !['command', 'argv', 'cwd'].includes(member));
  // An environment, a standard input or anything unknown may change the meaning of the same words.
  if (others.some((member) => !BESIDE_THE_POINT.has(member) && !isEmpty(input[member]))) return undefined;
  const [program = '', subcommand = ''] = words;
  let count = Object.hasOwn(SUBCOMMAND_WORDS, program) ? (SUBCOMMAND_WORDS[program] as number) : 0;
  if (NAMES_A_SCRIPT.has(subcommand)) count++;
  const leading = words.slice(0, count);
  if (count === 0 || leading.length < count || RUNS_ANYTHING.has(subcommand)) return undefined;
  if (!leading.every((word) => SUBCOMMAND.test(word))) return undefined;
  if (!words.slice(count).every((word) => OPERAND.test(word))) return undefined;
  const folder = resolve(cwd, typeof input.cwd === 'string' ? input.cwd : '.');
  const where = folder === cwd ? '' : ` in ${folder}`;
  return { key: keyOf(name, 'command', folder, ...leading), words: `${name}: ${leading.join(' ')} …${where}` };
}

/** The words of a command, given as such or as a line without anything a shell would interpret. */
function wordsOf({ argv, command }: Call['input']): readonly string[] | undefined {
  if (Array.isArray(argv) && command === undefined) {
    return argv.every((word) => typeof word === 'string') ? (argv as string[]) : undefined;
  }
  if (typeof command !== 'string' || argv !== undefined || !PLAIN_WORDS.test(command)) return undefined;
  return command.split(' ').filter((word) => word !== '');
}

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === '' ||
  (typeof value === 'object' && Object.keys(value).length === 0);

function originOf(url: unknown): string | undefined {
  if (typeof url !== 'string' || !URL.canParse(url)) return undefined;
  const { origin } = new URL(url);
  return origin === 'null' ? undefined : origin;
}

/** Exactly this call. Hashed: inputs may be long, and hold secrets that must not be stored. */
function exact({ name, input }: Call, cwd: string): Coverage {
  const covered = Object.fromEntries(Object.entries(input).filter(([member]) => !BESIDE_THE_POINT.has(member)));
  const digest = createHash('sha256').update(canonical(covered)).digest('hex');
  return { key: keyOf(name, 'exact', resolve(cwd), digest), words: `${name}: exactly this call` };
}

/** JSON with sorted members. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(',')}}`;
}

/** Parts cannot run into each other. */
const keyOf = (...parts: readonly string[]): string => JSON.stringify(parts);
