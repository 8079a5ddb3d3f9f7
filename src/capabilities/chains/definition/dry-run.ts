/**
 * A dry run: computes the input that each node of a chain would get, with sample outputs in place of node outputs. Conditions,
 * inputs, maps and reductions are evaluated as in a run; no node runs. Pure.
 */
import { HandfastError } from '../../../wire/errors.ts';
import type { Sample } from '../chains.schema.ts';
import { Context } from './context.ts';
import { evaluate, isItem, itemsOf, mustBeSmall, reduced, test } from './expressions.ts';
import { type ChainGraph, type EdgeKind, finalOutput, type GraphNode, gathered } from './graph.ts';

export interface DryRunOptions {
  /** The initial input. */
  readonly input?: Readonly<Record<string, unknown>>;
  /** Outputs by node; a node without one has the output null. */
  readonly samples?: Readonly<Record<string, unknown>>;
  /** Nodes that fail in the dry run, to show how the chain reacts. */
  readonly failing?: ReadonlySet<string>;
  /** Steps of each expression. */
  readonly maxSteps?: number;
}

export interface DryRun {
  /** One for each node, in the order of the definition. A node that only maps run has the input of the first item. */
  readonly nodes: readonly Sample[];
  /** Nodes in the order in which they would start. */
  readonly order: readonly string[];
  readonly outputs: Readonly<Record<string, unknown>>;
  readonly final_output: unknown;
  /** No node failed. */
  readonly success: boolean;
}

/** The members of a sample that are known so far. */
type Known = { -readonly [Key in keyof Sample]?: Sample[Key] };

/** The end of a node, as far as edges depend on it. */
type Ended = 'done' | 'skipped' | 'failed' | 'true' | 'false';

/** Computes a chain. */
export function dryRun(graph: ChainGraph, options: DryRunOptions = {}): DryRun {
  const steps = dryRunSteps(graph, options);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Computes a chain in steps, a node or an item of a map each, so that its caller can stop between them. */
export function dryRunSteps(graph: ChainGraph, options: DryRunOptions = {}): Generator<void, DryRun> {
  return new Computation(graph, options).result();
}

class Computation {
  readonly #graph: ChainGraph;
  readonly #options: DryRunOptions;
  readonly #outputs = new Map<string, unknown>();
  readonly #samples = new Map<number, Sample>();
  readonly #order: GraphNode[] = [];
  /** Live edges that lead to a node. */
  readonly #live: Int32Array;
  readonly #context: Context;
  #failed = false;
  #aborted = false;

  constructor(graph: ChainGraph, options: DryRunOptions) {
    this.#graph = graph;
    this.#options = options;
    this.#live = new Int32Array(graph.nodes.length);
    for (const index of graph.entries) this.#live[index] = 1;
    this.#context = new Context({ input: options.input ?? {}, outputs: this.#outputs });
  }

  *result(): Generator<void, DryRun> {
    // In this order, the edges to a node are known when the loop reaches it.
    for (const index of this.#graph.order) {
      if (this.#aborted) break;
      if ((this.#live[index] as number) === 0) continue;
      yield* this.#run(this.#graph.nodes[index] as GraphNode);
      yield;
    }
    const rest = this.#aborted ? 'cancelled' : 'skipped';
    return {
      nodes: this.#graph.nodes.map(
        ({ index, node }) => this.#samples.get(index) ?? { node_id: node.node_id, state: rest },
      ),
      order: this.#order.map(({ node }) => node.node_id),
      outputs: Object.fromEntries(this.#outputs),
      final_output: this.#aborted ? null : finalOutput(this.#graph, this.#outputs, this.#order.at(-1)?.index),
      success: !this.#failed,
    };
  }

  *#run(at: GraphNode): Generator<void, void> {
    this.#order.push(at);
    const { node, index } = at;
    const known: Known = {};
    const ended = yield* this.#attempt(at, known);
    if (ended === 'failed') {
      this.#failed = true;
      this.#outputs.set(node.node_id, null);
      this.#aborted = node.on_error !== 'skip' && at.errorNode === undefined;
    }
    const state = ended === 'failed' || ended === 'skipped' ? ended : 'done';
    this.#samples.set(index, { node_id: node.node_id, state, ...known });
    for (const { to, when } of at.edges) if (isLive(when, ended, at)) this.#live[to] = (this.#live[to] as number) + 1;
  }

  *#attempt(at: GraphNode, known: Known): Generator<void, Ended> {
    const { node, condition } = at;
    try {
      if (condition !== undefined) known.condition = test(condition, this.#context);
      if (node.kind === 'branch') return known.condition === false ? 'false' : 'true';
      if (known.condition === false) return 'skipped';
      if (this.#options.failing?.has(node.node_id) === true) throw new Failing('it is said to fail');
      known.output = node.kind === 'map' ? yield* this.#map(at, known) : this.#output(at, this.#context, known);
      this.#outputs.set(node.node_id, known.output);
      return 'done';
    } catch (error) {
      if (!(error instanceof HandfastError || error instanceof Failing)) throw error;
      known.error = error.message;
      return 'failed';
    }
  }

  #output(at: GraphNode, context: Context, known: Known): unknown {
    const { node, input, reduce } = at;
    const { maxSteps } = this.#options;
    const isMade = input.kind === 'map' || Object.keys(input.input).length > 0;
    if (node.kind === 'gather' || node.kind === 'reduce') {
      const together = isMade ? evaluate(input, context, maxSteps) : gathered(this.#graph, at, this.#outputs);
      mustBeSmall(together, maxSteps);
      if (isMade) known.input = together as Readonly<Record<string, unknown>>;
      return reduce === undefined ? together : reduced(reduce, together, context, maxSteps);
    }
    known.input = evaluate(input, context, maxSteps);
    return this.#sampleOf(node.node_id);
  }

  *#map(at: GraphNode, known: Known): Generator<void, unknown> {
    const body = this.#graph.nodes[at.mapNode as number] as GraphNode;
    const items = at.items === undefined ? [] : itemsOf(at.items, this.#context, this.#options.maxSteps);
    known.items = items.length;
    const outputs: unknown[] = [];
    for (const [index, item] of items.entries()) {
      const context = this.#context.forItem(item, index);
      if (body.condition === undefined || test(body.condition, context)) outputs.push(this.#item(body, context, item));
      yield;
    }
    const { node_id: id } = at.node;
    return this.#has(id) ? this.#sampleOf(id) : outputs;
  }

  /** Returns the output of a node for an item. */
  #item(body: GraphNode, context: Context, item: unknown): unknown {
    const { node_id: id } = body.node;
    const known: Known = {};
    let output: unknown;
    if (isItem(body.input)) {
      known.input = { item };
      output = this.#sampleOf(id);
    } else output = this.#output(body, context, known);
    if (!this.#samples.has(body.index)) this.#samples.set(body.index, { node_id: id, state: 'done', ...known, output });
    this.#outputs.set(id, output);
    return output;
  }

  #has(id: string): boolean {
    return Object.hasOwn(this.#options.samples ?? {}, id);
  }

  #sampleOf(id: string): unknown {
    return this.#has(id) ? this.#options.samples?.[id] : null;
  }
}

/** A failure that the options requested. */
class Failing extends Error {}

/** Returns true for a live edge from a node that ended this way. */
function isLive(when: EdgeKind, ended: Ended, { errorNode }: GraphNode): boolean {
  if (when === 'error') return ended === 'failed';
  if (when === 'true' || when === 'false') return ended === when;
  return ended !== 'failed' || errorNode === undefined;
}
