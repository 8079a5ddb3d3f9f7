/**
 * One ranking of several: reciprocal rank fusion, and the score that replies carry. Pure.
 *
 * @see docs/memory.md#ranking
 */

/** One ranking: ids, the best first. */
export interface Ranking {
  readonly ids: readonly number[];
  /** By what they are ranked: ids with the same score share a place, so that no accident decides among them. */
  readonly scores?: readonly number[];
  /** How much it counts, above 0. */
  readonly weight: number;
}

export interface Fused {
  readonly id: number;
  /** 1 for what every ranking has first, towards 0 for what one ranking has far down. */
  readonly score: number;
}

/**
 * Damps the first places. The 60 of the literature is for lists of a thousand; with a few hundred candidates a lower one
 * separates what both rankings have near the top from what one of them has alone.
 */
const DAMPING = 20;

/**
 * Fuses rankings: the score of an id is the sum of `weight / (20 + place)` over the rankings that have it, divided by what
 * the first place in all of them would give. A ranking without ids still counts in that, so a score says the same in every reply.
 * Equal scores keep the order of `tieBreak`, then of higher ids, which are newer.
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
