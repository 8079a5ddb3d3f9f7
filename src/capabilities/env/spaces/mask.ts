/** Masks of samples: the values that a `Discrete` or `MultiDiscrete` element may have. */
import type { Generator } from '../../../base/random/generator.ts';
import { fail } from '../../../wire/errors.ts';

/**
 * Returns one of the positions of a mask that have a 1; 0 if none has. Throws `schema_violation` for anything but a mask of
 * `n`.
 */
export function maskedChoice(generator: Generator, mask: unknown, n: number): number {
  if (!Array.isArray(mask) || mask.length !== n || !mask.every((item) => item === 0 || item === 1))
    throw fail('schema_violation', `the mask of a sample has ${n} numbers, each 0 or 1`);
  const allowed = mask.flatMap((item, at) => (item === 1 ? [at] : []));
  return allowed.length === 0 ? 0 : generator.choice(allowed);
}
