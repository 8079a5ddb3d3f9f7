/**
 * A clock that only moves when something happens. Events of one moment happen in the order they were planned, so a run is
 * the same every time.
 */
import { Heap, type Placed } from '../src/base/heap.ts';

interface Planned extends Placed {
  readonly atMs: number;
  readonly number: number;
  readonly run: () => void;
}

/** Something that was planned; given back to `cancel`. */
export type Plan = Placed;

export class VirtualTime {
  readonly #planned = new Heap<Planned>((left, right) => {
    return left.atMs === right.atMs ? left.number < right.number : left.atMs < right.atMs;
  });
  #number = 0;
  #nowMs = 0;

  /** Milliseconds since the start, a whole number. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** Events that have happened. */
  steps = 0;

  after(ms: number, run: () => void): Plan {
    const planned = { atMs: this.#nowMs + Math.max(0, Math.round(ms)), number: this.#number++, run, heapIndex: -1 };
    this.#planned.push(planned);
    return planned;
  }

  cancel(plan: Plan | undefined): void {
    if (plan !== undefined) this.#planned.remove(plan as Planned);
  }

  /** Lets the next thing happen; false: nothing is planned. */
  step(): boolean {
    const next = this.#planned.pop();
    if (next === undefined) return false;
    this.#nowMs = next.atMs;
    this.steps += 1;
    next.run();
    return true;
  }
}
