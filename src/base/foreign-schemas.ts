/**
 * Checks values against schemas that strangers wrote: skills, MCP servers, workers, agents. Compiling such a schema and
 * checking by it can take for ever (a pattern that backtracks, references that double, `uniqueItems`), so both happen
 * in threads, within a timeout. `json-schema.ts` checks values against schemas of this host's code, in the calling
 * thread.
 *
 * @see docs/decisions/0056-schemas-of-strangers.md
 */
import { Worker } from 'node:worker_threads';
import { fail, HandfastError } from '../wire/errors.ts';
import { compiledCode } from './compiled-code.ts';
import { setNewest } from './evict-oldest.ts';
import type { JsonSchema } from './json-schema.ts';
import { orAborted } from './race.ts';
import type { ThreadAnswer, ThreadJob } from './schema-thread.ts';
import { SharedSlots } from './shared-slots.ts';
import { processTimer } from './timer-queue.ts';

/** Longest check of a value, milliseconds of processor time. */
export const CHECK_MS = 250;

export interface ForeignCheck {
  /** The subject of error messages, e.g. `result of count-lines`. */
  readonly what: string;
  /** Milliseconds of processor time. Default {@link CHECK_MS}. */
  readonly limitMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** False: no defaults are filled in. Default true. */
  readonly fills?: boolean | undefined;
}

/** Characters of the JSON of a schema. */
const MAX_SCHEMA_CHARS = 1024 * 1024;
/** Checks at once; those by one schema go one behind the other, so that a slow schema holds up nothing but itself. */
const THREADS = 2;
const MAX_WAITING_PER_SCHEMA = 256;
/** Schemas with checks that wait. */
const MAX_WAITING = 4_096;
/** Heap of a thread, MiB. */
const MAX_HEAP_MIB = 256;
/** Lifetime of a thread without work. */
const IDLE_MS = 60_000;
/** A check that takes longer has not ended by itself: on a busy machine the limit counts from the beginning several times. */
const WALL_MS = 30_000;
/** Schemas whose problem, or its absence, is cached. */
const MAX_KNOWN = 1_000;

const NEVER_ABORTED = new AbortController().signal;

/** A schema as a thread gets it. */
interface Text {
  readonly json: string;
  /** Its name among those that wait, and among those that are known. */
  readonly key: string;
}

class ForeignSchemas {
  readonly #slots = new SharedSlots('checks against schemas', {
    total: THREADS,
    perOwner: 1,
    queuePerOwner: MAX_WAITING_PER_SCHEMA,
  });
  readonly #idle: CheckThread[] = [];
  readonly #texts = new WeakMap<JsonSchema, Text>();
  /** Keys of schemas, the one asked for last at the end, with their problem. */
  readonly #known = new Map<string, string | null>();

  /** Returns the reason why a schema cannot be used, or null. */
  async problem(schema: JsonSchema, { what, signal }: ForeignCheck): Promise<string | null> {
    const text = this.#textOf(schema, what);
    const key = `${text.key} ${what}`;
    let problem = this.#known.get(key);
    if (problem === undefined) {
      problem = await this.#do(
        text,
        { schema: text.json, value: undefined, what, limitMs: CHECK_MS, fills: true },
        signal,
      ).then(
        () => null,
        (error: HandfastError) => {
          // The schema would need too long the next time as well.
          if (error.code === 'config_invalid' || error.detail?.reason === 'time') return error.message;
          throw error;
        },
      );
    }
    setNewest(this.#known, key, problem, MAX_KNOWN);
    return problem;
  }

  /**
   * Returns the value to use, with defaults filled in. Fails with `schema_violation`, whose `detail.reason` is `time`
   * if the check did not end within its timeout; `config_invalid` for a broken schema; `over_capacity` if too many
   * checks wait; and with the reason of the signal.
   */
  async check(
    schema: JsonSchema,
    value: unknown,
    { what, limitMs = CHECK_MS, signal, fills = true }: ForeignCheck,
  ): Promise<unknown> {
    const text = this.#textOf(schema, what);
    // A value without JSON is sent as null.
    const job: ThreadJob = { schema: text.json, value: JSON.stringify(value) ?? 'null', what, limitMs, fills };
    const answer = await this.#do(text, job, signal);
    return answer.value === undefined ? value : JSON.parse(answer.value);
  }

  async #do(text: Text, job: ThreadJob, signal: AbortSignal = NEVER_ABORTED): Promise<{ readonly value?: string }> {
    if (this.#slots.waiting >= MAX_WAITING) {
      throw fail('over_capacity', `${MAX_WAITING} checks against schemas wait already`, { limit: MAX_WAITING });
    }
    const release = await this.#slots.acquire(text.key, signal);
    const thread = this.#idle.pop() ?? new CheckThread((ended) => this.#idle.splice(this.#idle.indexOf(ended), 1));
    const done = thread.do(job).finally(() => {
      if (thread.isOpen) this.#idle.push(thread);
      release();
    });
    const answer = await orAborted(done, signal);
    if ('code' in answer) throw new HandfastError(answer.code, answer.message, { detail: answer.detail });
    return answer;
  }

  #textOf(schema: JsonSchema, what: string): Text {
    let text = this.#texts.get(schema);
    if (text === undefined) {
      const json = JSON.stringify(schema);
      if (json.length > MAX_SCHEMA_CHARS) {
        throw fail('config_invalid', `the schema of the ${what} exceeds ${MAX_SCHEMA_CHARS} characters`, { path: '' });
      }
      text = { json, key: process.getBuiltinModule('node:crypto').hash('sha256', json) };
      this.#texts.set(schema, text);
    }
    return text;
  }
}

