/**
 * Combines several rankings into one: reciprocal rank fusion, and the score that replies carry. Pure.
 *
 * @see docs/memory.md#ranking
 */

/** One ranking: ids, the best first. */
export interface Ranking {
  readonly ids: readonly number[];
  /** The scores of the ids: ids with equal scores share a rank, so that no accident decides among them. */
  readonly scores?: readonly number[];
  /** Its weight, above 0. */
  readonly weight: number;
}

export interface Fused {
  readonly id: number;
  /** 1 for an id that is first in every ranking, towards 0 for an id far down in one ranking. */
  readonly score: number;
}

/**
 * Damps the first ranks. The 60 of the literature is for lists of a thousand; with a few hundred candidates a lower value
 * separates ids near the top of both rankings from ids of one ranking alone.
 */
const DAMPING = 20;

/**
 * Fuses rankings: the score of an id is the sum of `weight / (20 + rank)` over the rankings that have it, divided by the sum
 * for the first rank in all of them. A ranking without ids still counts in that divisor, so scores of all replies are
 * comparable. Equal scores keep the order of `tieBreak`, then of higher ids, which are newer.
 */
export function fuse(
  rankings: readonly Ranking[],
  tieBreak: (left: number, right: number) => number = () => 0,
): Fused[] {
  const sums = new Map<number, number>();
  let best = 0;
  for (const { ids, scores = [], weight } of rankings) {
    best += weight / (DAMPING + 1);
    let place = 0;
    for (const [at, id] of ids.entries()) {
      if (scores[at] === undefined || scores[at] !== scores[at - 1]) place = at;
      sums.set(id, (sums.get(id) ?? 0) + weight / (DAMPING + 1 + place));
    }
  }
  return [...sums]
    .map(([id, sum]) => ({ id, score: Math.min(1, sum / best) }))
    .sort((left, right) => right.score - left.score || tieBreak(left.id, right.id) || right.id - left.id);
}
