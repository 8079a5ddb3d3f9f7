/**
 * Options of a command as programs read them: shortened long options, letters in one word, values inside a word or behind it.
 * Pure.
 */
import type { SimpleCommand, Word } from './shell-syntax.ts';

/** Options of a program that run something. */
export interface RunningOptions {
  /** Options whose value is a command line. */
  readonly scripts?: string;
  /** Options after which anything may run. */
  readonly opaque?: string;
  /** Letters whose option takes the rest of its word as a value: no letter behind them is an option. */
  readonly stops?: string;
  /** Longer options, by their first letters taken for one of the others. */
  readonly others?: string;
  /** The first word may be letters without a dash, as in `tar xzf`. */
  readonly bundled?: boolean;
  /** Values that start nothing. */
  readonly harmless?: RegExp;
  /** The text before the command line in a value. */
  readonly prefix?: string;
  /** Words with a plus are commands of the program. */
  readonly plus?: boolean;
  /** Long options have one dash, and are not shortened. */
  readonly oneDash?: boolean;
}

/** Options of this kind in a command. */
export interface Found {
  readonly scripts: readonly string[];
  /** An option that may run anything. */
  readonly opaque: boolean;
  /** Some words may become an option of this kind when the line runs. */
  readonly unsure: boolean;
}

/** Returns the options of a list in one text. */
export const list = (names: string | undefined): readonly string[] => names?.split(' ') ?? [];

/**
 * Finds options that run something. A word counts wherever it stands, also behind `--` and as the value of another option: a
 * program of another version may read it so.
 */
export function runningOptions(words: readonly Word[], known: RunningOptions): Found {
  const scripts: string[] = [];
  let opaque = false;
  let unsure = false;
  const takes = (option: string, value: string | undefined): void => {
    if (value !== undefined && known.harmless?.test(value) === true) return;
    if (value === undefined || list(known.opaque).includes(option)) opaque = true;
    else {
      const { prefix = '' } = known;
      scripts.push(value.startsWith(prefix) ? value.slice(prefix.length) : value);
    }
  };
  const all = [...list(known.scripts), ...list(known.opaque)];
  for (const [at, { value, head }] of words.entries()) {
    const given = value ?? head;
    const next = words[at + 1]?.value;
    if (value === undefined && !isSafeHead(head, all, known)) unsure = true;
    if (value === undefined || value === '-' || value === '--') continue;
    if (given.startsWith('--') || known.oneDash === true) {
      const [name = '', inside] = given.split(/=(.*)/s, 2);
      if (!name.startsWith('-') || list(known.others).includes(name)) continue;
      const option = all.find((one) => one === name) ?? all.find((one) => one.startsWith('--') && one.startsWith(name));
      if (option !== undefined) takes(option, inside ?? next);
    } else if (given.startsWith('-')) letters(given.slice(1), next);
    else if (at === 0 && known.bundled === true && [...given].some((letter) => all.includes(`-${letter}`))) {
      opaque = true;
    }
  }
  return { scripts, opaque, unsure };

  function letters(cluster: string, next: string | undefined): void {
    for (const [at, letter] of [...cluster].entries()) {
      const option = `-${letter}`;
      if (all.includes(option)) return takes(option, at + 1 < cluster.length ? cluster.slice(at + 1) : next);
      if (known.stops?.includes(letter)) return;
    }
  }
}

/** True when the start of a word that is not known rules out that it is one of the options. */
function isSafeHead(head: string, all: readonly string[], known: RunningOptions): boolean {
  if (head === '') return false;
  if (!head.startsWith('-')) return true;
  const [name = '', inside] = head.split(/=(.*)/s, 2);
  if (inside !== undefined) {
    return list(known.others).includes(name) || !all.some((option) => option.startsWith(name));
  }
  return !head.startsWith('--') && [...head.slice(1)].some((letter) => known.stops?.includes(letter) === true);
}

/**
 * Returns the long option that a shortened one means, as `getopt_long` finds it; undefined where none matches, or several do.
 */
export function longOption(name: string, options: readonly string[]): string | undefined {
  if (options.includes(name)) return name;
  const meant = options.filter((option) => option.startsWith('--') && option.startsWith(name));
  return name.length > 2 && meant.length === 1 ? meant[0] : undefined;
}

/** True for a word that begins as options do. */
export const isOption = (word: Word | undefined): boolean => (word?.value ?? word?.head ?? '').startsWith('-');

/** True for a word that may stand for an option when the line runs. */
export const mayBeOption = ({ value, head }: Word): boolean =>
  value === undefined && (head === '' || head.startsWith('-'));

/** Makes a word that is known. */
export const wordFor = (value: string): Word => ({ value, head: value, text: value });

/** One or more words that are not in the line. */
export const FURTHER: Word = { value: undefined, head: '', text: '…' };

/** Returns the value of a word; of a word that is known only when the line runs, its text without quotes. */
export const likelyValue = ({ value, text }: Word): string => value ?? text.replaceAll(/["']/g, '');

/** Returns words as a command. */
export const commandOf = (words: readonly Word[]): SimpleCommand => ({ words, input: undefined });
