/**
 * One session as a client handles it: prompts and their turns, steering, the queue, its events.
 *
 * Made by `ControlClient.create` and `.open`.
 */

import type { SessionEvent } from '../protocol/session-events.ts';
import type { SteerResult } from '../protocol/session-rpc.ts';
import type {
  ImageReference,
  QueueItem,
  SessionState,
  StopReason,
  UiMessage,
  Usage,
} from '../protocol/session-types.ts';
import { fail } from '../wire/errors.ts';
import type { ControlClient } from './control.ts';
import type { EventGap, ReadOptions } from './feed.ts';

export interface PromptOptions {
  readonly images?: readonly (Partial<ImageReference> & { readonly path?: string })[];
  /** Wait in the queue while another turn runs. Default true; false: rejects with `session_busy`. */
  readonly enqueue?: boolean;
  /** Gives waiting up; the turn goes on. */
  readonly signal?: AbortSignal;
}

/** How a turn ended. */
export interface TurnResult {
  readonly turnId: string;
  readonly stopReason: StopReason;
  /** The answer as it was streamed. */
  readonly text: string;
  readonly usage: Usage | undefined;
  /** What failed, for `stopReason: 'error'`. */
  readonly error: string | undefined;
}

/** A turn: iterate its events, or await its result. */
export interface TurnHandle extends AsyncIterable<SessionEvent | EventGap> {
  readonly turnId: string;
  readonly queued: boolean;
  /** Resolves when the turn has ended, however it did. Rejects only when the connection is given up. */
  result(): Promise<TurnResult>;
}

const TERMINAL: ReadonlySet<string> = new Set(['session.completed', 'session.interrupted', 'session.error']);

export class ControlSession {
  readonly id: string;
  readonly #control: ControlClient;

  constructor(control: ControlClient, id: string) {
    this.id = id;
    this.#control = control;
  }

  /** All that is known of the session. */
  state(): Promise<SessionState> {
    return this.#control.rpc.sessionGet({ session_id: this.id });
  }

  /** Its events: those stored after `afterSeq`, then those that happen; without it only the latter. */
  events(options: ReadOptions = {}): AsyncGenerator<SessionEvent | EventGap, void, undefined> {
    return this.#control.feed(this.id).read(options);
  }

  /**
   * Starts a turn, or queues its prompt. Resolves when the server has taken it.
   * Rejects with `session_busy` (only with `enqueue: false`), `empty_prompt`, `over_capacity`, `session_not_found`.
   */
  async prompt(text: string, { images, enqueue = true, signal }: PromptOptions = {}): Promise<TurnHandle> {
    const stop = new AbortController();
    const feed = this.#control.feed(this.id);
    const events = feed.read({ signal: signal === undefined ? stop.signal : AbortSignal.any([signal, stop.signal]) });
    // The first step subscribes, so that no event of the turn is missed.
    const first = events.next();
    try {
      await feed.ready();
      const { rpc } = this.#control;
      const sent = await rpc.sessionSend({ session_id: this.id, text, enqueue, images }, { signal });
      return turnHandle(sent.turn_id, sent.queued, first, events);
    } catch (error) {
      stop.abort();
      first.catch(() => {});
      throw error;
    }
  }

  /** Says something to the running turn; see `outcome` for what became of it. */
  steer(text: string, options: { expectedTurnId?: string; whenLate?: 'report' | 'queue' } = {}): Promise<SteerResult> {
    const { expectedTurnId: expected_turn_id, whenLate: when_late } = options;
    return this.#control.rpc.sessionSteer({ session_id: this.id, text, expected_turn_id, when_late });
  }

  /** Ends the running turn. False: nothing ran, or it is being ended already. */
  async interrupt(turnId?: string): Promise<boolean> {
    return (await this.#control.rpc.sessionInterrupt({ session_id: this.id, turn_id: turnId })).interrupted;
  }

  async queue(): Promise<readonly QueueItem[]> {
    return (await this.#control.rpc.queueList({ session_id: this.id })).queue;
  }

  async clearQueue(): Promise<number> {
    return (await this.#control.rpc.queueClear({ session_id: this.id })).cleared_count;
  }

  /** Its messages, page by page. */
  async *messages(order: 'oldest' | 'newest' = 'oldest'): AsyncGenerator<UiMessage> {
    let cursor: string | undefined;
    do {
      const page = await this.#control.rpc.sessionMessages({ session_id: this.id, cursor, order });
      yield* page.messages;
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }

  /** A new session that starts with this conversation, up to and with `throughTurnId`. */
  async fork(options: { throughTurnId?: string; title?: string } = {}): Promise<ControlSession> {
    const { throughTurnId: through_turn_id, title } = options;
    const { session_id } = await this.#control.rpc.sessionFork({ session_id: this.id, through_turn_id, title });
    return new ControlSession(this.#control, session_id);
  }

  /** Ends its turns and frees it on the server; it can be opened again. */
  async close(): Promise<void> {
    await this.#control.rpc.sessionClose({ session_id: this.id });
  }
}

/** Collects a turn out of the events of its session: once, for the iteration and the result alike. */
function turnHandle(
  turnId: string,
  queued: boolean,
  first: Promise<IteratorResult<SessionEvent | EventGap, void>>,
  events: AsyncGenerator<SessionEvent | EventGap, void, undefined>,
): TurnHandle {
  let text = '';
  let end: TurnResult | undefined;

  /** The next event of this turn; undefined after its last. */
  const next = async (): Promise<SessionEvent | EventGap | undefined> => {
    while (end === undefined) {
      const step = await (first ?? events.next());
      first = undefined as never;
      if (step.done) throw fail('cancelled', 'waiting for the turn was given up');
      const event = step.value;
      if (event.type === 'gap') return event as EventGap;
      const { payload, type } = event as SessionEvent;
      if (payload.turn_id !== turnId) continue;
      if (type === 'session.stream.chunk') text += String((payload.chunk as { answerText?: string }).answerText ?? '');
      if (TERMINAL.has(type)) {
        end = {
          turnId,
          stopReason: payload.stop_reason as StopReason,
          text,
          usage: payload.usage as Usage | undefined,
          error: type === 'session.error' ? String(payload.message) : undefined,
        };
        await events.return();
      }
      return event;
    }
    return undefined;
  };

  let iterating = false;
  let wanted: PromiseWithResolvers<TurnResult> | undefined;
  /** Reads on for those who only want the result; an iteration reads for them too while it lasts. */
  const readOn = async (): Promise<void> => {
    try {
      while (end === undefined) await next();
      wanted?.resolve(end);
    } catch (error) {
      wanted?.reject(error);
    }
  };
  return {
    turnId,
    queued,
    result() {
      if (wanted === undefined) {
        wanted = Promise.withResolvers();
        if (!iterating) void readOn();
      }
      return wanted.promise;
    },
    async *[Symbol.asyncIterator]() {
      iterating = true;
      try {
        for (let event = await next(); event !== undefined; event = await next()) yield event;
      } finally {
        iterating = false;
        if (wanted !== undefined) void readOn();
      }
    },
  };
}
