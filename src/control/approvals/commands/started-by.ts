/**
 * The programs and scripts that a command starts: the program behind `sudo` or `timeout`, the script of `sh -c`, of `eval` and
 * of `trap`, the commands of `xargs`, of `find -exec`, of options, aliases and settings. Finds also programs that it may start,
 * and that they are unknown: a rule that denies is then perhaps about it. Pure.
 */

import { gitStarted, isPlainEditor } from './git.ts';
import { awkCode, type Code, codeOf, interpreterOf, isInput, sedCode } from './interpreters.ts';
import {
  HIDES,
  MAY_START_OPTIONS,
  mayStart as mayStartAny,
  NAMES_PACKAGES,
  readsCode,
  runningOptionsOf,
  STARTS_NOTHING,
} from './known-programs.ts';
import {
  commandOf,
  FURTHER,
  isOption,
  list,
  longOption,
  mayBeOption,
  type RunningOptions,
  runningOptions,
  wordFor,
} from './options.ts';
import { withoutVersion } from './program-version.ts';
import { TAKES_NAMES } from './programs.ts';
import type { Note, SimpleCommand, Word } from './shell-syntax.ts';
import { queries, renamed, sounds } from './small-languages.ts';
import { copied, isOverSsh, remote, SSH } from './ssh.ts';
import { hidden, NOTHING, OTHER_LANGUAGE, type Started, UNKNOWN, unknown } from './started.ts';
import { STARTERS, type Starter } from './starters.ts';
import { subscripts } from './subscripts.ts';
import { assignedTo } from './variables.ts';

const SHELLS = new Set(['sh', 'bash', 'rbash', 'dash', 'ash', 'zsh', 'ksh', 'mksh', 'pdksh']);
/** The parser reads exactly their language; others have more in it. */
const PLAIN_SHELLS = new Set(['sh', 'bash', 'dash', 'ash']);
/** Their language is another one. */
const OTHER_SHELLS = new Set(['fish', 'csh', 'tcsh', 'nu', 'elvish', 'xonsh', 'pwsh', 'powershell', 'cmd']);

