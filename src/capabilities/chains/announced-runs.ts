/**
 * Runs that were asked for and have not started: their definitions may take a while to be read, and requests about them arrive
 * meanwhile. Used by `runs.ts` and `plugin.ts`.
 */
import type { CallContext } from '../../host/context.ts';

export class AnnouncedRuns {
  readonly #starts = new Map<string, Promise<unknown>>();

  /** Settles when no request for a run of this id is on its way; undefined when none is. */
  of(chainId: string, context: CallContext): Promise<unknown> | undefined {
    return this.#starts.get(keyOf(chainId, context));
  }

  /** Prepares and starts a run. */
  async start<Result>(chainId: string, context: CallContext, start: () => Promise<Result>): Promise<Result> {
    const key = keyOf(chainId, context);
    const started = start();
    const all = Promise.allSettled([this.#starts.get(key), started]);
    this.#starts.set(key, all);
    try {
      return await started;
    } finally {
      if (this.#starts.get(key) === all) this.#starts.delete(key);
    }
  }
}

const keyOf = (chainId: string, { session }: CallContext): string => `${session.principal.name}\n${chainId}`;
