/**
 * What is made of a dispatch: the journal is asked whether the task was seen before, phase 4 whether it fits, then the
 * budget it takes a part of and the conversation it belongs to. Nothing is started here, and nothing is written.
 *
 * A pure function; called by `worker.ts`.
 */
import type { TaskResult } from '../../protocol/fleet.ts';
import type { Reception } from '../bus/outlet.ts';
import type { Dispatched } from '../messages/decoded.ts';
import { type JournalFact, type PreflightFacts, preflight, type Refusal, refusalResult } from '../phases/preflight.ts';
import type { Budget } from './budget.ts';
import type { JournaledTask } from './journal.ts';
import { MAX_CRASHES } from './recovery.ts';

export interface DecisionInput {
  readonly dispatch: Dispatched;
  readonly agentId: string;
  readonly facts: Omit<PreflightFacts, 'journalEntry' | 'dispatchContextId' | 'ownWorktree'>;
  readonly nowMs: number;
  /** Digest of the attempt at this task that is taken or runs. */
  readonly running: string | undefined;
  /** The latest attempt the journal has. */
  readonly journaled: JournaledTask | undefined;
  /** Another task of its context is taken or runs. */
  readonly contextBusy: boolean;
  /** Budget of the task it is a part of, where that runs here. */
  readonly parent: Budget | undefined;
  /** What is wrong with the schema of its answer; null: nothing. */
  readonly schemaProblem: string | null;
  /** Why nothing new can be taken, though the worker would. */
  readonly full: string | undefined;
  /** When to ask again, seconds. */
  readonly busyS: number;
}

export type Decision =
  | { readonly kind: 'answer'; readonly reception: Reception }
  | {
      readonly kind: 'take';
      /** Tokens; null = no limit. */
      readonly tokenBudget: number | null;
      /** How often the worker died during this task. */
      readonly crashes: number;
    };

export function decide(input: DecisionInput): Decision {
  const { dispatch, journaled, busyS, parent } = input;
  const tokenBudget = sliceOf(dispatch.token_budget, parent?.left ?? null);
  const seen = seenAs(input);
  const verdict = preflight(
    { ...dispatch, token_budget: tokenBudget },
    {
      ...input.facts,
      ...(seen !== undefined && { journalEntry: seen }),
      dispatchContextId: dispatch.envelope.context_id ?? null,
      ownWorktree: dispatch.worktree,
    },
    input.nowMs,
  );
  const crashes = journaled?.digest === dispatch.digest ? journaled.crashes : 0;
  const refusal = verdict.accept ? furtherReason(input, tokenBudget) : verdict;
  const passing = refusal === undefined || ['busy', 'dirty_repo'].includes(refusal.code);
  if (refusal?.code === 'in_flight') return busy(busyS, 'in_flight');
  if (passing && input.contextBusy) return busy(busyS, 'context');
  if (refusal === undefined) return { kind: 'take', tokenBudget, crashes };
  if (refusal.code === 'replay') return answer({ kind: 'replay', result: replayed(input) });
  return answer({ kind: 'refused', result: refused(input, refusal) });
}

const answer = (reception: Reception): Decision => ({ kind: 'answer', reception });

const busy = (retryAfterS: number, reason: 'in_flight' | 'context'): Decision =>
  answer({ kind: 'busy', retryAfterS, reason });

/** The smaller of what it was given and what its parent has left. */
function sliceOf(own: number | null, left: number | null): number | null {
  return own === null || left === null ? (own ?? left) : Math.min(own, left);
}

/** How preflight is to see what was here before; undefined: as nothing. */
function seenAs({ dispatch, running, journaled }: DecisionInput): JournalFact | undefined {
  if (running !== undefined) return { state: 'running', digestMatches: running === dispatch.digest };
  if (journaled?.result == null) return undefined;
  const { result, digest } = journaled;
  const digestMatches = digest === dispatch.digest;
  if (digestMatches && isRunAnew(dispatch, journaled, result)) return undefined;
  return { state: 'finished', digestMatches, status: result.status, tokensSpent: result.tokens_spent ?? null };
}

/**
 * Whether the same task, ended before, is to be done again. The same attempt never is, unless nothing had been begun. A later
 * attempt was asked for by somebody who knows how this one ended, or gave it up; work he has not seen yet is shown to him
 * first.
 */
function isRunAnew({ envelope }: Dispatched, journaled: JournaledTask, { status, tokens_spent }: TaskResult): boolean {
  if (isPoisoned(journaled)) return false;
  if (status === 'blocked' && tokens_spent === 0) return true;
  if ((envelope.attempt ?? 1) <= journaled.attempt) return false;
  return journaled.delivered || status === 'error' || status === 'blocked';
}

const isPoisoned = ({ crashes, result }: JournaledTask): boolean =>
  crashes >= MAX_CRASHES && result?.status === 'error';

/** The stored result. What is not tried again answers for the attempt it refuses, which has cost nothing. */
function replayed({ dispatch, journaled }: DecisionInput): TaskResult {
  const stored = journaled?.result as TaskResult;
  const attempt = dispatch.envelope.attempt ?? 1;
  if (!isPoisoned(journaled as JournaledTask) || attempt <= (journaled as JournaledTask).attempt) return stored;
  return { ...stored, tokens_spent: 0, envelope: { ...stored.envelope, attempt } };
}

const refuse = (code: string, detail: string, retryable: boolean, missing: readonly string[] = []): Refusal => ({
  accept: false,
  code,
  detail,
  retryable,
  missing,
  status: 'blocked',
  tokensSpent: 0,
});

/** What phase 4 does not know of. */
function furtherReason(input: DecisionInput, tokenBudget: number | null): Refusal | undefined {
  const { dispatch, facts, full, schemaProblem } = input;
  if (schemaProblem !== null) return refuse('invalid_dispatch', schemaProblem, false);
  if (dispatch.worktree && facts.repoState === null) {
    return refuse('missing_capability', 'worktree: the folder of the worker is no git repository', false, ['worktree']);
  }
  if (tokenBudget !== null && tokenBudget <= 0) {
    return refuse('budget_too_small', `the task ${dispatch.parent_task_id} has no tokens left`, false);
  }
  return full === undefined ? undefined : refuse('busy', full, true);
}

/** The answer to a dispatch that is not taken. */
export function refused(
  { dispatch, agentId, busyS }: Pick<DecisionInput, 'dispatch' | 'agentId' | 'busyS'>,
  { code, detail, retryable, missing }: Pick<Refusal, 'code' | 'detail' | 'retryable'> & Partial<Refusal>,
): TaskResult {
  const { attempt = 1, context_id, correlation_id } = dispatch.envelope;
  const refusal = refuse(code, detail, retryable, missing);
  const result = refusalResult(dispatch.task_id, refusal, code === 'busy' ? busyS : undefined);
  return {
    ...result,
    envelope: {
      ...(context_id != null && { context_id }),
      ...(correlation_id !== undefined && { correlation_id }),
      sender: agentId,
      attempt,
    },
  };
}
