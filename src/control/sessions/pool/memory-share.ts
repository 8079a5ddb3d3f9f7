/**
 * The quota of memory for the loaded sessions of one principal, and the refusal of sessions above it.
 *
 * Stored conversations may be larger than the heap of the process. Idle sessions are unloaded, but one that waits for a turn
 * cannot be, so without a bound the prompts of one principal would end the server.
 */
import { type ShareUsage, shareUsage } from '../../../base/share-usage.ts';
import { mayStore } from '../../../session/shares.ts';
import { fail } from '../../../wire/errors.ts';

export interface MemoryLimits {
  /** Characters that the loaded sessions of one owner hold. */
  readonly memoryBytes: number;
  /** Characters of all owners: past that, owners with more than an equal part are refused. */
  readonly totalMemoryBytes: number;
}

/** Turns may have ended by then. */
const RETRY_AFTER_MS = 1_000;

export class MemoryShare {
  readonly #limits: MemoryLimits;
  #refused = 0;

  constructor(limits: MemoryLimits) {
    this.#limits = limits;
  }

  /** Returns the part of it that is free for this owner: 0 or less when nothing is. `held`: characters in memory by owner. */
  left(owner: string, held: ReadonlyMap<string, number>): number {
    const { memoryBytes: own, totalMemoryBytes: total } = this.#limits;
    return mayStore({ bytes: sum(held), owners: held.size }, { own, total }) - (held.get(owner) ?? 0);
  }

  /** Fails with `over_capacity` when nothing is left. */
  mustBeLeft(owner: string, held: ReadonlyMap<string, number>): void {
    const left = this.left(owner, held);
    if (left > 0) return;
    this.#refused += 1;
    const used = held.get(owner) ?? 0;
    throw fail(
      'over_capacity',
      'the sessions of this principal hold too much in memory; let turns end, or use a new session',
      {
        memory_bytes: used,
        limit_bytes: Math.floor(used + left),
        retry_after_ms: RETRY_AFTER_MS,
      },
    );
  }

  usage(held: ReadonlyMap<string, number>): ShareUsage {
    return shareUsage(sum(held), this.#refused, held);
  }
}

const sum = (held: ReadonlyMap<string, number>): number => held.values().reduce((all, one) => all + one, 0);
