/**
 * Lets the outcomes of tasks choose among workers that the score holds for nearly equal (`routing.learn: true`).
 *
 * Its influence is bounded: it chooses only among verified workers, or only among unverified ones, within {@link BAND} points of
 * the best score, and never one that a requirement left out. Thompson sampling with a generator seeded by the name of the
 * orchestrator; it lasts as long as the orchestrator, as the recent outcomes in the score do. Used by `router.ts`; without it a
 * decision costs nothing more.
 * @see docs/fleet.md#routing
 */
import { Bandit } from '../../base/bandits/bandit.ts';
import type { Learned, Ranked } from './profile.ts';

/** Points below the best score, of 1000, within which workers count as equally suitable. */
const BAND = 50;
/** Workers it chooses among. */
const MOST = 8;
/** Share of decisions that stay uniform, so that a worker that was bad once is tried again. */
const EXPLORE = 0.02;

export class RouteLearner {
  readonly #bandit: Bandit;

  /** @param seed of its generator */
  constructor(seed: string) {
    this.#bandit = Bandit.start({ name: 'thompson_beta', explore: EXPLORE }, seed);
  }

  /** Chooses one of the ranked workers; undefined: there is nothing to choose. The first one is the best by score. */
  choose(ranking: readonly Ranked[], isAlike: (agentId: string) => boolean): Learned | undefined {
    const options = candidates(ranking, isAlike);
    if (options.length < 2) return undefined;
    const { option, probabilities } = this.#bandit.decide({ options });
    return learnedOf(options, probabilities, option);
  }

  /** What it would choose, without a decision. */
  preview(ranking: readonly Ranked[], isAlike: (agentId: string) => boolean): Learned | undefined {
    const options = candidates(ranking, isAlike);
    return options.length < 2 ? undefined : learnedOf(options, this.#bandit.probabilities({ options }));
  }

  /** An attempt of a worker succeeded or failed. */
  learn(agentId: string, ok: boolean): void {
    this.#bandit.learn(agentId, ok ? 1 : 0);
  }
}

function candidates(ranking: readonly Ranked[], isAlike: (agentId: string) => boolean): string[] {
  const least = (ranking[0]?.score ?? 0) - BAND;
  const found = ranking.filter(({ agent_id, score }) => score >= least && isAlike(agent_id));
  return found.slice(0, MOST).map(({ agent_id }) => agent_id);
}

const learnedOf = (options: readonly string[], probabilities: ArrayLike<number>, chosen?: string): Learned => ({
  best_by_score: options[0]!,
  probabilities: Object.fromEntries(options.map((option, at) => [option, probabilities[at]!])),
  ...(chosen !== undefined && { chosen }),
});
