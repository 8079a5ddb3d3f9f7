/**
 * How many turns of a server run at once: a turn that gets no slot waits for one, first come, first served. Called by
 * `turn-run.ts`.
 */

/** Gives a slot back. Giving it back twice is fine. */
export type Release = () => void;

interface Waiter {
  readonly take: () => void;
}

export class TurnSlots {
  #free: number;
  readonly #waiting: Waiter[] = [];

  /** `slots`: turns at the same time, at least 1. */
  constructor(slots: number) {
    this.#free = Math.max(1, Math.floor(slots));
  }

  /** Turns that wait. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** A slot that is free now; undefined = there is none, or others wait for it. */
  tryAcquire(): Release | undefined {
    if (this.#free === 0 || this.#waiting.length > 0) return undefined;
    this.#free -= 1;
    return this.#release();
  }

  /**
   * Waits for a slot; with `first`, before all others. Rejects with the signal's reason when it aborts.
   */
  take(signal: AbortSignal, first = false): Promise<Release> {
    if (signal.aborted) return Promise.reject(signal.reason);
    const now = this.tryAcquire();
    if (now !== undefined) return Promise.resolve(now);
    const { promise, resolve, reject } = Promise.withResolvers<Release>();
    const abort = (): void => {
      const at = this.#waiting.indexOf(waiter);
      if (at !== -1) this.#waiting.splice(at, 1);
      reject(signal.reason);
    };
    const waiter: Waiter = {
      take: () => {
        signal.removeEventListener('abort', abort);
        resolve(this.#release());
      },
    };
    signal.addEventListener('abort', abort, { once: true });
    if (first) this.#waiting.unshift(waiter);
    else this.#waiting.push(waiter);
    return promise;
  }

  #release(): Release {
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next.take();
    };
  }
}
