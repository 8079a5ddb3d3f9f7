/**
 * A time limit for synchronous work on expressions and schemas that a user wrote: a regular expression of a policy or
 * of a schema can take for ever.
 *
 * It counts the processor time of this thread. On a busy machine quick work may wait long for the processor; that is
 * not the fault of the work, so it runs again with more time.
 */
import { createContext, Script } from 'node:vm';

/**
 * Runs work; throws when it took longer than the limit. Errors of the work pass through. Work that a busy machine
 * delayed is started again, so it must change nothing.
 */
export type TimeLimit = <T>(work: () => T) => T;

/** The virtual machine isolates nothing here (no user's text runs as code): it can stop a running function. */
const bounded = new Script('work()');

/** Longest wait for the processor, as a multiple of the limit. */
const MOST_TIMES = 16;

/**
 * Returns a limit for each run, in milliseconds of processor time, of which half may be lost to other threads
 * unnoticed. Costs about 0.1 ms a run.
 */
export function timeLimit(limitMs: number): TimeLimit {
  const scope: { work?: () => unknown } = {};
  const context = createContext(scope);
  return <T>(work: () => T): T => {
    const before = scope.work;
    scope.work = work;
    try {
      for (let times = 1; ; times *= 2) {
        const started = process.threadCpuUsage();
        try {
          return bounded.runInContext(context, { timeout: limitMs * times }) as T;
        } catch (error) {
          if (!isTimeout(error) || times === MOST_TIMES || usedMs(started) >= limitMs / 2) throw error;
        }
      }
    } finally {
      scope.work = before;
    }
  };
}

const isTimeout = (error: unknown): boolean =>
  (error as { code?: unknown } | null)?.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';

/** Returns the processor time of this thread since then. */
function usedMs(since: NodeJS.CpuUsage): number {
  const { user, system } = process.threadCpuUsage(since);
  return (user + system) / 1_000;
}
