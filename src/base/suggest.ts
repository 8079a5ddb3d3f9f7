/**
 * "Did you mean": the known word nearest to a mistyped one. Pure.
 */

import { folded } from './fold-text.ts';

/** Words longer than this are not compared: no key is this long, and the cost grows with the square. */
const MAX_WORD = 64;

/**
 * Returns the known word that `word` was most likely meant to be: at most a third of its letters (and always one)
 * inserted, removed, changed or swapped. Undefined when no word is near; of several equally near, the first.
 */
export function suggest(word: string, known: Iterable<string>): string | undefined {
  if (word.length > MAX_WORD) return undefined;
  const wanted = folded(word);
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of known) {
    const distance = editDistance(wanted, folded(candidate));
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** Computes the optimal string alignment: insertions, removals, changes, and swaps of neighbours each count one. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const change = a[row - 1] === b[column - 1] ? 0 : 1;
      let cost = Math.min(last[column]! + 1, current[column - 1]! + 1, last[column - 1]! + change);
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        cost = Math.min(cost, beforeLast[column - 2]! + 1);
      }
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return last[b.length]!;
}
