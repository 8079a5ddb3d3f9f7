/**
 * Refuses JSON that is nested too deeply or has too many values. Deep values survive `JSON.parse` but later break
 * `JSON.stringify` and `structuredClone` with a RangeError; each of many values costs time wherever the message is looked at.
 * They are counted on the text, before any is built; in a long text that looks sparse, on its value, before a codec uses it.
 *
 * Called by the codecs on every incoming text.
 * @see docs/decisions/0051-values-counted-before-they-are-built.md
 */
import { fail } from './errors.ts';

/** Deepest accepted nesting of objects and arrays. */
export const MAX_DEPTH = 64;

/**
 * Values of a message that is served, at most: elements, objects and arrays, and of each member its name and its value. All of
 * them are built, checked, copied and written within a turn of the event loop, at up to half a microsecond each.
 */
export const MAX_VALUES = 65_536;
/** Values of a reply, at most: environments send pictures as lists of numbers. */
export const MAX_REPLY_VALUES = 262_144;

const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const BACKSLASH = 92;

/**
 * The value of a JSON text, or why it is not built. The bounds cost an ordinary message nothing: one of fewer characters than
 * `maxValues` cannot have more. A long text that looks like one of few values, such as a file in a string, costs less to build
 * than to count on the text: its values are counted once they are built.
 *
 * @throws too_large when it has more than `maxValues` values, or as {@link parseNested} says · SyntaxError
 */
export function parseBounded(text: string, maxDepth = MAX_DEPTH, maxValues = MAX_VALUES): unknown {
  if (text.length <= maxValues) return parseNested(text, maxDepth);
  const sparse = looksSparse(text, maxValues);
  if (!sparse && moreValues(text, maxValues)) throw tooMany(maxValues);
  const value = parseNested(text, maxDepth);
  if (sparse && roomLeft(value, maxValues) < 0) throw tooMany(maxValues);
  return value;
}

/** Samples of a text, and characters of a sample. */
const LOOKS = 64;
const WINDOW = 32;
/** In a text that is built first, fewer than one of this many characters stands for a value. */
const SPARSE = 12;

/**
 * True when few characters of a text stand for values, inside of strings or not, and no more than `maxValues` of them as far as
 * the samples show. Sampled at random places: a sender cannot avoid them.
 */
function looksSparse(text: string, maxValues: number): boolean {
  let counted = 0;
  for (let look = 0; look < LOOKS; look++) {
    const from = Math.floor(Math.random() * Math.max(1, text.length - WINDOW));
    for (let at = from; at < from + WINDOW; at++) if (isCounted(text.charCodeAt(at))) counted++;
  }
  return counted * Math.max(SPARSE, text.length / maxValues) < LOOKS * WINDOW;
}

/** Subtracts from `room` the values that {@link moreValues} counts in the text of `value`; ends soon below zero. */
function roomLeft(value: unknown, room: number): number {
  if (typeof value !== 'object' || value === null) return room;
  const members: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  let left = room - Math.max(1, Array.isArray(value) ? members.length : 2 * members.length);
  for (const member of members) {
    if (left < 0) return left;
    left = roomLeft(member, left);
  }
  return left;
}

export const tooMany = (limit: number) =>
  fail('too_large', `the message has more than ${limit} values`, { limit, unit: 'values' });

/** True for a character that stands for a value: comma, colon, opening bracket. */
export const isCounted = (code: number): boolean => code === COMMA || code === COLON || code === 123 || code === 91;

/**
 * True when a JSON text has more values than `most`: its commas, colons and opening brackets outside of strings. A text that
 * is no JSON is counted like one that is. Linear, over strings as fast as `indexOf`, and ends where the count is passed.
 */
export function moreValues(text: string, most: number): boolean {
  if (text.length <= most) return false;
  let room = most;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = stringEnd(text, at + 1);
      if (at === -1) return false;
    } else if (isCounted(code) && --room < 0) return true;
  }
  return false;
}

/** Counts the values of JSON that arrives in pieces of bytes, as {@link moreValues} does for a text. */
export class ValueCounter {
  #inString = false;
  #escaped = false;
  count = 0;

