/**
 * Keeps what is remembered of tasks and contexts within a bound.
 *
 * Used by the worker's and the orchestrator's side of the bindings over HTTP.
 */

/**
 * Takes the oldest entries out of a map or a set that holds more than `most`; with `may`, those it is true for first. An
 * eighth goes at once: finding the oldest means passing over the places of all that went before it.
 */
export function evictOldest<K>(
  kept: Map<K, unknown> | Set<K>,
  most: number,
  may: (key: K) => boolean = () => true,
): void {
  if (kept.size <= most) return;
  let excess = kept.size - most + Math.floor(most / 8);
  for (const key of kept.keys()) {
    if (excess === 0) return;
    if (!may(key)) continue;
    kept.delete(key);
    excess -= 1;
  }
  // None of the rest may go, but the bound holds.
  for (const key of kept.keys()) {
    if (kept.size <= most) return;
    kept.delete(key);
  }
}
