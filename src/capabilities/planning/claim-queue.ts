/**
 * Queues claims that wait for a task to become ready, in the order of their arrival. A change wakes one claim for each task
 * that suits it, and costs by the tasks that became ready: not by the waiting claims, nor by tasks that are assigned to others.
 *
 * One queue per plugin. A waiting claim holds nothing: once woken it tries again, and continues to wait if another agent was
 * faster.
 */

import type { CallContext } from '../../host/context.ts';
import { waiting } from '../../host/waiting.ts';

/** Claims of one plan that may wait; the queue attempts further ones once, without waiting. */
const MAX_WAITING = 1_000;

interface Waiter {
  readonly agent: string;
  readonly wake: () => void;
  /** The assignee whose task it was woken for. Undefined: it was not woken for a task. */
  wokenFor?: string;
}

interface WaitingPlan {
  /** All waiting claims, the first one first. */
  readonly all: Set<Waiter>;
  readonly byAgent: Map<string, Set<Waiter>>;
  /** Claims that were woken for a task of an assignee and have not ended yet. */
  readonly awake: Map<string, number>;
}

export interface ClaimWait {
  readonly planId: string;
  readonly agent: string;
  /** Milliseconds. */
  readonly waitMs: number;
  readonly context: Pick<CallContext, 'signal' | 'yieldSlot'>;
}

export class ClaimQueue {
  readonly #readyFor: (planId: string, assignee: string) => number;
  readonly #plans = new Map<string, WaitingPlan>();

  /** @param readyFor returns the number of ready tasks of a plan that are assigned to a name, or to none ('') */
  constructor(readyFor: (planId: string, assignee: string) => number) {
    this.#readyFor = readyFor;
  }

  /** Claims until a task is found, the time is over, or the signal aborts. Rejects with the error of the claim. */
  async claim<Reply extends { readonly task: object | null }>(
    { planId, agent, waitMs, context }: ClaimWait,
    attempt: () => Promise<Reply>,
  ): Promise<Reply> {
    const { signal } = context;
    const until = performance.now() + waitMs;
    let reply = await attempt();
    while (reply.task === null && !signal.aborted) {
      const leftMs = until - performance.now();
      if (leftMs <= 0 || (this.#plans.get(planId)?.all.size ?? 0) >= MAX_WAITING) break;
      const wokenFor = await waiting(context, this.#wait(planId, agent, leftMs, signal));
      try {
        // An aborted caller is no longer there to do the task.
        if (!signal.aborted) reply = await attempt();
      } finally {
        if (wokenFor !== undefined) this.#ended(planId, wokenFor);
      }
    }
    return reply;
  }

  /** Wakes claims for tasks of these assignees, which became ready in a plan, or may have. */
  notify(planId: string, assignees: Iterable<string>): void {
    const plan = this.#plans.get(planId);
    if (plan === undefined) return;
    for (const assignee of assignees) this.#wake(planId, plan, assignee);
  }

  /** Wakes the claims of a removed plan: they try again, and are refused. */
  removed(planId: string): void {
    for (const waiter of this.#plans.get(planId)?.all ?? []) waiter.wake();
  }

  /** Resolves with the assignee whose task it was woken for. */
  async #wait(planId: string, agent: string, waitMs: number, signal: AbortSignal): Promise<string | undefined> {
    // A task that became ready between the last attempt and now woke no claim.
    if (this.#readyFor(planId, '') + this.#readyFor(planId, agent) > 0) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiter: Waiter = { agent, wake: resolve };
    this.#add(planId, waiter);
    const timer = setTimeout(resolve, waitMs);
    signal.addEventListener('abort', resolve as () => void, { once: true });
    await promise;
    clearTimeout(timer);
    signal.removeEventListener('abort', resolve as () => void);
    this.#remove(planId, waiter);
    return waiter.wokenFor;
  }

  /** Wakes the first claims that fit, one for each task that no woken claim is about to get. */
  #wake(planId: string, plan: WaitingPlan, assignee: string): void {
    const waiting = assignee === '' ? plan.all : plan.byAgent.get(assignee);
    if (waiting === undefined || waiting.size === 0) return;
    let free = this.#readyFor(planId, assignee) - (plan.awake.get(assignee) ?? 0);
    for (const waiter of waiting) {
      if (free <= 0) return;
      free -= 1;
      waiter.wokenFor = assignee;
      plan.awake.set(assignee, (plan.awake.get(assignee) ?? 0) + 1);
      this.#remove(planId, waiter);
      waiter.wake();
    }
  }

  /** Records that a woken claim ended, with the task it was woken for or without: the next wake may be for another. */
  #ended(planId: string, assignee: string): void {
    const plan = this.#plans.get(planId);
    if (plan === undefined) return;
    const awake = (plan.awake.get(assignee) ?? 1) - 1;
    if (awake > 0) plan.awake.set(assignee, awake);
    else plan.awake.delete(assignee);
    this.#wake(planId, plan, assignee);
    this.#dropEmpty(planId, plan);
  }

  #add(planId: string, waiter: Waiter): void {
    let plan = this.#plans.get(planId);
    if (plan === undefined) {
      plan = { all: new Set(), byAgent: new Map(), awake: new Map() };
      this.#plans.set(planId, plan);
    }
    plan.all.add(waiter);
    const own = plan.byAgent.get(waiter.agent);
    if (own === undefined) plan.byAgent.set(waiter.agent, new Set([waiter]));
    else own.add(waiter);
  }

  #remove(planId: string, waiter: Waiter): void {
    const plan = this.#plans.get(planId);
    if (plan === undefined || !plan.all.delete(waiter)) return;
    const own = plan.byAgent.get(waiter.agent);
    own?.delete(waiter);
    if (own?.size === 0) plan.byAgent.delete(waiter.agent);
    this.#dropEmpty(planId, plan);
  }

  #dropEmpty(planId: string, { all, awake }: WaitingPlan): void {
    if (all.size + awake.size === 0) this.#plans.delete(planId);
  }
}
