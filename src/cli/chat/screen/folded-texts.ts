/**
 * Long texts of which the chat shows a part: outputs of tools, changes of files. The newest ones stay in memory, each cut
 * to a size, and one after the other can be shown in whole.
 *
 * Pure.
 */

/** Texts in memory, and the longest of each, in characters and lines. */
const MAX_TEXTS = 32;
const MAX_CHARACTERS = 256 * 1024;
const MAX_LINES = 5000;

export interface FoldedText {
  readonly title: string;
  readonly lines: readonly string[];
}

/**
 * Returns the lines of a text. Of a long text, its first and last lines, and between them a line with the number of missing
 * ones.
 */
export function boundedLines(text: string): string[] {
  const whole = text.replace(/\n$/, '');
  const cut = whole.length > MAX_CHARACTERS;
  const head = (cut ? whole.slice(0, MAX_CHARACTERS / 2) : whole).split('\n');
  if (!cut && head.length <= MAX_LINES) return head;
  const tail = cut ? whole.slice(-MAX_CHARACTERS / 2).split('\n') : head;
  const [first, last] = [head.slice(0, MAX_LINES / 2), tail.slice(-MAX_LINES / 2)];
  const missing = whole.length - first.join('\n').length - last.join('\n').length;
  return [...first, `… ${missing} of ${whole.length} characters are left out`, ...last];
}

export class FoldedTexts {
  #texts: FoldedText[] = [];

  add(text: FoldedText): void {
    this.#texts.push(text);
    if (this.#texts.length > MAX_TEXTS) this.#texts.shift();
  }

  /** Returns the newest text that was not shown in whole; it leaves the memory. */
  unfold(): FoldedText | undefined {
    return this.#texts.pop();
  }
}
