/** Work on runs that is under way: requests about a run wait for it. Used by `runs.ts` and `plugin.ts`. */
import type { CallContext } from '../../host/context.ts';
import { ofOwner } from './run-parts.ts';

export class RunWork {
  /** Of each principal, by chain id. */
  readonly #underWay = new Map<string, Map<string, Promise<void>>>();

  /** Resolves when the work on a run has ended; undefined: none is under way. Never rejects. */
  of(chainId: string, context: CallContext): Promise<void> | undefined {
    return this.#underWayOf(context).get(chainId);
  }

  /** Runs of the principal that have work under way. Those in `others` are counted there: work ends a moment after its effect. */
  count(context: CallContext, others: { has(chainId: string): boolean }): number {
    return [...this.#underWayOf(context).keys()].filter((chainId) => !others.has(chainId)).length;
  }

  /** Does work on a run, beside other work on it. */
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
