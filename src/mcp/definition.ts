/**
 * An MCP server as this side sees it: its address, its offer, its health.
 */
import type { PathGuard } from '../base/workspace/protected-paths.ts';

/** The address of a server: a program that is started, or an address of streamable HTTP. */
export interface McpAddress {
  readonly stdio?: {
    readonly command: string;
    readonly args?: readonly string[];
    /** Set over PATH, HOME, LANG, TERM and the like: no other variable of this process is passed on. */
    readonly env?: Readonly<Record<string, string>>;
    /** The whole environment, in place of `env`. */
    readonly onlyEnv?: Readonly<Record<string, string>>;
    /** Settings with which it runs with protected paths covered. */
    readonly cover?: { readonly guard: PathGuard; readonly workspace: string } | undefined;
  };
  readonly http?: { readonly url: string; readonly headers?: Readonly<Record<string, string>> };
}

/** A tool as its server defines it. */
export interface McpTool {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
  readonly outputSchema?: Readonly<Record<string, unknown>>;
  /** Hints of the server about the tool's behaviour; nothing enforces them. */
  readonly annotations?: Readonly<Record<string, unknown>>;
  /** `taskSupport`: whether a call becomes a task. */
  readonly execution?: { readonly taskSupport?: string };
}

/** The result of a call, as the Model Context Protocol has it. */
export interface McpResult {
  readonly content?: readonly Readonly<Record<string, unknown>>[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean | undefined;
}

/** A resource as its server lists it. */
export interface McpResource {
  readonly uri: string;
  readonly name?: string;
  readonly description?: string;
  readonly mimeType?: string;
  readonly annotations?: Readonly<Record<string, unknown>>;
}

/** A family of resources, whose addresses have variables in braces (RFC 6570). */
export interface McpTemplate {
  readonly uriTemplate: string;
  readonly name?: string;
  readonly description?: string;
  readonly mimeType?: string;
  readonly annotations?: Readonly<Record<string, unknown>>;
}

/** The subject of a completion: an argument of a prompt, or a variable of a template. */
export interface McpCompletion {
  readonly of: { readonly prompt: string } | { readonly uriTemplate: string };
  readonly argument: string;
  readonly value: string;
  /** The other arguments as far as they are known. */
  readonly others: Readonly<Record<string, string>>;
}

export interface McpCompleted {
  readonly values: readonly string[];
  readonly total?: number | undefined;
  readonly hasMore?: boolean | undefined;
}

/** A part of a resource: `text`, or `blob` in base64. */
export interface McpContents {
  readonly uri: string;
  readonly mimeType?: string;
  readonly text?: string;
  readonly blob?: string;
}

/** A prompt as its server lists it. */
export interface McpPrompt {
  readonly name: string;
  readonly description?: string;
  readonly arguments?: readonly { readonly name: string; readonly description?: string; readonly required?: boolean }[];
}

/** A prompt with its arguments filled in. */
export interface McpPromptText {
  readonly description?: string;
  readonly messages: readonly { readonly role: string; readonly content: Readonly<Record<string, unknown>> }[];
}

export interface McpProgress {
  readonly progress: number;
  readonly total?: number | undefined;
  readonly message?: string | undefined;
}

/** The levels of messages of a server, the least first, as syslog has them. */
export type McpLogLevel = 'debug' | 'info' | 'notice' | 'warning' | 'error' | 'critical' | 'alert' | 'emergency';

/** A server's description of itself. */
export interface McpInfo {
  readonly name: string;
  readonly version: string;
  /** Revision of the protocol that was negotiated. */
  readonly protocol: string;
}

/**
 * State of a server. `idle`: it was not needed yet. `needs_auth`: it refused for lack of a sign-in. `timeout`: it did
 * not respond while it was started.
 */
export type McpState = 'idle' | 'starting' | 'ready' | 'failed' | 'needs_auth' | 'timeout' | 'closed';

export interface McpHealth {
  readonly state: McpState;
  /** Reason why it is not ready, in one line; may contain output of the server. */
  readonly detail: string;
  /** The last lines of its standard error. */
  readonly stderr: readonly string[];
  /** Failures since it last ran well. */
  readonly failures: number;
  /** Milliseconds until it may be started again. */
  readonly retryInMs: number;
}
