/**
 * Items in the order in which they were added, each in one list at a time, added and removed with every request.
 *
 * A `Set` does not fit: it makes a new table every few dozen changes, and each old table refers to the next one and to its
 * former items, so that the garbage collector keeps many removed items until its next full run. Here adding and removing
 * make no garbage.
 */

/** An item that can be in a list. The list owns these fields. */
export interface Linked<T extends Linked<T>> {
  /** The list it is in. */
  list: LinkedList<T> | undefined;
  previous: T | undefined;
  next: T | undefined;
}

/** A list of items that hold their own places in it. */
export class LinkedList<T extends Linked<T>> {
  #first: T | undefined;
  #last: T | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The item that was added before all others. */
  get first(): T | undefined {
    return this.#first;
  }

  /** Adds it behind all others; out of the list it is in, which may be this one. */
  add(item: T): void {
    item.list?.delete(item);
    item.list = this;
    item.previous = this.#last;
    if (this.#last === undefined) this.#first = item;
    else this.#last.next = item;
    this.#last = item;
    this.#size += 1;
  }

  /** Removes it; false when it is not in this list. */
  delete(item: T): boolean {
    if (item.list !== this) return false;
    const { previous, next } = item;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    item.list = undefined;
    item.previous = undefined;
    item.next = undefined;
    this.#size -= 1;
    return true;
  }

  /** Removes all. */
  clear(): void {
    while (this.#first !== undefined) this.delete(this.#first);
  }

  /** Iterates over the items, the oldest first. Items that were already yielded may be removed meanwhile. */
  *[Symbol.iterator](): IterableIterator<T> {
    for (let item = this.#first; item !== undefined; ) {
      const { next } = item;
      yield item;
      item = next;
    }
  }
}
