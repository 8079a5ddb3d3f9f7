/**
 * Pseudo-terminals of the system, opened through `@lydell/node-pty`: the output of a program, the typed input, the
 * size. Only the package's functions for opening and the size are used. Its reading drops output that a paused terminal
 * has not delivered 200 ms after the exit, and its start would bypass the reaper of `child.ts`.
 *
 * `child.ts` starts a program at a terminal. The package leaves its descriptors open in every program that is started
 * later; {@link inheritNoTerminal} closes them there.
 */
import { close, closeSync, constants, openSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { ReadStream } from 'node:tty';
import { fail } from '../wire/errors.ts';
import { sleep } from './sleep.ts';
import { errnoOf } from './workspace/file-error.ts';

/** In characters. */
export interface TerminalSize {
  readonly cols: number;
  readonly rows: number;
}

/**
 * The functions of the package's binary that are used. Its `open` in JavaScript reads both ends at once, also the typed
 * input.
 */
interface Native {
  open(cols: number, rows: number): { readonly master: number; readonly slave: number; readonly pty: string };
  resize(descriptor: number, cols: number, rows: number): void;
}

const PACKAGE = '@lydell/node-pty';
/** Bytes read ahead of the reader; above it the program waits. */
const READ_AHEAD = 64 * 1024;
const READ_BUFFER = 64 * 1024;
/** Pauses while the program does not read the typed input, milliseconds; each is twice the one before. */
const FIRST_PAUSE_MS = 1;
const LAST_PAUSE_MS = 50;

let native: Native | undefined;

/**
 * Loads the package's binary. Fails with `not_configured`, whose message names the package to install, if it cannot be
 * loaded.
 */
function loadNative(): Native {
  if (native !== undefined) return native;
  try {
    const require = createRequire(import.meta.url);
    const { requireBinary } = require('@lydell/node-pty/requireBinary.js') as { requireBinary(file: string): Native };
    native = requireBinary('pty.node');
    return native;
  } catch (error) {
    const missing = errnoOf(error) === 'MODULE_NOT_FOUND';
    const why = missing ? `it is not installed: npm install ${PACKAGE}` : (error as Error).message.split('\n')[0];
    throw fail('not_configured', `terminals need the package ${PACKAGE}; ${why}`, undefined, error);
  }
}

/** Returns the reason why no terminal can be opened here; undefined if one can. */
export function whyNoTerminals(): string | undefined {
  try {
    if (process.platform === 'win32') return 'terminals are not there on Windows';
    loadNative();
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** The descriptors that a program would inherit: the package does not close them when another program starts. */
const inheritable = new Set<number>();
let nothing: number | undefined;

/** Returns the `stdio` of a program to be started, in which every open terminal is closed. */
export function inheritNoTerminal<Entry>(stdio: readonly Entry[]): (Entry | number | 'ignore')[] {
  if (inheritable.size === 0) return [...stdio];
  nothing ??= openSync('/dev/null', constants.O_RDWR);
  const all: (Entry | number | 'ignore')[] = [...stdio];
  for (const descriptor of inheritable) {
    while (all.length <= descriptor) all.push('ignore');
    all[descriptor] = nothing;
  }
  return all;
}

/** Opens a terminal. Fails with `not_configured`, and with the system's error where it has none left. */
export function openTerminal({ cols, rows }: TerminalSize): PseudoTerminal {
  if (process.platform === 'win32') throw fail('not_configured', 'terminals are not there on Windows');
  const binary = loadNative();
  const { master, slave, pty } = binary.open(cols, rows);
  // The end of the program, opened again so that programs started later do not inherit it.
  closeSync(slave);
  inheritable.add(master);
  try {
    return new PseudoTerminal(binary, master, openSync(pty, constants.O_RDWR | constants.O_NOCTTY), pty);
  } catch (error) {
    inheritable.delete(master);
    closeSync(master);
    throw error;
  }
}

export class PseudoTerminal {
  /** The path of the end that a program has. */
  readonly path: string;
  readonly #native: Native;
  readonly #master: number;
  #slave: number | undefined;
  readonly #socket: ReadStream;
  #unread: Buffer[] = [];
  #unreadBytes = 0;
  #ended = false;
  #wake: (() => void) | undefined;
  /** The write that is under way; the next one waits for it. */
  #writing: Promise<void> = Promise.resolve();

  constructor(binary: Native, master: number, slave: number, path: string) {
    this.#native = binary;
    this.#master = master;
    this.#slave = slave;
    this.path = path;
    // Each read arrives at once and the stream buffers none: a stream drops its buffer when reading ends with an error,
    // and with one it always ends.
    const onread = { buffer: Buffer.allocUnsafe(READ_BUFFER), callback: this.#read.bind(this) };
    this.#socket = new ReadStream(master, { onread } as object);
    this.#socket.on('error', () => {});
    this.#socket.once('close', () => {
      inheritable.delete(master);
      this.#end();
    });
    this.#socket.resume();
  }

  /** The program's end, as a descriptor; open until {@link release}, so that the output does not end earlier. */
  get programEnd(): number {
    if (this.#slave === undefined) throw new Error('the terminal is released');
    return this.#slave;
  }

  /**
   * Yields the output of the terminal to its end, when the last program has closed it. Nothing is lost, however late it
   * is read. For one reader.
   */
  async *output(): AsyncGenerator<Buffer, void> {
    for (;;) {
      if (this.#unreadBytes > 0) {
        const all = this.#unread.length === 1 ? (this.#unread[0] as Buffer) : Buffer.concat(this.#unread);
        this.#unread = [];
        this.#unreadBytes = 0;
        if (!this.#ended) this.#socket.resume();
        yield all;
        continue;
      }
      if (this.#ended) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Types a text; resolves when the system has it. Rejects once it is closed. */
  write(text: string): Promise<void> {
    this.#writing = this.#writing.then(
      () => this.#write(Buffer.from(text)),
      () => this.#write(Buffer.from(text)),
    );
    return this.#writing;
  }

  resize({ cols, rows }: TerminalSize): void {
    if (!this.#ended) this.#native.resize(this.#master, cols, rows);
  }

  /**
   * Closes this process's copy of the end that the program has: the output ends once every program has closed it and
   * all is read.
   */
  release(): void {
    if (this.#slave === undefined) return;
    // Closing may wait for the reader, which is this thread.
    close(this.#slave, () => {});
    this.#slave = undefined;
  }

  /** Closes it; the programs that have it open get SIGHUP. */
  destroy(): void {
    this.release();
    this.#end();
    this.#socket.destroy();
  }

  /** Buffers bytes that were read. Returns false to pause the reading. */
  #read(size: number, buffer: Uint8Array): boolean {
    this.#unread.push(Buffer.from(buffer.subarray(0, size)));
    this.#unreadBytes += size;
    this.#wake?.();
    return this.#unreadBytes < READ_AHEAD;
  }

  #end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  /** Writes bytes. The stream would wait in this thread until the program reads; this waits beside it. */
  async #write(bytes: Buffer): Promise<void> {
    let pauseMs = FIRST_PAUSE_MS;
    for (let at = 0; at < bytes.length; ) {
      if (this.#ended) throw new Error('the terminal is closed');
      try {
        at += writeSync(this.#master, bytes, at);
        pauseMs = FIRST_PAUSE_MS;
      } catch (error) {
        if (errnoOf(error) !== 'EAGAIN') throw error;
        await sleep(pauseMs);
        pauseMs = Math.min(2 * pauseMs, LAST_PAUSE_MS);
      }
    }
  }
}
