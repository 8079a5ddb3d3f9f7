/**
 * Decides whether a run that ends by its time, its budget or a cancel undoes its nodes, as if its open nodes had failed. Pure.
 */
import type { ChainGraph } from '../definition/graph.ts';
import type { NodeRun } from './contract.ts';
import type { Recovered } from './recovery.ts';

/** Node states that are final. */
const ENDED: ReadonlySet<string> = new Set(['done', 'skipped', 'dead', 'failed'] satisfies NodeRun['status'][]);

/**
 * Returns true if a node that has done something can be undone and a node that has begun and not ended says `compensate`. If no
 * node has begun, one of the remaining nodes must say it.
 * @param live of a run in memory: its nodes, and the completed ones
 */
export function undoesWhenStopped(
  graph: ChainGraph,
  recovered: Recovered | undefined,
  live?: { readonly nodes: readonly NodeRun[]; readonly completed: readonly number[] },
): boolean {
  const done = [...(recovered?.completed ?? []), ...(live?.completed ?? [])];
  if (!done.some((index) => graph.nodes[index]?.compensate !== undefined)) return false;
  if (recovered?.failed !== undefined) return recovered.failed.compensates;
  const left = graph.nodes.filter(
    ({ index, scheduled }) =>
      scheduled &&
      recovered?.nodes.get(index)?.outcome === undefined &&
      !ENDED.has(live?.nodes[index]?.status ?? 'pending'),
  );
  const begun = left.filter(
    ({ index }) =>
      ['running', 'waiting'].includes(live?.nodes[index]?.status ?? '') ||
      (recovered?.nodes.get(index)?.startedAt ?? 0) > 0,
  );
  return (begun.length > 0 ? begun : left).some(({ node }) => node.on_error === 'compensate');
}
