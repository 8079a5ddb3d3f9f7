/**
 * What a command starts besides itself: the program behind `sudo` or `timeout`, the script of `sh -c`, of `eval` and of
 * `trap`, what `xargs` and `find -exec` run, aliases and settings of git. Pure; called by `command-reader.ts` for every
 * simple command, and again for what it finds.
 */
import { STARTERS, type Starter, TAKES_NAMES } from './programs.ts';
import type { Note, SimpleCommand, Word } from './shell-syntax.ts';

/** What a command starts. */
export interface Started {
  /** Programs with their arguments. */
  readonly commands: readonly SimpleCommand[];
  /** Scripts for a shell. */
  readonly scripts: readonly string[];
  readonly notes: readonly Note[];
  /** Why it is not known what it starts. */
  readonly unreadable?: string;
  /** The command itself does nothing but start them: rules need not name it. */
  readonly transparent: boolean;
}

const NOTHING: Started = { commands: [], scripts: [], notes: [], transparent: false };
const UNKNOWN = 'what runs is known only when it runs';
const unknown: Started = { ...NOTHING, unreadable: UNKNOWN };

/** A word that is known. */
export const wordFor = (value: string): Word => ({ value, head: value, text: value });

/** One or more words that are not in the line. */
const FURTHER: Word = { value: undefined, head: '', text: '…' };

const SHELLS = new Set(['sh', 'bash', 'rbash', 'dash', 'ash', 'zsh', 'ksh', 'mksh', 'pdksh']);
/** The parser reads exactly their language; others have more in it. */
const PLAIN_SHELLS = new Set(['sh', 'bash', 'dash', 'ash']);
/** Their language is another one. */
const OTHER_SHELLS = new Set(['fish', 'csh', 'tcsh', 'nu', 'elvish', 'xonsh', 'pwsh', 'powershell', 'cmd']);

