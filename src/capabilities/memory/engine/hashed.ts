/**
 * The built-in embedder: hashed n-grams of words and characters. It is lexical, not semantic: it finds other forms and
 * misspellings of a word, and knows no synonyms. It needs no model and no network, and takes no noticeable time.
 *
 * The default where the configuration names no embedder.
 */
import { type Embedder, normalize } from './embedder.ts';
import { fold, wordsOf } from './words.ts';

const DIMENSIONS = 384;
/** Maximum characters of a text that count: more would only cost time. */
const MAX_CHARACTERS = 8192;
/** Lengths of character n-grams within a word and its edges. */
const MIN_GRAM = 3;
const MAX_GRAM = 4;
/** Weight of an n-gram relative to a whole word: a word of seven letters has a dozen of them. */
const GRAM_WEIGHT = 0.6;

export const hashedEmbedder: Embedder = {
  name: 'hashed-ngrams-1',
  floor: 0.25,
  // It reads the same letters as the ranking of the words. Measured: docs/memory.md#measured
  weight: 0.25,
  local: true,
  embed: async (texts) => texts.map(embedHashed),
  embedNow: embedHashed,
};

function embedHashed(text: string): Float32Array {
  const vector = new Float32Array(DIMENSIONS);
  const counts = new Map<string, number>();
  for (const word of wordsOf(fold(text.slice(0, MAX_CHARACTERS)))) counts.set(word, (counts.get(word) ?? 0) + 1);
  for (const [word, count] of counts) {
    // Repeated words say less each time; short ones say least of all.
    const weight = (1 + Math.log(count)) * Math.min(1, word.length / 4);
    add(vector, hash(word, 0, word.length, SEED), weight);
    const edged = `<${word}>`;
    for (let length = MIN_GRAM; length <= MAX_GRAM; length += 1) {
      for (let at = 0; at + length <= edged.length; at += 1) {
        add(vector, hash(edged, at, at + length, length), weight * GRAM_WEIGHT);
      }
    }
  }
  return normalize(vector);
}

const SEED = 0x9e3779b9;

/** Computes FNV-1a of a part of a text, then mixes it so that its low bits depend on all bits. */
function hash(text: string, from: number, to: number, seed: number): number {
  let value = 0x811c9dc5 ^ seed;
  for (let at = from; at < to; at += 1) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}

/** Adds a weight to the vector; one bit of the hash decides the sign, so that collisions cancel on average. */
function add(vector: Float32Array, hashed: number, weight: number): void {
  const at = (hashed >>> 1) % DIMENSIONS;
  (vector[at] as number) += (hashed & 1) === 0 ? weight : -weight;
}
