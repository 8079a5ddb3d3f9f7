/**
 * The vectors of all entries as signatures of 512 bits, with the fields that decide whether a search may find an entry, in
 * typed arrays. A search passes over all of them in some milliseconds, and compares only the exact vectors of the nearest.
 *
 * A bit is the sign of the vector in one direction of a fixed random rotation. The share of equal bits estimates the angle
 * between two vectors; the rotated query, unrounded, against the bits of an entry estimates it twice as well, and costs more.
 */
import { Postings } from './postings.ts';

export const SIGNATURE_WORDS = 16;
const BITS = SIGNATURE_WORDS * 32;
export const SIGNATURE_BYTES = SIGNATURE_WORDS * 4;
/** Number of nearest entries by equal bits, per requested vector, that get the better estimate. */
const ESTIMATED = 4;
/** Number of nearest entries by half of the bits, per requested vector, for which all bits are compared. */
const ROUGHLY_ESTIMATED = 32;
const HALF_WORDS = SIGNATURE_WORDS / 2;
/** Capacity of a new index, as a multiple of its present entries. */
const SPARE = 1.1;
/** Minimum number of entries that estimate the distance of the nearest: the estimate is off by a twentieth of their number. */
const SAMPLE = 4096;

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

/** Returns the signature of a vector of up to 8,192 numbers. */
export const signatureOf = (vector: Float32Array): Uint32Array => signsOf(rotated(vector));

/** Rotates a vector by a Hadamard transform with random signs, twice: each number depends on all, even where most are zero. */
function rotated(vector: Float32Array): Float32Array {
  let size = BITS;
  while (size < vector.length) size *= 2;
  const turned = new Float32Array(size);
  turned.set(vector.subarray(0, size));
  for (let round = 0; round < 2; round += 1) {
    const from = round * 4099;
    for (let at = 0; at < size; at += 1) (turned[at] as number) *= signs[(at + from) & (signs.length - 1)] as number;
    hadamard(turned);
  }
  return turned;
}

function signsOf(turned: Float32Array): Uint32Array {
  const words = new Uint32Array(SIGNATURE_WORDS);
  for (let bit = 0; bit < BITS; bit += 1) {
    if ((turned[bit] as number) > 0) words[bit >>> 5] = (words[bit >>> 5] as number) | (1 << (bit & 31));
  }
  return words;
}

/** Returns, for each byte of a signature and each value of it, its addend to the product with a rotated query. */
function productTables(turned: Float32Array): Float32Array {
  const tables = new Float32Array(SIGNATURE_BYTES * 256);
  for (let byte = 0; byte < SIGNATURE_BYTES; byte += 1) {
    const table = tables.subarray(byte * 256, byte * 256 + 256);
    for (let bit = 0; bit < 8; bit += 1) table[0] = (table[0] as number) - (turned[byte * 8 + bit] as number);
    for (let value = 1; value < 256; value += 1) {
      // The entry for the value without its highest bit, with that bit inverted.
      const high = 31 - Math.clz32(value);
      table[value] = (table[value ^ (1 << high)] as number) + 2 * (turned[byte * 8 + high] as number);
    }
  }
  return tables;
}

/**
 * Returns the number of different bits of half a signature. Two words at a time are counted up to the sums of four bits, and
 * added there.
 */
function halfDistance(bits: Uint32Array, from: number, half: Uint32Array): number {
  let sums = 0;
  for (let word = 0; word < HALF_WORDS; word += 2) {
    let one = (bits[from + word] as number) ^ (half[word] as number);
    let two = (bits[from + word + 1] as number) ^ (half[word + 1] as number);
    one -= (one >>> 1) & 0x55555555;
    two -= (two >>> 1) & 0x55555555;
    one = (one & 0x33333333) + ((one >>> 2) & 0x33333333);
    two = (two & 0x33333333) + ((two >>> 2) & 0x33333333);
    one += two;
    // At most 16 for each byte and pair of words: four pairs stay within a byte.
    sums += (one & 0x0f0f0f0f) + ((one >>> 4) & 0x0f0f0f0f);
  }
  return (sums & 255) + ((sums >>> 8) & 255) + ((sums >>> 16) & 255) + (sums >>> 24);
}

