/**
 * Sets of workers as bits, one bit for each slot of the router. Removing every worker that fails a requirement costs a few
 * hundred machine words for ten thousand workers. This is the hot path of a decision.
 */

/**
 * Returns an empty set for this many members. Signed words, because the bit operations of JavaScript return signed 32-bit
 * integers.
 */
export function bitsFor(size: number): Int32Array {
  return new Int32Array((size + 31) >>> 5);
}

/** Returns a copy of the set with space for more members. */
export function grown(bits: Int32Array, size: number): Int32Array {
  const larger = bitsFor(size);
  larger.set(bits);
  return larger;
}

export function hasBit(bits: Int32Array, at: number): boolean {
  return ((bits[at >>> 5]! >>> (at & 31)) & 1) === 1;
}

export function setBit(bits: Int32Array, at: number, on: boolean): void {
  const mask = 1 << (at & 31);
  if (on) bits[at >>> 5]! |= mask;
  else bits[at >>> 5]! &= ~mask;
}

/** Removes from `into` every member that is not in `other`. */
export function intersect(into: Int32Array, other: Int32Array): void {
  const { length } = into;
  for (let word = 0; word < length; word += 1) into[word] = into[word]! & other[word]!;
}

/** Returns number of members. */
export function countBits(bits: Int32Array): number {
  let count = 0;
  for (let word = 0; word < bits.length; word += 1) {
    let left = bits[word]!;
    if (left === 0) continue;
    left -= (left >>> 1) & 0x55555555;
    left = (left & 0x33333333) + ((left >>> 2) & 0x33333333);
    count += (((left + (left >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24;
  }
  return count;
}

/** Calls `visit` for each member, in order, until it returns false. */
export function eachBit(bits: Int32Array, visit: (at: number) => boolean): void {
  for (let word = 0; word < bits.length; word += 1) {
    let left = bits[word]!;
    while (left !== 0) {
      const lowest = 31 - Math.clz32(left & -left);
      if (!visit(word * 32 + lowest)) return;
      left &= left - 1;
    }
  }
}
