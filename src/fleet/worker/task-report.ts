/**
 * The end of a task in the words of the protocol: from the executor's report, the reason why it was stopped, the measured
 * tokens and files. A pure function.
 *
 * Measured values stand beside the model's claims, and win. Unfinished work is never reported as done.
 */

import { isAbsolute, normalize, relative } from 'node:path';
import type { AnswerCheck } from '../../base/value-check.ts';
import type { Blocked, TaskResult, Usage } from '../../protocol/fleet.ts';
import type { ExecutorOutcome } from '../executors/executor.ts';
import { tokensSpent } from '../executors/usage.ts';
import type { Dispatched } from '../messages/decoded.ts';
import type { Body } from '../messages/encode.ts';
import type { Extracted } from '../phases/reply.ts';
import type { TreeChanges } from './repository/git.ts';

/** Reason why the worker stopped an executor. */
export interface Stop {
  readonly kind: 'canceled' | 'deadline' | 'turn_timeout' | 'budget' | 'lease_lost' | 'shutdown' | 'unhealthy_mcp';
  /** One sentence for people. */
  readonly why: string;
  /** `unhealthy_mcp` only. */
  readonly missing?: readonly string[];
}

export interface ReportInput {
  readonly dispatch: Dispatched;
  readonly extracted: Extracted;
  readonly outcome: ExecutorOutcome;
  readonly stop: Stop | undefined;
  /** Usage of all turns. */
  readonly usage: Usage;
  readonly countCacheReads: boolean;
  /** undefined: the folder has no repository. */
  readonly changes: TreeChanges | undefined;
  /** The folder it worked in, absolute. */
  readonly cwd: string;
  /** The task's own worktree, when it stays. */
  readonly worktree?: string;
  /** True when it had a worktree, which was removed: nothing was in it that is not in the repository. */
  readonly worktreeRemoved?: boolean;
  /** undefined: no schema was given. */
  readonly answer: AnswerCheck | undefined;
}

/** Share, in percent, by which a claim may differ from the measured value before it is shown. */
const CLAIM_PERCENT = 20;

/** Returns the result, without envelope. */
export function reportOf(input: ReportInput): Body<TaskResult> {
  const { dispatch, extracted, answer } = input;
  const claimed = extracted.result;
  const { tokens_spent, usage } = accountOf(input);
  return {
    task_id: dispatch.task_id,
    ...endingOf(input),
    tokens_spent,
    usage,
    ...(claimed?.summary != null && { summary: claimed.summary }),
    artifacts: artifactsOf(input),
    // One that does not fit its schema is shown in the prose only: a caller must not mistake it for a valid answer.
    ...(answer?.ok === true && answer.answer !== undefined && { answer: answer.answer }),
    ...proseOf(input),
    conformance: extracted.conformance,
  };
}

/** Returns the reply beside the result; all of it where the reply has nothing else. */
function proseOf({ extracted, outcome, answer }: ReportInput): Pick<TaskResult, 'prose'> {
  const prose = answer?.ok === false || outcome.failure !== undefined ? outcome.text : extracted.prose;
  return prose.trim() === '' ? {} : { prose };
}

type Ending = Pick<TaskResult, 'status' | 'next_steps' | 'blocked_reason' | 'error_summary' | 'blocked'>;

const CONFIRM = 'Review what was changed so far, then continue in the same context or start again.';

function endingOf(input: ReportInput): Ending {
  const { stop, outcome, extracted, answer } = input;
  const block = hasBlock(extracted) ? extracted.result : null;
  const finished = outcome.ending === 'completed' && outcome.failure === undefined;
  // It had ended by itself before the stop reached it.
  if (stop !== undefined && !(finished && block !== null)) return stopped(input, stop);
  if (outcome.failure !== undefined) return failed(outcome.failure);
  if (outcome.ending === 'refused') return failed('executor refused');
  if (outcome.ending === 'stopped') return failed('the executor was stopped');
  if (outcome.ending === 'limit' && block === null) return partial(['The turn limit was reached.', CONFIRM]);
  const { result, conformance } = extracted;
  if (result === null) {
    if (conformance === 'busy') return blocked('busy', 'the executor says that it is busy', true);
    return partial(['The executor put the task off and has not done it.', CONFIRM]);
  }
  if (answer?.ok === false && result.status === 'done') {
    const problems = answer.problems.slice(0, 10).join('; ');
    return partial([`The answer does not fit its schema: ${problems}`, ...result.next_steps]);
  }
  return {
    status: result.status,
    next_steps: result.next_steps,
    ...(result.blocked_reason !== null && { blocked_reason: result.blocked_reason }),
    ...(result.error_summary !== undefined && { error_summary: result.error_summary }),
    ...(result.blocked !== null && { blocked: result.blocked }),
  };
}

