/**
 * How long work holds the event loop, in processor time of this thread: what other processes take is not counted. Beside it
 * the longest turn of a bare loop, which collects garbage and compiles as the work does.
 */

export interface LongestTurn<Result> {
  readonly result: Result;
  /** Milliseconds of the longest turn while the work ran. */
  readonly longestMs: number;
}

export async function longestTurn<Result>(work: () => Promise<Result>): Promise<LongestTurn<Result>> {
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
