/**
 * Pages of a list that fit into a message, however long its items are.
 *
 * Used by the plugins of planning, learning and chains for requests that say how much they want; their clients ask for the next page.
 */
import { asciiLength } from '../wire/ascii.ts';

/** Half of what a message may have by default: the rest is room for the envelope, and for one item that is longer. */
const MAX_PAGE_BYTES = 512 * 1024;

/** What of a message of the default size one item may take that is alone on its page. */
const MAX_ITEM_BYTES = 960 * 1024;

/** Whether an item fits a page, where it is alone. Characters above ASCII count as what they take on the wire. */
export const fitsPage = (item: unknown): boolean => asciiLength(JSON.stringify(item) ?? '') <= MAX_ITEM_BYTES;

/** The first items, at most `most`, the first in any case; `more`: others come after them. */
export function pageOf<Item>(items: Iterable<Item>, most: number): { page: Item[]; more: boolean } {
  const page: Item[] = [];
  let bytes = 0;
  for (const item of items) {
    bytes += asciiLength(JSON.stringify(item));
    if (page.length > 0 && (page.length >= most || bytes > MAX_PAGE_BYTES)) return { page, more: true };
    page.push(item);
  }
  return { page, more: false };
}
