/**
 * Passes every event to every listener, in the order they happened: sessions and the server publish, connections listen
 * (through `event-source.ts`).
 */
import type { Log } from '../../../base/log.ts';
import type { PublishedEvent } from '../../contract/events.ts';

/** One registration: a function may listen twice, and each of the two ends on its own. */
interface Listening {
  readonly listener: (event: PublishedEvent) => void;
  readonly wantsDebug: () => boolean;
}

export class EventHub {
  readonly #listeners = new Set<Listening>();
  readonly #log: Log;
  /** Events that a listener caused during another one: published after it, to every listener in the same order. */
  readonly #waiting: PublishedEvent[] = [];
  #publishing = false;

  constructor(log: Log) {
    this.#log = log;
  }

  /** See `EventSource.listen`. */
  listen(listener: (event: PublishedEvent) => void, wantsDebug: () => boolean = () => false): () => void {
    const own: Listening = { listener, wantsDebug };
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  /** True while a listener wants `session.debug`. */
  wantsDebug(): boolean {
    return this.#listeners.values().some((one) => one.wantsDebug());
  }

  publish(event: PublishedEvent): void {
    this.#waiting.push(event);
    if (this.#publishing) return;
    this.#publishing = true;
    try {
      for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) this.#notify(next);
    } finally {
      this.#publishing = false;
    }
  }

  #notify(event: PublishedEvent): void {
    for (const { listener } of this.#listeners) {
      try {
        listener(event);
      } catch (thrown) {
        // A connection that fails must not fail the session or the other connections.
        this.#log.error('an event listener failed', { type: event.type, error: String(thrown) });
      }
    }
  }
}
