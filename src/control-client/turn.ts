/**
 * A turn as its sender follows it: its events, and its end. Both come out of one reading, which ends with the turn.
 */
import { sleep } from '../base/sleep.ts';
import type { StopReason, Usage } from '../protocol/session-types.ts';
import { fail, HandfastError } from '../wire/errors.ts';
import type { ControlEvent, EventGap } from './control-event.ts';
import type { EventReader } from './event-reader.ts';

/** A replay that brings nothing for this time has ended, in milliseconds. */
const QUIET_MS = 2000;

/** Asks the server about a turn. */
export type FindTurn = (turnId: string) => Promise<'open' | 'ended' | 'unknown'>;

/** The end of a turn. */
export interface TurnResult {
  readonly turnId: string;
  readonly stopReason: StopReason;
  /** The whole answer, also of a turn that was interrupted or failed on the way. */
  readonly text: string;
  readonly usage: Usage;
  /** The failure, for `stopReason: 'error'`. */
  readonly error: HandfastError | undefined;
}

/**
 * A turn: iterate its events, or await its result, or both. The events go through one reading: events that a result has read
 * past are not iterated any more, and two iterations share them. It needs no closing.
 */
export class TurnHandle implements AsyncIterable<ControlEvent | EventGap> {
  readonly turnId: string;
  /** True when its prompt had to wait. */
  readonly queued: boolean;
  readonly #events: EventReader;
  #text = '';
  #result: TurnResult | undefined;
  /** Iterations under way; they also read for callers that wait for the result. */
  #iterating = 0;
  #wanted: PromiseWithResolvers<TurnResult> | undefined;
  #reading = false;
  readonly #find: FindTurn;
  /** True while it is being found out whether the end can still come. */
  #doubting = false;

  /** @internal */
  constructor(turnId: string, queued: boolean, events: EventReader, find: FindTurn) {
    this.turnId = turnId;
    this.queued = queued;
    this.#events = events;
    this.#find = find;
    const wants = ({ payload }: ControlEvent): boolean => {
      const { turn_id, detail } = payload as { turn_id?: unknown; detail?: { turn_id?: unknown } };
      return turn_id === turnId || (turn_id === undefined && detail?.turn_id === turnId);
    };
    events.narrow({
      wants,
      isLast: (event) => wants(event) && isTerminal(event),
      doubted: () => void this.#doubt(),
    });
  }

  /**
   * Resolves when the turn has ended, however it did: a turn that failed has `error`. Rejects with `connection_lost` when the
   * connection is given up, and with `cancelled` when the signal of `prompt` was aborted.
   */
  result(): Promise<TurnResult> {
    if (this.#result !== undefined) return Promise.resolve(this.#result);
    if (this.#wanted === undefined) {
      this.#wanted = Promise.withResolvers();
      // An iteration that begins at once is to have the events.
      queueMicrotask(() => this.#readOn());
    }
    return this.#wanted.promise;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ControlEvent | EventGap, void, undefined> {
    this.#iterating++;
    try {
      for (let event = await this.#next(); event !== undefined; event = await this.#next()) yield event;
    } finally {
      this.#iterating--;
      this.#readOn();
    }
  }

  /** Reads to the end for callers that want the result alone. */
  async #readOn(): Promise<void> {
    if (this.#wanted === undefined || this.#reading) return;
    this.#reading = true;
    try {
      while (this.#iterating === 0 && (await this.#next()) !== undefined);
    } catch {
      // The promise of the result has rejected already.
    }
    this.#reading = false;
  }

  /**
   * Checks a turn whose link was replaced, or whose events are missing: a server that does not know the turn, or lost its end,
   * would never send it. Fails the reading when the replay has brought no end. Never rejects.
   */
  async #doubt(): Promise<void> {
    if (this.#doubting) return;
    this.#doubting = true;
    try {
      for (let before = Number.NaN; !this.#events.ended; ) {
        const found = await this.#find(this.turnId);
        if (found === 'open') return;
        const { position = 0, waiting } = this.#events;
        // A reader that reads nothing holds the replay up.
        if (position === before && waiting === 0) return this.#events.fail(endless(this.turnId, found));
        before = position;
        await sleep(QUIET_MS);
      }
    } catch {
      // The link is lost again, or the server has no list of turns: the next link raises the doubt again.
    } finally {
      this.#doubting = false;
    }
  }

  /** Returns the next event; undefined behind the last. */
  async #next(): Promise<ControlEvent | EventGap | undefined> {
    try {
      const { done, value: event } = await this.#events.next();
      if (done !== true) {
        if (event.type !== 'gap') this.#take(event);
        return event;
      }
      // Another reader of this handle has had the end.
      if (this.#result === undefined) throw fail('cancelled', 'waiting for the turn was cancelled');
      return undefined;
    } catch (error) {
      this.#wanted ??= handled(Promise.withResolvers<TurnResult>());
      this.#wanted.reject(error);
      throw error;
    }
  }

  #take(event: ControlEvent): void {
    switch (event.type) {
      case 'session.stream.chunk':
        this.#text += event.payload.chunk.answerText;
        break;
      case 'session.message.appended':
        // Said once, and whole: pieces of it may be in a gap.
        if (event.payload.message.kind === 'assistant') this.#text = event.payload.message.text;
        break;
      case 'session.completed':
      case 'session.interrupted':
      case 'session.error': {
        const { stop_reason: stopReason, usage } = event.payload;
        const { turnId } = this;
        this.#result = { turnId, stopReason, text: this.#text, usage, error: errorOf(event) };
        this.#wanted?.resolve(this.#result);
      }
    }
  }
}

function endless(turn_id: string, found: 'ended' | 'unknown'): HandfastError {
  return found === 'ended'
    ? fail('reply_lost', `turn ${turn_id} has ended, and the server no longer has its end; read the session`, {
        turn_id,
      })
    : fail(
        'session_expired',
        `the server does not know turn ${turn_id}: it runs with an older state; send the prompt again`,
        {
          turn_id,
          may_have_run: true,
        },
      );
}

type Terminal = Extract<ControlEvent, { type: 'session.completed' | 'session.interrupted' | 'session.error' }>;

export const isTerminal = ({ type }: Pick<ControlEvent, 'type'>): boolean =>
  type === 'session.completed' || type === 'session.interrupted' || type === 'session.error';

function errorOf(event: Terminal): HandfastError | undefined {
  if (event.type !== 'session.error') return undefined;
  const { message, kind, retryable, reason } = event.payload;
  const detail = reason === undefined ? {} : { reason };
  return new HandfastError(kind ?? 'runtime_error', message, { retryable, detail });
}

/** Marks a promise as handled, because its rejection is reported elsewhere. */
function handled<T>(wanted: PromiseWithResolvers<T>): PromiseWithResolvers<T> {
  wanted.promise.catch(() => {});
  return wanted;
}
