/**
 * The vectors of all entries as signatures of 384 bits, with what decides whether an entry may be found, in typed arrays.
 * A search passes over all of them in some milliseconds, and compares the exact vectors of the nearest alone.
 *
 * Used by `vectors.ts`. A bit is the sign of the vector in one direction of a fixed random rotation: the share of equal
 * bits estimates the angle between two vectors.
 */

export const SIGNATURE_WORDS = 12;
const BITS = SIGNATURE_WORDS * 32;
export const SIGNATURE_BYTES = SIGNATURE_WORDS * 4;

/** Signs of the rotation, the same in every process: signatures are stored. */
const signs = ((): Int8Array => {
  const drawn = new Int8Array(8192);
  let state = 0x2545f491;
  for (let at = 0; at < drawn.length; at += 1) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    drawn[at] = (state & 1) === 0 ? 1 : -1;
  }
  return drawn;
})();

/**
 * The signature of a vector of up to 8,192 numbers: rotated by a Hadamard transform with random signs, twice, so that each
 * bit depends on every number, also where most are zero.
 */
export function signatureOf(vector: Float32Array): Uint32Array {
  let size = 512;
  while (size < vector.length) size *= 2;
  const rotated = new Float32Array(size);
  rotated.set(vector.subarray(0, size));
  for (let round = 0; round < 2; round += 1) {
    for (let at = 0; at < size; at += 1) (rotated[at] as number) *= signs[(at + round * 4099) % signs.length] as number;
    hadamard(rotated);
  }
  const words = new Uint32Array(SIGNATURE_WORDS);
  for (let bit = 0; bit < BITS; bit += 1) {
    if ((rotated[bit] as number) > 0) words[bit >>> 5] = (words[bit >>> 5] as number) | (1 << (bit & 31));
  }
  return words;
}

function hadamard(values: Float32Array): void {
  for (let half = 1; half < values.length; half *= 2) {
    for (let from = 0; from < values.length; from += half * 2) {
      for (let at = from; at < from + half; at += 1) {
        const left = values[at] as number;
        const right = values[at + half] as number;
        values[at] = left + right;
        values[at + half] = left - right;
      }
    }
  }
}

/** What the index knows of an entry beside its signature. Times are epoch seconds. */
export interface IndexedEntry {
  readonly id: number;
  readonly part: number;
  readonly starts: number;
  readonly ends: number;
  readonly expires: number;
  /** Undefined: it has no vector yet. */
  readonly signature: Uint32Array | undefined;
}

/** Which entries a search may find. */
export interface Wanted {
  /** 1 for each part that is searched, by its number. */
  readonly parts: Uint8Array;
  /** Valid at this time. */
  readonly at: number;
  /** Not expired at this time. */
  readonly now: number;
  /** Only these; undefined: all. */
  readonly ids?: ReadonlySet<number> | undefined;
}

export class SignatureIndex {
  #size = 0;
  #ids = new Float64Array(1024);
  #parts = new Int32Array(1024);
  /** starts, ends, expires of each. */
  #times = new Float64Array(3 * 1024);
  /** 1 where there is a signature. */
  #signed = new Uint8Array(1024);
  #words = new Uint32Array(SIGNATURE_WORDS * 1024);
  #distances = new Uint16Array(1024);

  /** Entries in it, removed ones too until they are cleared away. */
  get size(): number {
    return this.#size;
  }

  /** The highest id; 0 without any. */
  get lastId(): number {
    return this.#size === 0 ? 0 : (this.#ids[this.#size - 1] as number);
  }

