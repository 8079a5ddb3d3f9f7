/**
 * Three repairs of JSON written by language models: comments, trailing commas and zero-width characters, all outside strings.
 * It does not fix quotes or Python literals and does not complete truncated text: those repairs would guess the meaning.
 *
 * It runs on candidates that do not parse, in one pass; the decoder then checks whether the result is JSON.
 */
import { isZeroWidth } from './candidates.ts';

/** Returns the repaired text; the same text where nothing needed repair. */
export function repairJson(text: string): string {
  const parts: string[] = [];
  /** Index in `parts` of a comma that may be a trailing one; −1: none. */
  let comma = -1;
  /** The last character that is not a blank. */
  let last = '';
  let from = 0;
  const drop = (start: number, end: number): number => {
    parts.push(text.slice(from, start));
    from = end;
    return end;
  };
  for (let at = 0; at < text.length; ) {
    const character = text[at] as string;
    if (isZeroWidth(text.charCodeAt(at))) at = drop(at, at + 1);
    else if (character === '/' && (text[at + 1] === '/' || text[at + 1] === '*')) {
      const end = commentEnd(text, at);
      if (end < 0) break;
      at = drop(at, end);
    } else if (character === ',' && last !== '' && !'[{,:'.includes(last)) {
      drop(at, at + 1);
      comma = parts.push(',') - 1;
      last = character;
      at++;
    } else if (isJsonBlank(character)) at++;
    else {
      if (comma >= 0 && (character === '}' || character === ']')) parts[comma] = '';
      comma = -1;
      last = character;
      at = character === '"' ? stringEnd(text, at) : at + 1;
    }
  }
  parts.push(text.slice(from));
  return parts.join('');
}

const isJsonBlank = (character: string): boolean =>
  character === ' ' || character === '\n' || character === '\t' || character === '\r';

/** Returns the offset behind a comment; −1 where it does not end. The LF after a line comment stays: it is a blank. */
function commentEnd(text: string, start: number): number {
  if (text[start + 1] === '*') {
    const end = text.indexOf('*/', start + 2);
    return end < 0 ? -1 : end + 2;
  }
  const end = text.indexOf('\n', start);
  return end < 0 ? text.length : end;
}

function stringEnd(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '"') return at + 1;
  }
  return text.length;
}
