/**
 * Starts children from a small process beside this one. A start by this process itself stops its event loop for as long
 * as the system copies its page tables and runs the program: milliseconds, and tens of them in a process of some
 * hundred MiB.
 *
 * The small process starts with the first child. It ends when it had none for a minute, and with this process, however
 * this one ends. Its children connect to a socket in a folder of this user alone, each with a token. On Windows, and
 * where no such socket can be made, this process starts the children itself.
 */
import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Child, type ChildExit, type ChildOptions, signalGroup, startChild } from '../child.ts';
import { compiledCode } from '../compiled-code.ts';
import { nodeProgram } from '../node-program.ts';
import { within, withTimeout } from '../race.ts';
import { processTimer } from '../timer-queue.ts';
import type { LaunchReport, LaunchRequest, LaunchSettings } from './launcher-entry.ts';
import { ownChildren } from './own-children.ts';

/** Descriptors of a child that are sockets of this process. */
const DESCRIPTORS = [1, 2, 3] as const;
const TOKEN_BYTES = 16;
/** Bytes of a socket's first line: the token in hexadecimal, the descriptor, a line break. */
const FIRST_LINE_BYTES = 2 * TOKEN_BYTES + 2;
/** Time within which a socket must identify its child. */
const JOIN_MS = 5_000;
/** Time for a start on a slow machine. */
const LAUNCH_MS = 30_000;
/** Time for which the process waits for its next child. */
const IDLE_MS = 60_000;
/** Time for its end before it is killed. */
const END_MS = 2_000;
/** MiB of its heap. */
const MAX_HEAP_MIB = 32;

/** Options of a child that is started elsewhere; it always has a channel, and no standard input. */
export type LaunchOptions = Pick<ChildOptions, 'argv' | 'cwd' | 'env'>;

export class Launcher {
  readonly #priority: number;
  #process: Promise<LauncherProcess | undefined> | undefined;
  #isClosed = false;

  /** @param priority niceness of the programs it starts */
  constructor(priority = 0) {
    this.#priority = priority;
  }

