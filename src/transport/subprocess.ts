/**
 * A link to a program that is started for it, over its stdin and stdout.
 *
 * For `stdio:` addresses, agents of the Agent Client Protocol, and hosts and workers that run as a child. Adds to
 * `base/child.ts` the stderr as lines, and the first rung of the ladder: stdin closed, then SIGTERM, then SIGKILL.
 */
import type { Writable } from 'node:stream';
import { type Child, cannotStart, startChild } from '../base/child.ts';
import { within } from '../base/race.ts';
import { fail } from '../wire/errors.ts';
import type { CloseInfo, Link } from './link.ts';
import { StderrLines } from './stderr-lines.ts';
import { type Ending, StreamLink } from './stream.ts';

/** Time between SIGTERM and SIGKILL. */
const DEFAULT_TERMINATE_MS = 2000;

/** Time for which the output of an exited child may continue, when a process it started still has the pipe open. */
const AFTER_EXIT_MS = 250;

export interface SpawnLinkOptions {
  /** The program, looked up in PATH when it has no slash. No shell is involved. */
  readonly command: string;
  readonly args?: readonly string[];
  readonly cwd?: string;
  /** Set in addition to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** False: `env` is the whole environment. Default true. */
  readonly inherits?: boolean;
  /** Gets each line the child writes to its stderr, without its line break, cut at 4,096 characters. */
  readonly onStderr?: (line: string) => void;
  /** Longest message accepted, in bytes. Default 1 MiB. */
  readonly maxMessageBytes?: number;
  /** Time between SIGTERM and SIGKILL when the child has to be stopped. Default 2,000. */
  readonly terminateMs?: number;
}

/**
 * Starts a program and resolves with its link once it runs. Closing the link closes the child's stdin and waits for its
 * end within `graceMs`; then the group gets SIGTERM, then SIGKILL. `destroy` kills at once. `closed` is reported when the
 * child has exited, with its exit code; a failure's reason contains the last line of its stderr.
 *
 * @throws unreachable when the program cannot be started
 */
export async function spawnLink(options: SpawnLinkOptions): Promise<Link> {
  const { command, args = [], cwd, onStderr, maxMessageBytes, terminateMs = DEFAULT_TERMINATE_MS } = options;
  const env = options.inherits === false ? { ...options.env } : { ...process.env, ...options.env };
  const child = await started(command, args, cwd, env);
  const stderr = new StderrLines(child.stderr, onStderr);
  // A process the child started may leave its output open for ever.
  void child.exited.then(() => {
    const timer = setTimeout(() => child.stdout.destroy(), AFTER_EXIT_MS);
    child.stdout.once('close', () => clearTimeout(timer));
  });
  // Arguments may contain secrets, so only the program is named.
  const peer = `stdio:${command} (pid ${child.pid})`;
  return new StreamLink({
    transport: 'subprocess',
    peer,
    readable: child.stdout,
    writable: child.stdin as Writable,
    maxMessageBytes,
    settle: async (cause, ending, graceMs) => {
      await stop(child, ending, graceMs, terminateMs);
      return withExit(cause, child, stderr.last);
    },
  });
}

async function started(
  command: string,
  args: readonly string[],
  cwd: string | undefined,
  env: NodeJS.ProcessEnv,
): Promise<Child> {
  try {
    const child = startChild({ argv: [command, ...args], cwd, env, stdin: 'pipe' });
    await child.started;
    return child;
  } catch (error) {
    throw cannotStart(command, error, cwd);
  }
}

/** Stops the child step by step. The streams have ended already, so the child has seen the end of its stdin. */
async function stop(child: Child, ending: Ending, graceMs: number, terminateMs: number): Promise<void> {
  const exited = ending === 'finished' && (await within(child.exited, graceMs)) !== undefined;
  // Also when the child has exited: processes it started belong to its group and must not stay.
  if (exited || ending === 'dropped') await child.kill();
  else await child.stop(terminateMs);
}

/** Returns the end of the link, with that of the child. */
function withExit(cause: CloseInfo, child: Child, lastWords: string): CloseInfo {
  const exitCode = child.exit?.code ?? null;
  const signalCode = child.exit?.signal ?? null;
  if (cause.clean && exitCode === 0) return { ...cause, exitCode };
  const how = signalCode === null ? `exited with code ${exitCode}` : `was ended by ${signalCode}`;
  const why = exitCode === 0 || lastWords === '' ? how : `${how}: ${lastWords}`;
  return { clean: false, reason: `${cause.reason}; the program ${why}`, exitCode };
}

/**
 * Splits a command line into words as a POSIX shell would, without running one and without expanding anything: blanks
 * separate, single quotes preserve everything, double quotes all but `\"` and `\\`, a backslash the next character.
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
      const isLiteral = quote === '"' && next !== '"' && next !== '\\';
      word = (word ?? '') + (isLiteral ? `\\${next}` : next);
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
