/**
 * Phase 4: whether a dispatch may be taken, decided before a token is spent. Pure; the checks are made in the order of
 * the table, and the first one that fails answers.
 *
 * Called by the worker with the facts it has just found out; the executor is not started before this has said yes.
 * Permanent reasons come before passing ones, so that nobody waits for what will never help.
 * @see docs/protocol/fleet.md#preflight
 */
import type { Status, TaskResult } from '../../protocol/fleet.ts';
import { shortPath } from '../../wire/check.ts';
import type { Dispatched, Finding, RepoState } from '../messages/decoded.ts';
import { resultMessage } from '../messages/encode.ts';
import { canonicalName } from '../messages/names.ts';

/** Turns a worker runs at once when it does not say. */
export const DEFAULT_MAX_CONCURRENT = 3;
/** Shortest time left for a task to be taken when a worker does not say, seconds. */
const DEFAULT_MIN_LEAD_S = 30;

/** What the worker's journal holds of a task. */
export interface JournalFact {
  readonly state: 'running' | 'finished';
  /** The kept digest is that of this dispatch. */
  readonly digestMatches: boolean;
  /** How it ended, when it has. */
  readonly status?: Status;
  /** null or absent: unknown. */
  readonly tokensSpent?: number | null;
}

/** What is true of the worker now. Names in any spelling. */
export interface PreflightFacts {
  readonly tools: readonly string[];
  readonly mcpServers: readonly string[];
  /** Canonical name → health. A server without an entry is `unknown`. */
  readonly mcpHealth: ReadonlyMap<string, string>;
  /** Turns running or accepted. */
  readonly activeTasks: number;
  /** Default 3. */
  readonly maxConcurrent?: number;
  readonly executorPresent: boolean;
  /** Absent: cannot be told, which is no reason to refuse. */
  readonly executorAuthenticated?: boolean;
  /** null: no repository. */
  readonly repoState: RepoState | null;
  /** Tokens an empty first turn costs; null: unknown. */
  readonly overheadTokens: number | null;
  readonly draining: boolean;
  /** Undefined: this task was never seen. */
  readonly journalEntry?: JournalFact;
  /** Context whose work the tree holds: its dirt is its own. */
  readonly contextId: string | null;
  /** Context of the dispatch. */
  readonly dispatchContextId: string | null;
  /** The task is to get a worktree of its own, so that dirt elsewhere does not matter. */
  readonly ownWorktree?: boolean;
  /** Shortest time left, seconds. Default 30. */
  readonly minLeadS?: number;
  /** How far the sender's clock is ahead of ours, milliseconds; the deadline was written by it. Default 0. */
  readonly skewMs?: number;
}

/** Why a dispatch is not run. */
export interface Refusal {
  readonly accept: false;
  readonly code: string;
  /** What stands behind the code in `blocked_reason`, for people. */
  readonly detail: string;
  /** The same dispatch may be taken later, without being changed. */
  readonly retryable: boolean;
  /** Canonical names of what is missing or not healthy. */
  readonly missing: readonly string[];
  /** `blocked`; for `replay` the status of the stored result; null for `in_flight`, where there is none yet. */
  readonly status: Status | null;
  /** 0; for `replay` the figure of the stored result. */
  readonly tokensSpent: number | null;
}

export type Preflight = { readonly accept: true } | Refusal;

const ACCEPTED: Preflight = Object.freeze({ accept: true });
const NOTHING: readonly string[] = [];

function refuse(code: string, detail: string, retryable = false, missing: readonly string[] = NOTHING): Refusal {
  return { accept: false, code, detail, retryable, missing, status: 'blocked', tokensSpent: 0 };
}

/** Finding → code of the refusal, in the order in which they are answered. */
const UNREADABLE: readonly (readonly [refusal: string, code: string, path: string])[] = [
  ['unsupported_version', 'E_VERSION_UNSUPPORTED', '/protocol_version'],
  ['unsupported_reply_schema', 'E_ENUM', '/task/reply_schema'],
  ['empty_brief', 'E_REQUIRED', '/brief'],
  ['brief_too_large', 'E_LIMIT', '/brief'],
];

/** Findings told in a refusal at most. */
const MAX_TOLD = 5;

/** The refusal of a dispatch that has errors. */
function unreadable(errors: readonly Finding[]): Refusal {
  const row = UNREADABLE.find(([, code, path]) => errors.some((error) => error.code === code && error.path === path));
  const told = errors
    .slice(0, MAX_TOLD)
    .map(({ code, path }) => (path === '' ? code : `${code} at ${shortPath(path)}`));
  const more = errors.length > MAX_TOLD ? ` and ${errors.length - MAX_TOLD} more` : '';
  return refuse(row?.[0] ?? 'invalid_dispatch', `${told.join(', ')}${more}`);
}

/** What the journal says about a task that was seen before. */
function seenBefore({ state, digestMatches, status, tokensSpent }: JournalFact): Refusal {
  if (!digestMatches) return refuse('duplicate_conflict', 'another task with this task_id was taken before');
  if (state === 'running') {
    return { ...refuse('in_flight', 'this task is being worked on', true), status: null };
  }
  return {
    ...refuse('replay', 'this task has ended; its result is sent again'),
    status: status ?? null,
    tokensSpent: tokensSpent ?? null,
  };
}

