/**
 * A client of session RPC: one handshake, every method typed, events that survive a lost link.
 *
 * Made by `connectControl` of the front door `control.ts`. Runs in Node and in browsers.
 * @see docs/protocol/session-rpc.md
 */
import type { ArgumentsOf, Params, RpcMethod } from '../protocol/rpc-params.ts';
import type { SessionEvent } from '../protocol/session-events.ts';
import {
  type HandshakeResult,
  handshake,
  sessionRpcMethods as methods,
  SESSION_RPC_VERSION,
} from '../protocol/session-rpc.ts';
import type { SessionSettings, SessionState, SessionSummary } from '../protocol/session-types.ts';
import type { Link } from '../transport/link.ts';
import { asError, fail, type HandfastError } from '../wire/errors.ts';
import { type EventGap, Feed, type ReadOptions } from './feed.ts';
import { type CallOptions, RpcClient } from './rpc-client.ts';
import { ControlSession } from './session.ts';

/** Opens a link to the server; called again for each reconnect. */
export type Dial = (signal: AbortSignal | undefined) => Promise<Link>;

export interface ControlOptions {
  readonly clientName?: string;
  readonly clientVersion?: string;
  readonly token?: string;
  /** Refuse a server of another protocol version (`version_mismatch`). Default false. */
  readonly strict?: boolean;
  /** Time for an answer, in milliseconds, where a call names none. Default 60,000. */
  readonly timeoutMs?: number;
  /** Time for reaching the server and for the handshake. Default 10,000. */
  readonly connectTimeoutMs?: number;
  /** How long to try again after a lost link, in milliseconds. Default 60,000; 0 = not at all. */
  readonly reconnectMs?: number;
  /** What this client is to the sessions it reads; shown to others. Default `driver`. */
  readonly role?: 'driver' | 'observer' | 'approver';
  /** Gives connecting up. */
  readonly signal?: AbortSignal;
  readonly onState?: (state: ControlState, error?: HandfastError) => void;
}

/** `open`: in use · `lost`: being dialled again · `closed`: over. */
export type ControlState = 'open' | 'lost' | 'closed';

type Methods = typeof methods;
type FieldsOf<M> = M extends RpcMethod<infer Fields, unknown> ? Fields : Params;
type ResultOf<M> = M extends RpcMethod<Params, infer Result> ? Result : never;
type NoArguments<Fields extends Params> = Record<never, never> extends ArgumentsOf<Fields> ? true : false;

/** Every method of the protocol as a function: `rpc.sessionSend({ session_id, text })`. */
export type Rpc = {
  readonly [Name in keyof Methods]: NoArguments<FieldsOf<Methods[Name]>> extends true
    ? (args?: ArgumentsOf<FieldsOf<Methods[Name]>>, options?: CallOptions) => Promise<ResultOf<Methods[Name]>>
    : (args: ArgumentsOf<FieldsOf<Methods[Name]>>, options?: CallOptions) => Promise<ResultOf<Methods[Name]>>;
};

/** What a session is opened with. */
export interface CreateOptions extends Omit<SessionSettings, 'thinking' | 'mcpServers'> {
  readonly title?: string;
  readonly cwd?: string;
  readonly thinking?: string;
  readonly mcpServers?: SessionSettings['mcpServers'];
}

const FIRST_RETRY_MS = 50;
const LONGEST_RETRY_MS = 2_000;

/** A connection to a server of sessions. */
export class ControlClient {
  /** Every method of the protocol. */
  readonly rpc: Rpc;
  readonly #dial: Dial;
  readonly #options: ControlOptions;
  readonly #feeds = new Map<string, Feed>();
  #client: RpcClient | undefined;
  #terms: HandshakeResult | undefined;
  #state: ControlState = 'lost';
  #ended: HandfastError | undefined;
  readonly #stop = new AbortController();

  private constructor(dial: Dial, options: ControlOptions) {
    this.#dial = dial;
    this.#options = options;
    this.rpc = Object.fromEntries(
      Object.entries(methods).map(([name, method]) => [
        name,
        (args?: object, call?: CallOptions) => this.call(method.name, args ?? {}, call),
      ]),
    ) as unknown as Rpc;
  }

  /** Dials and shakes hands. Rejects with `unreachable`, `timeout`, `auth_failed`, `version_mismatch`, `cancelled`. */
  static async open(dial: Dial, options: ControlOptions = {}): Promise<ControlClient> {
    const control = new ControlClient(dial, options);
    await control.#connect(options.signal);
    return control;
  }

  get state(): ControlState {
    return this.#state;
  }

