/**
 * The longest silence of each attempt. A worker with the feature `lease` holds a short one, renewed by progress and heartbeats,
 * and is polled once before it expires. A worker without it holds one for the longest turn.
 *
 * A lease is another clock than the age of an announce: a worker that is no longer routable still has its tasks.
 * @see docs/fleet.md#failure-semantics
 */
import { type Clock, TimerQueue } from '../../base/timer-queue.ts';
import type { Peers } from './peers.ts';
import { isActive, isOffer } from './task-machine.ts';
import type { TaskRegistry, TrackedTask } from './task-registry.ts';

export interface LeaseTimersOptions {
  readonly registry: TaskRegistry;
  readonly peers: Peers;
  readonly clock: Clock;
  readonly now: () => number;
  readonly leaseTtlMs: number;
  readonly plainPeerTimeoutMs: number;
  /** True when a task that was offered to this pool can be looked for. */
  finds(offer: string): boolean;
  /** Called when it will expire soon: poll its worker, or look for the attempt. */
  silent(tracked: TrackedTask): void;
  /** Called when it expired. */
  expired(tracked: TrackedTask): void;
}

export class LeaseTimers {
  readonly #options: LeaseTimersOptions;
  readonly #timers: TimerQueue<string>;
  /** End of each lease, on the monotonic clock. */
  readonly #ends = new Map<string, number>();

  constructor(options: LeaseTimersOptions) {
    this.#options = options;
    this.#timers = new TimerQueue(options.clock, (taskId) => this.#ring(taskId));
  }

  /** Starts, or renews, the lease of the attempt under way. One that is offered to a pool has none: it is looked for as often. */
  renew({ id, record }: TrackedTask): void {
    const { worker } = record;
    if (!isActive(record) || (isOffer(worker) && !this.#options.finds(worker as string))) return;
    const { leaseTtlMs, clock } = this.#options;
    const now = clock.monotonic();
    if (!this.#isShort(worker)) return this.#set(id, now + this.#plainLeftMs(record.attempts.at(-1)?.sent_at));
    this.#ends.set(id, now + leaseTtlMs);
    // A lease is renewed often: its timer stays where it is and compares the end when it fires.
    if (this.#timers.at(id) === undefined) this.#timers.set(id, now + (leaseTtlMs * 2) / 3);
  }

  end(taskId: string): void {
    this.#ends.delete(taskId);
    this.#timers.clear(taskId);
  }

  stop(): void {
    this.#timers.stop();
    this.#ends.clear();
  }

  #set(taskId: string, end: number): void {
    this.#ends.set(taskId, end);
    this.#timers.set(taskId, end);
  }

  /**
   * Returns whether the lease is short. After a restart the features of a worker are unknown until it joins; the short lease
   * applies, and is corrected then.
   */
  #isShort(worker: string | null): boolean {
    const entry = this.#options.peers.get(worker ?? '');
    return entry === undefined || entry.peer.features.has('lease');
  }

  #plainLeftMs(sentAt: number | undefined): number {
    const { now, plainPeerTimeoutMs } = this.#options;
    const spent = sentAt === undefined ? 0 : now() - sentAt;
    return Math.max(0, Math.min(plainPeerTimeoutMs, plainPeerTimeoutMs - spent));
  }

  #ring(taskId: string): void {
    const { registry, clock, leaseTtlMs } = this.#options;
    const tracked = registry.get(taskId);
    const end = this.#ends.get(taskId);
    if (tracked === undefined || end === undefined || !isActive(tracked.record)) return this.end(taskId);
    const left = end - clock.monotonic();
    if (left <= 0) {
      this.end(taskId);
      return this.#options.expired(tracked);
    }
    const askLeft = leaseTtlMs / 3;
    if (left > askLeft) return this.#timers.set(taskId, end - askLeft);
    this.#timers.set(taskId, end);
    this.#options.silent(tracked);
  }
}
