/**
 * What every kind of sandbox is: it runs one skill at a time in a place of its own, passes its calls to the host, and ends whole
 * when the signal aborts. `runs.ts` uses one; `quickjs.ts` and `process.ts` are those there are.
 */
import type { Conversation } from './conversation.ts';

/** `quickjs`: an interpreter in a thread. `process`: a process of Node. `bubblewrap`: that process in a view of its own. */
export type Tier = 'quickjs' | 'process' | 'bubblewrap';

/** Niceness of what runs skills: the thread of the host comes first on a processor that both want, also while a sandbox starts. */
export const SANDBOX_PRIORITY = 5;

/** A skill that is to run. */
export interface Job {
  /** Texts by path. */
  readonly files: Readonly<Record<string, string>>;
  readonly entry: string;
  readonly args: unknown;
  /** A folder that the skill may read, where the sandbox can show it one. */
  readonly view?: View | undefined;
}

/** A folder, without what is protected in it. */
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
