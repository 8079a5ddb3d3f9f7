/**
 * Coverage of a remembered answer: keys that calls share exactly when one answer is good for them. Pure.
 *
 * Coverage is narrow on purpose. A yes for a command covers the same words, also as part of a longer line; a git subcommand
 * that only shows is covered with other operands. Programs that run code of others (`commands/programs.ts`) are never covered,
 * and an effect of a shell besides running programs covers itself alone.
 */
import { dirname, resolve } from 'node:path';
import { digestOfJson } from '../../base/canonical-json.ts';
import type { Approval } from '../../protocol/session-types.ts';
import {
  BESIDE_THE_POINT,
  type Command,
  type CommandReader,
  PATH_MEMBERS,
  whyNotPlain,
} from './commands/command-reader.ts';
import { GIT_SHOWS, runsOthersCode } from './commands/programs.ts';

/** A key and its text for people: `shell: git status …`. */
export interface CoveredPart {
  readonly key: string;
  readonly words: string;
}

/** The calls that one answer covers. */
export interface Coverage {
  /** A yes covers every call whose parts are all among those that were allowed; never empty. */
  readonly parts: readonly CoveredPart[];
  /** The call as a whole: the coverage of a no where the call has several parts. */
  readonly whole: CoveredPart;
  /** False: a yes is never remembered for this call. */
  readonly lasting: boolean;
  /** The same for people. */
  readonly words: string;
}

/** The call an answer is about. */
type Call = Pick<NonNullable<Approval['tool']>, 'name' | 'input'>;

/** Effects that a line may have besides its commands and still be remembered, as a whole. */
const REMEMBERED_WHOLE: ReadonlySet<string> = new Set(['writes', 'reads', 'members', 'folder']);

/** An operand: no option, no assignment. */
const OPERAND = /^[^-=][^=]*$/;

/** Characters of a command that are shown and stored in words. */
const SHOWN_CHARACTERS = 80;

/** Returns the coverage of an answer for this call in a session that works in `cwd` (absolute). */
export function coverageOf(call: Call, risks: readonly string[], cwd: string, reader: CommandReader): Coverage {
  const { name, input } = call;
  if (risks.includes('exec')) return commandCoverage(call, cwd, reader);
  const path = PATH_MEMBERS.map((member) => input[member]).find((value) => typeof value === 'string');
  if (path !== undefined) {
    const folder = dirname(resolve(cwd, path));
    return one({ key: keyOf(name, 'folder', folder), words: `${name}: files directly in ${folder}` });
  }
  if (risks.includes('network')) {
    const origin = originOf(input.url);
    return one(
      origin === undefined ? exact(call, cwd) : { key: keyOf(name, 'origin', origin), words: `${name}: ${origin}` },
    );
  }
  if (risks.includes('destructive') || risks.length === 0) return one(exact(call, cwd));
  return one({ key: keyOf(name, 'any'), words: `${name}: every call` });
}

const one = (part: CoveredPart): Coverage => ({ parts: [part], whole: part, lasting: true, words: part.words });

function commandCoverage(call: Call, cwd: string, reader: CommandReader): Coverage {
  const whole = exact(call, cwd);
  const reading = reader.read(call.input, cwd);
  if (reading === undefined) return one(whole);
  const once = (why: string): Coverage => ({
    parts: [whole],
    whole,
    lasting: false,
    words: `${call.name}: this call, only now: ${why}`,
  });
  const commands = reading.commands.filter(({ supposed }) => !supposed);
  const other = commands.find(({ words }) => runsOthersCode(words.map(({ value }) => value)));
  if (other !== undefined) return once(`${other.words[0]?.text} runs code of others`);
  if (reading.unreadable !== undefined) return once(reading.unreadable);
  // A file may be named like an option, and some options name programs.
  if (commands.some(({ words }) => words.some(({ value }) => value === undefined))) {
    return once('some of its words are known only when it runs');
  }
  if (reading.notes.size > 0) {
    const isRemembered = [...reading.notes].every((note) => REMEMBERED_WHOLE.has(note));
    return isRemembered ? one(whole) : once(whyNotPlain(reading) ?? '');
  }
  const counted = commands.filter(({ transparent }) => !transparent);
  const folder = resolve(cwd, typeof call.input.cwd === 'string' ? call.input.cwd : '.');
  const parts = counted.map((command) => partOf(call.name, command, folder, cwd));
  const words = `${call.name}: ${parts.map((part) => part.words.slice(call.name.length + 2)).join(', ')}`;
  return { parts, whole: parts.length === 1 ? (parts[0] as CoveredPart) : whole, lasting: true, words };
}

/** Returns one command of a line: its words, or a git subcommand that only shows with any operands. */
function partOf(name: string, command: Command, folder: string, cwd: string): CoveredPart {
  const words = command.words.map(({ value = '' }) => value);
  const where = folder === cwd ? '' : ` in ${folder}`;
  const [program, subcommand = '', ...operands] = words;
  if (program === 'git' && GIT_SHOWS.has(subcommand) && operands.every((word) => OPERAND.test(word))) {
    return {
      key: keyOf(name, 'command', folder, 'git', subcommand),
      words: `${name}: git ${subcommand} …${where}`,
    };
  }
  return { key: keyOf(name, 'words', folder, digestOfJson(words)), words: `${name}: ${shown(words)}${where}` };
}

/** Returns words as people would write them, not too many. */
function shown(words: readonly string[]): string {
  const text = words.map((word) => (/^[\w@%+:,./=-]+$/.test(word) ? word : JSON.stringify(word))).join(' ');
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;
}

function originOf(url: unknown): string | undefined {
  if (typeof url !== 'string' || !URL.canParse(url)) return undefined;
  const { origin } = new URL(url);
  return origin === 'null' ? undefined : origin;
}

/** Returns the part of exactly this call. */
function exact({ name, input }: Call, cwd: string): CoveredPart {
  const covered = Object.fromEntries(Object.entries(input).filter(([member]) => !BESIDE_THE_POINT.has(member)));
  return { key: keyOf(name, 'exact', resolve(cwd), digestOfJson(covered)), words: `${name}: exactly this call` };
}

/** Joins parts so that they cannot run into each other. */
const keyOf = (...parts: readonly string[]): string => JSON.stringify(parts);
