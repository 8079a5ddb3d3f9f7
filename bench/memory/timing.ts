/** How long searches take, one after the other. Used by `bench/memory.ts`. */
export interface Timing {
  /** Milliseconds. */
  readonly p50: number;
  readonly p95: number;
  /** Processor time of a search on average, of all threads: other programs disturb it less. */
  readonly cpu: number;
}

export async function timed(queries: readonly string[], search: (query: string) => unknown): Promise<Timing> {
  const times: number[] = [];
  // Caches are warm, as in a host that runs.
  for (const query of queries.slice(0, 5)) await search(query);
  const before = process.cpuUsage();
  for (const query of queries) {
    const begin = performance.now();
    await search(query);
    times.push(performance.now() - begin);
  }
  const { user, system } = process.cpuUsage(before);
  times.sort((left, right) => left - right);
  const at = (share: number): number => times[Math.min(times.length - 1, Math.floor(times.length * share))] as number;
  return { p50: at(0.5), p95: at(0.95), cpu: (user + system) / 1000 / queries.length };
}
