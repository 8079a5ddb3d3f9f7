/**
 * The workers of this user that run on this machine in separate processes, with their repositories: an orchestrator of the same
 * user verifies their results there, on whichever bus they joined.
 *
 * `handfast worker` writes these records; a fleet reads them when a worker joins. Only this user can write the folder, so the
 * repository is not a claim of the worker's peer.
 */
import { join } from 'node:path';
import { findProcesses, registerProcess } from '../running-processes.ts';

/** Data that a running worker publishes about itself. */
export interface RunningWorker {
  readonly pid: number;
  /** Its name in the fleet. */
  readonly id: string;
  /** Absolute path of its repository. */
  readonly repo: string;
}

const folderOf = (home: string): string => join(home, 'running-workers');

/** Writes the file of a running worker (0600 in a folder of 0700); resolves with the function that removes it again. */
export const registerRunningWorker = (home: string, worker: RunningWorker): Promise<() => Promise<void>> =>
  registerProcess(folderOf(home), `${worker.id}-${worker.pid}`, worker);

/** Returns the repository of the worker of this name on this machine; undefined when none runs, or more than one. */
export async function repositoryHere(home: string, id: string): Promise<string | undefined> {
  const running = await findProcesses(folderOf(home), ({ id: name, repo }, pid): RunningWorker | undefined =>
    typeof name === 'string' && typeof repo === 'string' ? { pid, id: name, repo } : undefined,
  );
  const [found, ...others] = running.filter((worker) => worker.id === id);
  return others.length === 0 ? found?.repo : undefined;
}
