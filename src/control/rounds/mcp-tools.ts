/**
 * The tools of the MCP servers of sessions: those a client, such as an editor, named when it opened the session. They stand
 * beside the tools of the session's environment, ask for approval like any tool that does not say what it can do, and their
 * servers end with the session.
 *
 * Used by `environments.ts`. How a server is reached is the composition's (`server/control/mcp-peers.ts`). A server that cannot
 * be used is reported to the user, once for each reason, and costs a turn no more than its tools.
 */
import type { ToolCall, ToolDone } from '../../protocol/session-types.ts';
import { mcpRefusal } from '../../protocol/session-words.ts';
import type { Principal } from '../../session/principal.ts';
import { may } from '../../session/rights.ts';
import { asError } from '../../wire/errors.ts';
import type { Turn } from '../contract/backend.ts';
import { failedCall } from './failed-call.ts';
import { liveOutput } from './live-output.ts';
import type { Toolbox, ToolOffer } from './toolbox.ts';

/** A server as a client named it. */
export type GivenServer = Readonly<Record<string, unknown>>;

/** A connected server. */
export interface McpPeer {
  /** True once the server, or this side, has ended it. */
  readonly isClosed: boolean;
  readonly tools: readonly {
    readonly name: string;
    readonly description?: string | undefined;
    readonly inputSchema: Readonly<Record<string, unknown>>;
  }[];
  call(
    name: string,
    args: Readonly<Record<string, unknown>>,
    options: { signal: AbortSignal; timeoutMs: number; onProgress: (text: string) => void },
  ): Promise<McpResult>;
  /** Ends it with all that it started. Bounded, never rejects. */
  close(): Promise<void>;
}

/** The result of a call, as the Model Context Protocol has it. */
export interface McpResult {
  readonly content?: readonly Readonly<Record<string, unknown>>[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean | undefined;
}

/** Connects to a server within the time of `signal`. Rejects with why it cannot be used. */
export type ConnectMcp = (
  server: GivenServer,
  place: { readonly cwd: string; readonly principal: Principal; readonly signal: AbortSignal },
) => Promise<McpPeer>;

/** The part of a turn that is used here. */
export type McpTurn = Pick<Turn, 'id' | 'log' | 'cwd' | 'principal' | 'settings' | 'signal'>;

/** Time for starting a server and for its list of tools, in milliseconds: a package runner may first download it. */
const CONNECT_MS = 60_000;
/** Longest time of one call, in milliseconds, as for the tools of the environment. */
const CALL_MS = 15 * 60_000;

/** One server of a session. */
interface SessionServer {
  readonly given: GivenServer;
  readonly name: string;
  connecting?: Promise<McpPeer | undefined>;
  peer?: McpPeer;
  /** The turn of the last failed attempt: the next turn tries again. */
  failedIn?: string;
  reported?: string;
}

/** The servers of all sessions. */
export class McpTools {
  readonly #connect: ConnectMcp;
  readonly #sessions = new Map<string, SessionServer[]>();
  #closed = false;

  constructor(connect: ConnectMcp) {
    this.#connect = connect;
  }

  /** The toolbox with the tools of the session's servers behind its own. */
  join(own: Toolbox, turn: McpTurn): Toolbox {
    const { id } = turn.log.record;
    let servers = this.#sessions.get(id);
    if (servers === undefined) {
      servers = named(turn.settings.mcpServers ?? []);
      this.#sessions.set(id, servers);
    }
    return this.#toolbox(own, servers, turn);
  }

  /** The session was closed: its servers end. */
  async release(session: string): Promise<void> {
    const servers = this.#sessions.get(session) ?? [];
    this.#sessions.delete(session);
    await Promise.all(servers.map(async ({ connecting }) => (await connecting)?.close()));
  }

  /** Ends all servers. Bounded by them, never rejects. */
  async stop(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#sessions.keys()].map((session) => this.release(session)));
  }

