/**
 * The mcp capability of an agent: `agent.mcp`. Present only when the agent asked for `mcp`. `agent.tools` calls tools of
 * servers, under the name SERVER__TOOL, as does `agent.mcp.call`; both need the capability `tools`, too.
 *
 * Hosts of plain A2E 1.0 serve all but `accept`, and send fewer members.
 * @see docs/mcp.md
 */
import type { AgentSession } from '../../agent/agent.ts';
import type { AskContext } from '../../agent/host-messages.ts';
import type { Call, CallOptions } from '../../connection/call.ts';
import { answered, type Body } from '../../protocol/method.ts';
import { HandfastError } from '../../wire/errors.ts';
import { type ToolCallOptions, ToolsClient } from '../tools/client.ts';
import * as replies from './mcp.replies.generated.ts';
import type {
  Prompt,
  PromptMessage,
  Refusal,
  Resource,
  ResourceContent,
  ResourceTemplate,
  SampleResp,
  ServerConfig,
  ServerInfo,
} from './mcp.schema.ts';
import * as messages from './messages.ts';
import { mcpToolName } from './tool-name.ts';

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
  templates: answered(messages.resourceTemplateList, replies.ResourceTemplateListResp),
  complete: answered(messages.complete, replies.CompleteResp),
};

const asks = {
  sample: { ...messages.sample, checkRequest: replies.SampleReq },
  elicit: { ...messages.elicit, checkRequest: replies.ElicitReq },
  roots: { ...messages.rootList, checkRequest: replies.RootListReq },
};

const serverPush = { ...messages.serverPush, check: replies.ServerPush };

export type { Prompt, PromptMessage, Resource, ResourceContent, ResourceTemplate, ServerConfig, ServerInfo };

/** The target of a completion: an argument of a prompt, or a variable of a template of resources. */
export interface CompletionRequest {
  readonly of: { readonly prompt: string } | { readonly uriTemplate: string };
  readonly argument: string;
  /** The typed beginning. Default empty. */
  readonly value?: string;
  /** The other arguments, as far as they are known. */
  readonly others?: Readonly<Record<string, string>>;
  /** Default: the server that lists the prompt or template. */
  readonly server?: string;
}

/** A question of a server to a model. Absent members were absent in the server's question. */
export interface SamplingRequest {
  /** Absent if a tool of the host asks. */
  readonly server_id?: string;
  /** The name or number of the question at the asking party. */
  readonly mcp_request_id?: string;
  /** `{role, content}`, as the protocol has them. */
  readonly messages?: readonly Readonly<Record<string, unknown>>[];
  readonly model_preferences?: Readonly<Record<string, unknown>>;
  readonly system_prompt?: string;
  readonly include_context?: string;
  readonly temperature?: number;
  /** Maximum number of tokens of the answer. */
  readonly max_tokens?: number;
  readonly stop_sequences?: readonly string[];
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** A question of a server to a person. */
export interface ElicitationRequest {
  /** Empty if a tool of the host asks. */
  readonly server_id: string;
  /** The name or number of the question at the asking party. */
  readonly mcp_request_id?: string;
  /** `url`: asks the person to open an address. */
  readonly mode: 'form' | 'url';
  readonly message: string;
  /** JSON Schema of the requested data, of mode `form`. */
  readonly requested_schema?: Readonly<Record<string, unknown>>;
  readonly url?: string;
  /** The name in `notifications/elicitation/complete`. */
  readonly elicitation_id?: string;
}

/** The answer of a model; with `error` a refusal. */
export type SamplingAnswer =
  | { readonly content: Readonly<Record<string, unknown>>; readonly model?: string; readonly stop_reason?: string }
  | { readonly error: string };

/** The answer of the person. `content` is the requested data, of `accept`. */
export interface ElicitationAnswer {
  readonly action: 'accept' | 'decline' | 'cancel';
  readonly content?: Readonly<Record<string, unknown>>;
}

/** A folder in which the user of an agent works. */
export interface McpRoot {
  /** A `file://` address. */
  readonly uri: string;
  /** A name for people. */
  readonly name?: string;
}

/** A request of a host's tool for the folders of its caller. */
export interface RootsRequest {
  /** The name of the question at the asking party. */
  readonly mcp_request_id?: string;
}

export interface Completion {
  /** At most 100 values, the best first; none if the server completes nothing. */
  readonly values: readonly string[];
  /** The total number of values, if the server reports it. */
  readonly total?: number;
  readonly has_more?: boolean;
}

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

  /** Returns the servers that this principal may use, by name, without starting any. */
  servers(options: CallOptions = {}): Call<readonly ServerInfo[]> {
    return this.#agent.calls.call(calls.list, { status_filter: '' }, options, ({ servers }) => servers);
  }

  /**
   * Adds a server to this session: when this resolves, it runs and its tools can be called. It ends with the session.
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
   * Accepts the present definitions of tools: those named, or all of the server. Resolves with the names of the accepted tools.
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
    return new ToolsClient(this.#agent).call<Data>(mcpToolName({ server, tool }), args, options);
  }

  /**
   * Returns the resources of a server, or of all usable ones, read page by page. Rejects with `mcp_server_not_found`,
   * `mcp_server_unavailable`.
   */
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
   * Reads a resource: of the named server, or of the one that lists it or has a template for it. Rejects with `mcp_resource_not_found`,
   * `mcp_server_not_found`, `mcp_server_unavailable`.
   */
  read(uri: string, server = '', options: CallOptions = {}): Call<readonly ResourceContent[]> {
    return this.#agent.calls.call(calls.read, { uri, server_id: server }, options, (reply) => accepted(reply).contents);
  }

