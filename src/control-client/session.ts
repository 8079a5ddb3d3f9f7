/** One session as a client handles it: prompts and their turns, steering, the queue, its events. */
import type { ParamsOf, ResultOf } from '../protocol/rpc-reader.ts';
import type { SteerResult, sessionRpcMethods } from '../protocol/session-rpc.ts';
import type { ImageReference, QueueItem, SessionState, UiMessage } from '../protocol/session-types.ts';
import type { EventReader } from './event-reader.ts';
import type { Feed, ReadOptions } from './feed.ts';
import type { CallOptions } from './server-connection.ts';
import { TurnHandle } from './turn.ts';

/** Every method of the protocol as a function: `rpc.sessionSend({ session_id, text })`. */
export type Rpc = {
  readonly [Name in keyof typeof sessionRpcMethods]: Record<never, never> extends ParamsOf<
    (typeof sessionRpcMethods)[Name]
  >
    ? (
        args?: ParamsOf<(typeof sessionRpcMethods)[Name]>,
        options?: CallOptions,
      ) => Promise<ResultOf<(typeof sessionRpcMethods)[Name]>>
    : (
        args: ParamsOf<(typeof sessionRpcMethods)[Name]>,
        options?: CallOptions,
      ) => Promise<ResultOf<(typeof sessionRpcMethods)[Name]>>;
};

/** Methods that a session needs of the client that opened it. */
interface SessionClient {
  readonly rpc: Rpc;
  /** Returns the events of a session, shared by its readers. */
  feed(sessionId: string): Feed;
  /** Sends a prompt, again over the next link where the server recognises it by its key. */
  send(
    params: ParamsOf<(typeof sessionRpcMethods)['sessionSend']>,
    options: CallOptions,
  ): Promise<ResultOf<(typeof sessionRpcMethods)['sessionSend']>>;
}

export interface PromptOptions {
  readonly images?: readonly (Partial<ImageReference> & { readonly path?: string })[];
  /** Wait in the queue while another turn runs. Default true; false: rejects with `session_busy`. */
  readonly enqueue?: boolean;
  /** Cancels waiting; the turn continues. */
  readonly signal?: AbortSignal;
}

export class ControlSession {
  readonly id: string;
  readonly #control: SessionClient;

  /** @internal */
  constructor(control: SessionClient, id: string) {
    this.id = id;
    this.#control = control;
  }

  /**
   * Returns the state of the session: whole, or with `messages` at most this number of the newest messages and no history,
   * which stays small. Rejects with `too_large` for a long session that is read whole.
   */
  state({ messages }: { readonly messages?: number } = {}): Promise<SessionState> {
    return this.#control.rpc.sessionGet({ session_id: this.id, messages });
  }

  /** Returns its events: the stored ones after `afterSeq`, then new ones; without it only new ones. */
  events(options: ReadOptions = {}): EventReader {
    return this.#control.feed(this.id).read(options);
  }

  /**
   * Starts a turn, or queues its prompt. Resolves when the server has accepted it.
   * Rejects with `session_busy` (only with `enqueue: false`), `empty_prompt`, `over_capacity`, `session_not_found`; with
   * `connection_lost` when the link is lost for good, or the server knows no keys: it may have been accepted all the same.
   */
  async prompt(text: string, { images, enqueue = true, signal }: PromptOptions = {}): Promise<TurnHandle> {
    // Subscribed first, so that no event of the turn is missed.
    const events = this.events({ signal });
    try {
      await events.started();
      const sending = { session_id: this.id, text, enqueue, images };
      const { turn_id, queued } = await this.#control.send(sending, { signal });
      return new TurnHandle(turn_id, queued, events, (id) => this.#find(id));
    } catch (error) {
      events.end();
      throw error;
    }
  }

  /** Returns the server's state of a turn. */
  async #find(turnId: string): Promise<'open' | 'ended' | 'unknown'> {
    // The queue first: its prompts become turns, never the other way round.
    if ((await this.queue()).some(({ id }) => id === turnId)) return 'open';
    let cursor: string | undefined;
    do {
      const page = await this.#control.rpc.sessionTurns({ session_id: this.id, cursor });
      const row = page.turns.find(({ turn_id }) => turn_id === turnId);
      if (row !== undefined) return row.ended_at === null ? 'open' : 'ended';
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
    return 'unknown';
  }

  /** Sends input to the running turn; `outcome` says whether the turn used it. */
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

  /** Yields its messages, page by page. */
  async *messages(order: 'oldest' | 'newest' = 'oldest'): AsyncGenerator<UiMessage> {
    let cursor: string | undefined;
    do {
      const page = await this.#control.rpc.sessionMessages({ session_id: this.id, cursor, order });
      yield* page.messages;
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }

  /** Makes a new session that starts with this conversation, up to and with `throughTurnId`. */
  async fork(options: { throughTurnId?: string; title?: string } = {}): Promise<ControlSession> {
    const { throughTurnId: through_turn_id, title } = options;
    const { session_id } = await this.#control.rpc.sessionFork({
      session_id: this.id,
      through_turn_id,
      title,
      messages: 0,
    });
    return new ControlSession(this.#control, session_id);
  }

  /** Ends its turns and frees it on the server; it can be opened again. */
  async close(): Promise<void> {
    await this.#control.rpc.sessionClose({ session_id: this.id });
  }
}
