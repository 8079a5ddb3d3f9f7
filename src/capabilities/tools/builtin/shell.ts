/**
 * The work of `shell`: runs one program to its end in the workspace, with streamed output and a bounded life. Loaded on the
 * first call.
 *
 * The program leads a separate process group; when the call ends, for any reason, the whole group is killed. This is no
 * sandbox: the program has the rights of the host's user. For restricted principals, protected paths are covered if the system
 * allows it (`base/workspace/path-cover.ts`).
 */

import { performance } from 'node:perf_hooks';
import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { type Child, type ChildExit, type Ending, exitCodeOf, startChild } from '../../../base/child.ts';
import { childEnvironment, type VariableRights } from '../../../base/child-environment.ts';
import { whyNotStarted } from '../../../base/not-started.ts';
import { within } from '../../../base/race.ts';
import { processTimer } from '../../../base/timer-queue.ts';
import { errnoOf, shown } from '../../../base/workspace/file-error.ts';
import { covered } from '../../../base/workspace/path-cover.ts';
import { holdDirectory } from '../../../base/workspace/workspace-path.ts';
import type { CallContext } from '../../../host/context.ts';
import { variableRights } from '../../../session/rights.ts';
import { fail, type HandfastError } from '../../../wire/errors.ts';
import { result, type ShapedResult } from '../tool.ts';
import { OutputCapture } from './output-capture.ts';

/**
 * Output that is silent for this time after the program ended counts as complete, even if another process has the pipe open.
 */
const SILENT_MS = 250;
/** Longest time and most bytes that are still read after the program ended. */
const DRAIN_MS = 2000;
const DRAIN_BYTES = 2 * 1024 * 1024;
const DRAIN_LOOK_MS = 25;
/** Maximum wait for the end of a killed program. */
const EXIT_WAIT_MS = 2000;
/** Time reserved for the reply when the call's own deadline is near. */
const ANSWER_MS = 500;
/** Time for child processes that end with the program; one that runs longer is in the background. */
const LEAVE_MS = 200;

export interface ShellArgs {
  readonly argv?: readonly string[];
  readonly command?: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin?: string;
  readonly timeout_seconds: number;
  readonly max_output_bytes: number;
}

export interface ShellResult {
  /** As in a shell: 128 plus the number of the signal when one ended the program. */
  readonly exit_code: number;
  readonly signal: string | null;
  readonly timed_out: boolean;
  readonly stdout: string;
  readonly stderr: string;
  /** Total number of written bytes. */
  readonly stdout_bytes: number;
  readonly stderr_bytes: number;
  readonly truncated: boolean;
  /** True when processes left in the background had to be ended. */
  readonly background_ended: boolean;
  /** Present only after a timeout: whether all processes that the program started have ended, too. */
  readonly descendants?: Ending;
  readonly duration_ms: number;
  /** Present if it ran in a terminal of an editor, which has one output for both streams. */
  readonly by?: 'editor';
}

export interface ShellSettings {
  /** Time between SIGTERM and SIGKILL. Default 2,000. */
  readonly killGraceMs?: number;
  /** Source of the passed-on variables. Default: the environment of the host. */
  readonly hostEnvironment?: Readonly<Record<string, string | undefined>>;
}

/** Events that stop a program, besides its own end. */
type Stop = { readonly kind: 'timeout' } | { readonly kind: 'failed'; readonly error: unknown };

/** The progress of reading the output. */
interface Reading {
  bytes: number;
  /** Events that wait for the reader. */
  waiting: number;
}

/**
 * Runs a program and waits for its end. A failing program and one that timed out are results, so that their output is not lost;
 * `exit_code` and `timed_out` show it.
 *
 * Fails with `over_capacity` when the share of processes is used up; with `tool_error` and a reason: `bad_arguments`,
 * `command_not_found`, `not_executable`, `spawn_failed`, `not_ended`, `bad_env` or one of `base/workspace/file-error.ts` for
 * `cwd`; with `tool_denied` (`env_refused`, `outside_workspace`); with the reason of the signal when the call is cancelled.
 */
