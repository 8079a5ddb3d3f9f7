/**
 * The tools capability of an agent: `agent.tools`. Present only when the agent asked for `tools`.
 */
import type { Call, CallOptions, MethodCaller } from '../../connection/call.ts';
import { answered } from '../../protocol/method.ts';
import { HandfastError } from '../../wire/errors.ts';
import { type ToolCallResp, type ToolDescription, type ToolResult, toolCall, toolList } from './messages.ts';
import * as replies from './tools.replies.generated.ts';

const callTool = answered(toolCall, replies.ToolCallResp);
const listTools = answered(toolList, replies.ToolListResp);

export interface ToolFilterOptions {
  /** Only tools of this kind. */
  readonly kind?: string;
  /** Only tools that have every one of these tags. */
  readonly tags?: readonly string[];
  /** True: also tools that plain lists leave out. */
  readonly includeDeferred?: boolean;
}

export interface ToolCallOptions extends CallOptions {
  /** Free text stored with the call, e.g. a turn's id. */
  readonly correlationId?: string;
}

/** The parts of an agent that the tools client needs. */
export interface ToolsAgent {
  readonly calls: MethodCaller;
  readonly sessionId: string;
  /** Throws `capability_missing` when tools were asked for but not granted. */
  require(capability: 'tools'): void;
}

export class ToolsClient {
  readonly #agent: ToolsAgent;

  constructor(agent: ToolsAgent) {
    this.#agent = agent;
  }

  /** Returns the tools of the host, without deferred ones unless the filter includes them. */
  list(filter: ToolFilterOptions = {}, options: CallOptions = {}): Call<readonly ToolDescription[]> {
    return this.#list('', filter, options);
  }

  /** Returns the tools that fit a search, best match first. Deferred tools take part unless `includeDeferred` is false. */
  search(query: string, filter: ToolFilterOptions = {}, options: CallOptions = {}): Call<readonly ToolDescription[]> {
    return this.#list(query, { includeDeferred: true, ...filter }, options);
  }

  /**
   * Calls a tool. Await it for the result, iterate it for the events before the result.
   *
   * Rejects with the host's code: `unknown_tool`, `tool_denied`, `schema_violation` (`detail.path`), `tool_error`,
   * `timeout`, `cancelled`, `over_capacity`, `connection_lost`, …
   */
  call<Data = unknown>(
    name: string,
    args: Readonly<Record<string, unknown>> = {},
    options: ToolCallOptions = {},
  ): Call<ToolResult & { data?: Data }> {
    this.#agent.require('tools');
    const { calls } = this.#agent;
    const timeoutMs = options.timeoutMs ?? calls.limits.timeoutMs;
    return calls.call(
      callTool,
      {
        session_id: this.#agent.sessionId,
        tool_name: name,
        arguments: args as Record<string, unknown>,
        correlation_id: options.correlationId ?? '',
        streaming: false,
        // Whole seconds, rounded up: the client's deadline is the exact one, and other hosts refuse fractions.
        timeout: Math.ceil(timeoutMs / 1000),
      },
      options,
      resultOf as (reply: ToolCallResp) => ToolResult & { data?: Data },
    );
  }

  #list(query: string, filter: ToolFilterOptions, options: CallOptions): Call<readonly ToolDescription[]> {
    this.#agent.require('tools');
    const body = {
      filter_kind: filter.kind ?? '',
      filter_tags: [...(filter.tags ?? [])],
      query,
      include_deferred: filter.includeDeferred ?? false,
    };
    return this.#agent.calls.call(listTools, body, options, (reply) => reply.tools ?? []);
  }
}

/** Returns the result of a call; a failed one becomes the error that other hosts would have sent. */
function resultOf({ data }: ToolCallResp): ToolResult {
  if (data.success) return data;
  throw new HandfastError(data.error_code || 'tool_error', data.error || 'the tool failed', {
    detail: { result: data },
  });
}
