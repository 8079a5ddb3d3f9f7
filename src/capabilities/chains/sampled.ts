/**
 * A dry run for an agent: evaluates its expressions in turns with other work of the host and for a bounded time, and bounds its
 * reply.
 */
import { jsonChars } from '../../base/json-size.ts';
import type { Turns } from '../../base/turns.ts';
import type { CallContext } from '../../host/context.ts';
import type { Sample } from './chains.schema.ts';
import { type DryRunOptions, dryRunSteps } from './definition/dry-run.ts';
import { MAX_NESTED } from './definition/expressions.ts';
import type { ChainGraph } from './definition/graph.ts';
import { failure } from './errors.ts';

/** Maximum time of all evaluations, milliseconds. */
const MAX_MS = 2_000;
/** Maximum characters of all samples as JSON; a message of a host is shorter still. */
const MAX_CHARS = 8 * 1024 ** 2;
/** Levels of nesting of a reply around the values of its samples. */
const AROUND = 4;

/** Computes the input that each node would get. Fails with `chains.too_large`. */
export async function sampled(
  graph: ChainGraph,
  options: DryRunOptions,
  turns: Turns,
  { signal }: Pick<CallContext, 'signal'>,
): Promise<readonly Sample[]> {
  const steps = dryRunSteps(graph, options);
  let spentMs = 0;
  for (;;) {
    const startedAt = performance.now();
    const { done, value } = steps.next();
    if (done) {
      const { nodes } = value;
      if (typeof jsonChars(nodes, { chars: MAX_CHARS, depth: MAX_NESTED + AROUND }) === 'number') return nodes;
      throw failure('too_large', `the samples are longer than ${MAX_CHARS} characters`, { max: MAX_CHARS });
    }
    spentMs += performance.now() - startedAt;
    if (spentMs > MAX_MS) {
      throw failure('too_large', `the chain takes more than ${MAX_MS} ms to evaluate`, { max: MAX_MS });
    }
    while (turns.over) await turns.next();
    signal.throwIfAborted();
  }
}
