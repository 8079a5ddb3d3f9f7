/**
 * Running a program for the fleet: executors and git. The only place of `fleet/` that starts processes, so that argument
 * vector, environment, stdin, working directory, process group, output bounds and the stop ladder are right in one place.
 * @see docs/fleet.md#executors
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { constants } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { fail } from '../wire/errors.ts';

export interface ProgramOptions {
  /** The program, looked up in PATH when it has no slash, then its arguments. No shell is involved. */
  readonly argv: readonly [string, ...string[]];
  /** Absolute. */
  readonly cwd: string;
  /** The whole environment; {@link programEnvironment} makes one. */
  readonly env: Readonly<Record<string, string>>;
  /** Ends the program; the reason stays with whoever aborted. */
  readonly signal?: AbortSignal;
  /** Longest run, in milliseconds. Default none: the caller's signal bounds it. */
  readonly timeoutMs?: number;
  /** Time between SIGTERM and SIGKILL. Default 10,000. */
  readonly terminateMs?: number;
  /** What of stdout is kept, in bytes; what comes beyond is read and dropped. Default 8 MiB. */
  readonly maxStdoutBytes?: number;
  /** Gets each whole line of stdout as it comes, without its line break; a line is cut at 1 MiB. */
  readonly onLine?: (line: string) => void;
  /** `open`: a pipe that `write` of the running program writes to. Default `closed`. */
  readonly stdin?: 'closed' | 'open';
}

/** How a program ended. */
export interface ProgramEnd {
  /** Exit code; 128 + number for a signal, as shells have it. */
  readonly code: number;
  readonly killedBy: NodeJS.Signals | null;
  readonly stdout: string;
  /** True when stdout was longer than what was kept. */
  readonly truncated: boolean;
  /** The last 64 KiB. */
  readonly stderr: string;
  readonly timedOut: boolean;
}

export interface RunningProgram {
  readonly pid: number;
  /** Never rejects. */
  readonly ended: Promise<ProgramEnd>;
  /** Writes to stdin where that is open; what cannot be written any more is dropped. Null ends it. */
  write(text: string | null): void;
}

const MAX_STDOUT_BYTES = 8 * 1024 * 1024;
const MAX_LINE_CHARS = 1024 * 1024;
const MAX_STDERR_CHARS = 64 * 1024;
const TERMINATE_MS = 10_000;
/** How long the output of an ended program may go on, when something it started still holds the pipe. */
const AFTER_EXIT_MS = 500;

/** Where tools usually are that a daemon's thin PATH lacks. */
const COMMON_FOLDERS = ['/usr/local/bin', '/usr/bin', '/bin', '/opt/homebrew/bin'];

/**
 * This process's environment with `extra` over it, and PATH with the usual folders behind what it has. A variable set to
 * `undefined` is taken out.
 */
export function programEnvironment(
  extra: Readonly<Record<string, string | undefined>> = {},
  own: Readonly<Record<string, string | undefined>> = process.env,
): Record<string, string> {
  const merged = { ...own, ...extra };
  const home = merged.HOME;
  const folders = [
    ...(merged.PATH ?? '').split(':'),
    ...COMMON_FOLDERS,
    ...(home === undefined ? [] : [`${home}/.local/bin`, `${home}/bin`]),
  ].filter((folder) => folder !== '');
  merged.PATH = [...new Set(folders)].join(':');
  return Object.fromEntries(Object.entries(merged).filter((pair): pair is [string, string] => pair[1] !== undefined));
}

/**
 * Starts a program, with its stdin closed unless asked otherwise, in a process group of its own that ends whole.
 *
 * @throws unreachable when it cannot be started (`detail.reason` is the system's code, e.g. `ENOENT`)
 */
export async function startProgram(options: ProgramOptions): Promise<RunningProgram> {
  const { argv, cwd, env, signal, timeoutMs, terminateMs = TERMINATE_MS } = options;
  signal?.throwIfAborted();
  const child = await spawned(argv, cwd, env, options.stdin === 'open');
  const group = new Group(child, terminateMs);
  const output = new Output(child, options);
  let timedOut = false;
  const timer =
    timeoutMs === undefined
      ? undefined
      : setTimeout(() => {
          timedOut = true;
          group.stop();
        }, timeoutMs);
  const aborted = (): void => group.stop();
  signal?.addEventListener('abort', aborted, { once: true });
  // Nobody listened while it was being started.
  if (signal?.aborted === true) aborted();
  const ended = group.exited.then(async ({ code, killedBy }): Promise<ProgramEnd> => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', aborted);
    await output.finished();
    return { code, killedBy, ...output.kept(), timedOut };
  });
  const write = (text: string | null): void => {
    if (text === null) child.stdin?.end();
    else if (child.stdin?.writable) child.stdin.write(text);
  };
  return { pid: child.pid as number, ended, write };
}

/** Runs a program to its end. @throws unreachable when it cannot be started */
export async function runProgram(options: ProgramOptions): Promise<ProgramEnd> {
  return (await startProgram(options)).ended;
}

type Child = ChildProcessByStdio<Writable | null, Readable, Readable>;

