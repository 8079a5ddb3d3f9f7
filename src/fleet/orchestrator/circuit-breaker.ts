/**
 * The circuit breaker of one worker: after several failures in a row it gets no tasks for a while, then one as a probe.
 * A worker that fails everything at once is always idle, and would draw every task of the fleet.
 */
import { type BackoffOptions, backoffMs } from '../../base/backoff.ts';

/** Failures in a row that open it. */
const THRESHOLD = 5;
/** Time that it stays open at first, milliseconds; twice as long after each probe that failed. */
const OPEN_DELAYS: BackoffOptions = { firstDelayMs: 30_000, maxDelayMs: 600_000, jitter: 0 };

export class CircuitBreaker {
  #failures = 0;
  /** Probes that failed since it opened. */
  #openings = 0;
  #openUntil: number | undefined;
  #probing = false;

  /** Returns whether tasks may go to the worker, at this time of the monotonic clock. */
  state(now: number): 'open' | 'closed' {
    if (this.#openUntil === undefined) return 'closed';
    return this.#probing || now < this.#openUntil ? 'open' : 'closed';
  }

  /** Time when it may be probed; undefined while it is closed or a probe is out. */
  get opensAt(): number | undefined {
    return this.#probing ? undefined : this.#openUntil;
  }

  /** Notes that a task goes to the worker. */
  dispatched(): void {
    if (this.#openUntil !== undefined) this.#probing = true;
  }

  /** Handles any reply of the worker. */
  succeeded(): void {
    this.#failures = 0;
    this.#openings = 0;
    this.#openUntil = undefined;
    this.#probing = false;
  }

  /** Notes that the probe ended without evidence for or against the worker: the next task is the probe. */
  undecided(): void {
    this.#probing = false;
  }

  failed(now: number): void {
    this.#failures += 1;
    if (this.#failures < THRESHOLD) return;
    if (this.#openUntil !== undefined) {
      // Tasks dispatched before it opened are no new evidence.
      if (!this.#probing) return;
      this.#openings += 1;
    }
    this.#openUntil = now + backoffMs(this.#openings, OPEN_DELAYS);
    this.#probing = false;
  }
}
