/** The one sleep: a wait that ends early when its signal aborts. Used by everything that retries or polls. */
import { MAX_DELAY_MS } from './deadlines.ts';

/**
 * Resolves after `ms`, or as soon as the signal aborts. Never rejects.
 *
 * @param how `ref: false` does not keep the process alive
 */
export function sleep(
  ms: number,
  signal?: AbortSignal,
  { ref = true }: { readonly ref?: boolean } = {},
): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, Math.min(ms, MAX_DELAY_MS));
    if (!ref) timer.unref();
    signal?.addEventListener('abort', done, { once: true });
  });
}
