/**
 * Finds the parts of a prose text that may be a JSON object: fenced blocks, blocks inside those, and balanced braces. The
 * strict decoder reads their content. Texts have LF line ends.
 *
 * Linear: fences take one pass, and the search for braces stops after 64 that never close.
 */
import { type FencedBlock, fencedBlocks } from './fences.ts';

/** Place of a candidate: a fenced block, braces inside one, braces in the open. */
export type Place = 'fence' | 'embedded' | 'bare';

/** A part of a text that may be a JSON object. Offsets are into the text. */
export interface Candidate {
  readonly place: Place;
  readonly text: string;
  /** Range to remove with the candidate: it includes the fence around it. */
  readonly start: number;
  readonly end: number;
}

/** Unclosed opening braces after which the search stops. */
const MAX_OPEN_BRACES = 64;

/** Maximum nesting of fenced blocks; deeper ones are not searched. */
const MAX_FENCES_DEEP = 4;

/** State of the search, shared by the parts of one text. */
interface Search {
  readonly text: string;
  /** Unclosed braces until the search stops. */
  patience: number;
  /** Offset of the next opening brace: cached, because most parts have none and must not scan the whole text for it. */
  next: number;
}

/**
 * Yields all candidates in the order of the text. Without `deep`: blocks that hold only an object, and braces outside of
 * blocks, as programs write them. With `deep`: also objects inside other blocks.
 */
export function* candidates(text: string, deep: boolean): Generator<Candidate> {
  const search: Search = { text, patience: MAX_OPEN_BRACES, next: -1 };
  let at = 0;
  for (const block of fencedBlocks(text)) {
    yield* braces(search, at, block.start, 'bare');
    yield* inBlock(search, block, deep, 1);
    at = block.end;
  }
  yield* braces(search, at, text.length, 'bare');
}

function* inBlock(search: Search, block: FencedBlock, deep: boolean, depth: number): Generator<Candidate> {
  const { start, end, contentStart, contentEnd } = block;
  const content = search.text.slice(contentStart, contentEnd);
  const isObject = STARTS_OBJECT.test(content);
  const inner = deep && depth < MAX_FENCES_DEEP ? fencedBlocks(search.text, contentStart, contentEnd) : [];
  // JSON has no line that opens a fence: an object with one is broken off, and the text behind it may be the result.
  for (const each of inner) yield* inBlock(search, each, deep, depth + 1);
  if (isObject) yield { place: 'fence', text: content.trim(), start, end };
  else if (deep && inner.length === 0) yield* braces(search, contentStart, contentEnd, 'embedded');
}

/** True for zero-width characters, which copying leaves in texts. */
export const isZeroWidth = (code: number): boolean =>
  code === 0xfeff || (code >= 0x200b && code <= 0x200d) || code === 0x2060;

/** An opening brace after blanks and zero-width characters only. */
const STARTS_OBJECT = /^[\s\u200b-\u200d\u2060\ufeff]*\{/;

/** Objects by their braces, left to right, none inside another. */
function* braces(search: Search, from: number, to: number, place: Place): Generator<Candidate> {
  const { text } = search;
  /** Braces already known to be unclosed. */
  const open = new Set<number>();
  for (let start = nextBrace(search, from, to); start >= 0 && search.patience > 0; ) {
    const end = open.has(start) ? -1 : closing(text, start, to, open);
    if (end < 0) search.patience--;
    else yield { place, text: text.slice(start, end), start, end };
    start = nextBrace(search, end < 0 ? start + 1 : end, to);
  }
}

function nextBrace(search: Search, from: number, to: number): number {
  if (search.next < from) {
    const found = search.text.indexOf('{', from);
    search.next = found < 0 ? search.text.length : found;
  }
  return search.next < to ? search.next : -1;
}

const QUOTE = 34;
const BACKSLASH = 92;
const OPENING = 123;
const CLOSING = 125;

/**
 * Returns the offset behind the brace that closes the one at `start`. Without one, returns −1 and adds the first unclosed
 * braces to `open`. Skips strings.
 */
function closing(text: string, start: number, to: number, open: Set<number>): number {
  const path: number[] = [];
  for (let at = start; at < to; at++) {
    const code = text.charCodeAt(at);
    if (code === OPENING) path.push(at);
    else if (code === CLOSING) {
      path.pop();
      if (path.length === 0) return at + 1;
    } else if (code === QUOTE) {
      for (at++; at < to; at++) {
        const inside = text.charCodeAt(at);
        if (inside === BACKSLASH) at++;
        else if (inside === QUOTE) break;
      }
    }
  }
  for (const at of path.slice(0, MAX_OPEN_BRACES)) open.add(at);
  return -1;
}
