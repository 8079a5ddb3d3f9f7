/**
 * Who may have a task, for fleets too large to ask one by one: the filters of `filters.ts` as sets of bits.
 *
 * A part of `router.ts`, which says who is here and who can take anything at all. Each requirement is one set, and the
 * workers that meet all of them are what is left when the sets are intersected.
 */
import { bitsFor, grown, intersect, setBit } from './bits.ts';
import { Column } from './column.ts';
import { Facets } from './facets.ts';
import { reasonsAgainst, windowNeed } from './filters.ts';
import type { RoutePolicy, RouteTask } from './profile.ts';
import { rankOf } from './tiers.ts';
import { ageMsAt, type WorkerSlot } from './worker-slot.ts';

/** Answer of a selection; valid until the next one. */
export interface Selected {
  /** Eligible workers without the friends. */
  readonly bits: Int32Array;
  /** Eligible workers whose last conversation is the task's: other rules hold for them. */
  readonly friends: readonly WorkerSlot[];
}

export class Eligibility {
  readonly #policy: RoutePolicy;
  /** All workers, by name. */
  readonly #workers: ReadonlyMap<string, WorkerSlot>;
  readonly #facets = new Facets();
  readonly #windows = new Column();
  readonly #overheads = new Column();
  /** Context → workers whose last conversation it is; workers where a turn of it runs. */
  readonly #byContext = new Map<string, Set<WorkerSlot>>();
  readonly #byBusy = new Map<string, Set<WorkerSlot>>();
  #room = 0;
  #present = bitsFor(0);
  #open = bitsFor(0);
  #selected = bitsFor(0);

  constructor(policy: RoutePolicy, workers: ReadonlyMap<string, WorkerSlot>) {
    this.#policy = policy;
    this.#workers = workers;
  }

  /** Enters a worker wherever it is looked up by what it says. */
  enter(worker: WorkerSlot): void {
    const { verified, slot } = worker;
    const { context_window, overhead_tokens, context_id, busy_contexts } = worker.profile;
    // By a quarter: every decision goes through the whole room.
    if (slot >= this.#room) this.#grow(this.#room + Math.max(64, this.#room >>> 2));
    setBit(this.#present, slot, true);
    this.#windows.set(slot, verified ? context_window : null);
    this.#overheads.set(slot, verified ? overhead_tokens : null);
    if (context_id !== null) enterIn(this.#byContext, context_id, worker);
    for (const context of busy_contexts) enterIn(this.#byBusy, context, worker);
    this.#facets.update(worker);
  }

  /** Takes it out again; to be called before its profile changes. */
  leave(worker: WorkerSlot): void {
    const { context_id, busy_contexts } = worker.profile;
    setBit(this.#present, worker.slot, false);
    setBit(this.#open, worker.slot, false);
    if (context_id !== null) leaveFrom(this.#byContext, context_id, worker);
    for (const context of busy_contexts) leaveFrom(this.#byBusy, context, worker);
  }

  /** Whether it can take anything at all. */
  open(worker: WorkerSlot, open: boolean): void {
    setBit(this.#open, worker.slot, open);
  }

  /** Who may have this task; hooks have not been asked. */
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
    if (task.context_id === null) return { bits, friends: [] };
    for (const worker of this.#byBusy.get(task.context_id) ?? []) setBit(bits, worker.slot, false);
    const friends: WorkerSlot[] = [];
    for (const worker of this.#byContext.get(task.context_id) ?? []) {
      if (!worker.verified) continue;
      setBit(bits, worker.slot, false);
      if (this.#allows(task, worker, excluded, nowMs)) friends.push(worker);
    }
    return { bits, friends };
  }

  /** Turns these bits into the workers that are here and not among them. */
  complement(bits: Int32Array): Int32Array {
    for (let word = 0; word < bits.length; word += 1) bits[word] = this.#present[word]! & ~bits[word]!;
    return bits;
  }

  #grow(room: number): void {
    this.#room = room;
    this.#present = grown(this.#present, room);
    this.#open = grown(this.#open, room);
    this.#selected = bitsFor(room);
    this.#facets.grow(room);
  }

  #allows(task: RouteTask, worker: WorkerSlot, excluded: ReadonlySet<string>, nowMs: number): boolean {
    return reasonsAgainst(task, worker.profile, this.#policy, excluded, ageMsAt(worker, nowMs)).length === 0;
  }

  /** Keeps who meets every requirement of the task. What a set holds follows from its name alone, never from the task. */
  #require(task: RouteTask, bits: Int32Array): void {
    const keep = (key: string, passes: (worker: WorkerSlot) => boolean): void =>
      intersect(bits, this.#facets.of(key, this.#workers.values(), passes));
    for (const name of task.required_mcp) {
      keep(`mcp:${name}`, ({ verified, profile }) => {
        return !verified || (profile.mcp_servers.includes(name) && profile.mcp_health.get(name) === 'ok');
      });
    }
    for (const name of task.required_capabilities) {
      keep(`tool:${name}`, ({ verified, profile }) => !verified || profile.tools.includes(name));
    }
    const { pool, min_tier, min_context_window, token_budget } = task;
    if (pool !== null) keep(`pool:${pool}`, ({ profile }) => profile.pools.includes(pool));
    if (min_tier !== null) {
      const least = rankOf(min_tier, this.#policy) ?? Number.POSITIVE_INFINITY;
      keep(`tier:${least}`, ({ rank }) => rank !== undefined && rank >= least);
    }
    if (task.access === 'write') {
      keep('tidy', ({ verified, profile }) => !verified || profile.repo_state?.clean !== false);
    }
    if (min_context_window !== null) {
      keep('window', ({ verified, profile }) => verified && profile.context_window !== null);
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
