/**
 * Short ids: what tables on a terminal show of a long id, and which id a prefix names. Prefixes work as in git: one that fits
 * several ids is an error which lists them.
 *
 * Used by every command that shows or accepts an id of a session, an approval or a task.
 */
import { type ErrorName, fail } from '../wire/errors.ts';
import type { Terminal } from './output/terminal.ts';

/** Fewest characters of an id that are shown. */
const MIN_SHOWN = 8;
/** Most candidates that an error lists. */
const MAX_LISTED = 5;

/** Ids that the programs made themselves; a user's own names are always shown whole. */
const isGenerated = (id: string): boolean => /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$|^[\da-f]{32}$/.test(id);

/** The first characters of an id, for a line of text beside other words. */
export const shortId = (id: string): string => (isGenerated(id) ? id.slice(0, MIN_SHOWN) : id);

/**
 * The ids of a table as it shows them: on a terminal the shortest prefixes of at least 8 characters that tell these ids apart,
 * else whole, because a program reads them.
 */
export function shownIds(ids: readonly string[], { width }: Pick<Terminal, 'width'>): string[] {
  if (!Number.isFinite(width)) return [...ids];
  const sorted = [...new Set(ids)].sort();
  let length = MIN_SHOWN;
  for (const [at, id] of sorted.entries()) {
    const next = sorted[at + 1] ?? '';
    let same = 0;
    while (same < id.length && id[same] === next[same]) same++;
    if (isGenerated(id)) length = Math.max(length, same + 1);
  }
  return ids.map((id) => (isGenerated(id) ? id.slice(0, length) : id));
}

/** How the errors of {@link byPrefix} name what is looked for. */
export interface Sought {
  /** In the singular, e.g. `session`. */
  readonly noun: string;
  /** The error for an id that fits none. */
  readonly missing: ErrorName;
  /** The command that lists them. */
  readonly see: string;
}

/**
 * The one of the candidates that an id or a prefix of an id names. Fails with `usage` when the prefix fits several, and with
 * `missing` when it fits none.
 */
export function byPrefix<Item>(
  given: string,
  candidates: Iterable<Item>,
  idOf: (item: Item) => string,
  { noun, missing, see }: Sought,
): Item {
  if (given.trim() === '') throw fail('usage', `pass the id of a ${noun}, or its first characters; see: ${see}`);
  const found: Item[] = [];
  for (const item of candidates) {
    const id = idOf(item);
    if (id === given) return item;
    if (id.startsWith(given)) found.push(item);
  }
  const [only] = found;
  if (found.length === 1) return only as Item;
  if (only === undefined)
    throw fail(missing, `no ${noun} has an id that starts with ${JSON.stringify(given)}; see: ${see}`);
  const listed = found.slice(0, MAX_LISTED).map(idOf).join(', ');
  const more = found.length > MAX_LISTED ? ', …' : '';
  throw fail(
    'usage',
    `${found.length} ${noun}s start with ${JSON.stringify(given)}; give more characters: ${listed}${more}`,
  );
}
