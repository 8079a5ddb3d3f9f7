/**
 * Runs a program: argument vector, environment, bounds of output and time, and the ladder that stops it, correct in one
 * place.
 *
 * @see docs/fleet.md#executors
 */
import { StringDecoder } from 'node:string_decoder';
import { type Child, type ChildOptions, cannotStart, exitCodeOf, startChild } from './child.ts';
import { OTHER_REPOSITORY } from './git-output.ts';
import { fromCharacter } from './strict-text.ts';

export interface ProgramOptions extends Omit<ChildOptions, 'stdin'> {
  /** Stops the program. */
  readonly signal?: AbortSignal;
  /** Longest run, in milliseconds. Default none: the caller's signal bounds it. */
  readonly timeoutMs?: number;
  /** Time between SIGTERM and SIGKILL. Default 10,000. */
  readonly terminateMs?: number;
  /** Bytes of stdout that are stored; further bytes are read and dropped. Default 8 MiB. */
  readonly maxStdoutBytes?: number;
  /** The end of a longer stdout is stored, in place of its beginning. */
  readonly keepsEnd?: boolean | undefined;
  /** Makes the text of stdout. Default: UTF-8, with U+FFFD in place of other bytes. */
  readonly decode?: ((stdout: Buffer) => string) | undefined;
  /** Gets each line of stdout without its line break: once it is whole, or has `maxLineChars`, where it is cut. */
  readonly onLine?: (line: string) => void;
  /** Longest line, in characters. Default 1 Mi. */
  readonly maxLineChars?: number;
  /** `open`: a pipe that `write` of the running program writes to. Default `closed`. */
  readonly stdin?: 'closed' | 'open';
}

/** The end of a program. */
export interface ProgramEnd {
  /** Exit code; 128 + number for a signal, as shells have it. */
  readonly code: number;
  readonly killedBy: NodeJS.Signals | null;
  readonly stdout: string;
  /** True when stdout was longer than its stored part. */
  readonly truncated: boolean;
  /** The last 64 KiB. */
  readonly stderr: string;
  readonly timedOut: boolean;
}

export interface RunningProgram {
  readonly pid: number;
  /** Never rejects. */
  readonly ended: Promise<ProgramEnd>;
  /** The last 64 KiB of its standard error so far. */
  readonly stderr: string;
  /** Writes to stdin where that is open; dropped once the program has ended. Null ends it. */
  write(text: string | null): void;
}

const MAX_STDOUT_BYTES = 8 * 1024 * 1024;
const MAX_LINE_CHARS = 1024 * 1024;
const MAX_STDERR_CHARS = 64 * 1024;
const TERMINATE_MS = 10_000;
/** Time for which the output of an ended program may continue, when a process it started still holds the pipe. */
const AFTER_EXIT_MS = 500;

/** Folders that usually have tools and that a daemon's short PATH lacks. */
const COMMON_FOLDERS = ['/usr/local/bin', '/usr/bin', '/bin', '/opt/homebrew/bin'];

/**
 * Returns this process's environment, overridden by `extra`, and PATH followed by the usual folders. Variables set to
 * `undefined` are removed, and those by which the git of a program would work in another repository than that of its
 * folder.
 */
