/**
 * A client of session RPC: one handshake, every method typed, events that survive a lost link.
 *
 * Runs in Node and in browsers.
 * @see docs/protocol/session-rpc.md
 */
import { orAborted, withTimeout } from '../base/race.ts';
import {
  type ConnectionState,
  type Gap,
  type Opened,
  Reconnect,
  type ReconnectSettings,
  type StateChange,
} from '../connection/reconnect.ts';
import { readToken, refusedToken, type Token } from '../connection/token.ts';
import type { ParamsOf, ResultOf } from '../protocol/rpc-reader.ts';
import {
  type HandshakeResult,
  handshake,
  sessionRpcMethods as methods,
  ping,
  SESSION_RPC_VERSION,
} from '../protocol/session-rpc.ts';
import type { SessionSettings, SessionSummary } from '../protocol/session-types.ts';
import type { Link } from '../transport/link.ts';
import { asError, fail, type HandfastError } from '../wire/errors.ts';
import type { ControlEvent } from './control-event.ts';
import type { EventReader } from './event-reader.ts';
import { Feed, type ReadOptions } from './feed.ts';
import { isPlain, PlainServer } from './plain-server.ts';
import { type CallOptions, DEFAULT_TIMEOUT_MS, reasonOf, ServerConnection } from './server-connection.ts';
import { ControlSession, type Rpc } from './session.ts';

/** Opens a link to the server; called again for each reconnect. */
export type Dial = (signal: AbortSignal | undefined) => Promise<Link>;

export interface ControlOptions {
  readonly clientName?: string;
  readonly clientVersion?: string;
  /** Sent with each handshake; a function is called again for each link. Default: none is sent. */
  readonly token?: Token;
  /** Refuse a server of another protocol version (`version_mismatch`). Default false. */
  readonly strict?: boolean;
  /** Time for an answer, in milliseconds, where a call names none. Default 60,000. */
  readonly timeoutMs?: number;
  /** Time for reaching the server and for the handshake. Default 10,000. */
  readonly connectTimeoutMs?: number;
  /**
   * Delays, bound and liveness of reconnecting; `maxMs` is 60,000 by default. Calls that were under way when the link was lost
   * reject with `connection_lost`: they may have been carried out. Prompts are sent again instead. Calls made meanwhile wait,
   * within their time.
   */
  readonly reconnect?: ReconnectSettings;
  /** Role of this client in the sessions it reads; shown to others. Default `driver`. */
  readonly role?: 'driver' | 'observer' | 'approver';
  /** Cancels connecting; has no effect once it is connected. */
  readonly signal?: AbortSignal;
  /** Called for every change of the connection: opened, lost, resumed, closed. */
  readonly onState?: (change: StateChange) => void;
  /** Called when the server no longer has events that a reader wanted; the reader is given the same as an item. */
  readonly onGap?: (gap: Gap & { readonly sessionId: string }) => void;
}

/** A handshake that succeeded. */
interface OpenedClient {
  readonly client: ServerConnection;
  readonly terms: HandshakeResult;
}

/** Options of a new session. */
export interface CreateOptions extends Omit<SessionSettings, 'thinking' | 'mcpServers'> {
  readonly title?: string;
  readonly cwd?: string;
  readonly thinking?: string;
  readonly mcpServers?: SessionSettings['mcpServers'];
}

/** Sessions of one page of a list. */
const LISTED = 500;

/** A connection to a server of sessions. */
export class ControlClient {
  /** Every method of the protocol. */
  readonly rpc: Rpc;
  readonly #dial: Dial;
  readonly #options: ControlOptions;
  readonly #feeds = new Map<string, Feed>();
  #client: ServerConnection | undefined;
  #terms: HandshakeResult | undefined;
  /** Set for a server that has no more than the methods of 1.0.0. */
  #plain: PlainServer | undefined;
  #ended: HandfastError | undefined;
  /** Read before dialling, so that it takes nothing of the time for the handshake. */
  #token: string | undefined;
  readonly #link: Reconnect<OpenedClient>;

