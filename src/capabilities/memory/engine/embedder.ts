/** Makes vectors of texts. `hashed.ts` is built in; `endpoint.ts` calls a server of the configuration. */
export interface Embedder {
  /** Names what it computes: vectors of different names are never compared. */
  readonly name: string;
  /** Cosine below which two texts count as unrelated. */
  readonly floor: number;
  /** How much its ranking counts beside that of the words, which counts 1. */
  readonly weight: number;
  /** True where the vectors are computed here, within microseconds: then entries get theirs when they are stored. */
  readonly local: boolean;
  /** Vectors of length 1, in the order of the texts. Rejects with a `HandfastError` when it does not respond in time. */
  embed(texts: readonly string[], timeoutMs: number): Promise<Float32Array[]>;
  /** The same without waiting; only where `local`. */
  embedNow?(text: string): Float32Array;
}

/** Scales a vector to length 1, in place; one of zeros stays. */
export function normalize(vector: Float32Array): Float32Array {
  let sum = 0;
  for (let at = 0; at < vector.length; at += 1) sum += (vector[at] as number) ** 2;
  if (sum === 0) return vector;
  const factor = 1 / Math.sqrt(sum);
  for (let at = 0; at < vector.length; at += 1) (vector[at] as number) *= factor;
  return vector;
}

/** Cosine of two vectors of length 1. */
export function dot(left: Float32Array, right: Float32Array): number {
  let sum = 0;
  const length = Math.min(left.length, right.length);
  for (let at = 0; at < length; at += 1) sum += (left[at] as number) * (right[at] as number);
  return sum;
}
