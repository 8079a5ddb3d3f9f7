/**
 * The commands of a tool call: a command line or a list of words is read into simple commands, and these into the commands that
 * they start in turn, until nothing is left to look into.
 *
 * Rules and answers are about these words, never about the text. A part that cannot be read is reported, and then the call
 * asks.
 */

import { join, resolve } from 'node:path';
import { givenVariables } from '../../../base/child-environment.ts';
import { isInside } from '../../../base/is-inside.ts';
import { onceSucceeded } from '../../../base/once-succeeded.ts';
import { trimmedEnd } from '../../../base/trim-end.ts';
import { madeBy, readsWritten } from './code-files.ts';
import { commandOf, FURTHER, likelyValue, wordFor } from './options.ts';
import { CHANGES_THE_SHELL, TAKES_NAMES } from './programs.ts';
import type { SecondOpinion } from './second-opinion.ts';
import {
  NOTES,
  type Note,
  readScript,
  type ScriptReading,
  type SimpleCommand,
  TOO_DEEP,
  TOO_LARGE,
  type Word,
} from './shell-syntax.ts';
import type { Started } from './started.ts';
import { assigned, programOf, startedBy } from './started-by.ts';

/** One program with its arguments. */
export interface Command {
  readonly words: readonly Word[];
  /** True when it does nothing but start others, which are in the list too: no rule need allow it. */
  readonly transparent: boolean;
  /** True when it may not be started at all: only rules that ask or deny are perhaps about it. */
  readonly supposed: boolean;
  /** The program is in no list: unless a rule allows it, rules that ask or deny are perhaps about a program that it starts. */
  readonly unknown: boolean;
  /** Each of its words may be a program that it starts. */
  readonly mayStart: boolean;
}

/** The commands that a call runs, and its other effects. */
export interface CommandReading {
  /** The commands in the order they were found; a command that starts another one stands before it. */
  readonly commands: readonly Command[];
  /** Other effects of the call; a rule allows a call only where this set is empty. */
  readonly notes: ReadonlySet<Note>;
  /** Reason why commands may be missing from the list. */
  readonly unreadable: string | undefined;
  /** Reason why it may start programs that are not in the list, though rules can allow those in it. */
  readonly hidden: string | undefined;
}

/** Members of an input that name the command. */
const COMMAND_MEMBERS = ['command', 'argv', 'cwd', 'env', 'stdin'];

/** Names under which tools take the file they work on. */
export const PATH_MEMBERS: readonly string[] = ['path', 'file_path', 'filePath', 'abs_path'];

/** Members of an input whose texts are not commands, or are read as the command. */
const NO_TEXTS: ReadonlySet<string> = new Set([...COMMAND_MEMBERS, ...PATH_MEMBERS]);

/** Members of a command's input that do not change which commands run. */
export const BESIDE_THE_POINT: ReadonlySet<string> = new Set([
  'description',
  'timeout',
  'timeout_ms',
  'timeout_seconds',
  'wait_seconds',
  'stop_with_turn',
  'max_output_bytes',
]);

/** Maximum depth of programs that start each other in one line, and of scripts of all depths together. */
const MAX_LEVELS = 8;
const MAX_SCRIPTS = 64;
/** Maximum number of texts that are read because they may be scripts. */
const MAX_SUPPOSED = 32;
/** Maximum number of files of one line that are looked at. */
const MAX_FILES = 4;
/** Maximum number of variables of one script, or beside a command, that are looked at. */
const MAX_ASSIGNMENTS = 128;
/**
 * The work of one call, over all commands and scripts that are found in each other: characters, and as many more for each word
 * and each text. Commands that start each other many times are more than the line has.
 */
const MAX_WORK = 256 * 1024;
const WORK_OF_WORD = 32;
const WORK_OF_TEXT = 512;
/** Maximum number of words of one command. */
const MAX_WORDS = 4096;

/** The path by which a program is known, of those that rules name; see `real-path.ts`. */
type RealPath = (path: string, names: ReadonlySet<string>) => string | undefined;

