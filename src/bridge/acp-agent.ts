/**
 * Handfast's sessions for editors that speak the Agent Client Protocol: Handfast is the agent, and drives a server of
 * sessions through its client, whether that server is in this process or another.
 *
 * An editor has any number of sessions open; it also gets the events of other clients in them.
 * @see docs/acp.md
 */
import { linkStream } from '../acp/link-stream.ts';
import { requestErrorOf } from '../acp/request-error.ts';
import type {
  AcpSdk,
  AgentConnection,
  AvailableCommand,
  ClientCapabilities,
  InitializeRequest,
  ListSessionsRequest,
  NewSessionRequest,
  PromptRequest,
  SessionConfigOption,
  SessionModeState,
  SetSessionConfigOptionRequest,
  StopReason,
} from '../acp/sdk.ts';
import { loadAcp } from '../acp/sdk.ts';
import type { ControlClient } from '../control-client/control.ts';
import type { ModelListResult } from '../protocol/session-rpc.ts';
import type { SessionState, UiMessage } from '../protocol/session-types.ts';
import type { Link } from '../transport/link.ts';
import { asError, fail, type HandfastError } from '../wire/errors.ts';
import { commandIn, commandOutput, commandsOf } from './acp/commands.ts';
import { EditorSession } from './acp/editor-session.ts';
import { changeOfMode, changeOfOption, configOptionsOf, modesOf } from './acp/options.ts';
import { type EditorPrompt, promptOf } from './acp/prompt.ts';
import { authenticate, authMethodsOf, isWithoutKey, logout, takesAudio, wantsAuth } from './acp/signing-in.ts';

export interface AcpAgentOptions {
  /** To the editor; opened here. */
  readonly link: Link;
  /** The server of the sessions, or why it refuses this client. Stays open when the editor disconnects. */
  readonly control: ControlClient | RefusedControl;
  /** Version of this software, sent to the editor. */
  readonly version: string;
  /** Settings of new sessions; absent: the server's defaults. */
  readonly create?: { readonly backend?: string; readonly model?: string; readonly thinking_level?: string };
  /** False: the server does not use the editor's files, because it may be on another machine. Default true. */
  readonly lends?: boolean;
  /** Receives failures outside of a request, a line each. */
  readonly note?: (line: string) => void;
}

/** A server that refused the token of this client. Editors are asked to authenticate, which connects again. */
export interface RefusedControl {
  readonly refused: HandfastError;
  /** Connects, with the token of that moment. Rejects with `auth_failed` while the server refuses it. */
  connect(): Promise<ControlClient>;
}

/** The backend whose model sessions may choose. */
const MODEL_BACKEND = 'model';
/** Messages of a request while a session is opened, and characters of messages that a replay has about. */
const REPLAYED = { page: 500, characters: 4 * 1024 * 1024 };

/** Longest part of a line that is quoted, in characters. */
const QUOTED = 200;

/**
 * Serves an editor; resolves when it has disconnected and its link is closed. The turns it started continue. Fails with
 * `not_configured` when the SDK of the protocol is not installed; then the link is not opened.
 */
export async function serveAcp(options: AcpAgentOptions): Promise<void> {
  await new Editor(await loadAcp(), options).closed;
}

/** The settings of a session, for the replies that open one. */
interface Setup {
  readonly modes: SessionModeState;
  readonly configOptions: SessionConfigOption[];
}

class Editor {
  /** Resolves when the editor has disconnected. Never rejects. */
  readonly closed: Promise<void>;
  readonly #sdk: AcpSdk;
  readonly #options: AcpAgentOptions;
  readonly #connection: AgentConnection;
  readonly #sessions = new Map<string, EditorSession>();
  /** Sessions that are being opened. */
  readonly #opening = new Set<string>();
  #capabilities: ClientCapabilities = {};
  /** Undefined while the server refuses this client. */
  #connected: ControlClient | undefined;
  #connecting: Promise<void> | undefined;
  /** The slash commands of the server; requested once. */
  #commands: readonly AvailableCommand[] | undefined;