  /**
   * Subscribes this session to changes of a resource: they arrive at {@link onNotification} as
   * `notifications/resources/updated`, even after a restart of the server. Rejects as {@link read} does, and with `mcp.full`.
   */
  subscribe(uri: string, server = '', options: CallOptions = {}): Call<void> {
    return this.#agent.calls.call(
      calls.subscribe,
      { uri, server_id: server },
      options,
      (reply) => void accepted(reply),
    );
  }

  /** Ends a subscription; resolves with false if none existed. */
  unsubscribe(uri: string, server = '', options: CallOptions = {}): Call<boolean> {
    return this.#agent.calls.call(calls.unsubscribe, { uri, server_id: server }, options, ({ ok }) => ok);
  }

  /** Returns the prompts of a server, or of all usable ones. Rejects as {@link resources} does. */
  async prompts(server = '', options: CallOptions = {}): Promise<readonly Prompt[]> {
    const found: Prompt[] = [];
    for (let cursor = ''; ; ) {
      const page = await this.#agent.calls.call(calls.prompts, pageBody(server, cursor), options);
      found.push(...page.prompts);
      cursor = page.next_cursor ?? '';
      if (cursor === '') return found;
    }
  }

  /**
   * Returns the messages of a prompt. Rejects with `mcp_prompt_not_found`, `schema_violation` for arguments that do not fit.
   */
  prompt(
    name: string,
    args: Readonly<Record<string, string>> = {},
    server = '',
    options: CallOptions = {},
  ): Call<readonly PromptMessage[]> {
    const body = { name, arguments: { ...args }, server_id: server };
    return this.#agent.calls.call(calls.prompt, body, options, (reply) => accepted(reply).messages);
  }

  /**
   * Returns the templates of resources of a server, or of all usable ones: {@link read} takes their addresses, filled in.
   * Rejects as {@link resources} does.
   */
  async templates(server = '', options: CallOptions = {}): Promise<readonly ResourceTemplate[]> {
    const found: ResourceTemplate[] = [];
    for (let cursor = ''; ; ) {
      const page = await this.#agent.calls.call(calls.templates, pageBody(server, cursor), options);
      found.push(...page.templates);
      cursor = page.next_cursor ?? '';
      if (cursor === '') return found;
    }
  }

  /**
   * Returns possible values of an argument of a prompt, or of a variable of a template. Rejects with `mcp_prompt_not_found`,
   * `mcp_resource_not_found`, `mcp_server_not_found`, `mcp_server_unavailable`.
   */
  complete(request: CompletionRequest, options: CallOptions = {}): Call<Completion> {
    const { of, argument, value = '', others = {}, server = '' } = request;
    const what = 'prompt' in of ? { prompt: of.prompt } : { uri_template: of.uriTemplate };
    const body = { ...what, argument, value, arguments: others, server_id: server };
    return this.#agent.calls.call(calls.complete, body, options, ({ values, total, has_more }) => ({
      values,
      ...(total !== undefined && { total }),
      ...(has_more !== undefined && { has_more }),
    }));
  }

  /**
   * Serves questions of servers to a model while this agent calls them: without a handler they are refused. An exception of the
   * handler is a refusal, with its message. Throws `usage` if a handler exists already. Returns the function that removes the
   * handler.
   */
  onSampling(
    answer: (request: SamplingRequest, context: AskContext) => SamplingAnswer | Promise<SamplingAnswer>,
  ): () => void {
    return this.#agent.serve(asks.sample, async (request, context) => {
      const { server_id, mcp_request_id } = request;
      return { server_id, mcp_request_id, role: 'assistant', ...(await answer(request, context)) } as Body<SampleResp>;
    });
  }

  /**
   * Serves questions of servers to a person while this agent calls them, as {@link onSampling} does. An address (`mode: 'url'`)
   * is for the person to open: nothing opens it.
   */
  onElicitation(
    answer: (request: ElicitationRequest, context: AskContext) => ElicitationAnswer | Promise<ElicitationAnswer>,
  ): () => void {
    return this.#agent.serve(asks.elicit, async (request, context) => ({ ...(await answer(request, context)) }));
  }

  /** Serves tools of the host that ask for the folders of this agent, as {@link onSampling} does. */
  onRoots(
    answer: (request: RootsRequest, context: AskContext) => readonly McpRoot[] | Promise<readonly McpRoot[]>,
  ): () => void {
    return this.#agent.serve(asks.roots, async (request, context) => ({
      roots: (await answer(request, context)).map((root) => ({ ...root })),
    }));
  }

  /** Calls the listener for each notification of a server. Returns the function that removes the listener. */
  onNotification(listener: (notification: McpNotification) => void | Promise<void>): () => void {
    return this.#agent.on(serverPush, listener);
  }
}

/**
 * Returns the body with a text as `cursor`, where other messages have a number of the journal, which no request of an agent
 * has.
 */
const pageBody = (server: string, cursor: string): { server_id: string } =>
  ({ server_id: server, cursor }) as { server_id: string };

/** Returns the reply, or throws the error in it. */
function accepted<Reply extends { readonly error?: string; readonly refusal?: Refusal }>(reply: Reply): Reply {
  if ((reply.error ?? '') !== '' && reply.refusal !== undefined) throw refused(reply);
  return reply;
}

function refused({ error = '', refusal }: { readonly error?: string; readonly refusal?: Refusal }): HandfastError {
  const { code = 'mcp.refused', message = error, detail = {}, retryable = false } = refusal ?? {};
  return new HandfastError(code, message || 'the host refused it', { detail, capability: 'mcp', retryable });
}
