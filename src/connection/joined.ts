/** Texts in one piece, for what is stored of them. Used by `connection.ts`. */

/** Texts up to this length are joined before they are stored; a longer one has few pieces, and joining would copy it. */
const JOINED_CHARS = 16 * 1024;

/**
 * The same text in one piece. A text that was put together is a tree of its parts until a character of it is read; stored for
 * a while as such, its twenty parts cost the garbage collector more than all the rest of a call.
 */
export function joined(text: string): string {
  return text.length > JOINED_CHARS || text.charCodeAt(0) !== 0 ? text : '';
}
