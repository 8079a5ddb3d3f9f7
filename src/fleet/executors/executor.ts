/**
 * The executor contract: an executor does the work of a task. It runs one turn in one conversation, reports usage while it
 * runs, and stops on a signal.
 *
 * The other files of this folder implement it. The worker owns everything that must be equal for every executor: budget,
 * deadline, lease, reply extraction.
 */
import type { Usage } from '../../protocol/fleet.ts';

/** One piece of work. */
export interface ExecutorTask {
  readonly taskId: string;
  /** Conversation to continue, or to start. Executors store durably the data they need to find it again. */
  readonly contextId: string;
  /** The whole prompt: brief, rules of the reply, the absolute working directory. */
  readonly prompt: string;
  /** Tokens left at the start; null = no limit. For executors that can use it; the worker enforces it anyway. */
  readonly tokenBudget: number | null;
  readonly access: 'read' | 'write';
}

/** The events of a turn for the worker. None of these throws. */
export interface ExecutorEvents {
  /** Reports activity; `note` is one line for people, `percent` 0–100 where known. */
  progress(phase: string, note?: string, percent?: number): void;
  /** Reports the tokens of this turn so far: totals, not differences. */
  usage(total: Usage): void;
  /** Reports that a program was started for this task; for the journal and for cleaning up after a crash. */
  started(pid: number): void;
  /**
   * Reports MCP servers as the executor itself found them (canonical name → health), when it reports them. A task that requires
   * one which is not `ok` ends as refused. `whole` false: the state of servers that are left out is unknown. Default: they are
   * missing.
   */
  mcpHealth(found: ReadonlyMap<string, string>, whole?: boolean): void;
  /** Asks the orchestrator's user and waits; resolves refused when no user can be asked or it expired. */
  ask(question: ExecutorQuestion): Promise<ExecutorAnswer>;
}

export interface ExecutorQuestion {
  readonly kind: 'tool' | 'question';
  readonly title: string;
  readonly tool?: { readonly name: string; readonly input: Readonly<Record<string, unknown>> };
  readonly risks?: readonly string[];
  /** JSON Schema of the answer's `content`. */
  readonly schema?: Readonly<Record<string, unknown>>;
}

export interface ExecutorAnswer {
  readonly allowed: boolean;
  readonly content?: Readonly<Record<string, unknown>>;
  readonly reason?: string;
}

/**
 * The environment of the worker for one task: an MCP server over streamable HTTP. The executor connects to it with
 * `Authorization: Bearer <token>`, and passes the token where no other user and no log can read it: never in an argument.
 */
export interface ExecutorEnvironment {
  /** The name the executor knows the server by. */
  readonly name: string;
  readonly url: string;
  /** Valid until the task ends. */
  readonly token: string;
}

export interface ExecutorContext {
  /** Absolute working directory: the repository, or the task's own worktree. From configuration, never from a message. */
  readonly cwd: string;
  /** Aborts on cancel, deadline, budget, a lost lease, shutdown; the reason is a `HandfastError`. */
  readonly signal: AbortSignal;
  readonly events: ExecutorEvents;
  /** Undefined: this worker has none, or the task may use nothing of it. */
  readonly environment?: ExecutorEnvironment | undefined;
}

/** The end of a turn. */
export interface ExecutorOutcome {
  /** The text of the reply; may contain a TASK_RESULT. A stopped turn has its partial reply. */
  readonly text: string;
  /**
   * `completed`: it ended by itself. `limit`: it reached its own turn or token limit. `refused`: by the model. `stopped`: by
   * the executor.
   */
  readonly ending: 'completed' | 'limit' | 'refused' | 'stopped';
  /** Exit code of a program; null otherwise. */
  readonly exitCode: number | null;
  /** `source: 'unknown'` without a record of the executor. */
  readonly usage: Usage;
  /** The reason the turn failed, in one line; set when the text cannot be used as a reply. */
  readonly failure?: string;
  /** Irregularities for the operator, e.g. drift of a stored baseline. */
  readonly warnings?: readonly string[];
  /** Facts for an artifact of the result, e.g. a working directory that differs from the requested one. */
  readonly facts?: Readonly<Record<string, unknown>>;
}

/** A running turn. */
export interface Execution {
  /** Rejects with a `HandfastError` only when the turn could not start; a failed turn is an outcome. */
  readonly outcome: Promise<ExecutorOutcome>;
  /** Sends more input; resolves with its outcome. Absent: it accepts none. */
  steer?(text: string): Promise<'injected' | 'queued' | 'rejected'>;
}

/** Readiness of an executor to work now; probed, cached by the worker. */
export interface Readiness {
  /** The program is installed. */
  readonly present: boolean;
  /** True when it is signed in; undefined when that is unknown. */
  readonly authenticated?: boolean;
  /** One line for people. */
  readonly detail: string;
  readonly version?: string;
}

export interface Executor {
  /** `claude`, `codex`, `opencode`, `agy`, `command`, `acp`, `a2a`, `function`, `rehearsal`. */
  readonly kind: string;
  /** True when it accepts input during a turn (`steer`), and when it can ask the user. */
  readonly canSteer: boolean;
  readonly canAsk: boolean;
  /** Spends no tokens and starts no turn. Bounded at 3 s, never rejects. */
  probe(signal: AbortSignal): Promise<Readiness>;
  /** True when it has stored a conversation for this context. */
  hasConversation(contextId: string): boolean;
  /** Starts a turn. At most one per context runs at a time; the worker sees to that. */
  start(task: ExecutorTask, context: ExecutorContext): Execution;
  /** Measures the tokens of an empty first turn; null when it cannot. Absent: not supported. */
  measureOverhead?(context: Pick<ExecutorContext, 'cwd' | 'signal'>): Promise<number | null>;
  /** Stops the running turns. Bounded, never rejects. */
  stop(): Promise<void>;
}
