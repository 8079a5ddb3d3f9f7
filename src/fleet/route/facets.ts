/**
 * Sets of workers that pass one requirement (“has this server, and it is healthy”). A set is made when a task first needs
 * it and is updated from then on, so memory grows with the requirements of tasks, not with the claims of workers. The
 * least recently used set is evicted first.
 */
import { setNewest } from '../../base/evict-oldest.ts';
import { bitsFor, grown, setBit } from './bits.ts';
import type { WorkerSlot } from './worker-slot.ts';

interface Facet {
  readonly passes: (worker: WorkerSlot) => boolean;
  bits: Int32Array;
}

export class Facets {
  readonly #maxSets: number;
  readonly #facets = new Map<string, Facet>();
  #capacity = 0;

  /** `maxSets`: sets cached at once. */
  constructor(maxSets = 512) {
    this.#maxSets = maxSets;
  }

  /** Extends the sets to this many workers. */
  grow(capacity: number): void {
    this.#capacity = capacity;
    for (const facet of this.#facets.values()) facet.bits = grown(facet.bits, capacity);
  }

  /** Updates every set after the profile of a worker has changed. */
  update(worker: WorkerSlot): void {
    for (const { bits, passes } of this.#facets.values()) setBit(bits, worker.slot, passes(worker));
  }

  /** Returns the workers that pass. This object owns the returned bits; they are valid until the next call. */
  of(key: string, workers: Iterable<WorkerSlot>, passes: (worker: WorkerSlot) => boolean): Int32Array {
    let facet = this.#facets.get(key);
    if (facet === undefined) {
      facet = { passes, bits: bitsFor(this.#capacity) };
      for (const worker of workers) setBit(facet.bits, worker.slot, passes(worker));
      setNewest(this.#facets, key, facet, this.#maxSets);
    } else if (this.#facets.size === this.#maxSets) {
      // Used again: move it to the end of the eviction order.
      this.#facets.delete(key);
      this.#facets.set(key, facet);
    }
    return facet.bits;
  }
}