  constructor(sdk: AcpSdk, options: AcpAgentOptions) {
    this.#sdk = sdk;
    this.#options = options;
    this.#connected = 'refused' in options.control ? undefined : options.control;
    const skipped = (line: string): void => this.#note(`skipped an invalid message: ${line.slice(0, QUOTED)}`);
    const { stream, closed } = linkStream(options.link, { skipped });
    this.#connection = this.#agent().connect(stream);
    this.closed = this.#connection.closed.then(async () => {
      for (const id of [...this.#sessions.keys()]) this.#remove(id);
      await closed;
    });
  }

  /** The server. @throws auth_failed while it refuses this client */
  get #control(): ControlClient {
    const { control } = this.#options;
    if (this.#connected !== undefined) return this.#connected;
    throw (control as RefusedControl).refused;
  }

  /** Connects to a server that refused this client. Fails as `RefusedControl.connect`. */
  #connect(): Promise<void> {
    const { control } = this.#options;
    if (this.#connected !== undefined || !('refused' in control)) return Promise.resolve();
    const connect = async (): Promise<void> => {
      this.#connected = await control.connect();
    };
    this.#connecting ??= connect().finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }

  #note(line: string): void {
    this.#options.note?.(line);
  }

  #agent() {
    const sdk = this.#sdk;
    /** Returns the handler with its failures as errors of the protocol. */
    const guarded = <Context, Reply>(handle: (context: Context) => Promise<Reply> | Reply) => {
      return async (context: Context): Promise<Reply> => {
        try {
          return await handle(context);
        } catch (thrown) {
          throw requestErrorOf(sdk, thrown);
        }
      };
    };
    // Prompts are handled before cancels: a cancel right after its prompt must find it.
    return sdk
      .agent({ name: 'handfast' })
      .onRequest(
        'initialize',
        guarded(({ params }) => this.#initialize(params)),
      )
      .onRequest(
        'authenticate',
        guarded(async ({ params, signal }) => {
          const note = (line: string): void => this.#note(line);
          await this.#connect();
          await authenticate(sdk, this.#control, params, { note, signal });
          return {};
        }),
      )
      .onRequest(
        'logout',
        guarded(async () => {
          const left = await logout(this.#control);
          if (left.length > 0) this.#note(`still usable, by what was not stored here: ${left.join(', ')}`);
          return {};
        }),
      )
      .onRequest(
        'session/new',
        guarded(({ params }) => this.#create(params)),
      )
      .onRequest(
        'session/load',
        guarded(({ params }) => this.#reopen(params.sessionId, true)),
      )
      .onRequest(
        'session/resume',
        guarded(({ params }) => this.#reopen(params.sessionId, false)),
      )
      .onRequest(
        'session/fork',
        (params) => params,
        guarded(({ params }: { readonly params: unknown }) => this.#fork(textIn(params, 'sessionId'))),
      )
      .onRequest(
        'session/list',
        guarded(({ params }) => this.#list(params)),
      )
      .onRequest(
        'session/close',
        guarded(async ({ params: { sessionId } }) => {
          await this.#control.rpc.sessionClose({ session_id: sessionId });
          this.#remove(sessionId);
        }),
      )
      .onRequest(
        'session/delete',
        guarded(async ({ params: { sessionId } }) => {
          await this.#control.rpc.sessionDelete({ session_id: sessionId });
          this.#remove(sessionId);
        }),
      )
      .onRequest(
        'session/set_mode',
        guarded(async ({ params: { sessionId, modeId } }) => {
          this.#session(sessionId);
          await this.#control.rpc.sessionConfigure({ session_id: sessionId, ...changeOfMode(modeId) });
        }),
      )
      .onRequest(
        'session/set_config_option',
        guarded(({ params }) => this.#setOption(params)),
      )
      .onRequest(
        'session/prompt',
        guarded(({ params, signal }) => this.#prompt(params, signal)),
      )
      .onNotification('session/cancel', ({ params }) => this.#sessions.get(params.sessionId)?.cancel());
  }

  async #initialize({ clientCapabilities }: InitializeRequest) {
    this.#capabilities = clientCapabilities ?? {};
    const audio = this.#connected !== undefined && (await takesAudio(this.#connected, this.#options.create));
    const authMethods = authMethodsOf(this.#connected);
    return {
      protocolVersion: this.#sdk.PROTOCOL_VERSION,
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true, audio, embeddedContext: true },
        mcpCapabilities: { http: true, sse: false },
        // `fork` is not in the stable schema yet; editors that do not know it skip it.
        ...(authMethods.length > 0 && { auth: { logout: {} } }),
        sessionCapabilities: { list: {}, resume: {}, close: {}, delete: {}, fork: {} } as object,
      },
      authMethods,
      agentInfo: { name: 'handfast', title: 'Handfast', version: this.#options.version },
    };
  }

  async #create({ cwd, mcpServers: mcp_servers }: NewSessionRequest) {
    const { create } = this.#options;
    const control = this.#control;
    const backend = create?.backend;
    // A server without any key rehearses where no backend is named; one that is to ask a model cannot.
    if (backend === MODEL_BACKEND && (await isWithoutKey(control))) throw this.#authRequired();
    const { state } = await control.rpc.sessionCreate({ cwd, mcp_servers, parallel_tools: true, ...create });
    return { sessionId: state.id, ...(await this.#open(state)) };
  }

  async #fork(session_id: string) {
    const { state } = await this.#control.rpc.sessionFork({ session_id });
    return { sessionId: state.id, ...(await this.#open(state)) };
  }

  async #list({ cwd, cursor }: ListSessionsRequest) {
    // Closed sessions too: the editor may load them again.
    const filter = { cwd: cwd ?? undefined, cursor: cursor ?? undefined, include_closed: true };
    const { sessions, next_cursor } = await this.#control.rpc.sessionList(filter);
    return {
      // Editors open a session with each window; one without a message is not worth a line.
      sessions: sessions
        .filter(({ message_count, pending, queue_length }) => message_count > 0 || pending || queue_length > 0)
        .map((row) => ({ sessionId: row.session_id, cwd: row.cwd, title: row.title, updatedAt: row.updated_at })),
      nextCursor: next_cursor,
    };
  }

  async #setOption(params: SetSessionConfigOptionRequest) {
    const { sessionId: session_id, configId, value } = params;
    const { rpc } = this.#control;
    this.#session(session_id);
    const models = await this.#models(await rpc.sessionGet({ session_id, messages: 0 }));
    const { settings } = await rpc.sessionConfigure({ session_id, ...changeOfOption(configId, value, models) });
    return { configOptions: configOptionsOf({ settings }, models) };
  }

  async #prompt(params: PromptRequest, signal: AbortSignal) {
    const session = this.#session(params.sessionId);
    const prompt = promptOf(params.prompt, session.cwd);
    const command = commandIn(prompt.text, this.#commands ?? []);
    if (command === undefined) return { stopReason: await this.#turn(session, prompt, signal) };
    const done = await session.command(command, signal);
    if (done === undefined) return { stopReason: 'cancelled' as const };
    const content = { type: 'text' as const, text: commandOutput(done.output) };
    await session.notify({ sessionUpdate: 'agent_message_chunk', content });
    return { stopReason: 'end_turn' as const };
  }

  async #turn(session: EditorSession, prompt: EditorPrompt, signal: AbortSignal): Promise<StopReason> {
    try {
      return await session.prompt(prompt, signal);
    } catch (error) {
      const { code, message } = asError(error);
      if (await wantsAuth(this.#control, error, session.id)) throw this.#authRequired(message, code);
      throw error;
    }
  }

  #authRequired(why = 'no model provider has a key', kind = 'not_configured'): Error {
    return this.#sdk.RequestError.authRequired({ kind, retryable: false }, why);
  }

  /** Returns a session that this editor has open. Fails with `session_not_found`. */
  #session(id: string): EditorSession {
    const session = this.#sessions.get(id);
    if (session === undefined) throw fail('session_not_found', `session ${id} is not open here`, { session_id: id });
    return session;
  }

  #remove(id: string): void {
    this.#sessions.get(id)?.close();
    this.#sessions.delete(id);
  }

  /** Opens a stored session. Fails with `session_not_found`, and `session_busy` while a prompt of this editor runs in it. */
  async #reopen(id: string, replay: boolean): Promise<Setup> {
    const inUse = () => fail('session_busy', `session ${id} is in use by this editor already`, { session_id: id });
    if (this.#opening.has(id)) throw inUse();
    this.#opening.add(id);
    try {
      const { state: newest } = await this.#control.rpc.sessionResume({ session_id: id, messages: REPLAYED.page });
      const state = replay ? await this.#withMessages(newest) : newest;
      // The open one still serves a prompt.
      if (this.#sessions.get(id)?.busy) throw inUse();
      this.#remove(id);
      return await this.#open(state, replay);
    } finally {
      this.#opening.delete(id);
    }
  }

  /** Returns the state with the messages that a replay shows: all of them, or of a long conversation the newest. */
  async #withMessages(state: SessionState): Promise<SessionState> {
    let { messages_cursor: cursor, messages_after_seq } = state;
    let size = 0;
    const older: UiMessage[] = [];
    while (typeof cursor === 'string' && size < REPLAYED.characters) {
      const params = { session_id: state.id, cursor, order: 'newest', limit: REPLAYED.page } as const;
      const page = await this.#control.rpc.sessionMessages(params);
      for (const { text } of page.messages) size += text.length;
      older.push(...page.messages.filter(({ unsent }) => unsent !== true));
      cursor = page.next_cursor;
      messages_after_seq = page.after_seq;
    }
    const messages = [...older.reverse(), ...state.messages];
    return {
      ...state,
      messages,
      messages_cursor: cursor,
      messages_after_seq: cursor === null ? 0 : messages_after_seq,
    };
  }

  /** Opens a session for the editor; its updates are sent after the reply. */
  async #open(state: SessionState, replay = false): Promise<Setup> {
    const models = await this.#models(state);
    const session = new EditorSession(state, {
      control: this.#control,
      client: this.#connection.client,
      capabilities: this.#capabilities,
      lends: this.#options.lends ?? true,
      disconnected: this.#connection.signal,
      optionsOf: async (settings) => configOptionsOf({ settings }, await this.#models(state)),
      note: (line) => this.#note(line),
    });
    this.#sessions.set(state.id, session);
    try {
      if (replay) await session.replay();
      else session.follow();
      this.#commands ??= await this.#offered(state.id);
      // The editor disconnected meanwhile: its open sessions were removed before this one was added.
      if (this.#connection.signal.aborted) throw fail('connection_lost', 'the editor disconnected');
    } catch (error) {
      this.#remove(state.id);
      throw error;
    }
    const availableCommands = [...this.#commands];
    // By then the reply is sent: all steps from here to its line in the pipe are microtasks.
    setImmediate(() => {
      session.opened();
      session.notify({ sessionUpdate: 'available_commands_update', availableCommands }).catch(() => {});
    });
    return { modes: modesOf(state.settings), configOptions: configOptionsOf(state, models) };
  }

  /** Returns the models that a session may select; undefined if its backend uses none of this server's models. */
  async #models({ backend }: Pick<SessionState, 'backend'>): Promise<ModelListResult | undefined> {
    return backend === MODEL_BACKEND ? this.#control.rpc.modelList() : undefined;
  }

  /** Returns the slash commands; none if the server has no `/help`. */
  async #offered(session_id: string): Promise<readonly AvailableCommand[]> {
    const { rpc } = this.#control;
    const help = await rpc.commandExecute({ session_id, raw_command: '/help' }).catch(() => undefined);
    return commandsOf(help?.output);
  }
}

function textIn(params: unknown, field: string): string {
  const value = (params as Record<string, unknown> | null | undefined)?.[field];
  if (typeof value === 'string' && value !== '') return value;
  throw fail('schema_violation', `${field} must be a non-empty string`, { field });
}
