/**
 * Sets of workers that pass one requirement (“has this server, and it is well”). A set is made when a task first asks for
 * it and kept up to date from then on, so memory follows what tasks ask, not what workers claim; the set that was not
 * asked for the longest goes first.
 */
import { bitsFor, grown, setBit } from './bits.ts';
import type { WorkerSlot } from './worker-slot.ts';

interface Facet {
  readonly passes: (worker: WorkerSlot) => boolean;
  bits: Int32Array;
}

export class Facets {
  readonly #most: number;
  readonly #facets = new Map<string, Facet>();
  #room = 0;

  /** `most`: sets kept at once. */
  constructor(most = 512) {
    this.#most = most;
  }

  /** Makes room for this many workers. */
  grow(room: number): void {
    this.#room = room;
    for (const facet of this.#facets.values()) facet.bits = grown(facet.bits, room);
  }

  /** A worker's description has changed. */
  update(worker: WorkerSlot): void {
    for (const { bits, passes } of this.#facets.values()) setBit(bits, worker.slot, passes(worker));
  }

  /** Who passes; the answer belongs to this object and is valid until the next call. */
  of(key: string, workers: Iterable<WorkerSlot>, passes: (worker: WorkerSlot) => boolean): Int32Array {
    let facet = this.#facets.get(key);
    if (facet === undefined) {
      facet = { passes, bits: bitsFor(this.#room) };
      for (const worker of workers) setBit(facet.bits, worker.slot, passes(worker));
      this.#facets.set(key, facet);
      if (this.#facets.size > this.#most) this.#facets.delete(this.#facets.keys().next().value!);
    } else if (this.#facets.size === this.#most) {
      // Asked for again: it goes last.
      this.#facets.delete(key);
      this.#facets.set(key, facet);
    }
    return facet.bits;
  }
}
