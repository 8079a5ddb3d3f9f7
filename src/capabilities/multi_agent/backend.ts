/**
 * The interface of backends, which run subagents: a function of this process, a program, or a backend of the host. A subagent
 * has one backend, which does one task at a time; the backend does not deal with the common parts of subagents (rights, budget,
 * deadline, results).
 *
 * Implemented by `functions.ts`, `programs.ts` and by programs that make the plugin in code.
 */
import type { Log } from '../../base/log.ts';
import type { Principal } from '../../session/principal.ts';
import type { Link } from '../../transport/link.ts';
import type { ChannelMessage, SubagentMessage, SubagentWork } from './multi_agent.schema.ts';

export type { SubagentWork };

/** Amounts spent in one task so far. Totals, not differences; an absent member has not changed. */
export interface SubagentSpending {
  readonly tokens?: number | undefined;
  readonly costUsd?: number | undefined;
  /** Steps beside the requests that it made of this host, which the host counts. */
  readonly steps?: number | undefined;
}

/** Progress of a task, for people. */
export interface SubagentProgress {
  readonly message?: string | undefined;
  /** 0 to 100. */
  readonly percent?: number | undefined;
}

/** A subagent, as its backend sees it. */
export interface SubagentFacts {
  readonly id: string;
  readonly name: string;
  readonly kind: string;
  readonly role: string;
  /** The requested model; `default` for none. */
  readonly model: string;
  readonly systemPrompt: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Scope of its tools: see `tool_scope` of `multi_agent/spawn`. */
  readonly toolScope: 'shared' | 'restricted' | 'isolated';
  /** The principal that it acts for. */
  readonly principal: string;
  /** The session on this host whose agent made it. */
  readonly madeIn: string;
}

/** The functions of the host that a backend may use for its subagent. */
export interface SubagentHost {
  /** Absolute path of the workspace. */
  readonly workspace: string;
  readonly log: Log;
  /** Aborts when the subagent ends. */
  readonly signal: AbortSignal;
  /**
   * Serves a link as a session of the subagent, with its rights.
   * @param counted false: its requests are no steps of the task; the backend reports steps itself. Default true.
   */
  accept(link: Link, counted?: boolean): void;
  /**
   * Returns the rights of the subagent, derived from the present rights of its principal; undefined once the subagent has
   * ended.
   */
  rights(principal: Principal): Principal | undefined;
  /** Acquires a slot for one child process, until the returned function is called. Rejects with `over_capacity`. */
  acquireProcess(): Promise<() => void>;
  /** Ends the subagent, which cannot continue. */
  lost(reason: string): void;
}

/** A running task, as its backend sees it. */
export interface SubagentTaskContext {
  /** Aborts on cancel, deadline, a spent budget and the end of the subagent; the reason is a `HandfastError`. */
  readonly signal: AbortSignal;
  /** Reports progress to the agents above. */
  progress(progress: SubagentProgress): void;
  /** Reports spent amounts; may abort `signal`. */
  spent(spending: SubagentSpending): void;
  /**
   * Reports that the task waits for a person: an approval, an answer. The subagent is `WAITING` until a call without a reason,
   * or until the task ends.
   */
  waiting(reason?: string): void;
}

/** The result of a task. */
export interface SubagentResult {
  readonly result: unknown;
  /** The subagent's rating of its result. */
  readonly score?: number | undefined;
  /** The outcome of verifying its claims, if the backend did that. */
  readonly verified?: 'yes' | 'no' | 'not_checked' | undefined;
}

/** A running subagent. */
export interface RunningSubagent {
  /**
   * Does one task. A rejection is its failure. It should settle soon after `signal` aborts: a task that does not settle within
   * two seconds is abandoned, and the subagent ends.
   */
  run(task: SubagentWork, context: SubagentTaskContext): Promise<SubagentResult>;
  /** Delivers a message. Absent: the subagent accepts none. Returns false if it accepts none at the moment. */
  deliver?(from: string, message: SubagentMessage): boolean;
  /**
   * Delivers a message of another agent in a channel that it is in. Absent: only its session with this host gets the message,
   * as a push.
   */
  said?(channel: string, said: ChannelMessage): void;
  /** The session of session RPC whose turns are its tasks. Absent: none. */
  readonly controlSession?: string;
  /** Hands tasks to the session of the subagent, if that fetches them. */
  readonly fetched?: FetchedTasks;
  /** Ends the subagent. Bounded, never rejects. */
  close(): Promise<void>;
}

/** The tasks of a subagent that fetches them over its session. */
export interface FetchedTasks {
  /** Resolves with the next task; undefined when the wait was over. */
  next(signal: AbortSignal, waitMs: number | undefined): Promise<SubagentWork | undefined>;
  /** Reports progress of a task. Returns false if the task has ended. */
  report(taskId: string, progress: SubagentProgress, spending: SubagentSpending): boolean;
  /** Ends a task. Returns false if the task had ended before. */
  finish(taskId: string, outcome: SubagentResult | { readonly error: string }): boolean;
}

export interface SubagentBackend {
  /** `function`, `command`, …; shown in lists. */
  readonly name: string;
  /** Starts a subagent. Rejects if that is not possible. */
  open(subagent: SubagentFacts, host: SubagentHost): Promise<RunningSubagent> | RunningSubagent;
  /** Called after the host has stopped, and every subagent has ended. Bounded, never rejects. */
  stop?(): Promise<void>;
}
