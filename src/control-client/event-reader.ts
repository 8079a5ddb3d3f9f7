/**
 * One reader of a feed: its place in the row of events, and those that wait for it, within bounds.
 *
 * A reader that does not keep up costs no memory past its bound: it leaves its feed, and joins it again at its place when
 * it has caught up; what it missed comes out of the server's journal. Made by `feed.ts`.
 */
import type { Gap } from '../connection/reconnect.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import type { ControlEvent, EventGap } from './control-event.ts';

/** Most events that wait for one reader, and most characters of them. One event always fits. */
export const MAX_WAITING = 1024;
export const MAX_WAITING_CHARS = 8 * 1024 * 1024;
/** A reader that fell behind goes on when no more than this part of its bounds is waiting. */
const LOW_PART = 1 / 4;

type Item = ControlEvent | EventGap;
type Step = IteratorResult<Item, void>;

/** What a reader asks of its feed. */
export interface ReaderFeed {
  /** Feeds the reader from its position on. */
  join(reader: EventReader): void;
  /** Feeds it no more. `over`: it will not come back. */
  leave(reader: EventReader, over: boolean): void;
}

/** What a reader of one turn wants to see. */
export interface Narrowed {
  readonly wants: (event: ControlEvent) => boolean;
  /** True for the event behind which nothing is wanted. */
  readonly isLast: (event: ControlEvent) => boolean;
}

/** Iterates events; leaving the loop, `return()` and `await using` end it, whatever is pending. */
export class EventReader implements AsyncIterableIterator<Item, void, undefined>, AsyncDisposable {
  /** Everything up to here was taken in; undefined until the server has said where "now" is. */
  position: number | undefined;
  /** True while every event above `position` comes by. */
  fed = false;
  readonly #feed: ReaderFeed;
  readonly #signal: AbortSignal | undefined;
  readonly #aborted = (): void => this.end();
  #waiting: { readonly item: Item; readonly chars: number }[] = [];
  #waitingChars = 0;
  readonly #gaps: Gap[] = [];
  /** Steps that were asked for and have no event yet. */
  #asked: PromiseWithResolvers<Step>[] = [];
  /** It left the feed because its bounds were reached. */
  #behind = false;
  #over = false;
  #failure: HandfastError | undefined;
  #begun: PromiseWithResolvers<void> | undefined;
  #narrowed: Narrowed | undefined;

  /**
   * @param position undefined = now
   * @param signal ends it quietly
   * @internal
   */
  constructor(feed: ReaderFeed, position: number | undefined, signal: AbortSignal | undefined) {
    this.#feed = feed;
    this.position = position;
    this.#signal = signal;
    signal?.addEventListener('abort', this.#aborted, { once: true });
  }

  // For those who read.

  /** What was missing so far; each gap is also an item of the iteration, in its place. */
  get gaps(): readonly Gap[] {
    return this.#gaps;
  }

  /** Events that can be read without waiting. */
  get waiting(): number {
    return this.#waiting.length;
  }

  next(): Promise<Step> {
    const first = this.#waiting.shift();
    if (first !== undefined) {
      this.#waitingChars -= first.chars;
      this.#catchUp();
      return Promise.resolve({ done: false, value: first.item });
    }
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) return Promise.reject(failure);
    if (this.#over) return Promise.resolve({ done: true, value: undefined });
    const asked = Promise.withResolvers<Step>();
    this.#asked.push(asked);
    return asked.promise;
  }

  /** Ends it at once: what waits is dropped, steps that were asked for are answered with the end. Idempotent. */
  async return(): Promise<Step> {
    this.end();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.end();
  }

  end(): void {
    this.#waiting = [];
    this.#failure = undefined;
    this.#finish();
    this.#begun?.reject(fail('cancelled', 'reading was given up'));
  }

  /** Resolves when it is subscribed: whatever happens after that reaches it. Rejects with what reading failed with. */
  begun(): Promise<void> {
    if (this.fed) return Promise.resolve();
    if (this.#over) return Promise.reject(this.#failure ?? fail('cancelled', 'reading was given up'));
    this.#begun ??= Promise.withResolvers();
    return this.#begun.promise;
  }

  /**
   * From now on, and among what waits, only these events; it ends behind the last.
   * @internal
   */
  narrow(narrowed: Narrowed): void {
    this.#narrowed = narrowed;
    const all = this.#waiting;
    this.#waiting = [];
    this.#waitingChars = 0;
    for (const { item, chars } of all) {
      if (this.#over) return;
      if (item.type === 'gap') this.#put(item, chars);
      else this.#sift(item, chars);
    }
  }

  // For its feed.

  /**
   * A subscription passes on everything above `after`; `now` is the newest event there is. A reader that wants more than
   * that is not fed by it.
   */
  begin(after: number, now: number): void {
    this.position ??= now;
    this.fed = this.position >= after;
    if (this.fed) this.#begun?.resolve();
  }

  take(event: ControlEvent, chars: number): void {
    if (!this.fed || event.seq <= (this.position as number)) return;
    if (!this.#hasRoomFor(chars)) {
      this.#behind = true;
      this.fed = false;
      return this.#feed.leave(this, false);
    }
    this.position = event.seq;
    this.#sift(event, chars);
  }

  /** Events up to `to` are lost. False when this reader had them. */
  miss(from: number, to: number): boolean {
    if (this.position === undefined || to <= this.position) return false;
    const gap = { from: Math.max(from, this.position + 1), to };
    this.#gaps.push(gap);
    this.#put({ type: 'gap', ...gap }, 0);
    this.position = to;
    return true;
  }

  /** Nothing more will come: what waits is still read, then the error is thrown once. */
  fail(error: HandfastError): void {
    if (this.#over) return;
    const [first, ...others] = this.#asked;
    this.#asked = others;
    if (first === undefined) this.#failure = error;
    else first.reject(error);
    this.#begun?.reject(error);
    this.#finish();
  }

  #sift(event: ControlEvent, chars: number): void {
    if (this.#narrowed === undefined || this.#narrowed.wants(event)) this.#put(event, chars);
    if (this.#narrowed?.isLast(event)) this.#finish();
  }

  #put(item: Item, chars: number): void {
    const asked = this.#asked.shift();
    if (asked !== undefined) return asked.resolve({ done: false, value: item });
    this.#waiting.push({ item, chars });
    this.#waitingChars += chars;
  }

  #hasRoomFor(chars: number): boolean {
    if (this.#waiting.length === 0) return true;
    return this.#waiting.length < MAX_WAITING && this.#waitingChars + chars <= MAX_WAITING_CHARS;
  }

  #catchUp(): void {
    if (!this.#behind || this.#over) return;
    const isLow = this.#waiting.length <= MAX_WAITING * LOW_PART && this.#waitingChars <= MAX_WAITING_CHARS * LOW_PART;
    if (!isLow) return;
    this.#behind = false;
    this.#feed.join(this);
  }

  /** No event is wanted any more. */
  #finish(): void {
    if (this.#over) return;
    this.#over = true;
    this.fed = false;
    this.#signal?.removeEventListener('abort', this.#aborted);
    for (const asked of this.#asked.splice(0)) asked.resolve({ done: true, value: undefined });
    this.#feed.leave(this, true);
  }
}
