/**
 * Pages of a list that fit into a message, however long its items are.
 *
 * For requests that state how many items they want; their clients ask for the next page.
 */
import { asciiLength } from '../wire/ascii.ts';

/** Half of the default message limit: the rest is for the envelope, and for one item that is longer. */
const MAX_PAGE_BYTES = 512 * 1024;

/** Bytes that an item alone on its page may take of a message of the default size. */
const MAX_ITEM_BYTES = 960 * 1024;

/** Returns true if an item fits a page on which it is alone. Characters above ASCII count by their size on the wire. */
export const fitsPage = (item: unknown): boolean => asciiLength(JSON.stringify(item) ?? '') <= MAX_ITEM_BYTES;

/** Collects the first items, at most `most`, the first in any case. */
export class Page<Item> {
  readonly page: Item[] = [];
  readonly #most: number;
  #bytes = 0;
  /** True when further items follow. */
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

/** Returns the first items as {@link Page} collects them. */
export function pageOf<Item>(items: Iterable<Item>, most: number): Pick<Page<Item>, 'page' | 'more'> {
  const page = new Page<Item>(most);
  for (const item of items) if (!page.add(item)) break;
  return page;
}
