/**
 * The patterns of rules about commands: `git push`, `git status|log ...`. A pattern is matched against the words of one simple
 * command. Pure.
 *
 * The same pattern is read in two ways. To allow, it covers the words it spells out and nothing more. To ask or to deny, it is
 * about every command that starts so, with any options between, and `maybe` where words are not known.
 */
import { fail } from '../../../wire/errors.ts';
import { equalOptions, isPushOperand, isSubcommand } from './equal-options.ts';
import { wordFor } from './options.ts';
import type { Word } from './shell-syntax.ts';
import { programOf } from './started-by.ts';

/** Result for a rule that asks or denies: it is about a command, perhaps, or not. */
export type Match = 'yes' | 'maybe' | 'no';

/** A compiled pattern. */
export interface CommandPattern {
  /** The programs it names. */
  readonly programs: ReadonlySet<string>;
  /** True when it allows this command: every word of it is spelled out. */
  covers(words: readonly Word[]): boolean;
  /** Returns whether it is about this command. */
  concerns(words: readonly Word[]): Match;
  /** True when it is about a command that begins with a later word, as the command behind `npx` or `docker run`. */
  mayConcern(words: readonly Word[]): boolean;
}

/** One word of a pattern that is no option: its alternatives, or any operand. */
type Operand = ReadonlySet<string> | 'any';

interface Parts {
  readonly programs: ReadonlySet<string>;
  /** The same without folders and capitals. */
  readonly names: ReadonlySet<string | undefined>;
  readonly operands: readonly Operand[];
  /** Options in the pattern itself: they must be there. */
  readonly required: readonly string[];
  /** Further operands may follow. */
  readonly open: boolean;
}

const MAX_WORDS = 32;
/** Maximum number of places of one command that are looked at as the start of another. */
const MAX_STARTS = 16;
/** Maximum number of words that are looked at for that, and of steps of one comparison. */
const MAX_LOOKED_AT = 1024;
const MAX_STEPS = 4096;

