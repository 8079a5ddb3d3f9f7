/** The configuration of a worker's MCP servers, and the results of their probes. `mcp-probe.ts` makes the probes. */
import type { Health } from '../../protocol/fleet.ts';

/** An MCP server of a worker's agent, probed by the worker itself. */
export interface McpServerOptions {
  /** As the fleet names it; compared in canonical form. */
  readonly name: string;
  /** Started for a probe and ended after it. */
  readonly stdio?: {
    readonly command: string;
    readonly args?: readonly string[];
    readonly env?: Readonly<Record<string, string>>;
  };
  /** Streamable HTTP. */
  readonly http?: { readonly url: string; readonly headers?: Readonly<Record<string, string>> };
  /** Configured but not to be used: `disabled`. */
  readonly disabled?: boolean;
}

/** Finding of a probe. */
export interface ProbeFinding {
  readonly health: Health;
  /** Names as the server has them; empty unless it is `ok`. */
  readonly tools: readonly string[];
  /** One line for people; may contain output of the server, never its input. */
  readonly detail: string;
}

export interface ProbeOptions {
  /** Folder a server is started in, absolute. */
  readonly cwd: string;
  /** Ends the probe; it then finds `unknown`. */
  readonly signal?: AbortSignal;
  /** Default 3,000. */
  readonly timeoutMs?: number;
}
