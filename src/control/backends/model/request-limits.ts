/**
 * Time and attempts of a request to a provider: the limits, and the plan after a failure. Pure.
 *
 * The retry numbers are the protocol's: eight attempts, 1.25 s doubling to 20 s.
 * @see docs/protocol/session-rpc.md#turns
 */
import { backoffMs } from '../../../base/backoff.ts';
import type { ProviderFailure } from './failures.ts';

export interface RequestLimits {
  /** Attempts of one request while the provider has no capacity, the first one included. */
  readonly maxAttempts: number;
  /** Attempts of one request that the provider takes and does not finish, the first one included. */
  readonly maxBrokenAttempts: number;
  readonly firstDelayMs: number;
  readonly maxDelayMs: number;
  /** A provider that asks for a longer wait is not waited for. */
  readonly maxRetryAfterMs: number;
  /** Time until the first part of an answer. */
  readonly firstPartTimeoutMs: number;
  /** Longest silence within an answer: `control.stream_idle_ms`. */
  readonly idleTimeoutMs: number;
}

/** The first word may take as long as models are known to think without one, and no longer than Node waits for bytes. */
export const DEFAULT_LIMITS: RequestLimits = {
  maxAttempts: 8,
  maxBrokenAttempts: 3,
  firstDelayMs: 1_250,
  maxDelayMs: 20_000,
  maxRetryAfterMs: 60_000,
  firstPartTimeoutMs: 300_000,
  idleTimeoutMs: 60_000,
};

export interface NextAttempt {
  /** Number of the attempt that comes next, counted from 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly delayMs: number;
}

/**
 * Returns the time of the next attempt after `attempts` attempts, of which `broken` were accepted and not finished; undefined =
 * no further one. The provider's own wish is honoured, and never shortens the wait.
 */
export function nextAttempt(
  { retry, retryAfterMs = 0 }: ProviderFailure,
  attempts: number,
  broken: number,
  limits: RequestLimits,
): NextAttempt | undefined {
  if (retry === 'never' || attempts >= limits.maxAttempts || retryAfterMs > limits.maxRetryAfterMs) return undefined;
  if (retry === 'broken' && broken >= limits.maxBrokenAttempts) return undefined;
  const { firstDelayMs, maxDelayMs } = limits;
  // Without jitter: the protocol fixes these delays.
  const plannedMs = backoffMs(attempts - 1, { firstDelayMs, maxDelayMs, jitter: 0 });
  return {
    attempt: attempts + 1,
    maxAttempts:
      retry === 'broken'
        ? Math.min(limits.maxAttempts, attempts + limits.maxBrokenAttempts - broken)
        : limits.maxAttempts,
    delayMs: Math.max(plannedMs, retryAfterMs),
  };
}
