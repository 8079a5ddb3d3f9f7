/**
 * Workers that can accept a task now, ordered so that a decision finds the best of them without scoring the rest.
 *
 * Workers of one tier form a cell when they share the load, the profile lifetime and the task-independent part of the
 * score. Inside a cell the youngest profile comes first. That order never changes, because freshness falls equally for all
 * of them. A decision walks the cells from the best down and stops when no later cell can beat the results found so far.
 */
import { hasBit } from './bits.ts';
import { byCodeUnit } from './filters.ts';
import type { TierPoints } from './scan.ts';
import { FRESHNESS, freshnessPart } from './score.ts';
import type { Top } from './top.ts';
import type { WorkerSlot } from './worker-slot.ts';

/** A cell, or a part of a large one, so that adding and removing a worker only touches a short list. */
interface Part {
  readonly key: string;
  readonly base: number;
  /** Youngest first, then by name. */
  workers: WorkerSlot[];
}

interface Group {
  readonly rank: number | undefined;
  readonly verified: boolean;
  /** Parts of each cell, in the order of their workers. */
  readonly cells: Map<string, Part[]>;
  /** All parts, highest base first. */
  readonly order: Part[];
}

/** Maximum number of workers in a part. */
const MAX_PART = 128;

/** The cells for one urgency. */
export class Cells {
  readonly #urgency: 0 | 1;
  readonly #groups = new Map<number | 'unknown' | 'unverified', Group>();
  readonly #places: (Part | undefined)[] = [];

  constructor(urgent: boolean) {
    this.#urgency = urgent ? 1 : 0;
  }

  add(worker: WorkerSlot): void {
    const group = this.#groupOf(worker);
    const base = worker.bases[this.#urgency];
    const key = `${base}/${worker.load}/${worker.ttlMs}`;
    let parts = group.cells.get(key);
    if (parts === undefined) {
      parts = [{ key, base, workers: [] }];
      group.cells.set(key, parts);
      group.order.splice(firstBelow(group.order, base), 0, parts[0]!);
    }
    const at = partFor(parts, worker);
    const part = parts[at]!;
    part.workers.splice(placeIn(part.workers, worker), 0, worker);
    this.#places[worker.slot] = part;
    if (part.workers.length > MAX_PART) this.#split(group, parts, at);
  }

  #split(group: Group, parts: Part[], at: number): void {
    const part = parts[at]!;
    const later = { key: part.key, base: part.base, workers: part.workers.slice(MAX_PART / 2) };
    part.workers = part.workers.slice(0, MAX_PART / 2);
    for (const { slot } of later.workers) this.#places[slot] = later;
    parts.splice(at + 1, 0, later);
    group.order.splice(placeOf(group.order, part) + 1, 0, later);
  }

  /** Removes a worker. Call this before any change to the fields that order it. */
  remove(worker: WorkerSlot): void {
    const part = this.#places[worker.slot];
    if (part === undefined) return;
    this.#places[worker.slot] = undefined;
    part.workers.splice(placeIn(part.workers, worker), 1);
    if (part.workers.length > 0) return;
    const group = this.#groupOf(worker);
    group.order.splice(placeOf(group.order, part), 1);
    const parts = group.cells.get(part.key)!;
    if (parts.length === 1) group.cells.delete(part.key);
    else parts.splice(parts.indexOf(part), 1);
  }

  /**
   * Offers the best workers of these bits to `top`. `points`: the score a tier adds for this task; undefined: the tier is not
   * eligible. `verified`: walk only verified workers, or only the others. `maxChecks`: the number of parts and workers to
   * check. Returns false when that number was reached first: the eligible workers are not among the best of the fleet.
   */
  offerBest(
    top: Top,
    bits: Int32Array,
    nowMs: number,
    verified: boolean,
    points: TierPoints,
    maxChecks: number,
  ): boolean {
    const walks: { group: Group; more: number }[] = [];
    for (const group of this.#groups.values()) {
      if (group.verified !== verified || group.order.length === 0) continue;
      const more = points(group.rank, group.verified);
      if (more !== undefined) walks.push({ group, more });
    }
    // The most promising tier first raises the bar for the others.
    walks.sort((left, right) => right.more + right.group.order[0]!.base - left.more - left.group.order[0]!.base);
    let left = maxChecks;
    for (const { group, more } of walks) {
      left = walk(group, more, top, bits, nowMs, left);
      if (left < 0) return false;
    }
    return true;
  }

  #groupOf({ verified, rank }: WorkerSlot): Group {
    const key = verified ? (rank ?? 'unknown') : 'unverified';
    let group = this.#groups.get(key);
    if (group === undefined) {
      group = { rank, verified, cells: new Map(), order: [] };
      this.#groups.set(key, group);
    }
    return group;
  }
}

/** Returns the number of checks that are left; negative: the walk was abandoned. */
function walk(
  { order, verified }: Group,
  more: number,
  top: Top,
  bits: Int32Array,
  nowMs: number,
  maxChecks: number,
): number {
  const most = verified ? FRESHNESS : 0;
  let left = maxChecks;
  for (const { base, workers } of order) {
    const least = more + base;
    if (least + most < top.bar) return left;
    left -= 1;
    if (left < 0) return left;
    if (least + freshnessAt(workers[0]!, nowMs) < top.bar) continue;
    for (const worker of workers) {
      left -= 1;
      if (hasBit(bits, worker.slot) && !top.offer(worker, least + freshnessAt(worker, nowMs))) break;
    }
  }
  return left;
}

/** Returns the part of the score for the age of the worker's profile at this time. */
export function freshnessAt({ verified, bornMs, ttlMs }: WorkerSlot, nowMs: number): number {
  return verified ? freshnessPart(nowMs - bornMs, ttlMs) : 0;
}

/** Returns the last part whose first worker is not after this one. */
function partFor(parts: readonly Part[], worker: WorkerSlot): number {
  let low = 1;
  let high = parts.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (comesBefore(worker, parts[middle]!.workers[0]!)) high = middle;
    else low = middle + 1;
  }
  return low - 1;
}

/** Returns the index of a part; other parts with the same base may precede or follow it. */
function placeOf(order: readonly Part[], part: Part): number {
  let at = firstBelow(order, part.base) - 1;
  while (order[at] !== part) at -= 1;
  return at;
}

/** Returns the index of the first part with a lower base. */
function firstBelow(order: readonly Part[], base: number): number {
  let low = 0;
  let high = order.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (order[middle]!.base >= base) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns the index of the worker, or the index at which it must be inserted. */
function placeIn(workers: readonly WorkerSlot[], worker: WorkerSlot): number {
  let low = 0;
  let high = workers.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (comesBefore(workers[middle]!, worker)) low = middle + 1;
    else high = middle;
  }
  return low;
}

function comesBefore(left: WorkerSlot, right: WorkerSlot): boolean {
  if (left.bornMs !== right.bornMs) return left.bornMs > right.bornMs;
  return byCodeUnit(left.agent_id, right.agent_id) < 0;
}
