/**
 * One number of every worker that has it, sorted, so that a limit removes a contiguous range from one end. Most of a long
 * range is removed at once by a mask that is cached until the column changes. Masks are cached at fixed strides and not by
 * limit, because limits are as many as tasks.
 */
import { bitsFor, intersect, setBit } from './bits.ts';

/** Number of entries between two cached masks. */
const STRIDE = 256;

export class Column {
  #values = new Float64Array(64);
  #slots = new Int32Array(64);
  /** Slot → its value; NaN: none. */
  #bySlot = new Float64Array(64).fill(Number.NaN);
  #size = 0;
  /** Masks by stride: all workers except those before it, and all workers except those from it on. */
  #notBefore: (Int32Array | undefined)[] = [];
  #notFrom: (Int32Array | undefined)[] = [];

  /** Sets the value of a slot; null: it has none. */
  set(slot: number, value: number | null): void {
    if (slot >= this.#bySlot.length) this.#growTo(slot + 1);
    const before = this.#bySlot[slot]!;
    const after = value ?? Number.NaN;
    if (Object.is(before, after)) return;
    if (!Number.isNaN(before)) this.#remove(before, slot);
    this.#bySlot[slot] = after;
    if (!Number.isNaN(after)) this.#insert(after, slot);
    this.#changed();
  }

  /** Removes from the bits every slot with a value below the limit. */
  clearBelow(bits: Int32Array, limit: number): void {
    const end = this.#placeOf(limit, Number.NEGATIVE_INFINITY);
    const stride = Math.floor(end / STRIDE);
    if (stride > 0) intersect(bits, this.#mask(this.#notBefore, stride, 0, stride * STRIDE, bits.length));
    for (let at = stride * STRIDE; at < end; at += 1) setBit(bits, this.#slots[at]!, false);
  }

  /** Removes from the bits every slot with a value above the limit. */
  clearAbove(bits: Int32Array, limit: number): void {
    const start = this.#placeOf(limit, Number.POSITIVE_INFINITY);
    const stride = Math.ceil(start / STRIDE);
    const middle = Math.min(this.#size, stride * STRIDE);
    for (let at = start; at < middle; at += 1) setBit(bits, this.#slots[at]!, false);
    if (middle < this.#size) intersect(bits, this.#mask(this.#notFrom, stride, middle, this.#size, bits.length));
  }

  /** Returns all workers except the slots of these entries; cached by stride. */
  #mask(masks: (Int32Array | undefined)[], stride: number, start: number, end: number, words: number): Int32Array {
    let mask = masks[stride];
    if (mask === undefined || mask.length !== words) {
      mask = bitsFor(words * 32).fill(-1);
      for (let at = start; at < end; at += 1) setBit(mask, this.#slots[at]!, false);
      masks[stride] = mask;
    }
    return mask;
  }

  #changed(): void {
    if (this.#notBefore.length > 0) this.#notBefore = [];
    if (this.#notFrom.length > 0) this.#notFrom = [];
  }

  #insert(value: number, slot: number): void {
    if (this.#size === this.#values.length) {
      this.#values = doubled(this.#values, new Float64Array(this.#size * 2));
      this.#slots = doubled(this.#slots, new Int32Array(this.#size * 2));
    }
    const at = this.#placeOf(value, slot);
    this.#values.copyWithin(at + 1, at, this.#size);
    this.#slots.copyWithin(at + 1, at, this.#size);
    this.#values[at] = value;
    this.#slots[at] = slot;
    this.#size += 1;
  }

  #remove(value: number, slot: number): void {
    const at = this.#placeOf(value, slot);
    this.#values.copyWithin(at, at + 1, this.#size);
    this.#slots.copyWithin(at, at + 1, this.#size);
    this.#size -= 1;
  }

  /** Returns the index of the entry, or its insertion index: ordered by value, then by slot. */
  #placeOf(value: number, slot: number): number {
    let low = 0;
    let high = this.#size;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = this.#values[middle]!;
      if (other < value || (other === value && this.#slots[middle]! < slot)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #growTo(slots: number): void {
    const size = Math.max(slots, this.#bySlot.length * 2);
    this.#bySlot = doubled(this.#bySlot, new Float64Array(size).fill(Number.NaN));
  }
}

function doubled<T extends Float64Array | Int32Array>(from: T, into: T): T {
  into.set(from);
  return into;
}
