/**
 * A server with the 29 methods of plain 1.0.0 alone, made to look like one with the additions that this client uses: calls of
 * methods that it lacks are made of those it has, and its events get numbers, turn ids and stop reasons.
 *
 * For a server whose handshake does not list `events.subscribe`. Keeps the rule that nothing is ignored in silence: a setting
 * that the server has no place for is refused. Runs in browsers too.
 * @see docs/protocol/session-rpc.md#servers-without-the-additions
 */
import { folded } from '../base/fold-text.ts';
import type { ResultOf } from '../protocol/rpc-reader.ts';
import {
  type HandshakeResult,
  type HistoryListResult,
  sessionRpcMethods as methods,
  type SteerResult,
} from '../protocol/session-rpc.ts';
import {
  NO_USAGE,
  type SavedChat,
  type SessionState,
  type SessionSummary,
  type Snapshot,
} from '../protocol/session-types.ts';
import { asError, type ErrorName, fail, HandfastError } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import type { ControlEvent } from './control-event.ts';
import { PlainTurns } from './plain-turns.ts';
import type { CallOptions } from './server-connection.ts';

export interface PlainServerDeps {
  /** Calls a method of the server itself. */
  readonly call: (method: string, params: object, options?: CallOptions) => Promise<unknown>;
  /** Receives each event as a server with the additions sends it; `chars`: its length on the wire. */
  readonly deliver: (event: ControlEvent, chars: number) => void;
}

/** A session in 1.0.0: the additions are left out. */
type PlainState = Omit<
  SessionState,
  'title' | 'cwd' | 'backend' | 'turnId' | 'seq' | 'closed' | 'settings' | 'usage' | 'approvals'
>;

type Params = Readonly<Record<string, unknown>>;
type Replacement = (params: Params, options: CallOptions) => Promise<unknown>;

/** Saved chats of one page of the list. */
const PAGE = 100;

/** Settings of `session.create` that this client may set, and a plain server has no place for. */
const SETTINGS = [
  'cwd',
  'model',
  'provider',
  'thinking_level',
  'backend',
  'approvals',
  'max_rounds',
  'turn_timeout_ms',
];

/** Failures that plain servers name only in their message: all of them have one code. */
const MEANINGS: readonly (readonly [RegExp, ErrorName])[] = [
  [/^unknown session: /, 'session_not_found'],
  [/^session is busy; /, 'session_busy'],
  [/^session\.send requires /, 'empty_prompt'],
  [/^no saved chat /, 'not_found'],
];

/** True for a server that does not offer the additions to 1.0.0 which this client relies on. */
export const isPlain = ({ methods: offered = [] }: HandshakeResult): boolean =>
  offered.length > 0 && !offered.includes(methods.eventsSubscribe.name);

export class PlainServer {
  #terms: HandshakeResult;
  readonly #deps: PlainServerDeps;
  readonly #turns = new PlainTurns();
  /** Number of events received: the sequence number of the newest. One count for all sessions. */
  #seq = 0;
  readonly #replacements: Readonly<Record<string, Replacement>>;
  /** The server's own methods whose parameters or results differ from those of this client. */
  readonly #adapted: Readonly<Record<string, Replacement>>;

