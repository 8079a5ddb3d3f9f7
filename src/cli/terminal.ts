/**
 * Where commands print: results to stdout, everything about them to stderr; text for people or JSON for programs.
 *
 * Made once per command by `program.ts`. The only place of the command line that knows about widths and pipes.
 */
import { stripVTControlCharacters } from 'node:util';
import { visible } from './visible.ts';

/** Narrowest width text is fitted into. */
const NARROWEST = 40;

export class Terminal {
  /** True for `--json`: stdout gets JSON only, a document or one a line. */
  readonly json: boolean;
  /** True while a line on the terminal waits to be replaced by the next. */
  #passing = false;
  /** Lines of the live view that stands above the cursor. */
  #screenLines = 0;

  constructor(json: boolean) {
    this.json = json;
  }

  /** True when people watch stderr. */
  get watched(): boolean {
    return process.stderr.isTTY === true;
  }

  /** True when people watch stdout and a view may be drawn again and again. */
  get live(): boolean {
    return process.stdout.isTTY === true && !this.json;
  }

  /** Columns of stdout; `Infinity` when it is no terminal. */
  get width(): number {
    return process.stdout.isTTY ? Math.max(NARROWEST, process.stdout.columns || 80) : Number.POSITIVE_INFINITY;
  }

  /** One JSON document, on one line. */
  document(value: unknown): void {
    process.stdout.write(`${JSON.stringify(value)}\n`);
  }

  /** One line of result. */
  line(text = ''): void {
    this.raw(`${text}\n`);
  }

  /** Result text as it is; on a terminal without anything that would act on it. */
  raw(text: string): void {
    this.#settle();
    process.stdout.write(process.stdout.isTTY ? visible(text) : text);
  }

  /** Text of the other side's stderr. */
  rawError(text: string): void {
    this.#settle();
    process.stderr.write(process.stderr.isTTY ? visible(text) : text);
  }

  /** One line about the result, for people: to stderr. */
  note(text: string): void {
    this.rawError(`${text}\n`);
  }

  /** A line that the next one replaces; only where people watch. */
  passing(text: string): void {
    if (!this.watched) return;
    const columns = Math.max(NARROWEST, process.stderr.columns || 80);
    process.stderr.write(
      `\r\u001b[K${visible(text)
        .replaceAll('\n', ' ')
        .slice(0, columns - 1)}`,
    );
    this.#passing = true;
  }

  /** Lines that the next call replaces; where nobody watches they are just lines. For live views. */
  screen(lines: readonly string[]): void {
    if (!process.stdout.isTTY) {
      for (const line of lines) this.line(line);
      return;
    }
    const rows = Math.max(4, (process.stdout.rows ?? 24) - 1);
    const shown = lines.slice(0, rows).map((line) => visible(line).replaceAll('\n', ' ').slice(0, this.width));
    const back = this.#screenLines === 0 ? '' : `\u001b[${this.#screenLines}A\r\u001b[J`;
    process.stdout.write(`${back}${shown.join('\n')}\n`);
    this.#screenLines = shown.length;
  }

  /** Rows in columns. The last column takes what is left of the width and is cut there. */
  table(headings: readonly string[], rows: readonly (readonly string[])[]): void {
    for (const line of this.columns(headings, rows)) this.line(line);
  }

  /** The lines of a table. */
  columns(headings: readonly string[], rows: readonly (readonly string[])[]): string[] {
    const cells = [headings, ...rows].map((row) => row.map((cell) => visible(cell).replaceAll(/\s+/g, ' ')));
    const last = headings.length - 1;
    const widths = headings.map((_, column) => Math.max(...cells.map((row) => lengthOf(row[column] ?? ''))));
    return cells.map((row) => {
      const fixed = row.slice(0, last).map((cell, column) => cell + ' '.repeat(widths[column]! - lengthOf(cell) + 2));
      return `${fixed.join('')}${row[last] ?? ''}`.trimEnd().slice(0, this.width);
    });
  }

  #settle(): void {
    if (!this.#passing) return;
    this.#passing = false;
    process.stderr.write('\r\u001b[K');
  }
}

const lengthOf = (text: string): number => [...stripVTControlCharacters(text)].length;
