/** Time that passes when a test says so: wall clock, monotonic clock and timers of one shot, all the same. */

import { setImmediate as turn } from 'node:timers/promises';
import type { TaskStore } from '../../../../src/fleet/orchestrator/task.ts';

interface Timer {
  readonly at: number;
  readonly number: number;
  readonly run: () => void;
}

export const START = Date.parse('2026-06-01T12:00:00.000Z');

export class VirtualClock {
  #ms = 0;
  #number = 0;
  readonly #timers = new Set<Timer>();

  readonly now = (): number => START + this.#ms;
  readonly monotonic = (): number => this.#ms;
  readonly timer = (run: () => void, ms: number): (() => void) => {
    const timer = { at: this.#ms + Math.max(0, ms), number: this.#number++, run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  };

  get timers(): number {
    return this.#timers.size;
  }

  /** Lets time pass, timer by timer; everything that follows from one has happened before the next. */
  async advance(ms: number): Promise<void> {
    const end = this.#ms + ms;
    await settle();
    for (;;) {
      const [next] = [...this.#timers]
        .filter(({ at }) => at <= end)
        .sort((one, other) => one.at - other.at || one.number - other.number);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#ms = Math.max(this.#ms, next.at);
      next.run();
      await settle();
    }
    this.#ms = end;
    await settle();
  }
}

/** Writes that a disk has not answered yet; they take no time of the clock. */
const writing = new Set<Promise<unknown>>();

/** Returns the same store; `settle` waits for its writes. */
export function settledWith(store: TaskStore): TaskStore {
  const put = store.put.bind(store);
  store.put = (record, revision) => {
    const written = put(record, revision);
    writing.add(written);
    const done = (): void => void writing.delete(written);
    written.then(done, done);
    return written;
  };
  return store;
}

/** Lets everything happen that needs no time. */
export async function settle(): Promise<void> {
  do {
    await Promise.allSettled(writing);
    for (let n = 0; n < 4; n += 1) await turn();
  } while (writing.size > 0);
}
