/**
 * The toolkits capability of an agent: `agent.toolkits`. Present only when the agent asked for `toolkits`. `agent.tools` lists
 * and calls tools of toolkits, and needs the capability `tools` too.
 *
 * Hosts of plain A2E 1.0 serve only `list` and `configure`.
 * @see docs/toolkits.md
 */
import type { AgentSession } from '../../agent/agent.ts';
import type { Call, CallOptions } from '../../connection/call.ts';
import { answered } from '../../protocol/method.ts';
import { HandfastError } from '../../wire/errors.ts';
import type { ToolDescription } from '../tools/messages.ts';
import * as messages from './messages.ts';
import * as replies from './toolkits.replies.generated.ts';
import type { FieldError, ToolkitConfigureResp, ToolkitInfo } from './toolkits.schema.ts';

const calls = {
  list: answered(messages.toolkitList, replies.ToolkitListResp),
  configure: answered(messages.toolkitConfigure, replies.ToolkitConfigureResp),
  describe: answered(messages.toolkitDescribe, replies.ToolkitDescribeResp),
  enable: answered(messages.toolkitEnable, replies.ToolkitEnableResp),
  disable: answered(messages.toolkitDisable, replies.ToolkitDisableResp),
  search: answered(messages.toolkitSearch, replies.ToolkitSearchResp),
};

export type { FieldError, ToolkitInfo };

export interface ToolkitListOptions extends CallOptions {
  /** Only toolkits of this category. */
  readonly category?: string;
  /** Only toolkits that have every one of these tags. */
  readonly tags?: readonly string[];
  /** The session of the toolkits. Default: this session. */
  readonly session?: string;
}

export interface ToolkitOptions extends CallOptions {
  /** The session of the toolkits: one of this principal, or any for an administrator. Default: this session. */
  readonly session?: string;
}

export interface ToolkitSearchOptions extends CallOptions {
  /** Only tools of this toolkit. Default: of all enabled toolkits. */
  readonly toolkit?: string;
  /** Maximum number of tools. Default 5. */
  readonly limit?: number;
  /** False: deferred tools that were found stay out of plain lists. Default true. */
  readonly load?: boolean;
}

/** A toolkit with the definitions of its tools. */
export interface DescribedToolkit {
  readonly toolkit: ToolkitInfo;
  readonly definitions: readonly ToolDescription[];
}

export interface FoundTools {
  /** Best match first. */
  readonly tools: readonly ToolDescription[];
  /** Tools that plain lists did not have before. */
  readonly loaded: readonly string[];
  /** Estimated tokens that their definitions cost a model. */
  readonly tokens: number;
}

export class ToolkitsClient {
  readonly #agent: AgentSession;

  constructor(agent: AgentSession) {
    this.#agent = agent;
  }

  /** Returns the toolkits that this principal may use. */
  list({ category = '', tags = [], session, ...options }: ToolkitListOptions = {}): Call<readonly ToolkitInfo[]> {
    const body = { filter_kind: category, filter_tags: [...tags], ...forSession(session) };
    return this.#agent.calls.call(calls.list, body, options, ({ toolkits }) => toolkits);
  }

  /** Returns one toolkit with the definitions of its tools. Rejects with `toolkits.unknown`. */
  describe(name: string, { session, ...options }: ToolkitOptions = {}): Call<DescribedToolkit> {
    const body = { toolkit_name: name, ...forSession(session) };
    return this.#agent.calls.call(calls.describe, body, options, ({ toolkit, definitions }) => ({
      toolkit,
      definitions,
    }));
  }

  /**
   * Configures a toolkit for the session, in place of its former configuration, and enables it. Fields of format `secret` get
   * the name of a secret of the host, never its value. Rejects with `toolkits.invalid` (`detail.errors`: `path`, `message`),
   * and changes nothing then; `toolkits.unknown`.
   */
  configure(
    name: string,
    config: Readonly<Record<string, unknown>>,
    { session = this.#agent.sessionId, ...options }: ToolkitOptions = {},
  ): Call<void> {
    const body = { session_id: session, toolkit_name: name, config: { ...config } };
    return this.#agent.calls.call(calls.configure, body, options, accepted);
  }

  /** Enables a toolkit, so that its tools can be called. Rejects with `toolkits.unknown`, `toolkits.not_configured`. */
  enable(name: string, { session, ...options }: ToolkitOptions = {}): Call<ToolkitInfo> {
    const body = { toolkit_name: name, ...forSession(session) };
    return this.#agent.calls.call(calls.enable, body, options, ({ toolkit }) => toolkit);
  }

  /** Disables a toolkit. Running calls of its tools continue; new ones fail with `unknown_tool`. Rejects with `toolkits.unknown`. */
  disable(name: string, { session, ...options }: ToolkitOptions = {}): Call<ToolkitInfo> {
    const body = { toolkit_name: name, ...forSession(session) };
    return this.#agent.calls.call(calls.disable, body, options, ({ toolkit }) => toolkit);
  }

  /** Finds tools of the enabled toolkits. Found deferred tools are in `agent.tools.list` from then on. */
  search(query: string, { toolkit = '', limit, load, ...options }: ToolkitSearchOptions = {}): Call<FoundTools> {
    const body = {
      query,
      toolkit_name: toolkit,
      ...(limit !== undefined && { limit }),
      ...(load !== undefined && { load }),
    };
    return this.#agent.calls.call(calls.search, body, options, ({ tools, loaded, tokens }) => ({
      tools,
      loaded,
      tokens,
    }));
  }
}

const forSession = (session: string | undefined) => (session === undefined ? {} : { session_id: session });

function accepted({ status, message, errors, refusal }: ToolkitConfigureResp): void {
  if (status !== 'error') return;
  const { code = 'toolkits.invalid', message: text = message ?? 'the host refused it', detail = {} } = refusal ?? {};
  throw new HandfastError(code, text, { detail: { ...(errors && { errors }), ...detail }, capability: 'toolkits' });
}
