/**
 * NumPy's `SeedSequence`: spreads a seed of any size over the whole state of a generator, so that neighbouring seeds give
 * unrelated streams. Melissa O'Neill's `seed_seq_fe` with four words; equal to NumPy's word for word.
 */

const POOL_SIZE = 4;

/** Returns a multiplicative hash whose constant changes at every use. */
function hasher(constant: number, multiplier: number): (value: number) => number {
  let current = constant;
  return (value) => {
    const mixed = value ^ current;
    current = Math.imul(current, multiplier);
    const product = Math.imul(mixed, current);
    return (product ^ (product >>> 16)) >>> 0;
  };
}

function mix(x: number, y: number): number {
  const result = (Math.imul(0xca01f9dd, x) - Math.imul(0x4973f715, y)) >>> 0;
  return (result ^ (result >>> 16)) >>> 0;
}

/** Returns the 32-bit words of an integer, the lowest first; zero has one word. */
function wordsOf(seed: bigint): number[] {
  const words: number[] = [];
  for (let rest = seed; rest > 0n || words.length === 0; rest >>= 32n) words.push(Number(rest & 0xffffffffn));
  return words;
}

/**
 * Returns the first `count` 32-bit words of the seed sequence of `seed`.
 * @param seed an integer that is not negative, or the words NumPy's `SeedSequence` takes as an array
 */
export function seedWords(seed: number | bigint | readonly number[], count: number): Uint32Array {
  const entropy = typeof seed === 'object' ? seed : wordsOf(BigInt(seed));
  const hash = hasher(0x43b0d7e5, 0x931e8875);
  const pool = Array.from({ length: POOL_SIZE }, (_, at) => hash(entropy[at] ?? 0));
  for (let from = 0; from < POOL_SIZE; from += 1) {
    for (let to = 0; to < POOL_SIZE; to += 1) {
      if (from !== to) pool[to] = mix(pool[to]!, hash(pool[from]!));
    }
  }
  for (const word of entropy.slice(POOL_SIZE)) {
    for (let to = 0; to < POOL_SIZE; to += 1) pool[to] = mix(pool[to]!, hash(word));
  }
  const output = hasher(0x8b51f9dd, 0x58f38ded);
  return Uint32Array.from({ length: count }, (_, at) => output(pool[at % POOL_SIZE]!));
}
