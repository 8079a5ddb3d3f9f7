/**
 * Options of a worker.
 */
import type { Log } from '../../base/log.ts';
import type { Timer } from '../../base/timer-queue.ts';
import type { Executor } from '../executors/executor.ts';
import type { WorkerJournal } from './journal.ts';
import type { McpServerOptions, ProbeFinding, ProbeOptions } from './mcp-servers.ts';
import type { RepositoryReader } from './repository/git.ts';
import type { TaskEnvironments } from './task-environment.ts';

export interface WorkerOptions {
  readonly agentId: string;
  readonly executor: Executor;
  /** Absolute path of the repository, or folder, the work is done in. */
  readonly cwd: string;
  /** Folder of the worker's own data: journal, outbox, worktrees. This process's alone while it runs. */
  readonly home: string;
  readonly model?: string | null;
  readonly modelTier?: string | null;
  readonly contextWindow?: number | null;
  /** Tools of the executor besides those of its MCP servers, e.g. `terminal`, `file`. */
  readonly tools: readonly string[];
  readonly mcpServers?: readonly McpServerOptions[];
  /**
   * Maximum age of the probe of an MCP server when a task that requires it is decided on, milliseconds; an older one is made
   * again first. Default 30,000.
   */
  readonly mcpAgeMs?: number;
  readonly pools?: readonly string[];
  /** Turns at once. Default 3. */
  readonly maxConcurrent?: number;
  /** Shortest time left for a task to be accepted, seconds. Default 30. */
  readonly minLeadS?: number;
  /**
   * `always`: each task that may write gets a separate git worktree. Then uncommitted changes in `cwd` stop no task, and are no
   * part of one. Default `asked`: the tasks that ask for one.
   */
  readonly worktree?: 'asked' | 'always';
  /** True: cache reads count against budgets. Default false. */
  readonly countCacheReads?: boolean;
  /** Tokens of an empty first turn: a number, or `measure` to find out once and store it. Default: unknown. */
  readonly overheadTokens?: number | 'measure' | null;
  /** Timeout of a turn, milliseconds; applies beside the deadline. Default one hour. */
  readonly turnTimeoutMs?: number;
  /** Environments that its executors may use over MCP while their task runs. Default: none. */
  readonly environments?: TaskEnvironments | undefined;
  readonly log: Log;
  /** Asked before a program that its configuration names is started for a probe; rejects where it may not be started. */
  readonly confirm?: () => Promise<void>;
  /** Epoch milliseconds. */
  readonly now?: () => number;
  /** Monotonic milliseconds. */
  readonly monotonic?: () => number;
  /** Default: the timers of the process, which do not keep it alive. */
  readonly timer?: Timer;
  readonly newId?: () => string;
}

/** Parts that a test or a simulation replaces: stores, clocks, probes and times. All optional. */
export interface WorkerDeps {
  /** Default: `worker.db` in the worker's home. */
  readonly journal?: WorkerJournal;
  /** Default: the git of this machine. */
  readonly repository?: RepositoryReader;
  /** Probes an MCP server; never rejects. Default: starts or calls it. */
  readonly probeServer?: (server: McpServerOptions, options: ProbeOptions) => Promise<ProbeFinding>;
  /** 0 ≤ x < 1, for jitter. */
  readonly random?: () => number;
  /** Time between two checks for changes, milliseconds. Default 10,000. */
  readonly checkMs?: number;
  /** Time that a change must last before it is announced, milliseconds. Default 2,000. */
  readonly debounceMs?: number;
  /** First delay before a result is sent again, milliseconds. Default 1,000. */
  readonly resendMs?: number;
  /** Longest time that one probe may take, milliseconds. Default 3,000. */
  readonly probeMs?: number;
  /** Longest time that a decision may wait for facts, milliseconds. Default 1,500. */
  readonly decideMs?: number;
}
