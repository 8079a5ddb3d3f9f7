/**
 * Reads a chain: checks all of it before a node runs, and reports every problem with its position. Pure.
 *
 * Reads in steps, each of which needs the findings of the step before: the members of nodes, their references, their
 * expressions, the graph, and types where schemas are known.
 */
import { counted } from '../../../base/counted.ts';
import { MAX_STEPS } from '../../../base/steps.ts';
import { suggest } from '../../../base/suggest.ts';
import { parseTimestamp, TIMESTAMP_FORM } from '../../../base/timestamp.ts';
import { atOnce } from '../../../base/turns.ts';
import { valueKind } from '../../../base/value-kind.ts';
import { isObject, withoutNulls } from '../../../wire/json.ts';
import type { ChainNode } from '../chains.schema.ts';
import { ConditionCompiler, compileExpression, type Expression, type InputMap } from './expressions.ts';
import { type ChainGraph, type ChainLimits, type Compiled, isPolicy, type Problem } from './graph.ts';
import { idProblem, memberProblems } from './node-members.ts';
import { Problems, quoted } from './problems.ts';
import { graphOf } from './structure.ts';
import { type KnownSchemas, type LaterCheck, ownInput, typeProblems } from './types.ts';

/** Defaults of {@link ChainLimits}. */
export const CHAIN_LIMITS: ChainLimits = { maxNodes: 10_000, maxEdges: 100_000, maxDepth: 10_000, maxSteps: MAX_STEPS };

/** A chain as received from the wire, a store or a file. */
export interface RawChain {
  readonly nodes?: unknown;
  /** The first node; empty: all nodes that no other leads to. */
  readonly entry_node?: unknown;
  /** The latest end of a run; empty: none. */
  readonly deadline?: unknown;
}

export interface ReadOptions {
  readonly limits?: Partial<ChainLimits>;
  /** True for the definition of a run that has started: a member without effect does not prevent resuming it. */
  readonly started?: boolean;
  /** The known schemas of inputs and outputs of tools. Without them, no types are checked. */
  readonly known?: KnownSchemas;
  /** Gets the checks of values that are left to `checkLater`, which adds to the problems of this reading. */
  readonly later?: LaterCheck[];
}

/** A graph, or problems: at least one, and at most 100. */
export type ChainReading =
  | { readonly graph: ChainGraph; readonly problems: readonly [] }
  | { readonly graph: undefined; readonly problems: readonly Problem[] };

/** Reads a chain at once. */
export const readChain = (raw: RawChain, options: ReadOptions = {}): ChainReading => atOnce(readingChain(raw, options));

/** Reads a chain, node by node: a chain of thousands of nodes takes longer than a host may be held. */
export function* readingChain(raw: RawChain, options: ReadOptions = {}): Generator<void, ChainReading> {
  const limits = { ...CHAIN_LIMITS, ...options.limits };
  const problems = new Problems();
  const refused = (): ChainReading => ({ graph: undefined, problems: problems.list });
  const nodes = yield* readNodes(raw.nodes, limits, options.started === true, problems);
  if (nodes === undefined) return refused();
  const indexOf = new Map<string, number>();
  for (const [index, node] of nodes.entries()) {
    const { node_id: id } = node;
    if (indexOf.has(id))
      problems.addAt(index, node, 'duplicate_node', `there are several nodes ${quoted(id)}`, 'node_id');
    else indexOf.set(id, index);
  }
  yield* checkReferences(nodes, indexOf, problems);
  const entry = readEntry(raw.entry_node, indexOf, problems);
  checkDeadline(raw.deadline, problems);
  const compiled = yield* compileAll(nodes, indexOf, problems);
  // Without all nodes and references, the graph would be another one.
  if (problems.list.some(({ code }) => code !== 'bad_expression')) return refused();
  const graph = yield* graphOf({ nodes, indexOf, entry, compiled, limits }, problems);
  if (graph === undefined || problems.list.length > 0) return refused();
  const known = options.started ? undefined : knownOf(nodes, options.known);
  if (known !== undefined) yield* typeProblems(graph, known, problems, options.later);
  return problems.list.length > 0 ? refused() : { graph, problems: problems.list as [] };
}

/** Returns the known schemas of calls, with those of inputs that each host knows. Undefined: no types are checked. */
function knownOf(nodes: readonly ChainNode[], known: KnownSchemas | undefined): KnownSchemas | undefined {
  if (!nodes.some(({ kind }) => ownInput(kind) !== undefined)) return known;
  return {
    input: (node) => ownInput(node.kind) ?? known?.input(node),
    output: (node) => known?.output?.(node),
  };
}

