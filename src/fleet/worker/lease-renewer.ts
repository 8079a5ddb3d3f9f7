/**
 * Renews the lease of an attempt while it runs, and reports when it is lost.
 *
 * A lease that can be renewed is renewed every third of its lifetime. Any other is renewed by the orchestrator when it
 * receives progress: then a heartbeat goes out as often.
 * @see docs/fleet.md#failure-semantics
 */
import { type Clock, repeat } from '../../base/timer-queue.ts';
import type { Lease } from '../bus/reply-channel.ts';

export interface LeaseEvents {
  /** Called when a heartbeat is due, which renews this lease at the other end. */
  heartbeat(): void;
  /** Called when it is lost: another attempt may run. */
  lost(why: string): void;
}

export interface LeaseRenewerOptions extends Clock {
  /** A second run does no harm: then a lease that was not confirmed for its lifetime counts as lost. */
  readonly retrySafe: boolean;
}

export class LeaseRenewer {
  readonly #lease: Lease;
  readonly #events: LeaseEvents;
  readonly #options: LeaseRenewerOptions;
  readonly #stopRenewing: () => void;
  /** Fires when the lease was not confirmed for its lifetime. */
  #cancelFence: (() => void) | undefined;
  #renewing = false;
  #ended = false;

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

  /** Ends with the attempt; nothing is sent any more. */
  end(): void {
    this.#ended = true;
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
      else this.#lose('another worker has it, or it expired');
    } catch {
      // Unknown now; the next tick asks again.
    } finally {
      this.#renewing = false;
    }
  }

  /** Notes that the lease holds from `at` on for its lifetime. */
  #confirmed(at: number): void {
    // Without `retry_safe` no second run starts by itself, so an unconfirmed lease is no reason to stop this one.
    if (this.#ended || !this.#options.retrySafe) return;
    this.#cancelFence?.();
    const { monotonic, timer } = this.#options;
    const leftMs = at + this.#lease.ttlS * 1000 - monotonic();
    this.#cancelFence = timer(() => this.#lose('it could not be renewed for its lifetime'), Math.max(0, leftMs));
  }

  #lose(why: string): void {
    if (this.#ended) return;
    this.end();
    this.#events.lost(why);
  }
}
