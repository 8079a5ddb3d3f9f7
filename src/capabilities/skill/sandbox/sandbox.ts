/**
 * What every kind of sandbox is: it runs one skill at a time in a place of its own, passes its calls to the host, and ends whole
 * when the signal aborts. `runs.ts` uses one; `quickjs.ts` is one.
 */
import type { Conversation } from './conversation.ts';

export type Tier = 'quickjs';

/** A skill that is to run. */
export interface Job {
  /** Texts by path. */
  readonly files: Readonly<Record<string, string>>;
  readonly entry: string;
  readonly args: unknown;
}

export interface SandboxLimits {
  /** Memory of a run, bytes. */
  readonly memoryBytes: number;
  /** Sandboxes that wait, warm, for their skill. */
  readonly warm: number;
}

/** What was found out by trying. */
export interface Probe {
  /** Whether a skill in it reaches the network. */
  readonly network: 'blocked' | 'open';
  /** Limits of the system that are in force, by name. */
  readonly limits: Readonly<Record<string, number>>;
}

export interface Sandbox {
  readonly tier: Tier;
  /** Tries it by running something. Rejects with an error that says what does not work. */
  probe(): Promise<Probe>;
  /**
   * Runs a job; the conversation gets what it says. Resolves when nothing of it runs any more, however it ended: by itself, or
   * because the signal aborted. Rejects when it could not be started.
   */
  run(job: Job, conversation: Conversation, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}
