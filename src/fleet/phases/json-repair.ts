/**
 * Three repairs of JSON as language models write it: comments, trailing commas, zero-width characters; all outside strings.
 * No quotes, no Python words, no completion of what was cut off: those would be guesses about what was meant.
 *
 * Called by `reply.ts` on candidates that do not parse. One pass; whether the outcome is JSON is for the decoder to say.
 */
import { isZeroWidth } from './candidates.ts';

/** The text without them; the same text where there were none. */
export function repairJson(text: string): string {
  const kept: string[] = [];
  /** A comma that waits for what follows it: its place in `kept`. */
  let comma = -1;
  /** The last character that is no blank. */
  let last = '';
  let from = 0;
  const drop = (start: number, end: number): number => {
    kept.push(text.slice(from, start));
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
      comma = kept.push(',') - 1;
      last = character;
      at++;
    } else if (isJsonBlank(character)) at++;
    else {
      if (comma >= 0 && (character === '}' || character === ']')) kept[comma] = '';
      comma = -1;
      last = character;
      at = character === '"' ? stringEnd(text, at) : at + 1;
    }
  }
  kept.push(text.slice(from));
  return kept.join('');
}

const isJsonBlank = (character: string): boolean =>
  character === ' ' || character === '\n' || character === '\t' || character === '\r';

/** Behind a comment; −1 where it does not end. The end of a line stays: it is a blank. */
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