  /** Starts a process with a channel. Rejects with the system's error when it cannot be started. */
  async launch(options: LaunchOptions): Promise<Child> {
    if (this.#isClosed) throw new Error('it has been closed');
    for (let opened = this.#opened(); ; opened = this.#opened()) {
      const launcher = await opened;
      if (launcher === undefined) break;
      if (!launcher.isEnding) return launcher.launch(options);
      // The launcher had no child for too long, or was killed.
      if (this.#process === opened) this.#process = undefined;
    }
    const child = startChild({ ...options, channel: true });
    await child.started;
    return child;
  }

  /** Ends it for good, and with it all that it started. Bounded. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const launcher = await this.#process;
    this.#process = undefined;
    await launcher?.end();
  }

  #opened(): Promise<LauncherProcess | undefined> {
    this.#process ??=
      process.platform === 'win32'
        ? Promise.resolve(undefined)
        : LauncherProcess.open(this.#priority).catch(() => undefined);
    return this.#process;
  }
}

/** A child on its way, or one that runs. */
interface Launched {
  readonly token: string;
  readonly sockets: Map<number, Socket>;
  pid: number | undefined;
  /** Once it runs, and all its sockets are there. */
  process: LaunchedProcess | undefined;
  exit: ChildExit | undefined;
  readonly settle: () => void;
  readonly fail: (error: Error) => void;
}

class LauncherProcess {
  readonly #child: Child;
  readonly #server: Server;
  readonly #folder: string;
  readonly #launched = new Map<number, Launched>();
  /** Also at the end of this process, which kills the other one before it can. */
  readonly #removeFolder = (): void => rmSync(this.#folder, { recursive: true, force: true });
  #count = 0;
  /** Starts, and children that keep this process open. */
  #held = 0;
  #isEnding = false;
  #cancelIdle: (() => void) | undefined;

  static async open(priority: number): Promise<LauncherProcess> {
    const path = join(mkdtempSync(join(tmpdir(), 'handfast-children-')), 'socket');
    const server = createServer({ pauseOnConnect: true });
    try {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen(path, resolve);
      });
      const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
      const entry = fileURLToPath(new URL(`./launcher-entry${extension}`, import.meta.url));
      const child = startChild({
        argv: [...nodeProgram(`--max-old-space-size=${MAX_HEAP_MIB}`), entry],
        cwd: '/',
        env: compiledCode(),
        channel: true,
      });
      await child.started;
      child.channel?.write(`${JSON.stringify({ path, priority } satisfies LaunchSettings)}\n`);
      return new LauncherProcess(child, server, dirname(path));
    } catch (error) {
      server.close();
      rmSync(dirname(path), { recursive: true, force: true });
      throw error;
    }
  }

  private constructor(child: Child, server: Server, folder: string) {
    this.#child = child;
    this.#server = server;
    this.#folder = folder;
    for (const stream of [child.stdout, child.stderr]) stream.resume();
    const reports = createInterface({ input: child.channel as Socket });
    reports.on('line', (line) => this.#report(JSON.parse(line)));
    // The launcher ended with requests that it had not read; its exit has the reason.
    reports.on('error', () => {});
    server.on('connection', (socket: Socket) => this.#join(socket));
    // Also of an `accept` without a descriptor left: an error without a listener would end the process.
    server.on('error', () => {});
    server.unref();
    this.#hold(0);
    process.once('exit', this.#removeFolder);
    void child.exited.then(() => this.#ended());
  }

  /** True once it starts no more programs. */
  get isEnding(): boolean {
    return this.#isEnding || this.#child.exit !== undefined;
  }

  async launch({ argv, cwd, env }: LaunchOptions): Promise<Child> {
    const mark = ownChildren.mark(env);
    const id = ++this.#count;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const token = randomBytes(TOKEN_BYTES).toString('hex');
    const launched: Launched = {
      token,
      sockets: new Map(),
      pid: undefined,
      process: undefined,
      exit: undefined,
      settle: resolve,
      fail: reject,
    };
    this.#launched.set(id, launched);
    this.#hold(1);
    try {
      const request: LaunchRequest = { id, argv, cwd, env: mark.env, token };
      this.#child.channel?.write(`${JSON.stringify(request)}\n`);
      await withTimeout(promise, LAUNCH_MS, () => new Error('its start took too long'));
      launched.process = new LaunchedProcess(launched, (by) => this.#hold(by));
      const child = new Child(launched.process as unknown as ChildProcess, mark.marker);
      if (launched.exit !== undefined) this.#exited(id, launched, launched.exit);
      return child;
    } catch (error) {
      this.#forget(id);
      throw error;
    } finally {
      this.#hold(-1);
    }
  }

  /** Kills its children, and ends. */
  async end(): Promise<void> {
    this.#isEnding = true;
    this.#hold(1);
    this.#child.channel?.end();
    if ((await within(this.#child.exited, END_MS)) === undefined) await this.#child.kill();
  }

  /** Adds to the number of children that keep this process open. */
  #hold(by: number): void {
    this.#held += by;
    if (this.#child.exit === undefined) this.#child.hold(this.#held > 0);
    this.#cancelIdle?.();
    this.#cancelIdle =
      this.#launched.size > 0 || this.#isEnding ? undefined : processTimer(() => void this.end(), IDLE_MS);
  }

  #report(report: LaunchReport): void {
    const launched = this.#launched.get(report.id);
    if (launched === undefined) return;
    if ('pid' in report) {
      launched.pid = report.pid;
      this.#settle(launched);
    } else if ('exit' in report) {
      launched.exit = report.exit;
      if (launched.process !== undefined) this.#exited(report.id, launched, report.exit);
    } else launched.fail(Object.assign(new Error(report.error), { code: report.code }));
  }

  #exited(id: number, launched: Launched, exit: ChildExit): void {
    this.#launched.delete(id);
    launched.process?.end(exit);
    this.#hold(0);
  }

  /** Reads the first line of a socket, which identifies its child; later bytes are for the child's reader. */
  #join(socket: Socket): void {
    socket.on('error', () => {});
    const cancel = processTimer(() => socket.destroy(), JOIN_MS);
    const read = (): void => {
      const first = socket.read(FIRST_LINE_BYTES) as Buffer | null;
      if (first === null) return;
      socket.off('readable', read);
      cancel();
      const [token, descriptor] = [first.toString('latin1', 0, 2 * TOKEN_BYTES), first[2 * TOKEN_BYTES] as number];
      const launched = [...this.#launched.values()].find((each) => each.token === token);
      if (launched === undefined) return void socket.destroy();
      launched.sockets.set(descriptor - 48, socket);
      this.#settle(launched);
    };
    socket.on('readable', read);
  }

  #settle({ pid, sockets, settle }: Launched): void {
    if (pid !== undefined && DESCRIPTORS.every((each) => sockets.has(each))) settle();
  }

  #forget(id: number): void {
    const launched = this.#launched.get(id);
    this.#launched.delete(id);
    for (const socket of launched?.sockets.values() ?? []) socket.destroy();
    if (launched?.pid !== undefined) signalGroup(launched.pid, 'SIGKILL');
  }

  #ended(): void {
    this.#cancelIdle?.();
    this.#server.close();
    process.off('exit', this.#removeFolder);
    this.#removeFolder();
    this.#isEnding = true;
    const error = new Error('the process that starts it has ended');
    const killed: ChildExit = { code: null, signal: 'SIGKILL' };
    // All in this turn: a listener that learns of one end must not meet another child that has ended as well.
    for (const [id, launched] of this.#launched) {
      launched.exit = killed;
      if (launched.pid !== undefined) signalGroup(launched.pid, 'SIGKILL');
      if (launched.process !== undefined) this.#exited(id, launched, killed);
      // Its start drops it, or, if all of it has arrived by now, reports its end.
      else launched.fail(error);
    }
  }
}

/** The members of a process that {@link Child} needs, for a child of the launcher. */
class LaunchedProcess extends EventEmitter {
  readonly pid: number;
  readonly stdin = null;
  readonly stdout: Socket;
  readonly stderr: Socket;
  readonly stdio: readonly (Socket | null)[];
  readonly #hold: (by: number) => void;
  #isHeld = true;
  #exit: ChildExit | undefined;

  /** @param hold called with 1 when the child keeps this process open from now on, with -1 when it no longer does */
  constructor({ pid, sockets }: Launched, hold: (by: number) => void) {
    super();
    this.pid = pid as number;
    const [stdout, stderr, channel] = DESCRIPTORS.map((each) => sockets.get(each)) as [Socket, Socket, Socket];
    this.stdout = stdout;
    this.stderr = stderr;
    this.stdio = [null, stdout, stderr, channel];
    this.#hold = hold;
    hold(1);
    process.nextTick(() => this.emit('spawn'));
  }

  ref(): void {
    if (this.#isHeld || this.#exit !== undefined) return;
    this.#isHeld = true;
    this.#hold(1);
  }

  unref(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#hold(-1);
  }

  /** Records the end of the process. */
  end(exit: ChildExit): void {
    if (this.#exit !== undefined) return;
    this.#exit = exit;
    this.unref();
    this.emit('exit', exit.code, exit.signal);
  }
}
