/** A wait between two tries that ends early when nobody wants the next one any more. Called by whoever dials again. */

/** Resolves after so many milliseconds, or as soon as the signal aborts. Never rejects. */
export function abortableDelay(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
  });
}
