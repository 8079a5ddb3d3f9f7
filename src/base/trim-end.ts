/** Removes characters from the end of a text in linear time; an expression like `/-+$/` also tries every run of them elsewhere. */

/** The text without those of `characters` that are at its end. */
export function trimmedEnd(text: string, characters: string): string {
  let end = text.length;
  while (end > 0 && characters.includes(text[end - 1] as string)) end -= 1;
  return text.slice(0, end);
}
