/**
 * The one sleep: a wait that ends early when its signal aborts.
 */
import { keepAliveTimer, type Timer } from './timer-queue.ts';

/**
 * Resolves after `ms`, or as soon as the signal aborts. Never rejects.
 *
 * @param timer default: one that holds the process open
 */
export function sleep(ms: number, signal?: AbortSignal, timer: Timer = keepAliveTimer): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const cancel = timer(done, ms);
    signal?.addEventListener('abort', done, { once: true });
  });
}