/** Returns the distance within which `count` entries of a histogram lie; it must have that many. */
function distanceWithin(histogram: Int32Array, count: number): number {
  let distance = 0;
  for (let within = histogram[0] as number; within < count; within += histogram[distance] as number) distance += 1;
  return distance;
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

/** The index fields of an entry beside its signature. Times are epoch seconds. */
export interface IndexedEntry {
  readonly id: number;
  readonly part: number;
  readonly starts: number;
  readonly ends: number;
  readonly expires: number;
  /** The number of its words, with repeats. */
  readonly words: number;
  /** Undefined: it has no vector yet. */
  readonly signature: Uint32Array | undefined;
}

/** Entries as columns, ascending by their ids; an entry has three times and a signature in a row. */
export interface IndexColumns {
  readonly ids: Float64Array;
  /** Three numbers per entry: starts, ends, expires. */
  readonly times: Float64Array;
  readonly parts: Int32Array;
  readonly words: Uint32Array;
  /** Number of the embedder of the signature; 0: none. */
  readonly embedders: Int32Array;
  readonly bits: Uint32Array;
}

/** Returns the position of an id among the first `size` ids, which ascend, by halving. -1 without it. */
export function placeIn(ids: Float64Array, size: number, id: number): number {
  const at = placeFrom(ids, size, id);
  return at < size && ids[at] === id ? at : -1;
}

/** Returns the position of the first id that is not below this one. */
function placeFrom(ids: Float64Array, size: number, id: number): number {
  let low = 0;
  let high = size;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ids[middle] as number) < id) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The entries that a search may find. */
export interface Wanted {
  /** 1 for each searched part, by its number. */
  readonly parts: Uint8Array;
  /** Entries valid at this time; undefined: at any. */
  readonly at: number | undefined;
  /** Entries not expired at this time. */
  readonly now: number;
  /** Only these ids; undefined: all. */
  readonly ids?: ReadonlySet<number> | undefined;
}

export class SignatureIndex {
  /** The lists of the words that were searched last. */
  readonly postings = new Postings();
  #size = 0;
  #ids: Float64Array;
  #parts: Int32Array;
  /** Three numbers per entry: starts, ends, expires. */
  #times: Float64Array;
  /** 1 for an entry with a signature. */
  #signed: Uint8Array;
  #bits: Uint32Array;
  #wordCounts: Uint32Array;
  /** Distances of the search under way. */
  #distances: Uint16Array;

  /** @param entries number of entries that fit without growing */
  constructor(entries = 0) {
    const capacity = Math.max(1024, Math.ceil(entries * SPARE));
    this.#ids = new Float64Array(capacity);
    this.#parts = new Int32Array(capacity);
    this.#times = new Float64Array(3 * capacity);
    this.#signed = new Uint8Array(capacity);
    this.#bits = new Uint32Array(SIGNATURE_WORDS * capacity);
    this.#wordCounts = new Uint32Array(capacity);
    this.#distances = new Uint16Array(capacity);
  }

  /** The number of entries, with removed ones until they are cleared. */
  get size(): number {
    return this.#size;
  }

  /** The highest id; 0 without entries. */
  get lastId(): number {
    return this.#size === 0 ? 0 : (this.#ids[this.#size - 1] as number);
  }

