/** Holds maps and sets within a bound. */

/**
 * Evicts the oldest entries of a map or a set that holds more than `most`; with `may`, those it is true for first. Evicts an
 * eighth at once, because finding the oldest means iterating over the slots of those removed before.
 */
export function evictOldest<K>(
  entries: Map<K, unknown> | Set<K>,
  most: number,
  may: (key: K) => boolean = () => true,
): void {
  if (entries.size <= most) return;
  let excess = entries.size - most + Math.floor(most / 8);
  for (const key of entries.keys()) {
    if (excess === 0) return;
    if (!may(key)) continue;
    entries.delete(key);
    excess -= 1;
  }
  // No other entry may be evicted, but the bound holds.
  for (const key of entries.keys()) {
    if (entries.size <= most) return;
    entries.delete(key);
  }
}

/** Stores an entry as the newest of a map, and evicts only the oldest entries beyond `most`. */
export function setNewest<K, V>(entries: Map<K, V>, key: K, value: V, most: number): void {
  entries.delete(key);
  entries.set(key, value);
  for (const oldest of entries.keys()) {
    if (entries.size <= most) return;
    entries.delete(oldest);
  }
}
