/**
 * When the NATS client dials a lost server again. The client itself dials; this decides how long it waits, and reports each
 * attempt before it comes, as `connection/reconnect.ts` does for other transports.
 */
import { Backoff, type BackoffOptions, STEADY_MS } from '../../../base/backoff.ts';
import type { HandfastError } from '../../../wire/errors.ts';

/** Delays between two attempts to connect, for the first connection and for a lost one. */
export const DELAYS: BackoffOptions = { firstDelayMs: 100, maxDelayMs: 5_000 };

/** An attempt to connect that follows a failed one. */
export interface Retry {
  /** Attempts in a row; the first is 1. */
  readonly attempt: number;
  /** Milliseconds until it at the latest: of several servers the client may dial another one sooner. */
  readonly retryInMs: number;
  readonly reason: HandfastError;
}

/**
 * The delays of one connection. The client asks for its delay more than once before it dials, so a delay stays until the client
 * has reported an attempt.
 */
export class Redial {
  readonly #backoff: Backoff;
  readonly #now: () => number;
  /** The delay of the next attempt; undefined until the client asks for it. */
  #delayMs: number | undefined;
  /** Time when the client dialled last. */
  #dialledAt: number;
  /** Undefined: it did not stand yet. */
  #stoodFrom: number | undefined;
  #losses = 0;
  /** Number of attempts in this outage. */
  #attempt = 0;
  /** Called when a further attempt of one outage is decided; the first one follows the loss itself. */
  onRetry: ((retry: Omit<Retry, 'reason'>) => void) | undefined;

  constructor(options: BackoffOptions = {}, now: () => number = () => performance.now()) {
    this.#backoff = new Backoff({ ...DELAYS, ...options }, now);
    this.#now = now;
    this.#dialledAt = now();
  }

  /** Returns the time that the client has to wait since it dialled last. */
  delayMs(): number {
    if (this.#delayMs === undefined) {
      this.#delayMs = this.#backoff.next();
      this.#attempt += 1;
      const attempt = this.#attempt;
      const { retryInMs } = this;
      // Not from within the loop of the client: an error of a listener must not end it.
      if (attempt > 1) queueMicrotask(() => this.onRetry?.({ attempt, retryInMs }));
    }
    return this.#delayMs;
  }

  /** Milliseconds until the next attempt. */
  get retryInMs(): number {
    return Math.max(0, (this.#delayMs ?? 0) - (this.#now() - this.#dialledAt));
  }

  /** Notes that the client dials. */
  dialled(): void {
    this.#dialledAt = this.#now();
    this.#delayMs = undefined;
  }

  /** Notes that the connection stands. */
  ended(): void {
    this.#delayMs = undefined;
    this.#attempt = 0;
    // Attempts at the first connection say nothing about how long one stands.
    if (this.#stoodFrom === undefined) this.#backoff.reset();
    this.#backoff.opened();
    this.#stoodFrom = this.#now();
  }

  /**
   * Notes that the connection is lost. Returns the number of connections in a row that did not stand for long, with this one.
   */
  lost(): number {
    const isSteady = this.#now() - (this.#stoodFrom ?? Number.NEGATIVE_INFINITY) >= STEADY_MS;
    this.#losses = isSteady ? 1 : this.#losses + 1;
    return this.#losses;
  }
}
