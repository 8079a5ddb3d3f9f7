/**
 * Waiting for work that cannot be stopped: until a signal aborts, or a time is over. The work itself continues, and a
 * late rejection is ignored.
 *
 * `Promise.race` stays for waits on several outcomes of equal rank.
 */
import { keepAliveTimer, type Timer } from './timer-queue.ts';

/**
 * Returns the result of `work`, or rejects as soon as the signal aborts: by default with the signal's reason. An abort
 * wins over a result that is ready at the same moment.
 */
export function orAborted<T>(
  work: T | PromiseLike<T>,
  signal: AbortSignal | undefined,
  reasonOf: (signal: AbortSignal) => unknown = ({ reason }) => reason,
): Promise<T> {
  const working = Promise.resolve(work);
  if (signal === undefined) return working;
  return new Promise((resolve, reject) => {
    const aborted = (): void => reject(reasonOf(signal));
    if (signal.aborted) aborted();
    else signal.addEventListener('abort', aborted, { once: true });
    working.then(resolve, reject).finally(() => signal.removeEventListener('abort', aborted));
  });
}

/**
 * Returns the result of `promise`, or rejects with the error that `late` makes when `ms` (`Infinity` = never) pass
 * before it settles.
 */
export function withTimeout<T>(promise: PromiseLike<T>, ms: number, late: () => unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = ms === Number.POSITIVE_INFINITY ? undefined : keepAliveTimer(() => reject(late()), ms);
    Promise.resolve(promise)
      .finally(() => cancel?.())
      .then(resolve, reject);
  });
}

/**
 * Returns the result of `promise`, or `undefined` when `ms` pass before it settles.
 *
 * @param timer default: one that holds the process open
 */
export function within<T>(promise: PromiseLike<T>, ms: number, timer: Timer = keepAliveTimer): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const cancel = timer(() => resolve(undefined), ms);
    Promise.resolve(promise).finally(cancel).then(resolve, reject);
  });
}

/**
 * Returns the result of `work`. When the signal aborts, `work` has `graceMs` more to settle; then the result is that of
 * `late`, which may throw.
 */
export function withGrace<T>(
  work: T | PromiseLike<T>,
  signal: AbortSignal,
  graceMs: number,
  late: (reason: unknown) => T,
  timer: Timer = keepAliveTimer,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let cancel: (() => void) | undefined;
    const abandon = (): void => {
      try {
        resolve(late(signal.reason));
      } catch (thrown) {
        reject(thrown);
      }
    };
    const aborted = (): void => {
      cancel = timer(abandon, graceMs);
    };
    if (signal.aborted) aborted();
    else signal.addEventListener('abort', aborted, { once: true });
    Promise.resolve(work)
      .finally(() => {
        cancel?.();
        signal.removeEventListener('abort', aborted);
      })
      .then(resolve, reject);
  });
}
