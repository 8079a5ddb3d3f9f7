/**
 * Who a session belongs to and what it may do. Decided at the handshake, fixed for the session's life.
 */

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

/** The session a request belongs to, as handlers see it. */
export interface SessionView {
  readonly id: string;
  readonly agentId: string;
  readonly principal: Principal;
  /** Aborted when the session ends: for work that outlives one request. */
  readonly signal: AbortSignal;
}
