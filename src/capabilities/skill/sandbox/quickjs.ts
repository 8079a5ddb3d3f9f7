/**
 * The sandbox `quickjs`: an interpreter without any object of the host, in a thread that is ended from outside when a run
 * exceeds its timeout, because the interpreter's own interrupt misses loops in its native code.
 *
 * Threads wait warm, each with an unused instance of the interpreter: a run uses it up, and the thread then makes the next one.
 * A thread whose run did not end by itself is ended.
 */
import { Worker } from 'node:worker_threads';
import { compiledCode } from '../../../base/compiled-code.ts';
import { isShortage, whyNotStarted } from '../../../base/not-started.ts';
import { within, withTimeout } from '../../../base/race.ts';
import { processTimer } from '../../../base/timer-queue.ts';
import { failure } from '../errors.ts';
import { Conversation } from './conversation.ts';
import type { ToInside } from './inside.ts';
import type { ThreadData, ThreadMessage } from './quickjs-thread.ts';
import type { Job, Probe, Sandbox, SandboxLimits } from './sandbox.ts';

/** Memory of the thread beside that of the interpreter, MiB: texts in transit. */
const MAX_HEAP_MIB = 64;
/** Runs after which a thread is replaced. */
const MAX_RUNS = 1_000;
/** Maximum time of the first start on a slow machine. */
const START_MS = 30_000;
/** Maximum wait for the end of a stopped thread. */
const END_WAIT_MS = 2_000;
/** Maximum time that a thread waits for its next run. */
const IDLE_MS = 60_000;
/** Maximum time that threads beyond `warm` wait, which many concurrent runs leave. */
const SURPLUS_IDLE_MS = 2_000;
/** Maximum time for the code to stop after its result; then the thread is ended. */
const OVER_WAIT_MS = 100;

export interface QuickJsOptions extends SandboxLimits {
  readonly maxMessageChars: number;
}

export class QuickJs implements Sandbox {
  readonly tier = 'quickjs';
  readonly #options: QuickJsOptions;
  /** Threads that wait for a run, the oldest first. */
  readonly #idle: Thread[] = [];
  readonly #all = new Set<Thread>();
  #running = 0;
  #compiled: unknown;
  #closed = false;

  constructor(options: QuickJsOptions) {
    this.#options = options;
  }