  constructor(terms: HandshakeResult, deps: PlainServerDeps) {
    this.#terms = terms;
    this.#deps = deps;
    this.#replacements = {
      [methods.eventsUnsubscribe.name]: async () => ({ removed: true }),
      [methods.sessionResume.name]: ({ session_id }, options) => this.#resume(String(session_id), options),
      [methods.sessionList.name]: (params, options) => this.#list(params, options),
      [methods.sessionMessages.name]: async ({ session_id, order }, options) => {
        const { messages } = await this.#get(String(session_id), options);
        const all = order === 'newest' ? messages.toReversed() : messages;
        return { session_id, messages: all, next_cursor: null, total: all.length };
      },
      // A plain server cannot close a session before the server itself ends: the running turn is interrupted.
      [methods.sessionClose.name]: async ({ session_id }, options) => {
        await this.#own(methods.sessionInterrupt.name, { session_id }, options);
        return { session_id, closed: true };
      },
    };
    this.#adapted = {
      [methods.sessionCreate.name]: (params, options) => this.#create(params, options),
      [methods.sessionGet.name]: ({ session_id }, options) => this.#get(String(session_id), options),
      [methods.sessionSend.name]: ({ idempotency_key: _, ...params }, options) =>
        this.#own(methods.sessionSend.name, params, options),
      [methods.sessionSteer.name]: (params, options) => this.#steer(params, options),
      [methods.sessionInterrupt.name]: ({ session_id, turn_id }, options) =>
        turn_id !== undefined && turn_id !== this.#turns.running(String(session_id))
          ? Promise.resolve({ session_id, interrupted: false })
          : this.#own(methods.sessionInterrupt.name, { session_id }, options),
      [methods.queueClear.name]: (params, options) => this.#clear(methods.queueClear.name, params, options),
      [methods.historyClear.name]: (params, options) => this.#clear(methods.historyClear.name, params, options),
    };
  }

  /** Calls a method as this client knows it. Rejects with `unknown_type` for one that cannot be had from this server. */
  call(method: string, params: unknown, options: CallOptions = {}): Promise<unknown> {
    const given = isObject(params) ? params : {};
    if (method === methods.eventsSubscribe.name) return this.#subscribe(given, options);
    const { methods: offered, server_name } = this.#terms;
    const own = offered.includes(method);
    const instead = own ? this.#adapted[method] : this.#replacements[method];
    if (instead !== undefined) return instead(given, options);
    if (own) return this.#own(method, given, options);
    const message = `the server ${JSON.stringify(server_name)} does not offer ${method}, an addition to session RPC 1.0.0`;
    return Promise.reject(fail('unknown_type', message, { method }));
  }

  /** Receives an event of the server. */
  event(params: Params, chars: number): void {
    for (const event of this.#turns.event(params)) this.#deliver(event, chars);
  }

  /** Notes that the link was replaced: events in between are lost, and their number is not known. */
  reconnected(terms: HandshakeResult): void {
    this.#terms = terms;
    this.#seq++;
  }

  #deliver(event: Params, chars: number): void {
    this.#seq++;
    this.#deps.deliver({ ...event, seq: this.#seq } as unknown as ControlEvent, chars);
  }

  /** Calls the server's own method; its failures get the codes that their texts stand for. */
  async #own(method: string, params: object, options: CallOptions): Promise<unknown> {
    try {
      return await this.#deps.call(method, params, options);
    } catch (thrown) {
      const error = asError(thrown);
      const [, code] = MEANINGS.find(([text]) => text.test(error.message)) ?? [];
      if (code === undefined) throw thrown;
      throw new HandfastError(code, error.message, { detail: error.detail, cause: error });
    }
  }

  /** Answers a subscription: the server sends events without one. Events from before cannot be had: they are a gap. */
  #subscribe({ session_id = null, after_seq }: Params, { onResult }: CallOptions): Promise<unknown> {
    const last_seq = this.#seq;
    const after = typeof after_seq === 'number' ? Math.min(after_seq, last_seq) : last_seq;
    const gap = after < last_seq ? { from_seq: after + 1, to_seq: last_seq } : null;
    const result = { subscription_id: `plain-${session_id}`, session_id, after_seq: after, last_seq, gap };
    // In the same step: an event behind it must not be missed.
    onResult?.(result);
    return Promise.resolve(result);
  }

  async #create(params: Params, options: CallOptions): Promise<unknown> {
    const refused = SETTINGS.filter((name) => params[name] !== undefined);
    const servers = Array.isArray(params.mcp_servers) && params.mcp_servers.length > 0 ? ['mcp_servers'] : [];
    const [first] = [...refused, ...servers];
    if (first !== undefined) {
      const name = JSON.stringify(this.#terms.server_name);
      throw fail(
        'capability_missing',
        `sessions of the server ${name} have no setting ${first}: it speaks session RPC 1.0.0 without additions; leave it out`,
        { setting: first },
      );
    }
    const { title } = params;
    const made = (await this.#own(methods.sessionCreate.name, { title }, options)) as ResultOf<
      typeof methods.sessionCreate
    >;
    return { ...made, state: this.#completed(made.state) };
  }

  async #get(session_id: string, options: CallOptions): Promise<SessionState> {
    return this.#completed((await this.#own(methods.sessionGet.name, { session_id }, options)) as PlainState);
  }

  /** Adds the members that 1.0.0 does not have. */
  #completed({ id, messages, ...state }: PlainState): SessionState {
    return {
      id,
      messages,
      title: titleOf(messages.find(({ kind }) => kind === 'user')?.text ?? ''),
      cwd: '',
      backend: this.#terms.server_name,
      turnId: this.#turns.running(id) ?? null,
      seq: this.#seq,
      closed: false,
      settings: {},
      usage: NO_USAGE,
      approvals: [],
      ...state,
    };
  }

  /** Opens a live session, else a saved chat in a new session. Fails with `session_not_found`. */
  async #resume(session_id: string, options: CallOptions): Promise<unknown> {
    try {
      return { session_id, state: await this.#get(session_id, options) };
    } catch (thrown) {
      if (asError(thrown).code !== 'session_not_found') throw thrown;
    }
    const chat = (await this.#own(methods.historyGet.name, { id: session_id }, options).catch((thrown) => {
      if (asError(thrown).code !== 'not_found') throw thrown;
    })) as SavedChat | undefined;
    // The server also finds a chat by the first characters of its id.
    if (chat?.id !== session_id) throw fail('session_not_found', `unknown session: ${session_id}`, { session_id });
    const { session_id: opened } = (await this.#own(methods.sessionCreate.name, {}, options)) as { session_id: string };
    const command = { session_id: opened, raw_command: `/history ${chat.id}` };
    await this.#own(methods.commandExecute.name, command, options);
    return { session_id: opened, state: await this.#get(opened, options) };
  }

  /** Lists live sessions, then the saved chats that none of them writes to. The cursor is an offset in the saved chats. */
  async #list({ cursor, query }: Params, options: CallOptions): Promise<unknown> {
    const offset = Number(cursor ?? 0);
    const snapshot = (await this.#own(methods.stateGet.name, {}, options)) as Snapshot;
    const live = await Promise.all(snapshot.sessions.ids.map((id) => this.#get(id, options)));
    const page = (await this.#own(
      methods.historyList.name,
      { limit: PAGE, cursor: offset },
      options,
    )) as HistoryListResult;
    const written = new Set(live.map(({ activeSessionId }) => activeSessionId));
    const rows = [
      ...(offset === 0 ? live.map((state) => this.#row(state)) : []),
      ...page.sessions.filter(({ id }) => !written.has(id)).map((chat) => this.#savedRow(chat)),
    ];
    const wanted = typeof query === 'string' ? folded(query) : '';
    return {
      sessions: rows.filter(({ title }) => folded(title).includes(wanted)),
      // The server reports no next cursor although it has more sessions: a page that is not full is the last one.
      next_cursor: page.sessions.length < PAGE ? null : String(offset + PAGE),
      total: rows.length,
    };
  }

  #row(state: SessionState): SessionSummary {
    return {
      ...this.#emptyRow,
      session_id: state.id,
      title: state.title,
      created_at: state.createdAt,
      updated_at: state.updatedAt,
      message_count: state.messages.length,
      pending: state.pending,
      queue_length: state.queue.length,
      seq: this.#seq,
    };
  }

  #savedRow({ id, title, createdAt, updatedAt, messageCount }: SavedChat): SessionSummary {
    const times = { created_at: createdAt, updated_at: updatedAt };
    return { ...this.#emptyRow, session_id: id, title, ...times, message_count: messageCount };
  }

  get #emptyRow() {
    return {
      owner: 'local',
      cwd: '',
      backend: this.#terms.server_name,
      pending: false,
      closed: false,
      queue_length: 0,
      approvals_pending: 0,
      parent_session_id: null,
      seq: 0,
    };
  }

  async #steer({ session_id, text, expected_turn_id }: Params, options: CallOptions): Promise<SteerResult> {
    const running = this.#turns.running(String(session_id)) ?? null;
    const id = String(session_id);
    const isOther = expected_turn_id !== undefined && expected_turn_id !== running;
    const { accepted } = isOther
      ? { accepted: false }
      : ((await this.#own(methods.sessionSteer.name, { session_id, text }, options)) as { accepted: boolean });
    return {
      session_id: id,
      accepted,
      outcome: accepted ? 'injected' : 'rejected',
      turn_id: accepted ? running : null,
    };
  }

  /** Drops the queue. The server sends no event about the dropped prompts, and their senders wait for one. */
  async #clear(method: string, { session_id }: Params, options: CallOptions): Promise<unknown> {
    const { queue } = (await this.#own(methods.queueList.name, { session_id }, options)) as ResultOf<
      typeof methods.queueList
    >;
    const result = await this.#own(method, { session_id }, options);
    for (const { id: turn_id } of queue) {
      if (turn_id === this.#turns.running(String(session_id))) continue;
      const payload = { session_id, turn_id, partial_output: false, stop_reason: 'cleared', usage: NO_USAGE };
      this.#deliver({ type: 'session.interrupted', timestamp: new Date().toISOString(), payload }, 0);
    }
    return result;
  }
}

/** Returns a prompt as a title: its first 80 characters on one line. */
const titleOf = (prompt: string): string => prompt.replaceAll(/\s+/g, ' ').trim().slice(0, 80);
