/**
 * The tables of the ziggurat method (Marsaglia and Tsang, 256 layers) for the normal and the exponential distribution, as NumPy
 * draws them. They are computed at first use; NumPy's were computed with more digits, so that a draw may differ from NumPy's in
 * its last places.
 */

const LAYERS = 256;

/** Layer `at` has the width `w[at]`, the height `f[at]`; a mantissa below `k[at]` is inside without another look. */
export interface Ziggurat {
  /** Start of the tail. */
  readonly tail: number;
  readonly k: Float64Array;
  readonly w: Float64Array;
  readonly f: Float64Array;
}

/**
 * @param tail the end of layer 255
 * @param area of each layer, the tail counted to the lowest
 * @param mantissa one more than the largest mantissa of a draw
 */
function ziggurat(
  density: (x: number) => number,
  inverse: (y: number) => number,
  tail: number,
  area: number,
  mantissa: number,
): Ziggurat {
  const k = new Float64Array(LAYERS);
  const w = new Float64Array(LAYERS);
  const f = new Float64Array(LAYERS);
  f[255] = density(tail);
  w[255] = tail / mantissa;
  k[0] = Math.floor(((tail * f[255]) / area) * mantissa);
  w[0] = area / f[255] / mantissa;
  f[0] = 1;
  let outer = tail;
  for (let at = 254; at > 0; at -= 1) {
    const x = inverse(area / outer + f[at + 1]!);
    k[at + 1] = Math.floor((x / outer) * mantissa);
    w[at] = x / mantissa;
    f[at] = density(x);
    outer = x;
  }
  return { tail, k, w, f };
}

let normal: Ziggurat | undefined;
let exponential: Ziggurat | undefined;

/** Returns the tables for mantissas of 52 bits. */
export function normalZiggurat(): Ziggurat {
  normal ??= ziggurat(
    (x) => Math.exp(-0.5 * x * x),
    (y) => Math.sqrt(-2 * Math.log(y)),
    3.6541528853610088,
    0.004928673233974655,
    2 ** 52,
  );
  return normal;
}

/** Returns the tables for mantissas of 53 bits. */
export function exponentialZiggurat(): Ziggurat {
  const tail = 7.69711747013105;
  exponential ??= ziggurat(
    (x) => Math.exp(-x),
    (y) => -Math.log(y),
    tail,
    (tail + 1) * Math.exp(-tail),
    2 ** 53,
  );
  return exponential;
}