/** The name of a program without its folder; undefined where it is not known. */
export function programOf({ words }: Pick<SimpleCommand, 'words'>): string | undefined {
  const [program] = words;
  return program?.value
    ?.replace(/^.*\//s, '')
    .toLowerCase()
    .replace(/\.exe$/, '');
}

/** Looks into a command. A file of the folder that has the name of a starter is one for what it may start, but counts itself. */
export function startedBy(command: SimpleCommand): Started {
  const program = programOf(command);
  if (program === undefined) return unknown;
  const started = startedByName(program, command);
  return command.words[0]?.value === program ? started : { ...started, transparent: false };
}

function startedByName(program: string, command: SimpleCommand): Started {
  const rest = command.words.slice(1);
  if (SHELLS.has(program)) {
    const started = shell(rest, command.input);
    return PLAIN_SHELLS.has(program) ? started : { ...started, transparent: false };
  }
  if (OTHER_SHELLS.has(program)) return rest.length === 1 && isOption(rest[0]) ? NOTHING : unknown;
  if (TAKES_NAMES.has(program)) return subscripts(rest);
  if (Object.hasOwn(STARTERS, program)) return starter(STARTERS[program] as Starter, rest);
  switch (program) {
    case 'eval':
      return scriptOf(rest, true);
    case 'trap':
      return rest.length < 2 ? NOTHING : { ...scriptOf(dashes(rest).slice(0, 1), false), notes: ['state'] };
    case 'su':
    case 'script':
      return optionScript(rest, /^(?:-[a-zA-Z]*c|--command)$/);
    case 'alias':
      return aliases(rest);
    case 'compgen':
    case 'complete':
      return unknown;
    case 'find':
      return found(rest);
    case 'git':
      return git(rest);
    default:
      return NOTHING;
  }
}

/** Words joined with spaces, as one script. */
function scriptOf(words: readonly Word[], transparent: boolean): Started {
  if (words.some(({ value }) => value === undefined)) return unknown;
  const script = words.map(({ value }) => value).join(' ');
  return script === '' || script === '-' ? NOTHING : { ...NOTHING, scripts: [script], transparent };
}

/** `sh -c SCRIPT`, `sh FILE`, `sh` that reads commands from its input. */
function shell(words: readonly Word[], input: string | undefined): Started {
  let runsText = false;
  let readsInput = false;
  let isPlain = true;
  let at = 0;
  for (; at < words.length; at++) {
    const value = words[at]?.value;
    if (value === undefined) return unknown;
    if (!/^[-+]./.test(value)) break;
    if (value === '--' || value === '--version' || value === '--help') {
      at++;
      break;
    }
    // Some shells take letters after `c` as further options.
    if (/^-[a-zA-Z]+$/.test(value)) {
      runsText ||= value.includes('c');
      readsInput ||= value.includes('s');
      isPlain &&= /^-[ceulx]+$/.test(value);
      if (/[oO]$/.test(value)) at++;
    } else {
      isPlain = false;
      if (value === '--rcfile' || value === '--init-file') at++;
    }
  }
  const operand = words[at];
  if (runsText) return operand === undefined ? NOTHING : scriptOf([operand], isPlain);
  if (operand !== undefined && !readsInput) return operand.value === undefined ? unknown : NOTHING;
  return input === undefined ? unknown : { ...NOTHING, scripts: [input] };
}

/** A program that starts the one its operands name. */
function starter(known: Starter, words: readonly Word[]): Started {
  const has = (list: string | undefined, option: string): boolean => list?.split(' ').includes(option) ?? false;
  const notes: Note[] = [];
  let transparent = known.transparent === true;
  let operands = known.operands ?? 0;
  for (let at = 0, options = true; at < words.length; at++) {
    const word = words[at] as Word;
    const { value } = word;
    const assigned = known.assigns === true && /^[A-Za-z_]\w*\+?=/.test(value ?? word.text);
    if (assigned) {
      notes.push('assigns');
      continue;
    }
    if (value === undefined) return { ...unknown, notes };
    if (options && value === '--') {
      options = false;
      continue;
    }
    if (options && value.startsWith('-') && (value.length > 1 || has(known.flags, '-'))) {
      const [name = ''] = value.split('=', 1);
      if (has(known.shows, name)) return NOTHING;
      if (has(known.values, name)) {
        if (!value.includes('=')) at++;
        transparent &&= has(known.harmless, name);
      } else if (has(known.flags, name)) transparent &&= !has(known.clears, name);
      else {
        const kind = clusterOf(value, known);
        if (kind === undefined) return { ...unknown, notes };
        if (kind === 'value last') at++;
        transparent &&= kind === 'flags' ? !clears(value, known) : has(known.harmless, value.slice(0, 2));
      }
      continue;
    }
    if (operands-- > 0) continue;
    const further = known.more === true ? [FURTHER] : [];
    // Some of these give what they start to a shell as one text.
    const scripts = at === words.length - 1 && /[\s;&|]/.test(value) ? [value] : [];
    const started = { words: [...words.slice(at), ...further], input: undefined };
    return { commands: [started], scripts, notes, transparent: transparent && notes.length === 0 };
  }
  return { ...NOTHING, notes };
}

/** One of the letters is a flag that clears the environment. */
const clears = (value: string, known: Starter): boolean =>
  [...value.slice(1)].some((letter) => known.clears?.split(' ').includes(`-${letter}`));

/** Short options in one word: `-abc`, `-n5`, `-an 5`; undefined where one is unknown. */
function clusterOf(value: string, known: Starter): 'flags' | 'value inside' | 'value last' | undefined {
  if (value.startsWith('--')) return undefined;
  // `nice -5`
  if (/^-\d+$/.test(value)) return 'flags';
  for (let at = 1; at < value.length; at++) {
    const option = `-${value[at]}`;
    if (known.values?.split(' ').includes(option)) return at === value.length - 1 ? 'value last' : 'value inside';
    if (!known.flags?.split(' ').includes(option)) return undefined;
  }
  return 'flags';
}

/** The script that an option names. */
function optionScript(words: readonly Word[], option: RegExp): Started {
  const at = words.findIndex(({ value }) => value === undefined || option.test(value));
  if (at !== -1) return scriptOf(words.slice(at + 1, at + 2), false);
  return words.some(({ value }) => /^-(?:c|-command=)/.test(value ?? '')) ? unknown : NOTHING;
}

function aliases(words: readonly Word[]): Started {
  const scripts = words.flatMap(({ value }) => (value?.includes('=') ? [value.slice(value.indexOf('=') + 1)] : []));
  const isKnown = words.every(({ value }) => value !== undefined);
  return { ...NOTHING, scripts, notes: ['defines'], ...(!isKnown && { unreadable: UNKNOWN }) };
}

/** What the shell would run while it reads the names of variables. */
function subscripts(words: readonly Word[]): Started {
  const scripts = words.flatMap(({ value }) => (value !== undefined && /\[.*[$`]/s.test(value) ? [value] : []));
  // A bracket outside of quotes is a pattern too, and one that matches nothing stays as it is.
  const hidden = words.some(({ value, text }) => value === undefined && /\[.*(?:\\[$`]|'.*[$`])/s.test(text));
  return { ...NOTHING, scripts, ...(hidden && { unreadable: UNKNOWN }) };
}

const FIND_RUNS = new Set(['-exec', '-execdir', '-ok', '-okdir']);

/** `find … -exec PROGRAM … ;` */
function found(words: readonly Word[]): Started {
  const commands: SimpleCommand[] = [];
  if (words.some(({ value, head }) => value === undefined && (head === '' || head.startsWith('-')))) return unknown;
  for (let at = 0; at < words.length; at++) {
    if (!FIND_RUNS.has(words[at]?.value ?? '')) continue;
    const rest = words.slice(at + 1);
    const end = rest.findIndex(
      ({ value }, index) => value === ';' || (value === '+' && rest[index - 1]?.value === '{}'),
    );
    const inner = (end === -1 ? rest : rest.slice(0, end)).map((word) => (word.value?.includes('{}') ? FURTHER : word));
    if (inner.length > 0) commands.push({ words: inner, input: undefined });
  }
  return { ...NOTHING, commands };
}

/** Options of git before its subcommand that take a value. */
const GIT_VALUES = new Set(['-c', '-C', '--git-dir', '--work-tree', '--namespace', '--config-env', '--super-prefix']);

/** Options of its subcommands that name a program. */
const GIT_RUNS = new Set([
  '--exec',
  '--upload-pack',
  '--receive-pack',
  '--tree-filter',
  '--index-filter',
  '--msg-filter',
]);

/** Settings that name programs, and subcommands that are given one. */
function git(words: readonly Word[]): Started {
  const scripts: string[] = [];
  let at = 0;
  for (; at < words.length && isOption(words[at]); at++) {
    const value = words[at]?.value ?? '';
    if (value === '-c') {
      const setting = words[at + 1]?.value;
      if (setting === undefined) return unknown;
      const given = setting.slice(setting.indexOf('=') + 1);
      if (given !== '') scripts.push(given.replace(/^!/, ''));
    }
    if (value.startsWith('--config-env') || value.startsWith('--exec-path=')) return unknown;
    if (GIT_VALUES.has(value)) at++;
  }
  const [subcommand, ...rest] = words.slice(at);
  if (subcommand !== undefined && subcommand.value === undefined) return unknown;
  const run = (from: number): Started => ({
    ...NOTHING,
    scripts,
    commands: rest.length > from ? [{ words: rest.slice(from), input: undefined }] : [],
  });
  if (subcommand?.value === 'bisect' && rest[0]?.value === 'run') return run(1);
  if (subcommand?.value === 'submodule' && rest.some(({ value }) => value === 'foreach')) {
    const from = rest.findIndex(({ value }) => value === 'foreach') + 1;
    const script = scriptOf(rest.slice(from), false);
    return { ...script, scripts: [...scripts, ...script.scripts] };
  }
  for (const [index, { value }] of rest.entries()) {
    const [option = '', given] = value?.split(/=(.*)/s, 2) ?? [];
    const names = GIT_RUNS.has(option) || (option === '-x' && subcommand?.value === 'rebase');
    const script = names ? (given ?? rest[index + 1]?.value) : undefined;
    if (script !== undefined) scripts.push(script);
  }
  return { ...NOTHING, scripts };
}

const isOption = (word: Word | undefined): boolean => (word?.value ?? word?.head ?? '').startsWith('-');

/** Without a leading `--`. */
const dashes = (words: readonly Word[]): readonly Word[] => (words[0]?.value === '--' ? words.slice(1) : words);
