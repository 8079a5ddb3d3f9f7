/**
 * What a handler is given besides its parameters: the running request as plugins and tools see it.
 *
 * `session/request.ts` implements it; plugins (`definePlugin`) and tools (`tool`) receive it.
 */

/** Who a session belongs to and what it may do. Decided at the handshake, fixed for the session. */
export interface Principal {
  /** The token's name in the configuration; `local` when no token is configured. */
  readonly name: string;
  /** Capabilities this principal may be granted; undefined = all that are loaded. */
  readonly capabilities?: readonly string[];
  /** Tool rules of this principal; undefined = all tools. */
  readonly tools?: ToolRules;
  /** Overrides of the host's limits for this principal. */
  readonly limits?: { readonly maxParallel?: number; readonly queueLimit?: number };
  /** May read every session's journal, not only its own. */
  readonly admin?: boolean;
}

/** Allow and deny by tool name (`*` as wildcard) and by risk flag. Deny wins; with an allow list, only what it names. */
export interface ToolRules {
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
  /** Risk flags whose tools are denied: see `Risk` in `capabilities/tools/tool.ts`. */
  readonly denyRisks?: readonly string[];
}

/** The session a request belongs to, as handlers see it. */
export interface SessionView {
  readonly id: string;
  readonly agentId: string;
  readonly principal: Principal;
  /** Aborted when the session ends: for work that outlives one request. */
  readonly signal: AbortSignal;
}

/** Line-oriented log of the host; goes to stderr or a file, never to the peer, never to stdout. */
export interface Log {
  debug(message: string, fields?: Record<string, unknown>): void;
  info(message: string, fields?: Record<string, unknown>): void;
  warn(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
}

/** The four kinds of event; other strings pass on the wire, but ours are these. */
export type EventKind = 'progress' | 'artifact' | 'log' | 'status';

/** The running request. */
export interface CallContext {
  /** Aborts on cancel, deadline, lost link without resume, and shutdown. `signal.reason` is a `HandfastError`. */
  readonly signal: AbortSignal;
  readonly session: SessionView;
  readonly log: Log;
  /** Absolute real path of the host's workspace; file tools must stay inside it. */
  readonly workspace: string;
  /** Milliseconds left until the deadline; `Infinity` without one. */
  remainingMs(): number;
  /**
   * Sends one event of this request. `seq` is counted here. Await it to feel the reader's backpressure; a handler that
   * never awaits fails with `slow_consumer` once the outbox bound is passed. While the reader is behind, `progress`
   * events are replaced by the newest one; no other kind is ever dropped. Does nothing when the caller asked for no
   * events, and after the reply.
   *
   * `progress` {pct 0–100, message} · `artifact` {name, mime, chunk: base64, final} · `log` {level, message} · `status` {message}
   */
  emit(kind: EventKind, data: Record<string, unknown>): Promise<void> | undefined;
}
