/**
 * Phase 4: decides whether the worker accepts a dispatch, before a token is spent. Pure; the checks run in the order of the
 * table, and the first one that fails decides.
 *
 * Names are compared in their canonical form, in any spelling. The facts are freshly probed; the executor starts only after an
 * acceptance. Permanent reasons come before transient ones, so that no task waits for a worker that can never accept it.
 * @see docs/protocol/fleet.md#preflight
 */
import { counted } from '../../base/counted.ts';
import type { Status, TaskResult } from '../../protocol/fleet.ts';
import { shortPath } from '../../wire/check.ts';
import type { Dispatched, Finding, RepoState } from '../messages/decoded.ts';
import { resultMessage } from '../messages/encode.ts';
import { canonicalName } from '../messages/names.ts';

/** Concurrent turns of a worker without a configured limit. */
export const DEFAULT_MAX_CONCURRENT = 3;
/** Minimum time before the deadline for a worker without a configured minimum, seconds. */
const DEFAULT_MIN_LEAD_S = 30;

/** The entry of a task in the worker's journal. */
export interface JournalFact {
  readonly state: 'running' | 'finished';
  /** The stored digest equals the digest of this dispatch. */
  readonly digestMatches: boolean;
  /** Status of the result, when it has ended. */
  readonly status?: Status;
  /** null or absent: unknown. */
  readonly tokensSpent?: number | null;
}

/** The current state of the worker. Names in any spelling. */
export interface PreflightFacts {
  readonly tools: readonly string[];
  readonly mcpServers: readonly string[];
  /** Name → health. A server without an entry is `unknown`. */
  readonly mcpHealth: ReadonlyMap<string, string>;
  /** Turns running or accepted. */
  readonly activeTasks: number;
  /** Default 3. */
  readonly maxConcurrent?: number;
  readonly executorPresent: boolean;
  /** Absent: unknown, which is no reason to refuse. */
  readonly executorAuthenticated?: boolean;
  /** null: no repository. */
  readonly repoState: RepoState | null;
  /** Some of its paths that differ from the commit, for people. */
  readonly uncommitted?: string;
  /** Tokens an empty first turn costs; null: unknown. */
  readonly overheadTokens: number | null;
  readonly draining: boolean;
  /** Undefined: this task is new to the worker. */
  readonly journalEntry?: JournalFact;
  /** Context that made the uncommitted changes of the working tree; its own tasks may continue them. */
  readonly contextId: string | null;
  /** Context of the dispatch. */
  readonly dispatchContextId: string | null;
  /** The task gets a separate worktree, so that uncommitted changes elsewhere do not matter. */
  readonly ownWorktree?: boolean;
  /** Minimum time before the deadline, seconds. Default 30. */
  readonly minLeadS?: number;
  /**
   * Milliseconds that the sender's clock is ahead of this worker's; the deadline is a time of the sender's clock. Default 0.
   */
  readonly skewMs?: number;
}

