/**
 * Shares the process: work that does not wait, for example the expressions of many nodes or the lines of a document,
 * stops after some milliseconds until other work of the process has had its turn. All work of a plugin shares one, so
 * that many requests take no more of a turn than one.
 */

/** Milliseconds of a turn; the evaluation that is running then still ends. */
const TURN_MS = 10;

export class Turns {
  /** End of the time of this turn; undefined: not requested in this turn yet. Waiting for the disk uses none. */
  #until: number | undefined;
  #next: PromiseWithResolvers<void> | undefined;

  /**
   * True when other work should have its turn. After `while (turns.over) await turns.next()` the next statements have
   * time, up to an await.
   */
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

/** Runs work that yields between its parts to its end, in as many turns as it needs. */
export async function inTurns<Result>(work: Iterator<void, Result>, turns: Turns): Promise<Result> {
  for (let part = work.next(); ; part = work.next()) {
    if (part.done === true) return part.value;
    while (turns.over) await turns.next();
  }
}

/** Runs work that yields between its parts to its end at once. */
export function atOnce<Result>(work: Iterator<void, Result>): Result {
  let part = work.next();
  while (part.done !== true) part = work.next();
  return part.value;
}
