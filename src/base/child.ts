/**
 * The one way this project starts processes. Each child leads a process group of its own, which ends whole, and is killed
 * when this process exits.
 *
 * Used by `program.ts` for programs that run to their end, by `transport/subprocess.ts` for peers on pipes, and by
 * `capabilities/tools/builtin/shell.ts`.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { constants } from 'node:os';
import type { Readable, Writable } from 'node:stream';
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
}

/** How a process ended; one of the two is null. */
export interface ChildExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** How long a killed process or group may take to disappear; only one that is stuck in the kernel takes longer. */
const KILL_WAIT_MS = 2_000;
/** Pauses between two checks of a group that has time to end, milliseconds; each is twice the one before. */
const FIRST_PAUSE_MS = 10;
const LAST_PAUSE_MS = 160;

/** The exit code as a shell has it: 128 plus the number of the signal that ended the process. */
export const exitCodeOf = ({ code, signal }: ChildExit): number =>
  code ?? 128 + (signal === null ? 0 : constants.signals[signal]);

/** A started process. Read its output at once: what nothing reads when it exits is dropped. */
export class Child {
  /** Null: closed. Writing to a process that has ended is not an error. */
  readonly stdin: Writable | null;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves when the process runs; rejects with the system's error when it could not be started. */
  readonly started: Promise<void>;
  /** Resolves when the process has exited; its output may continue. Never settles for one that was not started. */
  readonly exited: Promise<ChildExit>;
  readonly #process: ChildProcess;
  #exit: ChildExit | undefined;

  constructor(child: ChildProcess) {
    this.#process = child;
    this.stdin = child.stdin;
    this.stdout = child.stdout as Readable;
    this.stderr = child.stderr as Readable;
    child.stdin?.on('error', () => {});
    const { promise: started, resolve, reject } = Promise.withResolvers<void>();
    this.started = started;
    started.catch(() => {});
    // A signal that cannot be delivered is reported here too; by then the start has settled.
    child.on('error', reject);
    child.once('spawn', () => {
      killAtExit(this);
      resolve();
    });
    this.exited = new Promise((settle) =>
      child.once('exit', (code, signal) => {
        this.#exit = { code, signal };
        settle(this.#exit);
      }),
    );
  }

  /** Undefined while the process runs. */
  get exit(): ChildExit | undefined {
    return this.#exit;
  }

  get pid(): number {
    return this.#process.pid as number;
  }

  /** Sends a signal to the whole group. Nothing happens when it has ended. */
  signal(name: 'SIGTERM' | 'SIGKILL'): void {
    if (process.platform === 'win32') this.#process.kill(name);
    else signalGroup(this.pid, name);
  }

  /**
   * The ladder: SIGTERM, and SIGKILL when the process has exited or `graceMs` are over, so that no process it started stays.
   * Bounded, never rejects.
   */
  async stop(graceMs: number): Promise<void> {
    this.signal('SIGTERM');
    await within(this.exited, graceMs);
    await this.kill();
  }

  /** SIGKILL to the whole group. Bounded, never rejects. */
  async kill(): Promise<void> {
    this.signal('SIGKILL');
    await within(this.exited, KILL_WAIT_MS);
  }
}

/** Starts a process. Throws what the system refuses at once; {@link Child.started} reports the rest. */
export function startChild({ argv: [program, ...args], cwd, env, stdin = 'ignore' }: ChildOptions): Child {
  return new Child(
    spawn(program, args, {
      ...(cwd !== undefined && { cwd }),
      env,
      stdio: [stdin, 'pipe', 'pipe'],
      detached: process.platform !== 'win32',
      windowsHide: true,
    }),
  );
}

/** Kills the group of a child that still runs when this process exits. */
function killAtExit(child: Child): void {
  const orphaned = (): void => child.signal('SIGKILL');
  // Each child brings its own listener, and raises the limit for it.
  const raise = (change: number): void => {
    const limit = process.getMaxListeners();
    if (limit > 0) process.setMaxListeners(limit + change);
  };
  raise(1);
  process.on('exit', orphaned);
  void child.exited.then(() => {
    process.removeListener('exit', orphaned);
    raise(-1);
  });
}

/** Sends a signal (0 = only check) to the group that `leader` leads; false when it is empty. */
export function signalGroup(leader: number, signal: NodeJS.Signals | 0): boolean {
  // Process 0 would be our own group, and process 1 means every process.
  if (!Number.isSafeInteger(leader) || leader <= 1) throw new RangeError('not the process group of a child');
  try {
    process.kill(-leader, signal);
    return true;
  } catch (error) {
    // A process there has changed its user, so it is not ours to signal.
    return errnoOf(error) === 'EPERM';
  }
}

/** SIGTERM to a group, and SIGKILL to what is left of it after `graceMs`. False when a process is left. */
export async function endGroup(leader: number, graceMs: number): Promise<boolean> {
  if (!signalGroup(leader, 'SIGTERM') || (await hasEnded(leader, graceMs))) return true;
  return !signalGroup(leader, 'SIGKILL') || (await hasEnded(leader, KILL_WAIT_MS));
}

/** True once no process of the group runs any more; false when one still does after `withinMs`. */
export async function hasEnded(leader: number, withinMs: number): Promise<boolean> {
  let leftMs = withinMs;
  for (let pauseMs = FIRST_PAUSE_MS; await isRunning(leader); pauseMs = Math.min(2 * pauseMs, LAST_PAUSE_MS)) {
    if (leftMs <= 0) return false;
    await sleep(Math.min(pauseMs, leftMs));
    leftMs -= pauseMs;
  }
  return true;
}

async function isRunning(leader: number): Promise<boolean> {
  if (!signalGroup(leader, 0)) return false;
  if (process.platform !== 'linux') return true;
  // Ended processes stay in the group until their parent reaps them, and the first process of a container may never do so.
  const group = String(leader);
  for (const name of await readdir('/proc').catch(() => [])) {
    if (!/^\d+$/.test(name)) continue;
    const line = await readFile(`/proc/${name}/stat`, 'latin1').catch(() => '');
    // `pid (name) state parent group …`; the name may hold anything, also parentheses.
    const [state = 'X', , of] = line.slice(line.lastIndexOf(')') + 2).split(' ');
    if (of === group && state !== 'Z' && state !== 'X') return true;
  }
  return false;
}
