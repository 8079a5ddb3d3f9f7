/**
 * Keeps the right to run an attempt, for as long as it runs, and says when it is lost.
 *
 * A lease that can be renewed is renewed every third of its lifetime. One that cannot is kept by the other side, which
 * hears of us: then a sign of life goes out as often. Called by `task-run.ts`.
 * @see docs/fleet.md#failure-semantics
 */
import { type Clock, repeat } from '../../base/timer-queue.ts';
import type { Lease } from '../bus/reply-channel.ts';

export interface LeaseEvents {
  /** Time for a sign of life: this lease is kept by who hears of us. */
  heartbeat(): void;
  /** It is lost: another attempt may run. */
  lost(why: string): void;
}

export interface LeaseRenewerOptions extends Clock {
  /** A second run does no harm: then a lease nobody confirmed for its lifetime counts as lost. */
  readonly retrySafe: boolean;
}

export class LeaseRenewer {
  readonly #lease: Lease;
  readonly #events: LeaseEvents;
  readonly #options: LeaseRenewerOptions;
  readonly #stopRenewing: () => void;
  /** Runs out when nobody confirmed the lease for its lifetime. */
  #cancelFence: (() => void) | undefined;
  #renewing = false;
  #over = false;

  constructor(lease: Lease, events: LeaseEvents, options: LeaseRenewerOptions) {
    this.#lease = lease;
    this.#events = events;
    this.#options = options;
    const renew = lease.renew?.bind(lease);
    const everyMs = Math.max(10, (lease.ttlS * 1000) / 3);
    const tick = renew === undefined ? () => events.heartbeat() : () => void this.#renew(renew);
    this.#stopRenewing = repeat(options.timer, everyMs, tick);
    if (renew !== undefined) this.#confirmed(options.monotonic());
  }

  /** The attempt has ended; nothing is told any more. */
  end(): void {
    this.#over = true;
    this.#stopRenewing();
    this.#cancelFence?.();
  }

  /** Gives the lease back. Never rejects: it runs out by itself. */
  async release(): Promise<void> {
    this.end();
    await this.#lease.release?.().catch(() => {});
  }

  async #renew(renew: () => Promise<boolean>): Promise<void> {
    if (this.#renewing) return;
    this.#renewing = true;
    const askedAt = this.#options.monotonic();
    try {
      if (await renew()) this.#confirmed(askedAt);
      else this.#lose('somebody else has it, or it ran out');
    } catch {
      // Cannot be told now; it is asked again at the next tick.
    } finally {
      this.#renewing = false;
    }
  }

  /** It holds from `at` on for its lifetime. */
  #confirmed(at: number): void {
    // Where a second run would do harm, nobody begins one by himself, and stopping would only lose the work.
    if (this.#over || !this.#options.retrySafe) return;
    this.#cancelFence?.();
    const { monotonic, timer } = this.#options;
    const leftMs = at + this.#lease.ttlS * 1000 - monotonic();
    this.#cancelFence = timer(() => this.#lose('it could not be renewed for as long as it holds'), Math.max(0, leftMs));
  }

  #lose(why: string): void {
    if (this.#over) return;
    this.end();
    this.#events.lost(why);
  }
}