  private constructor(dial: Dial, options: ControlOptions) {
    this.#dial = dial;
    this.#options = options;
    const { reconnect, onState } = options;
    this.#link = new Reconnect(
      {
        dial: async (signal) => {
          this.#token = await readToken(options.token);
          return this.#dial(signal);
        },
        handshake: (link, signal) => this.#performHandshake(link, signal),
        open: (greeting) => this.#open(greeting),
        discard: ({ client }) => void client.close(),
        verdict: ({ retryable }) => (retryable ? 'retry' : 'stop'),
        ended: (error) => this.#settle(error),
        ...(onState !== undefined && { onState }),
      },
      { ...reconnect, boundMs: () => reconnect?.maxMs ?? 60_000 },
    );
    this.rpc = Object.fromEntries(
      Object.entries(methods).map(([name, method]) => [
        name,
        (args?: object, call?: CallOptions) => this.call(method.name, args ?? {}, call),
      ]),
    ) as unknown as Rpc;
  }

  /**
   * Dials and performs the handshake; programs use `connect`. Rejects with `unreachable`, `timeout`, `auth_failed`,
   * `version_mismatch`, `cancelled`.
   * @internal
   */
  static async open(dial: Dial, options: ControlOptions = {}): Promise<ControlClient> {
    const control = new ControlClient(dial, options);
    await control.#link.connect(options.signal);
    return control;
  }

  get state(): ConnectionState {
    return this.#link.state;
  }

  /** Resolves at the end: with the error that caused it, or undefined after {@link close}. */
  get closed(): Promise<HandfastError | undefined> {
    return this.#link.closed;
  }

  /** The server's part of the newest handshake: version, name, capabilities, methods. */
  get server(): HandshakeResult {
    if (this.#terms === undefined) throw fail('connection_lost', 'the handshake has not completed yet');
    return this.#terms;
  }

  /**
   * Calls any method by its name on the wire. Rejects with the server's error, `connection_lost`, `timeout` or `cancelled`.
   */
  async call(method: string, params: unknown, options: CallOptions = {}): Promise<unknown> {
    const { timeoutMs = this.#options.timeoutMs ?? DEFAULT_TIMEOUT_MS, signal } = options;
    const until = timeoutMs === 0 ? Number.POSITIVE_INFINITY : performance.now() + timeoutMs;
    // A call that was not sent yet cannot happen twice: it waits for the link.
    while (this.state === 'lost') {
      await this.#untilSettled(until, signal, () =>
        fail('timeout', `${method} was not sent within ${timeoutMs} ms: the connection is lost; reconnecting`),
      );
    }
    const leftMs = timeoutMs === 0 ? 0 : Math.max(1, until - performance.now());
    return this.#callNow(method, params, { ...options, timeoutMs: Math.round(leftMs) });
  }

  /** Calls a method, and rejects at once where the link is lost. */
  #callNow(method: string, params: unknown, options: CallOptions): Promise<unknown> {
    if (this.#client !== undefined) return (this.#plain ?? this.#client).call(method, params, options);
    return Promise.reject(this.#ended ?? fail('connection_lost', 'the connection is lost; reconnecting'));
  }

  /**
   * Sends a prompt. If the link is lost before the reply, it is sent again over the next link; a server that knows prompts by
   * their key starts one turn for both. For other servers it rejects with `connection_lost`: the prompt may have been accepted.
   */
  async send(
    params: ParamsOf<typeof methods.sessionSend>,
    options: CallOptions = {},
  ): Promise<ResultOf<typeof methods.sessionSend>> {
    const { timeoutMs = this.#options.timeoutMs ?? DEFAULT_TIMEOUT_MS, signal } = options;
    const until = timeoutMs === 0 ? Number.POSITIVE_INFINITY : performance.now() + timeoutMs;
    const sending = { idempotency_key: randomKey(), ...params };
    for (;;) {
      try {
        return await this.rpc.sessionSend(sending, options);
      } catch (thrown) {
        if (asError(thrown).code !== 'connection_lost' || this.state !== 'lost' || !this.#knowsKeys) throw thrown;
        await this.#untilSettled(until, signal, () => asError(thrown));
        // The server reached over the new link may be another one.
        if (!this.#knowsKeys) throw thrown;
      }
    }
  }

  /** Waits while the link is lost, until a time of `performance.now` and as long as the signal allows. */
  #untilSettled(until: number, signal: AbortSignal | undefined, late: () => HandfastError): Promise<void> {
    return orAborted(withTimeout(this.#link.settled, until - performance.now(), late), signal, reasonOf);
  }

  get #knowsKeys(): boolean {
    return this.#terms?.capabilities.idempotent_send === true;
  }

  /** Opens a new session. */
  async create(options: CreateOptions = {}): Promise<ControlSession> {
    const { title, cwd, model, provider, thinking, backend, approvals, parallelTools, maxRounds, turnTimeoutMs } =
      options;
    const { session_id } = await this.rpc.sessionCreate({
      title,
      cwd,
      model,
      provider,
      thinking_level: thinking,
      backend,
      approvals,
      parallel_tools: parallelTools,
      max_rounds: maxRounds,
      turn_timeout_ms: turnTimeoutMs,
      mcp_servers: options.mcpServers,
    });
    return new ControlSession(this, session_id);
  }

  /** Opens an existing session, also one of an earlier run. Rejects with `session_not_found`. */
  async open(sessionId: string): Promise<ControlSession> {
    // A saved chat of a plain server becomes a new session.
    const { session_id } = await this.rpc.sessionResume({ session_id: sessionId, messages: 0 });
    return new ControlSession(this, session_id);
  }

  /** Yields all sessions this client may see, the latest changed first. */
  async *sessions(
    filter: { cwd?: string; query?: string; includeClosed?: boolean } = {},
  ): AsyncGenerator<SessionSummary> {
    let cursor: string | undefined;
    do {
      const { cwd, query, includeClosed: include_closed } = filter;
      const page = await this.rpc.sessionList({ cursor, cwd, query, include_closed, limit: LISTED });
      yield* page.sessions;
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }

  /** Returns events of the server (`state.changed`, `auth.flow.*`), or with `sessionId` of a session. */
  events({ sessionId = '', ...options }: ReadOptions & { readonly sessionId?: string } = {}): EventReader {
    return this.feed(sessionId).read(options);
  }

  /**
   * Returns the events of a session (`''`: of the server), shared by its readers.
   * @internal
   */
  feed(sessionId: string): Feed {
    let feed = this.#feeds.get(sessionId);
    if (feed === undefined) {
      const session_id = sessionId === '' ? undefined : sessionId;
      const { role = 'driver', timeoutMs } = this.#options;
      feed = new Feed({
        subscribe: (after_seq, onAnswer) =>
          this.#callNow(
            methods.eventsSubscribe.name,
            { session_id, after_seq, role },
            { timeoutMs, onResult: onAnswer as (result: unknown) => void },
          ),
        unsubscribe: (subscription_id) =>
          this.#callNow(methods.eventsUnsubscribe.name, { subscription_id }, { timeoutMs }),
        gap: (gap) => this.#options.onGap?.({ ...gap, sessionId }),
        unused: () => {
          if (this.#feeds.get(sessionId) === feed) this.#feeds.delete(sessionId);
        },
      });
      this.#feeds.set(sessionId, feed);
      if (this.#ended !== undefined) feed.fail(this.#ended);
    }
    return feed;
  }

  /** Ends the connection; sessions continue without it. Nothing is pending or open after it. Idempotent. */
  async close(): Promise<void> {
    const client = this.#client;
    await Promise.all([this.#link.close(), client?.close()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #performHandshake(link: Link, signal: AbortSignal): Promise<OpenedClient> {
    const client: ServerConnection = new ServerConnection(link, {
      notification: (method, params, chars) => this.#notified(method, params, chars),
      closed: (error) => this.#client === client && this.#lost(error),
    });
    const { clientName, clientVersion, strict, connectTimeoutMs = 10_000 } = this.#options;
    try {
      const terms = (await client.call(
        handshake.name,
        {
          protocol_version: SESSION_RPC_VERSION,
          strict: strict ?? false,
          client_name: clientName ?? 'handfast-client',
          client_version: clientVersion,
          token: this.#token,
          events: false,
          answers_pings: true,
        },
        { timeoutMs: connectTimeoutMs, signal },
      )) as HandshakeResult;
      return { client, terms };
    } catch (thrown) {
      const error = asError(thrown);
      // A server that does not reply need not be waited for once more.
      if (error.code === 'timeout' || error.code === 'cancelled') client.destroy(error.message);
      else await client.close();
      if (error.code === 'auth_failed') throw fail('auth_failed', refusedToken(this.#token), error.detail, error);
      throw error;
    }
  }

  #open({ client, terms }: OpenedClient): Opened {
    const resumed = this.#terms !== undefined;
    this.#terms = terms;
    this.#client = client;
    if (!isPlain(terms)) this.#plain = undefined;
    else if (this.#plain !== undefined) this.#plain.reconnected(terms);
    else this.#plain = this.#plainServer(terms);
    // It may have ended right behind the reply.
    if (client.lost !== undefined) this.#lost(client.lost);
    else for (const feed of [...this.#feeds.values()]) feed.reconnected();
    return { resumed, ping: () => client.call(ping.name, {}).catch(() => {}) };
  }

  #plainServer(terms: HandshakeResult): PlainServer {
    return new PlainServer(terms, {
      call: (method, params, options) =>
        this.#client?.call(method, params, options) ??
        Promise.reject(fail('connection_lost', 'the connection is lost; reconnecting')),
      deliver: (event, chars) => this.#event(event, chars),
    });
  }

  /** Answers a server that asks whether this client is still there with a ping in return. */
  #answerPing(): void {
    this.#client?.call(ping.name, {}).catch(() => {});
  }

  #notified(method: string, params: unknown, chars: number): void {
    if (method === ping.name) return this.#answerPing();
    if (method !== 'event' || typeof params !== 'object' || params === null) return;
    if (this.#plain !== undefined) this.#plain.event(params as Readonly<Record<string, unknown>>, chars);
    else this.#event(params as ControlEvent, chars);
  }

  #event(event: ControlEvent, chars: number): void {
    const { session_id, ...facts } = (event.payload ?? {}) as Readonly<Record<string, unknown>>;
    // `state.changed` of a new session names it, and yet is an event of the server.
    const isServers = event.type === 'state.changed' || String(event.type).startsWith('auth.');
    const feed = this.#feeds.get(!isServers && typeof session_id === 'string' ? session_id : '');
    const type: string = event.type;
    // Events about the subscription itself: see `ConnectionEventPayloads`.
    if (type === 'events.gap') feed?.gap(Number(facts.from_seq), Number(facts.to_seq));
    else if (type === 'events.ended') feed?.ended(facts.subscription_id, String(facts.kind), String(facts.message));
    else if (typeof event.seq === 'number') feed?.take(event, chars);
  }

  #lost(error: HandfastError): void {
    this.#client = undefined;
    this.#link.lost(error);
  }

  /** Settles everything. `error` is undefined when this side closed the connection. */
  #settle(error: HandfastError | undefined): void {
    this.#ended = error ?? fail('connection_lost', 'the client was closed');
    this.#client = undefined;
    for (const feed of [...this.#feeds.values()]) feed.fail(this.#ended);
  }
}

/** Returns 128 random bits. Not `randomUUID`, which pages of other machines do not have. */
function randomKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
