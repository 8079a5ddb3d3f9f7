/**
 * What differs between command-line agents: arguments, the reading of output, and how one finds a conversation
 * again. Implemented once a program (`claude.ts`, `codex.ts`, `opencode.ts`, `agy.ts`, `command.ts`); everything they have
 * in common is in `program-executor.ts`.
 */
import { stripVTControlCharacters } from 'node:util';
import type { ProgramEnd } from '../../../base/program.ts';
import type { Usage } from '../../../protocol/fleet.ts';
import type { ExecutorEvents, ExecutorOutcome, ExecutorTask } from '../executor.ts';
import { type CodexCounters, countersOf } from '../usage.ts';
import type { OwnedFlags } from './flags.ts';
import { objectOf } from './frame.ts';

/** What is stored of a conversation between its turns. */
export interface StoredConversation {
  /** The id the program knows it by. */
  readonly session: string;
  /** Counters that continue from turn to turn, as of the last one. */
  readonly counters?: CodexCounters;
  /** The output of the last turn, where the next one repeats it. */
  readonly printed?: Printed;
  /** Its last turn did not end by itself; counters may be behind. */
  readonly unfinished?: boolean;
}

/** A text that is recognised without being stored. */
export interface Printed {
  readonly characters: number;
  readonly sha256: string;
}

/** One run of the program. */
export interface CliTurn {
  readonly task: ExecutorTask;
  /** Fit to be an argument. */
  readonly prompt: string;
  /** Absolute. */
  readonly cwd: string;
  /** Undefined: the conversation starts. */
  readonly conversation: StoredConversation | undefined;
  /** The operator's own arguments, filtered. */
  readonly extra: readonly string[];
}

export interface Cli {
  readonly kind: string;
  /** The program, if the configuration names no other. */
  readonly program: string;
  /** Arguments that are not the operator's. */
  readonly owned: OwnedFlags;
  /** How a user signs in, for messages. */
  readonly signIn?: string;
  /** Arguments that print its version; absent: it cannot be asked. */
  readonly version?: readonly string[];
  /** Whether it is signed in; undefined when that is unknown. `run` gives undefined when the program did not end within its timeout. */
  authenticated?(
    run: (...args: string[]) => Promise<ProgramEnd | undefined>,
    env: Readonly<Record<string, string>>,
  ): Promise<boolean | undefined>;
  /** Milliseconds after which a turn is ended from here; undefined: never. Always later than the program's own timer. */
  readonly killMs?: number;
  /** True when no other turn may start its conversation meanwhile. */
  exclusive?(turn: CliTurn): boolean;
  argv(turn: CliTurn): readonly string[];
  env?(turn: CliTurn): Readonly<Record<string, string>>;
  /** Made before the program starts. */
  read(turn: CliTurn, events: ExecutorEvents): CliReader | Promise<CliReader>;
}

/** Follows the output of one run. */
export interface CliReader {
  /** A line of stdout. Never throws. */
  line(line: string): void;
  /** The program's id of the conversation, once it has reported it. */
  readonly session: string | undefined;
  /** The conversation could not be had as it was wanted, and nothing was run: how to try once more. */
  retry?(end: ProgramEnd): 'begin' | 'resume' | undefined;
  /** The run is over; `stopped`: it was ended from here. */
  finish(end: ProgramEnd, stopped: boolean): CliReply | Promise<CliReply>;
}

/** What a run came to. */
export interface CliReply {
  readonly text: string;
  readonly usage: Usage;
  readonly ending?: ExecutorOutcome['ending'];
  readonly failure?: string;
  readonly warnings?: readonly string[];
  readonly facts?: Readonly<Record<string, unknown>>;
  /** Undefined: there is no conversation to continue. */
  readonly conversation?: StoredConversation;
}

/** An entry as it was stored on disk. */
export function readConversation(value: Readonly<Record<string, unknown>>): StoredConversation | undefined {
  const { session, unfinished } = value;
  if (typeof session !== 'string' || session === '') return undefined;
  const counters = objectOf(value.counters);
  const printed = objectOf(value.printed);
  return {
    session,
    ...(counters !== undefined && { counters: countersOf(counters) }),
    ...(typeof printed?.characters === 'number' &&
      typeof printed.sha256 === 'string' && { printed: { characters: printed.characters, sha256: printed.sha256 } }),
    ...(unfinished === true && { unfinished }),
  };
}

const NOTE_CHARACTERS = 200;

/** A text as one line for people; undefined when there is nothing to read. */
export function noteOf(text: unknown): string | undefined {
  if (typeof text !== 'string') return undefined;
  const line = text
    .slice(0, 4 * NOTE_CHARACTERS)
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, NOTE_CHARACTERS);
  return line === '' ? undefined : line;
}

const SAID_CHARACTERS = 600;

/** The end of what a program wrote to stderr, in a line: without colours, and without frames of a stack without symbols. */
export function summaryOfStderr(stderr: string): string {
  const lines = stripVTControlCharacters(stderr)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && line !== 'Stack backtrace:' && !/^\d+: <unknown>$/.test(line));
  return lines.join(' · ').slice(-SAID_CHARACTERS);
}

/** True when one of the signals is in a text, whatever its case and colours. */
export function hasSignal(text: string, signals: readonly string[]): boolean {
  const plain = stripVTControlCharacters(text).toLowerCase();
  return signals.some((signal) => plain.includes(signal));
}
