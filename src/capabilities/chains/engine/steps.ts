/**
 * The steps of a run that take time: calls with their attempts, maps, waits and compensation. Each takes one of the slots of
 * the run, except waits.
 */
import { backoffMs } from '../../../base/backoff.ts';
import { counted } from '../../../base/counted.ts';
import { sleep } from '../../../base/sleep.ts';
import { parseTimestamp } from '../../../base/timestamp.ts';
import { waiting } from '../../../host/waiting.ts';
import { asError, type HandfastError } from '../../../wire/errors.ts';
import type { ChainError, ChainNode } from '../chains.schema.ts';
import { evaluate, isItem, itemsOf, test } from '../definition/expressions.ts';
import type { GraphNode } from '../definition/graph.ts';
import { failure } from '../errors.ts';
import { errorOf, type StepRun } from './contract.ts';
import { COMPENSATE_MS, NodeCalls } from './node-calls.ts';
import type { RecoveredItem, RecoveredNode } from './recovery.ts';

/** A node that waits for a person or an event. */
export interface Wait {
  readonly planned: GraphNode;
  /** Ends the wait with an output, or as failed. */
  readonly end: (
    ended: { readonly output: unknown; readonly event?: string } | { readonly error: HandfastError },
  ) => void;
  /** Ends the wait without an outcome. */
  readonly drop: () => void;
}

/** An item of a map. */
interface Item {
  readonly map: GraphNode;
  readonly index: number;
  readonly value: unknown;
}

export class Steps {
  readonly #run: StepRun;
  readonly #nodeCalls: NodeCalls;
  /** By node id. */
  readonly waits = new Map<string, Wait>();
  #busy = 0;
  /** Attempts, items and checks under way, without those that wait for the delay before a retry. */
  #working = 0;
  /** Attempts and items that wait for a slot; the first `#turn` of them have theirs. */
  #queue: (() => void)[] = [];
  #turn = 0;

  constructor(run: StepRun) {
    this.#run = run;
    this.#nodeCalls = new NodeCalls(run);
  }

  get hasSlot(): boolean {
    return this.#busy < this.#run.deps.limits.maxParallel;
  }

  /** False while only waits and delays before further attempts are left. */
  get working(): boolean {
    return this.#working > 0;
  }

