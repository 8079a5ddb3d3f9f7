/**
 * Copies texts into one piece for storage.
 */

/** Texts up to this length are joined before they are stored; a longer one has few pieces, and joining would copy it. */
const JOINED_CHARS = 16 * 1024;

/**
 * Returns the same text in one piece. A text that was concatenated is a tree of its parts until a character of it is
 * read; stored for a while in that form, its twenty parts cost the garbage collector more than the rest of a call.
 */
export function joined(text: string): string {
  return text.length > JOINED_CHARS || text.charCodeAt(0) !== 0 ? text : '';
}
