/**
 * Makes the calls of a run: each has a key, the rest of the run's budget and time, and reports while it runs. Spending counts
 * as soon as a call reports it, so that a budget ends the run and not only the next node.
 */
import { keepAliveTimer } from '../../../base/timer-queue.ts';
import { asError } from '../../../wire/errors.ts';
import type { ChainNode } from '../chains.schema.ts';
import { failure } from '../errors.ts';
import { errorOf, type NodeCall, type Spending, type StepRun } from './contract.ts';

/** The position of an attempt in the journal. */
export interface Place {
  /** The number of the node, or of the map whose item it is. */
  readonly n: number;
  /** The item of a map. */
  readonly i?: number;
  /** The number of the entry that names it. */
  readonly key: number;
}

/** Longest call that undoes a node, milliseconds. */
export const COMPENSATE_MS = 300_000;

export class NodeCalls {
  readonly #run: StepRun;

  constructor(run: StepRun) {
    this.#run = run;
  }

  /** Throws `chains.budget` when the budget allows no further call; the run stops then. */
  mustHaveBudget(): void {
    for (const name of ['nodes', 'tokens', 'usd'] as const) {
      const error = this.#spentOf(name);
      if (error !== undefined) throw error;
    }
  }

  /** Stops the run and returns the error when its budget is spent. */
  #spentOf(name: 'nodes' | 'tokens' | 'usd') {
    const { [name]: max } = this.#run.deps.limits.budget;
    if (max === undefined || this.#run.usage[name] < max) return undefined;
    const error = failure('budget', `the budget of the run is used up: ${max} ${name}`, { budget: name, max });
    this.#run.stop('failed', errorOf(error));
    return error;
  }

  /**
   * Calls a node. Rejects with the error of the call, and with `chains.node_timeout`.
   *
   * @param signal ends the call. Default: that of the run.
   */
  async call(
    node: ChainNode,
    input: Record<string, unknown>,
    place: Place,
    signal: AbortSignal = this.#run.signal,
  ): Promise<unknown> {
    const run = this.#run;
    const { call } = run.deps;
    const { n, i } = place;
    const at = { n, ...(i !== undefined && { i }) };
    run.usage.nodes += 1;
    const own = { tokens: 0, usd: 0 };
    const { timeout_ms: timeoutMs } = node;
    // A run may undo nodes because its time or its budget is spent: neither bounds the calls that undo.
    const ofRun = run.isUndoing ? performance.now() + COMPENSATE_MS : run.lateAt;
    const lateAt = Math.min(ofRun, performance.now() + (timeoutMs ?? Number.POSITIVE_INFINITY));
    const made = (limited: AbortSignal): NodeCall => ({
      signal: limited,
      key: String(place.key),
      resumed: run.deps.recovered !== undefined,
      left: () => (run.isUndoing ? {} : this.#left()),
      leftMs: () => Math.max(0, lateAt - performance.now()),
      spent: (total) => this.#spent(own, total),
      progress: ({ message, pct }) => {
        // Progress is for people: slow readers get fewer of these events.
        if (run.events.full) return;
        const index = i === undefined ? {} : { index: i };
        run.events.add(
          { node_id: node.node_id, phase: 'progress', data: { ...index, message, pct, ...own } },
          undefined,
        );
      },
    });
    try {
      if (timeoutMs === undefined) return await call(node, input, made(signal));
      return await within(timeoutMs, signal, (limited) => call(node, input, made(limited)));
    } catch (thrown) {
      const isOver = signal.aborted && asError(signal.reason).code !== 'interrupted';
      // The task ended with the run, so a later call with its key would find the ended task.
      if (isOver && node.kind === 'task') run.note({ p: 'abandon', ...at });
      throw thrown;
    } finally {
      const isKept = node.kind === 'task' && signal.aborted && asError(signal.reason).code === 'interrupted';
      // A kept task is found again and then reports all of its spending.
      if (own.tokens + own.usd > 0 && !isKept) run.note({ p: 'spent', ...at, ...own });
    }
  }

  #left(): Spending {
    const { usage, deps } = this.#run;
    const { tokens, usd } = deps.limits.budget;
    return {
      ...(tokens !== undefined && { tokens: Math.max(0, tokens - usage.tokens) }),
      ...(usd !== undefined && { usd: Math.max(0, usd - usage.usd) }),
    };
  }

  #spent(own: { tokens: number; usd: number }, total: Spending): void {
    const { usage } = this.#run;
    for (const name of ['tokens', 'usd'] as const) {
      const more = (total[name] ?? 0) - own[name];
      if (!(more > 0)) continue;
      own[name] += more;
      usage[name] += more;
      this.#spentOf(name);
    }
  }
}

async function within<T>(timeoutMs: number, signal: AbortSignal, work: (limited: AbortSignal) => Promise<T>) {
  const limited = new AbortController();
  const untime = keepAliveTimer(() => limited.abort(failure('node_timeout', 'the node is late')), timeoutMs);
  const stop = (): void => limited.abort(signal.reason);
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop, { once: true });
  try {
    return await work(limited.signal);
  } catch (thrown) {
    if (limited.signal.aborted && !signal.aborted) {
      throw failure('node_timeout', `the node did not end within ${timeoutMs} ms`, { timeout_ms: timeoutMs });
    }
    throw thrown;
  } finally {
    untime();
    signal.removeEventListener('abort', stop);
  }
}
