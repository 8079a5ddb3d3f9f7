/**
 * Nodes of an interrupted run that may have run: which of them must not run again unasked, and what is written when one is asked to.
 *
 * Used by `runs.ts` when a run continues.
 */
import type { CallContext } from '../../host/context.ts';
import { idempotentTools } from './calls.ts';
import type { ChainError, ChainNode } from './chains.schema.ts';
import type { ChainGraph, GraphNode } from './definition/graph.ts';
import type { Entry } from './engine/journal.ts';
import { openNodes, type Recovered, type RecoveredNode } from './engine/recovery.ts';

/** Nodes that may have run and whose repetition could do more; of a map, with those items. */
export async function uncertainNodes(graph: ChainGraph, recovered: Recovered, context: CallContext) {
  const open = openNodes(recovered);
  if (open.length === 0) return [];
  let safeTools: ReadonlySet<string> | undefined;
  const uncertain: { index: number; node: ChainNode; items: number[] | undefined }[] = [];
  for (const index of open) {
    const { node } = graph.nodes[index] as GraphNode;
    const known = recovered.nodes.get(index);
    const { mapNode, compensate } = graph.nodes[index] as GraphNode;
    const at = known?.compensated === 'started' ? compensate : mapNode;
    const called = (graph.nodes[at ?? index] as GraphNode).node;
    if (called.idempotent === true || called.kind === 'memory') continue;
    // The task of the fleet is there, or was never handed in: it is found again.
    if (called.kind === 'task' && isFindable(known)) continue;
    if (called.kind === 'tool' || called.kind === 'mcp') {
      safeTools ??= await idempotentTools(context).catch(() => new Set<string>());
      if (called.idempotent !== false && safeTools.has(called.name ?? '')) continue;
    }
    const items = [...(known?.items ?? [])].filter(([, { outcome }]) => outcome === undefined).map(([item]) => item);
    uncertain.push({ index, node, items: node.kind === 'map' ? items : undefined });
  }
  return uncertain;
}

/** Whether all that is open of a node can be called with its key again. */
function isFindable(known: RecoveredNode | undefined): boolean {
  if (known?.items === undefined) return known?.key !== undefined;
  return [...known.items.values()].every(({ outcome, key }) => outcome !== undefined || key !== undefined);
}

/** Ends the open attempts of a node that is to run again, so that the next ones have keys of their own. */
export function renewals({ indexOf }: ChainGraph, { nodes }: Recovered, id: string): Entry[] {
  const n = indexOf.get(id) as number;
  const known = nodes.get(n);
  const e: ChainError = { code: 'chains.uncertain', message: 'it may have run; run again as asked' };
  const items = [...(known?.items ?? [])].filter(([, { outcome }]) => outcome === undefined);
  if (known?.open === true) return [{ p: 'retry', n, a: known.attempts, e }];
  return items.map(([i]) => ({ p: 'retry', n, i, a: 1, e }));
}
