/**
 * The text an agent is writing: its finished part as lines to print, the rest as lines to draw.
 *
 * Text is escaped before it gets here.
 */
import { type Block, MarkdownStream } from './markdown-stream.ts';
import type { Theme } from './theme.ts';
import { markdownLines, wrapTextWithAnsi } from './widgets.ts';

/** Characters of a thought without a line break after which it is printed. */
const MAX_THOUGHT = 2048;

export interface OpenText {
  /** Adds text; gives the lines it finishes. */
  push(text: string, columns: number): string[];
  /** Returns the lines that may still change. */
  tail(columns: number): string[];
  /** Ends it; gives the lines that were open. */
  end(columns: number): string[];
}

/** An answer: Markdown. */
export class AnswerText implements OpenText {
  readonly #theme: Theme;
  readonly #stream = new MarkdownStream();
  #started = false;
  /** An open code block's lines follow one another without a space. */
  #inCode = false;
  /** The tail as it was drawn last: most frames come without news of it. */
  #drawn: { readonly text: string; readonly columns: number; readonly lines: string[] } | undefined;

  constructor(theme: Theme) {
    this.#theme = theme;
  }

  push(text: string, columns: number): string[] {
    return this.#stream.push(text).flatMap((block) => this.#lines(block, columns));
  }

  tail(columns: number): string[] {
    const { tail } = this.#stream;
    if (tail === undefined) return [];
    const drawn = this.#drawn;
    if (drawn?.text === tail.text && drawn.columns === columns) return drawn.lines;
    const lines = [...(this.#started && !this.#inCode ? [''] : []), ...this.#render(tail, columns)];
    this.#drawn = { text: tail.text, columns, lines };
    return lines;
  }

  end(columns: number): string[] {
    return this.#stream.flush().flatMap((block) => this.#lines(block, columns));
  }

  #lines(block: Block, columns: number): string[] {
    const spaced = this.#started && !this.#inCode;
    this.#started = true;
    if (block.kind === 'fence') this.#inCode = !this.#inCode;
    const lines = this.#render(block, columns);
    return spaced ? ['', ...lines] : lines;
  }

  #render({ kind, text }: Block, columns: number): string[] {
    if (kind === 'text') return markdownLines(text.trimEnd(), columns, this.#theme);
    if (kind === 'fence') return [this.#theme.dim(text.trim())];
    return wrapTextWithAnsi(text.replaceAll('\t', '    '), columns - 2).map((line) => `  ${this.#theme.yellow(line)}`);
  }
}

/** Reasoning: plain text, set back. */
export class ThoughtText implements OpenText {
  readonly #theme: Theme;
  #partial = '';

  constructor(theme: Theme) {
    this.#theme = theme;
  }

  push(text: string, columns: number): string[] {
    const lines = `${this.#partial}${text}`.split('\n');
    this.#partial = lines.pop() ?? '';
    if (this.#partial.length > MAX_THOUGHT) lines.push(this.#partial.slice(0, MAX_THOUGHT));
    if (this.#partial.length > MAX_THOUGHT) this.#partial = this.#partial.slice(MAX_THOUGHT);
    return lines.flatMap((line) => this.#render(line, columns));
  }

  tail(columns: number): string[] {
    return this.#partial === '' ? [] : this.#render(this.#partial, columns);
  }

  end(columns: number): string[] {
    const lines = this.tail(columns);
    this.#partial = '';
    return lines;
  }

  #render(line: string, columns: number): string[] {
    return wrapTextWithAnsi(line, columns).map((each) => this.#theme.dim(this.#theme.italic(each)));
  }
}
