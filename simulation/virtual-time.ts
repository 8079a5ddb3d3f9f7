/**
 * A clock that only moves from event to event. Events of one moment happen in the order in which they were planned, and
 * every promise that an event settles has run its course before the next event: a run is the same every time.
 */
import { Heap, type Placed } from '../src/base/heap.ts';

interface Planned extends Placed {
  readonly atMs: number;
  readonly number: number;
  readonly run: () => void;
}

/** A planned event, as passed to `cancel`. */
export type Plan = Placed;

/** Events for one turn of the event loop. Promises settle between any two of them; a turn itself costs system calls. */
const EVENTS_PER_TURN = 64;

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
    const planned = { atMs: this.#nowMs + Math.max(0, Math.ceil(ms)), number: this.#number++, run, heapIndex: -1 };
    this.#planned.push(planned);
    return planned;
  }

  cancel(plan: Plan | undefined): void {
    if (plan !== undefined) this.#planned.remove(plan as Planned);
  }

  /** Plays the next event; false: none is planned. */
  step(): boolean {
    const next = this.#planned.pop();
    if (next === undefined) return false;
    this.#nowMs = next.atMs;
    this.steps += 1;
    next.run();
    return true;
  }

  /**
   * Plays events until `done`, which is called before each of them, returns true, or until none is planned. Rejects
   * with the error of `done` or of an event.
   */
  play(done: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      let ended = false;
      let left = 0;
      // Node runs all microtasks between two callbacks of `setImmediate`: the consequences of an event have happened by
      // then.
      const next = (): void => {
        left -= 1;
        if (ended) return;
        try {
          ended = done() || !this.step();
          if (ended) resolve();
        } catch (thrown) {
          ended = true;
          reject(thrown);
        }
        if (left === 0 && !ended) plan();
      };
      const plan = (): void => {
        left = EVENTS_PER_TURN;
        for (let event = 0; event < EVENTS_PER_TURN; event += 1) setImmediate(next);
      };
      plan();
    });
  }
}
