/**
 * Sentences of made-up words, from a seed.
 */

const LETTERS = 'etaoinshrdlucmfwypvbgkqjxz';
const VOCABULARY = 30_000;

/** Returns `count` sentences of 10 to 40 words, and queries of 2 to 8 words. The frequency of a word falls with its rank. */
export function sentences(count: number, queries: number): { texts: string[]; queries: string[] } {
  let state = 7;
  const random = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  const vocabulary = Array.from({ length: VOCABULARY }, () => {
    const length = 3 + Math.floor(random() * 7);
    return Array.from({ length }, () => LETTERS[Math.floor(random() ** 1.7 * LETTERS.length)]).join('');
  });
  const word = (): string => vocabulary[Math.min(VOCABULARY - 1, Math.floor(VOCABULARY ** random() - 1))] as string;
  const sentence = (words: number): string => Array.from({ length: words }, word).join(' ');
  return {
    texts: Array.from({ length: count }, () => sentence(10 + Math.floor(random() * 30))),
    queries: Array.from({ length: queries }, () => sentence(2 + Math.floor(random() * 7))),
  };
}
