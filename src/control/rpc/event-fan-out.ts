/**
 * Hands each event to the connections that may want it. One listener at the event source for all connections; an event
 * of a session costs only those who follow that session or everything.
 *
 * Made by `rpc-server.ts`; connections enter themselves through `subscriptions.ts`.
 */
import type { EventSource, PublishedEvent } from '../contract/events.ts';

/** A connection as a place events go to. */
export interface EventSubscriber {
  /** Told of an event, in order, synchronously. Must not throw. */
  take(event: PublishedEvent): void;
}

export class EventFanOut {
  readonly source: EventSource;
  /** Those that take every event of every session they may see. */
  readonly #ofAll = new Set<EventSubscriber>();
  readonly #bySession = new Map<string, Set<EventSubscriber>>();
  readonly #stop: () => void;

  /** `wantsDebug`: whether some connection wants debug steps. */
  constructor(source: EventSource, wantsDebug: () => boolean) {
    this.source = source;
    this.#stop = source.listen((event) => this.#tell(event), wantsDebug);
  }

  followAll(taker: EventSubscriber): void {
    this.#ofAll.add(taker);
  }

  leaveAll(taker: EventSubscriber): void {
    this.#ofAll.delete(taker);
  }

  follow(session: string, taker: EventSubscriber): void {
    const takers = this.#bySession.get(session);
    if (takers === undefined) this.#bySession.set(session, new Set([taker]));
    else takers.add(taker);
  }

  leave(session: string, taker: EventSubscriber): void {
    const takers = this.#bySession.get(session);
    if (takers?.delete(taker) && takers.size === 0) this.#bySession.delete(session);
  }

  /** Nobody is told anything any more. */
  close(): void {
    this.#stop();
    this.#ofAll.clear();
    this.#bySession.clear();
  }

  #tell(event: PublishedEvent): void {
    for (const taker of this.#ofAll) taker.take(event);
    const takers = this.#bySession.get(event.session);
    if (takers === undefined) return;
    for (const taker of takers) if (!this.#ofAll.has(taker)) taker.take(event);
  }
}
