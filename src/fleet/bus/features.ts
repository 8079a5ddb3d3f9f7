/**
 * Reads lists of features, for bindings whose peers list them outside an announce.
 */
import { FEATURES, type Feature } from '../../protocol/fleet.ts';

/** Returns the features of a list that this side knows. */
export function knownFeatures(names: readonly string[]): ReadonlySet<Feature> {
  return new Set(FEATURES.filter((feature) => names.includes(feature)));
}