  /** Adds an entry, whose id is higher than all before it. */
  add({ id, part, starts, ends, expires, signature }: IndexedEntry): void {
    if (this.#size === this.#ids.length) this.#grow();
    const at = this.#size++;
    this.#ids[at] = id;
    this.#parts[at] = part;
    this.#times[3 * at] = starts;
    this.#times[3 * at + 1] = ends;
    this.#times[3 * at + 2] = expires;
    this.#sign(at, signature);
  }

  /** Sets until when an entry is valid. */
  end(id: number, ends: number): void {
    const at = this.#find(id);
    if (at !== -1) this.#times[3 * at + 1] = ends;
  }

  expire(id: number, expires: number): void {
    const at = this.#find(id);
    if (at !== -1) this.#times[3 * at + 2] = expires;
  }

  /** Sets the signature of an entry. */
  sign(id: number, signature: Uint32Array | undefined): void {
    const at = this.#find(id);
    if (at !== -1) this.#sign(at, signature);
  }

  /** An entry that was deleted: it is found no more. */
  remove(id: number): void {
    const at = this.#find(id);
    if (at === -1) return;
    this.#parts[at] = -1;
    this.#sign(at, undefined);
  }

  /** True when a search may find the entry. An id that is not in the index is not. */
  accepts(id: number, wanted: Wanted): boolean {
    const at = this.#find(id);
    return at !== -1 && this.#fits(at, wanted);
  }

  /** The ids of at most about `count` entries whose signatures are nearest, in no order. */
  nearest(signature: Uint32Array, count: number, wanted: Wanted): number[] {
    const size = this.#size;
    const distances = this.#distances;
    const histogram = new Int32Array(BITS + 2);
    for (let at = 0; at < size; at += 1) {
      let distance = BITS + 1;
      if (this.#signed[at] === 1 && this.#fits(at, wanted)) {
        distance = this.#distance(at * SIGNATURE_WORDS, signature);
      }
      distances[at] = distance;
      (histogram[distance] as number) += 1;
    }
    let farthest = 0;
    let within = histogram[0] as number;
    while (within < count && farthest < BITS) {
      farthest += 1;
      within += histogram[farthest] as number;
    }
    const ids: number[] = [];
    // What lies exactly as far as the last of them comes in too, up to a bound.
    for (let at = size - 1; at >= 0 && ids.length < count * 2; at -= 1) {
      if ((distances[at] as number) <= farthest) ids.push(this.#ids[at] as number);
    }
    return ids;
  }

  #distance(from: number, signature: Uint32Array): number {
    let sum = 0;
    for (let word = 0; word < SIGNATURE_WORDS; word += 1) {
      let bits = (this.#words[from + word] as number) ^ (signature[word] as number);
      bits -= (bits >>> 1) & 0x55555555;
      bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333);
      sum += Math.imul((bits + (bits >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
    }
    return sum;
  }

  #fits(at: number, { parts, at: time, now, ids }: Wanted): boolean {
    const part = this.#parts[at] as number;
    if (part < 0 || parts[part] !== 1) return false;
    if ((this.#times[3 * at] as number) > time || (this.#times[3 * at + 1] as number) <= time) return false;
    return (this.#times[3 * at + 2] as number) > now && (ids === undefined || ids.has(this.#ids[at] as number));
  }

  /** The place of an id, by halving: ids only grow. */
  #find(id: number): number {
    let low = 0;
    let high = this.#size - 1;
    while (low <= high) {
      const middle = (low + high) >>> 1;
      const found = this.#ids[middle] as number;
      if (found === id) return middle;
      if (found < id) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }

  #sign(at: number, signature: Uint32Array | undefined): void {
    this.#signed[at] = signature === undefined ? 0 : 1;
    if (signature !== undefined) this.#words.set(signature, at * SIGNATURE_WORDS);
  }

  #grow(): void {
    const capacity = this.#ids.length * 2;
    this.#ids = grown(this.#ids, new Float64Array(capacity));
    this.#parts = grown(this.#parts, new Int32Array(capacity));
    this.#times = grown(this.#times, new Float64Array(3 * capacity));
    this.#signed = grown(this.#signed, new Uint8Array(capacity));
    this.#words = grown(this.#words, new Uint32Array(SIGNATURE_WORDS * capacity));
    this.#distances = new Uint16Array(capacity);
  }
}

function grown<Values extends { set(from: Values): void }>(from: Values, into: Values): Values {
  into.set(from);
  return into;
}
