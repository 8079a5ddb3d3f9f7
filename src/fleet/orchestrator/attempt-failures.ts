/**
 * Decides the next step after a failed attempt (refused, unreachable, lost): reroute, retry, fail, or park for an operator. No
 * task is run twice automatically unless a second run does no harm or the first did not start.
 * @see docs/fleet.md#blocked-task-policy
 */
import { counted } from '../../base/counted.ts';
import type { Log } from '../../base/log.ts';
import type { TaskResult } from '../../protocol/fleet.ts';
import { type BlockedAction, type BlockedPolicy, blockedStep } from '../blocked-policy.ts';
import type { Explanation } from '../route/profile.ts';
import type { Router } from '../route/router.ts';
import { isSameProcess } from './peer-profile.ts';
import type { Peers } from './peers.ts';
import type { TaskRecord } from './task.ts';
import { routeTaskOf } from './task-record.ts';
import type { TaskRegistry, TrackedTask } from './task-registry.ts';

/** Time that a task waits for a worker that has it already and names no time, seconds. */
const WAIT_S = 30;

export interface AttemptFailuresOptions {
  readonly registry: TaskRegistry;
  readonly peers: Peers;
  readonly router: Router;
  readonly policy: BlockedPolicy;
  readonly now: () => number;
  readonly monotonic: () => number;
  readonly random: () => number;
  readonly log: Log;
}

/** Reason why an attempt ended before it started. */
export interface AttemptFailure {
  readonly outcome: 'unreachable' | 'busy' | 'unknown';
  /** Row of the policy. */
  readonly code: string;
  readonly reason: string;
  readonly retryAfterS?: number;
}

export class AttemptFailures {
  readonly #options: AttemptFailuresOptions;

  constructor(options: AttemptFailuresOptions) {
    this.#options = options;
  }

