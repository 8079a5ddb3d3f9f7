/**
 * The width of a text in columns of a terminal: wide characters take two, combining ones none. The one file that knows
 * `string-width`.
 */
import { createRequire } from 'node:module';
import type stringWidth from 'string-width';

let measure: typeof stringWidth | undefined;
let graphemes: Intl.Segmenter | undefined;

/** Loads the package with the first text that needs it: its tables are a quarter of the start of a short command. */
const measureNow = (): typeof stringWidth => {
  measure ??= (createRequire(import.meta.url)('string-width') as { default: typeof stringWidth }).default;
  return measure;
};

/** True for plain ASCII, which nearly every text is and which needs no table of widths. */
const isPlain = (text: string): boolean => !/[^\x20-\x7e]/.test(text);

/** Columns that a text takes. */
export const widthOf = (text: string): number => (isPlain(text) ? text.length : measureNow()(text));

/** Returns the text within `width` columns; `…` stands for the part that was cut off. No character is cut in two. */
export function fitted(text: string, width: number): string {
  if (text.length <= width / 2 || widthOf(text) <= width) return text;
  graphemes ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' });
  let taken = '';
  let left = width - 1;
  for (const { segment } of graphemes.segment(text)) {
    left -= widthOf(segment);
    if (left < 0) break;
    taken += segment;
  }
  return `${taken.trimEnd()}…`;
}

/** Returns the text as lines of at most `width` columns, cut between words; a longer word has a separate line. */
export function wrapped(text: string, width: number): string[] {
  if (widthOf(text) <= width) return [text];
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (line !== '' && widthOf(longer) > width) {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  return [...lines, line];
}

/** Returns the text with spaces behind it, up to `width` columns. */
export const padded = (text: string, width: number): string => text + ' '.repeat(Math.max(0, width - widthOf(text)));
