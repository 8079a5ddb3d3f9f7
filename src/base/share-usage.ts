/**
 * How much of a share is in use, by whom, and how often it was refused: what operators see in `GET /status`. Every share
 * of the process reports itself in this shape.
 */

export interface ShareUsage {
  /** By all principals together: a number of things, or bytes. */
  readonly used: number;
  /** Requests refused since the start. 0 where retention applies instead. */
  readonly refused: number;
  /** By principal, those with most first; the others are left out. */
  readonly principals: Readonly<Record<string, number>>;
}

/** Principals named in a usage. */
const MAX_NAMED = 32;

/** The usage of a share, from what each principal has. */
export function shareUsage(used: number, refused: number, owners: Iterable<readonly [string, number]>): ShareUsage {
  const most = [...owners].sort(([, one], [, other]) => other - one).slice(0, MAX_NAMED);
  return { used, refused, principals: Object.fromEntries(most) };
}
