/**
 * Scores the workers of a set one by one. The inputs of a score are stored in typed arrays, and only the best workers are read
 * as objects, so that scoring a few thousand is cheap. For tasks with few eligible workers.
 */
import { FRESHNESS } from './score.ts';
import type { Top } from './top.ts';
import type { WorkerSlot } from './worker-slot.ts';

/** The score of a tier for a task; undefined: no worker of the tier is eligible. */
export type TierPoints = (rank: number | undefined, verified: boolean) => number | undefined;

/** Workers with the same score for their tier. */
interface Kind {
  readonly rank: number | undefined;
  readonly verified: boolean;
}

/** Scores are 0–1000. */
const SCORES = 1001;

export class Scan {
  #bases: [Int32Array, Int32Array] = [new Int32Array(64), new Int32Array(64)];
  #bornMs = new Float64Array(64);
  #ttlMs = new Float64Array(64);
  #kindOf = new Int32Array(64);
  /** Results of one pass, reused by the next one. */
  #slots = new Int32Array(64);
  #scores = new Int32Array(64);
  readonly #counts = new Int32Array(2 * SCORES);
  readonly #kinds: Kind[] = [];
  readonly #kindNumbers = new Map<number | 'unknown' | 'unverified', number>();

  /** Updates the columns after a worker has changed. */
  set(worker: WorkerSlot): void {
    const { slot } = worker;
    if (slot >= this.#kindOf.length) this.#grow(Math.max(slot + 1, this.#kindOf.length * 2));
    this.#bases[0][slot] = worker.bases[0];
    this.#bases[1][slot] = worker.bases[1];
    this.#bornMs[slot] = worker.bornMs;
    this.#ttlMs[slot] = worker.ttlMs;
    this.#kindOf[slot] = this.#numberOf(worker);
  }

  /**
   * Offers the best workers of these bits to the list of their kind; both lists must be empty. Computes and counts all scores
   * first, so that only workers above the bar are offered.
   */
  offerBest(
    bits: Int32Array,
    urgency: 0 | 1,
    nowMs: number,
    points: TierPoints,
    verified: Top,
    others: Top,
    workers: readonly (WorkerSlot | undefined)[],
  ): void {
    const bases = this.#bases[urgency];
    const kindOf = this.#kindOf;
    const bornMs = this.#bornMs;
    const ttlMs = this.#ttlMs;
    const slots = this.#slots;
    const scores = this.#scores;
    const counts = this.#counts.fill(0);
    const earned = Int32Array.from(this.#kinds, (kind) => points(kind.rank, kind.verified) ?? 0);
    const isVerified = Uint8Array.from(this.#kinds, (kind) => (kind.verified ? 1 : 0));
    // Scores of the second list are counted above those of the first.
    const apart = others === verified ? 0 : SCORES;
    let found = 0;
    for (let word = 0; word < bits.length; word += 1) {
      let left = bits[word]!;
      while (left !== 0) {
        const slot = word * 32 + 31 - Math.clz32(left & -left);
        left &= left - 1;
        const kind = kindOf[slot]!;
        let score = bases[slot]! + earned[kind]!;
        if (isVerified[kind] === 1) {
          // `freshnessPart`, inlined with integers: this is the hot loop of a decision.
          const ttl = ttlMs[slot]!;
          const fresh = ttl - (nowMs - bornMs[slot]!);
          if (fresh > 0) score = (score + (FRESHNESS * fresh) / ttl) | 0;
        } else score = (score + apart) | 0;
        counts[score]! += 1;
        slots[found] = slot;
        scores[found] = score;
        found += 1;
      }
    }
    const bar = barOf(counts, 0, verified.limit);
    const otherBar = barOf(counts, apart, others.limit);
    for (let at = 0; at < found; at += 1) {
      const score = scores[at]!;
      if (score < SCORES) {
        if (score >= bar) verified.offer(workers[slots[at]!]!, score);
      } else if (score >= otherBar) others.offer(workers[slots[at]!]!, score - apart);
    }
  }

  #numberOf({ verified, rank }: WorkerSlot): number {
    const name = verified ? (rank ?? 'unknown') : 'unverified';
    let number = this.#kindNumbers.get(name);
    if (number === undefined) {
      number = this.#kinds.push({ rank, verified }) - 1;
      this.#kindNumbers.set(name, number);
    }
    return number;
  }

  #grow(size: number): void {
    const into = new Int32Array(size);
    const other = new Int32Array(size);
    into.set(this.#bases[0]);
    other.set(this.#bases[1]);
    this.#bases = [into, other];
    const born = new Float64Array(size);
    born.set(this.#bornMs);
    this.#bornMs = born;
    const ttl = new Float64Array(size);
    ttl.set(this.#ttlMs);
    this.#ttlMs = ttl;
    const kinds = new Int32Array(size);
    kinds.set(this.#kindOf);
    this.#kindOf = kinds;
    this.#slots = new Int32Array(size);
    this.#scores = new Int32Array(size);
  }
}

/** Returns the lowest score among the best `many`, ties included; `from`: index of the first count. */
function barOf(counts: Int32Array, from: number, many: number): number {
  let left = many;
  let score = from + SCORES - 1;
  for (; score > from; score -= 1) {
    left -= counts[score]!;
    if (left <= 0) break;
  }
  return score;
}