export async function runShell(
  args: ShellArgs,
  context: CallContext,
  settings: ShellSettings = {},
): Promise<ShapedResult<ShellResult>> {
  const { killGraceMs = 2000, hostEnvironment = process.env } = settings;
  const startedMs = performance.now();
  const reading: Reading = { bytes: 0, waiting: 0 };
  const stdout = new OutputCapture(args.max_output_bytes);
  const stderr = new OutputCapture(args.max_output_bytes);
  const stop = Promise.withResolvers<Stop>();
  const failed = (error: unknown) => stop.resolve({ kind: 'failed', error });
  const environment = childEnvironment(args.env, hostEnvironment, variablesOf(context));
  const { child, output, endWatch } = await start(args, context, environment, failed, (started) =>
    Promise.all([
      pump(started.stdout, 'stdout', stdout, reading, context),
      pump(started.stderr, 'stderr', stderr, reading, context),
    ]).catch(failed),
  );
  const { exited } = child;
  const abort = () => failed(context.signal.reason);
  const timer = setTimeout(() => stop.resolve({ kind: 'timeout' }), timeLimitMs(args, context, killGraceMs));
  context.signal.addEventListener('abort', abort, { once: true });
  if (context.signal.aborted) abort();
  child.stdin?.end(args.stdin);

  try {
    let stopped = await Promise.race([exited.then(() => undefined), stop.promise]);
    if (stopped === undefined) stopped = await Promise.race([drain(output, reading), stop.promise]);
    const background = stopped === undefined && !(await child.groupEnds(LEAVE_MS));
    let descendants: Ending | undefined;
    if (stopped !== undefined || background) {
      // A process that left the group of a program that ended by itself was meant to stay, as long as this process does.
      if (background) await child.endGroup(killGraceMs);
      else descendants = await child.end(killGraceMs);
      // The pipes are closed with the last process of the group, unless one has left the group.
      await within(output, SILENT_MS, processTimer);
    }
    const end = await within(exited, EXIT_WAIT_MS, processTimer);
    if (stopped?.kind === 'failed') throw stopped.error;
    if (end === undefined) throw fail('tool_error', 'the program could not be stopped', { reason: 'not_ended' });
    const timedOut = stopped?.kind === 'timeout';
    return shellResult({ ...end, timedOut, background, descendants, stdout, stderr, startedMs });
  } finally {
    clearTimeout(timer);
    endWatch();
    context.signal.removeEventListener('abort', abort);
    child.stdin?.destroy();
    child.stdout.destroy();
    child.stderr.destroy();
  }
}

/**
 * Returns the timeout of the program in milliseconds. Less than the rest of the call, so that the output of a slow program
 * still reaches the caller instead of a bare `timeout`.
 */
export function timeLimitMs(args: ShellArgs, context: CallContext, killGraceMs: number): number {
  const leftMs = context.remainingMs();
  return Math.min(args.timeout_seconds * 1000, leftMs - Math.min(killGraceMs + ANSWER_MS, leftMs / 4));
}

interface Started {
  readonly child: Child;
  /** Settles when both pipes are at their end. */
  readonly output: Promise<unknown>;
  /** Ends the watch over the cover of protected paths. */
  readonly endWatch: () => void;
}

async function start(
  args: ShellArgs,
  context: CallContext,
  env: Record<string, string>,
  failed: (error: unknown) => void,
  read: (child: Child) => Promise<unknown>,
): Promise<Started> {
  const words = wordsOf(args);
  // Waits for its share at most for its timeout.
  const release = await context.acquireProcess(context.signal, args.timeout_seconds * 1000);
  try {
    const { pathGuard: guard, workspace, signal } = context;
    const cover = await covered(words, { guard, workspace, signal });
    const started = await startHeld(args, context, { words, argv: cover.words, env, read }).catch((thrown: unknown) => {
      cover.end();
      throw thrown;
    });
    void started.child.exited.then(release);
    const endWatch = cover.watch(() => {
      void started.child.kill();
      failed(
        fail('tool_denied', 'the program was ended: a protected file was replaced while it ran', {
          reason: 'protected_path',
        }),
      );
    });
    return { ...started, endWatch };
  } catch (error) {
    release();
    throw error;
  }
}

interface Prepared {
  /** The requested words, and the words that run: equal unless a cover runs the program. */
  readonly words: readonly [string, ...string[]];
  readonly argv: readonly [string, ...string[]];
  readonly env: Record<string, string>;
  readonly read: (child: Child) => Promise<unknown>;
}

/** Starts the program in its directory, which is held open meanwhile so that it is the checked one. */
async function startHeld(
  args: ShellArgs,
  context: CallContext,
  { words, argv, env, read }: Prepared,
): Promise<Omit<Started, 'endWatch'>> {
  const { directory } = await holdDirectory(context.workspace, args.cwd, { guard: context.pathGuard });
  try {
    context.signal.throwIfAborted();
    const stdin = args.stdin === undefined ? 'ignore' : 'pipe';
    // The child enters the checked directory before its copy of the descriptor is closed.
    const child = startChild({ argv, cwd: directory.at('.'), env, stdin });
    // Read at once, before the start is awaited.
    const output = read(child);
    await child.started;
    return { child, output };
  } catch (error) {
    context.signal.throwIfAborted();
    throw spawnError(error, words[0]);
  } finally {
    await directory.close();
  }
}

