/**
 * Checks nodes that only maps and undoing call, and members that a kind of node does not have: a member without effect is a
 * problem of the chain. Pure.
 */
import { isObject } from '../../../wire/json.ts';
import type { ChainNode } from '../chains.schema.ts';
import { isPolicy } from './graph.ts';
import type { NodeKind } from './kinds.ts';
import { type Problems, quoted } from './problems.ts';

const CALLS: readonly NodeKind[] = ['tool', 'skill', 'proc', 'mcp', 'memory', 'agent', 'task'];

/** For each member that some kinds would ignore, the kinds that have it. All kinds have the members that are absent here. */
const KINDS_WITH: Readonly<Record<string, readonly NodeKind[]>> = {
  input: CALLS,
  // The input map of a gather or reduce names the gathered values.
  input_map: [...CALLS, 'gather', 'reduce'],
  true_node: ['branch'],
  false_node: ['branch'],
  items_path: ['map'],
  map_node: ['map'],
  next_node: [...CALLS, 'map', 'gather', 'reduce', 'wait'],
  parallel: ['map'],
  timeout_ms: [...CALLS, 'wait'],
  retry: CALLS,
  compensate: [...CALLS, 'map', 'gather', 'reduce', 'wait'],
  idempotent: CALLS,
  output_schema: [...CALLS, 'map', 'gather', 'reduce'],
  reduce: ['reduce'],
  wait: ['wait'],
};

const isGiven = (value: unknown): boolean =>
  value !== undefined &&
  value !== null &&
  value !== '' &&
  value !== false &&
  !(typeof value === 'object' && Object.keys(value).length === 0);

/** Returns the members of a node that its kind does not have. */
export function strayMembers(
  node: Readonly<Record<string, unknown>>,
): { readonly field: string; readonly message: string }[] {
  const { kind } = node;
  const stray = Object.entries(KINDS_WITH).flatMap(([field, kinds]) => {
    if (!Object.hasOwn(node, field) || !isGiven(node[field]) || kinds.includes(kind as NodeKind)) return [];
    return [{ field, message: `a ${String(kind)} node has no ${field}${adviceOn(kind, field)}` }];
  });
  const { wait, timeout_ms: timeoutMs, retry } = node;
  const isTimed = isObject(wait) && (isGiven(wait.ms) || isGiven(wait.until));
  if (kind === 'wait' && isGiven(timeoutMs) && isTimed) {
    const message = 'a wait for a time ends by itself, and has no timeout_ms';
    stray.push({ field: 'timeout_ms', message });
  }
  if (CALLS.includes(kind as NodeKind) && isObject(retry) && isGiven(retry) && !isGiven(retry.max_attempts)) {
    const message = 'a retry needs max_attempts: without it the node runs once';
    stray.push({ field: 'retry', message });
  }
  return stray;
}

/** Members that belong to the repeated node of a map, not to the map. */
const OF_ITEMS = ['input', 'input_map', 'timeout_ms', 'retry', 'idempotent'];

function adviceOn(kind: unknown, field: string): string {
  if (kind === 'map' && OF_ITEMS.includes(field)) return '; give it to the node that it repeats';
  if (kind === 'branch' && field === 'next_node') return '; write true_node, false_node or both';
  if (kind === 'branch' && (field === 'input' || field === 'input_map')) return '; its condition reads the context';
  return field === 'input' && (kind === 'gather' || kind === 'reduce') ? '; write it as input_map' : '';
}

interface Called {
  /** The number of the node. */
  readonly at: number;
  /** The number of the node that names the called node. */
  readonly by: number;
  readonly field: 'map_node' | 'compensate';
}

const ROLE = { map_node: 'that a map repeats', compensate: 'that undoes another' } as const;
const ERROR_ADVICE = {
  map_node: 'an item that fails is left out and reported: decide behind the map',
  compensate: 'a node that could not be undone stays done',
} as const;

/** Reports called nodes of a wrong kind, and members that have no effect on a called node. */
export function* reportCalled(
  nodes: readonly ChainNode[],
  calls: Iterable<Called>,
  scheduled: ReadonlySet<number>,
  problems: Problems,
): Generator<void, void> {
  const seen = new Set<string>();
  for (const { at, by, field } of calls) {
    yield;
    const node = nodes[at] as ChainNode;
    const caller = nodes[by] as ChainNode;
    if (!CALLS.includes(node.kind)) {
      const message = `${quoted(node.node_id)} is a ${node.kind} node; expected one of the kinds ${CALLS.join(', ')}`;
      problems.addAt(by, caller, 'bad_node', message, field);
      continue;
    }
    if (seen.has(`${field} ${at}`)) continue;
    seen.add(`${field} ${at}`);
    const wrong = (member: string, why: string): void =>
      problems.addAt(at, node, 'bad_node', `a node ${ROLE[field]} has no ${member} there: ${why}`, member);
    const { on_error: onError = '' } = node;
    // Walks of A2E 1.0 lead back to the map for the next item.
    if (!scheduled.has(at) && node.next_node && node.next_node !== caller.node_id) {
      wrong('next_node', `put it on ${quoted(caller.node_id)}`);
    }
    // The node would also run by itself, an undo even where nothing failed.
    if (isGiven(node.after)) {
      wrong('after', field === 'map_node' ? `put it on ${quoted(caller.node_id)}` : 'it runs when that node is undone');
    }
    if (!isPolicy(onError) || onError === 'compensate')
      wrong('on_error', `expected abort or skip; ${ERROR_ADVICE[field]}`);
    if (isGiven(node.compensate)) {
      const undo = `give ${quoted(caller.node_id)} one, which sees all outputs`;
      wrong('compensate', field === 'map_node' ? undo : 'nothing undoes it');
    }
  }
}
