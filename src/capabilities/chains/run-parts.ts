/** Parts of `runs.ts` that know no run in memory: nodes behind others, journals with entries to come, and errors about ids. */
import type { ChainGraph, GraphNode } from './definition/graph.ts';
import type { Entry, readJournal } from './engine/journal.ts';
import { failure } from './errors.ts';

/** The nodes that edges lead to from some, these included. */
export function reachableFrom({ nodes }: ChainGraph, start: readonly number[]): Set<number> {
  const found = new Set(start);
  for (const at of found) for (const { to } of (nodes[at] as GraphNode).edges) found.add(to);
  return found;
}

/** A journal with entries behind it that are not written yet. */
export function* withEntries(
  journal: ReturnType<typeof readJournal>,
  last: number,
  entries: readonly Entry[],
  at: number,
) {
  yield* journal;
  for (const [offset, entry] of entries.entries()) yield { seq: last + 1 + offset, at, entry };
}

export const unknownRun = (chainId: string) =>
  failure('unknown_run', `there is no run ${JSON.stringify(chainId.slice(0, 64))}`, { chain_id: chainId.slice(0, 64) });

export const unknownNode = (nodeId: string) =>
  failure('unknown_node', `the chain has no node ${JSON.stringify(nodeId.slice(0, 64))} that could run`, {
    node_id: nodeId.slice(0, 64),
  });
