/**
 * What becomes of a task that a worker refused: somebody else, later, an operator, or nothing more. A table by reason code,
 * read from left to right; the first step that is possible is taken. Never a silent queue: where no step is possible, an
 * operator is told.
 *
 * Pure. Called by the orchestrator and by the simulation.
 * @see docs/fleet.md#what-happens-to-a-refused-task
 */
import type { BlockedPolicy, BlockedStep } from './orchestrator/orchestrator-options.ts';

const REROUTE_RETRY: readonly BlockedStep[] = ['reroute', 'retry', 'alert'];
const REROUTE: readonly BlockedStep[] = ['reroute', 'alert'];
const FAIL: readonly BlockedStep[] = ['fail'];

/** The policy where the configuration says nothing else. */
export const DEFAULT_BLOCKED_POLICY: BlockedPolicy = {
  max_reroutes: 3,
  max_retries: 3,
  backoff_s: [30, 120, 480],
  table: new Map<string, readonly BlockedStep[]>([
    // Passing: the same worker may take it later.
    ['unhealthy_mcp', REROUTE_RETRY],
    ['busy', REROUTE_RETRY],
    ['draining', REROUTE_RETRY],
    ['dirty_repo', REROUTE_RETRY],
    // Permanent there, perhaps not elsewhere.
    ['missing_mcp', REROUTE],
    ['missing_capability', REROUTE],
    ['auth_required', REROUTE],
    ['executor_missing', REROUTE],
    ['unsupported_version', REROUTE],
    ['unsupported_reply_schema', REROUTE],
    // Wrong with the task itself.
    ['deadline_too_close', ['reroute', 'fail']],
    ['deadline_passed', FAIL],
    ['invalid_dispatch', FAIL],
    ['empty_brief', FAIL],
    ['brief_too_large', FAIL],
    ['duplicate_conflict', FAIL],
    // Not refused at all: that worker has it.
    ['in_flight', ['wait']],
    // Needs a person; like every code not listed.
    ['budget_too_small', ['alert']],
    ['input_required', ['alert']],
  ]),
};

/** The default policy with what the configuration changes; rows of its table replace rows, the others stay. */
export function blockedPolicyOf(changes: Partial<BlockedPolicy> = {}): BlockedPolicy {
  return {
    ...DEFAULT_BLOCKED_POLICY,
    ...Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined)),
    table: new Map([...DEFAULT_BLOCKED_POLICY.table, ...(changes.table ?? [])]),
  };
}

/** What a step is chosen by. */
export interface BlockedInput {
  /** Reason code of the refusal. */
  readonly code: string;
  /** Workers that could take the task now and have not been tried for it. */
  readonly eligible_untried_workers: number;
  readonly reroutes_done: number;
  readonly retries_done: number;
  /** null: no deadline. */
  readonly seconds_to_deadline: number | null;
  /** What the worker itself asked for; a retry is never sooner. */
  readonly retry_after_s?: number | null;
  /** 0…1, a fresh random number: spreads the delay by ±20 %. Left out: no spread. */
  readonly jitter?: number;
}

/** The step to take; `delay_s` (whole seconds) with `retry`, and with `wait` where the worker named one. */
export interface BlockedAction {
  readonly action: BlockedStep;
  readonly delay_s?: number;
}

/** A task tried again must have this much time left when it arrives, seconds: preflight refuses what has less. */
const MIN_LEAD_S = 30;
const SPREAD = 0.2;

/** The first possible step for this refusal. */
export function blockedStep(policy: BlockedPolicy, input: BlockedInput): BlockedAction {
  for (const step of policy.table.get(input.code) ?? []) {
    if (step === 'reroute') {
      if (input.eligible_untried_workers > 0 && input.reroutes_done < policy.max_reroutes) return { action: step };
    } else if (step === 'retry') {
      const delay_s = retryDelay(policy, input);
      const left = input.seconds_to_deadline ?? Number.POSITIVE_INFINITY;
      if (input.retries_done < policy.max_retries && delay_s + MIN_LEAD_S <= left) return { action: step, delay_s };
    } else if (step === 'wait' && typeof input.retry_after_s === 'number') {
      return { action: step, delay_s: Math.ceil(Math.max(0, input.retry_after_s)) };
    } else return { action: step };
  }
  return { action: 'alert' };
}

/** The next delay of the row of delays, whose last one repeats; spread so that what was refused together does not return together. */
function retryDelay({ backoff_s }: BlockedPolicy, input: BlockedInput): number {
  const planned = backoff_s[Math.min(input.retries_done, backoff_s.length - 1)] ?? 0;
  const spread = input.jitter === undefined ? 0 : SPREAD * (2 * input.jitter - 1);
  return Math.ceil(Math.max(planned * (1 + spread), input.retry_after_s ?? 0));
}
