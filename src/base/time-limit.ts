/**
 * A limit in time for synchronous work that runs what a user wrote: a regular expression of a policy or of a schema can
 * take for ever. Used where expressions and schemas of users are evaluated.
 */
import { createContext, Script } from 'node:vm';

/** Runs work; throws when it took longer than the limit. What the work throws comes through. */
export type TimeLimit = <T>(work: () => T) => T;

/** The virtual machine is not a fence here, nothing of a user is code of ours: it is what can stop a running function. */
const bounded = new Script('work()');

/** A limit of so many milliseconds for each run. Costs about 0.1 ms a run. */
export function timeLimit(timeoutMs: number): TimeLimit {
  const scope: { work?: () => unknown } = {};
  const context = createContext(scope);
  return <T>(work: () => T): T => {
    const before = scope.work;
    scope.work = work;
    try {
      return bounded.runInContext(context, { timeout: timeoutMs }) as T;
    } finally {
      scope.work = before;
    }
  };
}
