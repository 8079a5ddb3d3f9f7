/**
 * Agents that wait for a task to become ready, so that they need not ask again and again. Who waits holds nothing: it asks
 * again when something changed, and may find that another agent was faster.
 *
 * One per plugin; `plugin.ts` waits for a claim here and notifies it of what was written.
 */
import type { PlanState } from './plan-state.ts';

/** Agents of one plan that may wait at once; more are answered at once. */
const MAX_WAITING = 1_000;

export class ClaimQueue {
  readonly #waiting = new WeakMap<PlanState, Set<() => void>>();

  /** Resolves when a task for this agent is ready, after `waitMs`, or when the signal aborts. */
  async wait(state: PlanState, agent: string, waitMs: number, signal: AbortSignal): Promise<void> {
    let waiting = this.#waiting.get(state);
    if (waiting === undefined) {
      waiting = new Set();
      this.#waiting.set(state, waiting);
    }
    const all = waiting;
    if (state.nextFor(agent) !== undefined || all.size >= MAX_WAITING) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const check = (): void => {
      if (state.nextFor(agent) !== undefined) resolve();
    };
    const timer = setTimeout(resolve, waitMs);
    const aborted = (): void => resolve();
    signal.addEventListener('abort', aborted, { once: true });
    all.add(check);
    await promise;
    all.delete(check);
    clearTimeout(timer);
    signal.removeEventListener('abort', aborted);
  }

  /** Something changed in a plan. */
  notify(state: PlanState): void {
    for (const check of this.#waiting.get(state) ?? []) check();
  }
}