  /** Runs a node that is no expression. Never rejects. */
  async run(planned: GraphNode, known: RecoveredNode | undefined): Promise<void> {
    const run = this.#run;
    const { node } = planned;
    try {
      if (node.kind === 'wait') return await this.#wait(planned, known);
      if (node.kind === 'map') return await this.#work(() => this.#map(planned, known));
      this.#busy += 1;
      const output = await this.#work(async () => {
        try {
          const given = await this.#attempts(planned);
          run.count(given);
          return given;
        } finally {
          this.#release();
        }
      });
      run.done(planned, output);
    } catch (thrown) {
      if (run.signal.aborted || thrown === DROPPED) run.abandoned(planned);
      else run.failed(planned, errorOf(asError(thrown)));
    }
  }

  /** Ends a node that is an expression, once its output fits its schema. Never rejects. */
  async finish(planned: GraphNode, output: unknown): Promise<void> {
    const run = this.#run;
    const { node } = planned;
    try {
      await this.#work(() => run.deps.checkOutput(node, output, run.signal));
      run.events.add({ node_id: node.node_id, phase: 'start' }, undefined);
      run.done(planned, output);
    } catch (thrown) {
      if (run.signal.aborted) run.abandoned(planned);
      else run.failed(planned, errorOf(asError(thrown)));
    }
  }

  /** Drops all waits without an outcome: the run pauses. */
  stopWaiting(): void {
    for (const { drop } of this.waits.values()) drop();
  }

  /** Undoes completed nodes that have a `compensate` node, the last first, until the undoing is interrupted. */
  async compensate(completed: readonly number[]): Promise<void> {
    const run = this.#run;
    const { graph, recovered } = run.deps;
    for (const index of completed.toReversed()) {
      if (run.undoSignal.aborted) return;
      const { compensate: at } = graph.nodes[index] as GraphNode;
      if (at === undefined) continue;
      const undone = await this.#undo(index, graph.nodes[at] as GraphNode, recovered?.nodes.get(index));
      if (undone === undefined) return;
      const state = run.nodes[index];
      if (state === undefined || undone === 'skipped') continue;
      // A node that could not be undone retains its status.
      if (undone === 'done') state.status = 'compensated';
      else state.error = undone;
    }
  }

  /**
   * Undoes one node, unless that undo has ended before. Resolves with the error of a failed undo; undefined: it was
   * interrupted.
   */
  async #undo(
    n: number,
    undo: GraphNode,
    known: RecoveredNode | undefined,
  ): Promise<'done' | 'skipped' | ChainError | undefined> {
    if (known?.compensated === 'skipped') return 'skipped';
    if (known?.compensated === 'done') return known.undoError ?? 'done';
    const run = this.#run;
    const { node } = undo;
    const { node_id } = node;
    try {
      const begun = known?.compensated === 'started';
      if (!begun && undo.condition !== undefined && !test(undo.condition, run.context)) {
        run.note({ p: 'compensated', n, policy: 'skip' }, { node_id, phase: 'skip' });
        return 'skipped';
      }
      const output = await this.#undoAttempts(n, undo, begun ? known?.key : undefined);
      run.outputs.set(node_id, output);
      run.note({ p: 'compensated', n }, { node_id, phase: 'done', output });
      return 'done';
    } catch (thrown) {
      const error = errorOf(asError(thrown));
      if (isInterrupted(node, error)) run.stop('interrupted', error);
      if (run.undoSignal.aborted) return undefined;
      const data = { code: error.code, error };
      run.note({ p: 'compensated', n, e: error }, { node_id, phase: 'error', error: error.message, data });
      return error;
    }
  }

  /** @param open the key of an attempt that was interrupted */
  async #undoAttempts(n: number, { node, input }: GraphNode, open: number | undefined): Promise<unknown> {
    const run = this.#run;
    const { journal, checkOutput, random } = run.deps;
    const { node_id } = node;
    for (let attempt = 1; ; attempt += 1) {
      const again = attempt === 1 ? open : undefined;
      run.note(
        { p: 'compensate', n, ...(attempt > 1 && { a: attempt }), ...(again !== undefined && { k: again }) },
        attempt === 1 ? { node_id, phase: 'compensate', data: {} } : undefined,
      );
      const place = { n, key: again ?? journal.seq };
      await journal.flushed();
      run.undoSignal.throwIfAborted();
      try {
        // The signal of the run has fired; a node that undoes must still run.
        const signal = AbortSignal.any([AbortSignal.timeout(COMPENSATE_MS), run.undoSignal]);
        const output = await this.#nodeCalls.call(node, evaluate(input, run.context), place, signal);
        if (node.output_schema !== undefined) await checkOutput(node, output, signal);
        return output;
      } catch (thrown) {
        const error = asError(thrown);
        const isLast = attempt >= (node.retry?.max_attempts ?? 1) || !mayRetry(node, error);
        if (isLast || run.undoSignal.aborted || isInterrupted(node, error)) throw error;
        const delayMs = delayOf(node, attempt, random);
        const { code, message } = error;
        run.events.add(
          { node_id, phase: 'retry', error: message, data: { attempt, delay_ms: delayMs, code } },
          undefined,
        );
        await waiting(run.deps, sleep(delayMs, run.undoSignal));
        run.undoSignal.throwIfAborted();
      }
    }
  }

  /** Runs a call until it succeeds or its retry policy allows no further attempt. Holds a slot on the way in and out. */
  async #attempts(planned: GraphNode, item?: Item): Promise<unknown> {
    const run = this.#run;
    const { journal, checkOutput, random, turns } = run.deps;
    const { node } = planned;
    const { max_attempts: maxAttempts = 1 } = node.retry ?? {};
    const n = item === undefined ? planned.index : item.map.index;
    const i = item?.index;
    const place = i === undefined ? {} : { i };
    const data = i === undefined ? {} : { index: i };
    for (let attempt = 1; ; attempt += 1) {
      if (run.events.full) await run.events.sent;
      while (turns.over) await turns.next();
      this.#nodeCalls.mustHaveBudget();
      const input = this.#input(planned, item);
      const again = attempt > 1 ? undefined : this.#openKey(n, i);
      run.note(
        { p: 'start', n, ...place, ...(attempt > 1 && { a: attempt }), ...(again !== undefined && { k: again }) },
        attempt === 1 ? { node_id: node.node_id, phase: 'start', data } : undefined,
      );
      const key = again ?? journal.seq;
      if (item === undefined) (run.nodes[n] as { attempts: number }).attempts += 1;
      // Effects of the attempt may be seen only after its start, and every entry that it rests on, is on disk.
      const stored = journal.flushed();
      if (stored !== undefined) await stored;
      if (run.signal.aborted) throw run.signal.reason;
      try {
        const output = await this.#nodeCalls.call(node, input, { n, ...place, key });
        if (node.output_schema !== undefined) await checkOutput(node, output, run.signal);
        return output;
      } catch (thrown) {
        if (run.signal.aborted) throw thrown;
        const error = asError(thrown);
        if (isInterrupted(node, error)) {
          run.stop('interrupted', errorOf(error));
          throw error;
        }
        if (attempt >= maxAttempts || !mayRetry(node, error)) throw error;
        const delayMs = delayOf(node, attempt, random);
        run.note(
          { p: 'retry', n, ...place, a: attempt, e: errorOf(error), ms: delayMs },
          {
            node_id: node.node_id,
            phase: 'retry',
            error: error.message,
            data: { ...data, attempt, delay_ms: delayMs, code: error.code },
          },
        );
        this.#release();
        await this.#rest(sleep(delayMs, run.signal));
        await this.#acquire();
        if (run.signal.aborted) throw run.signal.reason;
        if (run.stopping) throw DROPPED;
      }
    }
  }

  /** Returns the key of an attempt that was interrupted. */
  #openKey(n: number, i: number | undefined): number | undefined {
    const known = this.#run.deps.recovered?.nodes.get(n);
    if (i !== undefined) return known?.items?.get(i)?.key;
    return known?.open === true ? known.key : undefined;
  }

  /** Returns the input of a node. The input of an item of a map is `{item}`, unless its node has an input. */
  #input({ input }: GraphNode, item: Item | undefined): Record<string, unknown> {
    const { context } = this.#run;
    if (item === undefined) return evaluate(input, context);
    return isItem(input) ? { item: item.value } : evaluate(input, context.forItem(item.value, item.index));
  }

  async #map(planned: GraphNode, known: RecoveredNode | undefined): Promise<void> {
    const run = this.#run;
    const { graph, checkOutput, limits, turns } = run.deps;
    const { node, index: n } = planned;
    const state = run.nodes[n] as (typeof run.nodes)[number];
    const template = graph.nodes[planned.mapNode as number] as GraphNode;
    const items = planned.items === undefined ? [] : itemsOf(planned.items, run.context);
    if (items.length > limits.maxItems) {
      throw failure('too_large', `the map has ${counted(items.length, 'item')}, more than ${limits.maxItems}`, {
        max: limits.maxItems,
      });
    }
    state.items = items.length;
    state.attempts = 1;
    const isWalk = graph.mode === 'walk';
    run.note({ p: 'run', n, i: items.length }, isWalk ? undefined : { node_id: node.node_id, phase: 'start' });
    const outputs = new Array<unknown>(items.length);
    /** Items without an output. */
    const left = new Set<number>();
    const failed = (at: number, error: ChainError): void => {
      left.add(at);
      state.itemsFailed.add(at, error);
      run.itemFailed();
    };
    const skipped = (at: number): void => {
      left.add(at);
      state.itemsSkipped += 1;
    };
    let next = 0;
    const takeOver = (at: number, { outcome }: RecoveredItem): boolean => {
      if (outcome === undefined) return false;
      if ('output' in outcome) outputs[at] = outcome.output;
      else if ('error' in outcome) failed(at, outcome.error);
      else skipped(at);
      return true;
    };
    const { condition } = template;
    const { node_id } = template.node;
    const worker = async (): Promise<void> => {
      while (next < items.length && !run.stopping) {
        const at = next;
        next += 1;
        const recovered = known?.items?.get(at);
        if (recovered === undefined || !takeOver(at, recovered)) {
          await this.#acquire();
          try {
            if (run.signal.aborted) throw run.signal.reason;
            if (run.stopping) throw DROPPED;
            if (condition !== undefined) while (turns.over) await turns.next();
            // An interrupted item had begun: its condition held.
            const begins = recovered !== undefined || condition === undefined;
            if (begins || test(condition, run.context.forItem(items[at], at))) {
              const output = await this.#attempts(template, { map: planned, index: at, value: items[at] });
              run.count(output);
              outputs[at] = output;
              run.note({ p: 'done', n, i: at, o: output }, { node_id, phase: 'done', output, data: { index: at } });
              if (isWalk) run.outputs.set(node_id, output);
            } else {
              skipped(at);
              run.note({ p: 'skip', n, i: at }, { node_id, phase: 'skip', data: { index: at } });
            }
          } catch (thrown) {
            if (run.stopping && (run.signal.aborted || thrown === DROPPED)) throw thrown;
            const error = errorOf(asError(thrown));
            failed(at, error);
            run.note(
              { p: 'error', n, i: at, e: error },
              { node_id, phase: 'error', error: error.message, data: { index: at, code: error.code } },
            );
          } finally {
            this.#release();
          }
        }
        state.itemsDone += 1;
      }
    };
    const width = Math.min(node.parallel ?? 1, limits.maxParallel, items.length);
    const started = Array.from({ length: width }, () => this.#work(worker));
    const workers = await this.#rest(Promise.allSettled(started));
    const broken = workers.find((each) => each.status === 'rejected');
    if (broken !== undefined) throw broken.reason;
    if (next < items.length || run.signal.aborted) throw DROPPED;
    const output = left.size === 0 ? outputs : outputs.filter((_, at) => !left.has(at));
    if (node.output_schema !== undefined) await checkOutput(node, output, run.signal);
    run.done(planned, output, { silent: isWalk });
  }

  async #wait(planned: GraphNode, known: RecoveredNode | undefined): Promise<void> {
    const run = this.#run;
    const { node, index: n } = planned;
    const { wait = {}, node_id } = node;
    const { now } = run.deps;
    const { until: moment, ms: lengthMs = moment === undefined ? node.timeout_ms : undefined } = wait;
    const fresh = moment !== undefined ? parseTimestamp(moment) : lengthMs === undefined ? undefined : now() + lengthMs;
    const stored = known?.waitUntil ?? fresh;
    // A clock that was set back since then must not make a wait longer than its length.
    const until = stored === undefined ? undefined : Math.min(stored, now() + (lengthMs ?? Number.POSITIVE_INFINITY));
    if (wait.event !== undefined && run.delivered.has(wait.event)) {
      const output = run.delivered.get(wait.event);
      run.delivered.delete(wait.event);
      run.done(planned, output ?? null, { event: wait.event });
      return;
    }
    if (run.stopping) throw DROPPED;
    run.note(
      { p: 'wait', n, ...(until !== undefined && { ms: until }) },
      { node_id, phase: 'wait', data: { waits_for: wait } },
    );
    const ended = Promise.withResolvers<void>();
    const over = new AbortController();
    const end: Wait['end'] = (how) => {
      if (!this.waits.delete(node_id)) return;
      if ('error' in how) run.failed(planned, errorOf(how.error));
      else run.done(planned, how.output ?? null, { event: how.event });
      ended.resolve();
    };
    const drop = (): void => {
      if (this.waits.delete(node_id)) ended.reject(DROPPED);
    };
    this.waits.set(node_id, { planned, end, drop });
    run.signal.addEventListener('abort', drop, { once: true });
    if (run.signal.aborted) drop();
    if (until !== undefined) {
      void sleep(Math.max(0, until - now()), over.signal).then(() => {
        if (over.signal.aborted) return;
        if (wait.approval === undefined && wait.event === undefined)
          end({ output: { until: new Date(until).toISOString() } });
        else
          end({
            error: failure('node_timeout', 'what the node waits for did not come', { timeout_ms: node.timeout_ms }),
          });
      });
    }
    try {
      await ended.promise;
    } finally {
      over.abort();
      run.signal.removeEventListener('abort', drop);
    }
  }

  async #work<Result>(work: () => Promise<Result>): Promise<Result> {
    this.#working += 1;
    try {
      return await work();
    } finally {
      this.#working -= 1;
    }
  }

  /** Awaits a time or other steps from a step that works; the step does not count as working meanwhile. */
  async #rest<Result>(rest: Promise<Result>): Promise<Result> {
    this.#working -= 1;
    this.#run.pump();
    try {
      return await rest;
    } finally {
      this.#working += 1;
      this.#run.pump();
    }
  }

  /** Takes a slot, behind earlier requests. */
  #acquire(): Promise<void> | undefined {
    if (this.hasSlot) {
      this.#busy += 1;
      return undefined;
    }
    return new Promise((resolve) => this.#queue.push(resolve));
  }

  #release(): void {
    const next = this.#queue[this.#turn];
    if (next === undefined) {
      this.#busy -= 1;
      this.#run.pump();
      return;
    }
    this.#turn += 1;
    if (this.#turn > 1_024 && this.#turn * 2 > this.#queue.length) {
      this.#queue = this.#queue.slice(this.#turn);
      this.#turn = 0;
    }
    next();
  }
}

/** The reason when the run pauses or stops: the node stays as it is. */
const DROPPED = new Error('the run stopped');

/** Returns true when the host stops: the node has no end, as after a kill. */
const isInterrupted = ({ kind }: ChainNode, { code }: { readonly code: string }): boolean =>
  code === 'interrupted' && (kind === 'agent' || kind === 'task');

function mayRetry({ retry }: ChainNode, { code, detail, retryable }: HandfastError): boolean {
  if (retry?.codes !== undefined) return retry.codes.includes(code);
  return retryable || (detail.row ?? code) === 'tool_error';
}

function delayOf({ retry = {} }: ChainNode, attempt: number, random: () => number): number {
  const { delay_ms: firstDelayMs = 1_000, factor = 2, max_delay_ms: maxDelayMs = 30_000, jitter = 0.5 } = retry;
  const grownMs = Math.min(maxDelayMs, firstDelayMs * factor ** (attempt - 1));
  return Math.round(backoffMs(0, { firstDelayMs: grownMs, maxDelayMs: grownMs, jitter, random }));
}
