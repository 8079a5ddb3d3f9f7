/** Counts turns of the event loop. */
import type { TestContext } from 'node:test';

/**
 * Starts to count; the result gives the number so far. However fast the machine is, work that looks at the clock has used a
 * millisecond since.
 */
export function countedTurns(t: TestContext): () => number {
  let clock = performance.now();
  t.mock.method(performance, 'now', () => clock++);
  let turns = 0;
  let counting = setImmediate(function count() {
    turns++;
    counting = setImmediate(count);
  });
  t.after(() => clearImmediate(counting));
  return () => turns;
}
