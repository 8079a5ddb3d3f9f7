/**
 * One run of a chain: starts nodes whose edges have settled, within `max_parallel`. It ends when no node is left, when a node
 * fails that nothing handles, or when it is stopped.
 *
 * The cost of a node does not depend on the number of nodes: edges are counted down, outputs are added to one context. Every
 * transition is in the journal before its effect can be seen. `steps.ts` runs the steps that take time.
 */
import { keepAliveTimer } from '../../../base/timer-queue.ts';
import { asError, fail } from '../../../wire/errors.ts';
import type { ChainError, ChainNode, ChainUsage } from '../chains.schema.ts';
import { Context } from '../definition/context.ts';
import { evaluate, reduced, test } from '../definition/expressions.ts';
import { finalOutput, type GraphNode, gathered } from '../definition/graph.ts';
import { failure } from '../errors.ts';
import { errorOf, type NodeRun, type RunDeps, type RunState, type StepRun } from './contract.ts';
import { endedItems, ItemFailures } from './ended-items.ts';
import type { Entry } from './journal.ts';
import { type Follower, type Following, OutgoingEvents, type RunEvent } from './outgoing-events.ts';
import { OutputChars } from './output-chars.ts';
import type { Outcome, RecoveredNode } from './recovery.ts';
import { Steps } from './steps.ts';
import { undoesWhenStopped } from './undoing.ts';

export interface RunResult {
  readonly state: RunState;
  readonly success: boolean;
  readonly outputs: Record<string, unknown>;
  readonly finalOutput: unknown;
  readonly error: ChainError | undefined;
  readonly usage: ChainUsage;
}

type Settled = 'ended' | 'true' | 'false' | 'error' | 'dead';

interface Stop {
  readonly state: RunState;
  readonly error: ChainError | undefined;
  readonly compensates: boolean;
}

export class ChainRun implements StepRun {
  readonly deps: RunDeps;
  readonly nodes: NodeRun[];
  readonly outputs = new Map<string, unknown>();
  readonly context: Context;
  readonly events = new OutgoingEvents();
  readonly usage: { nodes: number; tokens: number; usd: number };
  /** Events that arrived before a node waited for them. */
  readonly delivered: Map<string, unknown>;
  readonly steps: Steps;
  /** Nodes that are done, skipped or failed. */
  nodesEnded = 0;
  readonly lateAt: number;
  readonly #controller = new AbortController();
  readonly #undoing = new AbortController();
  readonly #left: Int32Array;
  readonly #live: Uint8Array;
  readonly #chars: OutputChars;
  readonly #completed: number[] = [];
  readonly #ended = Promise.withResolvers<RunResult>();
  #ready: number[] = [];
  #head = 0;
  #open = 0;
  #pumping = false;
  #stop: Stop | undefined;
  #finishing = false;
  #success = true;
  #last: GraphNode | undefined;
  #untime = (): void => {};
  /** Set while the request of the run does not count against the session's concurrency limit. */
  #endWait: (() => void) | undefined;

  constructor(deps: RunDeps) {
    this.deps = deps;
    const { graph, input, recovered, limits } = deps;
    this.#chars = new OutputChars(limits.maxOutputChars, recovered);
    this.nodes = graph.nodes.map(() => ({
      status: 'pending',
      attempts: 0,
      startedAt: 0,
      endedAt: 0,
      error: undefined,
      items: undefined,
      itemsDone: 0,
      itemsFailed: new ItemFailures(),
      itemsSkipped: 0,
    }));
    this.#left = Int32Array.from(graph.nodes, ({ waitsFor }) => waitsFor);
    this.#live = new Uint8Array(graph.nodes.length);
    this.context = new Context({ input, outputs: this.outputs });
    this.usage = { nodes: recovered?.calls ?? 0, tokens: recovered?.tokens ?? 0, usd: recovered?.usd ?? 0 };
    this.lateAt = performance.now() + deps.limits.timeoutMs;
    this.delivered = new Map(recovered?.events);
    this.steps = new Steps(this);
  }

  /** Aborts when nothing of the run may continue. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Aborts when nodes can be undone no longer: resuming the run undoes the rest. */
  get undoSignal(): AbortSignal {
    return this.#undoing.signal;
  }

  /** True while the run has failed and undoes nodes or will undo them. */
  get isUndoing(): boolean {
    return this.#stop?.compensates === true && !this.#undoing.signal.aborted;
  }

  /** True once no further node starts. */
  get stopping(): boolean {
    return this.#stop !== undefined;
  }

