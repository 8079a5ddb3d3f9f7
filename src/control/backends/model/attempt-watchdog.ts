/**
 * Watches one attempt: ends it when the turn is aborted, or when the provider sends nothing for too long.
 *
 * The timer is not set again for each part, because hundreds come in a second: it checks, when it fires, how long ago the last
 * one was.
 */

export interface WatchOptions {
  readonly firstPartTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

export class AttemptWatchdog {
  /** Milliseconds of silence after which the attempt was ended; undefined = it was not. */
  silentForMs: number | undefined;
  readonly #controller = new AbortController();
  readonly #turn: AbortSignal;
  readonly #options: WatchOptions;
  readonly #abort = (): void => this.#controller.abort(this.#turn.reason);
  #timer: NodeJS.Timeout | undefined;
  #limitMs: number;
  #receivedAt: number;
  #answering = false;

  constructor(turn: AbortSignal, options: WatchOptions) {
    this.#turn = turn;
    this.#options = options;
    this.#limitMs = options.firstPartTimeoutMs;
    this.#receivedAt = options.now();
    if (turn.aborted) this.#abort();
    else turn.addEventListener('abort', this.#abort, { once: true });
    this.#wait(this.#limitMs);
  }

  /** Aborts with the turn, and after too long a silence. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Notes that the provider sent something. */
  received(): void {
    this.#receivedAt = this.#options.now();
    if (this.#answering) return;
    this.#answering = true;
    this.#limitMs = this.#options.idleTimeoutMs;
    clearTimeout(this.#timer);
    this.#wait(this.#limitMs);
  }

  /**
   * Settles as `work` does, or rejects with the reason as soon as the attempt is ended. A result that comes too late is given
   * to `late`.
   */
  during<Result>(work: PromiseLike<Result>, late: (result: Result) => void): Promise<Result> {
    const { signal } = this;
    return new Promise<Result>((resolve, reject) => {
      const aborted = (): void => reject(signal.reason);
      signal.addEventListener('abort', aborted, { once: true });
      if (signal.aborted) aborted();
      work.then(
        (result) => {
          signal.removeEventListener('abort', aborted);
          if (signal.aborted) late(result);
          resolve(result);
        },
        (error: unknown) => {
          signal.removeEventListener('abort', aborted);
          reject(error);
        },
      );
    });
  }

  /** Stops watching; the attempt is not touched. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#turn.removeEventListener('abort', this.#abort);
  }

  #wait(ms: number): void {
    this.#timer = setTimeout(() => {
      const silentMs = this.#options.now() - this.#receivedAt;
      if (silentMs < this.#limitMs) {
        this.#wait(this.#limitMs - silentMs);
        return;
      }
      this.silentForMs = this.#limitMs;
      this.#controller.abort(new Error(`nothing was received for ${this.#limitMs} ms`));
    }, ms);
  }
}