/** Returns the name of a program without its folder; undefined where it is not known. */
export function programOf({ words }: Pick<SimpleCommand, 'words'>): string | undefined {
  const [program] = words;
  return program?.value
    ?.replace(/^.*\//s, '')
    .toLowerCase()
    .replace(/\.exe$/, '');
}

/** Folders of the system: a program in one of them is the program of its name. */
const SYSTEM = /^(?:\/usr(?:\/local)?)?\/s?bin\/[^/]+$/;
const LOADER = /^ld(?:-linux[\w-]*|-musl-\w+)?\.so(?:\.\d+)*$|^ld\.so$/;

/**
 * Looks into a command. A file of the folder with the name of a starter may start the same programs, but also counts itself.
 */
export function startedBy(command: SimpleCommand): Started {
  const program = programOf(command);
  const [word] = command.words;
  if (program === undefined || word?.value === undefined) return unknown;
  const named = startedByName(program, command);
  const started =
    !STARTS_NOTHING.has(program) && isOverSsh(program, command.words)
      ? { ...named, supposed: [...(named.supposed ?? []), SSH] }
      : named;
  if (word.value === program) return started;
  // Such a path names the program that runs now.
  if (isInput(word)) return { ...started, ...unknown };
  // In capitals, or by a path, it may be another file.
  const isPath = word.value.includes('/') && !SYSTEM.test(word.value);
  return { ...started, transparent: false, ...(isPath && { unknown: false, file: word }) };
}

function startedByName(program: string, command: SimpleCommand): Started {
  const rest = command.words.slice(1);
  if (SHELLS.has(program)) {
    const started = shell(rest, command.input);
    return PLAIN_SHELLS.has(program) ? started : { ...started, transparent: false };
  }
  if (OTHER_SHELLS.has(program)) return rest.length === 1 && isOption(rest[0]) ? NOTHING : unknown;
  if (TAKES_NAMES.has(program)) return builtin(program, rest);
  if (Object.hasOwn(STARTERS, program)) return starter(STARTERS[program] as Starter, rest);
  if (LOADER.test(program)) return starter(LOADING, rest);
  const special = SPECIAL.get(program);
  if (special !== undefined) return special(rest);
  if (STARTS_NOTHING.has(program)) return NOTHING;
  const options = runningOptionsOf(program);
  if (options !== undefined) return byOptions(rest, options);
  const interpreter = interpreterOf(program);
  if (interpreter !== undefined) return byCode(codeOf(interpreter, rest));
  if (HIDES.has(program)) return { ...hidden, mayStart: true };
  return mayStartAny(program) ? anyOf(program, rest) : { ...NOTHING, unknown: true };
}

/** `ld.so`, which starts the program it is given. */
const LOADING: Starter = {
  values: '--library-path --preload --audit --argv0 --inhibit-rpath --glibc-hwcaps-prepend --glibc-hwcaps-mask',
  flags: '--inhibit-cache --verify',
  shows: '--list --list-tunables --list-diagnostics --help --version',
};

type Reading = (rest: readonly Word[]) => Started;

/** Makes entries for programs that are read in one way. */
const each = (programs: string, reading: Reading): [string, Reading][] =>
  list(programs).map((program) => [program, reading]);

/** Programs with a special syntax. */
const SPECIAL: ReadonlyMap<string, Reading> = new Map<string, Reading>([
  ['eval', (rest) => scriptOf(dashes(rest), true)],
  ['trap', (rest) => (rest.length < 2 ? NOTHING : { ...scriptOf(dashes(rest).slice(0, 1), false), notes: ['state'] })],
  ['su', otherUser],
  ['runuser', otherUser],
  ['script', script],
  ['alias', aliases],
  ['compgen', () => unknown],
  ['complete', () => unknown],
  ['find', found],
  ['git', byGit],
  ['.', sourced],
  ['source', sourced],
  ['hash', hashed],
  ['ssh', remote],
  ...each('scp sftp', copied),
  ['crontab', (rest) => (rest.some(({ value }) => value === '-l') ? NOTHING : hidden)],
  ['enable', (rest) => (rest.some(({ value }) => value === undefined || /^-[a-z]*f/.test(value)) ? hidden : NOTHING)],
  ...each('fd fdfind', foundByFd),
  [
    'ip',
    (rest) => (rest.some(({ value }) => value === undefined || /^(?:e(?:x|$)|-b)/.test(value)) ? hidden : NOTHING),
  ],
  ['coreutils', multiCall],
  ['java', (rest) => anyOf('java', rest)],
  ...each('sed gsed', (rest) => byCode(sedCode(rest))),
  ...each('awk gawk mawk nawk original-awk', (rest) => byCode(awkCode(rest))),
  ['sqlite3', (rest) => queries(rest, /^\s*\.|\n\s*\.|load_extension|edit\s*\(|writefile/i)],
  ['psql', (rest) => queries(rest, /\\|program|^(?:-\w*o|--o\w*=)?\s*\|/i)],
  ['hg', mercurial],
  ['coverage', measured],
  ...each('rename prename file-rename perl-rename', renamed),
  ...each('sox soxi play rec', sounds),
]);

/** Reads code of another language. */
function byCode(code: Code): Started {
  if (code.kind === 'hidden') return { ...NOTHING, unreadable: OTHER_LANGUAGE };
  if (code.kind === 'program') return { ...NOTHING, supposed: [commandOf(code.words)] };
  return code.kind === 'file' ? { ...NOTHING, file: code.file, files: code.loaded ?? [] } : NOTHING;
}

/** Reads a program of which some options start something. */
function byOptions(words: readonly Word[], options: RunningOptions): Started {
  const { scripts, opaque, unsure } = runningOptions(words, options);
  const isOpaque = opaque || (options.plus === true && words.some(({ value }) => value?.startsWith('+')));
  if (isOpaque) return { ...NOTHING, scripts, unreadable: 'an option of it runs what the line does not show' };
  return { ...NOTHING, scripts, ...(unsure && { hidden: 'a word that is known only when it runs may be an option' }) };
}

/** Reads a program that may start any of its words, like `npx` or `docker`. */
function anyOf(program: string, words: readonly Word[]): Started {
  if (words.length > MAX_WORDS) return { ...hidden, mayStart: true };
  const name = withoutVersion(program);
  const end = words.findIndex(({ value }) => value === '--');
  const own = end === -1 ? words : words.slice(0, end);
  const first = own.find((word) => !isOption(word));
  const options = MAY_START_OPTIONS[FAMILY[name] ?? name];
  // Behind the program that `npx` starts are the options of that.
  const isPlain = name === 'npx' && first !== undefined && !/^-(?:c|-call|p|-package)$/.test(own[0]?.value ?? '');
  const read = isPlain ? own.slice(0, own.indexOf(first)) : own;
  const started = options === undefined ? NOTHING : byOptions(read, options);
  if (started.unreadable !== undefined) return started;
  if (/make$/.test(name) && words.some(makes)) return { ...NOTHING, unreadable: OTHER_LANGUAGE };
  if (READS_CODE.test(name) && (words.some(readsInput) || (name === 'deno' && first === undefined))) {
    const isAsked = words.some(({ value }) => /^(?:-[hV]|--help|--version)$/.test(value ?? ''));
    if (!isAsked) return { ...NOTHING, unreadable: OTHER_LANGUAGE };
  }
  if (
    /^(?:eval|repl)$/.test(first?.value ?? '') ||
    TAKES_CODE.test(`${name} ${words.map(({ value }) => value).join(' ')}`)
  )
    return { ...NOTHING, unreadable: OTHER_LANGUAGE };
  const unsure = words.findIndex(mayBeOption);
  const isSubcommand = first?.value !== undefined && words.indexOf(first) < unsure && !runsWords(name, first.value);
  if (unsure !== -1 && !isSubcommand) {
    return {
      ...started,
      mayStart: true,
      hidden: 'a word that is known only when it runs may be a program or an option',
    };
  }
  if (first?.value !== undefined && NAMES_PACKAGES.has(first.value)) return { ...started, hidden: undefined };
  const files = readsCode(name) ? words.flatMap(filesIn) : [];
  return { ...started, perhaps: texts(words), ...among(words), mayStart: true, files };
}

/** True when the words behind this one are a program, or options that are code. */
const runsWords = (program: string, subcommand: string): boolean =>
  /make$|^(?:npx|bunx|pnpx|uvx)$/.test(program) ||
  /^(?:exec|x|dlx|explore|create|init|eval|shell|compose|-\w*)$/.test(subcommand) ||
  (subcommand === 'run' && !/^(?:npm|pnpm|yarn|cargo|deno)$/.test(program));

const FAMILY: Readonly<Record<string, string>> = {
  'apt-get': 'apt',
  aptitude: 'apt',
  gmake: 'make',
  bmake: 'make',
  bunx: 'npx',
  pnpx: 'npx',
  yarn: 'pnpm',
  'g++': 'gcc',
  cc: 'gcc',
  clang: 'gcc',
  'clang++': 'gcc',
};

/** Words of these are code. */
const TAKES_CODE =
  /^(?:rails|bundle exec rails) (?:runner|r|console|c)\b|^artisan tinker\b|^mix run (?:.* )?(?:-e|--eval)\b/;
/** Programs whose files are code, also where the file is their input. */
const READS_CODE =
  /^(?:deno|bun|just|task|rake|cmake|ctest|mvn|mvnw|gradle|gradlew|ant|ninja|scons|sbt|lein|mill|invoke|fab|ansible-playbook|java|jshell|kotlinc|swift|rails|artisan)$/;
/** True when the input stands in place of a file, also joined to an option. */
const readsInput = (word: Word): boolean =>
  isInput(word) || isInput(wordFor((word.value ?? '').replace(/^(?:-[a-zA-Z]|--[\w-]+=)/, '')));

/** A word of `make` that is a program of its language, or its input. */
const makes = ({ value = '' }: Word, at: number, all: readonly Word[]): boolean =>
  /\$|^(?:SHELL|\.SHELLFLAGS|MAKEFILES|\.RECIPEPREFIX)\s*[:+?!]*=/.test(value) ||
  (/^(?:GNU)?M(?:AKE)?FLAGS\s*[:+?!]*=/.test(value) && !/=[-bijkls\d ]*$/.test(value)) ||
  (/^(?:-[a-zA-Z]*f|--f\w*|--makefile)$/.test(all[at - 1]?.value ?? '') && INPUT_FILE.test(value)) ||
  (/^(?:-[a-zA-Z]*f|--(?:file|makefile)=)/.test(value) &&
    INPUT_FILE.test(value.replace(/^(?:-[a-zA-Z]*?f|--\w+=)/, '')));
const INPUT_FILE = /^(?:-$|\/dev\/|\/proc\/)/;

/** Maximum number of words of a program that may start others, and of shells among them: their work grows with both. */
const MAX_WORDS = 1024;
const MAX_AMONG = 4;

/** Their scripts are read. */
const SCRIPTED = new Set(['sed', 'gsed', 'awk', 'gawk', 'mawk', 'nawk']);

/** Finds shells and interpreters among words, with the text behind them. */
function among(words: readonly Word[]): Pick<Started, 'supposed' | 'hidden'> {
  const starts = words.flatMap((word, at) => {
    const name = programOf({ words: [word] }) ?? '';
    return SHELLS.has(name) || OTHER_SHELLS.has(name) || SCRIPTED.has(name) || interpreterOf(name) !== undefined
      ? [at]
      : [];
  });
  if (starts.length > MAX_AMONG) return { hidden: UNKNOWN };
  return { hidden: undefined, supposed: starts.map((at) => commandOf(words.slice(at))) };
}

/** Finds texts among words that may be command lines, and values that may name a program. */
function texts(words: readonly Word[]): string[] {
  return words.flatMap(({ value }) => {
    if (value === undefined) return [];
    const given = value.includes('=') ? [value.replace(/^[^=]*=/, ''), value.replace(/^.*=/s, '')] : [];
    const joined = /^-\w(.+)$/s.exec(value)?.[1];
    const all = [value, joined ?? ''].filter((text) => /[\s;&|`$]/.test(text)).concat(given);
    const bare = all.map((text) => text.replace(/^(["'])(.*)\1$/s, '$2').replace(/^!/, ''));
    return [...new Set([...all, ...bare])].filter((text) => text !== '');
  });
}

/** `coreutils --coreutils-prog=touch M` */
function multiCall(words: readonly Word[]): Started {
  const [first, ...rest] = words;
  const name = /^--coreutils-prog=(.+)$/s.exec(first?.value ?? '')?.[1];
  if (name !== undefined) return { ...NOTHING, commands: [commandOf([wordFor(name), ...rest])] };
  return /^--(?:help|version)$/.test(first?.value ?? '') ? NOTHING : unknown;
}

/** `hg`, whose `bisect -c` is a command line. */
function mercurial(words: readonly Word[]): Started {
  const own = runningOptionsOf('hg') as RunningOptions;
  const isBisect = words.some(({ value }) => value === undefined || value.startsWith('bis'));
  return byOptions(words, isBisect ? { ...own, scripts: `${own.scripts} -c` } : own);
}

/** `coverage run [options] FILE` runs it as `python` does. */
function measured(words: readonly Word[]): Started {
  const at = words.findIndex(({ value }) => value === 'run');
  const started = anyOf('coverage', words);
  if (at === -1) return started;
  return {
    ...started,
    supposed: [...(started.supposed ?? []), commandOf([wordFor('python'), ...words.slice(at + 1)])],
  };
}

const FD_RUNS = /^(?:-[a-zA-Z]*[xX]|--exec(?:-batch)?)$/;
/** Other forms of these options, which are not read. */
const FD_OPAQUE = /^(?:-[xX].|--ex)/;

/** `fd … --exec PROGRAM …` */
function foundByFd(words: readonly Word[]): Started {
  const isOpaque = ({ value = '' }: Word): boolean => !FD_RUNS.test(value) && FD_OPAQUE.test(value);
  if (words.some((word) => mayBeOption(word) || isOpaque(word))) return unknown;
  const at = words.findIndex(({ value = '' }) => FD_RUNS.test(value));
  const inner = at === -1 ? [] : words.slice(at + 1);
  return { ...NOTHING, commands: inner.length === 0 ? [] : [commandOf([...inner, FURTHER])] };
}

/** `source FILE` */
function sourced(words: readonly Word[]): Started {
  const [file] = dashes(words);
  if (file === undefined) return NOTHING;
  return file.value === undefined || isInput(file) ? unknown : { ...NOTHING, file };
}

/** `hash -p FILE NAME`: the file is started by another name. */
function hashed(words: readonly Word[]): Started {
  if (words.some(mayBeOption)) return unknown;
  const at = words.findIndex(({ value }) => /^-[a-z]*p/.test(value ?? ''));
  if (at === -1) return NOTHING;
  const inside = words[at]?.value?.replace(/^-[a-z]*?p/, '') ?? '';
  const file = inside === '' ? words[at + 1] : wordFor(inside);
  return file === undefined ? NOTHING : { ...NOTHING, commands: [commandOf([file, FURTHER])] };
}

/** `su` and `runuser`: `-c SCRIPT`, or a shell that reads its input. `runuser -u USER PROGRAM…` starts the program itself. */
function otherUser(words: readonly Word[]): Started {
  const { scripts, opaque, unsure } = runningOptions(words, {
    scripts: '-c --command --session-command',
    opaque: '-s --shell',
    stops: 'gGuwTC',
  });
  if (opaque || unsure) return { ...unknown, scripts };
  const user = words.findIndex(({ value }) => /^(?:-u|--us\w*)/.test(value ?? ''));
  if (user !== -1) {
    const joined = /^(?:-u.|--\w+=)/.test(words[user]?.value ?? '');
    const inner = dashes(words.slice(user + (joined ? 1 : 2)));
    return inner.length === 0 ? unknown : { ...NOTHING, scripts, commands: [commandOf(inner)], mayStart: true };
  }
  return scripts.length > 0 ? { ...NOTHING, scripts } : { ...unknown, mayStart: true };
}

/** `script -c SCRIPT FILE`, or a shell that reads its input. */
function script(words: readonly Word[]): Started {
  const { scripts, unsure } = runningOptions(words, { scripts: '-c --command', stops: 'IOBTtmEo' });
  if (unsure) return { ...unknown, scripts };
  const end = words.findIndex(({ value }) => value === '--');
  const commands = end === -1 || end === words.length - 1 ? [] : [commandOf(words.slice(end + 1))];
  if (scripts.length + commands.length > 0) return { ...NOTHING, scripts, commands, mayStart: true };
  return words.some(({ value }) => /^(?:-V|-h|--version|--help)$/.test(value ?? ''))
    ? NOTHING
    : { ...unknown, mayStart: true };
}

function byGit(words: readonly Word[]): Started {
  const { hidden: isHidden, ...started } = gitStarted(words);
  return {
    ...NOTHING,
    ...started,
    ...(isHidden && { unreadable: 'git may run a program that the line does not show' }),
  };
}

/** Builtins that take names of variables; some also a command line. */
function builtin(program: string, words: readonly Word[]): Started {
  const names = subscripts(words);
  if (program === 'mapfile' || program === 'readarray') {
    const { scripts, opaque } = runningOptions(words, { scripts: '-C', stops: 'dnOsuc' });
    return { ...names, scripts: [...names.scripts, ...scripts], ...(opaque && { unreadable: UNKNOWN }) };
  }
  if (program === 'printf' || program === 'test' || program === '[') return names;
  return joined(names, ...words.map(assignment));
}

/** Reads `NAME=value`, a word of a builtin or of `env`. */
function assignment({ value, text }: Word): Started {
  const at = (value ?? text).indexOf('=');
  const [, name = ''] = /^([A-Za-z_]\w*)\+?=/.exec(value ?? text) ?? [];
  if (name === '') return value !== undefined && /^[A-Za-z_][^=]*%%=/.test(value) ? unknown : NOTHING;
  return assigned(name, value?.slice(at + 1), (value ?? text).slice(at + 1));
}

/** Their programs write lists of commits, in which programs can stand. */
const EDITORS = /^(?:GIT_EDITOR|GIT_SEQUENCE_EDITOR|EDITOR|VISUAL)$/;

/** Reads an assignment; `value` is undefined where it is known only when the line runs. */
export function assigned(name: string, value: string | undefined, text: string): Started {
  const kind = assignedTo(name, value, text);
  const over = isOverSsh('', [wordFor(name), wordFor(text)]) ? { supposed: [SSH] } : {};
  if (kind === 'anything') return { ...NOTHING, hidden: `it sets ${name}, by which other code may run` };
  if (kind === 'script') {
    const writes = EDITORS.test(name) && !isPlainEditor(value ?? '');
    return { ...NOTHING, scripts: [value ?? ''], ...(writes && { hidden: 'its editor may write what runs' }) };
  }
  return {
    ...NOTHING,
    perhaps: value === undefined || value === '' ? [] : [value, ...texts([wordFor(value)])],
    ...over,
  };
}

/** Joins several together. */
function joined(first: Started, ...others: readonly Started[]): Started {
  const all = [first, ...others];
  const unreadable = all.find((one) => one.unreadable !== undefined)?.unreadable;
  const why = all.find((one) => one.hidden !== undefined)?.hidden;
  return {
    ...first,
    commands: all.flatMap(({ commands }) => commands),
    scripts: all.flatMap(({ scripts }) => scripts),
    notes: all.flatMap(({ notes }) => notes),
    perhaps: all.flatMap(({ perhaps = [] }) => perhaps),
    supposed: all.flatMap(({ supposed = [] }) => supposed),
    ...(unreadable !== undefined && { unreadable }),
    ...(why !== undefined && { hidden: why }),
  };
}

/** Returns a word, and the value in an option. */
const filesIn = (word: Word): readonly Word[] =>
  word.value?.startsWith('-') ? [wordFor(word.value.replace(/^(?:-\w|-+[\w-]+=)/, ''))] : [word];

/** Returns words joined with spaces, as one script. */
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
  if (operand !== undefined && !readsInput) {
    return operand.value === undefined || isInput(operand) ? unknown : { ...NOTHING, file: operand };
  }
  return input === undefined ? unknown : { ...NOTHING, scripts: [input] };
}

/** Reads a program that starts the one its operands name. */
function starter(known: Starter, words: readonly Word[]): Started {
  const has = (names: string | undefined, option: string): boolean => list(names).includes(option);
  const { values, flags, optional, scripts: running, pipes, shows } = known;
  const longs = [values, flags, optional, running, pipes, shows].flatMap(list);
  const notes: Note[] = [];
  const scripts: string[] = [];
  const set: Started[] = [];
  let transparent = known.transparent === true;
  let operands = known.operands ?? 0;
  // Some versions take fewer operands.
  const mayStart = operands > 0 && !transparent;
  const done = (started: Partial<Started>): Started =>
    joined({ ...NOTHING, mayStart, notes, ...started, scripts: [...scripts, ...(started.scripts ?? [])] }, ...set);
  for (let at = 0, options = true; at < words.length; at++) {
    const word = words[at] as Word;
    const { value } = word;
    if (
      known.assigns === true &&
      (value === undefined ? /^[A-Za-z_]\w*\+?=/.test(word.text) : /^[^-/][^=]*=/.test(value))
    ) {
      notes.push('assigns');
      set.push(assignment(word));
      continue;
    }
    if (value === undefined) return done({ unreadable: UNKNOWN });
    if (options && value === '--') {
      options = false;
      continue;
    }
    if (options && value.startsWith('-') && (value.length > 1 || has(flags, '-'))) {
      const [given = '', inside] = value.split(/=(.*)/s, 2);
      const name = given.startsWith('--') ? (longOption(given, longs) ?? given) : given;
      if (has(shows, name)) return NOTHING;
      const runs = [running, pipes].find((names) => has(names, name));
      if (runs !== undefined) {
        transparent = false;
        const text = inside ?? words[++at]?.value;
        if (text === undefined) return done({ unreadable: UNKNOWN });
        if (runs === running) scripts.push(text);
        else if (/^\s*[|!]/.test(text)) scripts.push(text.replace(/^\s*[|!]/, ''));
      } else if (has(values, name)) {
        if (!value.includes('=')) at++;
        transparent &&= has(known.harmless, name);
      } else if (has(flags, name) || has(optional, name))
        transparent &&= !has(known.clears, name) && !has(optional, name);
      else {
        const kind = clusterOf(value, known);
        if (kind === undefined) return done({ unreadable: UNKNOWN });
        if (kind === 'value last') at++;
        const piped = kind === 'flags' ? undefined : pipeIn(value, words[at]?.value, known);
        if (piped !== undefined) scripts.push(piped);
        transparent &&= kind === 'flags' ? !clears(value, known) : has(known.harmless, value.slice(0, 2));
      }
      continue;
    }
    if (operands > 0) {
      operands--;
      continue;
    }
    const end =
      known.ends === undefined ? -1 : words.findIndex((one, index) => index >= at && known.ends?.test(one.value ?? ''));
    const inner = words.slice(at, end === -1 ? undefined : end);
    // Without a program the words behind are command lines.
    if (inner.length === 0) return done({ unreadable: UNKNOWN });
    const started = commandOf([...inner, ...(known.more === true ? [FURTHER] : [])]);
    // Some of these programs give a shell one text that holds the commands.
    const isText = known.joined === true || (at === words.length - 1 && /[\s;&|]/.test(value));
    const text = inner.every((one) => one.value !== undefined) ? inner.map((one) => one.value).join(' ') : undefined;
    if (known.joined === true && text === undefined) return done({ unreadable: UNKNOWN });
    const isOnlyText = known.joined === true && inner.length === 1 && (known.more !== true || /\s/.test(value));
    return done({
      commands: isOnlyText ? [] : [started],
      scripts: isText && text !== undefined ? [known.more === true ? withArguments(text) : text] : [],
      transparent: transparent && notes.length === 0,
    });
  }
  return done({ ...(known.shell === true && scripts.length === 0 && { unreadable: UNKNOWN }) });
}

/** Returns a command line with arguments that are not in the line, in the places that are marked for them and behind it. */
const withArguments = (text: string): string => `${text.replaceAll(/\{[^}\s]*\}/g, '"$x"')} "$@"`;

/** Returns the command line of an option among letters whose value begins with `|` or `!`: `-fo '|PROGRAM'`, `-o'|PROGRAM'`. */
function pipeIn(value: string, next: string | undefined, known: Starter): string | undefined {
  const at = [...value].findIndex((letter) => list(known.values).includes(`-${letter}`));
  if (!list(known.pipes).includes(`-${value[at]}`)) return undefined;
  const text = at === value.length - 1 ? next : value.slice(at + 1);
  return text === undefined ? '' : /^\s*[|!](.*)$/s.exec(text)?.[1];
}

/** True when one of the letters is a flag that clears the environment. */
const clears = (value: string, known: Starter): boolean =>
  [...value.slice(1)].some((letter) => list(known.clears).includes(`-${letter}`));

/** Reads short options in one word: `-abc`, `-n5`, `-an 5`; undefined where one is unknown. */
function clusterOf(value: string, known: Starter): 'flags' | 'value inside' | 'value last' | undefined {
  if (value.startsWith('--')) return undefined;
  // `nice -5`
  if (/^-\d+$/.test(value)) return 'flags';
  for (let at = 1; at < value.length; at++) {
    const option = `-${value[at]}`;
    if (list(known.values).includes(option)) return at === value.length - 1 ? 'value last' : 'value inside';
    if (list(known.optional).includes(option)) return at === value.length - 1 ? 'flags' : 'value inside';
    if (!list(known.flags).includes(option)) return undefined;
  }
  return 'flags';
}

function aliases(words: readonly Word[]): Started {
  const scripts = words.flatMap(({ value }) => (value?.includes('=') ? [value.slice(value.indexOf('=') + 1)] : []));
  const isKnown = words.every(({ value }) => value !== undefined);
  return { ...NOTHING, scripts, notes: ['defines'], ...(!isKnown && { unreadable: UNKNOWN }) };
}

/** Maximum number of programs of one `find`: their work grows with the square of them. */
const MAX_RUNS = 32;
const FIND_RUNS = new Set(['-exec', '-execdir', '-ok', '-okdir']);

/** `find … -exec PROGRAM … ;` */
function found(words: readonly Word[]): Started {
  const commands: SimpleCommand[] = [];
  if (words.some(mayBeOption)) return unknown;
  for (let at = 0; at < words.length; at++) {
    if (!FIND_RUNS.has(words[at]?.value ?? '')) continue;
    if (commands.length === MAX_RUNS) return { ...NOTHING, commands, unreadable: UNKNOWN };
    const rest = words.slice(at + 1);
    const end = rest.findIndex(
      ({ value }, index) => value === ';' || (value === '+' && rest[index - 1]?.value === '{}'),
    );
    const inner = (end === -1 ? rest : rest.slice(0, end)).map((word) => (word.value?.includes('{}') ? FURTHER : word));
    if (inner.length > 0) commands.push(commandOf(inner));
  }
  return { ...NOTHING, commands };
}

/** Returns the words without a leading `--`. */
const dashes = (words: readonly Word[]): readonly Word[] => (words[0]?.value === '--' ? words.slice(1) : words);
