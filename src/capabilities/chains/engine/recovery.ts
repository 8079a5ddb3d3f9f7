/**
 * Folds the journal of a run into the state from which it continues: outcomes that stand, finished items of maps, and nodes
 * that may have run without an end. Pure.
 */
import type { ChainError } from '../chains.schema.ts';
import type { Entry } from './journal.ts';

/** The outcome of a node that ended. */
export type Outcome =
  | { readonly kind: 'done'; readonly output: unknown }
  | { readonly kind: 'branch'; readonly holds: boolean }
  | { readonly kind: 'skipped'; readonly mayHaveRun?: boolean }
  | { readonly kind: 'failed'; readonly error: ChainError; readonly policy: 'abort' | 'skip' | 'node' | 'compensate' };

export interface RecoveredItem {
  /** Undefined: it started and may have run. */
  readonly outcome:
    | { readonly output: unknown }
    | { readonly error: ChainError }
    | { readonly skipped: true }
    | undefined;
  /** As in {@link RecoveredNode}. */
  readonly key?: number | undefined;
}

export interface RecoveredNode {
  outcome: Outcome | undefined;
  /** True when an attempt started and has no end. */
  open: boolean;
  /** The key that the open attempt was called with; undefined: none is open, or its run ended it. */
  key: number | undefined;
  attempts: number;
  startedAt: number;
  endedAt: number;
  error: ChainError | undefined;
  /** Of a wait, epoch milliseconds. */
  waitUntil: number | undefined;
  items: Map<number, RecoveredItem> | undefined;
  itemsTotal: number;
  /** `skipped`: the condition of the node that undoes it was false. */
  compensated: 'started' | 'done' | 'skipped' | undefined;
  /** The error of an undo that failed. */
  undoError: ChainError | undefined;
}

export interface Recovered {
  readonly nodes: ReadonlyMap<number, RecoveredNode>;
  /** Nodes that have done something, in the order in which they ended: completed nodes, and nodes that may have run. */
  readonly completed: readonly number[];
  /** Events that no node has waited for, by name. */
  readonly events: ReadonlyMap<string, unknown>;
  /** The reason why no further node starts. */
  readonly failed:
    | {
        readonly state: 'failed' | 'cancelled';
        /** The node that made the chain fail; undefined: the chain was stopped. */
        readonly index: number | undefined;
        readonly error: ChainError;
        readonly compensates: boolean;
      }
    | undefined;
  /** The node that ended last. */
  readonly last: number | undefined;
  readonly seq: number;
  /** Number of node runs so far, and the amounts they have spent. */
  readonly calls: number;
  readonly tokens: number;
  readonly usd: number;
}

const fresh = (): RecoveredNode => ({
  outcome: undefined,
  open: false,
  key: undefined,
  attempts: 0,
  startedAt: 0,
  endedAt: 0,
  error: undefined,
  waitUntil: undefined,
  items: undefined,
  itemsTotal: 0,
  compensated: undefined,
  undoError: undefined,
});

const ENDS: ReadonlySet<string> = new Set(['done', 'branch', 'skip', 'error'] satisfies Entry['p'][]);

