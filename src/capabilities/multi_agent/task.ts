/**
 * One task of a subagent: running, then ended, once. The first end decides (its result, a cancel, the deadline, a spent budget,
 * a lost program, the end of the host); all later ends change nothing.
 *
 * Has no timers and no I/O.
 */
import { asError, type HandfastError } from '../../wire/errors.ts';
import { failure } from './errors.ts';
import type { SubagentUsage } from './multi_agent.schema.ts';

/** The work of a task. */
export interface TaskSpec {
  readonly name: string;
  readonly instruction: string;
  readonly criteria: readonly string[];
  /** JSON Schema that the result must fit. */
  readonly resultSchema?: Readonly<Record<string, unknown>> | undefined;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Longest time, milliseconds. */
  readonly timeoutMs: number;
}

export type TaskEndState = 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TERMINATED';

/** The end of a task. */
export interface TaskEnd {
  readonly state: TaskEndState;
  readonly result: Readonly<Record<string, unknown>> | null;
  readonly code?: string;
  readonly error?: string;
  /** Of an error: further details; `row` names the row of the error table. */
  readonly detail?: Readonly<Record<string, unknown>>;
  readonly score?: number;
  readonly verified?: 'yes' | 'no' | 'not_checked';
}

/** The stored form of a task. */
export interface StoredTask {
  readonly task_id: string;
  readonly name: string;
  readonly end?: TaskEnd;
  readonly usage: SubagentUsage;
  /** Epoch milliseconds; 0 while it runs. */
  readonly ended_at: number;
  /**
   * Its number in the order of the ends of all tasks; the clock is not used, since it may be set back. Absent while it runs.
   */
  readonly order?: number;
}

export class Task {
  readonly id: string;
  readonly spec: TaskSpec;
  readonly #startedAt: number;
  readonly #now: () => number;
  readonly #controller = new AbortController();
  readonly #ended = Promise.withResolvers<TaskEnd>();
  #end: TaskEnd | undefined;
  #durationMs: number | undefined;
  /** Totals. */
  tokens = 0;
  costUsd = 0;
  /** Requests of the subagent at this host. */
  requests = 0;
  reportedSteps = 0;
  /** Epoch milliseconds; 0 while it runs. */
  endedAt = 0;

  /** Resolves when its end is stored; set while the write runs, and once it has succeeded. */
  stored: Promise<void> | undefined;
  readonly #onEnd: (end: TaskEnd) => void;

  /**
   * @param onEnd called once, when it ends, before anything that waits for it
   * @param now monotonic milliseconds
   */
  constructor(id: string, spec: TaskSpec, onEnd: (end: TaskEnd) => void, now: () => number = () => performance.now()) {
    this.id = id;
    this.spec = spec;
    this.#onEnd = onEnd;
    this.#now = now;
    this.#startedAt = now();
  }

  /** Aborts when the task ends by anything but its result. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get end(): TaskEnd | undefined {
    return this.#end;
  }

  /** Resolves when the task has ended. */
  get ended(): Promise<TaskEnd> {
    return this.#ended.promise;
  }

  get steps(): number {
    return this.requests + this.reportedSteps;
  }

  /** Milliseconds until its timeout; never negative. */
  get leftMs(): number {
    return Math.max(0, this.#startedAt + this.spec.timeoutMs - this.#now());
  }

  get usage(): SubagentUsage {
    const duration = this.#durationMs ?? this.#now() - this.#startedAt;
    return { tokens: this.tokens, cost_usd: this.costUsd, steps: this.steps, duration_ms: Math.round(duration) };
  }

  /** Ends the task with its result. Returns false if it had ended before. */
  complete(result: Readonly<Record<string, unknown>>, more: Pick<TaskEnd, 'score' | 'verified'> = {}): boolean {
    return this.#settle({ state: 'COMPLETED', result, ...more });
  }

  /** Ends the task without a result. Returns false if it had ended before. */
  fail(error: HandfastError, state: Exclude<TaskEndState, 'COMPLETED'> = 'FAILED'): boolean {
    const { code, message, detail } = error;
    const facts = Object.keys(detail).length > 0 && { detail };
    if (!this.#settle({ state, result: null, code, error: message, ...facts })) return false;
    this.#controller.abort(error);
    return true;
  }

  #settle(end: TaskEnd): boolean {
    if (this.#end !== undefined) return false;
    this.#end = end;
    this.endedAt = Date.now();
    this.#durationMs = this.#now() - this.#startedAt;
    this.#onEnd(end);
    this.#ended.resolve(end);
    return true;
  }
}

/** Returns the present stored form of a task. */
export const storedForm = (task: Task): StoredTask => ({
  task_id: task.id,
  name: task.spec.name,
  usage: task.usage,
  ended_at: task.endedAt,
  ...(task.end !== undefined && { end: task.end }),
});

/** Returns the error of a task that threw, for its end. */
export function asTaskError(thrown: unknown): HandfastError {
  const error = asError(thrown);
  return error.code === 'runtime_error' ? failure('failed', error.message, {}, thrown) : error;
}
