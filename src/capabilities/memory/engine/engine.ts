/**
 * The memory engine for the plugin: starts the thread at the first request, sends it operations and waits for their results. A
 * thread that ends takes its open requests with it; the next request starts another thread.
 */
import { Worker } from 'node:worker_threads';
import { compiledCode } from '../../../base/compiled-code.ts';
import { storesOfThread } from '../../../base/failing-stores.ts';
import { isShortage, whyNotStarted } from '../../../base/not-started.ts';
import { orAborted } from '../../../base/race.ts';
import { SharedSlots } from '../../../base/shared-slots.ts';
import type { DatabaseLoss } from '../../../base/sqlite/losses.ts';
import { fail, HandfastError } from '../../../wire/errors.ts';
import { MAX_AT_ONCE, MAX_AT_ONCE_PER_PRINCIPAL, MAX_WAITING } from '../limits.ts';
import type { ThreadLoss, ThreadReply, ThreadRequest, ThreadStores } from './memory-thread.ts';
import type { Arguments, Asker, EngineOptions, OperationName, Reply } from './types.ts';

/** Heap of the thread; indexes and SQLite's pages lie outside of it. */
const MAX_HEAP_MIB = 512;

type Settle = PromiseWithResolvers<unknown>;

const NEVER_ABORTED = new AbortController().signal;

export class MemoryEngine {
  readonly #options: EngineOptions;
  readonly #stored: (principal: string, bytes: number) => void;
  readonly #lost: (loss: DatabaseLoss) => void;
  readonly #pending = new Map<number, Settle>();
  /** Bounds the requests in the thread: those of one principal do not hold up the others. */
  readonly #slots = new SharedSlots('requests to the memory', {
    total: MAX_AT_ONCE,
    perOwner: MAX_AT_ONCE_PER_PRINCIPAL,
    queuePerOwner: MAX_WAITING,
  });
  #thread: Worker | undefined;
  #lastId = 0;
  #closed = false;

  /**
   * `stored` is called with the bytes of a principal when they may have changed, `lost` with the loss of a database when that
   * database is opened.
   */
  constructor(
    options: EngineOptions,
    stored: (principal: string, bytes: number) => void = () => {},
    lost: (loss: DatabaseLoss) => void = () => {},
  ) {
    this.#options = options;
    this.#stored = stored;
    this.#lost = lost;
  }

  /**
   * Does an operation. Rejects with its error, with the reason of `signal` when that aborts (a sent operation is done
   * nevertheless), `over_capacity` when too many requests of the principal wait, `interrupted` after `close`.
   */
  async run<Name extends OperationName>(
    name: Name,
    asker: Asker,
    args: Arguments<Name>,
    signal?: AbortSignal,
  ): Promise<Reply<Name>> {
    signal?.throwIfAborted();
    const release = await this.#slots.acquire(asker.principal, signal ?? NEVER_ABORTED);
    if (this.#closed) {
      release();
      throw fail('interrupted', 'the memory is closed');
    }
    let sent: Settle;
    try {
      sent = this.#send(name, asker, args);
    } catch (thrown) {
      release();
      throw notStarted(thrown);
    }
    const { promise } = sent;
    // Holds the slot until the thread is done, even if the caller has left: otherwise cancelled requests would fill the thread
    // without a bound.
    promise.then(release, release);
    return orAborted(promise as Promise<Reply<Name>>, signal);
  }

  /** Finishes the sent operations, has them on disk, and ends the thread. Idempotent. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const thread = this.#thread;
    if (thread === undefined) return;
    await Promise.allSettled([...this.#pending.values()].map(({ promise }) => promise));
    const ended = new Promise<void>((resolve) => thread.once('exit', () => resolve()));
    this.#send(undefined, { principal: '', agent: '', session: '' }, undefined).promise.catch(() => {});
    await ended;
  }

  #send(name: OperationName | undefined, asker: Asker, args: unknown): Settle {
    const thread = this.#started();
    this.#lastId += 1;
    const settle = Promise.withResolvers<unknown>();
    this.#pending.set(this.#lastId, settle);
    // Open requests hold the process open, an idle memory does not.
    thread.ref();
    thread.postMessage({ id: this.#lastId, ...(name && { name }), asker, args } satisfies ThreadRequest);
    return settle;
  }

  #started(): Worker {
    if (this.#thread !== undefined) return this.#thread;
    const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
    const thread = new Worker(new URL(`./memory-thread${extension}`, import.meta.url), {
      workerData: this.#options,
      // The thread gets nothing else of the host's start-up or environment.
      execArgv: [],
      env: { ...compiledCode() },
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB },
    });
    this.#thread = thread;
    thread.unref();
    thread.on('message', (message: ThreadReply | ThreadLoss | ThreadStores) => {
      if ('loss' in message) return this.#lost(message.loss);
      if ('failing' in message) return storesOfThread(thread, message.failing);
      const { id, value, stored, error } = message;
      if (stored !== undefined) this.#stored(stored.principal, stored.bytes);
      const settle = this.#pending.get(id);
      this.#pending.delete(id);
      // While it closes, the process waits until the thread has ended.
      if (this.#pending.size === 0 && !this.#closed) thread.unref();
      if (error === undefined) settle?.resolve(value);
      else settle?.reject(errorOf(error));
    });
    const ended = (error?: unknown): void => {
      if (this.#thread === thread) this.#thread = undefined;
      storesOfThread(thread, []);
      const reason = isShortage(error)
        ? notStarted(error)
        : fail('interrupted', 'the memory ended unexpectedly', {}, error);
      for (const { reject } of this.#pending.values()) reject(reason);
      this.#pending.clear();
    };
    thread.once('error', ended);
    thread.once('exit', () => ended());
    return thread;
  }
}

const notStarted = (cause: unknown): HandfastError =>
  fail('runtime_error', `the memory could not be started: ${whyNotStarted(cause)}`, {}, cause);

function errorOf({
  code,
  message,
  detail,
  retryable,
  capability,
  cause,
}: NonNullable<ThreadReply['error']>): HandfastError {
  return new HandfastError(code, message, { detail, retryable, capability, cause: cause && new Error(cause) });
}
