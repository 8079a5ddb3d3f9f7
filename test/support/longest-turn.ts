/**
 * Measures the time for which work holds the event loop, in processor time of this thread: the time of other processes
 * is not counted. A bare loop is measured beside it, since it collects garbage and compiles as the work does.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';

/** Several times the longest of the measured turns; without turns this work took 100 ms to a second. */
const MOST_MS = 100;

interface LongestTurn<Result> {
  readonly result: Result;
  /** Milliseconds of the longest turn while the work ran. */
  readonly longestMs: number;
}

async function longestTurn<Result>(work: () => Promise<Result>): Promise<LongestTurn<Result>> {
  let longestMs = 0;
  let ended = false;
  let before = process.threadCpuUsage();
  const turn = (): void => {
    const { user, system } = process.threadCpuUsage(before);
    longestMs = Math.max(longestMs, (user + system) / 1_000);
    before = process.threadCpuUsage();
    if (!ended) setImmediate(turn);
  };
  await new Promise((resolve) => setImmediate(resolve));
  before = process.threadCpuUsage();
  setImmediate(turn);
  try {
    const result = await work();
    await new Promise((resolve) => setImmediate(resolve));
    return { result, longestMs };
  } finally {
    ended = true;
  }
}

/** Fails where work held the loop for much longer than a bare loop of this process does. */
export async function inTurns<Result>(t: TestContext, what: string, work: () => Promise<Result>): Promise<Result> {
  const { longestMs: bareMs } = await longestTurn(async () => {
    for (let turns = 0; turns < 20; turns += 1) await new Promise((resolve) => setImmediate(resolve));
  });
  const { result, longestMs } = await longestTurn(work);
  t.diagnostic(`${what}: ${longestMs.toFixed(1)} ms, a bare loop ${bareMs.toFixed(1)} ms`);
  assert.ok(longestMs <= MOST_MS + 2 * bareMs, `${what} held the loop for ${longestMs} ms, bare ${bareMs} ms`);
  return result;
}
