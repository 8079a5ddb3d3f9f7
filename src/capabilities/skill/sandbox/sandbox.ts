/**
 * The interface of sandboxes: each runs one skill at a time in a separate place, passes its calls to the host, and ends
 * completely when the signal aborts. `quickjs.ts` and `process.ts` implement it.
 */
import type { Conversation } from './conversation.ts';

/** `quickjs`: an interpreter in a thread. `process`: a process of Node. `bubblewrap`: that process in a separate view. */
export type Tier = 'quickjs' | 'process' | 'bubblewrap';

/**
 * Niceness of the code that runs skills: the host's thread has priority on a processor that both want, even while a sandbox
 * starts.
 */
export const SANDBOX_PRIORITY = 5;

/** A skill to run. */
export interface Job {
  /** Texts by path. */
  readonly files: Readonly<Record<string, string>>;
  readonly entry: string;
  readonly args: unknown;
  /** A folder that the skill may read, if the sandbox can show it one. */
  readonly view?: View | undefined;
}

/** A folder, without the protected paths in it. */
export interface View {
  /** Absolute real path. */
  readonly folder: string;
  /** Options of bubblewrap that show it. */
  readonly words: readonly string[];
  /** Calls back once, when the view shows a protected path. */
  readonly watch: (onLost: () => void) => () => void;
}

export interface SandboxLimits {
  /** Memory of a run, bytes. */
  readonly memoryBytes: number;
  /** Number of sandboxes that wait, warm, for a skill. */
  readonly warm: number;
}

/** The result of trying a sandbox. */
export interface Probe {
  /** Whether a skill in it reaches the network. */
  readonly network: 'blocked' | 'open';
  /** Limits of the system that are in force, by name. */
  readonly limits: Readonly<Record<string, number>>;
}

export interface Sandbox {
  readonly tier: Tier;
  /** Tries the sandbox by running something. Rejects with an error that describes the failure. */
  probe(): Promise<Probe>;
  /**
   * Runs a job; the conversation gets its messages. Resolves when nothing of it runs any more, however it ended: by itself, or
   * because the signal aborted. Rejects when it could not be started.
   */
  run(job: Job, conversation: Conversation, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}
