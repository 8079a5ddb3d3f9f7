/**
 * Removes characters from the end of a text. It reads each of them once. A regular expression such as `/-+$/` does not: at every `-` of
 * the text it reads the whole run of `-` to find out whether that is the end, so that a long run takes quadratic time.
 */

/** Returns the text without the `characters` at its end. */
export function trimmedEnd(text: string, characters: string): string {
  let end = text.length;
  while (end > 0 && characters.includes(text[end - 1] as string)) end -= 1;
  return text.slice(0, end);
}
