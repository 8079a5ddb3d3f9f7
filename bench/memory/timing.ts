import { setTimeout as pause } from 'node:timers/promises';

/** Durations of searches, one after the other; also runs of skills. */
export interface Timing {
  /** Milliseconds. */
  readonly p50: number;
  readonly p95: number;
  /** Processor time of a search on average, of all threads: other programs disturb it less. */
  readonly cpu: number;
}

const WARM_UPS = 20;

/** @param pauseMs pause between two of them; not part of the times */
export async function timed(
  queries: readonly string[],
  search: (query: string) => unknown,
  pauseMs = 0,
): Promise<Timing> {
  const times: number[] = [];
  // Caches are warm and functions compiled, as in a host that runs.
  for (let at = 0; at < WARM_UPS; at++) await search(queries[at % queries.length] as string);
  const before = process.cpuUsage();
  for (const query of queries) {
    if (pauseMs > 0) await pause(pauseMs);
    const begin = performance.now();
    await search(query);
    times.push(performance.now() - begin);
  }
  const { user, system } = process.cpuUsage(before);
  times.sort((left, right) => left - right);
  const at = (share: number): number => times[Math.min(times.length - 1, Math.floor(times.length * share))] as number;
  return { p50: at(0.5), p95: at(0.95), cpu: (user + system) / 1000 / queries.length };
}
