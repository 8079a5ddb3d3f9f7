/**
 * Computes BM25 of all entries for one query, from the list of each of its words.
 *
 * The formula and its constants are those of FTS5, so the scores are equal.
 * @see https://www.sqlite.org/fts5.html#the_bm25_function
 */
import type { Posting } from './postings.ts';
import type { SignatureIndex } from './signatures.ts';

const K = 1.2;
const B = 0.75;
/** Steps between the highest score and 0 by which the best are chosen before they are sorted. */
const STEPS = 1024;

export class WordScores {
  readonly #index: SignatureIndex;
  /** Addends of the length of an entry to the divisor: for each of its words, and in any case. */
  readonly #perWord: number;
  readonly #base = K * (1 - B);
  /** Scores by the position of the entry in the index. */
  readonly #scores: Float32Array;

  /** @param average number of words of an entry */
  constructor(index: SignatureIndex, average: number) {
    this.#index = index;
    this.#perWord = (K * B) / average;
    this.#scores = new Float32Array(index.size);
  }

  /** Adds the scores of a word with this weight. */
  add({ size, places, counts }: Posting, weight: number): void {
    // This loop runs for each occurrence of each word: constant values are read once.
    const scores = this.#scores;
    const words = this.#index.wordCounts;
    const perWord = this.#perWord;
    const base = this.#base;
    const most = weight * (K + 1);
    for (let at = 0; at < size; at += 1) {
      const place = places[at] as number;
      const count = counts[at] as number;
      (scores[place] as number) += (most * count) / (count + base + perWord * (words[place] as number));
    }
  }

  /**
   * Returns the best of the entries that fit, by their positions, at most `count`, the best first; of equal ones the newest.
   */
  best(count: number, fitting: Uint8Array): { id: number; score: number }[] {
    const scores = this.#scores;
    const index = this.#index;
    let highest = 0;
    for (let place = 0; place < scores.length; place += 1) {
      const score = scores[place] as number;
      if (score === 0) continue;
      if (fitting[place] !== 1) scores[place] = 0;
      else if (score > highest) highest = score;
    }
    const scale = STEPS / highest;
    const steps = new Int32Array(STEPS + 1);
    for (let place = 0; place < scores.length; place += 1)
      (steps[((scores[place] as number) * scale) | 0] as number) += 1;
    let lowest = STEPS;
    for (let within = steps[lowest] as number; within < count && lowest > 0; within += steps[lowest] as number) {
      lowest -= 1;
    }
    const best: { id: number; score: number }[] = [];
    for (let place = 0; place < scores.length; place += 1) {
      const score = scores[place] as number;
      if (score > 0 && ((score * scale) | 0) >= lowest) best.push({ id: index.idAt(place), score });
    }
    return best.sort((left, right) => right.score - left.score || right.id - left.id).slice(0, count);
  }
}
