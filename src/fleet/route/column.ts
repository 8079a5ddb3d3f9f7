/**
 * One number of every worker that has it, sorted, so that a limit leaves out a stretch from one end: nearly always a short
 * one, and no set of workers has to be kept for each limit.
 */
import { setBit } from './bits.ts';

export class Column {
  #values = new Float64Array(64);
  #slots = new Int32Array(64);
  /** Slot → its value; NaN: none. */
  #bySlot = new Float64Array(64).fill(Number.NaN);
  #size = 0;

  /** Sets the value of a slot; null: it has none. */
  set(slot: number, value: number | null): void {
    if (slot >= this.#bySlot.length) this.#growTo(slot + 1);
    const before = this.#bySlot[slot]!;
    const after = value ?? Number.NaN;
    if (Object.is(before, after)) return;
    if (!Number.isNaN(before)) this.#remove(before, slot);
    this.#bySlot[slot] = after;
    if (!Number.isNaN(after)) this.#insert(after, slot);
  }

  /** Takes out of the bits every slot with a value below the limit. */
  clearBelow(bits: Int32Array, limit: number): void {
    for (let at = 0; at < this.#size && this.#values[at]! < limit; at += 1) setBit(bits, this.#slots[at]!, false);
  }

  /** Takes out of the bits every slot with a value above the limit. */
  clearAbove(bits: Int32Array, limit: number): void {
    for (let at = this.#size - 1; at >= 0 && this.#values[at]! > limit; at -= 1) setBit(bits, this.#slots[at]!, false);
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

  /** Where it is, or belongs: by value, then by slot. */
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
