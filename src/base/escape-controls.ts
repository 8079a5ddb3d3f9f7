/**
 * Text from elsewhere, made fit for a terminal: what could move the cursor, change the title, hide or reorder characters
 * is shown instead of obeyed. Line breaks and tabs stay. Pure.
 *
 * Rule: SECURITY.md#threat-model, terminals. Used for everything a peer sent that goes to a terminal; what goes
 * into a pipe is passed on byte for byte.
 */

/**
 * Control characters but tab and line break, line separators, and what is not drawn or reorders what is: direction marks,
 * fillers, tags. Not those that choose between two forms of a symbol.
 */
const INVISIBLE =
  /(?!\t|\n|\ufe0e|\ufe0f)[\p{Cc}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}\u2028\u2029\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** The text with what is invisible written as `\u{…}`. */
export function escapeControls(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replace(INVISIBLE, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`);
}
