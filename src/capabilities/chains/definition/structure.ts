/**
 * Builds the graph of a chain whose nodes and references are known: entries, cycles, unreachable nodes, the order, the depth.
 * All of it takes time and memory linear in nodes and edges, without recursion.
 */
import { counted } from '../../../base/counted.ts';
import type { ChainNode } from '../chains.schema.ts';
import { reportCalled } from './called-nodes.ts';
import {
  type ChainGraph,
  type ChainLimits,
  type Compiled,
  type Edge,
  type EdgeKind,
  type GraphNode,
  isPolicy,
} from './graph.ts';
import { type Problems, quoted } from './problems.ts';

interface GraphParts {
  readonly nodes: readonly ChainNode[];
  readonly indexOf: ReadonlyMap<string, number>;
  /** The number of the first node, where the chain names it. */
  readonly entry: number | undefined;
  readonly compiled: readonly Compiled[];
  readonly limits: ChainLimits;
}

/** The references of a node, as numbers. */
interface Links {
  readonly edges: Edge[];
  readonly mapNode: number | undefined;
  readonly compensate: number | undefined;
  readonly errorNode: number | undefined;
}

/** Returns the graph; undefined, with problems, when it has a cycle or nodes that nothing leads to, or is too large. */
export function* graphOf(parts: GraphParts, problems: Problems): Generator<void, ChainGraph | undefined> {
  const { nodes, indexOf, compiled, limits } = parts;
  const links = yield* linksOf(nodes, indexOf);
  const count = links.reduce((sum, { edges }) => sum + edges.length, 0);
  if (count > limits.maxEdges) {
    problems.add('too_large', `a chain has at most ${limits.maxEdges} edges, got ${count}`);
    return undefined;
  }
  const roots = yield* rootsOf(links, parts.entry);
  const scheduled = yield* reached(roots, (at) => (links[at] as Links).edges.map(({ to }) => to));
  const looped = yield* reportCycles(nodes, links, scheduled, problems);
  yield* reportUnreached(nodes, links, [...scheduled, ...looped], problems);
  if (problems.list.length > 0) return undefined;
  yield* reportAfterCalled(nodes, indexOf, scheduled, problems);
  yield* reportCalled(nodes, callsOf(links), scheduled, problems);
  const { order, depth } = yield* orderOf(links, roots, scheduled);
  if (depth > limits.maxDepth) {
    problems.add('too_large', `a chain has at most ${counted(limits.maxDepth, 'node')} on a path, got ${depth}`);
  }
  if (problems.list.length > 0) return undefined;
  const before = yield* predecessorsOf(nodes, links, indexOf, scheduled);
  const graphNodes: GraphNode[] = [];
  for (const [index, node] of nodes.entries()) {
    yield;
    const { edges, ...named } = links[index] as Links;
    const own = scheduled.has(index);
    const { list, waitsFor } = before[index] as Before;
    graphNodes.push({
      index,
      node,
      ...named,
      ...(compiled[index] as Compiled),
      scheduled: own,
      edges: own ? edges : [],
      predecessors: list,
      waitsFor,
    });
  }
  return {
    mode: roots.length > 1 || nodes.some(({ after }) => (after?.length ?? 0) > 0) ? 'graph' : 'walk',
    nodes: graphNodes,
    indexOf,
    entries: roots,
    sinks: graphNodes.filter((each) => each.scheduled && each.edges.length === 0).map(({ index }) => index),
    order,
    depth,
  };
}

function* linksOf(nodes: readonly ChainNode[], indexOf: ReadonlyMap<string, number>): Generator<void, Links[]> {
  const at = (id: string | undefined): number | undefined =>
    id === undefined || id === '' ? undefined : indexOf.get(id);
  const links = nodes.map((node): Links => {
    const { kind, on_error: onError = '' } = node;
    return {
      edges: [],
      mapNode: kind === 'map' ? at(node.map_node) : undefined,
      compensate: at(node.compensate),
      errorNode: isPolicy(onError) ? undefined : at(onError),
    };
  });
  const link = (from: number | undefined, to: number | undefined, when: EdgeKind): void => {
    if (from !== undefined && to !== undefined) (links[from] as Links).edges.push({ to, when });
  };
  for (const [index, node] of nodes.entries()) {
    yield;
    for (const id of new Set(node.after)) link(at(id), index, 'ended');
    if (node.kind === 'branch') {
      link(index, at(node.true_node), 'true');
      link(index, at(node.false_node), 'false');
    } else link(index, at(node.next_node), 'ended');
    link(index, (links[index] as Links).errorNode, 'error');
  }
  return links;
}

