/**
 * A seedable generator whose whole state is four integers, so that a decision can be stored together with the state it left
 * behind: xoshiro128** (Blackman and Vigna), seeded by SplitMix32.
 *
 * Not for secrets.
 * @see https://prng.di.unimi.it
 */

/** Four 32-bit words, not all zero. JSON carries them exactly. */
export type RandomState = readonly [number, number, number, number];

/** Returns the state for a seed: a number, or any text. */
export function seeded(seed: number | string): RandomState {
  let word = hashed(String(seed));
  const next = (): number => {
    word = (word + 0x9e3779b9) | 0;
    let mixed = Math.imul(word ^ (word >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return (mixed ^ (mixed >>> 15)) >>> 0;
  };
  return [next(), next(), next(), next()];
}

/** Returns the FNV-1a hash over the UTF-16 code units. */
function hashed(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash;
}

export class Random {
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  constructor([a, b, c, d]: RandomState) {
    this.#a = a >>> 0;
    this.#b = b >>> 0;
    this.#c = c >>> 0;
    this.#d = d >>> 0;
  }

  get state(): RandomState {
    return [this.#a, this.#b, this.#c, this.#d];
  }

  /** Returns the next 32 bits, as an unsigned integer. */
  bits(): number {
    const product = Math.imul(this.#b, 5);
    const result = Math.imul((product << 7) | (product >>> 25), 9) >>> 0;
    const shifted = this.#b << 9;
    this.#c ^= this.#a;
    this.#d ^= this.#b;
    this.#b = (this.#b ^ this.#c) >>> 0;
    this.#a = (this.#a ^ this.#d) >>> 0;
    this.#c = (this.#c ^ shifted) >>> 0;
    this.#d = ((this.#d << 11) | (this.#d >>> 21)) >>> 0;
    return result;
  }

  /** Returns a number from 0 to below 1, with 53 random bits. */
  unit(): number {
    const high = this.bits() >>> 5;
    const low = this.bits() >>> 6;
    return (high * 2 ** 26 + low) / 2 ** 53;
  }

  /** Returns a normally distributed number, mean 0 and variance 1 (Box and Muller). For simulations. */
  normal(): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.unit()));
    return radius * Math.cos(2 * Math.PI * this.unit());
  }

  /** Returns the index of one of these weights, drawn in proportion to them; they add up to about 1. */
  pick(weights: ArrayLike<number>): number {
    const at = this.unit();
    let sum = 0;
    let last = 0;
    for (let index = 0; index < weights.length; index++) {
      if (weights[index]! <= 0) continue;
      sum += weights[index]!;
      last = index;
      if (at < sum) return index;
    }
    return last;
  }
}
