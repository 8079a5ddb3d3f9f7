/**
 * Our sessions for editors that speak the Agent Client Protocol: we are the agent, and drive a server of sessions through
 * its client, whether that server is in this process or another.
 *
 * Called by `cli/commands/acp.ts` with the link to the editor. One editor has any number of sessions open; what others do
 * in them at the same time is shown too.
 * @see docs/acp.md
 */
import { linkStream } from '../acp/link-stream.ts';
import type {
  AcpSdk,
  AgentConnection,
  AvailableCommand,
  ClientCapabilities,
  SessionConfigOption,
  SessionModeState,
} from '../acp/sdk.ts';
import { loadAcp } from '../acp/sdk.ts';
import type { ControlClient } from '../control-client/control.ts';
import type { ModelListResult } from '../protocol/session-rpc.ts';
import type { SessionState } from '../protocol/session-types.ts';
import type { Link } from '../transport/link.ts';
import { fail } from '../wire/errors.ts';
import { commandIn, commandOutput, commandsOf } from './acp/commands.ts';
import { EditorSession } from './acp/editor-session.ts';
import { requestErrorOf } from './acp/errors.ts';
import { changeOfMode, changeOfOption, configOptionsOf, modesOf } from './acp/options.ts';
import { promptOf } from './acp/prompt.ts';

export interface AcpAgentOptions {
  /** To the editor; opened here. */
  readonly link: Link;
  /** The server of the sessions. Stays open when the editor is gone. */
  readonly control: ControlClient;
  /** Version of this software, told to the editor. */
  readonly version: string;
  /** What new sessions are created with; absent: the server's choice. */
  readonly create?: { readonly backend?: string; readonly model?: string };
  /** Told what goes wrong where nobody waits for an answer, a line each. */
  readonly note?: (line: string) => void;
}

/** The backend whose model sessions may choose. */
const MODEL_BACKEND = 'model';

/** Longest part of a line that is quoted, in characters. */
const QUOTED = 200;

/**
 * Serves an editor; resolves when it is gone and its link is closed. The turns it began go on. Fails with `not_configured`
 * when the SDK of the protocol is not installed; then the link is not opened.
 */
export async function serveAcp(options: AcpAgentOptions): Promise<void> {
  await new Editor(await loadAcp(), options).closed;
}

/** How a session is set up, for the answers that open one. */
interface Setup {
  readonly modes: SessionModeState;
  readonly configOptions: SessionConfigOption[];
}

class Editor {
  /** Resolves when the editor is gone. Never rejects. */
  readonly closed: Promise<void>;
  readonly #sdk: AcpSdk;
  readonly #options: AcpAgentOptions;
  readonly #connection: AgentConnection;
  readonly #sessions = new Map<string, EditorSession>();
  /** Sessions that are being opened. */
  readonly #opening = new Set<string>();
  #capabilities: ClientCapabilities = {};
  /** What the server offers; asked for once. */
  #commands: readonly AvailableCommand[] | undefined;

  constructor(sdk: AcpSdk, options: AcpAgentOptions) {
    this.#sdk = sdk;
    this.#options = options;
    const skipped = (line: string): void => this.#note(`skipped what is no message: ${line.slice(0, QUOTED)}`);
    const { stream, closed } = linkStream(options.link, { skipped });
    this.#connection = this.#agent().connect(stream);
    this.closed = this.#connection.closed.then(async () => {
      for (const id of [...this.#sessions.keys()]) this.#forget(id);
      await closed;
    });
  }