const calledBy = ({ mapNode, compensate }: Links): number[] =>
  [mapNode, compensate].filter((index) => index !== undefined);

function* callsOf(links: readonly Links[]) {
  for (const [by, { mapNode, compensate }] of links.entries()) {
    if (mapNode !== undefined) yield { at: mapNode, by, field: 'map_node' } as const;
    if (compensate !== undefined) yield { at: compensate, by, field: 'compensate' } as const;
  }
}

/** Returns the first node, or all nodes that no other leads to and that are not for maps and compensation alone. */
function* rootsOf(links: readonly Links[], entry: number | undefined): Generator<void, number[]> {
  if (entry !== undefined) return [entry];
  const led = new Set<number>();
  for (const each of links) {
    yield;
    for (const { to } of each.edges) led.add(to);
    for (const to of calledBy(each)) led.add(to);
  }
  return [...links.keys()].filter((index) => !led.has(index));
}

/** Returns all nodes reached from some nodes, these included. */
function* reached(from: Iterable<number>, next: (at: number) => readonly number[]): Generator<void, Set<number>> {
  const found = new Set(from);
  // The loop also visits elements that it adds to the set.
  for (const at of found) {
    yield;
    for (const to of next(at)) found.add(to);
  }
  return found;
}

/** Maximum number of nodes of a cycle that a message names. */
const MAX_NAMED = 12;

/** Reports each cycle once; returns the nodes that are in one. */
function* reportCycles(
  nodes: readonly ChainNode[],
  links: readonly Links[],
  scheduled: ReadonlySet<number>,
  problems: Problems,
): Generator<void, number[]> {
  const called = new Set(links.flatMap(calledBy));
  const next = (at: number): number[] => {
    const each = links[at] as Links;
    // A node that a map runs for its items leads nowhere from there.
    const follows = scheduled.has(at) || !called.has(at);
    return [...(follows ? each.edges.map(({ to }) => to) : []), ...calledBy(each)];
  };
  const looped: number[] = [];
  const least = (component: readonly number[]) => component.reduce((one, other) => Math.min(one, other));
  const found = yield* stronglyConnected(nodes.length, next);
  const components = found
    .map((component) => ({ component, first: least(component) }))
    .sort((one, other) => one.first - other.first);
  for (const { component, first } of components) {
    yield;
    if (component.length === 1 && !next(first).includes(first)) continue;
    for (const at of component) looped.push(at);
    const way = yield* cycleThrough(first, new Set(component), next);
    const path = way.map((at) => (nodes[at] as ChainNode).node_id);
    const shown = path.length > MAX_NAMED ? [...path.slice(0, MAX_NAMED), `… (${path.length} nodes)`] : path;
    const node = nodes[first] as ChainNode;
    problems.addAt(first, node, 'chain_cycle', `the chain has a cycle: ${[...shown, node.node_id].join(' → ')}`);
  }
  return looped;
}

/** Returns a shortest path from a node of a component back to itself, without the last step. */
function* cycleThrough(
  start: number,
  component: ReadonlySet<number>,
  next: (at: number) => readonly number[],
): Generator<void, number[]> {
  const from = new Map<number, number>();
  const open = [start];
  for (const at of open) {
    yield;
    for (const to of next(at)) {
      if (to === start) {
        const path = [at];
        for (let last = at; last !== start; path.push(last)) last = from.get(last) as number;
        return path.reverse();
      }
      if (!component.has(to) || from.has(to)) continue;
      from.set(to, at);
      open.push(to);
    }
  }
  return [start];
}