  /** Adds an entry, whose id is higher than all before it; `text` has its words if its text is being stored. */
  add(entry: IndexedEntry, text: readonly string[] = []): void {
    if (this.#size === this.#ids.length) this.#grow();
    const at = this.#size++;
    this.#ids[at] = entry.id;
    this.#set(at, entry);
    this.postings.add(at, text);
  }

  /** Adds entries whose ids are higher than all before them, with the signatures of one embedder. */
  addColumns({ ids, times, parts, words, embedders, bits }: IndexColumns, embedder: number): void {
    const at = this.#size;
    while (at + ids.length > this.#ids.length) this.#grow();
    this.#size += ids.length;
    this.#ids.set(ids, at);
    this.#times.set(times, 3 * at);
    this.#parts.set(parts, at);
    this.#wordCounts.set(words, at);
    this.#bits.set(bits, at * SIGNATURE_WORDS);
    for (let n = 0; n < ids.length; n += 1) this.#signed[at + n] = embedders[n] === embedder ? 1 : 0;
  }

  /**
   * Replaces the entries with ids from `first` to `last` by these, which ascend: known ones change, new ones are added, others
   * are removed. Returns false if one of them is older than the newest here, and not known: it has no position. Then the rest
   * is not replaced.
   */
  replace(first: number, last: number, entries: Iterable<IndexedEntry>): boolean {
    let at = placeFrom(this.#ids, this.#size, first);
    for (const entry of entries) {
      for (; at < this.#size && (this.#ids[at] as number) < entry.id; at += 1) this.#removeAt(at);
      if (at === this.#size) this.add(entry);
      else if (this.#ids[at] !== entry.id) return false;
      else this.#set(at, entry);
      at += 1;
    }
    for (; at < this.#size && (this.#ids[at] as number) <= last; at += 1) this.#removeAt(at);
    return true;
  }

  /** Sets the end of an entry's validity. */
  end(id: number, ends: number): void {
    const at = this.placeOf(id);
    if (at !== -1) this.#times[3 * at + 1] = ends;
  }

  expire(id: number, expires: number): void {
    const at = this.placeOf(id);
    if (at !== -1) this.#times[3 * at + 2] = expires;
  }

  /** Sets the signature of an entry. */
  sign(id: number, signature: Uint32Array | undefined): void {
    const at = this.placeOf(id);
    if (at !== -1) this.#sign(at, signature);
  }

  /** Removes a deleted entry, so that no search finds it. */
  remove(id: number): void {
    const at = this.placeOf(id);
    if (at !== -1) this.#removeAt(at);
  }

  /** Returns the position of an id among all; -1 without it. */
  placeOf(id: number): number {
    return placeIn(this.#ids, this.#size, id);
  }

  idAt(place: number): number {
    return this.#ids[place] as number;
  }

  /** The number of words of each entry, by its position; longer than the number of entries. */
  get wordCounts(): Uint32Array {
    return this.#wordCounts;
  }

  /** Returns, by the position of each entry, 1 when a search may find it. */
  fitting({ parts, at: time, now, ids }: Wanted): Uint8Array {
    const size = this.#size;
    const times = this.#times;
    const fitting = new Uint8Array(size);
    for (let at = 0; at < size; at += 1) {
      const part = this.#parts[at] as number;
      if (part < 0 || parts[part] !== 1) continue;
      if (time !== undefined && ((times[3 * at] as number) > time || (times[3 * at + 1] as number) <= time)) continue;
      if ((times[3 * at + 2] as number) > now && (ids === undefined || ids.has(this.#ids[at] as number)))
        fitting[at] = 1;
    }
    return fitting;
  }

  /**
   * Returns the ids of about `count` entries whose vectors are nearest, as far as their signatures tell, in no order; only of
   * those that fit (see {@link fitting}).
   */
  nearest(vector: Float32Array, count: number, fitting: Uint8Array): number[] {
    const turned = rotated(vector);
    const signature = signsOf(turned);
    const signed = new Int32Array(this.#size);
    let found = 0;
    for (let at = 0; at < signed.length; at += 1) if (fitting[at] === 1 && this.#signed[at] === 1) signed[found++] = at;
    const places = this.#nearestBits(signed.subarray(0, found), signature, count);
    const tables = productTables(turned);
    const products = new Float32Array(places.length);
    for (let n = 0; n < places.length; n += 1)
      products[n] = this.#product((places[n] as number) * SIGNATURE_WORDS, tables);
    const lowest = products.toSorted()[Math.max(0, products.length - count)] as number;
    const ids: number[] = [];
    for (let n = 0; n < places.length; n += 1)
      if ((products[n] as number) >= lowest) ids.push(this.#ids[places[n] as number] as number);
    return ids;
  }

  /** Returns those of some positions that have the most bits in common, ascending, about `count` times {@link ESTIMATED}. */
  #nearestBits(places: Int32Array, signature: Uint32Array, count: number): Int32Array {
    const wanted = count * ESTIMATED;
    if (places.length <= wanted) return places;
    const bits = this.#bits;
    const distances = this.#distances;
    const first = signature.subarray(0, HALF_WORDS);
    const second = signature.subarray(HALF_WORDS);
    const limit = this.#roughLimit(places, first, count * ROUGHLY_ESTIMATED);
    const histogram = new Int32Array(BITS + 1);
    const compared = new Int32Array(places.length);
    let found = 0;
    for (let n = 0; n < places.length; n += 1) {
      const place = places[n] as number;
      const from = place * SIGNATURE_WORDS;
      const half = halfDistance(bits, from, first);
      if (half > limit) continue;
      // Compared now, while both halves are in the processor's cache.
      const distance = half + halfDistance(bits, from + HALF_WORDS, second);
      compared[found] = place;
      distances[found++] = distance;
      (histogram[distance] as number) += 1;
    }
    if (found <= wanted) return compared.subarray(0, found);
    const farthest = distanceWithin(histogram, wanted);
    // Entries exactly as far as the last of them are included, too, up to a bound; the newest first.
    let left = wanted * 2;
    const nearest = new Int32Array(left);
    for (let n = found - 1; n >= 0 && left > 0; n -= 1) {
      if ((distances[n] as number) <= farthest) nearest[--left] = compared[n] as number;
    }
    return nearest.subarray(left);
  }

  /** Returns the maximum distance of the nearest `count` positions in the first half of their bits, estimated by a sample. */
  #roughLimit(places: Int32Array, first: Uint32Array, count: number): number {
    if (places.length <= count) return BITS;
    const step = Math.max(1, Math.floor(places.length / SAMPLE));
    const histogram = new Int32Array(BITS + 1);
    for (let n = 0; n < places.length; n += step) {
      const distance = halfDistance(this.#bits, (places[n] as number) * SIGNATURE_WORDS, first);
      (histogram[distance] as number) += 1;
    }
    return distanceWithin(histogram, count / step);
  }

  /** Returns a number about proportional to the product of the entry's vector with the query of the tables. */
  #product(from: number, tables: Float32Array): number {
    let sum = 0;
    for (let word = 0; word < SIGNATURE_WORDS; word += 1) {
      const bits = this.#bits[from + word] as number;
      const table = word * 1024;
      sum +=
        (tables[table + (bits & 255)] as number) +
        (tables[table + 256 + ((bits >>> 8) & 255)] as number) +
        (tables[table + 512 + ((bits >>> 16) & 255)] as number) +
        (tables[table + 768 + (bits >>> 24)] as number);
    }
    return sum;
  }

  #set(at: number, { part, starts, ends, expires, words, signature }: IndexedEntry): void {
    this.#parts[at] = part;
    this.#times[3 * at] = starts;
    this.#times[3 * at + 1] = ends;
    this.#times[3 * at + 2] = expires;
    this.#wordCounts[at] = words;
    this.#sign(at, signature);
  }

  #removeAt(at: number): void {
    this.#parts[at] = -1;
    this.#sign(at, undefined);
  }

  #sign(at: number, signature: Uint32Array | undefined): void {
    this.#signed[at] = signature === undefined ? 0 : 1;
    if (signature !== undefined) this.#bits.set(signature, at * SIGNATURE_WORDS);
  }

  #grow(): void {
    const capacity = this.#ids.length * 2;
    this.#ids = grown(this.#ids, new Float64Array(capacity));
    this.#parts = grown(this.#parts, new Int32Array(capacity));
    this.#times = grown(this.#times, new Float64Array(3 * capacity));
    this.#signed = grown(this.#signed, new Uint8Array(capacity));
    this.#bits = grown(this.#bits, new Uint32Array(SIGNATURE_WORDS * capacity));
    this.#wordCounts = grown(this.#wordCounts, new Uint32Array(capacity));
    this.#distances = new Uint16Array(capacity);
  }
}

function grown<Values extends { set(from: Values): void }>(from: Values, into: Values): Values {
  into.set(from);
  return into;
}
