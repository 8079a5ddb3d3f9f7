/**
 * One run of some work for all simultaneous callers: a run that is under way may miss changes that its later callers
 * need to see, so they share the next run.
 *
 * For expensive work, such as reading all processes of a system.
 */

/** Makes `work` shared: each call resolves, or rejects, as a run does that begins after the call. At most one run is under way. */
export function sharedRuns<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<unknown> | undefined;
  let waiting: Promise<T> | undefined;
  const run = (): Promise<T> => {
    waiting = undefined;
    const result = work();
    const done = result
      .catch(() => {})
      .then(() => {
        if (running === done) running = undefined;
      });
    running = done;
    return result;
  };
  return () => {
    if (running === undefined) return run();
    waiting ??= running.then(run);
    return waiting;
  };
}
