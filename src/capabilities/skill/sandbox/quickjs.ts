/**
 * The sandbox `quickjs`: an interpreter without any object of the host, in a thread that is ended from outside when a run is over
 * its time, because the interpreter's own interrupt misses loops in its native code.
 *
 * Threads are reused and some wait warm; a thread whose run did not end by itself is thrown away. Made by `plugin.ts`.
 */
import { Worker } from 'node:worker_threads';
import { within } from '../../../base/race.ts';
import { processTimer } from '../../../base/timer-queue.ts';
import { failure } from '../errors.ts';
import { Conversation } from './conversation.ts';
import type { ToInside } from './inside.ts';
import type { ThreadData, ThreadMessage } from './quickjs-thread.ts';
import type { Job, Probe, Sandbox, SandboxLimits } from './sandbox.ts';

/** Memory of the thread beside that of the interpreter, MiB: texts on their way. */
const MAX_HEAP_MIB = 64;
/** Runs after which a thread is replaced. */
const MAX_RUNS = 1_000;
/** How long the first start may take on a slow machine. */
const START_MS = 30_000;
/** How long the end of a stopped thread is waited for. */
const END_WAIT_MS = 2_000;
/** How long a thread waits for its next run. */
const IDLE_MS = 60_000;

export interface QuickJsOptions extends SandboxLimits {
  readonly maxMessageChars: number;
}

export class QuickJs implements Sandbox {
  readonly tier = 'quickjs';
  readonly #options: QuickJsOptions;
  readonly #idle: Thread[] = [];
  readonly #all = new Set<Thread>();
  #closed = false;

  constructor(options: QuickJsOptions) {
    this.#options = options;
  }

  async probe(): Promise<Probe> {
    const conversation = new Conversation(
      { call: () => Promise.reject(new Error('no tools')), event: () => undefined },
      { maxMessageChars: 1000, maxPrintedChars: 0, maxCalls: 0, maxEvents: 0 },
    );
    // It also has to have nothing that it should not have.
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
    const thread = this.#idle.pop() ?? this.#start();
    thread.wake();
    try {
      await thread.run(job, conversation, signal);
    } finally {
      this.#putBack(thread);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#all].map((thread) => thread.end()));
  }

  #start(): Thread {
    const { memoryBytes, maxMessageChars } = this.#options;
    const thread = new Thread({ memoryBytes, maxMessageChars }, () => {
      this.#all.delete(thread);
      const at = this.#idle.indexOf(thread);
      if (at >= 0) this.#idle.splice(at, 1);
    });
    this.#all.add(thread);
    return thread;
  }

  #putBack(thread: Thread): void {
    if (thread.isUsable && !this.#closed && this.#idle.length < this.#options.warm) {
      this.#idle.push(thread);
      thread.rest();
      return;
    }
    void thread.end();
    // One that replaces it is warm when the next skill comes.
    if (this.#closed || this.#idle.length > 0 || this.#options.warm === 0) return;
    const next = this.#start();
    this.#idle.push(next);
    next.rest();
  }
}

/** A thread, and the run in it. */
class Thread {
  readonly #worker: Worker;
  readonly #exited: Promise<unknown>;
  readonly #ready = Promise.withResolvers<void>();
  #over: (() => void) | undefined;
  #conversation: Conversation | undefined;
  #runs = 0;
  #isUsable = true;
  #timer: NodeJS.Timeout | undefined;

  constructor(workerData: ThreadData, onEnd: () => void) {
    const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
    this.#worker = new Worker(new URL(`./quickjs-thread${extension}`, import.meta.url), {
      workerData,
      execArgv: [],
      env: {},
      stdin: false,
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB },
    });
    this.#ready.promise.catch(() => {});
    this.#worker.on('message', (message: ThreadMessage) => this.#receive(message));
    this.#worker.on('error', (error: NodeJS.ErrnoException) => {
      const isMemory = error.code === 'ERR_WORKER_OUT_OF_MEMORY';
      this.#fail(isMemory ? failure('memory', 'the skill used more memory than it may') : crash(error.message));
    });
    this.#exited = new Promise((resolve) =>
      this.#worker.once('exit', () => {
        this.#fail(crash('its thread ended'));
        onEnd();
        resolve(undefined);
      }),
    );
  }

  get isUsable(): boolean {
    return this.#isUsable && this.#runs < MAX_RUNS;
  }

  async run({ files, entry, args }: Job, conversation: Conversation, signal: AbortSignal): Promise<void> {
    const { promise: over, resolve } = Promise.withResolvers<void>();
    this.#runs++;
    this.#conversation = conversation;
    this.#over = resolve;
    const stop = (): void => void this.end();
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    try {
      await within(this.#ready.promise, START_MS, processTimer);
      conversation.open((line) => this.#worker.postMessage(line));
      this.#worker.postMessage(JSON.stringify({ type: 'job', files, entry, args } satisfies ToInside));
      await over;
    } finally {
      signal.removeEventListener('abort', stop);
      this.#conversation = undefined;
      if (!this.#isUsable) await this.end();
    }
  }

  /** It may keep the process open. */
  wake(): void {
    clearTimeout(this.#timer);
    this.#worker.ref();
  }

  /** It keeps no process open, and ends when nothing comes. */
  rest(): void {
    this.#worker.unref();
    this.#timer = setTimeout(() => void this.end(), IDLE_MS).unref();
  }

  async end(): Promise<void> {
    this.#isUsable = false;
    clearTimeout(this.#timer);
    await within(Promise.all([this.#worker.terminate(), this.#exited]), END_WAIT_MS, processTimer);
  }

  #receive(message: ThreadMessage): void {
    if ('line' in message) return this.#conversation?.receive(message.line);
    switch (message.state) {
      case 'ready':
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
    this.#conversation?.fail(error);
    this.#ready.reject(error);
    this.#over?.();
  }
}

/**
 * The engine ends whole when its memory is used up outside of a skill's own code. It throws `null` where no memory is left
 * for an error.
 */
const crash = (reason: string): ReturnType<typeof failure> =>
  /^null$|out of memory|memory access out of bounds|Aborted\(OOM/i.test(reason)
    ? failure('memory', 'the skill used more memory than it may')
    : failure('crash', `the sandbox ended: ${reason.slice(0, 500)}`, { reason: 'ended' });
