/** Waiting for a while, or for the signal. Used by `worker.ts` and `running-tasks.ts`. */

/** Resolves after `ms`, or when the signal aborts. Does not keep the process alive. */
export function unrefDelay(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    timer.unref();
    signal?.addEventListener('abort', done, { once: true });
  });
}

/** Resolves with `promise`, at the latest after `ms`. `promise` must not reject. */
export async function waitAtMost(promise: Promise<unknown>, ms: number): Promise<void> {
  const given = new AbortController();
  await Promise.race([promise, unrefDelay(ms, given.signal)]);
  given.abort();
}
