/**
 * The commands of a tool call: a command line or a list of words is read into simple commands, and these into what they
 * start in turn, until nothing is left to look into. Called by the policy and for the coverage of remembered answers.
 *
 * Rules and answers are about these words, never about the text. What cannot be read is said, and then asks.
 */

import { relative, resolve, sep } from 'node:path';
import { onceSucceeded } from '../../../base/once-succeeded.ts';
import { CHANGES_THE_SHELL } from './programs.ts';
import type { SecondOpinion } from './second-opinion.ts';
import { NOTES, type Note, readScript, type ScriptReading, type SimpleCommand, type Word } from './shell-syntax.ts';
import { programOf, startedBy, wordFor } from './started-by.ts';

/** One program with its arguments. */
export interface Command {
  readonly words: readonly Word[];
  /** It does nothing but start others, which are in the list too: no rule need allow it. */
  readonly transparent: boolean;
}

/** What a call runs. */
export interface CommandReading {
  /** In the order they were found; a command that starts another one stands before it. */
  readonly commands: readonly Command[];
  /** What else it does; a rule allows a call only where there is nothing. */
  readonly notes: ReadonlySet<Note>;
  /** Why commands may be missing from the list. */
  readonly unreadable: string | undefined;
}

/** Members of an input that name the command. */
const COMMAND_MEMBERS = ['command', 'argv', 'cwd', 'env', 'stdin'];

/** Members of a command's input that do not change what is run. */
export const BESIDE_THE_POINT: ReadonlySet<string> = new Set([
  'description',
  'timeout',
  'timeout_ms',
  'timeout_seconds',
  'wait_seconds',
  'stop_with_turn',
  'max_output_bytes',
]);

/** How deep programs may start each other in one line, and most scripts of all depths together. */
const MAX_LEVELS = 8;
const MAX_SCRIPTS = 64;

export class CommandReader {
  /** Undefined once it was called and has answered. */
  #open: (() => Promise<SecondOpinion | undefined>) | undefined;
  #loading: (() => Promise<void>) | undefined;
  #second: SecondOpinion | undefined;

  /** @param open loads the second parser, where it is installed. Default: there is none. */
  constructor(open?: () => Promise<SecondOpinion | undefined>) {
    this.#open = open;
  }

  /** Undefined once everything is loaded that `read` needs; until then a promise for it, which never rejects. */
  ready(): Promise<void> | undefined {
    if (this.#open === undefined) return undefined;
    this.#loading ??= onceSucceeded(async () => {
      this.#second = await this.#open?.();
      this.#open = undefined;
    });
    return this.#loading();
  }

  /** What a call with this input runs in a session that works in `cwd`; undefined when it has no command. */
  read(input: Readonly<Record<string, unknown>>, cwd: string): CommandReading | undefined {
    const { command, argv } = input;
    const given = [command, argv].filter((value) => value !== undefined && value !== null);
    if (given.length === 0) return undefined;
    const line = new Line((text) => this.#script(text));
    if (given.length > 1) line.unreadable = 'it names two commands';
    for (const one of given) {
      if (typeof one === 'string') line.script(one, 0);
      else if (isTexts(one) && one.length > 0) line.command({ words: one.map(wordFor), input: textOf(input.stdin) }, 0);
      else line.unreadable = 'it is not a command';
    }
    if (line.commands.length === 0) line.unreadable ??= 'it holds no command';
    for (const note of notesOf(input, cwd)) line.notes.add(note);
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

/** One call while it is read. */
class Line {
  readonly commands: Command[] = [];
  readonly notes = new Set<Note>();
  unreadable: string | undefined;
  readonly #read: (text: string) => ScriptReading;
  #scripts = 0;

  constructor(read: (text: string) => ScriptReading) {
    this.#read = read;
  }

  script(text: string, level: number): void {
    if (level > MAX_LEVELS || ++this.#scripts > MAX_SCRIPTS) {
      this.unreadable ??= 'it is nested too deeply to be read';
      return;
    }
    const { commands, notes, unreadable } = this.#read(text);
    this.unreadable ??= unreadable;
    for (const note of notes) this.notes.add(note);
    for (const command of commands) this.command(command, level);
  }

  command(command: SimpleCommand, level: number): void {
    const { commands, scripts, notes, unreadable, transparent } = startedBy(command);
    this.commands.push({ words: command.words, transparent });
    this.unreadable ??= unreadable;
    for (const note of notes) this.notes.add(note);
    if (commands.length > 0 && level >= MAX_LEVELS) this.unreadable ??= 'it is nested too deeply to be read';
    else for (const inner of commands) this.command(inner, level + 1);
    for (const script of scripts) this.script(script, level + 1);
  }

  finished(): CommandReading {
    const counted = this.commands.filter(({ transparent }) => !transparent);
    if (counted.length > 1 && this.commands.some(changesTheShell)) this.notes.add('state');
    return { commands: this.commands, notes: this.notes, unreadable: this.unreadable };
  }
}

function changesTheShell({ words, transparent }: Command): boolean {
  const program = programOf({ words }) ?? '';
  if (transparent) return false;
  return (
    CHANGES_THE_SHELL.has(program) ||
    (program === 'printf' && words.some(({ value }) => value !== undefined && /^-v/.test(value)))
  );
}

/** What the members beside the command say. */
function notesOf(input: Readonly<Record<string, unknown>>, cwd: string): Note[] {
  const notes: Note[] = [];
  if (!isEmpty(input.env)) notes.push('environment');
  if (!isEmpty(input.stdin)) notes.push('reads');
  if (!isEmpty(input.cwd) && !isInside(input.cwd, cwd)) notes.push('folder');
  const others = Object.keys(input).filter((name) => !COMMAND_MEMBERS.includes(name) && !BESIDE_THE_POINT.has(name));
  if (others.some((name) => !isEmpty(input[name]))) notes.push('members');
  return notes;
}

function isInside(folder: unknown, cwd: string): boolean {
  // Some agents expand the home folder, or take an address.
  if (typeof folder !== 'string' || /^~|^[a-z][a-z\d+.-]*:/i.test(folder)) return false;
  const way = relative(cwd, resolve(cwd, folder));
  return way !== '..' && !way.startsWith(`..${sep}`) && !way.startsWith(sep);
}

/** The first reason why no rule covers a reading, in words; undefined where rules may. */
export function whyNotPlain({ unreadable, notes }: CommandReading): string | undefined {
  const [note] = notes;
  return unreadable ?? (note === undefined ? undefined : NOTES[note]);
}

const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((word) => typeof word === 'string');

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === '' ||
  (typeof value === 'object' && Object.keys(value).length === 0);
