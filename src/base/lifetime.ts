/**
 * The end of a long-lived thing: a server, a host, a client, a worker. It is open, then closing, then closed; a second
 * close has no effect, and every waiter for the end gets the same reason.
 */
import type { HandfastError } from '../wire/errors.ts';

/** `open`: in use. `closing`: ends in order. `closed`: nothing of it is left. */
export type LifetimeState = 'open' | 'closing' | 'closed';

/** The members that every long-lived thing offers its users. */
export interface Closable extends AsyncDisposable {
  /** Ends in order. Idempotent, never rejects, bounded. */
  close(): Promise<void>;
  /** Resolves at the end: with the error that ended it, or undefined after `close()`. Never rejects. */
  readonly closed: Promise<HandfastError | undefined>;
  readonly state: string;
}

export class Lifetime {
  readonly #closed = Promise.withResolvers<HandfastError | undefined>();
  #state: LifetimeState = 'open';
  #ending: Promise<void> | undefined;

  get state(): LifetimeState {
    return this.#state;
  }

  /** Resolves at the end: with the error that ended it, or undefined. Never rejects. */
  get closed(): Promise<HandfastError | undefined> {
    return this.#closed.promise;
  }

  /**
   * Runs `end` the first time; later calls get the promise of the first. `end` must not reject.
   * @param error why it ends by itself; undefined when its owner closes it
   */
  close(end: () => Promise<void>, error?: HandfastError): Promise<void> {
    if (this.#ending === undefined) {
      const ending = Promise.withResolvers<void>();
      // Set before `end` runs, which may call this again.
      this.#ending = ending.promise;
      ending.resolve(this.#end(end, error));
    }
    return this.#ending;
  }

  async #end(end: () => Promise<void>, error: HandfastError | undefined): Promise<void> {
    this.#state = 'closing';
    try {
      await end();
    } finally {
      this.#state = 'closed';
      this.#closed.resolve(error);
    }
  }
}
