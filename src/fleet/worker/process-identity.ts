/**
 * The process that a number stands for, so that after a crash only processes that the worker itself had started are ended. A
 * process id is used again and again; together with the time it was started (and, on Linux, which boot that was) it is not.
 */
import { endDescendants } from '../../base/children/descendants.ts';
import { findProcess, systemIdentity } from '../../base/children/process-table.ts';

/** A program of an executor; it leads a process group. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Opaque text, the same for as long as the process is the same. */
  readonly started: string;
}

const TERMINATE_MS = 2000;

/** Returns the process that has this number now; undefined when none has, or the system does not report it. */
export async function identityOf(pid: number): Promise<ProcessIdentity | undefined> {
  const entry = await findProcess(pid);
  return entry === undefined ? undefined : { pid, started: `${systemIdentity()}/${entry.started}` };
}

/**
 * Ends the process group of `process`, and the processes it has started, when its leader is provably still the same process:
 * SIGTERM, 2 s, SIGKILL. Resolves with whether it had anything to end; at the latest after some 4 s.
 */
export async function endGroup({ pid, started }: ProcessIdentity): Promise<boolean> {
  const entry = await findProcess(pid);
  if (entry === undefined || started !== `${systemIdentity()}/${entry.started}`) return false;
  await endDescendants({ leaders: [entry], since: entry.started }, { graceMs: TERMINATE_MS });
  return true;
}