export function programEnvironment(
  extra: Readonly<Record<string, string | undefined>> = {},
  own: Readonly<Record<string, string | undefined>> = process.env,
): Record<string, string> {
  const merged = { ...own, ...OTHER_REPOSITORY, ...extra };
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
 * Starts a program in its own process group, which ends whole. Its stdin is closed unless `stdin` says otherwise.
 *
 * @throws unreachable when it cannot be started (`detail.reason` is the system's code, e.g. `ENOENT`)
 */
export async function startProgram(options: ProgramOptions): Promise<RunningProgram> {
  const { argv, cwd, env, signal, timeoutMs, terminateMs = TERMINATE_MS, stdin } = options;
  signal?.throwIfAborted();
  // Some programs believe PWD before the system.
  const settled = cwd === undefined ? env : { ...env, PWD: cwd };
  let child: Child;
  try {
    child = startChild({ argv, cwd, env: settled, stdin: stdin === 'open' ? 'pipe' : 'ignore' });
    await child.started;
  } catch (error) {
    throw cannotStart(argv[0], error, cwd);
  }
  const output = new Output(child, options);
  let stopping = false;
  const stop = (): void => {
    if (stopping || child.exit !== undefined) return;
    stopping = true;
    void child.stop(terminateMs);
  };
  let timedOut = false;
  const late = (): void => {
    timedOut = true;
    stop();
  };
  const timer = timeoutMs === undefined ? undefined : setTimeout(late, timeoutMs);
  signal?.addEventListener('abort', stop, { once: true });
  // The signal may have aborted during the start.
  if (signal?.aborted === true) stop();
  const ended = child.exited.then(async (exit): Promise<ProgramEnd> => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
    // Processes it started belong to its group and must not stay.
    child.signal('SIGKILL');
    await output.finished();
    return { code: exitCodeOf(exit), killedBy: exit.signal, ...output.stored(), timedOut };
  });
  const write = (text: string | null): void => {
    if (text === null) child.stdin?.end();
    else if (child.stdin?.writable) child.stdin.write(text);
  };
  return {
    pid: child.pid,
    ended,
    get stderr() {
      return output.stderr;
    },
    write,
  };
}

/** Runs a program to its end. @throws unreachable when it cannot be started */
export async function runProgram(options: ProgramOptions): Promise<ProgramEnd> {
  return (await startProgram(options)).ended;
}

/** The output of a program. */
class Output {
  readonly #child: Child;
  #chunks: Buffer[] = [];
  readonly #keepsEnd: boolean;
  readonly #decode: (stdout: Buffer) => string;
  readonly #maxBytes: number;
  readonly #onLine: ((line: string) => void) | undefined;
  readonly #maxLineChars: number;
  readonly #decoder = new StringDecoder('utf8');
  #bytes = 0;
  #truncated = false;
  #line = '';
  /** The line was cut: the rest of it is dropped. */
  #isCut = false;
  #stderr = '';

  constructor(
    child: Child,
    {
      maxStdoutBytes = MAX_STDOUT_BYTES,
      keepsEnd = false,
      decode = (stdout) => stdout.toString('utf8'),
      onLine,
      maxLineChars = MAX_LINE_CHARS,
    }: ProgramOptions,
  ) {
    this.#child = child;
    this.#maxBytes = maxStdoutBytes;
    this.#keepsEnd = keepsEnd;
    this.#decode = decode;
    this.#onLine = onLine;
    this.#maxLineChars = maxLineChars;
    child.stdout.on('data', (chunk: Buffer) => this.#read(chunk));
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-MAX_STDERR_CHARS);
    });
  }

  /** Resolves when both pipes have ended, or were abandoned. */
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

  get stderr(): string {
    return this.#stderr;
  }

  stored(): { stdout: string; truncated: boolean; stderr: string } {
    if (this.#keepsEnd) this.#dropStart();
    return {
      stdout: this.#decode(Buffer.concat(this.#chunks)),
      truncated: this.#truncated,
      stderr: this.#stderr,
    };
  }

  #read(chunk: Buffer): void {
    const room = this.#maxBytes - this.#bytes;
    if (chunk.length > room) this.#truncated = true;
    if (this.#keepsEnd) {
      this.#chunks.push(chunk);
      this.#bytes += chunk.length;
      // Cut rarely: every cut copies the stored bytes.
      if (this.#bytes > 2 * this.#maxBytes) this.#dropStart();
    } else if (room > 0) {
      const part = chunk.length > room ? chunk.subarray(0, room) : chunk;
      this.#chunks.push(part);
      this.#bytes += part.length;
    }
    if (this.#onLine === undefined) return;
    const lines = this.#decoder.write(chunk).split('\n');
    const last = lines.pop() as string;
    for (const part of lines) {
      this.#extend(part);
      if (!this.#isCut) this.#endLine();
      this.#isCut = false;
    }
    this.#extend(last);
  }

  /** Leaves as much of the end as may be stored, in whole characters. */
  #dropStart(): void {
    if (this.#bytes <= this.#maxBytes) return;
    const all = Buffer.concat(this.#chunks);
    const end = Buffer.from(fromCharacter(all.subarray(all.length - this.#maxBytes)));
    this.#chunks = [end];
    this.#bytes = end.length;
  }

  /** Adds to the line. One that has all it may have is not waited for: it may never end. */
  #extend(part: string): void {
    if (this.#isCut) return;
    this.#line += part.slice(0, this.#maxLineChars - this.#line.length);
    if (this.#line.length < this.#maxLineChars) return;
    this.#isCut = true;
    this.#endLine();
  }

  #endLine(): void {
    const line = this.#line;
    this.#line = '';
    this.#onLine?.(line.replace(/\r$/, ''));
  }
}
