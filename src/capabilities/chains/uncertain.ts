/**
 * Nodes of an interrupted run that may have run: finds those that must not run again without a decision, and makes the entries
 * for the decisions of a resumer.
 */
import type { CallContext } from '../../host/context.ts';
import type { HandfastError } from '../../wire/errors.ts';
import { isObject } from '../../wire/json.ts';
import { idempotentTools } from './calls.ts';
import type { ChainError, ChainNode } from './chains.schema.ts';
import type { ChainGraph, GraphNode } from './definition/graph.ts';
import type { RunDeps } from './engine/contract.ts';
import type { Entry } from './engine/journal.ts';
import { OutputChars } from './engine/output-chars.ts';
import { openNodes, type Recovered, type RecoveredNode } from './engine/recovery.ts';
import { failure } from './errors.ts';
import { unknownNode } from './run-parts.ts';

/** A node that may have run. */
interface Uncertain {
  readonly index: number;
  readonly node: ChainNode;
  /** Of a map: the items that may have run. */
  readonly items: readonly number[] | undefined;
  /** True when running it again has no further effect. */
  readonly repeatable: boolean;
}

/** Decisions of a resumer on nodes that may have run, by their ids. */
export interface NodeDecisions {
  readonly rerun?: readonly string[] | undefined;
  readonly skip?: readonly string[] | undefined;
  /** Nodes that did run, with their outputs. */
  readonly done?: Readonly<Record<string, unknown>> | undefined;
}

interface DecisionDeps extends Pick<RunDeps, 'checkOutput'> {
  readonly context: CallContext;
  readonly maxOutputChars: number;
}

/** Maximum number of nodes that an error names. */
const MAX_NAMED = 20;

/**
 * Returns the entries that record the decisions of a resumer on nodes that may have run, or the error `chains.uncertain` where
 * a node is undecided. Fails with `chains.unknown_node` and `chains.invalid`, and for outputs with `chains.too_large` and
 * `schema_violation`.
 */
export async function decidedNodes(
  graph: ChainGraph,
  known: Recovered,
  decisions: NodeDecisions,
  deps: DecisionDeps,
): Promise<Entry[] | HandfastError> {
  // A request may name a node any number of times.
  const [rerun, skip] = [new Set(decisions.rerun), new Set(decisions.skip)];
  const { done = {} } = decisions;
  const said = new Set([...rerun, ...skip]);
  const both = Object.keys(done).find((id) => said.has(id));
  if (both !== undefined) {
    throw failure('invalid', `done: ${JSON.stringify(both)} is also in rerun or skip`, { node_id: both });
  }
  for (const id of Object.keys(done)) said.add(id);
  for (const id of said) if (!graph.indexOf.has(id)) throw unknownNode(id);
  const open = await uncertainNodes(graph, known, deps.context);
  const notOpen = Object.keys(done).find((id) => !open.some(({ node }) => node.node_id === id));
  if (notOpen !== undefined) {
    const message = `done: ${JSON.stringify(notOpen)} is not a node that had started and not ended`;
    throw failure('invalid', message, { node_id: notOpen });
  }
  const undecided = open.filter(({ node: { node_id }, repeatable }) => !repeatable && !said.has(node_id));
  if (undecided.length > 0) {
    const nodes = undecided.slice(0, MAX_NAMED).map(({ node }) => node.node_id);
    const names = nodes.map((id) => JSON.stringify(id)).join(', ');
    return failure(
      'uncertain',
      `when the run was interrupted, ${names} had started and not ended: it may have run, and is not idempotent; run it again, skip it, or say that it is done`,
      { nodes, ways: ['rerun', 'skip', 'done', 'retry'] },
    );
  }
  const decided = open.flatMap((one) => decisionOn(one, known, { skip, done }));
  await mustFit(decided, graph, known, deps);
  return [...decided, ...[...rerun].flatMap((id) => renewals(graph, known, id))];
}

/** Checks declared outputs. */
async function mustFit(
  entries: readonly Entry[],
  { nodes }: ChainGraph,
  known: Recovered,
  { checkOutput, context, maxOutputChars }: DecisionDeps,
): Promise<void> {
  const chars = new OutputChars(maxOutputChars, known);
  for (const { p, n = 0, i, o } of entries) {
    if (p !== 'done') continue;
    chars.count(o);
    const { node, mapNode = n } = nodes[n] as GraphNode;
    await checkOutput(i === undefined ? node : (nodes[mapNode] as GraphNode).node, o, context.signal);
  }
}

