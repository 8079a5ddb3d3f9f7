/**
 * Pages of a list that fit into a message, however long its items are.
 *
 * Used by the plugins of planning and learning for requests that say how much they want; their clients ask for the next page.
 */

/** Half of what a message may have by default: the rest is room for escapes and the envelope. */
const MAX_PAGE_BYTES = 512 * 1024;

/** The first items, at most `most`, the first in any case; `more`: others come after them. */
export function pageOf<Item>(items: Iterable<Item>, most: number): { page: Item[]; more: boolean } {
  const page: Item[] = [];
  let bytes = 0;
  for (const item of items) {
    bytes += Buffer.byteLength(JSON.stringify(item));
    if (page.length > 0 && (page.length >= most || bytes > MAX_PAGE_BYTES)) return { page, more: true };
    page.push(item);
  }
  return { page, more: false };
}
