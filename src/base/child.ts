/**
 * The one way this project starts processes. Each child leads its own process group, which ends whole, and carries a
 * marker by which processes that left the group are found. `children/own-children.ts` ensures that nothing of a child
 * remains when this process ends, however it ends.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { constants } from 'node:os';
import { type Duplex, Readable, type Writable } from 'node:stream';
import { fail, type HandfastError } from '../wire/errors.ts';
import {
  type DescendantQuery,
  type EndingOptions,
  endDescendants,
  haveAllEnded,
  KILL_WAIT_MS,
} from './children/descendants.ts';
import { ownChildren } from './children/own-children.ts';
import { readProcesses, readProcessesNow, seesProcesses } from './children/process-table.ts';
import { whyNotStarted } from './not-started.ts';
import { inheritNoTerminal, type PseudoTerminal } from './pseudo-terminal.ts';
import { within } from './race.ts';
import { sleep } from './sleep.ts';
import { errnoOf } from './workspace/file-error.ts';

export interface ChildOptions {
  /** The program, looked up in PATH when it has no slash, then its arguments. No shell is involved. */
  readonly argv: readonly [string, ...string[]];
  /** Default: the directory of this process. */
  readonly cwd?: string;
  /** The whole environment. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Default `ignore`. */
  readonly stdin?: 'pipe' | 'ignore';
  /** The program runs at it, in place of pipes; its jobs are groups of its session. */
  readonly terminal?: PseudoTerminal | undefined;
  /** Opens {@link Child.channel}. */
  readonly channel?: boolean;
}

/**
 * Certainty that a child's descendants have ended. `may_survive`: one could not be ended, this system does not show
 * all, or a process runs that may be one of them.
 */
export type Ending = 'ended' | 'may_survive';

/** The exit of a process; one of the two is null. */
export interface ChildExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/**
 * Runs a program at the terminal that `$0` names. A session leader that opens a terminal gets it as its controlling
 * terminal, so that its keys become signals.
 */
const AT_TERMINAL = ['/bin/sh', '-c', ': <>"$0"; exec "$@"'] as const;

/** Descriptor of {@link Child.channel}. */
const CHANNEL = 3;
/** Pauses between two checks of a group that has time to end, milliseconds; each is twice the one before. */
const FIRST_PAUSE_MS = 10;
const LAST_PAUSE_MS = 160;

/** Returns the exit code as a shell has it: 128 plus the number of the signal that ended the process. */
export const exitCodeOf = ({ code, signal }: ChildExit): number =>
  code ?? 128 + (signal === null ? 0 : constants.signals[signal]);

/** A started process. Read its output at once: unread output is dropped when the process exits. */
export class Child {
  /** Null: closed, or a terminal. Writing to a process that has ended is not an error. */
  readonly stdin: Writable | null;
  /** Of a process without a terminal, as is `stderr`. */
  readonly stdout: Readable;
  readonly stderr: Readable;
  /**
   * Descriptor 3 of the process, in both directions, if requested: text that the process prints cannot be mistaken for
   * messages on it.
   */
  readonly channel: Duplex | undefined;
  /** Resolves when the process runs; rejects with the system's error when it could not be started. */
  readonly started: Promise<void>;
  /** Resolves when the process has exited; its output may continue. Never settles for one that was not started. */
  readonly exited: Promise<ChildExit>;
  readonly #process: ChildProcess;
  readonly #marker: string;
  /** True at a terminal: its shell gives each job a group in its session. */
  readonly #hasJobs: boolean;
  #startedAt = Number.NaN;
  #exit: ChildExit | undefined;

