/**
 * The executor contract: what really does a task. One turn of work in one conversation, with live usage, under a signal.
 *
 * Implemented by the other files of this folder; called by `worker/` alone, which owns budget, deadline, lease, reply
 * extraction and everything else that must be the same for every executor.
 */
import type { Usage } from '../../protocol/fleet.ts';

/** One piece of work. */
export interface ExecutorTask {
  readonly taskId: string;
  /** Conversation to continue, or to start. Executors store durably what they need to find it again. */
  readonly contextId: string;
  /** The whole prompt: brief, rules of the reply, the absolute working directory. */
  readonly prompt: string;
  /** Tokens left at the start; null = no limit. For executors that can use it; the worker enforces it anyway. */
  readonly tokenBudget: number | null;
  readonly access: 'read' | 'write';
}

/** The events of a turn for the worker. None of these throws. */
export interface ExecutorEvents {
  /** It is alive and did something; `note` is one line for people, `percent` 0–100 where known. */
  progress(phase: string, note?: string, percent?: number): void;
  /** Tokens of this turn so far: totals, not differences. */
  usage(total: Usage): void;
  /** A program was started for this task; for the journal and for cleaning up after a crash. */
  started(pid: number): void;
  /** MCP servers as the executor itself found them (canonical name → health), when it reports them. */
  mcpHealth(found: ReadonlyMap<string, string>): void;
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

export interface ExecutorContext {
  /** Absolute path the work is done in: the repository, or the task's own worktree. From configuration, never a message. */
  readonly cwd: string;
  /** Aborts on cancel, deadline, budget, a lost lease, shutdown; the reason is a `HandfastError`. */
  readonly signal: AbortSignal;
  readonly events: ExecutorEvents;
}

/** How a turn ended. */
export interface ExecutorOutcome {
  /** The reply's text; may hold a TASK_RESULT. Also set, with what there is, when the turn was stopped. */
  readonly text: string;
  /** `completed`: it ended by itself. `limit`: it met its own turn or token limit. `refused`, `stopped`: by their names. */
  readonly ending: 'completed' | 'limit' | 'refused' | 'stopped';
  /** Exit code of a program; null otherwise. */
  readonly exitCode: number | null;
  /** `source: 'unknown'` when it left no record. */
  readonly usage: Usage;
  /** The executor's own report that it failed, in a line; set when the text is not worth reading. */
  readonly failure?: string;
  /** Something odd the reader should know, e.g. drift of a stored baseline. */
  readonly warnings?: readonly string[];
  /** The working directory differs from the one asked for, and the like: worth an artifact. */
  readonly facts?: Readonly<Record<string, unknown>>;
}

/** A turn that runs. */
export interface Execution {
  /** Never rejects for what the executor did; rejects with a `HandfastError` when it could not be run at all. */
  readonly outcome: Promise<ExecutorOutcome>;
  /** Sends more input; resolves with its outcome. Absent: it accepts none. */
  steer?(text: string): Promise<'injected' | 'queued' | 'rejected'>;
}

/** Whether an executor could work now; probed, cached by the worker. */
export interface Readiness {
  /** The program is installed. */
  readonly present: boolean;
  /** It is signed in; undefined when that is unknown. */
  readonly authenticated?: boolean;
  /** One line for people. */
  readonly detail: string;
  readonly version?: string;
}

export interface Executor {
  /** `claude`, `codex`, `opencode`, `agy`, `command`, `acp`, `a2a`, `function`, `rehearsal`. */
  readonly kind: string;
  /** Which extras it has. */
  readonly canSteer: boolean;
  readonly canAsk: boolean;
  /** Spends no tokens and starts no turn. Bounded at 3 s, never rejects. */
  probe(signal: AbortSignal): Promise<Readiness>;
  /** True when it has a conversation for this context already. */
  hasConversation(contextId: string): boolean;
  /** Starts a turn. At most one per context runs at a time; the worker sees to that. */
  start(task: ExecutorTask, context: ExecutorContext): Execution;
  /** Measures what an empty first turn costs, where that is wanted; null when it cannot. */
  measureOverhead?(context: Pick<ExecutorContext, 'cwd' | 'signal'>): Promise<number | null>;
  /** Ends what still runs. Bounded, never rejects. */
  stop(): Promise<void>;
}
