/**
 * The tools of the MCP servers of sessions: those that a client (an editor, for example) named when it opened the session. They
 * stand beside the tools of the session's environment, ask for approval like any tool without a description of its effects, and
 * their servers end with the session.
 *
 * The composition (`server/control/mcp-peers.ts`) decides how a server is reached. A server that cannot be used is reported to
 * the user, once for each reason, and costs a turn no more than its tools.
 */
import type { McpAnswerer } from '../../mcp/asks.ts';
import type { McpProgress, McpResult, McpTool } from '../../mcp/definition.ts';
import type { McpServer } from '../../mcp/server.ts';
import type { ToolCall } from '../../protocol/session-types.ts';
import { mcpChange, mcpRefusal } from '../../protocol/session-words.ts';
import type { Principal } from '../../session/principal.ts';
import { may } from '../../session/rights.ts';
import { asError } from '../../wire/errors.ts';
import type { Turn } from '../contract/backend.ts';
import { failedCall } from './failed-call.ts';
import { liveOutput } from './live-output.ts';
import { questionsTo } from './mcp-questions.ts';
import { notedOnce } from './noted-once.ts';
import { contentMedia } from './result-media.ts';
import { objectSchema, type Toolbox, type ToolOffer, type ToolOutcome } from './toolbox.ts';

/** A server as a client named it. */
export type GivenServer = Readonly<Record<string, unknown>>;

/** Makes a server, which starts when it is used. Rejects with why it cannot be. */
export type OpenMcpServer = (
  server: GivenServer,
  place: { readonly cwd: string; readonly principal: Principal },
) => Promise<McpServer>;

/** The part of a turn that is used here. */
export type McpTurn = Pick<Turn, 'id' | 'log' | 'cwd' | 'principal' | 'settings' | 'signal' | 'ask'>;

/** Longest time of one call, in milliseconds, as for the tools of the environment. */
const CALL_MS = 15 * 60_000;

/** One server of a session. */
interface SessionServer {
  readonly given: GivenServer;
  readonly name: string;
  opening?: Promise<McpServer>;
  /** The turn of the last failed start: the next turn tries again. */
  failedIn?: string;
}

/** The servers of all sessions. */
export class McpTools {
  readonly #open: OpenMcpServer;
  readonly #sessions = new Map<string, SessionServer[]>();
  #closed = false;

  constructor(open: OpenMcpServer) {
    this.#open = open;
  }

  /** Returns the toolbox with the tools of the session's servers behind its own. */
  join(own: Toolbox, turn: McpTurn): Toolbox {
    const { id } = turn.log.record;
    let servers = this.#sessions.get(id);
    if (servers === undefined) {
      servers = named(turn.settings.mcpServers ?? []);
      this.#sessions.set(id, servers);
    }
    return this.#toolbox(own, servers, turn);
  }

  /** Ends the servers of a session that was closed. */
  async release(session: string): Promise<void> {
    const servers = this.#sessions.get(session) ?? [];
    this.#sessions.delete(session);
    await Promise.all(servers.map(async ({ opening }) => (await opening?.catch(() => {}))?.close()));
  }

  /** Ends all servers. Bounded by them, never rejects. */
  async stop(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#sessions.keys()].map((session) => this.release(session)));
  }

  #toolbox(own: Toolbox, servers: readonly SessionServer[], turn: McpTurn): Toolbox {
    let offers = new Map<string, Offered>();
    const answerers = new Map(servers.map((each) => [each, questionsTo(turn, each.name)]));
    return {
      list: async () => {
        const [listed, ...found] = await Promise.all([
          own.list(),
          ...servers.map((each) => this.#offersOf(each, turn)),
        ]);
        offers = new Map(found.flat().map((each) => [each.offer.name, each]));
        for (const { name } of listed) offers.delete(name);
        for (const [name, { offer }] of offers) if (!may(turn.principal, 'call', offer)) offers.delete(name);
        const all = [...listed, ...[...offers.values()].map(({ offer }) => offer)];
        return all.sort((one, other) => (one.name < other.name ? -1 : 1));
      },
      find: (name) => own.find(name) ?? offers.get(name)?.offer,
      foresee: async (call, signal) => (own.find(call.name) === undefined ? undefined : own.foresee?.(call, signal)),
      call(call, signal, output) {
        const found = own.find(call.name) === undefined ? offers.get(call.name) : undefined;
        if (found === undefined) return own.call(call, signal, output);
        return called({ ...found, answerer: answerers.get(found.session) }, call, signal, output);
      },
    };
  }