function* readNodes(
  raw: unknown,
  { maxNodes }: ChainLimits,
  isStarted: boolean,
  problems: Problems,
): Generator<void, readonly ChainNode[] | undefined> {
  if (!Array.isArray(raw)) {
    problems.add(
      'bad_node',
      `expected a list of nodes, got ${raw === undefined ? 'nothing' : valueKind(raw)}`,
      'nodes',
    );
    return undefined;
  }
  if (raw.length > maxNodes) {
    problems.add('too_large', `a chain has at most ${counted(maxNodes, 'node')}, got ${raw.length}`, 'nodes');
    return undefined;
  }
  if (raw.length === 0) problems.add('bad_entry', 'the chain has no nodes', 'nodes');
  const nodes: ChainNode[] = [];
  for (const [index, node] of raw.entries()) {
    yield;
    const place = `nodes[${index}]`;
    if (!isObject(node)) {
      problems.add('bad_node', `expected an object, got ${valueKind(node)}`, place);
      continue;
    }
    const wrongId = idProblem(node.node_id);
    if (wrongId !== undefined) {
      problems.add('bad_node', `node_id: ${wrongId}`, `${place}.node_id`);
      continue;
    }
    // Null stands for an absent member.
    const clean = withoutNulls(node) as ChainNode;
    problems.places.push(index);
    for (const { field, message } of memberProblems(node, isStarted))
      problems.addAt(nodes.length, clean, 'bad_node', message, field);
    nodes.push(clean);
  }
  return nodes;
}

/** Yields the members of a node that name another node, with the ids in them. */
function* referencesOf(node: ChainNode): Generator<readonly [field: string, id: string]> {
  const { kind, on_error: onError = '' } = node;
  const fields = kind === 'branch' ? (['true_node', 'false_node'] as const) : (['next_node'] as const);
  for (const field of [...fields, ...(kind === 'map' ? (['map_node'] as const) : []), 'compensate'] as const) {
    const id = node[field];
    if (typeof id === 'string' && id !== '') yield [field, id];
  }
  if (typeof onError === 'string' && !isPolicy(onError)) yield ['on_error', onError];
  if (Array.isArray(node.after)) for (const [at, id] of node.after.entries()) yield [`after[${at}]`, String(id)];
}

function* checkReferences(
  nodes: readonly ChainNode[],
  indexOf: ReadonlyMap<string, number>,
  problems: Problems,
): Generator<void, void> {
  for (const [at, node] of nodes.entries()) {
    yield;
    for (const [field, id] of referencesOf(node)) {
      const index = indexOf.get(id);
      if (index === undefined) {
        problems.addAt(at, node, 'unknown_node', `there is no node ${quoted(id)}${nearest(id, indexOf)}`, field);
      }
    }
  }
}

/** Most nodes for which a similar id is searched: the search costs as much as the number of nodes. */
const MAX_SUGGESTED = 1_000;

const nearest = (id: string, indexOf: ReadonlyMap<string, number>): string => {
  const near = indexOf.size > MAX_SUGGESTED ? undefined : suggest(id, indexOf.keys());
  return near === undefined ? '' : `; did you mean ${quoted(near)}?`;
};

/** Returns the number of the first node; undefined: the chain does not name it. */
function readEntry(raw: unknown, indexOf: ReadonlyMap<string, number>, problems: Problems): number | undefined {
  if (raw === undefined || raw === null || raw === '') return undefined;
  const index = typeof raw === 'string' ? indexOf.get(raw) : undefined;
  if (index === undefined) {
    const message =
      typeof raw === 'string'
        ? `there is no node ${quoted(raw)}${nearest(raw, indexOf)}`
        : `expected a text, got ${valueKind(raw)}`;
    problems.add('bad_entry', message, 'entry_node');
  }
  return index;
}

function checkDeadline(raw: unknown, problems: Problems): void {
  if (raw === undefined || raw === null || raw === '') return;
  if (typeof raw === 'string' && parseTimestamp(raw) !== undefined) return;
  problems.add(
    'bad_node',
    `expected a time of ${TIMESTAMP_FORM}, got ${JSON.stringify(raw)?.slice(0, 80)}`,
    'deadline',
  );
}

function* compileAll(
  nodes: readonly ChainNode[],
  indexOf: ReadonlyMap<string, number>,
  problems: Problems,
): Generator<void, readonly Compiled[]> {
  const conditions = new ConditionCompiler(indexOf.keys());
  const compile = (node: ChainNode, index: number): Compiled => {
    const expression = (value: unknown, field: string): Expression => {
      const compiled = compileExpression(value);
      if (typeof compiled !== 'string') return compiled;
      problems.addAt(index, node, 'bad_expression', compiled, field);
      return { kind: 'literal', value: null };
    };
    const fields = isObject(node.input_map) ? Object.entries(node.input_map) : [];
    const input: InputMap =
      fields.length === 0
        ? { kind: 'input', input: isObject(node.input) ? node.input : {} }
        : { kind: 'map', fields: fields.map(([field, value]) => [field, expression(value, `input_map.${field}`)]) };
    const said = typeof node.condition === 'string' ? node.condition.trim() : '';
    const condition = said === '' ? undefined : conditions.compile(said);
    if (typeof condition === 'string') problems.addAt(index, node, 'bad_expression', condition, 'condition');
    return {
      input,
      condition: typeof condition === 'string' ? undefined : condition,
      items: node.kind === 'map' ? expression(node.items_path || '$', 'items_path') : undefined,
      reduce: node.kind === 'reduce' && isObject(node.reduce) ? expression(node.reduce, 'reduce') : undefined,
    };
  };
  const all: Compiled[] = [];
  for (const [index, node] of nodes.entries()) {
    yield;
    all.push(compile(node, index));
  }
  return all;
}
