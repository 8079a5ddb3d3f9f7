/**
 * How an executor is configured: one shape for each kind. `make.ts` makes the executor; the fleet's configuration file is
 * read into these.
 */
import type { FunctionExecutorOptions } from './function.ts';

/** What all programs have. */
export interface ProgramConfig {
  /** The program, looked up in PATH when it has no slash. Default: the kind's own name. */
  readonly command?: string;
  /** More arguments. Those the adapter sets itself are left out with a warning. */
  readonly args?: readonly string[];
  /** Set in addition to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /**
   * Longest turn, milliseconds; at least a second, and rounded up to whole ones. Default: as long as the worker lets it run
   * (`agy`, which has a timer of its own: 15 minutes).
   */
  readonly timeoutMs?: number;
}

/** Any program; see `fleet/executors/programs/command.ts` for what it is given and what it may print. */
export interface CommandConfig extends ProgramConfig {
  readonly kind: 'command';
  readonly command: string;
  /**
   * `{prompt}`, `{cwd}`, `{task_id}`, `{context_id}` and `{session}` in an argument are replaced; without `{prompt}` the
   * prompt is the last argument.
   */
  readonly args?: readonly string[];
  /** `text`: what it prints is the reply. `json_lines`: see `fleet/executors/programs/command.ts`. Default `text`. */
  readonly output?: 'text' | 'json_lines';
}

export interface ClaudeConfig extends ProgramConfig {
  readonly kind: 'claude';
  readonly model?: string;
  /** Added to its system prompt. Default: a sentence on working without a person. */
  readonly role?: string;
  /** File of MCP servers. Default: `.mcp.json` of the working directory, if there is one. */
  readonly mcpConfig?: string;
}

export interface CodexConfig extends ProgramConfig {
  readonly kind: 'codex';
  readonly model?: string;
  /** What its commands may do; it brings its own sandbox. Default `workspace-write`. */
  readonly sandbox?: 'read-only' | 'workspace-write' | 'danger-full-access';
}

export interface OpencodeConfig extends ProgramConfig {
  readonly kind: 'opencode';
  /** `provider/model`. */
  readonly model?: string;
  /** One of its own agents. */
  readonly agent?: string;
}

export interface AgyConfig extends ProgramConfig {
  readonly kind: 'agy';
  readonly sandbox?: boolean;
  /** File in which it stores the last conversation of each directory. Default: its own place. */
  readonly conversationsFile?: string;
}

/** An agent of the Agent Client Protocol. */
export interface AcpConfig {
  readonly kind: 'acp';
  readonly command: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** For messages. Default: the command. */
  readonly name?: string;
  /**
   * What is answered when it asks for permission: `ask` the orchestrator's user, `allow` all (of a task that may only read:
   * what only reads), or `reject` all. Default `ask`.
   */
  readonly permissions?: 'ask' | 'allow' | 'reject';
  /** MCP servers it connects to, as that protocol or most configuration files write them. */
  readonly mcpServers?: readonly Readonly<Record<string, unknown>>[];
  readonly mode?: string;
  readonly model?: string;
  /** Time to start, and to open a session, milliseconds. Default 60,000: some agents are fetched when first run. */
  readonly startTimeoutMs?: number;
  /** Time to end a cancelled turn before the process is killed, milliseconds. Default 5,000. */
  readonly cancelTimeoutMs?: number;
}

export interface FunctionConfig extends FunctionExecutorOptions {
  readonly kind: 'function';
}

export interface RehearsalConfig {
  readonly kind: 'rehearsal';
}

/** A remote agent of A2A 1.0. */
export interface A2aConfig {
  readonly kind: 'a2a';
  /** Address of its card, or of its server. */
  readonly url: string;
  /** Reads the bearer token; asked for each request. Undefined: it wants none. */
  readonly token?: () => Promise<string>;
}

export type ExecutorConfig =
  | ClaudeConfig
  | CodexConfig
  | OpencodeConfig
  | AgyConfig
  | CommandConfig
  | AcpConfig
  | A2aConfig
  | FunctionConfig
  | RehearsalConfig;
