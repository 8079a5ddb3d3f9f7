/**
 * Long texts of which the chat shows a part: outputs of tools, changes of files. The newest ones stay in memory, each cut
 * to a size, and one after the other can be shown in whole.
 *
 * Used by `chat-screen.ts`. Pure.
 */

/** Texts in memory, and the longest of each, in characters and lines. */
const MAX_TEXTS = 32;
const MAX_CHARACTERS = 256 * 1024;
const MAX_LINES = 5000;

export interface FoldedText {
  readonly title: string;
  readonly lines: readonly string[];
}

/** The lines of a text as far as they are stored; the last one says when there were more. */
export function boundedLines(text: string): string[] {
  const cut = text.length > MAX_CHARACTERS;
  const lines = (cut ? text.slice(0, MAX_CHARACTERS) : text).replace(/\n$/, '').split('\n');
  if (!cut && lines.length <= MAX_LINES) return lines;
  return [...lines.slice(0, MAX_LINES), `… the rest of ${text.length} characters is left out`];
}

export class FoldedTexts {
  #texts: FoldedText[] = [];

  add(text: FoldedText): void {
    this.#texts.push(text);
    if (this.#texts.length > MAX_TEXTS) this.#texts.shift();
  }

  /** The newest that was not shown in whole; it leaves the memory. */
  unfold(): FoldedText | undefined {
    return this.#texts.pop();
  }
}
