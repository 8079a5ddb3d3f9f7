/**
 * One process of an agent: its output in a bounded store, its input, its signals, its timeout and its end.
 *
 * Pipes, or its terminal, are read as fast as the store has space; the last output of the program is read to the end of the
 * pipes, however soon it exits.
 */
import { constants } from 'node:os';
import { StringDecoder } from 'node:string_decoder';
import type { Child } from '../../base/child.ts';
import type { PseudoTerminal, TerminalSize } from '../../base/pseudo-terminal.ts';
import { within } from '../../base/race.ts';
import { sleep } from '../../base/sleep.ts';
import { keepAliveTimer } from '../../base/timer-queue.ts';
import type { Cgroup } from './cgroups.ts';
import { failure } from './errors.ts';
import { Output, type StreamName } from './output.ts';
import type { ProcStatus } from './proc.schema.ts';

/** The reason why a process was ended from outside. */
export type EndReason = 'killed' | 'timedout' | 'limit' | 'session_ended' | 'host_stopped';

/** The end of a process. */
export interface ProcEnd {
  /** Negative: the number of the signal that ended it. */
  readonly code: number;
  /** '' for none. */
  readonly signal: string;
  readonly reason: 'exited' | 'signal' | EndReason;
  /** Epoch seconds. */
  readonly at: number;
}

/** The owner of a process. */
export interface ProcOwner {
  readonly principal: string;
  readonly agent: string;
}

export interface ProcOptions {
  readonly id: string;
  readonly owner: ProcOwner;
  readonly argv: readonly string[];
  /** Characters of output that are stored. */
  readonly ringBytes: number;
  /** Maximum bytes that it may write; 0: any number. */
  readonly maxOutputBytes: number;
  /** The limits that are in force, by name. */
  readonly limits: Readonly<Record<string, number>>;
  /** True: it waits while its store is full and nothing has read it. */
  readonly pausing: boolean;
  /** True: pieces as they arrive; false: line by line. */
  readonly chunks: boolean;
  /** The terminal it runs at, in place of pipes. */
  readonly terminal?: PseudoTerminal | undefined;
  readonly size?: TerminalSize | undefined;
  /** True: it runs in a view of the files, which another program makes and stays beside it. */
  readonly isCovered: boolean;
  /** The control groups of the process and all it starts. */
  readonly group?: Cgroup | undefined;
  /** Epoch seconds. */
  readonly now: () => number;
}

/** A longer line is split into pieces. */
const MAX_LINE = 64 * 1024;
/** Maximum characters of input that the program has not read yet; further writes are refused. */
const MAX_UNREAD_INPUT = 4 * 1024 * 1024;
/** Time between SIGTERM and SIGKILL. */
const GRACE_MS = 2_000;
/** Maximum time that a kill waits for the end before it replies. */
const KILL_REPLY_MS = 2_000;
/** Maximum time that a signal waits for a cover to start the program. */
const COVER_MS = 1_000;
/** Time for child processes that end with the program. */
const LEAVE_MS = 200;
/**
 * Number of intervals after the end of the program: a process that left its group and is silent for all of them is not awaited.
 */
const SILENT_LOOKS = 20;
const LOOK_MS = 25;

/** Ctrl-D: the end of the input for a program that reads lines from a terminal. */
const END_OF_INPUT = '\x04';

/** Signals that end a program unless it handles them. */
const ENDING: ReadonlySet<string> = new Set(['SIGTERM', 'SIGKILL', 'SIGINT', 'SIGQUIT', 'SIGHUP', 'SIGABRT']);

export class Proc {
  readonly id: string;
  readonly owner: ProcOwner;
  readonly argv: readonly string[];
  readonly startedAt: number;
  readonly output: Output;
  /** Undefined while it runs. */
  end: ProcEnd | undefined;
  /** Resolves when the process has ended and its output is complete. */
  readonly complete: Promise<void>;
  readonly #child: Child;
  readonly #now: () => number;
  readonly #maxOutputBytes: number;
  readonly #limits: Readonly<Record<string, number>>;
  readonly #chunks: boolean;
  readonly #terminal: PseudoTerminal | undefined;
  readonly #group: Cgroup | undefined;
  /** Resolves when signals reach the program. */
  #ready: Promise<void> | undefined;
  readonly #isCovered: boolean;
  #size: TerminalSize | undefined;
  #cancelLimit: (() => void) | undefined;
  #reason: EndReason | undefined;
  #unreadInput = 0;
  #inputEnded = false;
  /** True when output arrived since the last interval. */
  #spoke = false;

