/**
 * Reads a child's stderr so that it never fills up: each line goes to a callback, the last one is stored as the child's
 * last words.
 */
import type { Readable } from 'node:stream';

/** A longer line is cut here. */
const MAX_LINE_CHARS = 4096;

/** Characters of the last line that a reason contains. */
const MAX_WORDS_CHARS = 256;

/** Drains one stderr. Bytes that are no UTF-8 become U+FFFD: this is log text for people. */
export class StderrLines {
  readonly #onLine: ((line: string) => void) | undefined;
  #line = '';
  #last = '';

  constructor(stderr: Readable, onLine: ((line: string) => void) | undefined) {
    this.#onLine = onLine;
    stderr.setEncoding('utf8');
    stderr.on('data', (text: string) => this.#append(text));
    stderr.on('end', () => this.#flush());
    stderr.on('error', () => {});
  }

  /** The last line that was not blank, shortened; `''` when none was. */
  get last(): string {
    return this.#last.slice(0, MAX_WORDS_CHARS);
  }

  #append(text: string): void {
    let from = 0;
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', from)) {
      this.#grow(text.slice(from, end));
      this.#flush();
      from = end + 1;
    }
    this.#grow(text.slice(from));
  }

  #grow(text: string): void {
    if (this.#line.length < MAX_LINE_CHARS) this.#line += text.slice(0, MAX_LINE_CHARS - this.#line.length);
  }

  #flush(): void {
    const line = this.#line.endsWith('\r') ? this.#line.slice(0, -1) : this.#line;
    this.#line = '';
    if (line.trim() === '') return;
    this.#last = line;
    this.#onLine?.(line);
  }
}
