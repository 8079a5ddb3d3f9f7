/** Shows runs, their nodes and their history as replies have them, within the size of messages. Pure. */
import { fitsPage, Page } from '../../base/page.ts';
import type {
  ChainEntry,
  ChainFailure,
  ChainNode,
  ChainResp,
  ChainStatusResp,
  NodeState,
  ChainRun as RunView,
} from './chains.schema.ts';
import { type ChainGraph, finalOutput, type GraphNode } from './definition/graph.ts';
import type { NodeRun } from './engine/contract.ts';
import { endedItems, type ItemFailures } from './engine/ended-items.ts';
import type { Entry } from './engine/journal.ts';
import type { RecoveredNode } from './engine/recovery.ts';
import type { ChainRun, RunResult } from './engine/run.ts';
import type { IdleRun } from './runs.ts';
import type { StoredRun } from './stored.ts';

/** A run in memory with its stored data. */
export interface Seen {
  readonly stored: StoredRun;
  readonly durable: boolean;
  /** The run; undefined: it does not run in this host. */
  readonly run: ChainRun | undefined;
}

export function runView({ stored, durable, run }: Seen): RunView {
  const { chain_id, name, version, state, nodes_total, started_at, ended_at, error } = stored;
  const live = run === undefined ? 'interrupted' : run.waiting ? 'waiting' : 'running';
  return {
    chain_id,
    name,
    version,
    state: state === 'running' ? live : state,
    durable,
    nodes_total,
    nodes_ended: run?.nodesEnded ?? stored.nodes_ended,
    started_at,
    ended_at,
    error,
    usage: run === undefined ? stored.usage : { ...run.usage },
  };
}

const seconds = (ms: number): number | null => (ms === 0 ? null : ms / 1000);

const wireState = ({ status }: NodeRun): NodeState['state'] => (status === 'dead' ? 'skipped' : status);

/**
 * Returns the states; a node that runs only for a map, or to undo another node, has its state from there.
 * @param states by the positions of the nodes, those of called nodes as if they had not run
 */
function withCalled(nodes: readonly ChainNode[], states: NodeState[]): NodeState[] {
  const called = new Map<string, NodeState['state']>();
  for (const [index, { map_node: each, compensate }] of nodes.entries()) {
    const { state, attempts, error } = states[index] as NodeState;
    if (each && attempts > 0) called.set(each, state === 'compensated' ? 'done' : state);
    if (compensate && state === 'compensated') called.set(compensate, 'done');
    if (compensate && state === 'done' && error) called.set(compensate, 'failed');
  }
  if (called.size === 0) return states;
  return states.map((each) => {
    const state = each.attempts === 0 ? called.get(each.node_id) : undefined;
    return state === undefined ? each : { ...each, state };
  });
}

/** Returns the nodes of a run in memory. */
export function nodeViews({ nodes, deps: { graph } }: ChainRun): NodeState[] {
  const states = nodes.map((each, index): NodeState => {
    const { node } = graph.nodes[index] as GraphNode;
    return {
      node_id: node.node_id,
      state: wireState(each),
      attempts: each.attempts,
      started_at: seconds(each.startedAt),
      ended_at: seconds(each.endedAt),
      error: each.error ?? null,
      ...(each.status === 'waiting' && node.wait !== undefined && { waits_for: node.wait }),
      ...(each.items !== undefined && {
        items: each.items,
        items_done: each.itemsDone,
        ...itemCounts(each.itemsFailed, each.itemsSkipped),
      }),
    };
  });
  return withCalled(
    graph.nodes.map(({ node }) => node),
    states,
  );
}

