/**
 * The next step for a task that a worker refused: another worker, a later retry, an operator, or failure. A table by reason
 * code, read from left to right; the first possible step is taken. Where no step is possible, an operator is alerted.
 *
 * Pure. Programs import it from `handfast/fleet`.
 * @see docs/fleet.md#blocked-task-policy
 */
/** Step for a task that was refused, by reason code. */
export type BlockedStep = 'reroute' | 'retry' | 'wait' | 'alert' | 'fail';

export interface BlockedPolicy {
  readonly max_reroutes: number;
  readonly max_retries: number;
  readonly backoff_s: readonly number[];
  /** Code → steps, the first possible one is taken. A code not listed: `alert`. */
  readonly table: ReadonlyMap<string, readonly BlockedStep[]>;
}

const REROUTE_RETRY: readonly BlockedStep[] = ['reroute', 'retry', 'alert'];
const REROUTE: readonly BlockedStep[] = ['reroute', 'alert'];
const FAIL: readonly BlockedStep[] = ['fail'];

/** The policy without configuration. */
export const DEFAULT_BLOCKED_POLICY: BlockedPolicy = {
  max_reroutes: 3,
  max_retries: 3,
  backoff_s: [30, 120, 480],
  table: new Map<string, readonly BlockedStep[]>([
    // Transient: the same worker may accept it later.
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
    // Not refused: that worker runs it.
    ['in_flight', ['wait']],
    // Needs an operator, like every code not listed.
    ['budget_too_small', ['alert']],
    ['input_required', ['alert']],
  ]),
};

/** Returns the default policy with the changes of the configuration; rows of its table replace rows, the others stay. */
export function blockedPolicyOf(changes: Partial<BlockedPolicy> = {}): BlockedPolicy {
  return {
    ...DEFAULT_BLOCKED_POLICY,
    ...Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined)),
    table: new Map([...DEFAULT_BLOCKED_POLICY.table, ...(changes.table ?? [])]),
  };
}

/** The facts that decide on a step. */
export interface BlockedInput {
  /** Reason code of the refusal. */
  readonly code: string;
  /** Eligible workers that have not been tried for the task. */
  readonly eligible_untried_workers: number;
  readonly reroutes_done: number;
  readonly retries_done: number;
  /** null: no deadline. */
  readonly seconds_to_deadline: number | null;
  /** The delay that the worker asked for; a retry is never sooner. */
  readonly retry_after_s?: number | null;
  /** 0…1, a fresh random number: spreads the delay by ±20 %. Left out: no spread. */
  readonly jitter?: number;
}

/** The step to take; `delay_s` (whole seconds) with `retry`, and with `wait` where the worker named one. */
export interface BlockedAction {
  readonly action: BlockedStep;
  readonly delay_s?: number;
}

/** A task tried again must have this much time left when it arrives, seconds: preflight refuses a task with less. */
const MIN_LEAD_S = 30;
const SPREAD = 0.2;

/** Returns the first possible step for this refusal. */
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

/**
 * Returns the next delay of the list, whose last one repeats; spread so that tasks refused together are not retried together.
 */
function retryDelay({ backoff_s }: BlockedPolicy, input: BlockedInput): number {
  const planned = backoff_s[Math.min(input.retries_done, backoff_s.length - 1)] ?? 0;
  const spread = input.jitter === undefined ? 0 : SPREAD * (2 * input.jitter - 1);
  return Math.ceil(Math.max(planned * (1 + spread), input.retry_after_s ?? 0));
}
