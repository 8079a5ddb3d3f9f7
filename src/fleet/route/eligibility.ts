/**
 * The workers that are eligible for a task, in fleets too large to check one by one: the filters of `filters.ts` as sets of
 * bits. Each requirement is one set; the intersection of the sets is the eligible workers.
 *
 * `router.ts` enters and removes workers and opens those that have free capacity. Must agree with `filters.ts`; tests compare
 * the two.
 */
import { bitsFor, grown, intersect, setBit } from './bits.ts';
import { Column } from './column.ts';
import { Facets } from './facets.ts';
import { reasonsAgainst, windowNeed } from './filters.ts';
import type { RoutePolicy, RouteTask } from './profile.ts';
import { rankOf } from './tiers.ts';
import { ageMsAt, type WorkerSlot } from './worker-slot.ts';

/** Result of a selection; valid until the next one. */
export interface Selected {
  /** Eligible workers, without those of `sameContext`. */
  readonly bits: Int32Array;
  /** Eligible workers whose last conversation is the task's: other rules apply to them. */
  readonly sameContext: readonly WorkerSlot[];
}

export class Eligibility {
  readonly #policy: RoutePolicy;
  /** All workers, by name. */
  readonly #workers: ReadonlyMap<string, WorkerSlot>;
  readonly #facets = new Facets();
  readonly #windows = new Column();
  readonly #overheads = new Column();
  /** Context → workers whose last conversation it is, and workers that run a turn of it. */
  readonly #byContext = new Map<string, Set<WorkerSlot>>();
  readonly #byBusy = new Map<string, Set<WorkerSlot>>();
  #capacity = 0;
  #present = bitsFor(0);
  #open = bitsFor(0);
  #selected = bitsFor(0);

  constructor(policy: RoutePolicy, workers: ReadonlyMap<string, WorkerSlot>) {
    this.#policy = policy;
    this.#workers = workers;
  }

  /** Enters a worker in the indexes built from its profile. */
  enter(worker: WorkerSlot): void {
    const { verified, slot } = worker;
    const { context_window, overhead_tokens, context_id, busy_contexts } = worker.profile;
    // Grow by a quarter only: every decision scans the whole capacity.
    if (slot >= this.#capacity) this.#grow(this.#capacity + Math.max(64, this.#capacity >>> 2));
    setBit(this.#present, slot, true);
    this.#windows.set(slot, verified ? context_window : null);
    this.#overheads.set(slot, verified ? overhead_tokens : null);
    if (context_id !== null) enterIn(this.#byContext, context_id, worker);
    for (const context of busy_contexts) enterIn(this.#byBusy, context, worker);
    this.#facets.update(worker);
  }

  /** Removes a worker from the indexes. Call this before its profile changes. */
  leave(worker: WorkerSlot): void {
    const { context_id, busy_contexts } = worker.profile;
    setBit(this.#present, worker.slot, false);
    setBit(this.#open, worker.slot, false);
    if (context_id !== null) leaveFrom(this.#byContext, context_id, worker);
    for (const context of busy_contexts) leaveFrom(this.#byBusy, context, worker);
  }

  /** Sets whether the worker can accept any task at all. */
  open(worker: WorkerSlot, open: boolean): void {
    setBit(this.#open, worker.slot, open);
  }

  /** Returns the workers eligible for this task; policy hooks are not applied here. */
  select(task: RouteTask, excluded: ReadonlySet<string>, nowMs: number): Selected {
    const bits = this.#selected;
    if (task.only === null) {
      bits.set(this.#open);
      this.#require(task, bits);
    } else {
      bits.fill(0);
      const named = this.#workers.get(task.only);
      if (named !== undefined && this.#allows(task, named, excluded, nowMs)) setBit(bits, named.slot, true);
    }
    for (const agentId of excluded) {
      const worker = this.#workers.get(agentId);
      if (worker !== undefined) setBit(bits, worker.slot, false);
    }
    if (task.context_id === null) return { bits, sameContext: [] };
    for (const worker of this.#byBusy.get(task.context_id) ?? []) setBit(bits, worker.slot, false);
    const sameContext: WorkerSlot[] = [];
    for (const worker of this.#byContext.get(task.context_id) ?? []) {
      if (!worker.verified) continue;
      setBit(bits, worker.slot, false);
      if (this.#allows(task, worker, excluded, nowMs)) sameContext.push(worker);
    }
    return { bits, sameContext };
  }

  /** Turns these bits into the known workers that are not among them. */
  complement(bits: Int32Array): Int32Array {
    for (let word = 0; word < bits.length; word += 1) bits[word] = this.#present[word]! & ~bits[word]!;
    return bits;
  }

  #grow(capacity: number): void {
    this.#capacity = capacity;
    this.#present = grown(this.#present, capacity);
    this.#open = grown(this.#open, capacity);
    this.#selected = bitsFor(capacity);
    this.#facets.grow(capacity);
  }

  #allows(task: RouteTask, worker: WorkerSlot, excluded: ReadonlySet<string>, nowMs: number): boolean {
    return reasonsAgainst(task, worker.profile, this.#policy, excluded, ageMsAt(worker, nowMs)).length === 0;
  }

  /** Removes workers that fail a requirement of the task. A set depends on its key alone, never on the task. */
  #require(task: RouteTask, bits: Int32Array): void {
    const need = (key: string, passes: (worker: WorkerSlot) => boolean): void =>
      intersect(bits, this.#facets.of(key, this.#workers.values(), passes));
    for (const name of task.required_mcp) {
      need(`mcp:${name}`, ({ verified, profile }) => {
        return !verified || (profile.mcp_servers.includes(name) && profile.mcp_health.get(name) === 'ok');
      });
    }
    for (const name of task.required_capabilities) {
      need(`tool:${name}`, ({ verified, profile }) => !verified || profile.tools.includes(name));
    }
    const { pool, min_tier, min_context_window, token_budget } = task;
    if (pool !== null) need(`pool:${pool}`, ({ profile }) => profile.pools.includes(pool));
    if (min_tier !== null) {
      const least = rankOf(min_tier, this.#policy) ?? Number.POSITIVE_INFINITY;
      need(`tier:${least}`, ({ rank }) => rank !== undefined && rank >= least);
    }
    if (task.access === 'write') {
      need('tidy', ({ verified, profile }) => !verified || profile.repo_state?.clean !== false);
    }
    if (min_context_window !== null) {
      need('window', ({ verified, profile }) => verified && profile.context_window !== null);
    }
    this.#windows.clearBelow(bits, Math.max(min_context_window ?? 0, windowNeed(task)));
    if (token_budget !== null) this.#overheads.clearAbove(bits, token_budget);
  }
}

function enterIn(map: Map<string, Set<WorkerSlot>>, key: string, worker: WorkerSlot): void {
  const found = map.get(key);
  if (found === undefined) map.set(key, new Set([worker]));
  else found.add(worker);
}

function leaveFrom(map: Map<string, Set<WorkerSlot>>, key: string, worker: WorkerSlot): void {
  const found = map.get(key);
  if (found?.delete(worker) && found.size === 0) map.delete(key);
}
