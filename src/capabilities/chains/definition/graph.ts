/**
 * A checked chain: its nodes by number, with their expressions compiled, and the edges that decide when a node may run.
 *
 * **When a node runs.** Each edge that leads to a node becomes live or dead when the node it starts from ends. An `ended` edge
 * (`next_node`, `after`) is live when that node was done, was skipped by its condition, or failed and says `skip`; `true` and
 * `false` when a branch chose it; `error` when the node failed and names it. Edges from a node that no live edge reached are
 * dead. A node starts when all its edges are known and one is live, so exactly once; with dead edges alone it does not run.
 * With one entry and without `after` this is the walk along `next_node` of A2E 1.0.
 */
import type { ChainNode } from '../chains.schema.ts';
import type { Condition, Expression, InputMap } from './expressions.ts';

/** The end of a node that makes an edge live: see above. */
export type EdgeKind = 'ended' | 'true' | 'false' | 'error';

/** An edge from a node to another. */
export interface Edge {
  /** The number of the node it leads to. */
  readonly to: number;
  readonly when: EdgeKind;
}

/** The compiled expressions of a node. */
export interface Compiled {
  readonly input: InputMap;
  /** Of a branch: its direction. Of others: false skips the node. Undefined: true. */
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
  /** The number of edges that lead to it. */
  readonly waitsFor: number;
  /** The nodes that edges come from, each once: those of `after` first, in their order. */
  readonly predecessors: readonly number[];
  /** False for nodes that only maps and compensation run. */
  readonly scheduled: boolean;
  /** Of a map: the node that runs for each item. */
  readonly mapNode: number | undefined;
  /** The node with which a failed chain undoes this one. */
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
  /** Scheduled nodes from which no edge leads on: `final_output` is made of their outputs. */
  readonly sinks: readonly number[];
  /** All scheduled nodes, each behind its predecessors. */
  readonly order: readonly number[];
  /** Nodes on the longest path. */
  readonly depth: number;
}

/** A problem of a chain, and its position. */
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

/** Limits of a chain. */
export interface ChainLimits {
  readonly maxNodes: number;
  /** Total number of edges; `after` can add many. */
  readonly maxEdges: number;
  /** Nodes on the longest path. */
  readonly maxDepth: number;
  /** Steps of one expression: each value it visits or makes is one. */
  readonly maxSteps: number;
}

/** Returns the node with an id. */
export const nodeOf = (graph: ChainGraph, id: string): GraphNode | undefined => {
  const index = graph.indexOf.get(id);
  return index === undefined ? undefined : graph.nodes[index];
};

const POLICIES: ReadonlySet<string> = new Set(['', 'abort', 'skip', 'compensate']);

/** Returns true when `on_error` is a policy, false when it names a node to continue with. */
export const isPolicy = (onError: string): boolean => POLICIES.has(onError);

/**
 * Returns the values that a gather or reduce node without an input map gathers: the outputs of the nodes before it, in their
 * order. A reduce behind one node gets that output alone.
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
 * Returns the output of a run. Of a walk: that of the node that ended last. Of a graph: that of its one last node, or those of
 * several last nodes by node, as far as they have one.
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
