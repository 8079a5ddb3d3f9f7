/**
 * Attaches the user's terminal to a process that has one: passes keys on unchanged, follows the size, and writes the output of
 * the process unchanged. Afterwards restores the former mode of the terminal, even if the process left it in another.
 */
import { StringDecoder } from 'node:string_decoder';
import { sleep } from '../../base/sleep.ts';
import { startAtTerminal } from '../../base/terminal-program.ts';
import { asError, type HandfastError } from '../../wire/errors.ts';
import type { OutputPiece, ProcessExit, RemoteProcess, TerminalSize } from './client.ts';

export interface AttachOptions {
  /** Number of the first piece that is shown. */
  readonly from: number;
  /** True: Ctrl-P Ctrl-Q leaves the process. */
  readonly detaches: boolean;
  /** Finds the process again over a new session, after the session was lost. Repeated if its error is retryable. */
  readonly again: () => Promise<RemoteProcess>;
  /** True while the connection is lost and retried. */
  readonly isLost: () => boolean;
  readonly signal: AbortSignal;
}

/** The end of {@link attach}: the process ended, the user detached, or the session ended it. */
export type AttachEnd = ProcessExit | 'detached' | undefined;

const HELD = '\x10';
const LEAVE = '\x11';
/** Maximum time that Ctrl-P waits for the key after it. */
const HELD_MS = 500;
/** Maximum characters of typed text that is not passed on yet; further text is dropped, with a bell. */
const MAX_UNSENT = 64 * 1024;
/** The beginning of the sequences that change modes. */
const MODES = '\x1b[?';
/** Maximum length of one of them. */
const TAIL = 32;
/** Sessions that may be lost in a row without further output. */
const MAX_LOSSES = 3;
/** Pauses between attempts to open a session again; each attempt waits for the host by itself. */
const AGAIN_MS = [1_000];
/** Interval of checks of the connection. */
const LOOK_MS = 200;

/** Returns the size of the user's terminal. */
export const terminalSize = (): TerminalSize => ({
  cols: process.stdout.columns || 80,
  rows: process.stdout.rows || 24,
});

/** Returns true when keys can be read and the process can draw. */
export const isAtTerminal = (): boolean => process.stdin.isTTY === true && process.stdout.isTTY === true;

/** Shows a process on the terminal until it has ended or the user detaches. Rejects as reading does. */
export async function attach(child: RemoteProcess, options: AttachOptions): Promise<AttachEnd> {
  const { stdin, stdout } = process;
  const left = new AbortController();
  const shown = new Modes();
  let current = child;
  const resize = (): void => void current.resize(terminalSize()).catch(() => {});
  const keys = new Keys(
    async (text) => current.write(text),
    options.detaches ? () => left.abort() : undefined,
    () => stdout.write('\x07'),
  );
  const typed = (bytes: Buffer): void => keys.typed(bytes);
  const wasRaw = stdin.isRaw === true;
  stdin.setRawMode(true);
  // Node leaves it to the terminal to begin a line at each line break; a program that draws moves straight down with it.
  await startAtTerminal('stty -opost </dev/tty', process.env).end();
  stdin.on('data', typed);
  stdout.on('resize', resize);
  let wasLost = false;
  const looking = setInterval(() => {
    if (options.isLost() === wasLost) return;
    wasLost = !wasLost;
    // Restores text that was written over the screen of the program, and sends the size that was not passed on.
    if (!wasLost) void redraw(current).catch(() => {});
    else
      stdout.write(
        `\r\n[the connection is lost and tried again${options.detaches ? '; Ctrl-P Ctrl-Q leaves' : ''}]\r\n`,
      );
  }, LOOK_MS);
  let next = options.from;
  try {
    for (let losses = 0; ; ) {
      try {
        const output = current.output({ from: next, signal: AbortSignal.any([left.signal, options.signal]) });
        for (;;) {
          const { done, value } = await output.next();
          if (done) return left.signal.aborted ? 'detached' : value;
          next = (value as OutputPiece).seq + 1;
          losses = 0;
          shown.saw((value as OutputPiece).text);
          if (!stdout.write((value as OutputPiece).text)) await drained(stdout);
        }
      } catch (thrown) {
        if (left.signal.aborted) return 'detached';
        // The process may continue in a separate session; its numbers tell which output was shown.
        if (options.signal.aborted || (thrown as { capability?: string }).capability === 'proc') throw thrown;
        if (++losses > MAX_LOSSES) throw thrown;
        try {
          current = await opened(options, left.signal);
        } catch (last) {
          if (left.signal.aborted) return 'detached';
          throw last;
        }
        await redraw(current).catch(() => {});
      }
    }
  } finally {
    clearInterval(looking);
    stdout.removeListener('resize', resize);
    stdin.removeListener('data', typed);
    keys.stop();
    stdin.setRawMode(wasRaw);
    stdin.destroy();
    stdout.write(shown.undo());
  }
}

