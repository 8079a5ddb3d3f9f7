/**
 * Which process a number stands for, so that after a crash only what the worker itself had started is ended. A process id
 * is used again and again; together with the time it was started (and, on Linux, which boot that was) it is not.
 *
 * Called by `task-run.ts` when an executor starts a program, and by `recovery.ts`.
 */
import { endDescendants } from '../../base/children/descendants.ts';
import { findProcess, systemIdentity } from '../../base/children/process-table.ts';

/** A program of an executor; it leads a process group of its own. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Opaque text, the same for as long as the process is the same. */
  readonly started: string;
}

const TERMINATE_MS = 2000;

/** The process that has this number now; undefined when there is none, or the system does not report it. */
export async function identityOf(pid: number): Promise<ProcessIdentity | undefined> {
  const entry = await findProcess(pid);
  return entry === undefined ? undefined : { pid, started: `${systemIdentity()}/${entry.started}` };
}

/**
 * Ends the process group of `process`, and what it has started, when its leader is provably still the same process: SIGTERM,
 * 2 s, SIGKILL. Resolves with whether there was anything to end; at the latest after some 4 s.
 */
export async function endGroup({ pid, started }: ProcessIdentity): Promise<boolean> {
  const entry = await findProcess(pid);
  if (entry === undefined || started !== `${systemIdentity()}/${entry.started}`) return false;
  await endDescendants({ leaders: [entry], since: entry.started }, { graceMs: TERMINATE_MS });
  return true;
}
