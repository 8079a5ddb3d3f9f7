/**
 * Refuses JSON that is nested too deeply or has too many values. Deep values survive `JSON.parse` but later break
 * `JSON.stringify` and `structuredClone` with a RangeError; each of many values costs time wherever the message is
 * processed. They are counted on the text, before any is built; in a long text that looks sparse, on its value, before
 * a codec uses it.
 *
 * The codecs apply it to every incoming text.
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
 * Returns the value of a JSON text; throws the reason why it is not built. The bounds cost an ordinary message nothing:
 * one of fewer characters than `maxValues` cannot have more. A long text that looks like one of few values, such as a
 * file in a string, costs less to build than to count on the text: its values are counted once they are built.
 *
 * @throws too_large when it has more than `maxValues` values, or as {@link parseNested} describes · SyntaxError
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
 * Returns true when few characters of a text stand for values, inside of strings or not, and no more than `maxValues`
 * of them as far as the samples show. Sampled at random positions: a sender cannot avoid them.
 */
function looksSparse(text: string, maxValues: number): boolean {
  let counted = 0;
  for (let look = 0; look < LOOKS; look++) {
    const from = Math.floor(Math.random() * Math.max(1, text.length - WINDOW));
    for (let at = from; at < from + WINDOW; at++) if (isCounted(text.charCodeAt(at))) counted++;
  }
  return counted * Math.max(SPARSE, text.length / maxValues) < LOOKS * WINDOW;
}

/** True when a value has more values than `most`, counted as in {@link moreValues}. */
export const hasMoreValues = (value: unknown, most: number): boolean => roomLeft(value, most) < 0;

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

/** Returns true for a character that stands for a value: comma, colon, opening bracket. */
export const isCounted = (code: number): boolean => code === COMMA || code === COLON || code === 123 || code === 91;

/**
 * Returns true when a JSON text has more values than `most`: its commas, colons and opening brackets outside of
 * strings. A text that is no JSON is counted in the same way. Linear, over strings as fast as `indexOf`, and ends as
 * soon as the count passes `most`.
 */
export const moreValues = (text: string, most: number): boolean =>
  text.length > most && passes(text, most, Number.POSITIVE_INFINITY);

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
 * Returns the value of a JSON text. Ordinary messages have fewer brackets than the limit, and a count of these decides.
 * For the others the value is checked: in a long text most brackets and quotes are inside strings, which a check of the
 * text would have to skip. Parsing a hostile text first costs at most three times the time and memory of a flat one of
 * its length.
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

/**
 * Returns true when `value`, the value of `text`, is nested more than `maxDepth` deep. For callers that still need the
 * value of a text that is nested too deeply.
 */
export const nestedTooDeeply = (text: string, value: unknown, maxDepth = MAX_DEPTH): boolean =>
  manyBrackets(text, maxDepth) && isDeeper(value, maxDepth);

export const tooDeeply = (limit: number) => fail('too_large', 'nested too deeply', { limit, unit: 'levels' });

/** Returns true when `value` is nested more than `depth` deep. The recursion has at most `depth` levels. */
function isDeeper(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (depth === 0) return true;
  if (Array.isArray(value)) return value.some((element) => isDeeper(element, depth - 1));
  for (const name in value) if (isDeeper((value as Record<string, unknown>)[name], depth - 1)) return true;
  return false;
}

/**
 * Returns true when objects and arrays in `text` are nested more than `maxDepth` deep; brackets inside strings do not
 * count. Exact for valid JSON; for any other text the result means nothing and `JSON.parse` refuses it.
 *
 * An ordinary message has fewer brackets than the limit, and a count of these decides, some 50 ns for a tool call.
 */
export function tooDeep(text: string, maxDepth = MAX_DEPTH): boolean {
  return manyBrackets(text, maxDepth) && deeperThan(text, maxDepth);
}

/** Returns true when the text has more opening brackets than `most`, those inside strings included. */
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

/** Counts precisely: walks the brackets and jumps over strings. */
const deeperThan = (text: string, maxDepth: number): boolean => passes(text, Number.POSITIVE_INFINITY, maxDepth);

const OTHER = 0;
const STRING = 1;
const PART = 2;
const OPENS = 3;
const CLOSES = 4;
/** The meaning of a byte outside of strings. */
const MEANING = new Uint8Array(256).map((_, byte) => {
  if (byte === QUOTE) return STRING;
  if (byte === COMMA || byte === COLON) return PART;
  if (byte === 123 || byte === 91) return OPENS;
  return byte === 125 || byte === 93 ? CLOSES : OTHER;
});