export class CommandReader {
  /** Undefined once it was called and has answered. */
  #open: (() => Promise<SecondOpinion | undefined>) | undefined;
  #loading: (() => Promise<void>) | undefined;
  #second: SecondOpinion | undefined;
  readonly #realPath: RealPath;
  readonly #names = new Set<string>();

  /**
   * @param open loads the second parser, where it is installed. Default: no second parser.
   * @param realPath the path by which a program is known. Default: files are not looked at.
   */
  constructor(open?: () => Promise<SecondOpinion | undefined>, realPath: RealPath = () => undefined) {
    this.#open = open;
    this.#realPath = realPath;
  }

  /** Looks for these programs under other names, too. */
  watch(names: Iterable<string>): void {
    for (const name of names) this.#names.add(name);
  }

  /** Returns undefined once everything is loaded that `read` needs; until then a promise for it, which never rejects. */
  ready(): Promise<void> | undefined {
    if (this.#open === undefined) return undefined;
    this.#loading ??= onceSucceeded(async () => {
      this.#second = await this.#open?.();
      this.#open = undefined;
    });
    return this.#loading();
  }

  /** Reads the commands that a call with this input runs in a session that works in `cwd`; undefined when it has no command. */
  read(input: Readonly<Record<string, unknown>>, cwd: string): CommandReading | undefined {
    const { command, argv } = input;
    const given = [command, argv].filter((value) => value !== undefined && value !== null);
    if (given.length === 0) return undefined;
    const folder = resolve(cwd, typeof input.cwd === 'string' ? input.cwd : '.');
    const line = new Line(
      (text) => this.#script(text),
      (file) => this.#realPath(resolve(folder, file), this.#names),
    );
    if (given.length > 1) line.unreadable = 'it names two commands';
    for (const one of given) {
      if (typeof one === 'string') line.script(one, 0);
      else if (isTexts(one) && one.length > 0) line.command({ words: one.map(wordFor), input: textOf(input.stdin) }, 0);
      else line.unreadable = 'it is not a command';
    }
    if (line.commands.length === 0) line.unreadable ??= 'it holds no command';
    otherTexts(input, line);
    line.environment(input.env);
    for (const note of notesOf(input, cwd)) line.notes.add(note);
    return line.finished();
  }

  /**
   * Reads a call whose command stands in members that rules do not know: `cmd`, `script`, the title of an agent's call. Only
   * rules that ask or deny look at the result.
   * @param isRun the call does run a command
   */
  readUnknown(input: Readonly<Record<string, unknown>>, isRun: boolean): CommandReading {
    const line = new Line(
      (text) => this.#script(text),
      () => undefined,
    );
    line.notes.add('members');
    const read = otherTexts(input, line, isRun ? 'likely' : 'perhaps');
    if (isRun && read === 0) line.hidden ??= 'its command is not known';
    return line.finished();
  }

  /** Reads a script; where the second parser finds other commands, or cannot read it, commands may be missing. */
  #script(text: string): ScriptReading {
    const reading = readScript(text);
    if (this.#second === undefined || reading.unreadable !== undefined) return reading;
    const why = this.#second(text, reading.commands);
    return why === undefined ? reading : { ...reading, unreadable: why };
  }
}

/** Programs that make files: one that is run in the same line may be theirs. */
const MAKES_FILES: ReadonlySet<string | undefined> = new Set(
  'cp ln mv install tee sponge dd sed gsed awk gawk mawk nawk curl wget aria2c rsync scp printf echo cat touch truncate link unlink rename sort split csplit uniq shuf iconv xxd openssl gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd patch ed ex jq yq sd xmllint dos2unix unix2dos perl ruby script git m4'.split(
    ' ',
  ),
);
/** With text of the line as their input they make any files. */
const MAKES_ANY_FILE: ReadonlySet<string> = new Set(['patch', 'git', 'tar', 'cpio', 'ed', 'ex']);

/** The names of their files are not in the line. */
const MAKES_PARTS: ReadonlySet<string> = new Set(['split', 'csplit']);

/**
 * Certainty that a command is started; `likely`: a shell among the words of a program; `perhaps`: a text that may be a script.
 */
type Standing = 'started' | 'likely' | 'perhaps';