  /** True while only waits are left. */
  get waiting(): boolean {
    return this.#open > 0 && this.steps.waits.size === this.#open && this.#head === this.#ready.length;
  }

  /** @param behind see {@link OutgoingEvents.follow} */
  follow(follower: Follower, behind?: () => void): Following {
    return this.events.follow(follower, behind);
  }

  /** Runs the chain. Never rejects. */
  run(): Promise<RunResult> {
    const { graph, limits, recovered } = this.deps;
    this.#ready.push(...graph.entries);
    // Comes before the deadline check: a deadline that has passed since then must not prevent undoing nodes.
    if (recovered?.failed !== undefined) {
      const { state, index, error, compensates } = recovered.failed;
      const of = index === undefined ? error : nodeError((graph.nodes[index] as GraphNode).node, error);
      this.stop(state, of, compensates);
    }
    if (limits.timeoutMs <= 0) this.#late();
    else if (limits.timeoutMs < Number.POSITIVE_INFINITY) this.#untime = keepAliveTimer(this.#late, limits.timeoutMs);
    this.pump();
    return this.#ended.promise;
  }

  /**
   * Stops the run: no further node starts. `paused` lets running nodes end; every other state cancels them. The first reason
   * counts, but a reason that ends the run overrides a pause. A run that undoes nodes is interrupted all the same, so that it
   * can be resumed.
   * @param compensates true: nodes are undone. Default: the `on_error` of the running nodes decides, which fail by the stop
   */
  stop(state: RunState, error?: ChainError, compensates?: boolean): void {
    if (state === 'interrupted' && this.isUndoing) {
      this.#stop = { state, error, compensates: true };
      this.#undoing.abort(fail('interrupted', error?.message ?? 'the run is interrupted'));
      return;
    }
    if (this.#stop !== undefined && (this.#stop.state !== 'paused' || state === 'paused')) return;
    const ends = state === 'failed' || state === 'cancelled';
    const undoes =
      compensates ??
      (ends &&
        undoesWhenStopped(this.deps.graph, this.deps.recovered, { nodes: this.nodes, completed: this.#completed }));
    this.#stop = { state, error, compensates: undoes };
    // The entry is not about a node: a run that continues must know that it undoes nodes, and why.
    if (undoes && compensates === undefined) {
      this.note({ p: 'stop', name: state, ...(error && { e: error }), policy: 'compensate' });
    }
    if (state === 'paused') this.steps.stopWaiting();
    else {
      const why = error?.message ?? `the run is ${state}`;
      this.#controller.abort(state === 'interrupted' ? fail('interrupted', why) : failure('stopped', why));
    }
    this.pump();
  }

  /** Interrupts the run: the store refused or lost its entries. Nothing of it is reported that is not on disk. */
  lost(error: ChainError): void {
    this.events.stop();
    this.stop('interrupted', error);
  }

  readonly #late = (): void => {
    this.stop('failed', { code: 'timeout', message: 'the run did not end within its time' });
  };

  /** Starts the nodes that are ready. */
  readonly pump = (): void => {
    if (this.#pumping) return;
    this.#pumping = true;
    this.#countWaiting();
    const { recovered } = this.deps;
    // Outcomes from before the stop are part of the result, also of a run that stops: they are taken over, and nothing else
    // starts.
    while (this.#head < this.#ready.length && (this.#stop === undefined || recovered !== undefined)) {
      const index = this.#ready[this.#head] as number;
      if (this.#stop !== undefined && recovered?.nodes.get(index)?.outcome === undefined) {
        this.#head += 1;
        continue;
      }
      if (this.events.full) {
        void this.events.sent?.then(this.pump);
        break;
      }
      if (!this.steps.hasSlot) break;
      if (this.deps.turns.over) {
        this.#pumping = false;
        void this.deps.turns.next().then(this.pump);
        return;
      }
      this.#head += 1;
      this.#launch(index);
    }
    if (this.#head > 1_024 && this.#head * 2 > this.#ready.length) {
      this.#ready = this.#ready.slice(this.#head);
      this.#head = 0;
    }
    this.#pumping = false;
    this.#countWaiting();
    if (this.#open === 0 && (this.#stop !== undefined || this.#head === this.#ready.length)) void this.#finish();
  };

  #countWaiting(): void {
    const rests = this.#open > 0 && !this.steps.working && this.#head === this.#ready.length;
    if (rests === (this.#endWait !== undefined)) return;
    this.#endWait?.();
    this.#endWait = rests ? this.deps.yieldSlot() : undefined;
  }

  /**
   * Delivers an event to the nodes that wait for it, or stores it for a later node. Returns the number of nodes that waited.
   * Throws `chains.too_large`: events count as outputs.
   */
  deliver(name: string, data: unknown): number {
    this.#chars.countEvent(name, data);
    this.note({ p: 'deliver', name, o: data });
    const waiting = [...this.steps.waits.values()].filter(({ planned }) => planned.node.wait?.event === name);
    if (waiting.length === 0) this.delivered.set(name, data);
    for (const wait of waiting) wait.end({ output: data, event: name });
    return waiting.length;
  }

  /** Writes an entry; sends the event once the entry is on disk. */
  note(entry: Entry, event?: RunEvent): void {
    this.deps.journal.append(entry);
    if (event !== undefined) this.events.add(event, this.deps.journal.flushed());
  }

  #launch(index: number): void {
    const planned = this.deps.graph.nodes[index] as GraphNode;
    const { node } = planned;
    const known = this.deps.recovered?.nodes.get(index);
    if (known !== undefined) {
      Object.assign(this.#of(index), {
        attempts: known.attempts,
        startedAt: known.startedAt,
        error: known.error,
      });
    }
    if (known?.outcome !== undefined) {
      this.#recoverItems(index, known);
      this.#applyOutcome(planned, known.outcome, known.endedAt);
      return;
    }
    try {
      if (node.kind === 'branch') {
        const holds = planned.condition === undefined || test(planned.condition, this.context);
        this.note({ p: 'branch', n: index, o: holds });
        this.#applyOutcome(planned, { kind: 'branch', holds }, this.deps.now());
        return;
      }
      if (planned.condition !== undefined && !test(planned.condition, this.context)) {
        this.note({ p: 'skip', n: index }, { node_id: node.node_id, phase: 'skip' });
        this.#applyOutcome(planned, { kind: 'skipped' }, this.deps.now());
        return;
      }
      if (node.kind === 'gather' || node.kind === 'reduce') {
        this.#of(index).startedAt = this.deps.now();
        const output = this.#gather(planned);
        this.count(output);
        if (node.output_schema !== undefined) {
          this.#of(index).status = 'running';
          this.#opened(() => this.steps.finish(planned, output));
          return;
        }
        this.events.add({ node_id: node.node_id, phase: 'start' }, undefined);
        this.done(planned, output);
        return;
      }
    } catch (thrown) {
      this.failed(planned, errorOf(asError(thrown)));
      return;
    }
    const state = this.#of(index);
    state.status = node.kind === 'wait' ? 'waiting' : 'running';
    state.startedAt ||= this.deps.now();
    this.#opened(() => this.steps.run(planned, known));
  }

  /** Takes over the counts of a map that ended before the run continued. */
  #recoverItems(index: number, { items, itemsTotal }: RecoveredNode): void {
    if (items === undefined) return;
    const { done, failed, skipped } = endedItems(items);
    Object.assign(this.#of(index), {
      items: itemsTotal,
      itemsDone: done,
      itemsFailed: failed,
      itemsSkipped: skipped,
    } satisfies Partial<NodeRun>);
    if (failed.count > 0) this.itemFailed();
  }

  /** Runs a step of a node whose end takes time, and counts the node as open until then. */
  #opened(step: () => Promise<void>): void {
    this.#open += 1;
    void step().finally(() => {
      this.#open -= 1;
      this.pump();
    });
  }

  /**
   * Ends a node with its output.
   * @param how.event it waited for
   * @param how.silent true: the followers of the run do not get the output
   */
  done(
    planned: GraphNode,
    output: unknown,
    { event, silent }: { event?: string | undefined; silent?: boolean } = {},
  ): void {
    const { index, node } = planned;
    this.note(
      { p: 'done', n: index, o: output, ...(event !== undefined && { name: event }) },
      silent ? undefined : { node_id: node.node_id, phase: 'done', output },
    );
    this.#applyOutcome(planned, { kind: 'done', output }, this.deps.now());
  }

  /** Counts an output. Throws `chains.too_large`. */
  count(output: unknown): void {
    this.#chars.count(output);
  }

  /** Ends a node that has failed for good, as its `on_error` says. */
  failed(planned: GraphNode, error: ChainError): void {
    const { index, node } = planned;
    const policy =
      planned.errorNode === undefined ? ((node.on_error || 'abort') as 'abort' | 'skip' | 'compensate') : 'node';
    this.note(
      { p: 'error', n: index, e: error, policy },
      { node_id: node.node_id, phase: 'error', error: error.message, data: { code: error.code, error } },
    );
    this.#applyOutcome(planned, { kind: 'failed', error, policy }, this.deps.now());
  }

  /** Records that an item of a map failed: the chain continues, and is no success. */
  itemFailed(): void {
    this.#success = false;
  }

  /** Ends a node of a stopping run without an outcome. */
  abandoned({ index }: GraphNode): void {
    this.#of(index).status = this.#stop?.state === 'paused' ? 'pending' : 'cancelled';
  }

  /** Returns the output of a gather or reduce: of its input, or of the outputs before it. */
  #gather(planned: GraphNode): unknown {
    const { graph } = this.deps;
    const values =
      planned.input.kind === 'map' ? evaluate(planned.input, this.context) : gathered(graph, planned, this.outputs);
    return planned.reduce === undefined ? values : reduced(planned.reduce, values, this.context);
  }

