/**
 * Parts of `runs.ts` that know no run in memory: nodes behind others, journals with entries to come, the agents that reach a
 * run, and the bounds of ids.
 */
import type { CallContext } from '../../host/context.ts';
import type { ChainGraph, GraphNode } from './definition/graph.ts';
import type { Entry, readJournal } from './engine/journal.ts';
import { failure } from './errors.ts';
import type { StoredRun } from './stored.ts';

/** Returns the nodes that edges reach from some nodes, these included. */
export function reachableFrom({ nodes }: ChainGraph, start: readonly number[]): Set<number> {
  const found = new Set(start);
  for (const at of found) for (const { to } of (nodes[at] as GraphNode).edges) found.add(to);
  return found;
}

/** Yields a journal, then entries that are not written yet. */
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

/** Maximum characters of a run id: with its prefix it is a key of the store. */
const MAX_ID_CHARS = 500;

/** Fails with `chains.invalid` for a text that is no id of a run. */
export function mustBeRunId(chainId: string): void {
  if (chainId.length <= MAX_ID_CHARS && chainId.isWellFormed()) return;
  throw failure('invalid', `chain_id: expected a text of at most ${MAX_ID_CHARS} characters of Unicode`, {
    field: 'chain_id',
  });
}

export function ofOwner<T>(all: Map<string, T>, owner: string, make: () => T): T {
  let found = all.get(owner);
  if (found === undefined) {
    found = make();
    all.set(owner, found);
  }
  return found;
}

/** Returns true if the requesting agent may know of a run of its principal. */
export const reaches = ({ session }: Pick<CallContext, 'session'>, { agent }: StoredRun): boolean =>
  session.principal.subagent === undefined || session.agentId === agent;
