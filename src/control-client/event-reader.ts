/**
 * One reader of a feed: its position, and a bounded buffer of events that it has not read yet.
 *
 * A slow reader costs no memory above its bound: it leaves its feed, and joins it again at its position when its buffer
 * has emptied. The journal of the server replays the events in between.
 */
import type { Gap } from '../connection/reconnect.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import type { ControlEvent, EventGap } from './control-event.ts';

/** Maximum number of buffered events of a reader, and of their characters. One event always fits. */
export const MAX_WAITING = 1024;
export const MAX_WAITING_CHARS = 8 * 1024 * 1024;
/** Low-water mark: a slow reader joins its feed again when at most this part of its bounds is buffered. */
const LOW_PART = 1 / 4;

type Item = ControlEvent | EventGap;
type Step = IteratorResult<Item, void>;

/** The feed as a reader calls it. */
export interface ReaderFeed {
  /** Feeds the reader from its position on. */
  join(reader: EventReader): void;
  /** Stops feeding it. `ended`: it will not join again. */
  leave(reader: EventReader, ended: boolean): void;
}

/** The events that a reader of one turn passes on. */
export interface Narrowed {
  readonly wants: (event: ControlEvent) => boolean;
  /** True for the last event of the turn. */
  readonly isLast: (event: ControlEvent) => boolean;
  /** Called when the last event may never come: the link was replaced, or events are missing. */
  readonly doubted: () => void;
}

/** Iterates events. Leaving the loop, `return()` and `await using` end it at once. */
export class EventReader implements AsyncIterableIterator<Item, void, undefined>, AsyncDisposable {
  /** Number of the last event it has received; undefined until the server has reported the current one. */
  position: number | undefined;
  /** True while the subscription sends every event after `position`. */
  fed = false;
  readonly #feed: ReaderFeed;
  readonly #signal: AbortSignal | undefined;
  readonly #aborted = (): void => this.end();
  #waiting: { readonly item: Item; readonly chars: number }[] = [];
  #waitingChars = 0;
  readonly #gaps: Gap[] = [];
  /** Calls of `next` that wait for an event. */
  #pendingSteps: PromiseWithResolvers<Step>[] = [];
  /** True when it left the feed because its buffer was full. */
  #behind = false;
  #ended = false;
  #failure: HandfastError | undefined;
  #started: PromiseWithResolvers<void> | undefined;
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

  // For the caller.

  /** The gaps so far; each one is also an item of the iteration, at its position. */
  get gaps(): readonly Gap[] {
    return this.#gaps;
  }

  /** True when no further event will come. */
  get ended(): boolean {
    return this.#ended;
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
    if (this.#ended) return Promise.resolve({ done: true, value: undefined });
    const step = Promise.withResolvers<Step>();
    this.#pendingSteps.push(step);
    return step.promise;
  }

  /** Ends it at once: drops buffered events, and resolves pending steps with the end. Idempotent. */
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
    this.#started?.reject(fail('cancelled', 'reading was cancelled'));
  }

  /** Resolves when it is subscribed, so that it gets every later event. Rejects with the error that ended it. */
  started(): Promise<void> {
    if (this.fed) return Promise.resolve();
    if (this.#ended) return Promise.reject(this.#failure ?? fail('cancelled', 'reading was cancelled'));
    this.#started ??= Promise.withResolvers();
    return this.#started.promise;
  }

  /**
   * Drops all other events, buffered ones too, and ends after the last one.
   * @internal
   */
  narrow(narrowed: Narrowed): void {
    this.#narrowed = narrowed;
    const all = this.#waiting;
    this.#waiting = [];
    this.#waitingChars = 0;
    for (const { item, chars } of all) {
      if (this.#ended) return;
      if (item.type === 'gap') this.#put(item, chars);
      else this.#sift(item, chars);
    }
  }

  // For its feed.

  /**
   * Starts feeding from a subscription that sends the events after `after`; `now` is the newest one. A reader that needs
   * earlier events is not fed by it.
   */
  start(after: number, now: number): void {
    const again = this.position !== undefined;
    this.position ??= now;
    this.fed = this.position >= after;
    if (again) this.#narrowed?.doubted();
    if (this.fed) this.#started?.resolve();
  }

  take(event: ControlEvent, chars: number): void {
    if (!this.fed || event.seq <= (this.position as number)) return;
    if (!this.#fits(chars)) {
      this.#behind = true;
      this.fed = false;
      return this.#feed.leave(this, false);
    }
    this.position = event.seq;
    this.#sift(event, chars);
  }

  /** Reports the missing events up to `to`. False: this reader has received them. */
  miss(from: number, to: number): boolean {
    if (this.position === undefined || to <= this.position) return false;
    const gap = { from: Math.max(from, this.position + 1), to };
    this.#gaps.push(gap);
    this.#put({ type: 'gap', ...gap }, 0);
    this.position = to;
    this.#narrowed?.doubted();
    return true;
  }

  /** Ends it with an error, which is thrown once after the buffered events. */
  fail(error: HandfastError): void {
    if (this.#ended) return;
    const [first, ...others] = this.#pendingSteps;
    this.#pendingSteps = others;
    if (first === undefined) this.#failure = error;
    else first.reject(error);
    this.#started?.reject(error);
    this.#finish();
  }

  #sift(event: ControlEvent, chars: number): void {
    if (this.#narrowed === undefined || this.#narrowed.wants(event)) this.#put(event, chars);
    if (this.#narrowed?.isLast(event)) this.#finish();
  }

  #put(item: Item, chars: number): void {
    const step = this.#pendingSteps.shift();
    if (step !== undefined) return step.resolve({ done: false, value: item });
    this.#waiting.push({ item, chars });
    this.#waitingChars += chars;
  }

  #fits(chars: number): boolean {
    if (this.#waiting.length === 0) return true;
    return this.#waiting.length < MAX_WAITING && this.#waitingChars + chars <= MAX_WAITING_CHARS;
  }

  #catchUp(): void {
    if (!this.#behind || this.#ended) return;
    const isLow = this.#waiting.length <= MAX_WAITING * LOW_PART && this.#waitingChars <= MAX_WAITING_CHARS * LOW_PART;
    if (!isLow) return;
    this.#behind = false;
    this.#feed.join(this);
  }

  /** Ends it and leaves the feed. */
  #finish(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.fed = false;
    this.#signal?.removeEventListener('abort', this.#aborted);
    for (const step of this.#pendingSteps.splice(0)) step.resolve({ done: true, value: undefined });
    this.#feed.leave(this, true);
  }
}