/** The reason a dispatch is refused. */
export interface Refusal {
  readonly accept: false;
  readonly code: string;
  /** Text after the code in `blocked_reason`, for people. */
  readonly detail: string;
  /** The same dispatch may be accepted later, unchanged. */
  readonly retryable: boolean;
  /** Canonical names of the items that are missing or not healthy. */
  readonly missing: readonly string[];
  /** `blocked`; for `replay` the status of the stored result; null for `in_flight`, where none is stored yet. */
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

/** Finding → code of the refusal; the first match counts. */
const INVALID: readonly (readonly [refusal: string, code: string, path: string])[] = [
  ['unsupported_version', 'E_VERSION_UNSUPPORTED', '/protocol_version'],
  ['unsupported_reply_schema', 'E_ENUM', '/task/reply_schema'],
  ['empty_brief', 'E_REQUIRED', '/brief'],
  ['brief_too_large', 'E_LIMIT', '/brief'],
];

/** Findings listed in a refusal at most. */
const MAX_LISTED = 5;

/** Returns the refusal of a dispatch that has errors. */
function invalid(errors: readonly Finding[]): Refusal {
  const row = INVALID.find(([, code, path]) => errors.some((error) => error.code === code && error.path === path));
  const listed = errors
    .slice(0, MAX_LISTED)
    .map(({ code, path }) => (path === '' ? code : `${code} at ${shortPath(path)}`));
  const more = errors.length > MAX_LISTED ? ` and ${errors.length - MAX_LISTED} more` : '';
  return refuse(row?.[0] ?? 'invalid_dispatch', `${listed.join(', ')}${more}`);
}

/** Returns the refusal of a task that is in the journal already. */
function seenBefore({ state, digestMatches, status, tokensSpent }: JournalFact): Refusal {
  if (!digestMatches) return refuse('duplicate_conflict', 'the worker has accepted another task with this task_id');
  if (state === 'running') {
    return { ...refuse('in_flight', 'this task is running', true), status: null };
  }
  return {
    ...refuse('replay', 'this task has ended; its result is sent again'),
    status: status ?? null,
    tokensSpent: tokensSpent ?? null,
  };
}

const inSeconds = (ms: number): string => `${Math.floor(ms / 1000)} s`;

function lateness(deadline: string | null, facts: PreflightFacts, nowMs: number): Refusal | undefined {
  if (deadline === null) return undefined;
  // The deadline is a time of the sender's clock.
  const left = Date.parse(deadline) - (nowMs + (facts.skewMs ?? 0));
  const lead = facts.minLeadS ?? DEFAULT_MIN_LEAD_S;
  if (left <= 0) return refuse('deadline_passed', `the deadline was ${deadline}`);
  if (left < lead * 1000) return refuse('deadline_too_close', `${inSeconds(left)} left, min_lead_s is ${lead}`);
  return undefined;
}

const EXECUTOR_DETAIL = {
  executor_missing: 'its program was not found',
  auth_required: 'its agent is not signed in',
} as const;

/** Returns the reason why the executor can run no task at all; undefined: none is known. */
export function executorReason(
  present: boolean,
  authenticated: boolean | undefined,
): keyof typeof EXECUTOR_DETAIL | undefined {
  if (!present) return 'executor_missing';
  return authenticated === false ? 'auth_required' : undefined;
}

const without = (wanted: readonly string[], present: readonly string[]): readonly string[] => {
  if (wanted.length === 0) return NOTHING;
  const names = new Set(present.map(canonicalName));
  return wanted.filter((name) => !names.has(name));
};

const canonical = (names: readonly string[]): readonly string[] =>
  names.length === 0 ? NOTHING : [...new Set(names.map(canonicalName))];

/** Returns the health by canonical name. Of two spellings of one server, the one that is not healthy counts. */
function healthOf(servers: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const health = new Map<string, string>();
  for (const [server, state] of servers) {
    const name = canonicalName(server);
    const known = health.get(name);
    if (known === undefined || known === 'ok') health.set(name, canonicalName(state));
  }
  return health;
}

function unmet(dispatch: Dispatched, facts: PreflightFacts): Refusal | undefined {
  const { token_budget } = dispatch;
  const required_mcp = canonical(dispatch.required_mcp);
  const required_capabilities = canonical(dispatch.required_capabilities);
  const absent = without(required_mcp, facts.mcpServers);
  if (absent.length > 0) return refuse('missing_mcp', absent.join(', '), false, absent);
  const found = required_mcp.length === 0 ? facts.mcpHealth : healthOf(facts.mcpHealth);
  const health = (server: string): string => found.get(server) ?? 'unknown';
  const unhealthy = required_mcp.filter((server) => health(server) !== 'ok');
  if (unhealthy.length > 0) {
    const states = unhealthy.map((server) => `${server}=${health(server)}`).join(', ');
    return refuse('unhealthy_mcp', states, true, unhealthy);
  }
  const lacking = without(required_capabilities, facts.tools);
  if (lacking.length > 0) return refuse('missing_capability', lacking.join(', '), false, lacking);
  if (token_budget !== null && facts.overheadTokens !== null && token_budget < facts.overheadTokens) {
    const detail = `the budget is ${token_budget} tokens, and an empty turn costs ${facts.overheadTokens}`;
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
 * Decides on a dispatch, or on the errors of an invalid one. `nowMs`: epoch milliseconds at which it was received.
 */
export function preflight(dispatch: Dispatched | readonly Finding[], facts: PreflightFacts, nowMs: number): Preflight {
  if (isErrors(dispatch)) return invalid(dispatch);
  if (facts.journalEntry !== undefined) return seenBefore(facts.journalEntry);
  if (facts.draining) return refuse('draining', 'the worker is shutting down', true);
  const late = lateness(dispatch.deadline, facts, nowMs);
  if (late !== undefined) return late;
  const unfit = executorReason(facts.executorPresent, facts.executorAuthenticated);
  if (unfit !== undefined) return refuse(unfit, EXECUTOR_DETAIL[unfit]);
  const requirement = unmet(dispatch, facts);
  if (requirement !== undefined) return requirement;
  if (isDirty(dispatch, facts)) {
    const { repoState, uncommitted = '' } = facts;
    const where = repoState?.branch ?? 'a detached head';
    return refuse('dirty_repo', `uncommitted changes on ${where}${uncommitted && `: ${uncommitted}`}`, true);
  }
  const most = facts.maxConcurrent ?? DEFAULT_MAX_CONCURRENT;
  if (facts.activeTasks >= most) return refuse('busy', `${facts.activeTasks} of ${counted(most, 'task')}`, true);
  return ACCEPTED;
}

const isErrors = (dispatch: Dispatched | readonly Finding[]): dispatch is readonly Finding[] => Array.isArray(dispatch);

/**
 * Returns the result of a refused dispatch: blocked, with no token spent. Not for `replay`, which sends the stored result, nor
 * for `in_flight`, which is reported as busy.
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
