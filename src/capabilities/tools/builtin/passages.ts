/**
 * Converts a text to the units of a ranked search: passages with the numbers of their lines, and the words in them. Pure.
 *
 * Changing the results of these functions requires a new index: raise {@link PASSAGES_VERSION}.
 */
import { folded } from '../../../base/fold-text.ts';

/** The version of these functions with which an index was made. */
export const PASSAGES_VERSION = 2;

/** A part of a text, cut at the end of a line. */
export interface Passage {
  /** Its first line, counted from 1. */
  readonly line: number;
  readonly endLine: number;
  readonly text: string;
}

/** Lines from which an empty line ends a passage. */
const MIN_LINES = 12;
const MAX_LINES = 40;
/** Characters after which a passage ends; a longer line is a passage by itself. */
const MAX_CHARACTERS = 2_400;
/** Maximum number of passages of one text; the rest of the text is not searched. */
export const MAX_PASSAGES = 1_024;
/** Searched characters of one line. */
const MAX_LINE = 4_000;
/** Maximum number of words of one query. */
const MAX_TERMS = 64;
/** Maximum characters of one word of a query. */
const MAX_TERM = 64;

/** Cuts a text into passages, at empty lines if it has any. */
export function passagesOf(text: string): Passage[] {
  const passages: Passage[] = [];
  let lines: string[] = [];
  let characters = 0;
  let number = 0;
  const end = () => {
    if (lines.length > 0) passages.push({ line: number - lines.length + 1, endLine: number, text: lines.join('\n') });
    lines = [];
    characters = 0;
  };
  for (let from = 0; from < text.length && passages.length < MAX_PASSAGES; ) {
    const newline = text.indexOf('\n', from);
    const stop = newline === -1 ? text.length : newline;
    const line = text.slice(from, Math.min(stop, from + MAX_LINE)).replace(/\r$/, '');
    from = stop + 1;
    if (lines.length > 0 && characters + line.length > MAX_CHARACTERS) end();
    number += 1;
    lines.push(line);
    characters += line.length;
    if (lines.length === MAX_LINES || (lines.length >= MIN_LINES && line.trim() === '')) end();
  }
  if (passages.length < MAX_PASSAGES) end();
  return passages;
}

const unspaced =
  /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}\p{sc=Bopomofo}]/gu;
const hump = /(?<=[\p{Ll}\p{Nd}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu;

/** Returns a text with its words apart: `readFile` is two words, as is each character of a script without spaces. */
export function spaced(text: string): string {
  return text.toWellFormed().replace(hump, ' ').replace(unspaced, ' $& ');
}

/** Returns the text with its words apart, folded, in the form that is compared. */
export const indexed = (text: string): string => spaced(folded(text.replace(hump, ' ')));

/**
 * Returns the FTS5 query for a search: its words, and those that belong together as a phrase. The search text has no syntax.
 * Undefined if it has no word.
 */
export function matchOf(query: string): string | undefined {
  const terms = new Set<string>();
  for (const chunk of query.split(/\s+/)) {
    const words = (indexed(chunk).match(/[\p{L}\p{N}\p{M}\p{Co}]+/gu) ?? []).map((word) => word.slice(0, MAX_TERM));
    if (words.length > 1) terms.add(`"${words.slice(0, MAX_TERMS).join(' ')}"`);
    for (const word of words) terms.add(`"${word}"`);
  }
  return terms.size === 0 ? undefined : [...terms].slice(0, MAX_TERMS).join(' OR ');
}