  #note(line: string): void {
    this.#options.note?.(line);
  }

  // Prompts come before cancels in the order of the handlers: a cancel right behind its prompt finds it.
  #agent() {
    const sdk = this.#sdk;
    /** Failures as the protocol has them. */
    const told = <Context, Answer>(handle: (context: Context) => Promise<Answer> | Answer) => {
      return async (context: Context): Promise<Answer> => {
        try {
          return await handle(context);
        } catch (thrown) {
          throw requestErrorOf(sdk, thrown);
        }
      };
    };
    const { rpc } = this.#options.control;
    return sdk
      .agent({ name: 'handfast' })
      .onRequest(
        'initialize',
        told(({ params }) => {
          this.#capabilities = params.clientCapabilities ?? {};
          return {
            protocolVersion: sdk.PROTOCOL_VERSION,
            agentCapabilities: {
              loadSession: true,
              promptCapabilities: { image: true, embeddedContext: true },
              // `fork` is not in the stable schema yet; editors that do not know it skip it.
              sessionCapabilities: { list: {}, resume: {}, close: {}, delete: {}, fork: {} } as object,
            },
            authMethods: [],
            agentInfo: { name: 'handfast', title: 'Handfast', version: this.#options.version },
          };
        }),
      )
      .onRequest(
        'session/new',
        told(async ({ params: { cwd, mcpServers } }) => {
          const { state } = await rpc.sessionCreate({
            cwd,
            mcp_servers: mcpServers,
            parallel_tools: true,
            ...this.#options.create,
          });
          return { sessionId: state.id, ...(await this.#open(state)) };
        }),
      )
      .onRequest(
        'session/load',
        told(({ params: { sessionId } }) => this.#reopen(sessionId, true)),
      )
      .onRequest(
        'session/resume',
        told(({ params: { sessionId } }) => this.#reopen(sessionId, false)),
      )
      .onRequest(
        'session/fork',
        (params) => params,
        told(async ({ params }: { readonly params: unknown }) => {
          const { state } = await rpc.sessionFork({ session_id: textIn(params, 'sessionId') });
          return { sessionId: state.id, ...(await this.#open(state)) };
        }),
      )
      .onRequest(
        'session/list',
        told(async ({ params }) => {
          const { cwd, cursor } = params;
          // What an editor closed it may load again.
          const asked = { cwd: cwd ?? undefined, cursor: cursor ?? undefined, include_closed: true };
          const { sessions, next_cursor } = await rpc.sessionList(asked);
          return {
            // Editors open a session with each window; those nobody ever said anything in are not worth a line.
            sessions: sessions
              .filter(({ message_count, pending, queue_length }) => message_count > 0 || pending || queue_length > 0)
              .map(({ session_id: sessionId, cwd: folder, title, updated_at: updatedAt }) => ({
                sessionId,
                cwd: folder,
                title,
                updatedAt,
              })),
            nextCursor: next_cursor,
          };
        }),
      )
      .onRequest(
        'session/close',
        told(async ({ params: { sessionId } }) => {
          await rpc.sessionClose({ session_id: sessionId });
          this.#forget(sessionId);
        }),
      )
      .onRequest(
        'session/delete',
        told(async ({ params: { sessionId } }) => {
          await rpc.sessionDelete({ session_id: sessionId });
          this.#forget(sessionId);
        }),
      )
      .onRequest(
        'session/set_mode',
        told(async ({ params: { sessionId, modeId } }) => {
          this.#session(sessionId);
          await rpc.sessionConfigure({ session_id: sessionId, ...changeOfMode(modeId) });
        }),
      )
      .onRequest(
        'session/set_config_option',
        told(async ({ params }) => {
          const { sessionId: session_id, configId, value } = params;
          this.#session(session_id);
          const models = await this.#models(await rpc.sessionGet({ session_id }));
          const { settings } = await rpc.sessionConfigure({ session_id, ...changeOfOption(configId, value, models) });
          return { configOptions: configOptionsOf({ settings }, models) };
        }),
      )
      .onRequest(
        'session/prompt',
        told(async ({ params, signal }) => {
          const session = this.#session(params.sessionId);
          const prompt = promptOf(params.prompt, session.cwd);
          const command = commandIn(prompt.text, this.#commands ?? []);
          if (command === undefined) return { stopReason: await session.prompt(prompt, signal) };
          const done = await session.command(command, signal);
          if (done === undefined) return { stopReason: 'cancelled' as const };
          const content = { type: 'text' as const, text: commandOutput(done.output) };
          await session.tell({ sessionUpdate: 'agent_message_chunk', content });
          return { stopReason: 'end_turn' as const };
        }),
      )
      .onNotification('session/cancel', ({ params }) => this.#sessions.get(params.sessionId)?.cancel());
  }

  /** A session this editor has open. Fails with `session_not_found`. */
  #session(id: string): EditorSession {
    const session = this.#sessions.get(id);
    if (session === undefined) throw fail('session_not_found', `session ${id} is not open here`, { session_id: id });
    return session;
  }

  #forget(id: string): void {
    this.#sessions.get(id)?.close();
    this.#sessions.delete(id);
  }

  /** Opens a stored session. Fails with `session_not_found`, and `session_busy` while a prompt of this editor runs in it. */
  async #reopen(id: string, replay: boolean): Promise<Setup> {
    const inUse = () => fail('session_busy', `session ${id} is in use by this editor already`, { session_id: id });
    if (this.#opening.has(id)) throw inUse();
    this.#opening.add(id);
    try {
      const { state } = await this.#options.control.rpc.sessionResume({ session_id: id });
      // Its prompts are held by the one that is open.
      if (this.#sessions.get(id)?.busy) throw inUse();
      this.#forget(id);
      return await this.#open(state, replay);
    } finally {
      this.#opening.delete(id);
    }
  }

  /** Takes a session up; what happens in it is told once the editor has its answer. */
  async #open(state: SessionState, replay = false): Promise<Setup> {
    const models = await this.#models(state);
    const session = new EditorSession(state, {
      control: this.#options.control,
      client: this.#connection.client,
      capabilities: this.#capabilities,
      gone: this.#connection.signal,
      optionsOf: async (settings) => configOptionsOf({ settings }, await this.#models(state)),
      note: (line) => this.#note(line),
    });
    this.#sessions.set(state.id, session);
    try {
      if (replay) await session.replay();
      else session.follow();
      this.#commands ??= await this.#offered(state.id);
      // An editor that is gone has let go of what it had open before this one was.
      if (this.#connection.signal.aborted) throw fail('connection_lost', 'the editor is gone');
    } catch (error) {
      this.#forget(state.id);
      throw error;
    }
    const availableCommands = [...this.#commands];
    // The answer is on its way by then: everything between here and its line in the pipe happens in microtasks.
    setImmediate(() => {
      session.opened();
      session.tell({ sessionUpdate: 'available_commands_update', availableCommands }).catch(() => {});
    });
    return { modes: modesOf(state.settings), configOptions: configOptionsOf(state, models) };
  }

  /** The models a session may choose from; undefined where its backend asks none of ours. */
  async #models({ backend }: Pick<SessionState, 'backend'>): Promise<ModelListResult | undefined> {
    return backend === MODEL_BACKEND ? this.#options.control.rpc.modelList() : undefined;
  }

  /** What can be typed with a slash; nothing where the server cannot say. */
  async #offered(session_id: string): Promise<readonly AvailableCommand[]> {
    const { rpc } = this.#options.control;
    const help = await rpc.commandExecute({ session_id, raw_command: '/help' }).catch(() => undefined);
    return commandsOf(help?.output);
  }
}

function textIn(params: unknown, field: string): string {
  const value = (params as Record<string, unknown> | null | undefined)?.[field];
  if (typeof value === 'string' && value !== '') return value;
  throw fail('schema_violation', `${field} must be a text`, { field });
}
