/**
 * A queue that removes its first item without copying the rest: an array and the index of its first item.
 *
 * `Array.shift` moves all items behind the first one; queues of a connection hold thousands.
 */

/** Items that have left, above which the array is cut. */
const LEFT_ITEMS = 512;

export class Fifo<T> {
  #items: T[] = [];
  #head = 0;

  get size(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Removes the first item. */
  shift(): T | undefined {
    if (this.size === 0) return undefined;
    const item = this.#items[this.#head++];
    if (this.#head > LEFT_ITEMS && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  /** Removes an item, wherever it is. False when it is not in the queue. */
  delete(item: T): boolean {
    const at = this.#items.indexOf(item, this.#head);
    if (at >= 0) this.#items.splice(at, 1);
    return at >= 0;
  }

  clear(): void {
    this.#items = [];
    this.#head = 0;
  }

  [Symbol.iterator](): Iterator<T> {
    return this.#items.slice(this.#head).values();
  }
}
