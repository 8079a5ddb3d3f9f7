/**
 * The interfaces between the parts of a run: the dependencies of a run, the state of its nodes, and the methods that steps call
 * on it.
 */

import type { Turns } from '../../../base/turns.ts';
import type { HandfastError } from '../../../wire/errors.ts';
import type { ChainError, ChainNode, ChainUsage } from '../chains.schema.ts';
import type { Context } from '../definition/context.ts';
import type { ChainGraph, GraphNode } from '../definition/graph.ts';
import type { ItemFailures } from './ended-items.ts';
import type { Entry, RunJournal } from './journal.ts';
import type { OutgoingEvents, RunEvent } from './outgoing-events.ts';
import type { Recovered } from './recovery.ts';

export interface RunLimits {
  readonly maxParallel: number;
  /** Milliseconds from now; Infinity: none. */
  readonly timeoutMs: number;
  readonly budget: { readonly nodes?: number; readonly tokens?: number; readonly usd?: number };
  /** Characters of all outputs as JSON. */
  readonly maxOutputChars: number;
  /** Items of a map. */
  readonly maxItems: number;
}

/** Amounts that a call has spent so far, or may spend. */
export interface Spending {
  readonly tokens?: number | undefined;
  readonly usd?: number | undefined;
}

/** Progress of a call, for people. */
export interface CallProgress {
  readonly message?: string | undefined;
  /** 0 to 100. */
  readonly pct?: number | undefined;
}

/** A call of a node, as the called capability sees it. */
export interface NodeCall {
  /** Aborts at its timeout and when the run stops; with `interrupted`, when the run may continue later. */
  readonly signal: AbortSignal;
  /**
   * Names the attempt within its run. A run that continues after it was interrupted calls with the same key again where the
   * attempt had no end.
   */
  readonly key: string;
  /** True in a run that continues: an earlier version may have begun it, and have passed over members that are refused now. */
  readonly resumed: boolean;
  /** The rest of the budget of the run. An undefined member has no limit. */
  left(): Spending;
  /** Returns the milliseconds until the run or the attempt is late; Infinity: never. */
  leftMs(): number;
  /** Reports the totals that the call has spent so far. Stops the run when its budget is spent. */
  spent(total: Spending): void;
  /** Reports progress to the followers of the run. */
  progress(progress: CallProgress): void;
}

export interface RunDeps {
  readonly graph: ChainGraph;
  readonly input: Readonly<Record<string, unknown>>;
  readonly limits: RunLimits;
  readonly journal: RunJournal;
  readonly recovered: Recovered | undefined;
  /** Checks an output against the schema of its node. Rejects with `schema_violation`. */
  checkOutput(node: ChainNode, output: unknown, signal: AbortSignal): Promise<void>;
  /** Frees the run's request from the concurrency limit while only waits and delays are left; see `CallContext.yieldSlot`. */
  yieldSlot(): () => void;
  /** Runs a node that is a call, under the rights of the caller. */
  call(node: ChainNode, input: Record<string, unknown>, call: NodeCall): Promise<unknown>;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly random: () => number;
  readonly turns: Turns;
}

export type RunState = 'done' | 'failed' | 'cancelled' | 'paused' | 'interrupted';

/** `dead`: no live edge leads to it. */
export type NodeStatus =
  | 'pending'
  | 'running'
  | 'waiting'
  | 'done'
  | 'skipped'
  | 'dead'
  | 'failed'
  | 'cancelled'
  | 'compensated';

/** The state of a node within its run. */
export interface NodeRun {
  status: NodeStatus;
  attempts: number;
  /** Epoch milliseconds; 0: not yet. */
  startedAt: number;
  endedAt: number;
  error: ChainError | undefined;
  items: number | undefined;
  itemsDone: number;
  /** Of a map. */
  itemsFailed: ItemFailures;
  itemsSkipped: number;
}

/** The run, as its steps see it. */
export interface StepRun {
  readonly deps: RunDeps;
  readonly nodes: readonly NodeRun[];
  readonly context: Context;
  readonly outputs: Map<string, unknown>;
  readonly events: OutgoingEvents;
  readonly usage: { -readonly [Name in keyof Required<ChainUsage>]: number };
  /** Events that arrived before a node waited for them. */
  readonly delivered: Map<string, unknown>;
  /** Aborts when nothing of the run may continue. */
  readonly signal: AbortSignal;
  /** Aborts when nodes can be undone no longer. */
  readonly undoSignal: AbortSignal;
  /** True while the run undoes nodes or will undo them. */
  readonly isUndoing: boolean;
  /** True once no further node starts. */
  readonly stopping: boolean;
  /** The deadline of the run in monotonic milliseconds, so that setting the clock has no effect; Infinity: none. */
  readonly lateAt: number;
  pump(): void;
  stop(state: RunState, error?: ChainError): void;
  note(entry: Entry, event?: RunEvent): void;
  done(planned: GraphNode, output: unknown, how?: { event?: string | undefined; silent?: boolean }): void;
  failed(planned: GraphNode, error: ChainError): void;
  itemFailed(): void;
  abandoned(planned: GraphNode): void;
  count(output: unknown): void;
}

/** Converts an error to the form of entries and replies. */
export const errorOf = ({ code, message, detail }: HandfastError): ChainError => ({
  code,
  message,
  ...(Object.keys(detail).length > 0 && { detail }),
});
