/**
 * A filter for event types: exact names, and prefixes that end in `*`.
 *
 * For subscriptions and for the handshake's opt-out; applied to every event.
 */

/** Patterns a client may give at once, and characters of each: more than the protocol has event types. */
export const MAX_PATTERNS = 64;
export const MAX_PATTERN_CHARS = 128;

export class EventFilter {
  readonly #exact = new Set<string>();
  readonly #beginnings: string[] = [];

  constructor(patterns: readonly string[]) {
    for (const pattern of patterns) {
      if (pattern.endsWith('*')) this.#beginnings.push(pattern.slice(0, -1));
      else this.#exact.add(pattern);
    }
  }

  matches(type: string): boolean {
    return this.#exact.has(type) || this.#beginnings.some((beginning) => type.startsWith(beginning));
  }
}
