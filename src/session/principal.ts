/**
 * The principal of a session, and its rights. Decided at the handshake, fixed for the session's life.
 */
import type { Body, Method, Push } from '../protocol/method.ts';

/**
 * Allow and deny by tool name (`*` as wildcard) and by risk flag. Deny wins; with an allow list, only the tools that it
 * names are allowed.
 *
 * Tools that carry a risk of {@link GUARDED_RISKS} need one more grant for all principals except administrators:
 * `risks` names the risk, or `allow` names the tool itself, without a wildcard.
 */
export interface ToolRules {
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
  /** Risk flags whose tools are denied: see `Risk` in `capabilities/tools/tool.ts`. */
  readonly denyRisks?: readonly string[];
  /** Guarded risk flags whose tools are granted. */
  readonly risks?: readonly string[];
}

/** Risks that no grant covers unless it names them. */
export const GUARDED_RISKS: readonly string[] = Object.freeze(['exec', 'destructive', 'network']);

/** The sessions that an action reaches: those of the principal, or all. */
export type Reach = 'own' | 'all';

/** The sessions of the control edge that a principal sees, steers and answers approvals of. A missing member is refused. */
export interface SessionGrants {
  readonly read?: Reach;
  readonly drive?: Reach;
  readonly approve?: Reach;
}

/** A principal's rights in a fleet. A missing member is refused. */
export interface FleetGrants {
  /** Worker names it may announce, accept and deliver as; `*` stands for any letters. */
  readonly worker?: readonly string[];
  /** Pools its workers may be in; undefined = any. */
  readonly pools?: readonly string[];
  /** Hands tasks in and reads its own. */
  readonly submit?: boolean;
  /** Sees and changes every task and worker. */
  readonly operate?: boolean;
}

/** The grants of a role or a token. A missing member is refused, except by `admin`. */
export interface Grants {
  /** Capabilities that may be negotiated; `*` = all that are loaded. Undefined for an administrator: all. */
  readonly capabilities?: readonly string[];
  /** Tool rules within the capability `tools`. */
  readonly tools?: ToolRules;
  /**
   * Further rights by capability; their shape is the capability's own, which checks it and gets it as `context.grant`.
   * A grant also allows the capability.
   */
  readonly grants?: Readonly<Record<string, unknown>>;
  readonly sessions?: SessionGrants;
  /** Backends its sessions may run on; `*` stands for any letters. */
  readonly backends?: readonly string[];
  /** Model providers its sessions may use; `*` stands for any letters. Undefined = all that are configured. */
  readonly providers?: readonly string[];
  /** Programs and addresses of MCP servers that its sessions may name; `*` stands for any letters. */
  readonly mcpServers?: readonly string[];
  /** Folders beside the workspace that its sessions may work in, with all below them. Absolute real paths. */
  readonly folders?: readonly string[];
  /** Environment variables that its requests may set for programs, beside the harmless ones; `*` stands for any letters. */
  readonly env?: readonly string[];
  /** Changes provider keys, addresses, sign-ins and defaults of the server. */
  readonly settings?: boolean;
  readonly fleet?: FleetGrants;
  /** Reads status, metrics, the audit and the journals of others. */
  readonly observe?: boolean;
  /** Overrides of the host's limits. */
  readonly limits?: {
    readonly maxParallel?: number;
    readonly queueLimit?: number;
    readonly maxWaiting?: number;
    readonly maxSessions?: number;
    readonly storedBytes?: number;
    readonly maxConnections?: number;
    readonly maxInFlight?: number;
    readonly requestsPerSecond?: number;
    readonly bytesPerSecond?: number;
    readonly receiveBufferBytes?: number;
  };
  /** Everything, except the capabilities and tools that `capabilities` and `tools` of the same principal leave out. */
  readonly admin?: boolean;
}

/** The owner of a token, with all its grants: roles are merged into the grants when they are read. */
export interface Principal extends Grants {
  /** The token's name in the configuration; `local` when no token is configured. */
  readonly name: string;
  /** Of the session of a subagent: the id of the subagent. It acts for the principal of this name, with fewer rights. */
  readonly subagent?: string;
  /** For a task of the fleet, whose executor uses the environment of its worker: the id of the task. */
  readonly task?: string;
  /**
   * The principal that limits this one: it may use and call only capabilities and tools that the other may, whose own
   * `within` applies as well.
   */
  readonly within?: Principal;
}

/** Options of a host's request to an agent. */
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
  /**
   * Returns a signal that is aborted when the session ends, and when its principal may no longer use the capability,
   * whether or not the session was granted it: for work that outlives one request.
   */
  signalOf(capability: string): AbortSignal;
  /**
   * True while it ends only in this process: its host stops, and the next one restores it. Its stored state must then
   * stay.
   */
  readonly suspended?: boolean;
  /** Returns true when the capability is granted in this session. */
  granted(capability: string): boolean;
  /**
   * Sends a message that belongs to no request. It is journaled, and replayed to an agent that resumes. Returns false
   * when the session has ended or the push's capability is not granted in it; throws for content that cannot be written
   * as JSON, and `too_large`.
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
