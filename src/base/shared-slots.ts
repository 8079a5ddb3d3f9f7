/**
 * Slots for work that costs the whole process, as a thread does: a share for each owner, a sum over all, and a bounded
 * queue for each owner. Free slots go round the owners that wait, so one that fills its queue delays only itself.
 *
 * Used by the search of the built-in tools; owners are principals.
 */
import { fail } from '../wire/errors.ts';

/** How many slots there are. Whole numbers, at least 1; the queue at least 0. */
export interface SlotLimits {
  /** Slots of all owners together. */
  readonly total: number;
  /** Slots that one owner may hold. */
  readonly perOwner: number;
  /** Requests of one owner that may wait. */
  readonly queuePerOwner: number;
}

/** Gives a slot back. Giving it back twice is fine. */
export type ReleaseSlot = () => void;

/** Retry delay in a refusal, milliseconds. */
const RETRY_AFTER_MS = 1_000;

interface Owner {
  held: number;
  /** Each grants a slot to its waiter; oldest first. */
  readonly waiting: Set<() => void>;
}

export class SharedSlots {
  readonly #what: string;
  readonly #limits: SlotLimits;
  /** Owners that hold a slot or wait, the one served last at the end. */
  readonly #owners = new Map<string, Owner>();
  #held = 0;
  #refused = 0;

  /** `what` names the share in errors: `search_threads`. */
  constructor(what: string, limits: SlotLimits) {
    this.#what = what;
    this.#limits = limits;
  }

  /** Slots in use. */
  get held(): number {
    return this.#held;
  }

  /** Requests refused so far because their owner's queue was full. */
  get refused(): number {
    return this.#refused;
  }

  /**
   * A slot for `owner`, now or when one is free. Rejects with `over_capacity` when the owner's share is used and its queue
   * full (`detail {share, limit, retry_after_ms}`), and with the signal's reason when it aborts first.
   */
  acquire(owner: string, signal: AbortSignal): Promise<ReleaseSlot> {
    if (signal.aborted) return Promise.reject(signal.reason);
    const { perOwner, queuePerOwner } = this.#limits;
    const own = this.#owners.get(owner) ?? { held: 0, waiting: new Set() };
    if (own.waiting.size >= queuePerOwner && !this.#hasSlot(own)) {
      this.#refused += 1;
      const detail = { retry_after_ms: RETRY_AFTER_MS, share: this.#what, limit: perOwner };
      return Promise.reject(fail('over_capacity', `the share of ${this.#what} is used up`, detail));
    }
    this.#owners.set(owner, own);
    const { promise, resolve, reject } = Promise.withResolvers<ReleaseSlot>();
    const abort = (): void => {
      own.waiting.delete(grant);
      this.#dropIfUnused(owner, own);
      reject(signal.reason);
    };
    const grant = (): void => {
      signal.removeEventListener('abort', abort);
      resolve(this.#release(owner, own));
    };
    signal.addEventListener('abort', abort, { once: true });
    own.waiting.add(grant);
    this.#serve();
    return promise;
  }

  #hasSlot(own: Owner): boolean {
    return this.#held < this.#limits.total && own.held < this.#limits.perOwner && own.waiting.size === 0;
  }

  /** Grants free slots, one to each waiting owner in turn. */
  #serve(): void {
    for (const [name, own] of this.#owners) {
      if (this.#held >= this.#limits.total) return;
      const [grant] = own.waiting;
      if (grant === undefined || own.held >= this.#limits.perOwner) continue;
      own.waiting.delete(grant);
      own.held += 1;
      this.#held += 1;
      // Moved to the end of the turn; the loop meets it there again.
      this.#owners.delete(name);
      this.#owners.set(name, own);
      grant();
    }
  }

  #release(owner: string, own: Owner): ReleaseSlot {
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      own.held -= 1;
      this.#held -= 1;
      this.#dropIfUnused(owner, own);
      this.#serve();
    };
  }

  #dropIfUnused(owner: string, own: Owner): void {
    if (own.held === 0 && own.waiting.size === 0) this.#owners.delete(owner);
  }
}
