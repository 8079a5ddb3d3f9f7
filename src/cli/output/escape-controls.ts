/**
 * Text from elsewhere, made fit for a terminal: what could move the cursor, change the title, hide or reorder characters
 * is shown instead of obeyed. Line breaks and tabs stay. Pure.
 *
 * Rule: SECURITY.md#threat-model, terminals. Used for everything a peer sent that goes to a terminal; what goes
 * into a pipe is passed on byte for byte.
 */

/** Control characters but tab and line break, directional and invisible formatting, and the tag block. */
const INVISIBLE = /(?![\t\n])[\p{Cc}\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;

/** The text with what is invisible written as `\u{…}`. */
export function escapeControls(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replace(INVISIBLE, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`);
}
