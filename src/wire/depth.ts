/**
 * Refuses JSON text that is nested too deeply, before it is parsed: deep values survive `JSON.parse` but later break
 * `JSON.stringify` and `structuredClone` with a RangeError. Called by the codecs on every incoming text.
 */

/** Deepest accepted nesting of objects and arrays. */
export const MAX_DEPTH = 64;

const QUOTE = 34;
const BACKSLASH = 92;

/**
 * True when objects and arrays in `text` are nested more than `maxDepth` deep; brackets inside strings do not count.
 * Exact for valid JSON; for anything else the answer means nothing and `JSON.parse` refuses it.
 *
 * An ordinary message has fewer brackets than the limit and is settled by counting them, some 50 ns for a tool call.
 */
export function tooDeep(text: string, maxDepth = MAX_DEPTH): boolean {
  let room = maxDepth;
  for (let at = text.indexOf('{'); at !== -1; at = text.indexOf('{', at + 1)) {
    if (--room < 0) return deeperThan(text, maxDepth);
  }
  for (let at = text.indexOf('['); at !== -1; at = text.indexOf('[', at + 1)) {
    if (--room < 0) return deeperThan(text, maxDepth);
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

/** Where the string that starts at `start` (behind its quote) ends: the index of its closing quote, or -1. */
function stringEnd(text: string, start: number): number {
  let end = text.indexOf('"', start);
  while (end !== -1) {
    // An even number of backslashes before it are escaped backslashes, an odd one escapes the quote.
    let before = end - 1;
    while (before >= start && text.charCodeAt(before) === BACKSLASH) before--;
    if ((end - before) % 2 === 1) return end;
    end = text.indexOf('"', end + 1);
  }
  return -1;
}
