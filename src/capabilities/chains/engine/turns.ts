/**
 * Shares the process: work that does not wait, such as the expressions of many nodes, stops after some milliseconds until the
 * others of the process have had their turn. All runs of a host share one, so that many runs take no more of a turn than one.
 *
 * Used by `run.ts` and `steps.ts`, and by `sampled.ts` for the dry run.
 */

/** Milliseconds of a turn; the evaluation that is running then still ends. */
const TURN_MS = 10;

export class Turns {
  /** When the time of this turn is over; undefined: nothing was asked in it yet. What waits for the disk uses none. */
  #until: number | undefined;
  #next: PromiseWithResolvers<void> | undefined;

  /** True when others should have their turn. After `while (turns.over) await turns.next()` what follows has time, up to an await. */
  get over(): boolean {
    if (this.#until !== undefined) return performance.now() >= this.#until;
    this.#until = performance.now() + TURN_MS;
    setImmediate(() => {
      this.#until = undefined;
      this.#next?.resolve();
      this.#next = undefined;
    });
    return false;
  }

  /** Resolves in the next turn. To be asked where {@link over} is true. */
  next(): Promise<void> {
    this.#next ??= Promise.withResolvers();
    return this.#next.promise;
  }
}
