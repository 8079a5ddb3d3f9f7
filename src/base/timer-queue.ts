/**
 * Many points in time behind one timer: leases, deadlines, expiries. Setting, moving and clearing one is O(log n), and no
 * timer of the process is touched unless it has to ring earlier than before.
 */

import { MAX_DELAY_MS } from './deadlines.ts';
import { Heap, type Placed } from './heap.ts';

/** A timer of one shot. */
export type Timer = (run: () => void, ms: number) => () => void;

interface Alarm<K> extends Placed {
  readonly key: K;
  at: number;
}

export interface Clock {
  /** Returns monotonic milliseconds. */
  readonly monotonic: () => number;
  readonly timer: Timer;
}

/** A timer of the process; a delay that is too long for one is waited for in parts. */
const timerThat =
  (keepsAlive: boolean): Timer =>
  (run, ms) => {
    let timer: NodeJS.Timeout;
    const wait = (leftMs: number): void => {
      timer = setTimeout(
        () => (leftMs > MAX_DELAY_MS ? wait(leftMs - MAX_DELAY_MS) : run()),
        Math.min(leftMs, MAX_DELAY_MS),
      );
      if (!keepsAlive) timer.unref();
    };
    wait(ms);
    return () => clearTimeout(timer);
  };

/** The timers of the process, which keep it alive until they are due. */
export const keepAliveTimer: Timer = timerThat(true);

/** The timers of the process; they do not keep it alive. */
export const processTimer: Timer = timerThat(false);

/** Calls `run` every `ms` until the returned function is called. */
export function repeat(timer: Timer, ms: number, run: () => void): () => void {
  let cancel = timer(again, ms);
  function again(): void {
    cancel = timer(again, ms);
    run();
  }
  return () => cancel();
}

export class TimerQueue<K> {
  readonly #clock: Clock;
  readonly #ring: (key: K) => void;
  readonly #alarms = new Map<K, Alarm<K>>();
  readonly #heap = new Heap<Alarm<K>>((left, right) => left.at < right.at);
  #callOff: (() => void) | undefined;
  #armedAt = Number.POSITIVE_INFINITY;
  #stopped = false;

  /** @param ring called once for each alarm that is due, which is cleared by then; must not throw */
  constructor(clock: Clock, ring: (key: K) => void) {
    this.#clock = clock;
    this.#ring = ring;
  }

  /** Sets the alarm of this key, or moves it. `at` is on the monotonic clock. */
  set(key: K, at: number): void {
    if (this.#stopped) return;
    const known = this.#alarms.get(key);
    if (known === undefined) {
      const alarm = { key, at, heapIndex: -1 };
      this.#alarms.set(key, alarm);
      this.#heap.push(alarm);
    } else {
      known.at = at;
      this.#heap.moved(known);
    }
    if (at < this.#armedAt) this.#arm();
  }

  clear(key: K): void {
    const known = this.#alarms.get(key);
    if (known === undefined) return;
    this.#alarms.delete(key);
    this.#heap.remove(known);
  }

  /** Returns the due time of this key's alarm; undefined if it has none. */
  at(key: K): number | undefined {
    return this.#alarms.get(key)?.at;
  }

  /** Clears all, for good. */
  stop(): void {
    this.#stopped = true;
    this.#callOff?.();
    this.#alarms.clear();
    while (this.#heap.pop() !== undefined);
  }

  #arm(): void {
    this.#callOff?.();
    this.#callOff = undefined;
    const next = this.#heap.peek();
    this.#armedAt = next?.at ?? Number.POSITIVE_INFINITY;
    if (next === undefined) return;
    // Rounded up: a timer that is early would find nothing due.
    const ms = Math.min(MAX_DELAY_MS, Math.max(0, Math.ceil(next.at - this.#clock.monotonic())));
    this.#callOff = this.#clock.timer(() => this.#due(), ms);
  }

  #due(): void {
    this.#callOff = undefined;
    // Alarms that are set while others ring must not arm the timer each time.
    this.#armedAt = Number.NEGATIVE_INFINITY;
    const now = this.#clock.monotonic();
    for (let next = this.#heap.peek(); next !== undefined && next.at <= now; next = this.#heap.peek()) {
      this.#heap.remove(next);
      this.#alarms.delete(next.key);
      this.#ring(next.key);
    }
    if (!this.#stopped) this.#arm();
  }
}
