/**
 * Collects a reply that arrives in pieces. Bounded: of a very long reply the last part is stored, because it contains the
 * result.
 */

const MAX_CHARACTERS = 8 * 1024 * 1024;

export class ReplyText {
  #text = '';
  #cut = false;

  /** The reply, or the end of a very long one. */
  get text(): string {
    return this.#text.slice(-MAX_CHARACTERS);
  }

  /** True when its start was dropped. */
  get cut(): boolean {
    return this.#cut || this.#text.length > MAX_CHARACTERS;
  }

  /** True when the next piece starts a line. */
  get atLineStart(): boolean {
    return this.#text === '' || this.#text.endsWith('\n');
  }

  /** Adds a piece; `between` precedes it unless it is the first. */
  add(piece: string, between = ''): void {
    this.#text += this.#text === '' ? piece : between + piece;
    // Cut rarely: every cut copies the stored text.
    if (this.#text.length <= 2 * MAX_CHARACTERS) return;
    this.#text = this.text;
    this.#cut = true;
  }
}
