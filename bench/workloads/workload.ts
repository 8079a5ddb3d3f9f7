/**
 * A workload: a name, its transports, and a function that measures once inside the client process.
 */
import type { Bench } from '../bench.ts';
import type { TransportName } from '../contenders/contender.ts';

export interface RunSettings {
  /** Duration of one measurement, milliseconds. */
  readonly durationMs: number;
  /** Number of sessions that the `idle` workload opens. */
  readonly idleSessions: number;
}

/** One measurement. */
export interface Measurement {
  /** In the unit of the workload. */
  readonly value: number;
  /** CPU time of both processes for each call (event, session), microseconds. */
  readonly cpuUsPerCall?: number;
  /** Median latency of a call, microseconds. */
  readonly p50Us?: number;
  /** Share of the events that arrived in order and before the reply; 1 = all. */
  readonly delivered?: number;
}

export interface Workload {
  readonly name: string;
  readonly unit: string;
  /** True where less is better: memory, time. */
  readonly lowerIsBetter: boolean;
  readonly transports: readonly TransportName[];
  /** Its contenders; undefined = every contender of the transport. */
  readonly contenders?: readonly string[];
  /** True when each measurement needs new processes; it is then measured in fewer rounds. */
  readonly fresh: boolean;
  run(bench: Bench, settings: RunSettings): Promise<Measurement>;
}

/** Returns the middle of the numbers; NaN for none. */
export function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((left, right) => left - right);
  const middle = sorted.length >> 1;
  if (sorted.length % 2 === 1) return sorted[middle] as number;
  return ((sorted[middle - 1] ?? Number.NaN) + (sorted[middle] ?? Number.NaN)) / 2;
}
