/** The best few workers of a decision: a short sorted list to which candidates are offered in any order. */
import { byCodeUnit } from './filters.ts';
import type { WorkerSlot } from './worker-slot.ts';

export class Top {
  readonly limit: number;
  readonly #workers: WorkerSlot[] = [];
  readonly #scores: number[] = [];

  constructor(limit: number) {
    this.limit = limit;
  }

  get workers(): readonly WorkerSlot[] {
    return this.#workers;
  }

  /** A score below this cannot enter the list. */
  get bar(): number {
    return this.#workers.length < this.limit ? Number.NEGATIVE_INFINITY : this.#scores[this.limit - 1]!;
  }

  /** Enters the worker if it is among the best; false: it is not. */
  offer(worker: WorkerSlot, score: number): boolean {
    let at = this.#workers.length;
    while (at > 0 && precedes(worker, score, this.#workers[at - 1]!, this.#scores[at - 1]!)) at -= 1;
    if (at >= this.limit) return false;
    this.#workers.splice(at, 0, worker);
    this.#scores.splice(at, 0, score);
    if (this.#workers.length > this.limit) {
      this.#workers.pop();
      this.#scores.pop();
    }
    return true;
  }
}

/** Compares as `compareRankKeys` among workers that are all verified or all unverified. */
function precedes(left: WorkerSlot, leftScore: number, right: WorkerSlot, rightScore: number): boolean {
  if (leftScore !== rightScore) return leftScore > rightScore;
  if (left.load !== right.load) return left.load < right.load;
  if (left.bornMs !== right.bornMs) return left.bornMs > right.bornMs;
  if (left.price !== right.price) return left.price < right.price;
  return byCodeUnit(left.agent_id, right.agent_id) < 0;
}
