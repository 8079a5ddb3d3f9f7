/**
 * Fenced code blocks as CommonMark defines them, found line by line in one pass. Texts have LF line ends.
 */

/** An opening fence. */
export interface Fence {
  readonly character: '`' | '~';
  /** Number of fence characters; the closing run is at least as long. */
  readonly length: number;
  /** The info string: the rest of the line, trimmed. */
  readonly info: string;
}

/** A fenced block of a text; all offsets are into that text. */
export interface FencedBlock {
  /** Start of the line of the opening fence, and end of the line of the closing one. */
  readonly start: number;
  readonly end: number;
  /** Range between the two lines. */
  readonly contentStart: number;
  readonly contentEnd: number;
  readonly info: string;
}

const OPENING = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)$/s;
const CLOSING = /^ {0,3}(`{3,}|~{3,})[ \t]*$/;

/** Returns the fence that a line opens, if any: at most three blanks, then three or more of one fence character. */
export function openFence(line: string): Fence | undefined {
  const found = OPENING.exec(line);
  if (found === null) return undefined;
  const [, run = '', info = ''] = found;
  return { character: run[0] as Fence['character'], length: run.length, info: info.trim() };
}

/** True when a line closes this fence. */
export function closesFence(line: string, fence: Fence): boolean {
  const run = CLOSING.exec(line)?.[1];
  return run !== undefined && run[0] === fence.character && run.length >= fence.length;
}

/** Returns the end of the line that contains `from`: the offset of its LF, or the end of the text. */
export function lineEnd(text: string, from: number): number {
  const end = text.indexOf('\n', from);
  return end < 0 ? text.length : end;
}

/** Returns all fenced blocks between two offsets, in order; an unclosed block extends to the end. */
export function fencedBlocks(text: string, from = 0, to = text.length): FencedBlock[] {
  const blocks: FencedBlock[] = [];
  let open: (Fence & { readonly start: number; readonly contentStart: number }) | undefined;
  for (let at = from; at < to; ) {
    const end = Math.min(lineEnd(text, at), to);
    const next = Math.min(end + 1, to);
    if (mayBeFence(text, at, end)) {
      const line = text.slice(at, end);
      if (open === undefined) {
        const fence = openFence(line);
        if (fence !== undefined) open = { ...fence, start: at, contentStart: next };
      } else if (closesFence(line, open)) {
        blocks.push({ start: open.start, end: next, contentStart: open.contentStart, contentEnd: at, info: open.info });
        open = undefined;
      }
    }
    at = next;
  }
  if (open !== undefined) {
    const { start, contentStart, info } = open;
    blocks.push({ start, end: to, contentStart, contentEnd: to, info });
  }
  return blocks;
}

/** True when a line may be a fence: a cheap check that avoids slicing a line, because most lines are not fences. */
function mayBeFence(text: string, from: number, to: number): boolean {
  let at = from;
  while (at < from + 3 && at < to && text[at] === ' ') at++;
  return (
    at + 2 < to && (text[at] === '`' || text[at] === '~') && text[at] === text[at + 1] && text[at] === text[at + 2]
  );
}
