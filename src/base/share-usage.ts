/**
 * The usage of a share, its principals, and the number of refusals, as operators see them in `GET /status`. Every share
 * of the process reports in this shape.
 */

export interface ShareUsage {
  /** Used by all principals together: a number of items, or bytes. */
  readonly used: number;
  /** Requests refused since the start. 0 where retention applies instead. */
  readonly refused: number;
  /** By principal, those with most first; the others are left out. */
  readonly principals: Readonly<Record<string, number>>;
}

/** Principals named in a usage. */
const MAX_NAMED = 32;

/** Returns the usage of a share, computed from the usage of each principal. */
export function shareUsage(used: number, refused: number, owners: Iterable<readonly [string, number]>): ShareUsage {
  const most = [...owners].sort(([, one], [, other]) => other - one).slice(0, MAX_NAMED);
  return { used, refused, principals: Object.fromEntries(most) };
}
