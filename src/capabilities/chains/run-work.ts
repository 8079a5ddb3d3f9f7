/** Work on runs that is under way: requests about a run wait for it. */
import type { CallContext } from '../../host/context.ts';
import { ofOwner } from './run-parts.ts';

export class RunWork {
  /** By principal, then by chain id. */
  readonly #underWay = new Map<string, Map<string, Promise<void>>>();

  /** Resolves when the work on a run has ended; undefined: none is under way. Never rejects. */
  of(chainId: string, context: CallContext): Promise<void> | undefined {
    return this.#underWayOf(context).get(chainId);
  }

  /**
   * Counts the runs of the principal that have work under way, except those in `others`, which count there: work ends a moment
   * after its effect.
   */
  count(context: CallContext, others: { has(chainId: string): boolean }): number {
    return [...this.#underWayOf(context).keys()].filter((chainId) => !others.has(chainId)).length;
  }

  /** Does work on a run, concurrently with other work on it. */
  do<Result>(chainId: string, context: CallContext, work: () => Promise<Result>): Promise<Result> {
    const underWay = this.#underWayOf(context);
    const done = work();
    const all: Promise<void> = Promise.allSettled([underWay.get(chainId), done]).then(() => {
      if (underWay.get(chainId) === all) underWay.delete(chainId);
    });
    underWay.set(chainId, all);
    return done;
  }

  #underWayOf({ session }: CallContext): Map<string, Promise<void>> {
    return ofOwner(this.#underWay, session.principal.name, () => new Map<string, Promise<void>>());
  }
}
