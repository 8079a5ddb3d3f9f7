/**
 * What runs subagents: a function of this process, a program, or what the host puts in. One subagent has one backend, which
 * does one task at a time; everything that is the same for all of them (rights, budget, deadline, results) is not its business.
 *
 * Implemented by `functions.ts`, `programs.ts` and by programs that make the plugin in code; called by `subagent.ts` alone.
 */
import type { Log } from '../../base/log.ts';
import type { Principal } from '../../session/principal.ts';
import type { Link } from '../../transport/link.ts';
import type { ChannelMessage, SubagentMessage, SubagentWork } from './multi_agent.schema.ts';

export type { SubagentWork };

/** What was spent in one task so far. Totals, not differences; what is left out has not changed. */
export interface SubagentSpending {
  readonly tokens?: number | undefined;
  readonly costUsd?: number | undefined;
  /** Beside the requests that it made of this host, which the host counts. */
  readonly steps?: number | undefined;
}

/** How a task goes, for people. */
export interface SubagentProgress {
  readonly message?: string | undefined;
  /** 0 to 100. */
  readonly percent?: number | undefined;
}

/** A subagent as its backend sees it. */
export interface SubagentFacts {
  readonly id: string;
  readonly name: string;
  readonly kind: string;
  readonly role: string;
  /** The model that was asked for; `default` for none. */
  readonly model: string;
  readonly systemPrompt: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Which tools it is to have: see `tool_scope` of `multi_agent/spawn`. */
  readonly toolScope: 'shared' | 'restricted' | 'isolated';
  /** The principal that it acts for. */
  readonly principal: string;
  /** The session on this host whose agent made it. */
  readonly madeIn: string;
}

/** What a backend may do for its subagent. */
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
  /** What the subagent may do, by what its principal may do now; undefined once it has ended. */
  rights(principal: Principal): Principal | undefined;
  /** A slot for one child process, until the returned function is called. Rejects with `over_capacity`. */
  acquireProcess(): Promise<() => void>;
  /** The subagent can do nothing any more: it ends. */
  lost(reason: string): void;
}

/** A running task as its backend sees it. */
export interface SubagentTaskContext {
  /** Aborts on cancel, deadline, a spent budget and the end of the subagent; the reason is a `HandfastError`. */
  readonly signal: AbortSignal;
  /** Reports how it goes; seen by the agents above. */
  progress(progress: SubagentProgress): void;
  /** Reports what was spent; may abort `signal`. */
  spent(spending: SubagentSpending): void;
  /**
   * Reports that it waits for a person: an approval, an answer. The subagent is `WAITING` until it is called without a reason, or the
   * task ends.
   */
  waiting(reason?: string): void;
}

/** What a task has given. */
export interface SubagentResult {
  readonly result: unknown;
  /** How good the subagent finds it. */
  readonly score?: number | undefined;
  /** What came of checking what it claims, where the backend did. */
  readonly verified?: 'yes' | 'no' | 'not_checked' | undefined;
}

/** A subagent that runs. */
export interface RunningSubagent {
  /**
   * Does one task. A rejection is its failure. It should settle soon after `signal` aborts: what does not within two seconds
   * is abandoned, and the subagent ends.
   */
  run(task: SubagentWork, context: SubagentTaskContext): Promise<SubagentResult>;
  /** Gives it a message. Absent: it takes none. False: not now. */
  deliver?(from: string, message: SubagentMessage): boolean;
  /** Gives it what another agent said in a channel that it is in. Absent: its session with this host alone gets that, as a push. */
  said?(channel: string, said: ChannelMessage): void;
  /** The session of session RPC whose turns are its tasks. Absent: there is none. */
  readonly controlSession?: string;
  /** Hands tasks to the session of the subagent, where that fetches them. */
  readonly fetched?: FetchedTasks;
  /** Ends it. Bounded, never rejects. */
  close(): Promise<void>;
}

/** The tasks of a subagent that asks for them over its session. */
export interface FetchedTasks {
  /** The next task; undefined when the wait was over. */
  next(signal: AbortSignal, waitMs: number | undefined): Promise<SubagentWork | undefined>;
  /** Reports of a task. False: it has ended. */
  report(taskId: string, progress: SubagentProgress, spending: SubagentSpending): boolean;
  /** The end of a task. False: it had ended before. */
  finish(taskId: string, outcome: SubagentResult | { readonly error: string }): boolean;
}

export interface SubagentBackend {
  /** `function`, `command`, …; shown in lists. */
  readonly name: string;
  /** Starts a subagent. Rejects where that is not possible. */
  open(subagent: SubagentFacts, host: SubagentHost): Promise<RunningSubagent> | RunningSubagent;
  /** The host has stopped, and every subagent has ended. Bounded, never rejects. */
  stop?(): Promise<void>;
}
