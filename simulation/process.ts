/**
 * One start of a process on virtual time: its planned events happen only while it lives. The objects of a process that
 * died remain; they get no more time, write nothing more and send nothing more.
 */
import type { Clock } from '../src/base/timer-queue.ts';
import type { Plan, VirtualTime } from './virtual-time.ts';

/** The promise that a dead process awaits. */
export const NEVER = new Promise<never>(() => {});

export class SimProcess {
  readonly clock: Clock;
  readonly #time: VirtualTime;
  readonly #plans = new Set<Plan>();
  #alive = true;

  constructor(time: VirtualTime) {
    this.#time = time;
    this.clock = { monotonic: () => time.nowMs, timer: (run, ms) => this.after(ms, run) };
  }

  get alive(): boolean {
    return this.#alive;
  }

  /** Calls `run` after `ms` milliseconds, if the process lives then. Returns the function that cancels it. */
  after(ms: number, run: () => void): () => void {
    if (!this.#alive) return () => {};
    const plan = this.#time.after(ms, () => {
      this.#plans.delete(plan);
      run();
    });
    this.#plans.add(plan);
    return () => {
      this.#plans.delete(plan);
      this.#time.cancel(plan);
    };
  }

  kill(): void {
    this.#alive = false;
    for (const plan of this.#plans) this.#time.cancel(plan);
    this.#plans.clear();
  }
}
