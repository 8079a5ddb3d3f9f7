/**
 * A checked chain: its nodes by number, with their expressions compiled, and the edges that say when a node may run.
 *
 * `read.ts` makes it, once for each chain; the engine runs it, the dry run computes it, `draw/` draws it.
 *
 * **When a node runs.** Each edge that leads to a node becomes live or dead when the node it starts from ends. An `ended` edge
 * (`next_node`, `after`) is live when that node was done, was skipped by its condition, or failed and says `skip`; `true` and
 * `false` when a branch chose it; `error` when the node failed and names it. Edges from a node that no live edge reached are
 * dead. A node starts when all its edges are known and one is live, so exactly once; with dead edges alone it does not run. With
 * one entry and without `after` this is the walk along `next_node` of A2E 1.0.
 */
import type { ChainNode } from '../chains.schema.ts';
import type { Condition, Expression, InputMap } from './expressions.ts';

/** Which end of a node makes an edge live: see above. */
export type EdgeKind = 'ended' | 'true' | 'false' | 'error';

/** An edge from a node to another. */
export interface Edge {
  /** The number of the node it leads to. */
  readonly to: number;
  readonly when: EdgeKind;
}

/** What the expressions of a node came to. */
export interface Compiled {
  readonly input: InputMap;
  /** Of a branch: which way. Of others: false skips the node. Undefined: true. */
  readonly condition: Condition | undefined;
  /** Of a map: its items. */
  readonly items: Expression | undefined;
  /** Of a reduce. */
  readonly reduce: Expression | undefined;
}

export interface GraphNode extends Compiled {
  /** Its number: its place in the list of nodes, from 0. */
  readonly index: number;
  /** As it was given. */
  readonly node: ChainNode;
  readonly edges: readonly Edge[];
  /** How many edges lead to it. */
  readonly waitsFor: number;
  /** The nodes that edges come from, each once: those of `after` first, in their order. */
  readonly predecessors: readonly number[];
  /** False for nodes that only maps and compensation run. */
  readonly scheduled: boolean;
  /** Of a map: the node that runs for each item. */
  readonly mapNode: number | undefined;
  /** The node with which a chain that failed undoes this one. */
  readonly compensate: number | undefined;
  /** The node to continue with when this one failed: `on_error` names it. */
  readonly errorNode: number | undefined;
}

export interface ChainGraph {
  /** `walk`: along `next_node`, as A2E 1.0 has it. `graph`: nodes have `after`, or several start at once. */
  readonly mode: 'walk' | 'graph';
  readonly nodes: readonly GraphNode[];
  readonly indexOf: ReadonlyMap<string, number>;
  /** Nodes that start first. */
  readonly entries: readonly number[];
  /** Scheduled nodes from which no edge leads on: of these `final_output` is made. */
  readonly sinks: readonly number[];
  /** All scheduled nodes, each behind those that edges to it come from. */
  readonly order: readonly number[];
  /** Nodes on the longest path. */
  readonly depth: number;
}

/** Something wrong in a chain, and where. */
export interface Problem {
  readonly code: ProblemCode;
  readonly message: string;
  /** The node; `''`: the chain itself. */
  readonly node_id: string;
  /** The member of the node: `input_map.text`, `after[2]`. `''`: the node itself. */
  readonly field: string;
  /** The number of the node; undefined: it is about the chain itself. */
  readonly index?: number;
}

export type ProblemCode =
  | 'chain_cycle'
  | 'unknown_node'
  | 'duplicate_node'
  | 'unreachable_node'
  | 'bad_entry'
  | 'bad_expression'
  | 'bad_type'
  | 'bad_node'
  | 'too_large';

/** What a chain may have. */
export interface ChainLimits {
  readonly maxNodes: number;
  /** Edges in all, which `after` can have many of. */
  readonly maxEdges: number;
  /** Nodes on the longest path. */
  readonly maxDepth: number;
  /** Steps of one expression: each value it visits or makes is one. */
  readonly maxSteps: number;
}

/** The node with an id. */
export const nodeOf = (graph: ChainGraph, id: string): GraphNode | undefined => {
  const index = graph.indexOf.get(id);
  return index === undefined ? undefined : graph.nodes[index];
};

const POLICIES: ReadonlySet<string> = new Set(['', 'abort', 'skip', 'compensate']);

/** `on_error` says what to do; false: it names a node to continue with. */
export const isPolicy = (onError: string): boolean => POLICIES.has(onError);

/**
 * What a gather or reduce node without an input map gathers: the outputs of the nodes before it, in their order. Of one such
 * node, for a reduce, its output alone.
 */
export function gathered(
  graph: ChainGraph,
  { node, predecessors }: GraphNode,
  outputs: ReadonlyMap<string, unknown>,
): unknown {
  const found = predecessors.map((index) => outputs.get((graph.nodes[index] as GraphNode).node.node_id) ?? null);
  return node.kind === 'reduce' && found.length === 1 ? found[0] : found;
}

/**
 * The output of a run. Of a walk that of the node that ended last; of a graph that of its one last node, or those of several by
 * node, as far as they have one.
 * @param last the node that ended last
 */
export function finalOutput(
  { mode, sinks, nodes }: ChainGraph,
  outputs: ReadonlyMap<string, unknown>,
  last: number | undefined,
): unknown {
  const idOf = (index: number): string => (nodes[index] as GraphNode).node.node_id;
  if (mode === 'walk') return last === undefined ? null : (outputs.get(idOf(last)) ?? null);
  const ids = sinks.map(idOf);
  if (ids.length === 1) return outputs.get(ids[0] as string) ?? null;
  return Object.fromEntries(ids.filter((id) => outputs.has(id)).map((id) => [id, outputs.get(id)]));
}
