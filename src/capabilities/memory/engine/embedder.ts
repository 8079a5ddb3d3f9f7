/**
 * The interface of embedders, which compute vectors of texts. `hashed.ts` is built in; `endpoint.ts` calls a server of the
 * configuration.
 */
export interface Embedder {
  /** The name of its method: vectors of different names are never compared. */
  readonly name: string;
  /** Cosine below which two texts count as unrelated. */
  readonly floor: number;
  /** Weight of its ranking beside that of the words, which has weight 1. */
  readonly weight: number;
  /** True where the vectors are computed here, within microseconds: then entries get theirs when they are stored. */
  readonly local: boolean;
  /**
   * Returns vectors of length 1, in the order of the texts. Rejects with a `HandfastError` when it does not respond in time.
   */
  embed(texts: readonly string[], timeoutMs: number): Promise<Float32Array[]>;
  /** Returns the vector of one text without waiting; only where `local`. */
  embedNow?(text: string): Float32Array;
}

/** Scales a vector to length 1, in place; a zero vector stays. */
export function normalize(vector: Float32Array): Float32Array {
  let sum = 0;
  for (let at = 0; at < vector.length; at += 1) sum += (vector[at] as number) ** 2;
  if (sum === 0) return vector;
  const factor = 1 / Math.sqrt(sum);
  for (let at = 0; at < vector.length; at += 1) (vector[at] as number) *= factor;
  return vector;
}

/** Returns the cosine of two vectors of length 1. */
export function dot(left: Float32Array, right: Float32Array): number {
  let sum = 0;
  const length = Math.min(left.length, right.length);
  for (let at = 0; at < length; at += 1) sum += (left[at] as number) * (right[at] as number);
  return sum;
}
