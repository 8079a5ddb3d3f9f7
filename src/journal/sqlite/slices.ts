/**
 * Runs work on many sessions in slices, one in each turn of the event loop, so that no other work waits for all slices.
 *
 * An error of a slice ends the work and is reported; the next slice tries again.
 */
export class Slices {
  readonly #failed: (thrown: unknown) => void;
  #turn: NodeJS.Immediate | undefined;

  constructor(failed: (thrown: unknown) => void) {
    this.#failed = failed;
  }

  /** True while a slice waits for its turn. */
  get waiting(): boolean {
    return this.#turn !== undefined;
  }

  /** Runs a slice now. */
  run(slice: () => void): void {
    try {
      slice();
    } catch (thrown) {
      this.#failed(thrown);
    }
  }

  /** Runs a slice in the next turn. */
  next(slice: () => void): void {
    this.#turn = setImmediate(() => {
      this.#turn = undefined;
      this.run(slice);
    });
    this.#turn.unref();
  }

  stop(): void {
    clearImmediate(this.#turn);
  }
}