/** Folds a journal, entry by entry. */
export function* recovering(
  journal: Iterable<{ readonly seq: number; readonly at: number; readonly entry: Entry }>,
): Generator<void, Recovered> {
  const nodes = new Map<number, RecoveredNode>();
  const completed = new Set<number>();
  const events = new Map<string, unknown>();
  let failed: Recovered['failed'];
  let seqOfLast = 0;
  let lastNode: number | undefined;
  let calls = 0;
  let tokens = 0;
  let usd = 0;
  const nodeAt = (index: number): RecoveredNode => {
    let node = nodes.get(index);
    if (node === undefined) {
      node = fresh();
      nodes.set(index, node);
    }
    return node;
  };
  for (const { seq, at, entry } of journal) {
    yield;
    seqOfLast = seq;
    if (entry.p === 'done' && entry.name !== undefined) events.delete(entry.name);
    if (entry.p === 'deliver') events.set(entry.name ?? '', entry.o);
    if (entry.p === 'reset') {
      for (const index of entry.nodes ?? []) {
        nodes.delete(index);
        completed.delete(index);
      }
      failed = undefined;
    }
    if (entry.p === 'stop') {
      const state = entry.name === 'cancelled' ? 'cancelled' : 'failed';
      failed ??= { state, index: undefined, error: entry.e as ChainError, compensates: entry.policy === 'compensate' };
    }
    if (entry.p === 'spent') {
      tokens += entry.tokens ?? 0;
      usd += entry.usd ?? 0;
      continue;
    }
    if (entry.n === undefined) continue;
    const node = nodeAt(entry.n);
    if (ENDS.has(entry.p) && entry.i === undefined) lastNode = entry.n;
    if (entry.p === 'start') calls += 1;
    if (entry.i !== undefined && entry.p !== 'wait') {
      if (entry.p === 'run') {
        node.itemsTotal = entry.i;
        node.startedAt ||= at;
        node.attempts = 1;
        continue;
      }
      node.items ??= new Map();
      const known = node.items.get(entry.i);
      if (entry.p === 'start') {
        if (known?.outcome === undefined) node.items.set(entry.i, { outcome: undefined, key: entry.k ?? seq });
      } else if (entry.p === 'abandon') node.items.set(entry.i, { outcome: undefined });
      else if (entry.p === 'done') node.items.set(entry.i, { outcome: { output: entry.o } });
      else if (entry.p === 'skip') node.items.set(entry.i, { outcome: { skipped: true } });
      else if (entry.p === 'error') node.items.set(entry.i, { outcome: { error: entry.e as ChainError } });
      // A failed attempt has ended; the next one may not have started.
      else if (entry.p === 'retry') node.items.delete(entry.i);
      continue;
    }
    switch (entry.p) {
      case 'start':
        node.open = true;
        node.key = entry.k ?? seq;
        node.attempts += 1;
        node.startedAt ||= at;
        break;
      case 'abandon':
        node.key = undefined;
        break;
      case 'retry':
        node.open = false;
        node.error = entry.e;
        break;
      case 'wait':
        node.startedAt ||= at;
        node.waitUntil = entry.ms;
        break;
      case 'done':
        node.open = false;
        node.outcome = { kind: 'done', output: entry.o };
        completed.add(entry.n);
        node.endedAt = at;
        break;
      case 'branch':
        node.outcome = { kind: 'branch', holds: entry.o === true };
        node.startedAt = at;
        node.endedAt = at;
        break;
      case 'skip':
        node.open = false;
        node.outcome = { kind: 'skipped', mayHaveRun: entry.e !== undefined };
        if (entry.e !== undefined) completed.add(entry.n);
        node.endedAt = at;
        break;
      case 'error':
        node.open = false;
        node.error = entry.e;
        node.outcome = { kind: 'failed', error: entry.e as ChainError, policy: entry.policy ?? 'abort' };
        node.endedAt = at;
        if (entry.policy === 'abort' || entry.policy === 'compensate') {
          failed ??= {
            state: 'failed',
            index: entry.n,
            error: entry.e as ChainError,
            compensates: entry.policy === 'compensate',
          };
        }
        break;
      case 'compensate':
        node.compensated = 'started';
        node.key = entry.k ?? seq;
        break;
      case 'compensated':
        node.compensated = entry.policy === 'skip' ? 'skipped' : 'done';
        node.undoError = entry.e;
        break;
      default:
    }
  }
  return { nodes, completed: [...completed], events, failed, last: lastNode, seq: seqOfLast, calls, tokens, usd };
}

/**
 * Returns nodes that started and have no end: they may have run. In a failed chain these are only the nodes being undone: no
 * other node starts.
 */
export function openNodes({ nodes, failed }: Recovered): number[] {
  return [...nodes]
    .filter(
      ([, { open, outcome, items, compensated }]) =>
        compensated === 'started' ||
        (failed === undefined &&
          outcome === undefined &&
          (open || [...(items?.values() ?? [])].some((item) => item.outcome === undefined))),
    )
    .map(([index]) => index);
}
