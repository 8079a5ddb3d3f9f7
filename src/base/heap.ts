/**
 * A binary heap whose members know their position, so that any of them can be moved or removed in O(log n).
 */

/** Member of one heap at a time. `heapIndex` belongs to the heap; −1 outside of it. */
export interface Placed {
  heapIndex: number;
}

export class Heap<T extends Placed> {
  readonly #before: (left: T, right: T) => boolean;
  readonly #items: T[] = [];

  /** @param before a strict order; the first item in it is at the top */
  constructor(before: (left: T, right: T) => boolean) {
    this.#before = before;
  }

  get size(): number {
    return this.#items.length;
  }

  peek(): T | undefined {
    return this.#items[0];
  }

  push(item: T): void {
    this.#items.push(item);
    this.#rise(item, this.#items.length - 1);
  }

  pop(): T | undefined {
    const top = this.#items[0];
    if (top !== undefined) this.remove(top);
    return top;
  }

  /** Returns the first item that passes, without moving any. Items after one that passes are not visited. */
  first(passes: (item: T) => boolean): T | undefined {
    let best: T | undefined;
    const open = [0];
    for (let place = open.pop(); place !== undefined; place = open.pop()) {
      const item = this.#items[place];
      if (item === undefined || (best !== undefined && !this.#before(item, best))) continue;
      if (passes(item)) best = item;
      else open.push(2 * place + 2, 2 * place + 1);
    }
    return best;
  }

  has(item: T): boolean {
    return this.#items[item.heapIndex] === item;
  }

  /** Takes it out, wherever it is; false: it is not here. */
  remove(item: T): boolean {
    if (!this.has(item)) return false;
    const at = item.heapIndex;
    const last = this.#items.pop()!;
    item.heapIndex = -1;
    if (last !== item) this.#settle(last, at);
    return true;
  }

  /** Moves an item to its position after its ordering key has changed. */
  moved(item: T): void {
    if (this.has(item)) this.#settle(item, item.heapIndex);
  }

  #settle(item: T, at: number): void {
    this.#rise(item, at);
    this.#sink(item, item.heapIndex);
  }

  #rise(item: T, from: number): void {
    let at = from;
    while (at > 0) {
      const above = (at - 1) >>> 1;
      const parent = this.#items[above]!;
      if (!this.#before(item, parent)) break;
      this.#place(parent, at);
      at = above;
    }
    this.#place(item, at);
  }

  #sink(item: T, from: number): void {
    const items = this.#items;
    let at = from;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= items.length) break;
      const right = below + 1;
      if (right < items.length && this.#before(items[right]!, items[below]!)) below = right;
      const child = items[below]!;
      if (!this.#before(child, item)) break;
      this.#place(child, at);
      at = below;
    }
    this.#place(item, at);
  }

  #place(item: T, at: number): void {
    this.#items[at] = item;
    item.heapIndex = at;
  }
}
