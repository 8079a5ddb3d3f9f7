/**
 * Passes each event to the connections that follow it. All connections share one listener at the event source, so an event of a
 * session only costs the connections that follow that session or all sessions.
 *
 * Connections subscribe through `subscriptions.ts`.
 */
import type { EventSource, PublishedEvent } from '../contract/events.ts';

/** A connection that receives events. */
export interface EventSubscriber {
  /** Called with each event, in order, synchronously. Must not throw. */
  take(event: PublishedEvent): void;
}

export class EventFanOut {
  readonly source: EventSource;
  /** Subscribers of all sessions that they may see. */
  readonly #ofAll = new Set<EventSubscriber>();
  readonly #bySession = new Map<string, Set<EventSubscriber>>();
  readonly #stop: () => void;

  /** `wantsDebug`: true while a connection wants debug steps. */
  constructor(source: EventSource, wantsDebug: () => boolean) {
    this.source = source;
    this.#stop = source.listen((event) => this.#publish(event), wantsDebug);
  }

  followAll(subscriber: EventSubscriber): void {
    this.#ofAll.add(subscriber);
  }

  leaveAll(subscriber: EventSubscriber): void {
    this.#ofAll.delete(subscriber);
  }

  follow(session: string, subscriber: EventSubscriber): void {
    const subscribers = this.#bySession.get(session);
    if (subscribers === undefined) this.#bySession.set(session, new Set([subscriber]));
    else subscribers.add(subscriber);
  }

  leave(session: string, subscriber: EventSubscriber): void {
    const subscribers = this.#bySession.get(session);
    if (subscribers?.delete(subscriber) && subscribers.size === 0) this.#bySession.delete(session);
  }

  /** Stops passing events. */
  close(): void {
    this.#stop();
    this.#ofAll.clear();
    this.#bySession.clear();
  }

  #publish(event: PublishedEvent): void {
    for (const subscriber of this.#ofAll) subscriber.take(event);
    const subscribers = this.#bySession.get(event.session);
    if (subscribers === undefined) return;
    for (const subscriber of subscribers) if (!this.#ofAll.has(subscriber)) subscriber.take(event);
  }
}
