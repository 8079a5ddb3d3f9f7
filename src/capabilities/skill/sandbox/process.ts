/**
 * The sandboxes `process` and `bubblewrap`: each run has a separate process of Node, in a separate process group, with an empty
 * environment, limits of the system and Node's permission model; `bubblewrap` puts a view of the system around it that has no
 * network and no file of the host's users. A process runs one skill and is killed after it.
 *
 * Some processes wait warm; a process of the host starts them, so that the host's event loop does not stop for a start.
 * Messages use a separate descriptor, so that printed text of a skill is never taken for one.
 */
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { availableParallelism } from 'node:os';
import type { Duplex } from 'node:stream';
import { type Child, exitCodeOf } from '../../../base/child.ts';
import { Launcher } from '../../../base/children/launcher.ts';
import { nextTurn } from '../../../base/next-turn.ts';
import { programInPath } from '../../../base/program-file.ts';
import { within } from '../../../base/race.ts';
import { type LimitsInForce, limitsInForce } from '../../../base/system-limits.ts';
import { processTimer } from '../../../base/timer-queue.ts';
import { LineReader } from '../../../wire/frame.ts';
import { failure } from '../errors.ts';
import { bubblewrapWords, findBubblewrap, type NodeOptions, nodeWords, type Words } from './confinement.ts';
import { Conversation, tooLong } from './conversation.ts';
import type { ToInside } from './inside.ts';
import { READY } from './process-inside.ts';
import { type Found, PROBE } from './process-probe.ts';
import { type Job, type Probe, SANDBOX_PRIORITY, type Sandbox, type SandboxLimits, type View } from './sandbox.ts';

/** Memory beside that of the skill's objects: young objects, texts in transit. */
const SLACK_BYTES = 64 * 1024 * 1024;
const OPEN_FILES = 256;
/** Threads of Node count, too, so this is more than a second for each second of a run. */
const PROCESSORS = 4;
/** Maximum time of the first start on a slow machine. */
const START_MS = 30_000;
/** Maximum time for reading the output of an ended process. */
const AFTER_EXIT_MS = 1_000;
/** Maximum wait for the end of a killed process before it is searched for. */
const KILL_WAIT_MS = 2_000;
/** Time after which another process is started in place of one whose run takes long. */
const REPLACE_MS = 20;
/** Maximum time that a process waits for its job. */
const IDLE_MS = 60_000;
/**
 * Maximum number of processes that wait beyond `warm` while runs arrive faster than processes start: more concurrent starts
 * make none faster.
 */
const MAX_SURPLUS = Math.min(availableParallelism(), 4);
/** Time that those are retained after the last run. */
const SURPLUS_IDLE_MS = 2_000;
const MAX_STDERR_CHARS = 8 * 1024;
/** A process that reaches the network reaches the host, as every program of its user does. */
const NETWORK_HELD = 'run the host with Node 25 or later, which holds the network';
/** Maximum bytes of UTF-8 for one character of a JavaScript text. */
const MAX_CHAR_BYTES = 3;

export interface ProcessOptions extends SandboxLimits {
  readonly tier: 'process' | 'bubblewrap';
  readonly maxMessageChars: number;
  /** Longest run. */
  readonly maxSeconds: number;
  /** Folders in which programs are searched, a list as in PATH. */
  readonly path: string;
}

export class ProcessSandbox implements Sandbox {
  readonly tier: 'process' | 'bubblewrap';
  readonly #options: ProcessOptions;
  readonly #launcher = new Launcher(SANDBOX_PRIORITY);
  /** Processes that wait for a run or start for one, the oldest first. */
  readonly #idle: Promise<Place>[] = [];
  readonly #all = new Set<Place>();
  /** Number of processes that wait beyond `warm`. */
  #surplus = 0;
  #cancelSurplus: (() => void) | undefined;
  #limits: LimitsInForce = { prefix: [], limits: {} };
  #closed = false;

  constructor(options: ProcessOptions) {
    this.tier = options.tier;
    this.#options = options;
  }