  /** Counts the next bytes; returns all values so far. */
  add(bytes: Uint8Array): number {
    for (const byte of bytes) {
      if (this.#inString) {
        if (this.#escaped) this.#escaped = false;
        else if (byte === BACKSLASH) this.#escaped = true;
        else if (byte === QUOTE) this.#inString = false;
      } else if (byte === QUOTE) this.#inString = true;
      else if (isCounted(byte)) this.count++;
    }
    return this.count;
  }
}

/**
 * The value of a JSON text. Ordinary messages have fewer brackets than the limit and are settled by counting them. Of the
 * others the value is looked at: in a long text most brackets and quotes stand inside strings, which a look at the text
 * would have to find its way through. Parsing a hostile text first costs at most three times what a flat one of its
 * length costs, in time and in memory.
 *
 * @throws too_large when it is nested more than `maxDepth` deep, valid or not · SyntaxError
 */
export function parseNested(text: string, maxDepth = MAX_DEPTH): unknown {
  if (!manyBrackets(text, maxDepth)) return JSON.parse(text);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw deeperThan(text, maxDepth) ? tooDeeply(maxDepth) : error;
  }
  if (isDeeper(value, maxDepth)) throw tooDeeply(maxDepth);
  return value;
}

/** True when `value`, which `text` gave, is nested more than `maxDepth` deep. For who still needs the value of such a text. */
export const nestedTooDeeply = (text: string, value: unknown, maxDepth = MAX_DEPTH): boolean =>
  manyBrackets(text, maxDepth) && isDeeper(value, maxDepth);

export const tooDeeply = (limit: number) => fail('too_large', 'nested too deeply', { limit, unit: 'levels' });

/** True when `value` is nested more than `depth` deep. Calls itself at most so often. */
function isDeeper(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (depth === 0) return true;
  if (Array.isArray(value)) return value.some((element) => isDeeper(element, depth - 1));
  for (const name in value) if (isDeeper((value as Record<string, unknown>)[name], depth - 1)) return true;
  return false;
}

/**
 * True when objects and arrays in `text` are nested more than `maxDepth` deep; brackets inside strings do not count.
 * Exact for valid JSON; for anything else the answer means nothing and `JSON.parse` refuses it.
 *
 * An ordinary message has fewer brackets than the limit and is settled by counting them, some 50 ns for a tool call.
 */
export function tooDeep(text: string, maxDepth = MAX_DEPTH): boolean {
  return manyBrackets(text, maxDepth) && deeperThan(text, maxDepth);
}

/** True when the text has more opening brackets than `most`, those inside strings included. */
function manyBrackets(text: string, most: number): boolean {
  let room = most;
  for (let at = text.indexOf('{'); at !== -1; at = text.indexOf('{', at + 1)) {
    if (--room < 0) return true;
  }
  for (let at = text.indexOf('['); at !== -1; at = text.indexOf('[', at + 1)) {
    if (--room < 0) return true;
  }
  return false;
}

/** The precise count: walks the brackets and jumps over strings. */
function deeperThan(text: string, maxDepth: number): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = stringEnd(text, at + 1);
      if (at === -1) return false;
    } else if (code === 123 || code === 91) {
      if (++depth > maxDepth) return true;
    } else if (code === 125 || code === 93) depth--;
  }
  return false;
}

/** A search for the next quote costs as much as a walk over this many characters. */
const CLOSE = 8;
/** Escaped quotes, each close behind the one before, after which the characters are walked over. */
const MANY = 4;
/** Characters of a walk. */
const WALK = 64;

/** Where the string that starts at `start` (behind its quote) ends: the index of its closing quote, or -1. */
export function stringEnd(text: string, start: number): number {
  let close = 0;
  for (let from = start; ; ) {
    const quote = text.indexOf('"', from);
    if (quote === -1 || text.charCodeAt(quote - 1) !== BACKSLASH) return quote;
    // An even number of backslashes before it are escaped backslashes, an odd one escapes the quote.
    let before = quote - 1;
    while (before >= from && text.charCodeAt(before) === BACKSLASH) before--;
    if ((quote - before) % 2 === 1) return quote;
    close = quote - from < CLOSE ? close + 1 : 0;
    from = quote + 1;
    if (close < MANY) continue;
    const end = Math.min(text.length, from + WALK);
    for (; from < end; from++) {
      const code = text.charCodeAt(from);
      if (code === QUOTE) return from;
      if (code === BACKSLASH) from++;
    }
  }
}
