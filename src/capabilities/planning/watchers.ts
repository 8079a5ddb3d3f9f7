/**
 * Subscriptions to plans. Each has a cursor and reads the stored entries behind it, as fast as its reader accepts: nothing is
 * buffered for a slow reader, and every entry it gets is on disk. Rights are checked again for every page, so that a share that
 * ended ends the stream.
 *
 * A lost link is replayed by the journal of the session, like every stream.
 */
import type { CallContext } from '../../host/context.ts';
import { asError } from '../../wire/errors.ts';
import type { Caller, LoadedPlan, Plans } from './plans.ts';
import type { StoredEntry } from './stored.ts';

/** Entries read at a time. */
const PAGE = 100;

interface Watcher {
  readonly caller: Caller;
  /** The plan; empty: every plan the caller may read. */
  readonly planId: string;
  /** The last entry that was sent, by plan. */
  readonly cursors: Map<string, number>;
  /** Plans with entries behind their cursor. */
  readonly dirty: Set<string>;
  wake: () => void;
}

export class Watchers {
  readonly #plans: () => Plans;
  readonly #all = new Set<Watcher>();

  constructor(plans: () => Plans) {
    this.#plans = plans;
  }

  /** Follows a plan, or all plans, after the reply of a request that keeps its stream. */
  watch(context: CallContext, caller: Caller, planId: string, after: number): void {
    const watcher: Watcher = { caller, planId, cursors: new Map(), dirty: new Set(), wake: () => {} };
    if (planId !== '') {
      watcher.cursors.set(planId, after);
      watcher.dirty.add(planId);
    }
    this.#all.add(watcher);
    context.signal.addEventListener('abort', () => watcher.wake(), { once: true });
    void this.#follow(watcher, context)
      .catch((thrown: unknown) => context.signal.aborted || context.finishStream(asError(thrown)))
      .finally(() => this.#all.delete(watcher));
  }

  /** Notifies the watchers of a plan that its entries are on disk. */
  written({ state: { plan } }: LoadedPlan, entries: readonly StoredEntry[]): void {
    const [first] = entries;
    for (const watcher of this.#all) {
      if (watcher.planId === '') {
        if (!this.#plans().canRead(plan, watcher.caller)) continue;
        if (!watcher.cursors.has(plan.plan_id)) watcher.cursors.set(plan.plan_id, (first?.seq ?? 1) - 1);
      } else if (watcher.planId !== plan.plan_id) continue;
      watcher.dirty.add(plan.plan_id);
      watcher.wake();
    }
  }

  /** Ends the streams of a deleted plan. */
  deleted(planId: string): void {
    for (const watcher of this.#all) {
      watcher.cursors.delete(planId);
      if (watcher.planId !== planId) continue;
      watcher.dirty.add(planId);
      watcher.wake();
    }
  }

  async #follow(watcher: Watcher, context: CallContext): Promise<void> {
    // The reply goes first.
    await null;
    while (!context.signal.aborted) {
      for (const planId of watcher.dirty) await this.#send(watcher, planId, context);
      if (watcher.dirty.size > 0) continue;
      const { promise, resolve } = Promise.withResolvers<void>();
      watcher.wake = resolve;
      if (!context.signal.aborted) await promise;
    }
  }

  async #send(watcher: Watcher, planId: string, context: CallContext): Promise<void> {
    const plans = this.#plans();
    const loaded = await plans.find(planId, watcher.caller);
    const cursor = watcher.cursors.get(planId) ?? loaded.state.seq;
    const page = plans.entriesAfter(loaded, cursor, PAGE);
    // Entries that are written while the page is sent make it dirty again.
    if (page.length < PAGE) watcher.dirty.delete(planId);
    for (const entry of page) {
      await context.emit('change', { ...entry });
      watcher.cursors.set(planId, entry.seq);
    }
  }
}