/** Returns strongly connected components, by Tarjan, with an explicit stack: chains are deeper than the call stack. */
export function* stronglyConnected(
  count: number,
  next: (at: number) => readonly number[],
): Generator<void, number[][]> {
  const UNSEEN = -1;
  const seenAt = new Int32Array(count).fill(UNSEEN);
  const low = new Int32Array(count);
  const onStack = new Uint8Array(count);
  const stack: number[] = [];
  const components: number[][] = [];
  let time = 0;
  const enter = (at: number) => {
    seenAt[at] = low[at] = time;
    time += 1;
    stack.push(at);
    onStack[at] = 1;
    return { at, to: next(at), done: 0 };
  };
  for (let start = 0; start < count; start += 1) {
    yield;
    if (seenAt[start] !== UNSEEN) continue;
    const open = [enter(start)];
    for (let frame = open.at(-1); frame !== undefined; frame = open.at(-1)) {
      const { at } = frame;
      const to = frame.to[frame.done];
      frame.done += 1;
      if (to !== undefined) {
        if (seenAt[to] === UNSEEN) open.push(enter(to));
        else if (onStack[to] === 1) low[at] = Math.min(low[at] as number, seenAt[to] as number);
        continue;
      }
      yield;
      open.pop();
      const above = open.at(-1)?.at;
      if (above !== undefined) low[above] = Math.min(low[above] as number, low[at] as number);
      if (low[at] === seenAt[at]) {
        const component = stack.splice(stack.lastIndexOf(at));
        for (const each of component) onStack[each] = 0;
        components.push(component);
      }
    }
  }
  return components;
}

function* reportUnreached(
  nodes: readonly ChainNode[],
  links: readonly Links[],
  from: readonly number[],
  problems: Problems,
): Generator<void, void> {
  const steps = (at: number): number[] => [
    ...(links[at] as Links).edges.map(({ to }) => to),
    ...calledBy(links[at] as Links),
  ];
  const flowing = new Set(from);
  // A node that a map runs for its items leads only to the nodes that it runs in turn.
  const found = yield* reached(from, (at) => (flowing.has(at) ? steps(at) : calledBy(links[at] as Links)));
  for (const [index, node] of nodes.entries()) {
    if (!found.has(index)) problems.addAt(index, node, 'unreachable_node', `nothing leads to ${quoted(node.node_id)}`);
  }
}

/** Reports `after` of a node that only a map or compensation runs: it never ends as a node of the chain. */
function* reportAfterCalled(
  nodes: readonly ChainNode[],
  indexOf: ReadonlyMap<string, number>,
  scheduled: ReadonlySet<number>,
  problems: Problems,
): Generator<void, void> {
  for (const [index, node] of nodes.entries()) {
    yield;
    for (const [at, id] of (node.after ?? []).entries()) {
      if (scheduled.has(index) && scheduled.has(indexOf.get(id) as number)) continue;
      const message = scheduled.has(index)
        ? `${quoted(id)} runs only for a map or to compensate`
        : 'a node that runs only for a map or to compensate waits for none';
      problems.addAt(index, node, 'bad_node', message, `after[${at}]`);
    }
  }
}

/** Returns the scheduled nodes, each behind its predecessors, and the number of nodes on the longest path. */
function* orderOf(
  links: readonly Links[],
  roots: readonly number[],
  scheduled: ReadonlySet<number>,
): Generator<void, { readonly order: number[]; readonly depth: number }> {
  const waits = new Int32Array(links.length);
  const level = new Int32Array(links.length).fill(1);
  for (const at of scheduled) {
    yield;
    for (const { to } of (links[at] as Links).edges) waits[to] = (waits[to] as number) + 1;
  }
  const order = [...roots];
  for (const at of order) {
    yield;
    for (const { to } of (links[at] as Links).edges) {
      level[to] = Math.max(level[to] as number, (level[at] as number) + 1);
      waits[to] = (waits[to] as number) - 1;
      if (waits[to] === 0) order.push(to);
    }
  }
  return { order, depth: level.reduce((most, each) => Math.max(most, each), 0) };
}

interface Before {
  /** Each predecessor once: those of `after` first, in their order. */
  readonly list: readonly number[];
  /** The number of edges. */
  waitsFor: number;
}

function* predecessorsOf(
  nodes: readonly ChainNode[],
  links: readonly Links[],
  indexOf: ReadonlyMap<string, number>,
  scheduled: ReadonlySet<number>,
): Generator<void, Before[]> {
  const found: { readonly list: Set<number>; waitsFor: number }[] = [];
  for (const [index, { after = [] }] of nodes.entries()) {
    yield;
    found.push({
      list: new Set(scheduled.has(index) ? after.map((id) => indexOf.get(id) as number) : []),
      waitsFor: 0,
    });
  }
  for (const at of scheduled) {
    yield;
    for (const { to } of (links[at] as Links).edges) {
      const before = found[to] as (typeof found)[number];
      before.list.add(at);
      before.waitsFor += 1;
    }
  }
  return found.map(({ list, waitsFor }) => ({ list: [...list], waitsFor }));
}
