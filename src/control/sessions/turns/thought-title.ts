/**
 * The title of a model's current thought, for the status line: its leading bold text, else its first line. Computed from the
 * text so far, piece by piece, and returned once it is whole, so that no half word is shown.
 *
 * @see docs/protocol/session-rpc.md#status-labels
 */

/** Longest title, in characters. */
const TITLE_CHARACTERS = 80;
/** Longest part of a line that is read. */
const LINE_CHARACTERS = 400;

export class ThoughtTitle {
  #title: string | undefined;
  /** The current line. */
  #line = '';
  /** True once a whole line without bold text was taken for the title, or bold text was. */
  #settled = false;

  /** Adds the next piece; returns the current title, undefined while it has none. */
  add(text: string): string | undefined {
    const lines = text.split('\n');
    for (const [index, part] of lines.entries()) {
      if (index > 0) this.#endLine();
      if (this.#line.length < LINE_CHARACTERS) this.#line += part;
      this.#readLine();
    }
    return this.#title;
  }

  #readLine(): void {
    const line = this.#line.trimStart();
    const bold = /^\*\*(.+?)\*\*/.exec(line)?.[1]?.trim();
    if (bold) {
      // A later heading names its newest thought.
      this.#set(bold);
      this.#settled = true;
    } else if (!this.#settled && this.#title === undefined && !line.startsWith('*') && line.trim() !== '') {
      // Shown so far; the rest of the line is shown when it is whole.
      this.#set(line);
    }
  }

  #endLine(): void {
    const line = this.#line.trim().replace(/^\*+/, '').trim();
    if (!this.#settled && line !== '') {
      this.#set(line);
      this.#settled = true;
    }
    this.#line = '';
  }

  #set(title: string): void {
    const text = title.trim().replace(/\s+/g, ' ').toLowerCase();
    this.#title = text.length > TITLE_CHARACTERS ? `${text.slice(0, TITLE_CHARACTERS - 1)}…` : text;
  }
}