  /** What the server said in the newest handshake: version, name, capabilities, methods. */
  get server(): HandshakeResult {
    if (this.#terms === undefined) throw fail('connection_lost', 'there was no handshake yet');
    return this.#terms;
  }

  /** Calls any method by its name on the wire. */
  call(method: string, params: unknown, options: CallOptions = {}): Promise<unknown> {
    if (this.#client === undefined) {
      return Promise.reject(this.#ended ?? fail('connection_lost', 'the link is lost and being dialled again'));
    }
    return this.#client.call(method, params, { timeoutMs: this.#options.timeoutMs, ...options });
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

  /** Opens a session that is there, also one of an earlier run. Rejects with `session_not_found`. */
  async open(sessionId: string): Promise<ControlSession> {
    await this.rpc.sessionResume({ session_id: sessionId });
    return new ControlSession(this, sessionId);
  }

  /** All sessions this client may see, the latest changed first. */
  async *sessions(
    filter: { cwd?: string; query?: string; includeClosed?: boolean } = {},
  ): AsyncGenerator<SessionSummary> {
    let cursor: string | undefined;
    do {
      const { cwd, query, includeClosed: include_closed } = filter;
      const page = await this.rpc.sessionList({ cursor, cwd, query, include_closed });
      yield* page.sessions;
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }

  /** Events of the server (`state.changed`, `auth.flow.*`), or with `sessionId` of a session. */
  events({
    sessionId = '',
    ...options
  }: ReadOptions & { readonly sessionId?: string } = {}): AsyncGenerator<SessionEvent | EventGap, void, undefined> {
    return this.feed(sessionId).read(options);
  }

  /** The events of a session (`''`: of the server), shared by its readers. */
  feed(sessionId: string): Feed {
    let feed = this.#feeds.get(sessionId);
    if (feed === undefined) {
      const session_id = sessionId === '' ? undefined : sessionId;
      const role = this.#options.role ?? 'driver';
      feed = new Feed({
        subscribe: (after_seq, onAnswer) =>
          this.call(methods.eventsSubscribe.name, { session_id, after_seq, role }, { onResult: onAnswer as never }),
        unsubscribe: (subscription_id) => this.rpc.eventsUnsubscribe({ subscription_id }),
      });
      this.#feeds.set(sessionId, feed);
      if (this.#ended !== undefined) feed.fail(this.#ended);
    }
    return feed;
  }

  /** Ends the connection; sessions go on without it. Idempotent. */
  async close(): Promise<void> {
    const client = this.#client;
    this.#end(undefined);
    await client?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #connect(signal: AbortSignal | undefined): Promise<void> {
    const link = await this.#dial(signal);
    const client = new RpcClient(link, {
      notification: (method, params) => this.#notified(method, params),
      closed: (error) => this.#lost(client, error),
    });
    const { clientName, clientVersion, token, strict, connectTimeoutMs = 10_000 } = this.#options;
    try {
      this.#terms = (await client.call(
        handshake.name,
        {
          protocol_version: SESSION_RPC_VERSION,
          strict: strict ?? false,
          client_name: clientName ?? 'handfast-client',
          client_version: clientVersion,
          token,
          events: false,
        },
        { timeoutMs: connectTimeoutMs, signal },
      )) as HandshakeResult;
    } catch (error) {
      await client.close();
      throw error;
    }
    this.#client = client;
    this.#state = 'open';
    this.#options.onState?.('open');
    for (const feed of this.#feeds.values()) feed.reconnected();
  }

  #notified(method: string, params: unknown): void {
    if (method !== 'event' || typeof params !== 'object' || params === null) return;
    const event = params as SessionEvent;
    const { session_id } = (event.payload ?? {}) as { session_id?: unknown };
    // `state.changed` of a new session names it, and yet is an event of the server.
    const server = event.type === 'state.changed' || event.type.startsWith('auth.');
    const feed = this.#feeds.get(!server && typeof session_id === 'string' ? session_id : '');
    feed?.take(event);
  }

  #lost(client: RpcClient, error: HandfastError): void {
    if (this.#state !== 'open' || this.#client !== client) return;
    this.#client = undefined;
    const { reconnectMs = 60_000 } = this.#options;
    if (reconnectMs === 0) return this.#end(error);
    this.#state = 'lost';
    this.#options.onState?.('lost', error);
    void this.#reconnect(error, performance.now() + reconnectMs);
  }

  async #reconnect(lost: HandfastError, until: number): Promise<void> {
    const { signal } = this.#stop;
    for (let delay = FIRST_RETRY_MS; this.#state === 'lost'; delay = Math.min(delay * 2, LONGEST_RETRY_MS)) {
      try {
        return await this.#connect(signal);
      } catch (thrown) {
        const error = asError(thrown);
        if (!error.retryable || performance.now() + delay > until) return this.#end(error.retryable ? lost : error);
      }
      await pause(delay * (0.5 + Math.random() / 2), signal);
    }
  }

  /** Settles everything. `error` is undefined when this side wanted it. */
  #end(error: HandfastError | undefined): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#ended = error ?? fail('connection_lost', 'the client was closed');
    this.#client = undefined;
    this.#stop.abort();
    for (const feed of this.#feeds.values()) feed.fail(this.#ended);
    this.#options.onState?.('closed', error);
  }
}

/** Waits; ends early and quietly when aborted. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done);
  });
}

export type { SessionState };
