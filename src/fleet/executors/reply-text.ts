/**
 * A reply as it comes in pieces. Bounded: of an endless reply the last part is stored, because results stand
 * there. Held by the readers of one turn.
 */

const MAX_CHARACTERS = 8 * 1024 * 1024;

export class ReplyText {
  #text = '';
  #cut = false;

  /** All of it, or the end of it. */
  get text(): string {
    return this.#text.slice(-MAX_CHARACTERS);
  }

  /** True when the beginning was left out. */
  get cut(): boolean {
    return this.#cut || this.#text.length > MAX_CHARACTERS;
  }

  /** True when the next piece stands at the beginning of a line. */
  get atLineStart(): boolean {
    return this.#text === '' || this.#text.endsWith('\n');
  }

  /** Adds a piece; `between` stands before it unless it is the first. */
  add(piece: string, between = ''): void {
    this.#text += this.#text === '' ? piece : between + piece;
    // Not with each piece: every cut copies the stored text.
    if (this.#text.length <= 2 * MAX_CHARACTERS) return;
    this.#text = this.text;
    this.#cut = true;
  }
}
