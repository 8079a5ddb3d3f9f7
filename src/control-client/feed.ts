/**
 * The events of one session (or of the server) for any number of readers, over one subscription. Each reader has its own
 * position and gets each event once; missing events are reported as a gap. After a lost link the feed subscribes again at the
 * lowest position of its readers.
 *
 * One for each session with a reader; `event-reader.ts` has the readers.
 */
import type { Gap } from '../connection/reconnect.ts';
import { asError, fail, HandfastError } from '../wire/errors.ts';
import type { ControlEvent } from './control-event.ts';
import { EventReader, type ReaderFeed } from './event-reader.ts';

/** The reply of the server to a subscription. */
export interface Subscribed {
  readonly subscription_id: string;
  /** It sends the events after this number. */
  readonly after_seq: number;
  /** Number of the newest event. */
  readonly last_seq: number;
  readonly gap: { readonly from_seq: number; readonly to_seq: number } | null;
}

/** The requests of a feed to the server. */
export interface FeedSource {
  /**
   * Subscribes to the events after `afterSeq` (undefined = from now on), and replaces the earlier subscription of this session.
   * Calls `onAnswer` before the first event of the subscription is read. Rejects with `connection_lost` without a link.
   */
  subscribe(afterSeq: number | undefined, onAnswer: (answer: Subscribed) => void): Promise<unknown>;
  unsubscribe(id: string): Promise<unknown>;
  /** Reports events that readers have missed. */
  gap(gap: Gap): void;
  /** Called when the last reader has ended. */
  unused(): void;
}

export interface ReadOptions {
  /** Replay the events after this sequence number; absent: only new events. */
  readonly afterSeq?: number;
  /** Ends the iteration quietly. */
  readonly signal?: AbortSignal;
}

/** The events of one session, or of the server. */
export class Feed implements ReaderFeed {
  readonly #source: FeedSource;
  /** Readers that are fed or wait for the subscription; slow ones have left. */
  readonly #readers = new Set<EventReader>();
  /** Number of readers that have not ended. */
  #open = 0;
  #subscription: string | undefined;
  #subscribing = false;
  /** The link was replaced during a request to subscribe. */
  #again = false;
  /** Number of the last event from the running subscription. */
  #cursor = 0;
  /** Highest known event number. */
  #newest = 0;
  /** The error the feed ended with. */
  #failure: HandfastError | undefined;

  constructor(source: FeedSource) {
    this.#source = source;
  }

  /**
   * Reads until the signal aborts or the loop is left. Throws the error of the subscription (`session_not_found`,
   * `over_capacity`), or `connection_lost` when reconnecting is abandoned. "Now" is the time of this call.
   */
  read({ afterSeq, signal }: ReadOptions = {}): EventReader {
    this.#open++;
    const reader = new EventReader(this, afterSeq, signal);
    if (signal?.aborted) reader.end();
    else this.join(reader);
    return reader;
  }

  // Messages of the server.

  /** Handles an event; `chars`: its length on the wire. */
  take(event: ControlEvent, chars: number): void {
    // Events before the reply belong to the earlier subscription; the new one sends them again.
    if (this.#subscription === undefined) return;
    this.#reached(event.seq);
    for (const reader of this.#readers) reader.take(event, chars);
  }

  /** Handles a range of events that the server no longer stores. */
  gap(from: number, to: number): void {
    if (this.#subscription === undefined) return;
    this.#reached(to);
    let missed = false;
    for (const reader of this.#readers) if (reader.fed && reader.miss(from, to)) missed = true;
    if (missed) this.#source.gap({ from, to });
  }

  /** Handles the end of the running subscription by an error. */
  ended(subscription: unknown, kind: string, message: string): void {
    if (this.#subscription === undefined || subscription !== this.#subscription) return;
    this.#subscription = undefined;
    const error = new HandfastError(kind, message);
    for (const reader of [...this.#readers]) if (reader.fed) reader.fail(error);
  }

  /** Subscribes again after the link was replaced, because a subscription ends with its link. */
  reconnected(): void {
    this.#subscription = undefined;
    this.#again = this.#subscribing;
    this.#subscribeSoon();
  }

  /** Ends the feed: readers get their buffered events, then the error. */
  fail(error: HandfastError): void {
    this.#failure = error;
    this.#subscription = undefined;
    for (const reader of [...this.#readers]) reader.fail(error);
  }

  // Requests of readers.

  join(reader: EventReader): void {
    if (this.#failure !== undefined) return reader.fail(this.#failure);
    this.#readers.add(reader);
    if (this.#subscription !== undefined) reader.start(this.#cursor, this.#newest);
    if (!reader.fed) this.#subscribeSoon();
  }

  leave(reader: EventReader, ended: boolean): void {
    this.#readers.delete(reader);
    // Without a reader the events have no use; a reader that joins again subscribes at its position.
    if (this.#readers.size === 0) this.#unsubscribe();
    if (ended && --this.#open === 0) this.#source.unused();
  }

  #reached(seq: number): void {
    this.#cursor = seq;
    this.#newest = Math.max(this.#newest, seq);
  }

  #subscribeSoon(): void {
    if (!this.#subscribing && this.#readers.size > 0) void this.#subscribe();
  }

  /** Subscribes at the lowest position of the readers. Never rejects. */
  async #subscribe(): Promise<void> {
    this.#subscribing = true;
    this.#again = false;
    this.#subscription = undefined;
    const readers = [...this.#readers];
    let lowest: number | undefined;
    for (const reader of readers) {
      reader.fed = false;
      if (reader.position !== undefined) lowest = Math.min(lowest ?? reader.position, reader.position);
    }
    let lost = false;
    try {
      await this.#source.subscribe(lowest, (answer) => this.#subscribed(answer));
    } catch (thrown) {
      const error = asError(thrown);
      lost = error.code === 'connection_lost';
      if (!lost) for (const reader of readers) reader.fail(behind(error, reader.position) ?? error);
    }
    this.#subscribing = false;
    if (this.#readers.size === 0) return this.#unsubscribe();
    // A reader that joined meanwhile may need earlier events. After a lost link, `reconnected` subscribes again.
    if (this.#again || (!lost && this.#readers.values().some(({ fed }) => !fed))) this.#subscribeSoon();
  }

  /** Handles the reply: the next events on the link are the replay, then new ones. */
  #subscribed({ subscription_id, after_seq, last_seq, gap }: Subscribed): void {
    this.#subscription = subscription_id;
    this.#cursor = after_seq;
    this.#newest = last_seq;
    for (const reader of this.#readers) reader.start(after_seq, last_seq);
    if (gap !== null) this.gap(gap.from_seq, gap.to_seq);
  }

  #unsubscribe(): void {
    const id = this.#subscription;
    this.#subscription = undefined;
    if (id !== undefined) this.#source.unsubscribe(id).catch(() => {});
  }
}

/** Returns the failure of a server that has fewer events than a reader has received. */
function behind({ code, detail }: HandfastError, position: number | undefined): HandfastError | undefined {
  const { field, last_seq } = detail;
  if (code !== 'schema_violation' || field !== 'after_seq' || typeof last_seq !== 'number') return undefined;
  if (position === undefined || position <= last_seq) return undefined;
  const message = `the server has events up to ${last_seq}, and this reader asks for those after ${position}: it runs with an older state; read the session again`;
  return fail('session_expired', message, { last_seq, after_seq: position });
}
