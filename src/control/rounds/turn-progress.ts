/**
 * The progress of a turn that continues after a restart of the server: its round, and the state of that round's
 * calls. Read from the session alone; nothing of the old process is left.
 *
 * A call that may have started is never made again: the model gets it as interrupted.
 */
import type { Approval, ToolCall, ToolDone } from '../../protocol/session-types.ts';
import type { Turn } from '../contract/backend.ts';
import type { HistoryItem } from '../contract/session-log.ts';
import { failedCall } from './failed-call.ts';
import { refusalOf } from './with-approvals.ts';

/** A call of a round and the steps left for it. */
export interface RoundCall {
  readonly call: ToolCall;
  /** Reason why its arguments could not be read. */
  readonly invalid?: string;
  /** True when clients got its start. */
  readonly began?: boolean;
  /** Its result, when it has one already; `sent` = clients and the history have it. */
  readonly ended?: { readonly done: ToolDone; readonly sent: boolean };
}

export interface TurnProgress {
  /** Rounds the model has finished. */
  readonly round: number;
  /** True when the model made no more calls: only the end of the turn was not recorded. */
  readonly finished: boolean;
  /** The calls of the last round, when some of them have no result. */
  readonly calls: readonly RoundCall[];
  /** Every call id of the turn. */
  readonly callIds: readonly string[];
}

type AssistantItem = Extract<HistoryItem, { role: 'assistant' }>;
type ToolItem = Extract<HistoryItem, { role: 'tool' }>;

/** Returns the progress of the turn. */
export function turnProgress({ id, log }: Pick<Turn, 'id' | 'log'>): TurnProgress {
  const items = log.record.history.filter(({ turn }) => turn === id);
  const rounds = items.filter((item) => item.role === 'assistant');
  const last = rounds.at(-1);
  const calls = last?.calls ?? [];
  const after = last === undefined ? [] : items.slice(items.indexOf(last) + 1);
  const results = new Map(after.filter((item) => item.role === 'tool').map((item) => [item.callId, item]));
  const approvals = log.record.approvals.filter((approval) => approval.turn_id === id);
  return {
    round: rounds.length,
    finished: last !== undefined && calls.length === 0 && after.length === 0,
    calls: calls.every(({ callId }) => results.has(callId)) ? [] : openCalls(last as AssistantItem, results, approvals),
    callIds: rounds.flatMap((item) => (item.calls ?? []).map(({ callId }) => callId)),
  };
}

function openCalls(
  { calls = [], parallel = false }: AssistantItem,
  results: ReadonlyMap<string, ToolItem>,
  approvals: readonly Approval[],
): RoundCall[] {
  let started = true;
  return calls.map(({ callId, name, input }) => {
    const call: ToolCall = { callId, name, input, providerToolName: name };
    const result = results.get(callId);
    if (result !== undefined) return { call, began: true, ended: { done: doneOf(call, result), sent: true } };
    // One after the other: behind the first that has no result, none was started.
    if (!started) return { call };
    if (!parallel) started = false;
    const approval = approvals.find(({ tool }) => tool?.call_id === callId);
    // It still waits; or it is a question, whose answer the approver has if it was given.
    if (approval?.state === 'pending' || approval?.kind === 'question') return { call, began: true };
    const done =
      approval === undefined || approval.state === 'allowed'
        ? failedCall(call, 'interrupted', 'interrupted by a restart; it may or may not have taken effect')
        : refusalOf(call, approval);
    return { call, began: true, ended: { done, sent: false } };
  });
}

function doneOf({ callId, name, input }: ToolCall, { ok, result, error }: ToolItem): ToolDone {
  return { name, ok, input, result, ...(error !== undefined && { error }), callId };
}
