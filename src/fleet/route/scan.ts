/**
 * Scores the workers of a set one by one. What a score needs lies in columns, and a worker that cannot get among the best is
 * passed over without being touched: a few thousand cost no more than writing the answer down.
 *
 * A part of `router.ts`, for tasks that few workers may have.
 */
import { FRESHNESS, freshnessPart } from './score.ts';
import type { Top } from './top.ts';
import type { WorkerSlot } from './worker-slot.ts';

/** What a tier earns for a task; undefined: no worker of it may have the task. */
export type TierPoints = (rank: number | undefined, verified: boolean) => number | undefined;

/** Workers that earn alike for their tier. */
interface Kind {
  readonly rank: number | undefined;
  readonly verified: boolean;
}

export class Scan {
  #bases: [Int32Array, Int32Array] = [new Int32Array(64), new Int32Array(64)];
  #bornMs = new Float64Array(64);
  #ttlMs = new Float64Array(64);
  #kindOf = new Int32Array(64);
  readonly #kinds: Kind[] = [];
  readonly #kindNumbers = new Map<number | 'unknown' | 'unverified', number>();

  /** A worker has changed. */
  set(worker: WorkerSlot): void {
    const { slot } = worker;
    if (slot >= this.#kindOf.length) this.#grow(Math.max(slot + 1, this.#kindOf.length * 2));
    this.#bases[0][slot] = worker.bases[0];
    this.#bases[1][slot] = worker.bases[1];
    this.#bornMs[slot] = worker.bornMs;
    this.#ttlMs[slot] = worker.ttlMs;
    this.#kindOf[slot] = this.#numberOf(worker);
  }

  /** Offers each worker of these bits to the list of its kind. */
  offerEach(
    bits: Int32Array,
    urgency: 0 | 1,
    nowMs: number,
    points: TierPoints,
    verified: Top,
    others: Top,
    workers: readonly (WorkerSlot | undefined)[],
  ): void {
    const bases = this.#bases[urgency];
    const earned = this.#kinds.map((kind) => points(kind.rank, kind.verified) ?? 0);
    const tops = this.#kinds.map((kind) => (kind.verified ? verified : others));
    for (let word = 0; word < bits.length; word += 1) {
      let left = bits[word]!;
      while (left !== 0) {
        const slot = word * 32 + (31 - Math.clz32(left & -left));
        left &= left - 1;
        const kind = this.#kindOf[slot]!;
        const top = tops[kind]!;
        const least = bases[slot]! + earned[kind]!;
        if (!this.#kinds[kind]!.verified) {
          if (least >= top.bar) top.offer(workers[slot]!, least);
        } else if (least + FRESHNESS >= top.bar) {
          const score = least + freshnessPart(nowMs - this.#bornMs[slot]!, this.#ttlMs[slot]!);
          if (score >= top.bar) top.offer(workers[slot]!, score);
        }
      }
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
  }
}