/** Returns the nodes that may have run. */
async function uncertainNodes(
  graph: ChainGraph,
  recovered: Recovered,
  context: CallContext,
): Promise<readonly Uncertain[]> {
  const open = openNodes(recovered);
  if (open.length === 0) return [];
  let safeTools: ReadonlySet<string> | undefined;
  const uncertain: Uncertain[] = [];
  for (const index of open) {
    const { node } = graph.nodes[index] as GraphNode;
    const known = recovered.nodes.get(index);
    const { mapNode, compensate } = graph.nodes[index] as GraphNode;
    const at = known?.compensated === 'started' ? compensate : mapNode;
    const called = (graph.nodes[at ?? index] as GraphNode).node;
    // The fleet has the task, or never got it: its key finds it again.
    const isFound = called.kind === 'task' && isFindable(known);
    let repeatable = (called.idempotent ?? called.kind === 'memory') || isFound;
    if (!repeatable && (called.kind === 'tool' || called.kind === 'mcp')) {
      safeTools ??= await idempotentTools(context).catch(() => new Set<string>());
      repeatable = called.idempotent !== false && safeTools.has(called.name ?? '');
    }
    const items = [...(known?.items ?? [])].filter(([, { outcome }]) => outcome === undefined).map(([item]) => item);
    uncertain.push({ index, node, items: node.kind === 'map' ? items : undefined, repeatable });
  }
  return uncertain;
}

/**
 * Returns the entries for a node that is not run again. A skipped node may have run, so it is undone like one that did. Fails
 * with `chains.invalid` for an output that does not cover the items of a map.
 */
function decisionOn(
  { index: n, node, items }: Uncertain,
  { nodes }: Recovered,
  { skip, done }: { readonly skip: ReadonlySet<string>; readonly done: Readonly<Record<string, unknown>> },
): Entry[] {
  const { node_id: id } = node;
  const isUndone = nodes.get(n)?.compensated === 'started';
  if (Object.hasOwn(done, id)) {
    if (isUndone) return [{ p: 'compensated', n }];
    const output = done[id] ?? null;
    if (items === undefined) return [{ p: 'done', n, o: output }];
    const places = items.toSorted((one, other) => one - other);
    if (!isObject(output) || Object.keys(output).join() !== places.join()) {
      const form = JSON.stringify(Object.fromEntries(places.slice(0, MAX_SHOWN_ITEMS).map((item) => [item, null])));
      throw failure(
        'invalid',
        `done, ${JSON.stringify(id)}: expected the outputs of the items that may have run, by their places: ${form}`,
        { node_id: id, items: places.slice(0, MAX_NAMED_ITEMS) },
      );
    }
    return places.map((i) => ({ p: 'done', n, i, o: output[i] ?? null }));
  }
  if (!skip.has(id)) return [];
  const e: ChainError = { code: 'chains.uncertain', message: 'it may have run; skipped as asked' };
  if (isUndone) return [{ p: 'compensated', n, e }];
  return items === undefined ? [{ p: 'skip', n, e }] : items.map((i) => ({ p: 'error', n, i, e }));
}

/** Maximum number of items of a map that the detail of an error names, and its message. */
const MAX_NAMED_ITEMS = 100;
const MAX_SHOWN_ITEMS = 3;

/** Returns true if every open attempt of a node can be called again with its key. */
function isFindable(known: RecoveredNode | undefined): boolean {
  if (known?.items === undefined) return known?.key !== undefined;
  return [...known.items.values()].every(({ outcome, key }) => outcome !== undefined || key !== undefined);
}

/** Ends the open attempts of a node that is to run again, so that the next ones have new keys. */
function renewals({ indexOf }: ChainGraph, { nodes }: Recovered, id: string): Entry[] {
  const n = indexOf.get(id) as number;
  const known = nodes.get(n);
  const e: ChainError = { code: 'chains.uncertain', message: 'it may have run; run again as asked' };
  const items = [...(known?.items ?? [])].filter(([, { outcome }]) => outcome === undefined);
  if (known?.open === true) return [{ p: 'retry', n, a: known.attempts, e }];
  return items.map(([i]) => ({ p: 'retry', n, i, a: 1, e }));
}