  constructor(child: Child, options: ProcOptions) {
    const { id, owner, argv, ringBytes, pausing, chunks, now } = options;
    this.#maxOutputBytes = options.maxOutputBytes;
    this.#limits = options.limits;
    this.id = id;
    this.owner = owner;
    this.argv = argv;
    this.startedAt = now();
    this.output = new Output(ringBytes, pausing);
    this.#child = child;
    this.#now = now;
    this.#chunks = chunks;
    this.#terminal = options.terminal;
    this.#size = options.size;
    this.#group = options.group;
    this.#isCovered = options.isCovered;
    this.complete = this.#follow();
  }

  /** Ends the process after this time; 0: never. */
  limit(seconds: number): void {
    if (seconds === 0 || !this.running) return;
    this.#cancelLimit = keepAliveTimer(() => void this.terminate('timedout'), seconds * 1000);
  }

  get pid(): number {
    return this.#child.pid;
  }

  get running(): boolean {
    return this.end === undefined;
  }

  /** The state, as the wire has it. */
  get state(): 'running' | 'stopped' | 'crashed' | 'timedout' {
    if (this.end === undefined) return 'running';
    const { code, reason } = this.end;
    if (reason === 'timedout') return 'timedout';
    return code === 0 || (reason !== 'exited' && reason !== 'signal') ? 'stopped' : 'crashed';
  }

  /** The word and the text of `proc/status/resp`. */
  get status(): { readonly status: string; readonly error: string } {
    if (this.end === undefined) return { status: 'running', error: '' };
    const { code, signal, reason } = this.end;
    if (reason === 'exited') {
      return code === 0 ? { status: 'completed', error: '' } : { status: 'failed', error: `exit code ${code}` };
    }
    if (reason === 'timedout') return { status: 'killed', error: 'timed out' };
    if (reason === 'limit') return { status: 'killed', error: 'proc_limit: it wrote more than it may' };
    return { status: 'killed', error: signal === '' ? `exit code ${code}` : signal };
  }