  async probe(): Promise<Probe> {
    const conversation = new Conversation(
      { call: () => Promise.reject(new Error('no tools')), event: () => undefined },
      { maxMessageChars: 1000, maxPrintedChars: 0, maxCalls: 0, maxEvents: 0 },
    );
    // The probe also checks that forbidden objects are absent.
    const names = ['process', 'require', 'fetch', 'WebAssembly', 'Worker', 'SharedArrayBuffer', 'setTimeout'];
    const text = `export default () => ${JSON.stringify(names)}.filter((name) => typeof globalThis[name] === 'function' || typeof globalThis[name]?.env === 'object')`;
    await this.run(
      { files: { 'probe.js': text }, entry: 'probe.js', args: null },
      conversation,
      AbortSignal.timeout(START_MS),
    );
    const found = (await conversation.result) as string[];
    const unexpected = found.filter((name) => name !== 'SharedArrayBuffer');
    if (unexpected.length > 0) throw new Error(`it has ${unexpected.join(', ')}`);
    return { network: 'blocked', limits: { memory_bytes: this.#options.memoryBytes } };
  }

  async run(job: Job, conversation: Conversation, signal: AbortSignal): Promise<void> {
    if (this.#closed) throw crash('it is closed');
    const thread = this.#take();
    thread.wake();
    this.#running++;
    try {
      await thread.run(job, conversation, signal);
    } finally {
      this.#running--;
      this.#putBack(thread);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#all].map((thread) => thread.end()));
  }

  /** Takes a thread whose instance is ready, else one that still makes it, else starts one. */
  #take(): Thread {
    const thread =
      this.#idle.find(({ isReady }) => isReady) ?? this.#idle.find(({ isUsable }) => isUsable) ?? this.#start();
    this.#unlist(thread);
    return thread;
  }

  #start(): Thread {
    const { memoryBytes, maxMessageChars } = this.#options;
    const thread = new Thread(
      { memoryBytes, maxMessageChars, compiled: this.#compiled },
      (compiled) => {
        this.#compiled ??= compiled;
      },
      () => {
        this.#all.delete(thread);
        this.#unlist(thread);
      },
    );
    this.#all.add(thread);
    return thread;
  }

  #unlist(thread: Thread): void {
    const at = this.#idle.indexOf(thread);
    if (at >= 0) this.#idle.splice(at, 1);
  }

  #putBack(thread: Thread): void {
    const { warm } = this.#options;
    if (this.#closed || warm === 0 || !thread.isUsable) void thread.end();
    else this.#rest(thread);
    if (this.#idle.length + this.#running < warm) setImmediate(() => this.#fill());
  }

  /** Starts replacements, so that they are warm when the next skill arrives: one per turn of the host's loop. */
  #fill(): void {
    if (this.#closed || this.#idle.length + this.#running >= this.#options.warm) return;
    this.#rest(this.#start());
    setImmediate(() => this.#fill());
  }

  #rest(thread: Thread): void {
    const idleMs = this.#idle.push(thread) > this.#options.warm ? SURPLUS_IDLE_MS : IDLE_MS;
    thread.rest(idleMs);
  }
}

/** A thread, and the run in it. */
class Thread {
  readonly #worker: Worker;
  readonly #exited: Promise<unknown>;
  readonly #onCompiled: (compiled: unknown) => void;
  /** Settles when an instance waits for a job. */
  #ready = settled();
  #isReady = false;
  #over: (() => void) | undefined;
  #conversation: Conversation | undefined;
  #runs = 0;
  #isUsable = true;
  #timer: NodeJS.Timeout | undefined;

  constructor(workerData: ThreadData, onCompiled: (compiled: unknown) => void, onEnd: () => void) {
    this.#onCompiled = onCompiled;
    const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
    this.#worker = new Worker(new URL(`./quickjs-thread${extension}`, import.meta.url), {
      workerData,
      execArgv: [],
      env: { ...compiledCode() },
      stdin: false,
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB },
    });
    this.#worker.on('message', (message: ThreadMessage) => this.#receive(message));
    this.#worker.on('error', (error: NodeJS.ErrnoException) => {
      const isMemory = error.code === 'ERR_WORKER_OUT_OF_MEMORY';
      const why = isShortage(error) ? `its thread could not be started: ${whyNotStarted(error)}` : error.message;
      this.#fail(isMemory ? failure('memory', 'the skill used more memory than it may') : crash(why));
    });
    this.#exited = new Promise((resolve) =>
      this.#worker.once('exit', () => {
        this.#fail(crash('its thread ended'));
        onEnd();
        resolve(undefined);
      }),
    );
  }

  /** True when an instance waits for a job. */
  get isReady(): boolean {
    return this.#isReady;
  }

  get isUsable(): boolean {
    return this.#isUsable && this.#runs < MAX_RUNS;
  }

  async run({ files, entry, args }: Job, conversation: Conversation, signal: AbortSignal): Promise<void> {
    const { promise: over, resolve } = Promise.withResolvers<void>();
    this.#runs++;
    this.#conversation = conversation;
    this.#over = resolve;
    let cancel: (() => void) | undefined;
    const stop = (): void => {
      // It sent its result, and will report that it is over; ending it would cost the start of another thread.
      if (conversation.isOver && this.#isUsable) cancel = processTimer(() => void this.end(), OVER_WAIT_MS);
      else void this.end();
    };
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    try {
      await withTimeout(this.#ready.promise, START_MS, () => crash('its thread did not start'));
      this.#ready = settled();
      this.#isReady = false;
      conversation.open((line) => this.#worker.postMessage(line));
      this.#worker.postMessage(JSON.stringify({ type: 'job', files, entry, args } satisfies ToInside));
      await over;
    } catch (error) {
      this.#isUsable = false;
      throw error;
    } finally {
      cancel?.();
      signal.removeEventListener('abort', stop);
      this.#conversation = undefined;
      if (!this.#isUsable) await this.end();
    }
  }

  /** Lets it hold the process open. */
  wake(): void {
    clearTimeout(this.#timer);
    this.#worker.ref();
  }

  /** Lets it hold the process open no longer; ends it when no run arrives. */
  rest(idleMs: number): void {
    this.#worker.unref();
    this.#timer = setTimeout(() => void this.end(), idleMs).unref();
  }

  async end(): Promise<void> {
    this.#isUsable = false;
    this.#isReady = false;
    clearTimeout(this.#timer);
    await within(Promise.all([this.#worker.terminate(), this.#exited]), END_WAIT_MS, processTimer);
  }

  #receive(message: ThreadMessage): void {
    if ('line' in message) return this.#conversation?.receive(message.line);
    switch (message.state) {
      case 'ready':
        if (message.compiled !== undefined) this.#onCompiled(message.compiled);
        this.#isReady = true;
        return this.#ready.resolve();
      case 'over':
        return this.#over?.();
      case 'missing':
        return this.#fail(
          failure(
            'no_sandbox',
            `quickjs-emscripten cannot be loaded: ${message.reason}; npm install quickjs-emscripten`,
          ),
        );
      case 'crashed':
        return this.#fail(crash(message.reason));
    }
  }

  #fail(error: ReturnType<typeof failure>): void {
    this.#isUsable = false;
    this.#isReady = false;
    this.#conversation?.fail(error);
    this.#ready.reject(error);
    this.#over?.();
  }
}

/** Returns a promise to settle later, whose rejection is no fault while no run waits for it. */
function settled(): PromiseWithResolvers<void> {
  const made = Promise.withResolvers<void>();
  made.promise.catch(() => {});
  return made;
}

/**
 * Returns the error of an engine that ended. It ends as a whole when its memory is used up outside of a skill's own code. It
 * throws `null` if no memory is left for an error.
 */
const crash = (reason: string): ReturnType<typeof failure> =>
  /^null$|out of memory|memory access out of bounds|Aborted\(OOM/i.test(reason)
    ? failure('memory', 'the skill used more memory than it may')
    : failure('crash', `the sandbox ended: ${reason.slice(0, 500)}`, { reason: 'ended' });
