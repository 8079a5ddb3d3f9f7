/**
 * Slots for resources that cost the whole process, such as a thread or a child process: a share for each owner, a sum
 * over all, and a bounded queue for each owner. Free slots go round the owners that wait, so one that fills its queue
 * delays only itself.
 *
 * Owners are principals. Turns, the threads and processes of calls, ACP agents and sign-ins take slots.
 */
import { fail, type HandfastError } from '../wire/errors.ts';
import { type ShareUsage, shareUsage } from './share-usage.ts';

/** Numbers of slots. Whole numbers, at least 1; the queue at least 0. */
export interface SlotLimits {
  /** Slots of all owners together. */
  readonly total: number;
  /** Slots that one owner may hold; a function of its name where owners differ. */
  readonly perOwner: number | ((owner: string) => number);
  /** Requests of one owner that may wait. */
  readonly queuePerOwner: number;
}

/** A request for slots. */
export interface SlotRequest {
  /** Slots that are granted together. Default 1. */
  readonly count?: number;
  /** Longest wait, milliseconds. Default: until the signal aborts. */
  readonly waitMs?: number;
  /** True: before all that wait, for work that had slots before. */
  readonly first?: boolean;
}

/** Gives the slots back. Giving them back twice is fine. */
export type ReleaseSlot = () => void;

/** Retry delay in a refusal, milliseconds. */
const RETRY_AFTER_MS = 1_000;

interface Owner {
  held: number;
  /** Grants its slots to each waiter, with their number; oldest first. */
  waiting: Map<() => void, number>;
}

export class SharedSlots {
  readonly #what: string;
  readonly #limits: SlotLimits;
  /** Owners that hold a slot or wait, the one served last at the end. */
  #owners = new Map<string, Owner>();
  #held = 0;
  #refused = 0;

  /** @param what names the share in errors: `threads` */
  constructor(what: string, limits: SlotLimits) {
    this.#what = what;
    this.#limits = limits;
  }

  /** Slots in use. */
  get held(): number {
    return this.#held;
  }

  /** Requests that wait. */
  get waiting(): number {
    let waiting = 0;
    for (const own of this.#owners.values()) waiting += own.waiting.size;
    return waiting;
  }

  /** Requests refused so far because their owner's queue was full. */
  get refused(): number {
    return this.#refused;
  }

  get usage(): ShareUsage {
    const owners = [...this.#owners].map(([name, { held }]) => [name, held] as const);
    return shareUsage(
      this.#held,
      this.#refused,
      owners.filter(([, held]) => held > 0),
    );
  }

  /**
   * Returns the reason why the owner does not get this number of slots now: its share is used up (`own`), that of all
   * owners (`all`), or it may `never` hold this number. Undefined when it gets them.
   */
  usedUp(owner: string, count = 1): 'own' | 'all' | 'never' | undefined {
    const most = this.#most(owner);
    if (count > Math.min(this.#limits.total, most)) return 'never';
    if ((this.#owners.get(owner)?.held ?? 0) + count > most) return 'own';
    return this.#held + count > this.#limits.total ? 'all' : undefined;
  }

  /**
   * Slots for `owner`, now or when they are free. Rejects with `over_capacity` when the owner's share is used and its queue
   * full, when more are asked for than it may ever hold, and after `waitMs` (`detail {share, limit, retry_after_ms}`); with
   * the signal's reason when it aborts first.
   */
  acquire(
    owner: string,
    signal: AbortSignal,
    { count = 1, waitMs, first = false }: SlotRequest = {},
  ): Promise<ReleaseSlot> {
    if (signal.aborted) return Promise.reject(signal.reason);
    const own = this.#owners.get(owner) ?? { held: 0, waiting: new Map() };
    const usedUp = this.usedUp(owner, count);
    const isFree = own.waiting.size === 0 && usedUp === undefined;
    if (usedUp === 'never' || (own.waiting.size >= this.#limits.queuePerOwner && !isFree)) {
      this.#refused += 1;
      return Promise.reject(this.#refusal(owner));
    }
    this.#owners.set(owner, own);
    const { promise, resolve, reject } = Promise.withResolvers<ReleaseSlot>();
    let timer: NodeJS.Timeout | undefined;
    const leave = (reason: unknown): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      own.waiting.delete(grant);
      this.#dropIfUnused(owner, own);
      reject(reason);
      // The cancelled request may have kept later ones from slots that are free.
      this.#serve();
    };
    const abort = (): void => leave(signal.reason);
    const grant = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      resolve(this.#release(owner, own, count));
    };
    signal.addEventListener('abort', abort, { once: true });
    own.waiting.set(grant, count);
    if (first) {
      own.waiting = new Map([[grant, count], ...own.waiting]);
      this.#owners = new Map([[owner, own], ...this.#owners]);
    }
    if (waitMs !== undefined && !isFree) timer = setTimeout(() => leave(this.#refusal(owner)), waitMs);
    this.#serve();
    return promise;
  }

  /** Acquires a slot that is free for `owner` now; undefined if it would have to wait. */
  tryAcquire(owner: string): ReleaseSlot | undefined {
    const own = this.#owners.get(owner) ?? { held: 0, waiting: new Map() };
    if (own.waiting.size > 0 || this.usedUp(owner) !== undefined) return undefined;
    this.#hold(owner, own, 1);
    return this.#release(owner, own, 1);
  }

  #most(owner: string): number {
    const { perOwner } = this.#limits;
    return typeof perOwner === 'number' ? perOwner : perOwner(owner);
  }

  #refusal(owner: string): HandfastError {
    const detail = { retry_after_ms: RETRY_AFTER_MS, share: this.#what, limit: this.#most(owner) };
    return fail('over_capacity', `the share of ${this.#what} is used up`, detail);
  }

  /** Grants free slots, to each waiting owner in turn. */
  #serve(): void {
    for (const [name, own] of this.#owners) {
      if (this.#held >= this.#limits.total) return;
      const [next] = own.waiting;
      if (next === undefined) continue;
      const [grant, count] = next;
      if (this.usedUp(name, count) !== undefined) continue;
      own.waiting.delete(grant);
      this.#hold(name, own, count);
      grant();
    }
  }

  /** Moves the owner to the end of the turn; a loop over the owners meets it there again. */
  #hold(owner: string, own: Owner, count: number): void {
    own.held += count;
    this.#held += count;
    this.#owners.delete(owner);
    this.#owners.set(owner, own);
  }

  #release(owner: string, own: Owner, count: number): ReleaseSlot {
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      own.held -= count;
      this.#held -= count;
      this.#dropIfUnused(owner, own);
      this.#serve();
    };
  }

  #dropIfUnused(owner: string, own: Owner): void {
    if (own.held === 0 && own.waiting.size === 0) this.#owners.delete(owner);
  }
}