/** One call while it is read. */
class Line {
  readonly commands: Command[] = [];
  readonly notes = new Set<Note>();
  unreadable: string | undefined;
  hidden: string | undefined;
  readonly #read: (text: string) => ScriptReading;
  readonly #realName: (file: string) => string | undefined;
  #scripts = 0;
  #supposed = 0;
  readonly #functions = new Set<string>();
  readonly #written: Word[] = [];
  readonly #literals: string[] = [];
  readonly #makesAny: number[] = [];
  readonly #files: { readonly file: Word; readonly command: number }[] = [];
  #evaluates = false;
  readonly #looked = new Set<string>();
  #work = 0;

  constructor(read: (text: string) => ScriptReading, realName: (file: string) => string | undefined) {
    this.#read = read;
    this.#realName = realName;
  }

  /** Variables beside the command, as an object or as the pairs of an editor's terminal. */
  environment(env: unknown): void {
    const given = givenVariables(env);
    if (given.length > MAX_ASSIGNMENTS) this.hidden ??= TOO_MANY_VARIABLES;
    for (const [name, value] of given.slice(0, MAX_ASSIGNMENTS)) {
      const text = textOf(value);
      this.#started(assigned(String(name), text, text ?? ''), 0, 'started');
    }
  }

  script(text: string, level: number, standing: Standing = 'started'): void {
    const supposed = standing !== 'started';
    if (level > MAX_LEVELS || (supposed ? ++this.#supposed > MAX_SUPPOSED : ++this.#scripts > MAX_SCRIPTS)) {
      if (supposed) this.hidden ??= TOO_DEEP;
      else this.unreadable ??= TOO_DEEP;
      return;
    }
    if (!this.#mayLook(WORK_OF_TEXT + text.length, standing)) return;
    const { commands, notes, unreadable, ...found } = this.#read(text);
    if (!supposed) {
      this.unreadable ??= unreadable;
      for (const note of notes) this.notes.add(note);
    }
    for (const name of found.functions) this.#functions.add(name);
    this.#written.push(...found.written);
    this.#literals.push(...found.literals);
    this.#evaluates ||= found.evaluates;
    if (found.assignments.length > MAX_ASSIGNMENTS) this.hidden ??= TOO_MANY_VARIABLES;
    for (const { name, value, text: written } of found.assignments.slice(0, MAX_ASSIGNMENTS)) {
      this.#started(assigned(name, value, written), level, standing);
    }
    for (const command of commands) this.command(command, level, standing);
  }

  command(command: SimpleCommand, level: number, standing: Standing = 'started'): void {
    const { length } = command.words;
    const work = length > MAX_WORDS ? MAX_WORK + 1 : workOf(command.words);
    if (!this.#mayLook(work, standing)) return;
    const started = startedBy(command);
    const { words } = command;
    const { transparent, unknown = false, mayStart = false, file, files = [] } = started;
    const supposed = standing !== 'started';
    this.commands.push({
      words,
      transparent,
      supposed,
      unknown: unknown && standing !== 'perhaps' && command.perhaps !== true,
      mayStart,
    });
    const program = programOf(command) ?? '';
    if (TAKES_NAMES.has(program)) this.#evaluates = true;
    if (!supposed) {
      const all = file === undefined ? files : [file, ...files];
      this.#files.push(...all.map((one) => ({ file: one, command: this.commands.length - 1 })));
      const isAny = MAKES_PARTS.has(program) || (command.input !== undefined && MAKES_ANY_FILE.has(program));
      if (isAny) this.#makesAny.push(this.commands.length - 1);
    }
    this.#started(started, level, standing);
    if (file !== undefined && file === words[0]) this.#real(file, words, level);
  }

  /** Counts work; false where it is too much. */
  #mayLook(work: number, standing: Standing): boolean {
    this.#work += work;
    if (this.#work <= MAX_WORK) return true;
    if (standing === 'started') this.unreadable ??= TOO_LARGE;
    else this.hidden ??= TOO_LARGE;
    return false;
  }

  /** Reads a link in the folder under the name of its target, too. */
  #real(file: Word, words: readonly Word[], level: number): void {
    if (file.value === undefined || level >= MAX_LEVELS || this.#looked.has(file.value)) return;
    this.#looked.add(file.value);
    if (this.#looked.size > MAX_FILES) {
      this.hidden ??= 'it runs too many files to look at them';
      return;
    }
    const { value } = file;
    const paths = [value, ...this.#folders().map((folder) => join(folder, value))];
    const name = paths.map((path) => this.#realName(path)).find((one) => one !== undefined);
    if (name === undefined) return;
    this.command(commandOf([wordFor(name), ...words.slice(1)]), level + 1, 'likely');
  }

  /** Returns the last folders that the line has changed to, as far as they are known. */
  #folders(): string[] {
    return this.commands
      .filter(({ words }) => words[0]?.value === 'cd' || words[0]?.value === 'pushd')
      .flatMap(({ words }) => words.at(-1)?.value ?? [])
      .slice(-MAX_FILES);
  }

  #started(started: Started, level: number, standing: Standing): void {
    const { commands, scripts, notes, unreadable, hidden, perhaps = [], supposed = [] } = started;
    if (standing === 'started') {
      this.unreadable ??= unreadable;
      for (const note of notes) this.notes.add(note);
    } else this.hidden ??= unreadable;
    if (standing !== 'perhaps') this.hidden ??= hidden;
    if (commands.length > 0 && level >= MAX_LEVELS) this.unreadable ??= TOO_DEEP;
    else for (const inner of commands) this.command(inner, level + 1, standing);
    for (const script of scripts) this.script(script, level + 1, standing);
    for (const text of perhaps) this.script(text, level + 1, 'perhaps');
    for (const inner of supposed) {
      if (level >= MAX_LEVELS || ++this.#supposed > MAX_SUPPOSED) this.hidden ??= TOO_DEEP;
      else this.command(inner, level + 1, standing === 'perhaps' ? standing : 'likely');
    }
  }

  finished(): CommandReading {
    // A shell that evaluates the text of a variable runs the substitutions in it.
    if (this.#evaluates) for (const text of this.#literals.splice(0)) this.script(text, 1, 'perhaps');
    this.#runsWritten();
    this.#readsWritten();
    const commands = this.commands.map((command) => ({
      ...command,
      unknown: command.unknown && !this.#functions.has(command.words[0]?.value ?? ''),
    }));
    const counted = commands.filter(({ transparent, supposed }) => !transparent && !supposed);
    if (counted.length > 1 && counted.some(changesTheShell)) this.notes.add('state');
    return { commands, notes: this.notes, unreadable: this.unreadable, hidden: this.hidden };
  }

  /** Marks a file that the same line may have made as one with unread content. */
  #runsWritten(): void {
    if (this.#files.length === 0) return;
    // For each name, the first and the last command that may have made it: a command does not make the file that it runs.
    const makers = new Map<string | undefined, readonly [first: number, last: number]>();
    const note = ({ value }: Word, command: number): void => {
      const name = value === undefined ? undefined : nameOf(value);
      makers.set(name, [makers.get(name)?.[0] ?? command, command]);
    };
    for (const word of this.#written) note(word, -1);
    for (const at of this.#makesAny) note(FURTHER, at);
    for (const [at, { words, supposed }] of this.commands.entries()) {
      if (supposed || !MAKES_FILES.has(programOf({ words }))) continue;
      for (const word of words.slice(1).flatMap(withParts)) note(word, at);
    }
    const isMade = this.#files.some(({ file: { value }, command }) => {
      const names = value === undefined ? [...makers.keys()] : [undefined, nameOf(value)];
      return names.some((name) => makers.get(name)?.some((maker) => maker !== command));
    });
    if (isMade) this.hidden ??= 'it runs a file that it may have written';
  }

  /** Notes programs that read a written file as code without being given it. */
  #readsWritten(): void {
    const started = this.commands.filter(({ supposed }) => !supposed);
    const programs = started.map((command) => programOf(command) ?? '');
    // The last part of a word that is not known, as `~/.profile`, may be the name.
    const files = [
      ...this.#written.map(likelyValue),
      ...started.flatMap(({ words }, at) => madeBy(programs[at] ?? '', words.slice(1))),
    ];
    if (readsWritten(files, programs)) this.hidden ??= 'a program in it may read a file that it writes';
  }
}

/** Maximum number of parts of one script that may name files. */
const MAX_PARTS = 256;

const TOO_MANY_VARIABLES = 'it sets too many variables';

const workOf = (words: readonly Word[]): number =>
  words.reduce((all, { text, value = '' }) => all + WORK_OF_WORD + Math.max(text.length, value.length), 0);

/** Returns the last part of a path, also behind `of=` and `--output=`. */
const nameOf = (path: string): string => trimmedEnd(path.replace(/^[\w-]+=/, ''), '/').replace(/^.*\//s, '');

/** Returns a word, the text behind the letter of an option, and the parts of a script: `-oFILE`, `w FILE`, `print > "FILE"`. */
function withParts(word: Word): readonly Word[] {
  if (word.value === undefined) return [word];
  const unpacked = word.value.replace(/\.(?:gz|bz2|xz|lzma|zst|lz4|Z)$/, '');
  if (unpacked !== word.value) return [word, wordFor(unpacked)];
  if (!/^-\w.|\s/.test(word.value)) return [word];
  const parts = word.value.split(/[\s"';}>]+/, MAX_PARTS);
  return [word, ...[word.value.slice(2), ...parts].map(wordFor)];
}

/** Reads texts and lists of words in other members, which may be commands, or belong to one: `{command: "env", args: […]}`. */
function otherTexts(
  input: Readonly<Record<string, unknown>>,
  line: Line,
  standing: Exclude<Standing, 'started'> = 'perhaps',
): number {
  let read = 0;
  const { command, cmd, program, executable } = input;
  const before = [command, cmd, program, executable].find((one) => typeof one === 'string');
  for (const [member, value] of Object.entries(input)) {
    if (NO_TEXTS.has(member) || BESIDE_THE_POINT.has(member)) continue;
    if (typeof value === 'string') {
      read += 1;
      // Titles of calls have their command in backquotes.
      line.script(value.replace(/^`([^`]*)`$/s, '$1'), 1, standing);
    } else if (isTexts(value) && value.length > 0) {
      read += 1;
      for (const word of value) if (/\s/.test(word)) line.script(word, 1, 'perhaps');
      const words = typeof before === 'string' ? [before, ...value] : value;
      line.command(commandOf(words.map(wordFor)), 1, 'likely');
      if (words !== value) line.command(commandOf(value.map(wordFor)), 1, 'perhaps');
      line.script(words.join(' '), 1, 'perhaps');
    }
  }
  return read;
}

function changesTheShell({ words, transparent }: Command): boolean {
  const program = programOf({ words }) ?? '';
  if (transparent) return false;
  return (
    CHANGES_THE_SHELL.has(program) ||
    (program === 'printf' && words.some(({ value }) => value !== undefined && /^-v/.test(value)))
  );
}

/** Returns the effects that the members beside the command tell of. */
function notesOf(input: Readonly<Record<string, unknown>>, cwd: string): Note[] {
  const notes: Note[] = [];
  if (!isEmpty(input.env)) notes.push('environment');
  if (!isEmpty(input.stdin)) notes.push('reads');
  if (!isEmpty(input.cwd) && !staysInside(input.cwd, cwd)) notes.push('folder');
  const others = Object.keys(input).filter((name) => !COMMAND_MEMBERS.includes(name) && !BESIDE_THE_POINT.has(name));
  if (others.some((name) => !isEmpty(input[name]))) notes.push('members');
  return notes;
}

function staysInside(folder: unknown, cwd: string): boolean {
  // Some agents expand the home folder, or take an address.
  if (typeof folder !== 'string' || /^~|^[a-z][a-z\d+.-]*:/i.test(folder)) return false;
  return isInside(cwd, resolve(cwd, folder));
}

/** Returns the first reason why no rule covers a reading, in words; undefined where rules may. */
export function whyNotPlain({ unreadable, notes }: CommandReading): string | undefined {
  const [note] = notes;
  return unreadable ?? (note === undefined ? undefined : NOTES[note]);
}

const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((word) => typeof word === 'string');

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

function isEmpty(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return value === undefined || value === null || value === '';
  for (const name in value) if (Object.hasOwn(value, name)) return false;
  return true;
}