/** Characters that are processed as bytes at a time: a byte costs half of the time of a character of a text. */
const PIECE = 4096;
const bytes = new Uint8Array(3 * PIECE);
/** Bytes of a string that are walked over before its end is searched for. */
const SHORT = 32;
const encoder = new TextEncoder();

/** Puts a piece of a text into `bytes`, where no byte of a longer character looks like one of ASCII. Returns their number. */
const encoded = (text: string, from: number, to: number): number =>
  encoder.encodeInto(text.slice(from, to), bytes).written;

/**
 * Returns true when a text has more than `most` values, or is nested more than `maxDepth` deep. False if a string does
 * not end.
 */
function passes(text: string, most: number, maxDepth: number): boolean {
  let room = most;
  let depth = 0;
  for (let start = 0; start < text.length; ) {
    const end = encoded(text, start, start + PIECE);
    const isAscii = end === Math.min(PIECE, text.length - start);
    let next = start + PIECE;
    for (let at = 0; at < end; at++) {
      const meaning = MEANING[bytes[at] as number];
      if (meaning === OTHER) continue;
      if (meaning === STRING) {
        const limit = isAscii ? Math.min(end, at + SHORT) : end;
        at = endInBytes(at + 1, limit);
        if (at < limit) continue;
        // The rest of a long string is searched for its end as a text. Only a piece of ASCII has bytes where the text has characters.
        const close = stringEnd(text, isAscii ? start + at : next + at - end);
        if (close === -1) return false;
        at = isAscii ? close - start : end;
        next = Math.max(next, close + 1);
      } else if (meaning === CLOSES) depth--;
      else if (--room < 0 || (meaning === OPENS && ++depth > maxDepth)) return true;
    }
    start = next;
  }
  return false;
}

/**
 * Returns the end of a string in `bytes`: the index of its closing quote. Else `end`, or `end + 1` if the first
 * character after the bytes is escaped.
 */
function endInBytes(start: number, end: number): number {
  for (let at = start; ; at++) {
    if (at >= end) return at;
    const byte = bytes[at];
    if (byte === QUOTE) return at;
    if (byte === BACKSLASH) at++;
  }
}

/** A search for the next quote costs as much as a walk over this many characters. */
const CLOSE = 16;
/** Escaped quotes, each close behind the one before, after which the characters are walked over. */
const MANY = 4;
/** Characters of a walk. */
const WALK = 64;
/** Characters of a string after which a walk is one over bytes, of at most as many. */
const LONG = 512;

/** Returns the number of backslashes at the end of a piece of a text. */
function backslashes(text: string, start: number, end: number): number {
  let first = end;
  for (const to = Math.max(start, end - WALK); first > to; first--) {
    if (text.charCodeAt(first - 1) !== BACKSLASH) return end - first;
  }
  while (first > start) {
    const from = Math.max(start, first - PIECE);
    const size = encoded(text, from, first);
    let at = size;
    while (at > 0 && bytes[at - 1] === BACKSLASH) at--;
    first -= size - at;
    if (at > 0) break;
  }
  return end - first;
}

/** Returns the end of the string that starts at `start` (after its quote): the index of its closing quote, or -1. */
export function stringEnd(text: string, start: number): number {
  let close = 0;
  for (let from = start; ; ) {
    const quote = text.indexOf('"', from);
    if (quote === -1 || text.charCodeAt(quote - 1) !== BACKSLASH) return quote;
    // An even number of backslashes before it are escaped backslashes, an odd one escapes the quote.
    if (backslashes(text, from, quote) % 2 === 0) return quote;
    close = quote - from < CLOSE ? close + 1 : 0;
    from = quote + 1;
    if (close < MANY) continue;
    const walked = from - start;
    const end = Math.min(text.length, from + (walked < LONG ? WALK : Math.min(walked, PIECE)));
    if (walked >= LONG) {
      const size = encoded(text, from, end);
      const at = endInBytes(0, size);
      if (at >= size) {
        from = end + at - size;
        continue;
      }
      if (size === end - from) return from + at;
    }
    for (; from < end; from++) {
      const code = text.charCodeAt(from);
      if (code === QUOTE) return from;
      if (code === BACKSLASH) from++;
    }
  }
}