const counted = (ms: number): string => `${Math.floor(ms / 1000)} s`;

function lateness(deadline: string | null, facts: PreflightFacts, nowMs: number): Refusal | undefined {
  if (deadline === null) return undefined;
  // The deadline was written by the sender's clock.
  const left = Date.parse(deadline) - (nowMs + (facts.skewMs ?? 0));
  const lead = facts.minLeadS ?? DEFAULT_MIN_LEAD_S;
  if (left <= 0) return refuse('deadline_passed', `it was ${deadline}`);
  if (left < lead * 1000) return refuse('deadline_too_close', `${counted(left)} left, ${lead} s wanted`);
  return undefined;
}

const EXECUTOR_DETAIL = {
  executor_missing: 'its program was not found',
  auth_required: 'its agent is not signed in',
} as const;

/** Why no task can be begun, whatever it is; undefined: nothing is known that speaks against the executor. */
export function executorReason(
  present: boolean,
  authenticated: boolean | undefined,
): keyof typeof EXECUTOR_DETAIL | undefined {
  if (!present) return 'executor_missing';
  return authenticated === false ? 'auth_required' : undefined;
}

const without = (wanted: readonly string[], there: readonly string[]): readonly string[] => {
  if (wanted.length === 0) return NOTHING;
  const names = new Set(there.map(canonicalName));
  return wanted.filter((name) => !names.has(name));
};

function unmet(dispatch: Dispatched, facts: PreflightFacts): Refusal | undefined {
  const { required_mcp, required_capabilities, token_budget } = dispatch;
  const absent = without(required_mcp, facts.mcpServers);
  if (absent.length > 0) return refuse('missing_mcp', absent.join(', '), false, absent);
  const health = (server: string): string => facts.mcpHealth.get(server) ?? 'unknown';
  const ill = required_mcp.filter((server) => health(server) !== 'ok');
  if (ill.length > 0) {
    return refuse('unhealthy_mcp', ill.map((server) => `${server}=${health(server)}`).join(', '), true, ill);
  }
  const lacking = without(required_capabilities, facts.tools);
  if (lacking.length > 0) return refuse('missing_capability', lacking.join(', '), false, lacking);
  if (token_budget !== null && facts.overheadTokens !== null && token_budget < facts.overheadTokens) {
    const detail = `a budget of ${token_budget} tokens, where an empty turn costs ${facts.overheadTokens}`;
    return refuse('budget_too_small', detail);
  }
  return undefined;
}

function isDirty({ access }: Dispatched, facts: PreflightFacts): boolean {
  if (access === 'read' || facts.ownWorktree === true || facts.repoState === null || facts.repoState.clean)
    return false;
  return facts.dispatchContextId === null || facts.dispatchContextId !== facts.contextId;
}

/**
 * Decides on a dispatch, or on one that could not be read, by its errors. `nowMs`: epoch milliseconds at which it was
 * received.
 */
export function preflight(dispatch: Dispatched | readonly Finding[], facts: PreflightFacts, nowMs: number): Preflight {
  if (isErrors(dispatch)) return unreadable(dispatch);
  if (facts.journalEntry !== undefined) return seenBefore(facts.journalEntry);
  if (facts.draining) return refuse('draining', 'the worker is shutting down', true);
  const late = lateness(dispatch.deadline, facts, nowMs);
  if (late !== undefined) return late;
  const unfit = executorReason(facts.executorPresent, facts.executorAuthenticated);
  if (unfit !== undefined) return refuse(unfit, EXECUTOR_DETAIL[unfit]);
  const requirement = unmet(dispatch, facts);
  if (requirement !== undefined) return requirement;
  if (isDirty(dispatch, facts)) {
    return refuse(
      'dirty_repo',
      `changes that are not committed on ${facts.repoState?.branch ?? 'a detached head'}`,
      true,
    );
  }
  const most = facts.maxConcurrent ?? DEFAULT_MAX_CONCURRENT;
  if (facts.activeTasks >= most) return refuse('busy', `${facts.activeTasks} of ${most} tasks`, true);
  return ACCEPTED;
}

const isErrors = (dispatch: Dispatched | readonly Finding[]): dispatch is readonly Finding[] => Array.isArray(dispatch);

/**
 * The answer to a dispatch that is refused: blocked, with no token spent. Not for `replay`, whose answer is the stored
 * result, nor for `in_flight`, which is told as busy.
 */
export function refusalResult(taskId: string, refusal: Refusal, retryAfterS?: number): TaskResult {
  const { code, detail, retryable, missing } = refusal;
  return resultMessage({
    task_id: taskId,
    status: 'blocked',
    tokens_spent: 0,
    next_steps: [],
    blocked_reason: `${code}: ${detail}`,
    blocked: {
      code,
      retryable,
      ...(missing.length > 0 && { missing }),
      ...(retryAfterS !== undefined && { retry_after_s: retryAfterS }),
    },
  });
}