  constructor(child: ChildProcess, marker: string, hasJobs = false) {
    this.#process = child;
    this.#marker = marker;
    this.#hasJobs = hasJobs;
    // If no descriptor is left Node makes no pipes: `started` rejects in the next turn, and no output can be read.
    const pipes = child.stdio as ChildProcess['stdio'] | undefined;
    this.stdin = pipes === undefined ? null : child.stdin;
    this.stdout = pipes === undefined ? Readable.from([]) : (child.stdout as Readable);
    this.stderr = pipes === undefined ? Readable.from([]) : (child.stderr as Readable);
    this.channel = pipes?.[CHANNEL] as Duplex | undefined;
    for (const stream of [child.stdin, this.channel]) stream?.on('error', () => {});
    const { promise: started, resolve, reject } = Promise.withResolvers<void>();
    this.started = started;
    started.catch(() => {});
    // A signal that cannot be delivered is reported here too; by then the start has settled.
    child.on('error', reject);
    child.once('spawn', resolve);
    if (child.pid !== undefined) this.#startedAt = ownChildren.add(child.pid);
    this.exited = new Promise((settle) =>
      child.once('exit', (code, signal) => {
        this.#exit = { code, signal };
        ownChildren.remove(this.pid);
        settle(this.#exit);
      }),
    );
  }

  /** The exit; undefined while the process runs. */
  get exit(): ChildExit | undefined {
    return this.#exit;
  }

  get pid(): number {
    return this.#process.pid as number;
  }

  /** Sets whether the child keeps this process open while it runs; by default it does. */
  hold(isHeld: boolean): void {
    const name = isHeld ? 'ref' : 'unref';
    this.#process[name]();
    for (const pipe of [this.stdin, this.stdout, this.stderr, this.channel])
      (pipe as Partial<Socket> | null)?.[name]?.();
  }

  /** Sends a signal to the whole group, at a terminal to every group of its session. Nothing happens when it has ended, or never ran. */
  signal(name: NodeJS.Signals): void {
    if (!this.#ran) return;
    if (process.platform === 'win32') this.#process.kill(name);
    else for (const group of this.#groups()) signalGroup(group, name);
  }

  /**
   * Stops the child: SIGTERM, then SIGKILL when the process has exited or `graceMs` are over, so that no process it
   * started remains. Bounded, never rejects.
   */
  async stop(graceMs: number): Promise<void> {
    if (!this.#ran) return;
    const hurry = new AbortController();
    void this.exited.then(() => hurry.abort());
    await this.#endSoon({ graceMs, hurry: hurry.signal });
  }

  /** Sends SIGKILL to the whole group and to processes that have left it. Bounded, never rejects. */
  async kill(): Promise<void> {
    if (!this.#ran) return;
    const ending = this.#endSoon({ graceMs: 0 });
    // If the group is empty, any remaining processes have left it: they need no waiting.
    if (this.exit === undefined || signalGroup(this.pid, 0)) await ending;
  }

  /**
   * Sends SIGTERM to the process and all processes it started, also those that left its group, and SIGKILL to the rest
   * after `graceMs`. Bounded, never rejects.
   */
  async end(graceMs: number): Promise<Ending> {
    if (!this.#ran) return 'ended';
    const query = this.#descendants;
    const ended = (await this.#end(query, { graceMs })) && (await haveAllEnded(query.since, ownChildren.marker));
    return ended ? 'ended' : 'may_survive';
  }

  /** Works as {@link end}, for processes that are still in its group or session, and those that they have started. */
  async endGroup(graceMs: number): Promise<void> {
    if (!this.#ran) return;
    const { leaders, since } = this.#descendants;
    await this.#end({ leaders, since }, { graceMs });
  }

  /** Sends SIGKILL to processes that the ended process left outside of its group. Bounded, never rejects. */
  async endLeft(): Promise<void> {
    if (!this.#ran) return;
    const { marker, since } = this.#descendants;
    // Its number may lead another group by now.
    if (seesProcesses) await endDescendants({ marker, leaders: [], since }, { graceMs: 0 });
  }

  /**
   * Returns true once no process of the group (at a terminal: of the session) runs; false if one still runs after
   * `withinMs`.
   */
  async groupEnds(withinMs: number): Promise<boolean> {
    if (!this.#ran) return true;
    let leftMs = withinMs;
    for (let pauseMs = FIRST_PAUSE_MS; await this.#isGroupRunning(); pauseMs = Math.min(2 * pauseMs, LAST_PAUSE_MS)) {
      if (leftMs <= 0) return false;
      await sleep(Math.min(pauseMs, leftMs));
      leftMs -= pauseMs;
    }
    return true;
  }

  /**
   * Resolves once the process has started one that has started another one, as bubblewrap does for its program; at the latest after
   * `withinMs`.
   */
  async hasGrandchild(withinMs: number): Promise<void> {
    const until = performance.now() + withinMs;
    while (this.exit === undefined && seesProcesses && performance.now() < until) {
      const all = await readProcesses();
      const children = new Set(all.filter(({ parent }) => parent === this.pid).map(({ pid }) => pid));
      if (all.some(({ parent }) => children.has(parent))) return;
      await sleep(FIRST_PAUSE_MS);
    }
  }

  /** False for a child that could not be started. */
  get #ran(): boolean {
    return this.#process.pid !== undefined;
  }

  #groups(): Set<number> {
    const groups = new Set([this.pid]);
    if (!this.#hasJobs) return groups;
    for (const { session, group } of readProcessesNow()) if (session === this.pid) groups.add(group);
    return groups;
  }

  async #isGroupRunning(): Promise<boolean> {
    if (!this.#hasJobs && !signalGroup(this.pid, 0)) return false;
    if (!seesProcesses) return signalGroup(this.pid, 0);
    // Ended processes stay in the group until their parent collects them.
    return (await readProcesses()).some(
      ({ group, session }) => group === this.pid || (this.#hasJobs && session === this.pid),
    );
  }

  /** Waits until SIGKILL was sent and the process has exited, not for the search after it. */
  async #endSoon(options: EndingOptions): Promise<void> {
    await new Promise<void>((resolve) => {
      void this.#end(this.#descendants, { ...options, onKilled: resolve }).then(() => resolve());
    });
    await within(this.exited, KILL_WAIT_MS);
  }

  /** Returns false when a process remains that cannot be ended. */
  async #end(query: DescendantQuery, options: EndingOptions): Promise<boolean> {
    if (seesProcesses) return endDescendants(query, options);
    if (options.graceMs > 0) {
      this.signal('SIGTERM');
      await within(this.exited, options.graceMs);
    }
    this.signal('SIGKILL');
    return false;
  }

  get #descendants(): Required<DescendantQuery> {
    const leader = { pid: this.pid, started: this.#startedAt };
    return { marker: this.#marker, leaders: [leader], since: this.#startedAt };
  }
}

/**
 * Returns the error of a program that could not be started: `unreachable`; `detail.reason` is the code of the system,
 * e.g. `ENOENT`.
 */
export function cannotStart(command: string, cause: unknown, cwd?: string): HandfastError {
  const { code: reason = '' } = cause as NodeJS.ErrnoException;
  return fail('unreachable', `cannot start ${command}: ${whyNotStarted(cause, cwd)}`, { command, reason }, cause);
}

/** Starts a process. Throws errors that the system reports at once; {@link Child.started} reports the rest. */
export function startChild({ argv, cwd, env, stdin = 'ignore', channel, terminal }: ChildOptions): Child {
  const mark = ownChildren.mark(env);
  const [program, ...args] = terminal === undefined ? argv : [...AT_TERMINAL, terminal.path, ...argv];
  const end = terminal?.programEnd;
  const pipes = [stdin, 'pipe', 'pipe', ...(channel ? (['pipe'] as const) : [])] as const;
  const stdio = end === undefined ? pipes : ([end, end, end] as const);
  return new Child(
    spawn(program as string, args, {
      ...(cwd !== undefined && { cwd }),
      env: mark.env,
      stdio: inheritNoTerminal<(typeof stdio)[number]>(stdio),
      detached: process.platform !== 'win32',
      windowsHide: true,
    }),
    mark.marker,
    terminal !== undefined,
  );
}

/** Sends a signal (0 = only check) to the group that `leader` leads; false when it is empty. */
export function signalGroup(leader: number, signal: NodeJS.Signals | 0): boolean {
  // Process 0 would be this process's group, and process 1 means every process.
  if (!Number.isSafeInteger(leader) || leader <= 1) throw new RangeError('not the process group of a child');
  try {
    process.kill(-leader, signal);
    return true;
  } catch (error) {
    // A process of the group has changed its user, so this one may not signal it.
    return errnoOf(error) === 'EPERM';
  }
}