  #toolbox(own: Toolbox, servers: readonly SessionServer[], turn: McpTurn): Toolbox {
    let offers = new Map<string, { readonly offer: ToolOffer; readonly peer: McpPeer; readonly tool: string }>();
    return {
      list: async () => {
        const [listed, peers] = await Promise.all([
          own.list(),
          Promise.all(servers.map((each) => this.#peerOf(each, turn))),
        ]);
        offers = new Map(
          servers.flatMap(({ name }, at) => {
            const peer = peers[at];
            return (peer?.tools ?? []).map((tool) => {
              const offer = offerOf(name, tool);
              return [offer.name, { offer, peer: peer as McpPeer, tool: tool.name }] as const;
            });
          }),
        );
        for (const { name } of listed) offers.delete(name);
        for (const [name, { offer }] of offers) if (!may(turn.principal, 'call', offer)) offers.delete(name);
        const all = [...listed, ...[...offers.values()].map(({ offer }) => offer)];
        return all.sort((one, other) => (one.name < other.name ? -1 : 1));
      },
      find: (name) => own.find(name) ?? offers.get(name)?.offer,
      call(call, signal, output) {
        const found = own.find(call.name) === undefined ? offers.get(call.name) : undefined;
        return found === undefined ? own.call(call, signal, output) : called(found, call, signal, output);
      },
    };
  }

  /** The connection to a server; undefined where there is none, which is reported to the user. Never rejects. */
  async #peerOf(server: SessionServer, turn: McpTurn): Promise<McpPeer | undefined> {
    if (server.peer?.isClosed === true) {
      server.peer = undefined;
      server.connecting = undefined;
    }
    if (server.peer !== undefined || server.failedIn === turn.id || this.#closed) return server.peer;
    server.connecting ??= this.#opened(server, turn);
    server.peer = await server.connecting;
    if (server.peer === undefined) {
      server.connecting = undefined;
      server.failedIn = turn.id;
    }
    return server.peer;
  }

  async #opened({ ...server }: SessionServer, turn: McpTurn): Promise<McpPeer | undefined> {
    const { cwd, principal, log } = turn;
    const signal = AbortSignal.any([turn.signal, AbortSignal.timeout(CONNECT_MS)]);
    try {
      return await this.#connect(server.given, { cwd, principal, signal });
    } catch (thrown) {
      if (turn.signal.aborted) return undefined;
      const { message } = asError(thrown);
      const late = signal.aborted ? `it did not respond within ${CONNECT_MS} ms` : message;
      const line = mcpRefusal(server.name, late);
      // Said once: each turn tries again.
      if (!log.record.messages.some(({ kind, text }) => kind === 'system' && text === line)) {
        log.appendMessage('system', line, turn.id);
      }
      return undefined;
    }
  }
}

/** The servers with names that tools can be called by, each once. */
function named(given: readonly GivenServer[]): SessionServer[] {
  const taken = new Set<string>();
  return given.map((server, at) => {
    const wanted = (typeof server.name === 'string' ? server.name : '').replaceAll(/[^\w-]+/g, '_') || `mcp${at + 1}`;
    const name = taken.has(wanted) ? `${wanted}_${at + 1}` : wanted;
    taken.add(name);
    return { given: server, name };
  });
}

/** A tool of a server. What its annotations promise is not relied on: it does not say what it can do. */
function offerOf(server: string, { name, description = '', inputSchema }: McpPeer['tools'][number]): ToolOffer {
  const schema = { type: 'object', properties: {}, ...inputSchema };
  return { name: `${server}.${name}`, description, inputSchema: schema, kind: 'mcp', risks: [] };
}

async function called(
  { peer, tool }: { readonly peer: McpPeer; readonly tool: string },
  call: ToolCall,
  signal: AbortSignal,
  output: (stream: string, text: string) => void,
): Promise<ToolDone> {
  const live = liveOutput(output);
  try {
    const onProgress = (text: string): void => live.push('progress', text);
    const result = await peer.call(tool, structuredClone(call.input), { signal, timeoutMs: CALL_MS, onProgress });
    const text = textOf(result);
    const { name, input, callId } = call;
    const answer = result.structuredContent ?? text;
    if (result.isError !== true) return { name, ok: true, input, result: answer, callId };
    return { name, ok: false, input, result: answer, error: text === '' ? 'the tool failed' : text, callId };
  } catch (thrown) {
    if (signal.aborted) return failedCall(call, 'cancelled', `stopped: ${asError(signal.reason).message}`);
    const { message } = asError(thrown);
    if (!peer.isClosed) return failedCall(call, 'failed', message);
    return failedCall(call, 'lost', `${message}; the tool may or may not have taken effect`);
  } finally {
    live.end();
  }
}

/** The content as text; what is none is named by its type. */
function textOf({ content = [] }: McpResult): string {
  return content
    .map((part) => {
      if (part.type === 'text') return String(part.text);
      if (part.type === 'resource_link') return `[${String(part.uri)}]`;
      const { text, uri, mimeType = part.mimeType } = (part.resource ?? {}) as Record<string, unknown>;
      if (typeof text === 'string') return text;
      return `[${[part.type, mimeType, uri].filter((fact) => typeof fact === 'string').join(' ')}]`;
    })
    .join('\n');
}
