/**
 * Reconnecting at both ends of stream links: without a bound, patiently, and with few lines in the log.
 *
 * `connection/reconnect.ts` does the work.
 */
import { isLogged, type Log } from '../../../base/log.ts';
import type { ReconnectOptions, ReconnectSettings, StateChange } from '../../../connection/reconnect.ts';

/** Returns the settings of a link that is dialled for as long as it takes. */
export function supervision({ maxMs, backoff, ...settings }: ReconnectSettings = {}): ReconnectOptions {
  return {
    ...settings,
    backoff: { firstDelayMs: 250, maxDelayMs: 30_000, ...backoff },
    boundMs: () => maxMs ?? Number.POSITIVE_INFINITY,
    // A peer whose links end at once must not fill the log.
    countsThrough: true,
  };
}

/** Logs a lost link and failed attempts; of many in a row those that `isLogged` picks. */
export function reportLoss(log: Log, what: string, fields: Record<string, unknown>, change: StateChange): void {
  if (change.state !== 'lost') return;
  const { attempt, retryInMs, reason } = change;
  if (!isLogged(attempt)) return;
  const { code, message: error } = reason;
  log.warn(what, { ...fields, code, error, attempt, retry_in_ms: Math.round(retryInMs) });
}
