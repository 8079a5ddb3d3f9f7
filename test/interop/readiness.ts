/**
 * Repeats an executor's probe of a real agent. A probe gives a program two seconds, in which the first start of a large
 * one may not be done: like a worker, this probes again. For the tests of executors.
 */
import type { Executor, Readiness } from '../../src/fleet/executors/executor.ts';

const PATIENCE_MS = 60_000;

/** Returns the result of the first probe that got a reply, or of the last one. */
export async function readinessOf(executor: Executor): Promise<Readiness> {
  for (const give = AbortSignal.timeout(PATIENCE_MS); ; ) {
    const readiness = await executor.probe(new AbortController().signal);
    if (readiness.version !== undefined || give.aborted) return readiness;
  }
}
