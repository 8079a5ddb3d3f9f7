/** The limits of the memory capability and their defaults. */

const MIB = 1024 * 1024;

export const MEMORY_DEFAULTS = {
  maxEntries: 1_000_000,
  maxBytes: 4096 * MIB,
  maxEntryBytes: 256 * 1024,
  historyVersions: 20,
  workingDays: 7,
  embedderTimeoutMs: 10_000,
} as const;

/** Maximum number of entries of one reply. */
export const MAX_LIMIT = 1000;
export const DEFAULT_LIMIT = 10;
/** Entries, keys, tags or sources of one request. */
export const MAX_ITEMS = 1000;
/** Maximum number of searched characters of a query. */
export const MAX_QUERY = 10_000;
/** Spaces that one memory reads. */
export const MAX_SPACES = 32;
/** Memories that one session watches; keys that one of its pushes names, and their characters. */
export const MAX_WATCHES = 64;
export const MAX_CHANGED_KEYS = 100;
export const MAX_CHANGED_CHARACTERS = 65_536;
/** Maximum number of concurrent requests in the memory thread, of all principals and of one; and of waiting requests of one. */
export const MAX_AT_ONCE = 128;
export const MAX_AT_ONCE_PER_PRINCIPAL = 32;
export const MAX_WAITING = 1024;
