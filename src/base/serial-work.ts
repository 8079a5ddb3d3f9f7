/**
 * Runs work one after the other, in the order of the calls, so that a change of stored state starts from the result of
 * the change before.
 *
 * For stores that write a file at each change.
 */
export class SerialWork {
  #last: Promise<unknown> = Promise.resolve();

  /** Runs `work` when all earlier work has settled; resolves and rejects as it does. */
  run<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return done;
  }

  /** Resolves when all work so far has settled. Never rejects. */
  async idle(): Promise<void> {
    await this.#last;
  }
}
