/**
 * Events of one session (or of the server) for any number of readers, over one subscription: each reader has its own
 * position, nothing comes twice, and nothing is left out without being told.
 *
 * A reader that does not keep up costs no memory past its bound: what does not fit is left to the server's journal, and
 * fetched when the reader has caught up. The same way a lost link is survived.
 */
import type { SessionEvent } from '../protocol/session-events.ts';
import { asError, type HandfastError } from '../wire/errors.ts';

/** Events that are gone: they were older than what the server still holds. Numbers are inclusive. */
export interface EventGap {
  readonly type: 'gap';
  readonly from_seq: number;
  readonly to_seq: number;
}

/** Most events that wait for one reader. */
const MOST_WAITING = 1024;

/** What the server says to a subscription. */
export interface Subscribed {
  readonly subscription_id: string;
  readonly after_seq: number;
  readonly gap: { readonly from_seq: number; readonly to_seq: number } | null;
}

/** What a feed asks the server. */
export interface FeedSource {
  /**
   * Subscribes above `afterSeq` (undefined = from now on). `onAnswer` is called before the first event of the subscription
   * is read.
   */
  subscribe(afterSeq: number | undefined, onAnswer: (answer: Subscribed) => void): Promise<unknown>;
  unsubscribe(id: string): Promise<unknown>;
}

export interface ReadOptions {
  /** Replay what came after this sequence number; absent: only what comes from now on. */
  readonly afterSeq?: number;
  /** Ends the iteration quietly. */
  readonly signal?: AbortSignal;
}

/** One reader of a feed. */
class Reader {
  readonly waiting: (SessionEvent | EventGap)[] = [];
  /** Newest sequence number taken in; undefined until the subscription has said where "now" is. */
  position: number | undefined;
  /** True when events were left to the journal. */
  behind = false;
  #wake: (() => void) | undefined;
  ended = false;

  constructor(position: number | undefined) {
    this.position = position;
  }

  take(event: SessionEvent): void {
    if (this.behind || this.position === undefined || event.seq <= this.position) return;
    if (this.waiting.length >= MOST_WAITING) {
      this.behind = true;
      return;
    }
    this.position = event.seq;
    this.waiting.push(event);
    this.wake();
  }

  wake(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  sleep(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}

/** The events of one session, or of the server. */
export class Feed {
  readonly #source: FeedSource;
  readonly #readers = new Set<Reader>();
  #subscription: string | undefined;
  #subscribing: Promise<void> | undefined;
  /** False while a subscription is being made: events that come then belong to an earlier one. */
  #armed = false;
  /** A reader wants another position than the running subscription has. */
  #again = false;
  #failed: HandfastError | undefined;
  /** True when the connection is given up for good. */
  #over = false;

  constructor(source: FeedSource) {
    this.#source = source;
  }

  /** True while somebody reads. */
  get used(): boolean {
    return this.#readers.size > 0;
  }

  /**
   * Reads on until the signal aborts or the loop is left. Throws what the subscription failed with
   * (`session_not_found`, `unauthorized`), or `connection_lost` when the connection is given up.
   */
  async *read({ afterSeq, signal }: ReadOptions = {}): AsyncGenerator<SessionEvent | EventGap, void, undefined> {
    const reader = new Reader(afterSeq);
    // What an earlier subscription failed with is no reason not to try again.
    if (this.#readers.size === 0 && !this.#over) this.#failed = undefined;
    this.#readers.add(reader);
    const stop = (): void => {
      reader.ended = true;
      reader.wake();
    };
    signal?.addEventListener('abort', stop, { once: true });
    if (signal?.aborted) stop();
    try {
      this.#subscribeSoon();
      for (;;) {
        const event = reader.waiting.shift();
        if (event !== undefined) {
          yield event;
          continue;
        }
        if (reader.ended) return;
        if (this.#failed !== undefined) throw this.#failed;
        if (reader.behind) {
          reader.behind = false;
          this.#subscribeSoon();
        }
        await reader.sleep();
      }
    } finally {
      signal?.removeEventListener('abort', stop);
      this.#readers.delete(reader);
      if (this.#readers.size === 0) this.#unsubscribe();
    }
  }

  /** An event of the server's. */
  take(event: SessionEvent): void {
    if (!this.#armed) return;
    for (const reader of this.#readers) reader.take(event);
  }

  /** Resolves when every reader so far is subscribed: what happens after that reaches them. */
  async ready(): Promise<void> {
    while (this.#subscribing !== undefined) await this.#subscribing;
    if (this.#failed !== undefined) throw this.#failed;
  }

  /** The link is another one: whatever was subscribed is not any more. */
  reconnected(): void {
    this.#subscription = undefined;
    this.#armed = false;
    if (this.used) this.#subscribeSoon();
  }

  /** The connection is given up; readers get what waits for them, then the error. */
  fail(error: HandfastError): void {
    this.#over = true;
    this.#stopReaders(error);
  }

  #stopReaders(error: HandfastError): void {
    this.#failed = error;
    for (const reader of this.#readers) reader.wake();
  }

  #subscribeSoon(): void {
    if (this.#subscribing !== undefined) {
      this.#again = true;
      return;
    }
    this.#subscribing = this.#subscribe().finally(() => {
      this.#subscribing = undefined;
      if (!this.#again) return;
      this.#again = false;
      if (this.used) this.#subscribeSoon();
    });
  }

  async #subscribe(): Promise<void> {
    const before = this.#subscription;
    this.#subscription = undefined;
    this.#armed = false;
    try {
      if (before !== undefined) await this.#source.unsubscribe(before);
      const positions = [...this.#readers].map(({ position }) => position).filter((each) => each !== undefined);
      const lowest = positions.length > 0 ? Math.min(...positions) : undefined;
      await this.#source.subscribe(lowest, (answer) => this.#subscribed(answer));
      if (!this.used) this.#unsubscribe();
    } catch (thrown) {
      const error = asError(thrown);
      // With the link lost, the reconnect subscribes again.
      if (error.code !== 'connection_lost') this.#stopReaders(error);
    }
  }

  /** What comes on the link from here on is the replay, then what happens. */
  #subscribed({ subscription_id, after_seq, gap }: Subscribed): void {
    this.#subscription = subscription_id;
    this.#armed = true;
    for (const reader of this.#readers) {
      reader.position ??= after_seq;
      if (gap === null || gap.to_seq <= reader.position) continue;
      reader.waiting.push({ type: 'gap', from_seq: Math.max(gap.from_seq, reader.position + 1), to_seq: gap.to_seq });
      reader.position = gap.to_seq;
      reader.wake();
    }
  }

  #unsubscribe(): void {
    const id = this.#subscription;
    this.#subscription = undefined;
    this.#armed = false;
    if (id !== undefined) this.#source.unsubscribe(id).catch(() => {});
  }
}