  /** Handles a task that its worker refused in a result. */
  blocked(tracked: TrackedTask): void {
    const { registry, peers } = this.#options;
    const { record } = tracked;
    const { result } = record;
    const worker = this.#refuser(record);
    if (record.cancel_requested) return void registry.apply(tracked, { type: 'canceled', reason: 'canceled' });
    const code = codeOf(result);
    const reason = result?.blocked_reason ?? code;
    const step = this.#step(record, code, result?.blocked?.retry_after_s);
    switch (step.action) {
      case 'reroute':
        registry.apply(tracked, {
          type: 'requeued',
          cause: 'reroute',
          ...(worker !== null && { exclude: { worker, marker: peers.marker(worker) } }),
        });
        return;
      case 'retry':
      case 'wait':
        registry.apply(tracked, { type: 'requeued', cause: 'retry', not_before: this.#after(step) });
        return;
      case 'fail':
        registry.apply(tracked, { type: 'failed', reason });
        return;
      case 'alert':
        this.#park(tracked, reason);
    }
  }

  /** Handles an attempt that could not start; nothing was run. */
  released(tracked: TrackedTask, { outcome, code, reason, retryAfterS }: AttemptFailure): void {
    const { registry, peers } = this.#options;
    const { record } = tracked;
    const worker = this.#refuser(record);
    const event = { type: 'released', outcome, reason } as const;
    const { action, ...rest } = this.#step(record, code, retryAfterS);
    if (record.cancel_requested) {
      registry.apply(tracked, { type: 'canceled', reason: 'canceled' });
    } else if (action === 'reroute') {
      registry.apply(tracked, {
        ...event,
        cause: 'reroute',
        ...(worker !== null && { exclude: peers.marker(worker) }),
      });
    } else if (action === 'retry') {
      registry.apply(tracked, { ...event, cause: 'retry', not_before: this.#after({ action, ...rest }) });
    } else if (action === 'wait') {
      registry.apply(tracked, { ...event, not_before: this.#after({ action, ...rest }) });
    } else {
      // It must not be routed between the two.
      registry.apply(tracked, { ...event, not_before: Number.MAX_SAFE_INTEGER });
      if (action === 'fail') registry.apply(tracked, { type: 'failed', reason });
      else this.#park(tracked, reason);
    }
  }

  /**
   * Handles a task whose requirements no worker meets: it waits by the policy, or for an operator. Nothing was sent, and
   * nothing spent.
   */
  unroutable(tracked: TrackedTask, code: string, explanation: Explanation): void {
    const { registry } = this.#options;
    const step = this.#step(tracked.record, code);
    if (step.action === 'retry' || step.action === 'wait') {
      const not_before = this.#after(step);
      const next_attempt_at = new Date(not_before).toISOString();
      registry.apply(tracked, {
        type: 'decided',
        explanation: { ...explanation, next_attempt_at },
        not_before,
        cause: 'retry',
      });
      return;
    }
    registry.apply(tracked, { type: 'decided', explanation });
    this.#park(tracked, `${code}: ${explanation.sentence}`);
  }

  /** Handles a task that its worker has never received: retried at once the first time, by policy after that. */
  unknownToWorker(tracked: TrackedTask): void {
    const { registry } = this.#options;
    const { record } = tracked;
    const reason = 'the worker has never received it';
    if (record.cancel_requested) registry.apply(tracked, { type: 'canceled', reason: 'canceled' });
    else if (record.attempts.some(({ outcome }) => outcome === 'unknown')) {
      this.released(tracked, { outcome: 'unknown', code: 'busy', reason });
    } else registry.apply(tracked, { type: 'released', outcome: 'unknown', reason });
  }

  /** Handles a lost attempt: the lease ran out, or the worker returned without knowing how the attempt ended. */
  lost(tracked: TrackedTask, reason: string, result?: TaskResult): void {
    const { registry, log } = this.#options;
    const advanced = registry.apply(tracked, { type: 'lost', reason, ...(result !== undefined && { result }) });
    if (advanced.outcome !== 'changed') return;
    const { worker, attempt } = tracked.record;
    log.warn('an attempt was lost', { task_id: tracked.id, worker, attempt, reason });
    this.afterLoss(tracked, reason);
  }

  /** Decides about a task whose attempt was lost; also after a restart that came in between. */
  afterLoss(tracked: TrackedTask, reason: string): void {
    const { registry, policy, now } = this.#options;
    const { record } = tracked;
    const { retry_safe, deadline } = record.spec;
    if (record.cancel_requested) registry.apply(tracked, { type: 'canceled', reason });
    else if (deadline !== null && Date.parse(deadline) <= now()) {
      registry.apply(tracked, { type: 'failed', reason: `deadline_passed: ${reason}` });
    } else if (retry_safe && record.retries < policy.max_retries) {
      registry.apply(tracked, { type: 'requeued', cause: 'retry' });
    } else {
      const why = retry_safe ? `lost ${counted(record.retries + 1, 'time')}` : 'lost, and a second run may do harm';
      this.#park(tracked, `${why}: ${reason}`);
    }
  }

  #park(tracked: TrackedTask, reason: string): void {
    this.#options.registry.apply(tracked, { type: 'parked', reason });
    this.#options.log.warn('a task waits for an operator', { task_id: tracked.id, reason });
  }

  #step(record: TaskRecord, code: string, retryAfterS?: number): BlockedAction {
    const { peers, router, policy, now, monotonic, random } = this.#options;
    const excluded = new Set(peers.excludedOf(record.excluded));
    const refuser = this.#refuser(record);
    if (refuser !== null) excluded.add(refuser);
    const at = { nowMs: monotonic(), wallMs: now(), excluded };
    const { deadline, worker } = record.spec;
    return blockedStep(policy, {
      code,
      // A worker that has not announced yet may be able to: right after a start that is every worker.
      eligible_untried_workers:
        router.eligible(routeTaskOf(record), at) || (worker === null ? peers.joining(excluded) : 0),
      reroutes_done: record.reroutes,
      retries_done: record.retries,
      seconds_to_deadline: deadline === null ? null : (Date.parse(deadline) - now()) / 1000,
      retry_after_s: retryAfterS ?? null,
      jitter: random(),
    });
  }

  /** Returns the worker that had the attempt; null when it was restarted since: the refusal was about the process before. */
  #refuser({ worker, attempts }: TaskRecord): string | null {
    const entry = worker === null ? undefined : this.#options.peers.get(worker);
    return entry === undefined || isSameProcess(attempts.at(-1), entry) ? worker : null;
  }

  #after({ delay_s = WAIT_S }: BlockedAction): number {
    return this.#options.now() + delay_s * 1000;
  }
}

/** Returns the reason code of a refusal: the structured one, else the word before the colon. */
function codeOf(result: TaskResult | null): string {
  return result?.blocked?.code ?? /^([a-z][a-z_]*):/.exec(result?.blocked_reason ?? '')?.[1] ?? 'unknown';
}
