/**
 * Checks whether a text can be a token or a key. Control characters in one come from a damaged file, a terminal, or a
 * service that wants to add a line to a request; none of them may reach a header, a file of one line, or a terminal.
 * Pure.
 */

/** Control characters of ASCII and of Latin-1, line and paragraph separators, and characters that nothing shows. */
const CONTROL = /[\p{Cc}\p{Cf}\u2028\u2029]/u;

/**
 * Returns the reason why a text cannot be a secret, for a message; undefined if it can be. The reason never contains a
 * part of the text.
 */
export function secretProblem(text: string): string | undefined {
  const found = CONTROL.exec(text)?.[0];
  if (found !== undefined) {
    const code = found.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0');
    return `a control character (U+${code})`;
  }
  return text.isWellFormed() ? undefined : 'half a character';
}

/** Checks as {@link secretProblem}, for a value of an HTTP header, which has only Latin-1. */
export const headerProblem = (text: string): string | undefined =>
  secretProblem(text.replaceAll('\t', ' ')) ?? (/[^\0-\xff]/.test(text) ? 'a character that no header has' : undefined);
