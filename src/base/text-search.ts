/**
 * Reading texts and searching them in linear time, counted. For texts made for that, the search of the engine makes as
 * many comparisons as the product of both lengths: a second for 160,000 characters, half a minute for a million.
 *
 * For the expressions of conditions and of chains, whose texts come from peers.
 */
import type { Steps } from './steps.ts';

/** Comparisons up to which the search of the engine is quick in any case. */
const QUICK = 1_000_000;

/** Returns the length of a text in code points, not in the units of UTF-16. Counts its reads. */
export function codePoints(text: string, steps: Steps): number {
  steps.countText(text.length);
  let length = text.length;
  for (let at = 1; at < text.length; at += 1) {
    if ((text.charCodeAt(at) & HALF) === LOW_HALF && (text.charCodeAt(at - 1) & HALF) === HIGH_HALF) length -= 1;
  }
  return length;
}

/** Halves of a pair, by their first bits. */
const [HALF, HIGH_HALF, LOW_HALF] = [0xfc00, 0xd800, 0xdc00];

/**
 * Returns the first position, from a given one, of a text in another one, or the last one; -1 if it does not occur.
 * Counts its reads.
 */
export function placeIn(
  text: string,
  searched: string,
  steps: Steps,
  { from = 0, last = false }: { readonly from?: number; readonly last?: boolean } = {},
): number {
  steps.countText(text.length);
  if (searched.length > text.length) return -1;
  if (text.length * searched.length <= QUICK) {
    steps.count(Math.ceil((text.length * searched.length) / 64));
    return last ? text.lastIndexOf(searched) : text.indexOf(searched, from);
  }
  steps.count(Math.ceil((text.length + searched.length) / 2));
  const places = new Places(text, searched, from);
  let found = places.next();
  for (let at = found; last && at !== -1; at = places.next()) found = at;
  return found;
}

/** Splits a text at another one. Counts its reads and its parts. */
export function splitAt(text: string, by: string, steps: Steps): string[] {
  steps.countText(text.length);
  if (text.length * by.length <= QUICK) {
    const parts = text.split(by);
    steps.count(parts.length + Math.ceil((text.length * by.length) / 64));
    return parts;
  }
  steps.count(Math.ceil((text.length + by.length) / 2));
  const parts: string[] = [];
  const places = new Places(text, by, 0);
  let start = 0;
  for (let at = places.next(); at !== -1; at = places.next()) {
    if (at < start) continue;
    parts.push(text.slice(start, at));
    start = at + by.length;
  }
  parts.push(text.slice(start));
  steps.count(parts.length);
  return parts;
}

/** The places of a text in another one, one after the other, by the algorithm of Knuth, Morris and Pratt. */
class Places {
  readonly #text: string;
  readonly #searched: string;
  /** For each length of the part found so far, the next shorter one that it ends with. */
  readonly #back: Int32Array;
  #at: number;
  #length = 0;

  constructor(text: string, searched: string, from: number) {
    this.#text = text;
    this.#searched = searched;
    this.#at = from;
    this.#back = shorterOnes(searched);
  }

  /** Returns the next position, which may overlap the one before; -1 if none is left. */
  next(): number {
    const [text, searched, back] = [this.#text, this.#searched, this.#back];
    let length = this.#length;
    for (let at = this.#at; at < text.length; at += 1) {
      const unit = text.charCodeAt(at);
      while (length > 0 && unit !== searched.charCodeAt(length)) length = back[length - 1] as number;
      if (unit === searched.charCodeAt(length)) length += 1;
      if (length < searched.length) continue;
      this.#at = at + 1;
      this.#length = back[length - 1] as number;
      return at + 1 - length;
    }
    this.#at = text.length;
    return -1;
  }
}

function shorterOnes(searched: string): Int32Array {
  const back = new Int32Array(searched.length);
  for (let at = 1, length = 0; at < searched.length; at += 1) {
    const unit = searched.charCodeAt(at);
    while (length > 0 && unit !== searched.charCodeAt(length)) length = back[length - 1] as number;
    if (unit === searched.charCodeAt(length)) length += 1;
    back[at] = length;
  }
  return back;
}