/** Returns the rights to the variables that a call may set. */
export const variablesOf = ({ session: { principal } }: CallContext): VariableRights =>
  variableRights(principal, undefined, (name) => `a command line can set it: ${name}=… program`);

/** Returns the program and the arguments of a call. */
export function wordsOf(args: ShellArgs): readonly [string, ...string[]] {
  const { argv, command } = args;
  const words = command === undefined ? argv : argv === undefined ? ['/bin/sh', '-c', command] : undefined;
  const [program = '', ...rest] = words ?? [];
  if (program === '') {
    throw fail('tool_error', 'give either argv, with at least the program, or command', { reason: 'bad_arguments' });
  }
  if ([program, ...rest].some((word) => word.includes('\0'))) {
    throw fail('tool_error', 'an argument must not contain a NUL character', { reason: 'bad_arguments' });
  }
  return [program, ...rest];
}

function spawnError(error: unknown, program: string): HandfastError {
  const errno = errnoOf(error);
  const because = (reason: string, text: string) =>
    fail('tool_error', `"${shown(program)}" ${text}`, { reason, command: shown(program) });
  if (errno === 'ENOENT') return because('command_not_found', 'was not found');
  if (errno === 'EACCES' || errno === 'ENOEXEC') return because('not_executable', 'is not a program that may be run');
  const why = errno === undefined ? 'could not be started' : `could not be started: ${whyNotStarted(error)}`;
  return fail('tool_error', `"${shown(program)}" ${why}`, { reason: 'spawn_failed', errno }, error);
}

/** Reads one stream to its end: captures it, and passes it on no faster than the caller accepts it. */
async function pump(
  stream: Readable,
  level: 'stdout' | 'stderr',
  capture: OutputCapture,
  reading: Reading,
  context: CallContext,
): Promise<void> {
  // Characters may be cut between two chunks.
  const decoder = new StringDecoder('utf8');
  const pass = async (message: string) => {
    if (message === '') return;
    reading.waiting += 1;
    try {
      await context.emit('log', { level, message });
    } finally {
      reading.waiting -= 1;
    }
  };
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      capture.push(chunk);
      reading.bytes += chunk.length;
      await pass(decoder.write(chunk));
    }
  } catch (error) {
    // This side closed the pipe, because the call has ended while another process has the pipe open.
    if (errnoOf(error) !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
  }
  await pass(decoder.end());
}

/**
 * Waits for the output after the program has ended: until the pipes close, or fall silent, or deliver too much. A process in
 * the background may hold them open forever. Time in which the caller does not read events is not counted.
 */
async function drain(output: Promise<unknown>, reading: Reading): Promise<undefined> {
  const done = output.then(() => true);
  const most = reading.bytes + DRAIN_BYTES;
  let silentMs = 0;
  for (let waitedMs = 0; waitedMs < DRAIN_MS && reading.bytes < most; ) {
    const { bytes } = reading;
    if (await within(done, DRAIN_LOOK_MS)) break;
    if (reading.waiting > 0) continue;
    waitedMs += DRAIN_LOOK_MS;
    // Counted in intervals, not by the clock: each gives the pipes a turn, even if this thread was blocked for long.
    silentMs = reading.bytes === bytes ? silentMs + DRAIN_LOOK_MS : 0;
    if (silentMs > SILENT_MS) break;
  }
  return undefined;
}

interface ShellEnd extends ChildExit {
  readonly timedOut: boolean;
  readonly background: boolean;
  readonly descendants: Ending | undefined;
  readonly stdout: OutputCapture;
  readonly stderr: OutputCapture;
  readonly startedMs: number;
}

function shellResult(ended: ShellEnd): ShapedResult<ShellResult> {
  const { code, signal, timedOut, descendants, stdout, stderr } = ended;
  const exitCode = exitCodeOf({ code, signal });
  const truncated = stdout.truncated || stderr.truncated;
  const data: ShellResult = {
    exit_code: exitCode,
    signal,
    timed_out: timedOut,
    stdout: stdout.text(),
    stderr: stderr.text(),
    stdout_bytes: stdout.bytes,
    stderr_bytes: stderr.bytes,
    truncated,
    background_ended: ended.background,
    ...(descendants !== undefined && { descendants }),
    duration_ms: Math.round(performance.now() - ended.startedMs),
  };
  return shellReply(data);
}

/** Returns a result with its summary. */
export function shellReply(data: ShellResult): ShapedResult<ShellResult> {
  const { exit_code: exitCode, signal, timed_out: timedOut, truncated } = data;
  const how = signal === null ? `exit code ${exitCode}` : `ended by ${signal}`;
  return result(data, { summary: timedOut ? `timed out, ${how}` : how, truncated, exitCode });
}
