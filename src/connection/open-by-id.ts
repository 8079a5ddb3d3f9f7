/**
 * Open entries by the ids of messages: calls that wait for their reply, requests that wait for theirs.
 *
 * It serves both halves of a connection, for every message. Most peers count their ids up after a fixed beginning, as
 * in `k3f9a-17`: an entry with an id of that form is in a ring of slots, by its number. The rest is in a `Map`.
 *
 * One `Map` for all does not fit: it hashes each new string, and makes a new table every few dozen messages. Each old
 * table refers to the next one and to its former entries, so that the garbage collector keeps half of all finished
 * calls until its next full run. Together they took a third of the time of a call in memory.
 */

const ZERO = 48;
/** More digits could exceed the integers that V8 stores without an object. */
const MAX_DIGITS = 9;
/** Powers of two, so that a slot is a mask away. */
const FIRST_SLOTS = 16;
const MAX_SLOTS = 4096;

export class OpenById<V> {
  /**
   * The part of the first id before its number; null when the id was no string. It never changes: an id always has the
   * same key.
   */
  #beginning: string | null | undefined;
  #lastId: unknown;
  #lastKey: unknown;
  #slots: (V | undefined)[] = [];
  /** The number of the present or last entry in each slot. */
  #numbers: number[] = [];
  #inSlots = 0;
  /** Entries with ids without a number, and with numbers whose slot is occupied. */
  #others: Map<unknown, V> | undefined;

  get size(): number {
    return this.#others === undefined ? this.#inSlots : this.#inSlots + this.#others.size;
  }

  /**
   * Returns the key of an id: different ids have different keys. All ids are of the first one's type; any other has
   * undefined.
   */
  keyOf(id: unknown): unknown {
    if (id === this.#lastId) return this.#lastKey;
    if (this.#beginning === undefined) this.#beginning = typeof id === 'string' ? id.slice(0, numberAt(id)) : null;
    this.#lastId = id;
    this.#lastKey = keyOf(id, this.#beginning);
    return this.#lastKey;
  }

  get(key: unknown): V | undefined {
    const slot = this.#slotOf(key);
    return slot >= 0 ? this.#slots[slot] : this.#others?.get(key);
  }

  /** Adds an entry under a key that has none yet. */
  set(key: unknown, value: V): void {
    if (isCounted(key)) {
      if (this.#inSlots * 2 >= this.#slots.length && this.#slots.length < MAX_SLOTS) this.#grow();
      const slot = key & (this.#slots.length - 1);
      if (this.#slots[slot] === undefined) {
        this.#slots[slot] = value;
        this.#numbers[slot] = key;
        this.#inSlots++;
        return;
      }
    }
    this.#others ??= new Map();
    this.#others.set(key, value);
  }

  delete(key: unknown): boolean {
    const slot = this.#slotOf(key);
    if (slot < 0) return this.#others?.delete(key) === true;
    this.#slots[slot] = undefined;
    this.#inSlots--;
    return true;
  }

  /**
   * Returns a copy of the open entries: by number, which is the order in which they were opened, then the rest in that
   * order.
   */
  values(): V[] {
    const counted = this.#slots.flatMap((value, slot) =>
      value === undefined ? [] : [{ number: this.#numbers[slot] as number, value: value as V }],
    );
    const rest: V[] = [];
    for (const [key, value] of this.#others ?? []) {
      if (isCounted(key)) counted.push({ number: key, value });
      else rest.push(value);
    }
    return [...counted.sort((a, b) => a.number - b.number).map(({ value }) => value), ...rest];
  }

  /** Returns the slot of the open entry under the key; -1 when it has none. */
  #slotOf(key: unknown): number {
    if (!isCounted(key)) return -1;
    const slot = key & (this.#slots.length - 1);
    return this.#numbers[slot] === key && this.#slots[slot] !== undefined ? slot : -1;
  }

  #grow(): void {
    const slots = this.#slots;
    const numbers = this.#numbers;
    const length = Math.max(FIRST_SLOTS, slots.length * 2);
    this.#slots = new Array<V | undefined>(length).fill(undefined);
    this.#numbers = new Array<number>(length).fill(0);
    for (const [at, value] of slots.entries()) {
      if (value === undefined) continue;
      const number = numbers[at] as number;
      this.#slots[number & (length - 1)] = value;
      this.#numbers[number & (length - 1)] = number;
    }
  }
}

/** Returns true for a key that can have a slot. */
const isCounted = (key: unknown): key is number => typeof key === 'number' && key >= 0 && (key | 0) === key;

function keyOf(id: unknown, beginning: string | null): unknown {
  if (typeof id !== 'string') return beginning === null ? id : undefined;
  if (beginning === null) return undefined;
  const from = beginning.length;
  const digits = id.length - from;
  if (digits < 1 || digits > MAX_DIGITS || !id.startsWith(beginning)) return id;
  let number = 0;
  for (let at = from; at < id.length; at++) {
    const digit = id.charCodeAt(at) - ZERO;
    if (digit < 0 || digit > 9) return id;
    number = number * 10 + digit;
  }
  // `x-7` and `x-07` are different ids.
  return id.charCodeAt(from) === ZERO && digits > 1 ? id : number;
}

/** Returns the index at which the digits at the end of an id start. */
function numberAt(id: string): number {
  let at = id.length;
  while (at > 0 && id.charCodeAt(at - 1) >= ZERO && id.charCodeAt(at - 1) < ZERO + 10) at--;
  return at;
}