  /** Returns the tools of a server; none where it cannot be used, which is reported to the user. Never rejects. */
  async #offersOf(each: SessionServer, turn: McpTurn): Promise<readonly Offered[]> {
    if (each.failedIn === turn.id || this.#closed) return [];
    try {
      each.opening ??= this.#open(each.given, turn);
      const server = await each.opening;
      await server.start(turn.signal);
      const offered = server.tools.filter(({ pin }) => pin === 'accepted');
      const changed = server.tools.filter(({ pin }) => pin !== 'accepted').map(({ name }) => name);
      if (changed.length > 0) notedOnce(turn, mcpChange(each.name, changed));
      return offered.map((tool) => ({ offer: offerOf(each.name, tool), server, tool: tool.name, session: each }));
    } catch (thrown) {
      if (turn.signal.aborted) return [];
      each.failedIn = turn.id;
      // Each turn tries again.
      notedOnce(turn, mcpRefusal(each.name, asError(thrown).message));
      return [];
    }
  }
}

/** A tool of a session, and where it is called. */
interface Offered {
  readonly offer: ToolOffer;
  readonly server: McpServer;
  readonly tool: string;
  readonly session: SessionServer;
}

/** Returns the servers with names that tools can be called by, each once. */
function named(given: readonly GivenServer[]): SessionServer[] {
  const taken = new Set<string>();
  return given.map((server, at) => {
    const wanted = (typeof server.name === 'string' ? server.name : '').replaceAll(/[^\w-]+/g, '_') || `mcp${at + 1}`;
    let name = wanted;
    for (let count = at + 1; taken.has(name); count += 1) name = `${wanted}_${count}`;
    taken.add(name);
    return { given: server, name };
  });
}

/** Returns the offer of a server's tool. Its annotations are not relied on, so the offer declares no effects. */
function offerOf(server: string, { name, description = '', inputSchema }: McpTool): ToolOffer {
  return { name: `${server}.${name}`, description, inputSchema: objectSchema(inputSchema), kind: 'mcp', risks: [] };
}

async function called(
  { server, tool, answerer }: Offered & { readonly answerer: McpAnswerer | undefined },
  call: ToolCall,
  signal: AbortSignal,
  output: (stream: string, text: string) => void,
): Promise<ToolOutcome> {
  const live = liveOutput(output);
  try {
    const onProgress = (progress: McpProgress): void => live.push('progress', progressText(progress));
    const result = await server.call(tool, structuredClone(call.input), {
      signal,
      timeoutMs: CALL_MS,
      onProgress,
      answerer,
    });
    const { blocks, images } = contentMedia(result.content ?? []);
    const text = textOf(blocks as NonNullable<McpResult['content']>);
    const { name, input, callId } = call;
    const answer = result.structuredContent ?? text;
    if (result.isError !== true) return { name, ok: true, input, result: answer, callId, images };
    return { name, ok: false, input, result: answer, error: text === '' ? 'the tool failed' : text, callId, images };
  } catch (thrown) {
    if (signal.aborted) return failedCall(call, 'cancelled', `stopped: ${asError(signal.reason).message}`);
    const { code, message } = asError(thrown);
    return failedCall(call, code === 'connection_lost' ? 'lost' : 'failed', message);
  } finally {
    live.end();
  }
}

const progressText = ({ progress, total, message = '' }: McpProgress): string =>
  total === undefined ? message : `${Math.round((100 * progress) / total)} % ${message}`.trim();

/** Returns the content as text; content other than text is named by its type. */
function textOf(content: NonNullable<McpResult['content']>): string {
  return content
    .map((part) => {
      if (part.type === 'text') return String(part.text);
      if (part.type === 'resource_link') return `[${String(part.uri)}]`;
      if (typeof part.note === 'string') return `[${part.type} ${part.mimeType}: ${part.note}]`;
      const { text, uri, mimeType = part.mimeType } = (part.resource ?? {}) as Record<string, unknown>;
      if (typeof text === 'string') return text;
      return `[${[part.type, mimeType, uri].filter((fact) => typeof fact === 'string').join(' ')}]`;
    })
    .join('\n');
}
