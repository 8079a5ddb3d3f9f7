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

/** Collects the first items, at most `most`, the first in any case. */
export class Page<Item> {
  readonly page: Item[] = [];
  readonly #most: number;
  #bytes = 0;
  /** Others come after them. */
  more = false;

  constructor(most: number) {
    this.#most = most;
  }

  /** Takes an item that fits. False: the page is full. */
  add(item: Item): boolean {
    this.#bytes += asciiLength(JSON.stringify(item));
    this.more = this.page.length > 0 && (this.page.length >= this.#most || this.#bytes > MAX_PAGE_BYTES);
    if (!this.more) this.page.push(item);
    return !this.more;
  }
}

/** The first items as {@link Page} collects them. */
export function pageOf<Item>(items: Iterable<Item>, most: number): Pick<Page<Item>, 'page' | 'more'> {
  const page = new Page<Item>(most);
  for (const item of items) if (!page.add(item)) break;
  return page;
}