  #of(index: number): NodeRun {
    return this.nodes[index] as NodeRun;
  }

  #applyOutcome(planned: GraphNode, outcome: Outcome, at: number): void {
    const { index, node } = planned;
    const state = this.#of(index);
    state.endedAt = at;
    state.startedAt ||= at;
    this.nodesEnded += 1;
    this.#last = planned;
    switch (outcome.kind) {
      case 'done':
        state.status = 'done';
        state.error = undefined;
        this.outputs.set(node.node_id, outcome.output);
        this.#completed.push(index);
        return this.#settle(index, 'ended');
      case 'branch':
        state.status = 'done';
        return this.#settle(index, outcome.holds ? 'true' : 'false');
      case 'skipped':
        state.status = 'skipped';
        if (outcome.mayHaveRun === true) this.#completed.push(index);
        return this.#settle(index, 'ended');
      case 'failed':
        state.status = 'failed';
        state.error = outcome.error;
        this.#success = false;
        this.outputs.set(node.node_id, null);
        if (outcome.policy === 'skip') return this.#settle(index, 'ended');
        if (outcome.policy === 'node') return this.#settle(index, 'error');
        return this.stop('failed', nodeError(node, outcome.error), outcome.policy === 'compensate');
    }
  }

  /** Counts down the edges of a node that ended; skips each node that no live edge leads to any more, and so on. */
  #settle(start: number, how: Settled): void {
    const { graph } = this.deps;
    const settled: [number, Settled][] = [[start, how]];
    for (let at = settled.pop(); at !== undefined; at = settled.pop()) {
      const [index, result] = at;
      for (const { to, when } of (graph.nodes[index] as GraphNode).edges) {
        if (result !== 'dead' && (when === result || (when === 'ended' && result !== 'error'))) this.#live[to] = 1;
        const left = (this.#left[to] as number) - 1;
        this.#left[to] = left;
        if (left > 0) continue;
        if (this.#live[to] === 1) this.#ready.push(to);
        else {
          this.#of(to).status = 'dead';
          this.nodesEnded += 1;
          if (graph.mode === 'graph') {
            const { node_id } = (graph.nodes[to] as GraphNode).node;
            this.events.add({ node_id, phase: 'skip' }, this.deps.journal.flushed());
          }
          settled.push([to, 'dead']);
        }
      }
    }
  }

  /** Returns completed nodes in the order in which they ended, those from before this run was resumed first. */
  #inOrder(): readonly number[] {
    const before = new Set(this.deps.recovered?.completed);
    const now = new Set(this.#completed);
    return [...[...before].filter((index) => now.has(index)), ...[...now].filter((index) => !before.has(index))];
  }

  async #finish(): Promise<void> {
    if (this.#finishing) return;
    this.#finishing = true;
    const { graph, journal } = this.deps;
    if (this.#stop?.compensates) {
      this.#untime();
      await this.steps.compensate(this.#inOrder());
    }
    this.#untime();
    const { state = 'done', error } = this.#stop ?? {};
    if (state === 'paused') this.note({ p: 'pause' }, { node_id: '', phase: 'pause' });
    else if (state !== 'interrupted') journal.append({ p: 'end', name: state, ...(error && { e: error }) });
    await journal.flushed();
    while (this.events.sent !== undefined) await this.events.sent;
    this.#ended.resolve({
      state,
      success: state === 'done' && this.#success,
      outputs: Object.fromEntries(this.outputs),
      finalOutput: state === 'done' ? finalOutput(graph, this.outputs, this.#last?.index) : null,
      error,
      usage: { ...this.usage },
    });
  }
}

const nodeError = ({ node_id }: ChainNode, error: ChainError): ChainError => ({
  code: 'chain_node_error',
  message: `node ${JSON.stringify(node_id)} failed: ${error.message}`,
  detail: { node_id, error },
});