function spawned(
  [command, ...args]: readonly [string, ...string[]],
  cwd: string,
  env: Readonly<Record<string, string>>,
  stdin: boolean,
): Promise<Child> {
  return new Promise((resolve, reject) => {
    const refused = (error: NodeJS.ErrnoException): void =>
      reject(fail('unreachable', `cannot start ${command}: ${error.message}`, { reason: error.code ?? '' }, error));
    try {
      // Some programs believe PWD before the system.
      const settled = { ...env, PWD: cwd };
      const options = { cwd, env: settled, detached: process.platform !== 'win32', windowsHide: true };
      const child: Child = stdin
        ? spawn(command, args, { ...options, stdio: ['pipe', 'pipe', 'pipe'] })
        : spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
      // A program that closes its stdin, or ends, before all was written: its end says the rest.
      child.stdin?.on('error', () => {});
      child.once('error', refused);
      child.once('spawn', () => {
        child.removeListener('error', refused);
        child.on('error', () => {});
        resolve(child);
      });
    } catch (error) {
      refused(error as NodeJS.ErrnoException);
    }
  });
}

/** The process group of a child, and how it is ended. */
class Group {
  readonly exited: Promise<{ readonly code: number; readonly killedBy: NodeJS.Signals | null }>;
  readonly #child: Child;
  readonly #terminateMs: number;
  #killer: NodeJS.Timeout | undefined;

  constructor(child: Child, terminateMs: number) {
    this.#child = child;
    this.#terminateMs = terminateMs;
    const orphaned = (): void => this.#signal('SIGKILL');
    // Each child brings its own listener, and with it the room for it.
    process.setMaxListeners(process.getMaxListeners() + 1);
    process.on('exit', orphaned);
    this.exited = new Promise((resolve) => {
      child.once('exit', (code, killedBy) => {
        process.removeListener('exit', orphaned);
        process.setMaxListeners(process.getMaxListeners() - 1);
        clearTimeout(this.#killer);
        // What it started belongs to its group and must not stay.
        this.#signal('SIGKILL');
        resolve({ code: code ?? 128 + (constants.signals[killedBy as NodeJS.Signals] ?? 0), killedBy });
      });
    });
  }

  /** SIGTERM, then SIGKILL. */
  stop(): void {
    if (this.#killer !== undefined || this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#signal('SIGTERM');
    this.#killer = setTimeout(() => this.#signal('SIGKILL'), this.#terminateMs);
  }

  #signal(name: 'SIGTERM' | 'SIGKILL'): void {
    try {
      if (process.platform === 'win32') this.#child.kill(name);
      else process.kill(-(this.#child.pid as number), name);
    } catch {
      // No such process: that is what was wanted.
    }
  }
}

/** What a program writes. */
class Output {
  readonly #child: Child;
  readonly #chunks: Buffer[] = [];
  readonly #maxBytes: number;
  readonly #onLine: ((line: string) => void) | undefined;
  readonly #decoder = new StringDecoder('utf8');
  #bytes = 0;
  #truncated = false;
  #line = '';
  #stderr = '';

  constructor(child: Child, { maxStdoutBytes = MAX_STDOUT_BYTES, onLine }: ProgramOptions) {
    this.#child = child;
    this.#maxBytes = maxStdoutBytes;
    this.#onLine = onLine;
    child.stdout.on('data', (chunk: Buffer) => this.#take(chunk));
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-MAX_STDERR_CHARS);
    });
  }

  /** Resolves when both pipes have ended, or were given up. */
  async finished(): Promise<void> {
    const pipes = [this.#child.stdout, this.#child.stderr];
    await new Promise<void>((resolve) => {
      let open = pipes.filter((pipe) => !pipe.closed).length;
      if (open === 0) return resolve();
      const timer = setTimeout(() => {
        for (const pipe of pipes) pipe.destroy();
      }, AFTER_EXIT_MS);
      for (const pipe of pipes) {
        pipe.once('close', () => {
          open -= 1;
          if (open > 0) return;
          clearTimeout(timer);
          resolve();
        });
      }
    });
    if (this.#onLine !== undefined && this.#line !== '') this.#onLine(this.#line);
    this.#line = '';
  }

  kept(): { stdout: string; truncated: boolean; stderr: string } {
    return { stdout: Buffer.concat(this.#chunks).toString('utf8'), truncated: this.#truncated, stderr: this.#stderr };
  }

  #take(chunk: Buffer): void {
    const room = this.#maxBytes - this.#bytes;
    if (chunk.length > room) this.#truncated = true;
    if (room > 0) {
      const part = chunk.length > room ? chunk.subarray(0, room) : chunk;
      this.#chunks.push(part);
      this.#bytes += part.length;
    }
    if (this.#onLine === undefined) return;
    const lines = this.#decoder.write(chunk).split('\n');
    lines[0] = this.#line + (lines[0] as string);
    this.#line = (lines.pop() as string).slice(0, MAX_LINE_CHARS);
    for (const line of lines) this.#onLine(line.slice(0, MAX_LINE_CHARS).replace(/\r$/, ''));
  }
}
