/**
 * One outgoing call: a promise of its result that is also an async iterable of its events.
 *
 * `connection/outgoing-calls.ts` makes and settles them; users get them from every client method.
 */
import type { Body, Method } from '../protocol/method.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import type { Gap } from './reconnect.ts';

/** An event of a call, in `seq` order. Ends before the result settles. */
export interface CallEvent {
  /** `progress`, `artifact`, `log`, `status`; hosts may send others. `gap`: events are missing here, see {@link Call.gaps}. */
  readonly kind: string;
  readonly data: Record<string, unknown>;
  /** Counts from 0 within the call. */
  readonly seq: number;
  /** The whole event, for methods whose events have additional fields. */
  readonly fields?: Readonly<Record<string, unknown>>;
}

export interface CallOptions {
  /** Cancels the call when aborted: it rejects with `cancelled`, and the host gets a cancel if it supports that. */
  readonly signal?: AbortSignal;
  /** Time limit in milliseconds, sent to the host where the message has a field for it. Default: the agent's. 0 = none. */
  readonly timeoutMs?: number;
  /** Called for each event, before the result settles. Asks the host for events. */
  readonly onEvent?: (event: CallEvent) => void;
  /** Called for each entry of {@link Call.gaps}, at its place between the events. */
  readonly onGap?: (gap: Gap) => void;
  /**
   * Asks for events (true) or not (false). By default events are asked for when `onEvent` is given or the call is
   * iterated in the turn it was made in, as `for await (const event of agent.tools.call(…))` does.
   */
  readonly streaming?: boolean;
  /**
   * True if repeating the call has no more effect than making it once. When its reply is lost, the error then stays
   * `retryable`; otherwise it has `detail.may_have_run`. Default: as the method declares.
   */
  readonly idempotent?: boolean;
  /**
   * True where the events continue after the reply, until the call is cancelled or its owner ends them: for methods that
   * subscribe. Default false: events end with the reply.
   */
  readonly keepStream?: boolean;
}

/** The functions with which the typed clients of capabilities make their calls: `agent.calls`. */
export interface MethodCaller {
  /** Defaults of the calls. `timeoutMs`: of calls that bring none, milliseconds; 0 = none. */
  readonly limits: { readonly timeoutMs: number };
  /**
   * Makes a call. Throws nothing; the promise rejects with an error of the table.
   * @param select turns the reply into the result; by default the reply's own fields
   */
  call<Request extends object, Reply extends object, Result = Body<Reply>>(
    method: Method<Request, Reply>,
    body: Body<Request>,
    options?: CallOptions,
    select?: (reply: Reply) => Result,
  ): Call<Result>;
}

/**
 * The promise of a result that is also the stream of the events before it. Iterating ends when the result has arrived
 * and throws the error that the promise rejects with; await the call to get the result.
 */
export interface Call<Result> extends Promise<Result>, AsyncIterable<CallEvent> {
  /** The request id on the wire. */
  readonly id: string;
  /**
   * Events that the host no longer had when a lost link was replaced, by their `seq`; for a journal that is read,
   * entries by their cursor. Each gap is also an event of kind `gap` whose data is `{from, to}`. Where the reply
   * follows a gap, `to` is the highest number that can be missing: the host does not send the number of events.
   */
  readonly gaps: readonly Gap[];
  /** Cancels the call, as aborting its signal does. */
  cancel(): void;
}

/** Events buffered for a slow reader; past it `progress` is replaced by the newest, and the call fails. */
const MAX_UNREAD_EVENTS = 100_000;

/** The events of one call between the link and their reader. */
export class EventStream implements AsyncIterator<CallEvent, undefined> {
  #events: CallEvent[] = [];
  #head = 0;
  #waiting: { resolve: (result: IteratorResult<CallEvent, undefined>) => void; reject: (error: unknown) => void }[] =
    [];
  #ended = false;
  #error: HandfastError | undefined;
  readonly #abandon: () => void;

  /** @param abandon called when the reader leaves the loop early */
  constructor(abandon: () => void) {
    this.#abandon = abandon;
  }

  /** Adds an event; false when the buffer of a slow reader is full. */
  push(event: CallEvent): boolean {
    const waiter = this.#waiting.shift();
    if (waiter !== undefined) {
      waiter.resolve({ value: event, done: false });
      return true;
    }
    const unread = this.#events.length - this.#head;
    if (unread >= MAX_UNREAD_EVENTS) {
      const last = this.#events.at(-1);
      if (event.kind !== 'progress' || last?.kind !== 'progress') return false;
      this.#events[this.#events.length - 1] = event;
      return true;
    }
    this.#events.push(event);
    return true;
  }

  /** Ends the events; readers get the remaining ones first. */
  end(error?: HandfastError): void {
    this.#ended = true;
    this.#error = error;
    for (const waiter of this.#waiting.splice(0)) this.#finish(waiter);
  }

  next(): Promise<IteratorResult<CallEvent, undefined>> {
    if (this.#head < this.#events.length) {
      const value = this.#events[this.#head++] as CallEvent;
      if (this.#head === this.#events.length) {
        this.#events = [];
        this.#head = 0;
      }
      return Promise.resolve({ value, done: false });
    }
    return new Promise((resolve, reject) => {
      if (this.#ended) this.#finish({ resolve, reject });
      else this.#waiting.push({ resolve, reject });
    });
  }

  /** Drops the unread events after the reader left early. */
  return(): Promise<IteratorResult<CallEvent, undefined>> {
    if (!this.#ended) this.#abandon();
    this.#events = [];
    this.#head = 0;
    return Promise.resolve({ value: undefined, done: true });
  }

  #finish(waiter: {
    resolve: (result: IteratorResult<CallEvent, undefined>) => void;
    reject: (error: unknown) => void;
  }) {
    const error = this.#error;
    this.#error = undefined; // The iteration throws once, then is done.
    if (error === undefined) waiter.resolve({ value: undefined, done: true });
    else waiter.reject(error);
  }
}

/** Returns the error for a reader of a call that was made without events. */
export const noEvents = (): HandfastError =>
  fail('usage', 'this call was sent without asking for events: pass { streaming: true } or iterate it at once');
