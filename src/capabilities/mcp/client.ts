/**
 * The mcp capability of an agent: `agent.mcp`. Present only when the agent asked for `mcp`. Tools of servers are called by
 * `agent.tools`, under the name SERVER__TOOL, or by `agent.mcp.call`; both need the capability `tools` too.
 *
 * Hosts of plain A2E 1.0 serve all but `accept`, and send fewer members.
 * @see docs/mcp.md
 */
import type { AgentSession } from '../../agent/agent.ts';
import type { Call, CallOptions } from '../../connection/call.ts';
import { answered } from '../../protocol/method.ts';
import { HandfastError } from '../../wire/errors.ts';
import { type ToolCallOptions, ToolsClient } from '../tools/client.ts';
import * as replies from './mcp.replies.generated.ts';
import type { Refusal, ServerConfig, ServerInfo } from './mcp.schema.ts';
import * as messages from './messages.ts';

const calls = {
  list: answered(messages.serverList, replies.ServerListResp),
  register: answered(messages.serverRegister, replies.ServerRegisterResp),
  unregister: answered(messages.serverUnregister, replies.ServerUnregisterResp),
  accept: answered(messages.serverAccept, replies.ServerAcceptResp),
};

const serverPush = { ...messages.serverPush, check: replies.ServerPush };

export type { ServerConfig, ServerInfo };

/** A notification of a server. */
export interface McpNotification {
  readonly server_id: string;
  /** E.g. `notifications/tools/list_changed`. */
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
}

export class McpClient {
  readonly #agent: AgentSession;

  constructor(agent: AgentSession) {
    this.#agent = agent;
  }

  /** The servers this principal may use, by name; lists them without starting any. */
  servers(options: CallOptions = {}): Call<readonly ServerInfo[]> {
    return this.#agent.calls.call(calls.list, { status_filter: '' }, options, ({ servers }) => servers);
  }

  /**
   * Adds a server to this session: it runs, and its tools can be called, when this resolves. It ends with the session.
   *
   * Rejects with `mcp.not_allowed` without a grant, `mcp.invalid`, `mcp.full`, `mcp_server_unavailable`.
   */
  register(config: ServerConfig, options: CallOptions = {}): Call<ServerInfo> {
    return this.#agent.calls.call(calls.register, { config }, options, (reply) => {
      if (reply.ok) return reply.server as ServerInfo;
      throw refused(reply);
    });
  }

  /** Removes a server that this session added. Rejects with `mcp_server_not_found`. */
  unregister(server: string, options: CallOptions = {}): Call<void> {
    return this.#agent.calls.call(calls.unregister, { server_id: server }, options, (reply) => {
      if (!reply.ok) throw refused(reply);
    });
  }

  /**
   * Accepts the definitions of tools as they are now: those named, or all of the server. Resolves with what was accepted.
   *
   * Rejects with `mcp.not_allowed`, `mcp_server_not_found`, `mcp_server_unavailable`.
   */
  accept(server: string, tools: readonly string[] = [], options: CallOptions = {}): Call<readonly string[]> {
    const body = { server_id: server, ...(tools.length > 0 && { tools: [...tools] }) };
    return this.#agent.calls.call(calls.accept, body, options, ({ accepted }) => accepted);
  }

  /**
   * Calls a tool of a server: await it for the result, iterate it for progress. Rejects as `agent.tools.call` does, and with
   * `mcp_server_unavailable`, `mcp_tool_not_found`, `mcp_transport_error`, `mcp_protocol_error`, `tool_changed`.
   */
  call<Data = unknown>(
    server: string,
    tool: string,
    args: Readonly<Record<string, unknown>> = {},
    options: ToolCallOptions = {},
  ) {
    return new ToolsClient(this.#agent).call<Data>(`${server}__${tool}`, args, options);
  }

  /** Calls the listener for each notification of a server. Returns the function that ends it. */
  onNotification(listener: (notification: McpNotification) => void | Promise<void>): () => void {
    return this.#agent.on(serverPush, listener);
  }
}

function refused({ error = '', refusal }: { readonly error?: string; readonly refusal?: Refusal }): HandfastError {
  const { code = 'mcp.refused', message = error, detail = {} } = refusal ?? {};
  return new HandfastError(code, message || 'the host refused it', { detail, capability: 'mcp' });
}