  describe(): ProcStatus {
    const { output, end } = this;
    return {
      proc_id: this.id,
      cmd: this.argv.join(' '),
      state: this.state,
      pid: this.pid,
      exit_code: end?.code ?? null,
      started_at: this.startedAt,
      argv: [...this.argv],
      agent_id: this.owner.agent,
      principal: this.owner.principal,
      signal: end?.signal ?? '',
      reason: end?.reason ?? '',
      ended_at: end?.at ?? 0,
      limits: this.#limits,
      output: { first: output.first, next: output.next, bytes: output.bytes, paused: this.running && output.full },
      ...(this.#size && { pty: this.#size }),
    };
  }

  /** Changes the size of its terminal; its programs get SIGWINCH. Fails with `proc_dead`, `proc.invalid`. */
  resize(size: TerminalSize): void {
    if (!this.running) throw failure('dead', 'the process has ended', { proc_id: this.id });
    if (this.#terminal === undefined) throw failure('invalid', 'the process has no terminal', { field: 'proc_id' });
    this.#terminal.resize(size);
    this.#size = size;
  }

  /** Writes to its input; resolves when the system has the text. Fails with `proc_dead`, `proc_limit`. */
  async write(data: string, eof: boolean): Promise<void> {
    if (!this.running) throw failure('dead', 'the process has ended', { proc_id: this.id });
    if (this.#inputEnded || (this.#child.stdin === null && this.#terminal === undefined)) {
      throw failure('dead', 'its standard input is closed', { proc_id: this.id });
    }
    if (this.#unreadInput + data.length > MAX_UNREAD_INPUT) {
      const unread = { limit: 'input', max: MAX_UNREAD_INPUT, unread: this.#unreadInput };
      throw failure('limit', 'the process does not read its input', unread);
    }
    this.#unreadInput += data.length;
    try {
      await (this.#terminal === undefined ? this.#writeToPipe(data, eof) : this.#type(this.#terminal, data, eof));
    } catch (error) {
      throw failure('dead', 'the process has closed its standard input', { proc_id: this.id }, error);
    } finally {
      this.#unreadInput -= data.length;
    }
  }

  #writeToPipe(data: string, eof: boolean): Promise<void> {
    const { stdin } = this.#child;
    this.#inputEnded = eof;
    return new Promise<void>((resolve, reject) => {
      const done = (error?: Error | null): void => (error ? reject(error) : resolve());
      if (data !== '') stdin?.write(data, done);
      if (eof) stdin?.end(data === '' ? done : undefined);
      else if (data === '') done();
    });
  }

  /** Types text, and the end of the input. After a line without its break, the first Ctrl-D only delivers that line. */
  #type(terminal: PseudoTerminal, data: string, eof: boolean): Promise<void> {
    const isLineOpen = data !== '' && !/[\r\n]$/.test(data);
    return terminal.write(eof ? data + END_OF_INPUT.repeat(isLineOpen ? 2 : 1) : data);
  }

  /**
   * Sends a signal to it and all it has started; resolves when it has ended, in two seconds at the latest. Fails with
   * `proc.invalid`.
   */
  async kill(signal: string): Promise<void> {
    if (!Object.hasOwn(constants.signals, signal)) {
      throw failure('invalid', `there is no signal ${JSON.stringify(signal.slice(0, 32))}`, { field: 'signal' });
    }
    if (!this.running) return;
    if (this.#isCovered && signal !== 'SIGKILL') {
      this.#ready ??= this.#child.hasGrandchild(COVER_MS);
      await this.#ready;
    }
    if (ENDING.has(signal)) this.#reason ??= 'killed';
    if (signal === 'SIGKILL') await this.#child.kill();
    else this.#child.signal(signal as NodeJS.Signals);
    if (ENDING.has(signal)) await within(this.#child.exited, KILL_REPLY_MS);
  }

  /**
   * Ends it and all it has started, even processes that have left its group, and those that it left running when it ended.
   * Bounded, never rejects.
   */
  async terminate(reason: EndReason): Promise<void> {
    if (!this.running) return this.#child.endLeft();
    if (this.#reason === reason) return;
    this.#reason = reason;
    // A shell at a terminal ignores SIGTERM.
    if (this.#terminal !== undefined) this.#child.signal('SIGHUP');
    await this.#child.end(GRACE_MS);
  }

  /** Stops waiting for readers: nothing will read the output. */
  abandon(): void {
    this.output.end();
  }

  async #follow(): Promise<void> {
    const child = this.#child;
    const terminal = this.#terminal;
    const pipes = Promise.all(
      terminal === undefined
        ? [this.#read(child.stdout, 'stdout'), this.#read(child.stderr, 'stderr')]
        : [this.#read(terminal.output(), 'stdout')],
    );
    const { code, signal } = await child.exited;
    this.#cancelLimit?.();
    const reason = this.#reason;
    this.end = {
      code: code ?? -constants.signals[signal as NodeJS.Signals],
      signal: signal ?? '',
      // A program that ends in order at a signal was not killed by it.
      reason: (code === 0 && reason === 'killed' ? undefined : reason) ?? (signal === null ? 'exited' : 'signal'),
      at: this.#now(),
    };
    // Processes that continue in its group have the pipes open.
    if (!(await child.groupEnds(LEAVE_MS))) await child.endGroup(GRACE_MS);
    await this.#group?.end();
    terminal?.release();
    const closed = pipes.then(() => true);
    // Counted in intervals, not by the clock: each gives the pipes a turn, even if this thread was blocked for long.
    for (let looks = 0; looks < SILENT_LOOKS && !(await within(closed, LOOK_MS)); looks++) {
      // Time in which its readers read nothing is not counted.
      if (this.output.full) await this.output.room();
      if (this.#spoke || this.output.full) looks = 0;
      this.#spoke = false;
    }
    for (const pipe of [child.stdin, child.stdout, child.stderr]) pipe?.destroy();
    terminal?.destroy();
    await within(closed, KILL_REPLY_MS);
    this.output.end();
  }

  /** Reads one pipe, or the terminal, to its end, no faster than the store has space. */
  async #read(pipe: AsyncIterable<Buffer> | null, stream: StreamName): Promise<void> {
    // A program that could not be started may have no pipes.
    if (pipe === null) return;
    const { output } = this;
    // Characters may be cut between two chunks.
    const decoder = new StringDecoder('utf8');
    let line = '';
    const add = (text: string): void => {
      if (text === '') return;
      if (this.#chunks) return output.push(stream, text);
      let from = 0;
      for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', from)) {
        output.push(stream, line + text.slice(from, at + 1));
        line = '';
        from = at + 1;
      }
      line += text.slice(from);
      if (line.length < MAX_LINE) return;
      output.push(stream, line);
      line = '';
    };
    try {
      for await (const chunk of pipe) {
        output.bytes += chunk.length;
        this.#spoke = true;
        if (this.#maxOutputBytes > 0 && output.bytes > this.#maxOutputBytes) void this.terminate('limit');
        add(decoder.write(chunk));
        if (output.full) await output.room();
      }
    } catch {
      // This side closed the pipe, because a process that left the group has it open.
    }
    add(decoder.end());
    if (line !== '') output.push(stream, line);
  }
}

/** Resolves when every process has ended, or the time is over. */
export async function allEnd(procs: readonly Proc[], reason: EndReason): Promise<void> {
  await Promise.race([Promise.all(procs.map((proc) => proc.terminate(reason))), sleep(2 * GRACE_MS + KILL_REPLY_MS)]);
}
