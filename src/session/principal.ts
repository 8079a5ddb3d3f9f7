/**
 * Who a session belongs to and what it may do. Decided at the handshake, fixed for the session's life.
 */
import type { Body, Method, Push } from '../protocol/method.ts';

/** Allow and deny by tool name (`*` as wildcard) and by risk flag. Deny wins; with an allow list, only what it names. */
export interface ToolRules {
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
  /** Risk flags whose tools are denied: see `Risk` in `capabilities/tools/tool.ts`. */
  readonly denyRisks?: readonly string[];
}

export interface Principal {
  /** The token's name in the configuration; `local` when no token is configured. */
  readonly name: string;
  /** Capabilities this principal may be granted; undefined = all that are loaded. */
  readonly capabilities?: readonly string[];
  /** Tool rules of this principal; undefined = all tools. */
  readonly tools?: ToolRules;
  /**
   * Further rights by capability; their shape is the capability's own, which checks it and gets it as `context.grant`.
   */
  readonly grants?: Readonly<Record<string, unknown>>;
  /** Overrides of the host's limits for this principal. */
  readonly limits?: { readonly maxParallel?: number; readonly queueLimit?: number };
  /** May read every session's journal, not only its own. */
  readonly admin?: boolean;
}

/** How the host asks an agent. */
export interface AskOptions {
  /** Time limit in milliseconds. Default 60,000; 0 = none. It continues while the agent has no link. */
  readonly timeoutMs?: number;
  /** Withdraws the request. */
  readonly signal?: AbortSignal;
}

/** The session a request belongs to, as handlers see it. */
export interface SessionView {
  readonly id: string;
  readonly agentId: string;
  readonly principal: Principal;
  /** Aborted when the session ends: for work that outlives one request. */
  readonly signal: AbortSignal;
  /** True when the capability is granted in this session. */
  granted(capability: string): boolean;
  /**
   * Sends a message that belongs to no request. It is journaled, and replayed to an agent that resumes. Returns false
   * when the session has ended or the push's capability is not granted in it; throws what cannot be written as JSON, and
   * `too_large`.
   */
  push<Content extends object>(push: Push<Content>, content: Content): boolean;
  /**
   * Asks the agent. The request outlives a lost link: the agent gets it, and the host its reply, exactly once.
   *
   * Rejects with `no_handler` when the agent serves no such request, `capability_missing`, `timeout`, `cancelled`,
   * `over_capacity`, the agent's own error, or the reason the session ended.
   */
  ask<Request extends object, Reply extends object>(
    method: Method<Request, Reply>,
    body: Body<Request>,
    options?: AskOptions,
  ): Promise<Body<Reply>>;
}
