/**
 * Tells everybody who listens of every event, in the order they happened: sessions and the server publish, connections
 * listen (through `event-source.ts`).
 */
import type { Log } from '../../../base/log.ts';
import type { PublishedEvent } from '../../contract/events.ts';

export class EventHub {
  readonly #listeners = new Set<(event: PublishedEvent) => void>();
  readonly #log: Log;
  /** What a listener caused while another event was being told: told after it, to everybody in the same order. */
  readonly #waiting: PublishedEvent[] = [];
  #telling = false;

  constructor(log: Log) {
    this.#log = log;
  }

  /** Told of every event from now on, synchronously. Returns how to stop. */
  listen(listener: (event: PublishedEvent) => void): () => void {
    // A function may listen twice, and each of the two ends on its own.
    const own = (event: PublishedEvent): void => listener(event);
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  publish(event: PublishedEvent): void {
    this.#waiting.push(event);
    if (this.#telling) return;
    this.#telling = true;
    try {
      for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) this.#tell(next);
    } finally {
      this.#telling = false;
    }
  }

  #tell(event: PublishedEvent): void {
    for (const listener of this.#listeners) {
      try {
        listener(event);
      } catch (thrown) {
        // One connection's trouble is neither the session's nor its neighbours'.
        this.#log.error('an event listener failed', { type: event.type, error: String(thrown) });
      }
    }
  }
}
