/**
 * The order of model tiers. Three are built in; the map of the policy ranks other families. A tier without a rank cannot be
 * compared: it gets half of the tier score, never satisfies a minimum, and sorts as the most expensive.
 *
 * @see docs/fleet.md#routing
 */
import type { Priority } from '../../protocol/fleet.ts';
import type { RoutePolicy, RouteTask } from './profile.ts';

const KNOWN: ReadonlyMap<string, number> = new Map([
  ['haiku', 1],
  ['sonnet', 2],
  ['opus', 3],
]);

/** Rank that a priority wants, before `min_tier` raises it. */
const WANTED: Readonly<Record<Priority, number>> = { low: 1, normal: 2, high: 2, urgent: 3 };

/** Price rank of a tier without a rank: sorts after every other tier. */
export const DEAREST = Number.MAX_SAFE_INTEGER;

/** Returns the rank of a tier; undefined: it has none. The map of the policy overrides the built-in three. */
export function rankOf(tier: string, { tiers }: RoutePolicy): number | undefined {
  return tiers.get(tier) ?? KNOWN.get(tier);
}

/** Tiers that have a rank, lowest first. */
export function rankedTiers({ tiers }: RoutePolicy): string[] {
  const ranks = [...new Map([...KNOWN, ...tiers])];
  return ranks.sort(([, one], [, other]) => one - other).map(([tier]) => tier);
}

/** Returns the rank that suits this task best. */
export function wantedRank({ priority, min_tier }: RouteTask, policy: RoutePolicy): number {
  const least = min_tier === null ? undefined : rankOf(min_tier, policy);
  return Math.max(WANTED[priority], least ?? 0);
}

/** Returns the percent of the tier part for a rank: 100 for the wanted one, 67 for one above, 33 for one below. */
export function tierPercent(rank: number | undefined, wanted: number): number {
  if (rank === undefined) return 50;
  const above = rank - wanted;
  if (above === 0) return 100;
  if (above === 1) return 67;
  return above > 0 || above === -1 ? 33 : 0;
}