  async probe(): Promise<Probe> {
    const isWrapped = this.tier === 'bubblewrap';
    if (isWrapped) findBubblewrap(this.#options.path);
    const server = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(0, '127.0.0.1', resolve);
    });
    try {
      // Tried with a known process id, and without limits, to measure the memory that Node uses for itself.
      const { ownBytes } = await this.#try('process', true, server);
      await this.#limit(ownBytes);
      if (isWrapped) {
        const { found } = await this.#try('bubblewrap', false, server);
        const open = [...found.open];
        if (found.pid > 9) open.push('the processes of the host');
        if (found.variables.some((name) => name !== 'PWD')) open.push('environment variables');
        if (open.length > 0) throw new Error(`bubblewrap leaves open: ${open.join(', ')}`);
      }
      const { found } = await this.#try(this.tier, true, server);
      if (found.open.length > 0) {
        const instead = found.open.includes('network')
          ? `; ${NETWORK_HELD}, or use the tier quickjs or bubblewrap`
          : '';
        throw new Error(`node --permission leaves open: ${found.open.join(', ')}${instead}`);
      }
      this.#fill();
      return { network: 'blocked', limits: this.#limits.limits };
    } finally {
      server.close();
    }
  }

  async run(job: Job, conversation: Conversation, signal: AbortSignal): Promise<void> {
    if (this.#closed) throw closed();
    // A view belongs to one run.
    const isWarm = job.view === undefined && this.#options.warm > 0;
    const place = await (isWarm ? this.#take() : this.#start(job.view));
    const fill = (): void => this.#fill();
    // A start takes processor time, which a single run can use better; under load, runs wait for starts.
    if (isWarm && this.#surplus === 0) void within(conversation.result, REPLACE_MS, processTimer).then(fill, fill);
    else if (isWarm) fill();
    await place.run(job, conversation, signal);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelSurplus?.();
    await Promise.all([...this.#all].map((place) => place.end()));
    await this.#launcher.close();
  }

  /** Takes the process that has waited longest. */
  async #take(): Promise<Place> {
    let place: Place;
    do {
      this.#fill();
      place = await (this.#idle.shift() as Promise<Place>);
      // It had waited too long and is ending.
    } while (place.isEnding && !this.#closed);
    place.wake();
    // Runs arrive faster than processes start: more processes start concurrently.
    if (!place.isReady) this.#surplus = Math.min(this.#surplus + 1, MAX_SURPLUS);
    this.#cancelSurplus?.();
    this.#cancelSurplus = processTimer(() => this.#shrink(), SURPLUS_IDLE_MS);
    return place;
  }

  #fill(): void {
    while (!this.#closed && this.#idle.length < this.#options.warm + this.#surplus) {
      const starting = this.#start(undefined);
      this.#idle.push(starting);
      const unlist = (): void => {
        const at = this.#idle.indexOf(starting);
        if (at >= 0) this.#idle.splice(at, 1);
      };
      starting.then((place) => {
        if (this.#idle.includes(starting)) place.rest();
        place.onEnd(unlist);
      }, unlist);
    }
  }

  #shrink(): void {
    this.#surplus = 0;
    for (const surplus of this.#idle.splice(this.#options.warm)) {
      surplus.then(
        (place) => place.end(),
        () => {},
      );
    }
  }

  async #start(view: View | undefined, tier = this.tier, isRestricted = true): Promise<Place> {
    const { memoryBytes, maxMessageChars, path } = this.#options;
    const node: NodeOptions = { memoryBytes, maxMessageChars, isRestricted, isAlone: tier === 'process', view };
    const words = tier === 'process' ? nodeWords(process.execPath, node) : bubblewrapWords(findBubblewrap(path), node);
    const argv = [...this.#limits.prefix, ...words] as unknown as Words;
    const child = await this.#launcher.launch({ argv, cwd: '/', env: {} }).catch(({ message }: Error) => {
      throw crash(`it cannot be started: ${message}`);
    });
    const place = new Place(child, maxMessageChars);
    place.onEnd(() => void this.#all.delete(place));
    this.#all.add(place);
    if (!this.#closed) return place;
    await place.end();
    throw closed();
  }

  async #limit(ownBytes: number | undefined): Promise<void> {
    const { memoryBytes, maxSeconds, path } = this.#options;
    const { prefix, limits } = await limitsInForce(
      {
        ...(ownBytes !== undefined && { memory_bytes: ownBytes + memoryBytes + SLACK_BYTES }),
        cpu_seconds: PROCESSORS * maxSeconds,
        file_bytes: 0,
        open_files: OPEN_FILES,
      },
      path,
    );
    const [name, ...flags] = prefix;
    if (name === undefined) return;
    // The environment of a skill has no PATH to look it up in.
    this.#limits = { prefix: [programInPath(name, path) ?? name, ...flags], limits };
  }

  /** Runs the probe, which tries to reach forbidden resources. */
  async #try(
    tier: ProcessOptions['tier'],
    isRestricted: boolean,
    server: Server,
  ): Promise<{ readonly found: Found; readonly ownBytes: number | undefined }> {
    const place = await this.#start(undefined, tier, isRestricted);
    let ownBytes: number | undefined;
    const conversation = new Conversation(
      {
        call: () => Promise.reject(new Error('no tools')),
        event: async () => {
          ownBytes = dataBytesOf(place.pid);
        },
      },
      { maxMessageChars: 4_000, maxPrintedChars: 0, maxCalls: 0, maxEvents: 1 },
    );
    const { port } = server.address() as { port: number };
    const job: Job = { files: { 'probe.js': PROBE }, entry: 'probe.js', args: { port, isRestricted } };
    const stop = AbortSignal.timeout(START_MS);
    const over = place.run(job, conversation, stop).then(
      () => conversation.fail(failure('crash', stop.aborted ? 'it does not answer' : 'it ended', { reason: 'ended' })),
      (error) => conversation.fail(error),
    );
    try {
      const found = (await conversation.result) as Found;
      return { found, ownBytes };
    } catch (error) {
      const said = place.reason;
      throw new Error(said === '' ? (error as Error).message : `${said}${hintFor(said)}`);
    } finally {
      void place.end();
      await over;
    }
  }
}

/** Returns a hint for an error of bubblewrap in a container. */
const hintFor = (said: string): string =>
  /^bwrap: /.test(said) && /permi|not permitted|namespace|uid map|mount/i.test(said)
    ? '; this system or container does not let it make namespaces: allow unprivileged user namespaces, or use the tier quickjs'
    : '';

/** A process that waits for its job, or runs it. */
class Place {
  readonly #child: Child;
  readonly #channel: Duplex;
  readonly #exited: Promise<void>;
  #conversation: Conversation | undefined;
  #stderr = '';
  #timer: NodeJS.Timeout | undefined;
  #ending: Promise<void> | undefined;
  #isReady = false;

  constructor(child: Child, maxMessageChars: number) {
    this.#child = child;
    this.#channel = child.channel as Duplex;
    const reader = new LineReader(
      {
        line: (line) => this.#receive(line),
        malformed: ({ reason }) =>
          this.#conversation?.fail(
            reason === 'too_large'
              ? tooLong(maxMessageChars)
              : failure('crash', 'the sandbox sent what is no message', { reason: 'bad_message' }),
          ),
        behind: (isBehind) => void (isBehind ? this.#channel.pause() : this.#channel.resume()),
      },
      MAX_CHAR_BYTES * maxMessageChars,
    );
    this.#channel.on('data', (chunk: Buffer) => reader.push(chunk));
    const { stdout, stderr } = child;
    stdout.setEncoding('utf8').on('data', (text: string) => this.#conversation?.printed(text, 'info'));
    stderr.setEncoding('utf8').on('data', (text: string) => this.#printedError(text));
    const closed = Promise.all(
      [this.#channel, stdout, stderr].map((stream) => new Promise((resolve) => stream.once('close', resolve))),
    );
    this.#exited = child.exited.then(async (exit) => {
      // Its last output is still on its way.
      await within(closed, AFTER_EXIT_MS, processTimer);
      // A full turn of the event loop may hold up its last message.
      do await new Promise<void>(nextTurn);
      while (reader.holds);
      this.#conversation?.fail(this.#endOf(exit));
    });
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** True when it has started and waits for its job. */
  get isReady(): boolean {
    return this.#isReady;
  }

  get isEnding(): boolean {
    return this.#ending !== undefined;
  }

  /** Calls `ended` once its process has ended. */
  onEnd(ended: () => void): void {
    void this.#child.exited.then(ended);
  }

  /** The most informative line of its standard error: one with a reason, else the last. */
  get reason(): string {
    const lines = this.#stderr.trimEnd().split('\n');
    const said = lines.find((line) => /^bwrap: |^prlimit: |fatal|error|bad option/i.test(line)) ?? lines.at(-1) ?? '';
    return said.slice(0, 500);
  }

  async run({ files, entry, args }: Job, conversation: Conversation, signal: AbortSignal): Promise<void> {
    this.#conversation = conversation;
    const stop = (): void => void this.end();
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    const send = (line: string): void => void (this.#channel.writable && this.#channel.write(`${line}\n`));
    conversation.open(send);
    send(JSON.stringify({ type: 'job', files, entry, args } satisfies ToInside));
    try {
      await this.#exited;
    } finally {
      signal.removeEventListener('abort', stop);
      await this.end();
    }
  }

  /** Lets it no longer hold this process open; ends it when no job arrives. */
  rest(): void {
    this.#child.hold(false);
    this.#timer = setTimeout(() => void this.end(), IDLE_MS).unref();
  }

  wake(): void {
    this.#child.hold(true);
    clearTimeout(this.#timer);
  }

  /** Kills its group. Bounded. */
  end(): Promise<void> {
    clearTimeout(this.#timer);
    this.#ending ??= this.#kill();
    return this.#ending;
  }

  async #kill(): Promise<void> {
    const child = this.#child;
    // Its end is awaited, although nothing else may hold this process open.
    child.hold(true);
    if (child.exit !== undefined) return;
    // It has no other processes: it may start no program, and the view of bubblewrap ends with its first process.
    child.signal('SIGKILL');
    const exit = await within(child.exited, KILL_WAIT_MS, processTimer);
    if (exit === undefined) await child.kill();
  }

  #receive(line: string): void {
    if (!this.#isReady && line === READY) {
      this.#isReady = true;
      return;
    }
    // After the output before it, which has already arrived on another pipe.
    if (LAST.test(line)) setImmediate(() => this.#conversation?.receive(line));
    else this.#conversation?.receive(line);
  }

  /** Passes on text that a skill wrote to standard error; messages of the engine at its end may follow it. */
  #printedError(text: string): void {
    const before = this.#stderr;
    this.#stderr = (before + text).slice(-MAX_STDERR_CHARS);
    if (ENGINE.test(before)) return;
    const at = text.search(ENGINE);
    const own = at < 0 ? text : text.slice(0, at);
    if (own.trim() !== '') this.#conversation?.printed(own, 'error');
  }

  #endOf(exit: Parameters<typeof exitCodeOf>[0]): ReturnType<typeof failure> {
    const code = exitCodeOf(exit);
    // Exit codes of an engine that cannot continue: SIGABRT, SIGILL, SIGTRAP, SIGSEGV.
    const isAborted = [132, 133, 134, 139].includes(code);
    if (isAborted && NO_MEMORY.test(this.#stderr)) return failure('memory', 'the skill used more memory than it may');
    return crash(code > 128 ? `signal ${exit.signal ?? code - 128}` : `exit code ${code}`);
  }
}

/** The beginning of the message after which nothing counts. */
const LAST = /^\{"type":"(?:done|failed)"/;
/** The beginning of the messages of an engine that cannot continue. */
const ENGINE = /^(?:#$|-----|<--- Last few GCs|FATAL ERROR|terminate called)/m;
const NO_MEMORY = /out of memory|allocation fail|bad_alloc/i;

const closed = (): ReturnType<typeof failure> =>
  failure('crash', 'the sandboxes of this host have ended', { reason: 'ended' });

const crash = (reason: string): ReturnType<typeof failure> =>
  failure('crash', `the sandbox ended: ${reason}`, { reason: 'ended' });

/** Returns the private writable memory of a process, as the limit counts it; undefined if the system does not report it. */
function dataBytesOf(pid: number): number | undefined {
  try {
    const [, kib] = /^VmData:\s*(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? [];
    return kib === undefined ? undefined : Number(kib) * 1024;
  } catch {
    return undefined;
  }
}