/** Returns the nodes of a run that does not run, by its journal. */
export function recoveredNodeViews({ definition: { nodes }, recovered, stored }: IdleRun): NodeState[] {
  const ended = stored.ended_at !== null;
  const states = nodes.map(({ node_id, wait }, index): NodeState => {
    const known = recovered.nodes.get(index);
    if (known === undefined) {
      return {
        node_id,
        state: ended ? 'skipped' : 'pending',
        attempts: 0,
        started_at: null,
        ended_at: null,
        error: null,
      };
    }
    const { outcome, compensated, undoError, attempts, startedAt, endedAt, error, items, itemsTotal, waitUntil } =
      known;
    const isUndone = compensated === 'done' && undoError === undefined;
    const begun = attempts > 0 || startedAt > 0;
    const unfinished = begun
      ? ended
        ? 'cancelled'
        : wait !== undefined || waitUntil !== undefined
          ? 'waiting'
          : 'interrupted'
      : 'pending';
    const stateOf = { done: 'done', branch: 'done', skipped: 'skipped', failed: 'failed' } as const;
    return {
      node_id,
      state: isUndone ? 'compensated' : outcome === undefined ? unfinished : stateOf[outcome.kind],
      attempts,
      started_at: seconds(startedAt),
      ended_at: seconds(endedAt),
      error: outcome?.kind === 'done' ? (undoError ?? null) : (error ?? null),
      ...(itemsTotal > 0 && {
        items: itemsTotal,
        ...recoveredCounts(items),
      }),
    };
  });
  return withCalled(nodes, states);
}

/** Returns the numbers of the items of a map that have no output, and the first errors. */
const itemCounts = ({ count, first }: ItemFailures, skipped: number) => ({
  ...(count > 0 && { items_failed: count, failed_items: first.map((item) => ({ ...item })) }),
  ...(skipped > 0 && { items_skipped: skipped }),
});

function recoveredCounts(items: RecoveredNode['items'] = new Map()) {
  const { done, failed, skipped } = endedItems(items);
  return { items_done: done, ...itemCounts(failed, skipped) };
}

/** Maximum number of failed nodes in a result, and of characters of the message of each. */
const MAX_FAILURES = 20;
const MAX_MESSAGE = 1_000;

/** Returns the failed nodes of a run, and its maps with failed items, for its result. */
function failuresOf(states: readonly NodeState[]): { readonly failures?: ChainFailure[] } {
  const failures: ChainFailure[] = [];
  for (const { node_id, state, error, items = 0, items_failed = 0, failed_items: failed = [] } of states) {
    const of = failed[0]?.error ?? (state === 'failed' ? error : undefined);
    if (!of) continue;
    failures.push({
      node_id,
      error: { code: of.code, message: of.message.slice(0, MAX_MESSAGE).toWellFormed() },
      ...(items_failed > 0 && { items, items_failed, places: failed.map(({ index }) => index) }),
    });
    if (failures.length === MAX_FAILURES) break;
  }
  return failures.length === 0 ? {} : { failures };
}

/** Returns the outputs by node, so far. */
export const outputsOf = ({ outputs }: ChainRun): Record<string, unknown> => Object.fromEntries(outputs);

/** Returns the outputs by node, as far as the journal has them. */
export function recoveredOutputs({ definition: { nodes }, recovered }: IdleRun): Record<string, unknown> {
  const outputs: [string, unknown][] = [];
  for (const [index, { outcome }] of recovered.nodes) {
    const id = nodes[index]?.node_id;
    if (id === undefined) continue;
    if (outcome?.kind === 'done') outputs.push([id, outcome.output]);
    else if (outcome?.kind === 'failed') outputs.push([id, null]);
  }
  return Object.fromEntries(outputs);
}

type StatusPage = Pick<ChainStatusResp, 'nodes' | 'definition' | 'outputs' | 'left_out' | 'next'>;

/**
 * Returns as many nodes of a run as a message may hold, with their requested parts, node by node.
 * @param given.states of all nodes
 * @param given.definition undefined: the request does not ask for it. The same holds for the outputs
 */
