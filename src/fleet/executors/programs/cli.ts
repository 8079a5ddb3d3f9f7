/**
 * The adapter contract of command-line agents: arguments, reading of the output, and resuming a conversation. Each program
 * implements it (`claude.ts`, `codex.ts`, `opencode.ts`, `agy.ts`, `command.ts`); `program-executor.ts` has the common part.
 */
import { stripVTControlCharacters } from 'node:util';
import type { ProgramEnd } from '../../../base/program.ts';
import type { Usage } from '../../../protocol/fleet.ts';
import type { ExecutorEnvironment, ExecutorEvents, ExecutorOutcome, ExecutorTask } from '../executor.ts';
import { type CodexCounters, countersOf } from '../usage.ts';
import type { OwnedFlags } from './flags.ts';
import { objectOf } from './frame.ts';

/** Data of a conversation, stored between its turns. */
export interface StoredConversation {
  /** The program's id of the conversation. */
  readonly session: string;
  /** Counters that continue from turn to turn, as of the last one. */
  readonly counters?: CodexCounters;
  /** The output of the last turn, where the next one repeats it. */
  readonly printed?: Printed;
  /** Its last turn was interrupted; the stored counters may be too low. */
  readonly unfinished?: boolean;
}

/** Length and hash of a text, which recognise it without storing it. */
export interface Printed {
  readonly characters: number;
  readonly sha256: string;
}

/** One run of the program. */
export interface CliTurn {
  readonly task: ExecutorTask;
  /** Valid as a program argument. */
  readonly prompt: string;
  /** Absolute. */
  readonly cwd: string;
  /** Undefined: this turn starts the conversation. */
  readonly conversation: StoredConversation | undefined;
  /** The operator's own arguments, filtered. */
  readonly extra: readonly string[];
  /** The worker's environment for this task; undefined: it has none. */
  readonly environment?: ExecutorEnvironment | undefined;
  /** True when it may use settings and MCP servers that the working directory brings. */
  readonly usesFolder: boolean;
}

export interface Cli {
  readonly kind: string;
  /** The default program. */
  readonly program: string;
  /** Arguments that the adapter sets; the operator's own are filtered by it. */
  readonly owned: OwnedFlags;
  /** Way in which a user signs in, for messages. */
  readonly signIn?: string;
  /** Arguments that print its version; absent: it has no such option. */
  readonly version?: readonly string[];
  /**
   * Returns whether it is signed in; undefined: unknown. `run` resolves with undefined when the program exceeds its timeout.
   */
  authenticated?(
    run: (...args: string[]) => Promise<ProgramEnd | undefined>,
    env: Readonly<Record<string, string>>,
  ): Promise<boolean | undefined>;
  /** Milliseconds after which the executor stops a turn; undefined: never. Always later than the program's own timer. */
  readonly killMs?: number;
  /** Its reply is all that it prints, and of a very long one the end is read: it has the result. */
  readonly keepsEnd?: boolean;
  /** True when no other turn may start a conversation at the same time. */
  exclusive?(turn: CliTurn): boolean;
  argv(turn: CliTurn): readonly string[];
  /** @param own the environment it gets anyway */
  env?(turn: CliTurn, own: Readonly<Record<string, string>>): Readonly<Record<string, string>>;
  /** Makes the reader of a turn, before the program starts. */
  read(turn: CliTurn, events: ExecutorEvents): CliReader | Promise<CliReader>;
}

/** Reads the output of one run. */
export interface CliReader {
  /** Takes a line of stdout. Never throws. */
  line(line: string): void;
  /** The program's id of the conversation, once it has reported it. */
  readonly session: string | undefined;
  /**
   * Returns the way to retry when the program refused the conversation and ran nothing: start a new one or resume; undefined:
   * no retry.
   */
  retry?(end: ProgramEnd): 'start' | 'resume' | undefined;
  /** Returns the reply of an ended run; `stopped`: the executor ended it. */
  finish(end: ProgramEnd, stopped: boolean): CliReply | Promise<CliReply>;
}

/** The outcome of a run. */
export interface CliReply {
  readonly text: string;
  readonly usage: Usage;
  readonly ending?: ExecutorOutcome['ending'];
  readonly failure?: string;
  readonly warnings?: readonly string[];
  readonly facts?: Readonly<Record<string, unknown>>;
  /** Undefined: no conversation to continue. */
  readonly conversation?: StoredConversation;
}

/** The variable in which a program finds the token of its environment: every user of the machine can read arguments. */
export const ENVIRONMENT_TOKEN = 'HANDFAST_MCP_TOKEN';

/** Returns the address of the environment and its token as variables of a program. */
export const environmentValues = ({ url, token }: ExecutorEnvironment): Readonly<Record<string, string>> => ({
  HANDFAST_MCP_URL: url,
  [ENVIRONMENT_TOKEN]: token,
});

/** Reads a stored entry; undefined for an invalid one. */
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

/** Returns a text as one line for people; undefined when it is blank. */
export function noteOf(text: unknown): string | undefined {
  if (typeof text !== 'string') return undefined;
  const line = text
    .slice(0, 4 * NOTE_CHARACTERS)
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, NOTE_CHARACTERS);
  return line === '' ? undefined : line;
}

const STDERR_CHARACTERS = 600;

/** Returns the end of stderr in a line, without colours and without stack frames that have no symbols. */
export function summaryOfStderr(stderr: string): string {
  const lines = stripVTControlCharacters(stderr)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && line !== 'Stack backtrace:' && !/^\d+: <unknown>$/.test(line));
  return lines.join(' · ').slice(-STDERR_CHARACTERS);
}

/** True when one of the signals is in a text, in any case and colour. */
export function hasSignal(text: string, signals: readonly string[]): boolean {
  const plain = stripVTControlCharacters(text).toLowerCase();
  return signals.some((signal) => plain.includes(signal));
}
