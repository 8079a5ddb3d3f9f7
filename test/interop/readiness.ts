/**
 * How a real agent is found by its executor. A probe gives a program two seconds, which the first start of a large one may
 * not be done in: like a worker, this asks again. Used by the tests of executors.
 */
import type { Executor, Readiness } from '../../src/fleet/executors/executor.ts';

const PATIENCE_MS = 60_000;

/** What the first probe says that had an answer to its questions, or the last one that was asked. */
export async function readinessOf(executor: Executor): Promise<Readiness> {
  for (const give = AbortSignal.timeout(PATIENCE_MS); ; ) {
    const readiness = await executor.probe(new AbortController().signal);
    if (readiness.version !== undefined || give.aborted) return readiness;
  }
}