export function* statusPage(
  from: number,
  {
    states,
    definition,
    outputs,
  }: {
    readonly states: readonly NodeState[];
    readonly definition: readonly ChainNode[] | undefined;
    readonly outputs: Readonly<Record<string, unknown>> | undefined;
  },
): Generator<void, StatusPage> {
  const leftOut: string[] = [];
  const collected = new Page<{ state: NodeState; node: ChainNode | undefined; output: unknown[] }>(
    Number.POSITIVE_INFINITY,
  );
  for (let at = from; at < states.length; at += 1) {
    yield;
    const state = states[at] as NodeState;
    const { node_id: id } = state;
    const output = outputs !== undefined && Object.hasOwn(outputs, id) ? [outputs[id]] : [];
    const fits = output.every(fitsPage);
    if (!fits) leftOut.push(id);
    if (!collected.add({ state, node: definition?.[at], output: fits ? output : [] })) break;
  }
  const { page, more } = collected;
  const shown = new Set(page.map(({ state }) => state.node_id));
  const named = leftOut.filter((id) => shown.has(id));
  return {
    nodes: page.map(({ state }) => state),
    ...(definition !== undefined && { definition: page.flatMap(({ node }) => node ?? []) }),
    ...(outputs !== undefined && {
      outputs: Object.fromEntries(page.flatMap(({ state, output }) => output.map((one) => [state.node_id, one]))),
    }),
    ...(named.length > 0 && { left_out: named }),
    ...(more && { next: from + page.length }),
  };
}

/** Returns an entry of the history; without its data where no message may hold it. */
export function entryView(nodes: readonly ChainNode[], seq: number, at: number, entry: Entry): ChainEntry {
  const whole = wholeEntry(nodes, seq, at, entry);
  return fitsPage(whole) ? whole : { ...whole, data: { left_out: true } };
}

function wholeEntry(nodes: readonly ChainNode[], seq: number, at: number, entry: Entry): ChainEntry {
  const { p, n, i, a, o, e, policy, ms, name, tokens, usd } = entry;
  const phases = { branch: 'done', compensated: 'compensate', reset: 'resume', abandon: 'cancel' } as const;
  const data = {
    ...(o !== undefined && { output: o }),
    ...(e !== undefined && { error: e }),
    ...(policy !== undefined && p !== 'compensated' && { on_error: policy }),
    ...(ms !== undefined && (p === 'retry' ? { delay_ms: ms } : { until: new Date(ms).toISOString() })),
    ...(name !== undefined && (p === 'end' || p === 'stop' ? { state: name } : { event: name })),
    ...(entry.nodes !== undefined && { nodes: entry.nodes.map((index) => nodes[index]?.node_id ?? '') }),
    ...(p === 'run' && i !== undefined && { items: i }),
    ...(p === 'compensated' && { done: e === undefined && policy === undefined }),
    ...(p === 'spent' && { tokens, usd }),
  };
  return {
    seq,
    at: at / 1000,
    phase: p === 'run' && n !== undefined ? 'start' : (phases[p as keyof typeof phases] ?? p),
    node_id: n === undefined ? '' : (nodes[n]?.node_id ?? ''),
    ...(p === 'start' || p === 'retry' ? { attempt: a ?? 1 } : {}),
    ...(i !== undefined && p !== 'run' && { index: i }),
    ...(Object.keys(data).length > 0 && { data }),
  };
}

/** Returns the reply of a run that has stopped. */
export function resultView(
  chainId: string,
  { state, success, outputs, finalOutput, error, usage }: RunResult,
  run: ChainRun,
  durationMs: number,
): Omit<ChainResp, 'type' | 'id' | 'req_id'> {
  return {
    chain_id: chainId,
    success,
    outputs,
    final_output: finalOutput,
    duration_ms: Math.round(durationMs),
    nodes_run: Object.keys(outputs).length,
    error: error ?? null,
    state,
    usage,
    ...(!success && failuresOf(nodeViews(run))),
  };
}

/** Returns the reply of a run that stopped before: its state at that time, without the duration. */
export function idleResult(idle: IdleRun, graph: ChainGraph): Omit<ChainResp, 'type' | 'id' | 'req_id'> {
  const { stored, recovered } = idle;
  const { chain_id, state, success, error, usage, started_at, ended_at } = stored;
  const outputs = recoveredOutputs(idle);
  return {
    chain_id,
    success,
    outputs,
    final_output: state === 'done' ? finalOutput(graph, new Map(Object.entries(outputs)), recovered.last) : null,
    duration_ms: ended_at === null ? 0 : Math.round((ended_at - started_at) * 1000),
    nodes_run: Object.keys(outputs).length,
    error,
    state: state === 'running' ? 'interrupted' : state,
    usage,
    ...(!success && failuresOf(recoveredNodeViews(idle))),
  };
}
