/**
 * The stored form of vectors: a byte a number and one scale, a quarter of their size. The error of a cosine is some 0.001,
 * which is below its significance.
 */

/** The scale, as a 32-bit float in little-endian order, comes before the numbers. */
const SCALE_BYTES = 4;
const HIGHEST = 127;

export function packVector(vector: Float32Array): Uint8Array {
  let largest = 0;
  for (const number of vector) largest = Math.max(largest, Math.abs(number));
  const scale = largest / HIGHEST;
  const packed = new Uint8Array(SCALE_BYTES + vector.length);
  new DataView(packed.buffer).setFloat32(0, scale, true);
  if (scale === 0) return packed;
  const numbers = new Int8Array(packed.buffer, SCALE_BYTES);
  for (let at = 0; at < vector.length; at += 1) numbers[at] = Math.round((vector[at] as number) / scale);
  return packed;
}

/** Returns the cosine of a vector of length 1 and a stored one. */
export function cosineWith(vector: Float32Array, { buffer, byteOffset, byteLength }: Uint8Array): number {
  if (byteLength < SCALE_BYTES) return 0;
  const scale = new DataView(buffer, byteOffset).getFloat32(0, true);
  const numbers = new Int8Array(buffer, byteOffset + SCALE_BYTES, byteLength - SCALE_BYTES);
  const length = Math.min(vector.length, numbers.length);
  let sum = 0;
  for (let at = 0; at < length; at += 1) sum += (vector[at] as number) * (numbers[at] as number);
  return sum * scale;
}
