/**
 * Where in a prose text a JSON object may stand: fenced blocks, blocks inside those, and balanced braces. Finds places
 * only; what they hold is read by the strict decoder. Called by `announce-reply.ts` and `reply.ts`. Texts have LF line ends.
 *
 * Linear: fences take one pass, and the search for braces gives up after 64 that never close.
 */
import { type FencedBlock, fencedBlocks } from './fences.ts';

/** Where a candidate was found: a fenced block, braces inside one, braces in the open. */
export type Place = 'fence' | 'embedded' | 'bare';

/** A part of a text that may be a JSON object. Offsets are into the text. */
export interface Candidate {
  readonly place: Place;
  readonly text: string;
  /** What goes when the candidate is taken out: the fence around it goes too. */
  readonly start: number;
  readonly end: number;
  /** Its braces never close: it is cut short. */
  readonly open?: boolean;
}

/** Opening braces without an end after which a text is not searched any more. */
const MAX_OPEN_BRACES = 64;

/** Blocks inside blocks, inside blocks: no honest writer goes deeper. */
const MAX_FENCES_DEEP = 4;

/** What the search through one text shares among its parts. */
interface Search {
  readonly text: string;
  /** Open braces it still puts up with. */
  patience: number;
  /** The next opening brace behind the place looked at last: most parts of a text have none, and must not search for it. */
  next: number;
}

/**
 * All candidates in the order of their places. Without `deep` only blocks that hold nothing but an object, and braces in
 * the open: what a machine writes. With `deep` also what stands inside other blocks.
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
  if (STARTS_OBJECT.test(content)) {
    yield { place: 'fence', text: content.trim(), start, end };
    return;
  }
  if (!deep) return;
  const inner = depth < MAX_FENCES_DEEP ? fencedBlocks(search.text, contentStart, contentEnd) : [];
  if (inner.length === 0) yield* braces(search, contentStart, contentEnd, 'embedded');
  for (const each of inner) yield* inBlock(search, each, deep, depth + 1);
}

/** Zero-width characters that copying leaves in texts. */
export const isZeroWidth = (code: number): boolean =>
  code === 0xfeff || (code >= 0x200b && code <= 0x200d) || code === 0x2060;

/** An opening brace, behind nothing that can be seen. */
const STARTS_OBJECT = /^[\s\u200b-\u200d\u2060\ufeff]*\{/;

/** Objects by their braces, left to right, none inside another. */
function* braces(search: Search, from: number, to: number, place: Place): Generator<Candidate> {
  const { text } = search;
  /** Braces found open on the way to one that is: they need not be followed again. */
  const open = new Set<number>();
  let cut = false;
  for (let start = nextBrace(search, from, to); start >= 0 && search.patience > 0; ) {
    const end = open.has(start) ? -1 : closing(text, start, to, open);
    if (end < 0) {
      search.patience--;
      // Said once: what follows is a part of the same text.
      if (!cut) yield { place, text: text.slice(start, to), start, end: to, open: true };
      cut = true;
    } else yield { place, text: text.slice(start, end), start, end };
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

/** Behind the brace that closes the one at `start`; −1, and into `open` the first that are, where none does. Strings are jumped over. */
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
