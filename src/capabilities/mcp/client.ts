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
import type {
  Prompt,
  PromptMessage,
  Refusal,
  Resource,
  ResourceContent,
  ServerConfig,
  ServerInfo,
} from './mcp.schema.ts';
import * as messages from './messages.ts';

const calls = {
  list: answered(messages.serverList, replies.ServerListResp),
  register: answered(messages.serverRegister, replies.ServerRegisterResp),
  unregister: answered(messages.serverUnregister, replies.ServerUnregisterResp),
  accept: answered(messages.serverAccept, replies.ServerAcceptResp),
  resources: answered(messages.resourceList, replies.ResourceListResp),
  read: answered(messages.resourceRead, replies.ResourceReadResp),
  subscribe: answered(messages.resourceSubscribe, replies.ResourceSubscribeResp),
  unsubscribe: answered(messages.resourceUnsubscribe, replies.ResourceUnsubscribeResp),
  prompts: answered(messages.promptList, replies.PromptListResp),
  prompt: answered(messages.promptGet, replies.PromptGetResp),
};

const serverPush = { ...messages.serverPush, check: replies.ServerPush };

export type { Prompt, PromptMessage, Resource, ResourceContent, ServerConfig, ServerInfo };

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

  /** The resources of a server, or of all that can be used, read page by page. Rejects with `mcp_server_not_found`, `mcp_server_unavailable`. */
  async resources(server = '', options: CallOptions = {}): Promise<readonly Resource[]> {
    const found: Resource[] = [];
    for (let cursor = ''; ; ) {
      const page = await this.#agent.calls.call(calls.resources, pageBody(server, cursor), options);
      found.push(...page.resources);
      cursor = page.next_cursor ?? '';
      if (cursor === '') return found;
    }
  }

  /**
   * Reads a resource: of the named server, or of the one that lists it. Rejects with `mcp_resource_not_found`,
   * `mcp_server_not_found`, `mcp_server_unavailable`.
   */
  read(uri: string, server = '', options: CallOptions = {}): Call<readonly ResourceContent[]> {
    return this.#agent.calls.call(calls.read, { uri, server_id: server }, options, (reply) => accepted(reply).contents);
  }

  /**
   * Subscribes this session to changes of a resource: they arrive at {@link onNotification} as
   * `notifications/resources/updated`, also after a restart of the server. Rejects as {@link read} does, and with `mcp.full`.
   */
  subscribe(uri: string, server = '', options: CallOptions = {}): Call<void> {
    return this.#agent.calls.call(
      calls.subscribe,
      { uri, server_id: server },
      options,
      (reply) => void accepted(reply),
    );
  }

  /** Ends a subscription; resolves with false where there was none. */
  unsubscribe(uri: string, server = '', options: CallOptions = {}): Call<boolean> {
    return this.#agent.calls.call(calls.unsubscribe, { uri, server_id: server }, options, ({ ok }) => ok);
  }

  /** The prompts of a server, or of all that can be used. Rejects as {@link resources} does. */
  async prompts(server = '', options: CallOptions = {}): Promise<readonly Prompt[]> {
    const found: Prompt[] = [];
    for (let cursor = ''; ; ) {
      const page = await this.#agent.calls.call(calls.prompts, pageBody(server, cursor), options);
      found.push(...page.prompts);
      cursor = page.next_cursor ?? '';
      if (cursor === '') return found;
    }
  }

  /** The messages of a prompt. Rejects with `mcp_prompt_not_found`, `schema_violation` for arguments that do not fit. */
  prompt(
    name: string,
    args: Readonly<Record<string, string>> = {},
    server = '',
    options: CallOptions = {},
  ): Call<readonly PromptMessage[]> {
    const body = { name, arguments: { ...args }, server_id: server };
    return this.#agent.calls.call(calls.prompt, body, options, (reply) => accepted(reply).messages);
  }

  /** Calls the listener for each notification of a server. Returns the function that ends it. */
  onNotification(listener: (notification: McpNotification) => void | Promise<void>): () => void {
    return this.#agent.on(serverPush, listener);
  }
}

/** A text where other messages have a number of the journal, which no request of an agent has. */
const pageBody = (server: string, cursor: string): { server_id: string } =>
  ({ server_id: server, cursor }) as { server_id: string };

/** The reply, unless it has an error. */
function accepted<Reply extends { readonly error?: string; readonly refusal?: Refusal }>(reply: Reply): Reply {
  if ((reply.error ?? '') !== '' && reply.refusal !== undefined) throw refused(reply);
  return reply;
}

function refused({ error = '', refusal }: { readonly error?: string; readonly refusal?: Refusal }): HandfastError {
  const { code = 'mcp.refused', message = error, detail = {} } = refusal ?? {};
  return new HandfastError(code, message || 'the host refused it', { detail, capability: 'mcp' });
}
