/**
 * The events of one session (or of the server) for any number of readers, over one subscription: each reader has its own
 * position, nothing comes twice, and nothing is left out without being told. A lost link is survived by subscribing again
 * where the readers are.
 *
 * Made by `control.ts`, one per session that somebody reads; `event-reader.ts` has the readers.
 */
import type { Gap } from '../connection/reconnect.ts';
import { asError, HandfastError } from '../wire/errors.ts';
import type { ControlEvent } from './control-event.ts';
import { EventReader, type ReaderFeed } from './event-reader.ts';

/** What the server says to a subscription. */
export interface Subscribed {
  readonly subscription_id: string;
  /** Where it begins. */
  readonly after_seq: number;
  /** The newest event there is. */
  readonly last_seq: number;
  readonly gap: { readonly from_seq: number; readonly to_seq: number } | null;
}

/** What a feed asks the server. */
export interface FeedSource {
  /**
   * Subscribes above `afterSeq` (undefined = from now on), in the place of what was subscribed of this session. `onAnswer` is
   * called before the first event of the subscription is read. Rejects with `connection_lost` at once while there is no link.
   */
  subscribe(afterSeq: number | undefined, onAnswer: (answer: Subscribed) => void): Promise<unknown>;
  unsubscribe(id: string): Promise<unknown>;
  /** Events that readers wanted are lost. */
  gap(gap: Gap): void;
  /** Nobody reads any more. */
  unused(): void;
}

export interface ReadOptions {
  /** Replay what came after this sequence number; absent: only what comes from now on. */
  readonly afterSeq?: number;
  /** Ends the iteration quietly. */
  readonly signal?: AbortSignal;
}

/** The events of one session, or of the server. */
export class Feed implements ReaderFeed {
  readonly #source: FeedSource;
  /** Readers that are fed or wait to be; those that are behind are not among them. */
  readonly #readers = new Set<EventReader>();
  /** Readers that are not over. */
  #open = 0;
  #subscription: string | undefined;
  #subscribing = false;
  /** The link became another one while it was asked for. */
  #again = false;
  /** What the running subscription has passed on. */
  #cursor = 0;
  /** The newest event anybody has told of. */
  #newest = 0;
  #over: HandfastError | undefined;

  constructor(source: FeedSource) {
    this.#source = source;
  }

  /**
   * Reads on until the signal aborts or the iteration is left. It throws what subscribing failed with
   * (`session_not_found`, `over_capacity`), or `connection_lost` when the connection is given up. "Now" is when this is called.
   */
  read({ afterSeq, signal }: ReadOptions = {}): EventReader {
    this.#open++;
    const reader = new EventReader(this, afterSeq, signal);
    if (signal?.aborted) reader.end();
    else this.join(reader);
    return reader;
  }

  // What the link brings.

  /** An event of the server's, and how many characters it came in. */
  take(event: ControlEvent, chars: number): void {
    // Between the request and its answer comes the rest of the subscription before; the new one has it all again.
    if (this.#subscription === undefined) return;
    this.#reached(event.seq);
    for (const reader of this.#readers) reader.take(event, chars);
  }

  /** Events of the running subscription are gone. */
  gap(from: number, to: number): void {
    if (this.#subscription === undefined) return;
    this.#reached(to);
    let missed = false;
    for (const reader of this.#readers) if (reader.fed && reader.miss(from, to)) missed = true;
    if (missed) this.#source.gap({ from, to });
  }

  /** The running subscription cannot go on. */
  ended(subscription: unknown, kind: string, message: string): void {
    if (this.#subscription === undefined || subscription !== this.#subscription) return;
    this.#subscription = undefined;
    const error = new HandfastError(kind, message);
    for (const reader of [...this.#readers]) if (reader.fed) reader.fail(error);
  }

  /** The link is another one: whatever was subscribed is not any more. */
  reconnected(): void {
    this.#subscription = undefined;
    this.#again = this.#subscribing;
    this.#subscribeSoon();
  }

  /** The connection is given up; readers get what waits for them, then the error. */
  fail(error: HandfastError): void {
    this.#over = error;
    this.#subscription = undefined;
    for (const reader of [...this.#readers]) reader.fail(error);
  }

  // What readers ask.

  join(reader: EventReader): void {
    if (this.#over !== undefined) return reader.fail(this.#over);
    this.#readers.add(reader);
    if (this.#subscription !== undefined) reader.begin(this.#cursor, this.#newest);
    if (!reader.fed) this.#subscribeSoon();
  }

  leave(reader: EventReader, over: boolean): void {
    this.#readers.delete(reader);
    // Nobody has room for what it sends; whoever comes back subscribes where it is.
    if (this.#readers.size === 0) this.#unsubscribe();
    if (over && --this.#open === 0) this.#source.unused();
  }

  #reached(seq: number): void {
    this.#cursor = seq;
    this.#newest = Math.max(this.#newest, seq);
  }

  #subscribeSoon(): void {
    if (!this.#subscribing && this.#readers.size > 0) void this.#subscribe();
  }

  /** Subscribes where the reader is that is furthest back. Never rejects. */
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
      if (!lost) for (const reader of readers) reader.fail(error);
    }
    this.#subscribing = false;
    if (this.#readers.size === 0) return this.#unsubscribe();
    // Those who came meanwhile may want more than was asked for. With the link lost, the reconnect asks again.
    if (this.#again || (!lost && this.#readers.values().some(({ fed }) => !fed))) this.#subscribeSoon();
  }

  /** What comes on the link from here on is the replay, then what happens. */
  #subscribed({ subscription_id, after_seq, last_seq, gap }: Subscribed): void {
    this.#subscription = subscription_id;
    this.#cursor = after_seq;
    this.#newest = last_seq;
    for (const reader of this.#readers) reader.begin(after_seq, last_seq);
    if (gap !== null) this.gap(gap.from_seq, gap.to_seq);
  }

  #unsubscribe(): void {
    const id = this.#subscription;
    this.#subscription = undefined;
    if (id !== undefined) this.#source.unsubscribe(id).catch(() => {});
  }
}