/** Characters that a shell would interpret, and parts of words: a pattern is words. */
const NO_WORD = /[;&<>$"'\\`(){}[\]?!#\s]|^\|?$|\|$|^\||\|\|/;

/**
 * Compiles a pattern: words that must be equal, `a|b` for either of them, `*` for one operand of any text, and `...` at the end
 * for any further operands. `options` may stand anywhere in a command it allows: `--stat` also as `--stat=80`.
 *
 * @throws config_invalid with `detail.column` (from 1)
 */
export function compilePattern(text: string, options: readonly string[] = []): CommandPattern {
  const parts = partsOf(text);
  for (const option of options) {
    if (!/^-[^\s=]*$/.test(option))
      throw refused(1, `${JSON.stringify(option)} is not an option: options start with "-"`);
  }
  const optional = new Set(options);
  return {
    programs: parts.programs,
    covers: (words) => covers(parts, optional, words),
    concerns: (words) => concerns(parts, words),
    mayConcern(words) {
      if (words.length > MAX_LOOKED_AT) return true;
      const starts = words.flatMap((word, at) => (at > 0 && startsNamed(parts, word) ? [at] : []));
      return starts.length > MAX_STARTS || starts.some((at) => concerns(parts, words.slice(at)) !== 'no');
    },
  };
}

const startsNamed = ({ names }: Parts, word: Word): boolean => {
  const name = programOf({ words: [word] });
  return name !== undefined && names.has(name);
};

const refused = (column: number, why: string) =>
  fail('config_invalid', `column ${column} of the pattern: ${why}`, { column });

function partsOf(text: string): Parts {
  const words = [...text.matchAll(/\S+/g)].map(({ 0: word, index }) => ({ word, column: index + 1 }));
  if (words.length === 0) throw refused(1, 'it has no words');
  if (words.length > MAX_WORDS) throw refused(words[MAX_WORDS]?.column ?? 1, `more than ${MAX_WORDS} words`);
  const operands: Operand[] = [];
  const required: string[] = [];
  let open = false;
  for (const [index, { word, column }] of words.entries()) {
    if (open) throw refused(column, '"..." is the last word of a pattern');
    if (NO_WORD.test(word)) throw refused(column, `${JSON.stringify(word)} is not a word: a pattern has words only`);
    if (word === '...') open = true;
    else if (word.startsWith('-')) required.push(word);
    else if (word === '*') operands.push('any');
    else if (word.includes('*')) throw refused(column, '"*" stands for a whole word');
    else operands.push(new Set(word.split('|')));
    if (index === 0 && !(operands[0] instanceof Set)) throw refused(column, 'it starts with the name of a program');
  }
  const [programs, ...others] = operands as [ReadonlySet<string>, ...Operand[]];
  const names = new Set([...programs].map((program) => programOf({ words: [wordFor(program)] })));
  return { programs, names, operands: others, required, open };
}

function covers(parts: Parts, optional: ReadonlySet<string>, words: readonly Word[]): boolean {
  const [program, ...rest] = words;
  if (program?.value === undefined || !parts.programs.has(program.value)) return false;
  const missing = new Set(parts.required);
  const operands: Word[] = [];
  for (const word of rest) {
    const { value } = word;
    if (value === '--' && parts.open) continue;
    if (!(value ?? word.head).startsWith('-')) {
      // A word that is not known must have a known start: it could become an option.
      if (value === undefined && word.head === '') return false;
      operands.push(word);
    } else if (value === undefined) return false;
    else if (!missing.delete(value) && !parts.required.includes(value) && !isListed(optional, value)) return false;
  }
  if (missing.size > 0 || operands.length < parts.operands.length) return false;
  if (operands.length > parts.operands.length && !parts.open) return false;
  return parts.operands.every((wanted, at) => {
    const value = operands[at]?.value;
    return value !== undefined && (wanted === 'any' || wanted.has(value));
  });
}

const isListed = (options: ReadonlySet<string>, value: string): boolean =>
  options.has(value) || (value.startsWith('--') && options.has(value.replace(/=.*$/s, '')));

function concerns(parts: Parts, words: readonly Word[]): Match {
  const name = programOf({ words });
  const isNamed = name === undefined || parts.names.has(name);
  if (!isNamed && ![...parts.names].some((one) => one !== undefined && isVersion(name, one))) return 'no';
  const rest = words.slice(1);
  const operands = startsWith(parts.operands, rest, name);
  if (operands === 'no') return 'no';
  const options = parts.required.map((option) => hasOrEqual(option, name, rest));
  if (options.includes('no')) return 'no';
  return name === undefined || !isNamed || operands === 'maybe' || options.includes('maybe') ? 'maybe' : 'yes';
}

/** True when one name is the other with a version: `python3.12` and `python3`, `gcc-12` and `gcc`. */
function isVersion(name: string, other: string): boolean {
  const [short, long] = name.length < other.length ? [name, other] : [other, name];
  return long.startsWith(short) && /^[-.]?\d[\d.]*$/.test(long.slice(short.length));
}

/** Returns whether the words have the option, or one with its meaning. */
function hasOrEqual(option: string, program: string | undefined, words: readonly Word[]): Match {
  const found = equalOptions(program, option).map((one) => has(one, words));
  if (program === 'git' && words.some(({ value }) => value === 'push')) {
    if (words.some(({ value }) => value !== undefined && isPushOperand(option, value))) found.push('yes');
  }
  return found.includes('yes') ? 'yes' : (found[0] as Match);
}

/** True when the operands begin so; options between them, each with a value or without, do not count. */
function startsWith(wanted: readonly Operand[], words: readonly Word[], program: string | undefined): Match {
  let result: Match = 'no';
  // Each place that can be reached, as (words of the pattern that are met, words that are passed, known so far).
  const seen = new Set<string>();
  const open: [met: number, at: number, sure: boolean][] = [[0, 0, true]];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (seen.size > MAX_STEPS) return 'maybe';
    const [met, at, sure] = next;
    const key = next.join();
    if (seen.has(key)) continue;
    seen.add(key);
    const needed = wanted[met];
    if (needed === undefined) {
      if (sure) return 'yes';
      result = 'maybe';
      continue;
    }
    const word = words[at];
    if (word === undefined) continue;
    const { value } = word;
    if (value === undefined) open.push([met + 1, at + 1, false], [met, at + 1, false], [met + 1, at, false]);
    else if (value.startsWith('-')) open.push([met, at + 1, sure], [met, at + 2, sure]);
    else {
      const found = needed === 'any' ? 'yes' : isSubcommand(program, needed, value);
      if (found !== 'no') open.push([found === 'yes' ? met + 1 : met, at + 1, sure]);
    }
  }
  return result;
}

/** Returns whether an option is there: written out, shortened as programs accept it, or as letters of others. */
function has(option: string, words: readonly Word[]): Match {
  const values = words.map(({ value }) => value);
  const [name = ''] = option.split('=', 1);
  const isThere = name.startsWith('--')
    ? values.some((value) => value !== undefined && isShortFor(value, option))
    : [...name.slice(1)].every((letter) =>
        values.some((value) => value !== undefined && /^-[^-]/.test(value) && value.includes(letter)),
      ) || values.includes(option);
  if (isThere) return 'yes';
  return values.includes(undefined) ? 'maybe' : 'no';
}

function isShortFor(value: string, option: string): boolean {
  if (value === option) return true;
  const [given = ''] = value.split('=', 1);
  return given.length > 2 && option.startsWith(given) && !option.includes('=');
}
