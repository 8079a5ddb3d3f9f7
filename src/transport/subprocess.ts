/**
 * A link to a program that is started for it and speaks on its stdin and stdout.
 *
 * Called for `stdio:` addresses and by whoever runs a host or a worker as a child. Owns the child's whole life: its
 * process group, its stderr, and the ladder by which it is stopped (stdin closed, SIGTERM, SIGKILL).
 */

import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { within } from '../base/race.ts';
import { fail } from '../wire/errors.ts';
import type { CloseInfo, Link } from './link.ts';
import { StderrLines } from './stderr-lines.ts';
import { type Ending, StreamLink } from './stream.ts';

/** Time between SIGTERM and SIGKILL. */
const DEFAULT_TERMINATE_MS = 2000;

/** How long a killed process may take to disappear before its link is told gone without an exit code. */
const REAP_MS = 2000;

/** How long the output of an exited child may go on, when something it started still holds the pipe. */
const AFTER_EXIT_MS = 250;

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

export interface SpawnLinkOptions {
  /** The program, looked up in PATH when it has no slash. No shell is involved. */
  readonly command: string;
  readonly args?: readonly string[];
  readonly cwd?: string;
  /** Set in addition to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Gets each line the child writes to its stderr, without its line break, cut at 4,096 characters. */
  readonly onStderr?: (line: string) => void;
  /** Longest message accepted, in bytes. Default 1 MiB. */
  readonly maxMessageBytes?: number;
  /** Time between SIGTERM and SIGKILL when the child has to be stopped. Default 2,000. */
  readonly terminateMs?: number;
}

/**
 * Starts a program and resolves with its link once it runs. Closing the link closes the child's stdin and waits for its
 * end within `graceMs`; then the group gets SIGTERM, then SIGKILL. `destroy` kills at once. `closed` is told when the
 * child is gone, with its exit code; a failure's reason holds the last line of its stderr.
 *
 * @throws unreachable when the program cannot be started
 */
export async function spawnLink(options: SpawnLinkOptions): Promise<Link> {
  const { command, args = [], cwd, env, onStderr, maxMessageBytes, terminateMs = DEFAULT_TERMINATE_MS } = options;
  const child = await started(command, args, cwd, env);
  const stderr = new StderrLines(child.stderr, onStderr);
  const exit = exitOf(child);
  // Arguments may hold secrets, so only the program is named.
  const peer = `stdio:${command} (pid ${child.pid})`;
  return new StreamLink({
    transport: 'subprocess',
    peer,
    readable: child.stdout,
    writable: child.stdin,
    maxMessageBytes,
    settle: async (cause, ending, graceMs) => {
      await stop(child, exit, ending, graceMs, terminateMs);
      return withExit(cause, child, stderr.last);
    },
  });
}

/** Spawns the child in a process group of its own. */
function started(
  command: string,
  args: readonly string[],
  cwd: string | undefined,
  env: Readonly<Record<string, string>> | undefined,
): Promise<Child> {
  return new Promise((resolve, reject) => {
    const refused = (error: Error): void => {
      reject(fail('unreachable', `cannot start ${command}: ${error.message}`, { command }, error));
    };
    try {
      const child = spawn(command, args, {
        cwd,
        env: env === undefined ? process.env : { ...process.env, ...env },
        stdio: ['pipe', 'pipe', 'pipe'],
        detached: process.platform !== 'win32',
        windowsHide: true,
      });
      child.once('error', refused);
      child.once('spawn', () => {
        child.removeListener('error', refused);
        // A signal that cannot be delivered is reported here too; the ladder goes on by itself.
        child.on('error', () => {});
        resolve(child);
      });
    } catch (error) {
      refused(error as Error);
    }
  });
}

/** Resolves when the child has exited. While it runs, this process does not leave it behind. */
function exitOf(child: Child): Promise<void> {
  const orphaned = (): void => signal(child, 'SIGKILL');
  // Each child brings its own listener, and with it the room for it.
  const room = (change: number): void => {
    const limit = process.getMaxListeners();
    if (limit > 0) process.setMaxListeners(limit + change);
  };
  room(1);
  process.on('exit', orphaned);
  return new Promise((resolve) => {
    child.once('exit', () => {
      process.removeListener('exit', orphaned);
      room(-1);
      resolve();
      // Something the child started may hold its output open for ever.
      const timer = setTimeout(() => child.stdout.destroy(), AFTER_EXIT_MS);
      child.once('close', () => clearTimeout(timer));
    });
  });
}

/** Sends a signal to the child's whole group; false results and vanished processes are fine. */
function signal(child: Child, name: 'SIGTERM' | 'SIGKILL'): void {
  try {
    if (process.platform === 'win32') child.kill(name);
    else process.kill(-(child.pid as number), name);
  } catch {
    // No such process: that is what was wanted.
  }
}

/** The ladder. The streams are gone already, so the child has seen the end of its stdin. */
async function stop(
  child: Child,
  exit: Promise<void>,
  ending: Ending,
  graceMs: number,
  terminateMs: number,
): Promise<void> {
  const gone =
    ending === 'finished' &&
    (await within(
      exit.then(() => true),
      graceMs,
    )) === true;
  if (!gone && ending !== 'dropped') {
    signal(child, 'SIGTERM');
    await within(exit, terminateMs);
  }
  // Also when the child is gone: what it started belongs to its group and must not stay.
  signal(child, 'SIGKILL');
  await within(exit, REAP_MS);
}

/** What the receiver is told: beside how the link ended, how the child did. */
function withExit(cause: CloseInfo, child: Child, lastWords: string): CloseInfo {
  const { exitCode, signalCode } = child;
  if (cause.clean && exitCode === 0) return { ...cause, exitCode };
  const how = signalCode === null ? `exited with code ${exitCode}` : `was ended by ${signalCode}`;
  const why = exitCode === 0 || lastWords === '' ? how : `${how}: ${lastWords}`;
  return { clean: false, reason: `${cause.reason}; the program ${why}`, exitCode };
}

/**
 * Splits a command line into words as a POSIX shell would, without running one and without expanding anything: blanks
 * separate, single quotes keep everything, double quotes keep all but `\"` and `\\`, a backslash keeps the next character.
 *
 * @throws usage for a quote that is not closed or a backslash at the end
 */
export function splitCommand(line: string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote = '';
  for (let at = 0; at < line.length; at++) {
    const character = line[at] as string;
    if (quote === "'") {
      if (character === quote) quote = '';
      else word += character;
    } else if (character === '\\') {
      const next = line[++at];
      if (next === undefined) throw fail('usage', 'the command line ends with a backslash');
      const kept = quote === '"' && next !== '"' && next !== '\\';
      word = (word ?? '') + (kept ? `\\${next}` : next);
    } else if (quote === '"') {
      if (character === quote) quote = '';
      else word += character;
    } else if (character === '"' || character === "'") {
      quote = character;
      word ??= '';
    } else if (/\s/.test(character)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = (word ?? '') + character;
  }
  if (quote !== '') throw fail('usage', `the command line has a ${quote} that is not closed`);
  if (word !== undefined) words.push(word);
  return words;
}
