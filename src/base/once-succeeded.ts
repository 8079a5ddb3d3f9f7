/**
 * Work that is done once in the life of its owner, for example loading a module or testing an ability of the system. A
 * failure because of missing descriptors passes, and must not stay: after one the next caller runs the work again.
 */

/** Callers share one run; one that rejected is forgotten. */
export function onceSucceeded<T>(work: () => Promise<T>): () => Promise<T> {
  let run: Promise<T> | undefined;
  return () => {
    if (run !== undefined) return run;
    const started = work();
    run = started;
    started.catch(() => {
      if (run === started) run = undefined;
    });
    return started;
  };
}