/**
 * Returns the process over a new session, which is opened once the host can be reached. Rejects with the last error of `again`.
 */
async function opened({ again, signal }: AttachOptions, left: AbortSignal): Promise<RemoteProcess> {
  for (const pauseMs of AGAIN_MS) {
    try {
      return await again();
    } catch (thrown) {
      if (!asError(thrown).retryable) throw thrown;
      await sleep(pauseMs, AbortSignal.any([signal, left]));
      signal.throwIfAborted();
      left.throwIfAborted();
    }
  }
  return again();
}

/** Makes the programs of a process draw everything again, which they do when the size of their terminal changes. */
export async function redraw(child: RemoteProcess): Promise<void> {
  const { cols, rows } = terminalSize();
  await child.resize({ cols, rows: rows > 1 ? rows - 1 : rows + 1 });
  // The size may have changed meanwhile, and was passed on before this one.
  await child.resize(terminalSize());
}

function drained(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      for (const name of ['drain', 'close', 'error']) stream.removeListener(name, done);
      resolve();
    };
    for (const name of ['drain', 'close', 'error']) stream.once(name, done);
  });
}

/** Passes keys on in order, one write at a time, and detects the two that detach. */
class Keys {
  readonly #send: (text: string) => Promise<void>;
  readonly #leave: (() => void) | undefined;
  readonly #full: () => void;
  readonly #decoder = new StringDecoder('utf8');
  #unsent = '';
  #isSending = false;
  #held: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(send: (text: string) => Promise<void>, leave: (() => void) | undefined, full: () => void) {
    this.#send = send;
    this.#leave = leave;
    this.#full = full;
  }

  typed(bytes: Buffer): void {
    const text = (this.#held === undefined ? '' : HELD) + this.#decoder.write(bytes);
    clearTimeout(this.#held);
    this.#held = undefined;
    if (this.#leave === undefined) return this.#pass(text);
    const at = text.indexOf(HELD + LEAVE);
    if (at >= 0) {
      this.#pass(text.slice(0, at));
      this.#leave();
    } else if (text.endsWith(HELD)) {
      this.#pass(text.slice(0, -1));
      this.#held = setTimeout(() => {
        this.#held = undefined;
        this.#pass(HELD);
      }, HELD_MS);
    } else this.#pass(text);
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#held);
  }

  #pass(text: string): void {
    if (this.#unsent.length + text.length > MAX_UNSENT) return this.#full();
    this.#unsent += text;
    void this.#run();
  }

  async #run(): Promise<void> {
    if (this.#isSending) return;
    this.#isSending = true;
    while (this.#unsent !== '' && !this.#stopped) {
      const text = this.#unsent;
      this.#unsent = '';
      // A program that has ended reads nothing more; the output shows its end. Keys lost with a session ring the bell.
      await this.#send(text).catch(({ capability }: HandfastError) => capability === 'proc' || this.#full());
    }
    this.#isSending = false;
  }
}

/** The private modes that a program has set: other screen, hidden cursor, mouse, pasting. */
class Modes {
  /** Changed modes, with the sequences that undo them. */
  readonly #changed = new Map<string, string>();
  #tail = '';

  saw(text: string): void {
    const parts = (this.#tail + text).split(MODES);
    for (const part of parts.slice(1)) {
      const [, modes = '', to] = /^([\d;]{1,24})([hl])/.exec(part) ?? [];
      for (const mode of to === undefined ? [] : modes.split(';')) {
        // The cursor and the wrapping of lines are normally on, all others off.
        const normal = mode === '25' || mode === '7' ? 'h' : 'l';
        if (to === normal) this.#changed.delete(mode);
        else this.#changed.set(mode, `${MODES}${mode}${normal}`);
      }
    }
    // A sequence may arrive in parts.
    const last = `${parts.length > 1 ? MODES : ''}${parts.at(-1)}`;
    this.#tail = last.slice(-TAIL);
  }

  /** Returns the sequences that restore the terminal. */
  undo(): string {
    return this.#changed.size === 0 ? '' : `${[...this.#changed.values()].join('')}\x1b[0m`;
  }
}
