/**
 * Random numbers as NumPy's `Generator(PCG64(seed))` draws them: the same seed gives the same numbers, in the same
 * order. The source of randomness of environments and of the samples of spaces.
 */
import { Pcg64, type Pcg64State } from './pcg64.ts';
import { exponentialZiggurat, normalZiggurat } from './ziggurat.ts';

const TWO_21 = 2 ** 21;
const TWO_23 = 2 ** 23;
const BELOW_53 = 2 ** -53;
const UINT32_MAX = 0xffffffff;

/** Returns a random seed, 0 to 2^53 - 1, from the generator of the operating system. */
export function randomSeed(): number {
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  return (high! & 0x1fffff) * 2 ** 32 + low!;
}

/** One stream of random numbers. */
export class Generator {
  readonly #bits: Pcg64;

  /** @param seed an integer that is not negative */
  constructor(seed: number | bigint) {
    this.#bits = new Pcg64(seed);
  }

  /** `state` of NumPy's bit generator: a stream continues exactly from the position of another one. */
  get state(): Pcg64State {
    return this.#bits.state;
  }

  set state(state: Pcg64State) {
    this.#bits.state = state;
  }

  /** Draws a number uniform in [0, 1), 53 bits: NumPy's `random()`. */
  double(): number {
    const bits = this.#bits;
    bits.draw();
    return (bits.high * TWO_21 + (bits.low >>> 11)) * BELOW_53;
  }

  /** Draws a number uniform in [low, high): NumPy's `uniform(low, high)`. */
  uniform(low: number, high: number): number {
    return low + (high - low) * this.double();
  }

  /**
   * Draws an integer in [low, high): NumPy's `integers(low, high)`, by Lemire's method.
   * @param high at most 2^53 above `low`
   */
  integer(low: number, high: number): number {
    const span = high - low;
    if (span === 1) return low;
    if (span <= UINT32_MAX) return low + this.#below32(span);
    if (span === UINT32_MAX + 1) return low + this.#bits.uint32();
    return low + Number(this.#below64(BigInt(span)));
  }

  /**
   * Draws `count` integers in [0, span) as NumPy draws them for types of 8 or 16 bits: several to a 32-bit draw.
   * @param span 1 to 2^bits
   */
  narrow(count: number, span: number, bits: 8 | 16): number[] {
    if (span === 1) return new Array<number>(count).fill(0);
    const values = 2 ** bits;
    const threshold = (values - span) % span;
    let buffer = 0;
    let left = 0;
    const next = (): number => {
      if (left === 0) {
        buffer = this.#bits.uint32();
        left = 32 / bits;
      } else buffer >>>= bits;
      left -= 1;
      return (buffer & (values - 1)) * span;
    };
    return Array.from({ length: count }, () => {
      let product = next();
      while ((product & (values - 1)) < threshold) product = next();
      return product >>> bits;
    });
  }

  /** Returns an independent stream that starts at the position of this one. */
  copy(): Generator {
    const copy = new Generator(0);
    copy.state = this.state;
    return copy;
  }

  /** Draws one of the items, each with equal probability: NumPy's `choice(items)`. */
  choice<Item>(items: readonly Item[]): Item {
    return items[this.integer(0, items.length)]!;
  }

  /**
   * Draws the index of one of the weights, with the probability of its share of their sum: NumPy's
   * `choice(n, p=weights)`.
   */
  weighted(weights: readonly number[]): number {
    let sum = 0;
    const sums = weights.map((weight) => {
      sum += weight;
      return sum;
    });
    const drawn = this.double();
    const at = sums.findIndex((value) => value / sum > drawn);
    return at < 0 ? weights.length - 1 : at;
  }

  /** Draws NumPy's `standard_normal()`. */
  normal(): number {
    const { k, w, f, tail } = normalZiggurat();
    const bits = this.#bits;
    for (;;) {
      bits.draw();
      const { high, low } = bits;
      const layer = low & 0xff;
      const mantissa = (high & 0x1fffffff) * TWO_23 + (low >>> 9);
      const x = (low & 0x100) === 0 ? mantissa * w[layer]! : -mantissa * w[layer]!;
      if (mantissa < k[layer]!) return x;
      if (layer === 0) {
        for (;;) {
          const beyond = -Math.log1p(-this.double()) / tail;
          const y = -Math.log1p(-this.double());
          if (y + y > beyond * beyond) return (low & 0x20000) === 0 ? tail + beyond : -(tail + beyond);
        }
      }
      if ((f[layer - 1]! - f[layer]!) * this.double() + f[layer]! < Math.exp(-0.5 * x * x)) return x;
    }
  }

  /** Draws NumPy's `standard_exponential()`. */
  exponential(): number {
    const { k, w, f, tail } = exponentialZiggurat();
    const bits = this.#bits;
    for (;;) {
      bits.draw();
      const { high, low } = bits;
      const layer = (low >>> 3) & 0xff;
      const mantissa = high * TWO_21 + (low >>> 11);
      const x = mantissa * w[layer]!;
      if (mantissa < k[layer]!) return x;
      if (layer === 0) return tail - Math.log1p(-this.double());
      if ((f[layer - 1]! - f[layer]!) * this.double() + f[layer]! < Math.exp(-x)) return x;
    }
  }

  /** Trials until the first success of probability `chance`, which is below 1/3: NumPy's `geometric(chance)`. */
  geometric(chance: number): number {
    return Math.ceil(-this.exponential() / Math.log1p(-chance));
  }

  #below32(span: number): number {
    const threshold = (UINT32_MAX + 1 - span) % span;
    for (;;) {
      const drawn = this.#bits.uint32();
      if (Math.imul(drawn, span) >>> 0 < threshold) continue;
      // The upper half of a 64-bit product, by halves that are exact in a double.
      return Math.floor((drawn * (span >>> 16) + Math.floor((drawn * (span & 0xffff)) / 65536)) / 65536);
    }
  }

  #below64(span: bigint): bigint {
    const threshold = ((1n << 64n) - span) % span;
    for (;;) {
      this.#bits.draw();
      const product = ((BigInt(this.#bits.high) << 32n) | BigInt(this.#bits.low)) * span;
      if ((product & 0xffffffffffffffffn) >= threshold) return product >> 64n;
    }
  }
}
