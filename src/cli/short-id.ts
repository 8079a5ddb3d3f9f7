/**
 * Short ids: the part of a long id of a session, an approval or a task that tables on a terminal show. Commands accept them:
 * `packages/named-id.ts`.
 */
import type { Terminal } from './output/terminal.ts';

/** Fewest characters of an id that are shown. */
const MIN_SHOWN = 8;

/** Ids that the programs made themselves; a user's own names are always shown whole. */
const isGenerated = (id: string): boolean => /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$|^[\da-f]{32}$/.test(id);

/** Returns the first characters of an id, for a line of text beside other words. */
export const shortId = (id: string): string => (isGenerated(id) ? id.slice(0, MIN_SHOWN) : id);

/**
 * Returns the ids of a table as it shows them: on a terminal the shortest prefixes of at least 8 characters that tell these ids
 * apart, else whole, because a program reads them.
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
