/**
 * The edge that a process measures: one kind of unit that a host, a server or a fleet handles repeatedly.
 */
import { setImmediate as turn } from 'node:timers/promises';

export interface Edge {
  /** Runs this number of further units; each of them has ended when it resolves. */
  run(count: number): Promise<void>;
  /**
   * Returns figures after the last unit, by name: a start on stored state, a page of a list. Milliseconds, or KiB if
   * the name begins with it.
   */
  finish?(): Promise<Readonly<Record<string, number>>>;
  close(): Promise<void>;
}

export interface EdgeKind {
  /** One unit, for the legend. */
  readonly unit: string;
  /** Units of a whole run, and of a quick one. */
  readonly units: number;
  readonly quickUnits: number;
  /** Time that `finish` waits, in seconds. */
  readonly restSeconds?: number;
  /** Opens the edge, which stores everything in `folder`. */
  open(folder: string): Promise<Edge>;
}

/** The state after some units. The cost is that of the units since the sample before. */
export interface Sample {
  readonly units: number;
  /** Processor time of the process, microseconds a unit. */
  readonly cpuUs: number;
  /** Elapsed time, microseconds a unit: only as good as the machine is quiet. */
  readonly wallUs: number;
  /** Bytes written by system calls, a unit. No other process changes it. */
  readonly writtenBytes: number;
  readonly heapBytes: number;
  readonly rssBytes: number;
  /** Of all files in the folder. */
  readonly diskBytes: number;
}

/** Does `count` units, at most `width` at a time. */
export async function inParallel(count: number, width: number, unit: () => Promise<unknown>): Promise<void> {
  let left = count;
  const lane = async (): Promise<void> => {
    for (; left > 0; ) {
      left -= 1;
      await unit();
      // Work in memory alone would never let timers and files have a turn.
      await turn();
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, count) }, lane));
}
