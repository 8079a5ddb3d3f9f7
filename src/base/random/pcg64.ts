/**
 * PCG64 (XSL RR 128/64), the bit generator of NumPy's `default_rng`, equal to it bit for bit.
 *
 * 128 bits are four 32-bit words in doubles. The multiplier is cut into 16-bit pieces: a product has 48 bits, a column of four
 * 50, so that sums stay exact in a double and no BigInt is made for a draw.
 */
import { seedWords } from './seed-sequence.ts';

const TWO_16 = 2 ** 16;
const TWO_32 = 2 ** 32;
const BELOW_16 = 2 ** -16;
const BELOW_32 = 2 ** -32;

/** The state as NumPy's `bit_generator.state` names it; its two 128-bit integers as decimal strings. */
export interface Pcg64State {
  readonly bit_generator: 'PCG64';
  readonly state: { readonly state: string; readonly inc: string };
  readonly has_uint32: 0 | 1;
  readonly uinteger: number;
}

/** One stream of random bits. */
export class Pcg64 {
  /** Words 0 (lowest) to 3 of the state, and of the increment. */
  #s0 = 0;
  #s1 = 0;
  #s2 = 0;
  #s3 = 0;
  #i0 = 0;
  #i1 = 0;
  #i2 = 0;
  #i3 = 0;
  /** The half of a draw that `uint32` has not handed out. */
  #hasSpare = false;
  #spare = 0;
  /** The two halves of the last 64-bit draw. */
  high = 0;
  low = 0;

  /** @param seed an integer that is not negative; it passes through NumPy's `SeedSequence` */
  constructor(seed: number | bigint) {
    const [a1, a0, b1, b0, c1, c0, d1, d0] = reorder(seedWords(seed, 8));
    this.#i0 = ((d0 << 1) | 1) >>> 0;
    this.#i1 = ((d1 << 1) | (d0 >>> 31)) >>> 0;
    this.#i2 = ((c0 << 1) | (d1 >>> 31)) >>> 0;
    this.#i3 = ((c1 << 1) | (c0 >>> 31)) >>> 0;
    this.#advance();
    this.#add(b0, b1, a0, a1);
    this.#advance();
  }

  /** Draws 64 bits into `high` and `low`. */
  draw(): void {
    this.#advance();
    const high = (this.#s3 ^ this.#s1) >>> 0;
    const low = (this.#s2 ^ this.#s0) >>> 0;
    const turn = this.#s3 >>> 26;
    const by = turn & 31;
    const first = turn < 32 ? high : low;
    const second = turn < 32 ? low : high;
    // A shift by 32 is one by 0 in JavaScript; two shifts make it right for `by` 0, too.
    this.high = ((first >>> by) | ((second << 1) << (31 - by))) >>> 0;
    this.low = ((second >>> by) | ((first << 1) << (31 - by))) >>> 0;
  }

  /** Draws 32 random bits. A 64-bit draw serves two calls, the lower half first. */
  uint32(): number {
    if (this.#hasSpare) {
      this.#hasSpare = false;
      return this.#spare;
    }
    this.draw();
    this.#hasSpare = true;
    this.#spare = this.high;
    return this.low;
  }

  get state(): Pcg64State {
    return {
      bit_generator: 'PCG64',
      state: {
        state: joined(this.#s0, this.#s1, this.#s2, this.#s3),
        inc: joined(this.#i0, this.#i1, this.#i2, this.#i3),
      },
      has_uint32: this.#hasSpare ? 1 : 0,
      uinteger: this.#spare,
    };
  }

  set state({ state, has_uint32, uinteger }: Pcg64State) {
    [this.#s0, this.#s1, this.#s2, this.#s3] = parted(state.state);
    [this.#i0, this.#i1, this.#i2, this.#i3] = parted(state.inc);
    this.#hasSpare = has_uint32 === 1;
    this.#spare = uinteger;
  }

  /** Computes state = state * 0x2360ed051fc65da44385df649fccf645 + increment, modulo 2^128. */
  #advance(): void {
    const s0 = this.#s0;
    const s1 = this.#s1;
    const s2 = this.#s2;
    const s3 = this.#s3;
    // Each pair of columns, 16 bits apart, makes one word; the excess is carried into the next.
    let odd = s0 * 0x9fcc;
    let part = odd & 0xffff;
    let sum = s0 * 0xf645 + part * TWO_16 + this.#i0;
    const r0 = sum >>> 0;
    let carry = (odd - part) * BELOW_16 + (sum - r0) * BELOW_32;

    odd = s0 * 0x4385 + s1 * 0x9fcc;
    part = odd & 0xffff;
    sum = s0 * 0xdf64 + s1 * 0xf645 + part * TWO_16 + this.#i1 + carry;
    const r1 = sum >>> 0;
    carry = (odd - part) * BELOW_16 + (sum - r1) * BELOW_32;

    odd = s0 * 0x1fc6 + s1 * 0x4385 + s2 * 0x9fcc;
    part = odd & 0xffff;
    sum = s0 * 0x5da4 + s1 * 0xdf64 + s2 * 0xf645 + part * TWO_16 + this.#i2 + carry;
    const r2 = sum >>> 0;
    carry = (odd - part) * BELOW_16 + (sum - r2) * BELOW_32;

    odd = s0 * 0x2360 + s1 * 0x1fc6 + s2 * 0x4385 + s3 * 0x9fcc;
    part = odd & 0xffff;
    sum = s0 * 0xed05 + s1 * 0x5da4 + s2 * 0xdf64 + s3 * 0xf645 + part * TWO_16 + this.#i3 + carry;
    this.#s0 = r0;
    this.#s1 = r1;
    this.#s2 = r2;
    this.#s3 = sum >>> 0;
  }

  #add(w0: number, w1: number, w2: number, w3: number): void {
    let sum = this.#s0 + w0;
    this.#s0 = sum >>> 0;
    sum = this.#s1 + w1 + Math.floor(sum / TWO_32);
    this.#s1 = sum >>> 0;
    sum = this.#s2 + w2 + Math.floor(sum / TWO_32);
    this.#s2 = sum >>> 0;
    this.#s3 = (this.#s3 + w3 + Math.floor(sum / TWO_32)) >>> 0;
  }
}

type Words8 = [number, number, number, number, number, number, number, number];

/** Returns the seed's four 64-bit integers, each stored low word first, with the high word first. */
const reorder = (words: Uint32Array): Words8 => [1, 0, 3, 2, 5, 4, 7, 6].map((at) => words[at]!) as unknown as Words8;

const joined = (...words: number[]): string =>
  words.reduceRight((value, word) => (value << 32n) | BigInt(word), 0n).toString();

function parted(text: string): [number, number, number, number] {
  const value = BigInt(text);
  const word = (at: bigint): number => Number((value >> (32n * at)) & 0xffffffffn);
  return [word(0n), word(1n), word(2n), word(3n)];
}
