/**
 * The longest time that one turn of the event loop took, without the time that other processes of the machine took.
 * Runs inside the process that is measured.
 *
 * A tick each millisecond compares the clock with the tick before. If the system reports the time for which this thread
 * was ready and had no processor (Linux), that time is left out: a turn that waits for a disk counts, one whose
 * processor was given to others does not.
 */
import { openSync, readSync } from 'node:fs';

/** Holds the file of the scheduler while it is read. */
const bytes = Buffer.alloc(128);

/** Returns the nanoseconds for which a thread was ready and had no processor; 0 if the system does not report them. */
export function waitedNs(file: number | undefined): number {
  if (file === undefined) return 0;
  const length = readSync(file, bytes, 0, bytes.length, 0);
  return Number(bytes.toString('latin1', 0, length).split(' ')[1]);
}

/** Opens the file of the scheduler about a thread: of this one, or of the first thread of a process. */
export function schedule(process: number | 'thread-self' = 'thread-self'): number | undefined {
  try {
    return openSync(`/proc/${process}/schedstat`, 'r');
  } catch {
    return undefined;
  }
}

export class LoopMeter {
  readonly #file = schedule();
  #at = performance.now();
  #waited = waitedNs(this.#file);
  #longest = 0;

  constructor() {
    setInterval(() => this.#tick(), 1);
  }

  #tick(): void {
    const now = performance.now();
    const waited = waitedNs(this.#file);
    const turn = now - this.#at - (waited - this.#waited) / 1e6;
    if (turn > this.#longest) this.#longest = turn;
    this.#at = now;
    this.#waited = waited;
  }

  /** Returns the longest turn since its last call, in milliseconds. */
  take(): number {
    this.#tick();
    const longest = this.#longest;
    this.#longest = 0;
    return longest;
  }
}