function stopped(input: ReportInput, { kind, why, missing }: Stop): Ending {
  const steps = input.extracted.result?.next_steps ?? [];
  const own = hasBlock(input.extracted) ? steps : [];
  switch (kind) {
    case 'unhealthy_mcp':
      return blocked('unhealthy_mcp', why, true, missing);
    case 'budget':
    case 'deadline':
    case 'turn_timeout':
      return partial([...own, `${why} ${CONFIRM}`]);
    default: {
      const { files_changed = [], files_outside = [] } = input.changes ?? {};
      const left = hasBlock(input.extracted) || files_changed.length + files_outside.length > 0;
      return left ? partial([...own, `${why} ${CONFIRM}`]) : failed(kind === 'canceled' ? `canceled: ${why}` : why);
    }
  }
}

/** True when the model itself reported a result. */
export const hasBlock = ({ source, result }: Extracted): boolean =>
  result !== null && source !== 'fallback' && source !== 'sentinel';

const failed = (summary: string): Ending => ({ status: 'error', next_steps: [], error_summary: summary });
const partial = (steps: readonly string[]): Ending => ({ status: 'partial', next_steps: steps });

function blocked(code: string, detail: string, retryable: boolean, missing?: readonly string[]): Ending {
  const more: Blocked = { code, retryable, ...(missing !== undefined && missing.length > 0 && { missing }) };
  return { status: 'blocked', next_steps: [], blocked_reason: `${code}: ${detail}`, blocked: more };
}

/** Returns the tokens: measured, else as the provider reports, else as the model claims, else unknown. */
function accountOf({ usage, extracted, countCacheReads }: ReportInput): Pick<TaskResult, 'tokens_spent' | 'usage'> {
  const claimed = extracted.result?.tokens_spent ?? null;
  const tokens_spent = tokensSpent(usage, countCacheReads);
  if (tokens_spent === null) {
    if (claimed === null) return { tokens_spent: null, usage: { source: 'unknown' } };
    return { tokens_spent: claimed, usage: { source: 'claimed' } };
  }
  const off = claimed !== null && Math.abs(claimed - tokens_spent) * 100 > tokens_spent * CLAIM_PERCENT;
  return { tokens_spent, usage: off ? { ...usage, claimed } : usage };
}

/** Artifacts that are the worker's own findings: a model's words for them count for nothing. */
const FINDINGS = [
  'base_commit',
  'head_commit',
  'branch',
  'clean',
  'worktree',
  'worktree_removed',
  'files_outside',
  'files_claimed',
  'files_measured',
  'files_truncated',
  'warnings',
  'late',
  'crashes',
  'dirty_files',
] as const;

/** Returns the files: those that git measured and those that the model named, together; the claim apart where it differs. */
function artifactsOf(input: ReportInput): Record<string, unknown> {
  const { extracted, outcome, changes, cwd, worktree, worktreeRemoved = false, stop } = input;
  const claims = Object.fromEntries(extracted.result?.more_artifacts ?? []);
  for (const name of FINDINGS) delete claims[name];
  const artifacts: Record<string, unknown> = { ...claims, ...outcome.facts };
  if (outcome.warnings !== undefined && outcome.warnings.length > 0) artifacts.warnings = outcome.warnings;
  if (stop?.kind === 'lease_lost') artifacts.late = 'lease_lost';
  if (changes !== undefined) {
    const { base_commit, head_commit, branch, clean, files_changed, files_outside, truncated } = changes;
    Object.assign(artifacts, { base_commit, head_commit, branch, clean });
    if (files_outside !== undefined) artifacts.files_outside = files_outside;
    const claimed = fromFolder(extracted.result?.artifacts.files_changed ?? [], cwd);
    const measured = new Set(files_changed);
    artifacts.files_changed = [...new Set([...files_changed, ...claimed])];
    if (claimed.length > 0 && (claimed.length !== measured.size || claimed.some((file) => !measured.has(file)))) {
      artifacts.files_claimed = claimed;
    }
    artifacts.files_measured = files_changed.length;
    if (truncated) artifacts.files_truncated = true;
  }
  if (worktree !== undefined) artifacts.worktree = worktree;
  if (worktreeRemoved) artifacts.worktree_removed = true;
  return artifacts;
}

/** Returns the paths that a model names, from the folder it works in: it also writes absolute ones, and `./a` for `a`. */
const fromFolder = (files: readonly string[], cwd: string): string[] => [
  ...new Set(
    files.map((file) => {
      const path = isAbsolute(file) ? relative(cwd, file) : normalize(file);
      return path === '' || path === '.' ? file : path;
    }),
  ),
];

/** Returns the sum of several turns. Unknown as soon as one of them is: a part would look like the whole. */
export function sumUsage(turns: readonly Usage[]): Usage {
  const [first, ...rest] = turns;
  if (first === undefined) return { source: 'unknown' };
  if (rest.length === 0) return first;
  if (turns.some(({ source }) => source === 'unknown')) return { source: 'unknown' };
  const sum: Record<string, number> = {};
  for (const turn of turns) {
    for (const part of ['input', 'output', 'reasoning', 'cache_read', 'cache_write', 'cost_usd'] as const) {
      const more = turn[part];
      if (more !== undefined) sum[part] = (sum[part] ?? 0) + more;
    }
  }
  return { source: first.source, ...sum };
}