/** A thread that does one check at a time. */
class CheckThread {
  readonly #worker: Worker;
  readonly #onIdleEnd: (ended: CheckThread) => void;
  #what = '';
  #settle: ((answer: ThreadAnswer) => void) | undefined;
  #cancelTimer: (() => void) | undefined;
  isOpen = true;

  /** @param onIdleEnd called when the thread has ended without work */
  constructor(onIdleEnd: (ended: CheckThread) => void) {
    this.#onIdleEnd = onIdleEnd;
    const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
    this.#worker = new Worker(new URL(`./schema-thread${extension}`, import.meta.url), {
      // No part of the host's start-up or environment belongs into the thread.
      execArgv: [],
      env: { ...compiledCode() },
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB },
    });
    this.#worker.on('message', (answer: ThreadAnswer) => this.#done(answer));
    this.#worker.once('error', ({ message, code }: NodeJS.ErrnoException) => {
      const reason = code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'it needs more memory than it may have' : message;
      this.#end(reason);
    });
    this.#worker.once('exit', () => this.#end('its thread has ended'));
  }

  /** Runs a job. Never rejects. */
  do(job: ThreadJob): Promise<ThreadAnswer> {
    this.#cancelTimer?.();
    this.#cancelTimer = processTimer(() => {
      this.#end(`it did not end within ${WALL_MS} ms`, 'time');
    }, WALL_MS);
    const { promise, resolve } = Promise.withResolvers<ThreadAnswer>();
    this.#what = job.what;
    this.#settle = resolve;
    this.#worker.ref();
    this.#worker.postMessage(job);
    return promise;
  }

  #done(answer: ThreadAnswer): void {
    this.#cancelTimer?.();
    this.#cancelTimer = processTimer(() => this.#end('it had no work'), IDLE_MS);
    this.#worker.unref();
    const settle = this.#settle;
    this.#settle = undefined;
    settle?.(answer);
  }

  #end(why: string, reason = 'unchecked'): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#cancelTimer?.();
    void this.#worker.terminate();
    const settle = this.#settle;
    this.#settle = undefined;
    if (settle === undefined) return this.#onIdleEnd(this);
    const message = `${this.#what} could not be checked: ${why}`;
    settle({ code: 'schema_violation', message, detail: { path: '', reason } });
  }
}

/** The schemas of this process. */
export const foreignSchemas = new ForeignSchemas();
