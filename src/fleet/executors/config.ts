/**
 * The configuration of an executor, one shape for each kind. The fleet's configuration file is read into these shapes;
 * `make.ts` makes the executor from them.
 */
import type { FunctionExecutorOptions } from './function.ts';

/** Settings of every program. */
export interface ProgramConfig {
  /** The program, looked up in PATH when it has no slash. Default: the kind's own name. */
  readonly command?: string;
  /** More arguments. Arguments that the adapter sets itself are left out with a warning. */
  readonly args?: readonly string[];
  /** Set in addition to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /**
   * Timeout of a turn, milliseconds; at least a second, rounded up to whole seconds. Default: the limit of the worker (`agy`,
   * which has its own timer: 15 minutes).
   */
  readonly timeoutMs?: number;
}

/** Any program; `fleet/executors/programs/command.ts` describes its input and output. */
export interface CommandConfig extends ProgramConfig {
  readonly kind: 'command';
  readonly command: string;
  /**
   * `{prompt}`, `{cwd}`, `{task_id}`, `{context_id}` and `{session}` in an argument are replaced; without `{prompt}` the
   * prompt is the last argument.
   */
  readonly args?: readonly string[];
  /** `text`: its output is the reply. `json_lines`: see `fleet/executors/programs/command.ts`. Default `text`. */
  readonly output?: 'text' | 'json_lines';
}

export interface ClaudeConfig extends ProgramConfig {
  readonly kind: 'claude';
  readonly model?: string;
  /** Added to its system prompt. Default: a sentence on working without a person. */
  readonly role?: string;
  /** File of MCP servers. Default: `.mcp.json` of the working directory, if it exists. */
  readonly mcpConfig?: string;
}

export interface CodexConfig extends ProgramConfig {
  readonly kind: 'codex';
  readonly model?: string;
  /** Mode of its own sandbox, which limits its commands. Default `workspace-write`. */
  readonly sandbox?: 'read-only' | 'workspace-write' | 'danger-full-access';
}

export interface OpencodeConfig extends ProgramConfig {
  readonly kind: 'opencode';
  /** `provider/model`. */
  readonly model?: string;
  /** An agent of the program's configuration. */
  readonly agent?: string;
}

export interface AgyConfig extends ProgramConfig {
  readonly kind: 'agy';
  readonly sandbox?: boolean;
  /** File in which it stores the last conversation of each directory. Default: the program's own default path. */
  readonly conversationsFile?: string;
}

/** An agent of the Agent Client Protocol. */
export interface AcpConfig {
  readonly kind: 'acp';
  readonly command: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Name in messages. Default: the command. */
  readonly name?: string;
  /**
   * Policy for its permission requests: `ask` the orchestrator's user, `allow` all of them (in a task with read access: only
   * reading ones), or `reject` all. Default `ask`.
   */
  readonly permissions?: 'ask' | 'allow' | 'reject';
  /** MCP servers it connects to, in the form of that protocol or of common configuration files. */
  readonly mcpServers?: readonly Readonly<Record<string, unknown>>[];
  readonly mode?: string;
  readonly model?: string;
  /** Timeout for the start and for opening a session, milliseconds. Default 60,000: the first start may download the agent. */
  readonly startTimeoutMs?: number;
  /** Timeout for a cancelled turn to end before the process is killed, milliseconds. Default 5,000. */
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
  /** Reads the bearer token; called for each request. Undefined: the agent needs none. */
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
