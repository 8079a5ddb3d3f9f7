/**
 * Records whether a request was cancelled. Most requests end uncancelled: the signal, which costs more than all other
 * records of a call, is created when a handler asks for it.
 */
export class Cancellation {
  #isCancelled = false;
  #controller: AbortController | undefined;
  #follower: (() => void) | undefined;

  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  /** Aborts when the request is cancelled. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#isCancelled) this.#controller.abort();
    }
    return this.#controller.signal;
  }

  /** Calls `follower` when the request is cancelled; without a signal only one follower exists. */
  follow(follower: () => void): void {
    if (this.#isCancelled) follower();
    else this.#follower = follower;
  }

  cancel(): void {
    if (this.#isCancelled) return;
    this.#isCancelled = true;
    this.#controller?.abort();
    this.#follower?.();
  }
}

/** The cancellation of requests that cannot be cancelled. */
export const NO_CANCELLATION = new Cancellation();
