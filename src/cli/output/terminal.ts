/**
 * Where commands print: results to stdout, everything about them to stderr; text for people or JSON for programs.
 *
 * Made once per command by `program.ts`. The only place of the command line that knows about widths and pipes.
 */
import { stripVTControlCharacters } from 'node:util';
import { escapeControls } from '../../base/escape-controls.ts';

/** Narrowest width text is fitted into. */
const NARROWEST = 40;
/** Between columns, and the least the last column is given while others can be left out. */
const GAP = 2;
const LEAST_LAST = 20;

export class Terminal {
  /** True for `--json`: stdout gets JSON only, a document or one a line. */
  readonly json: boolean;
  /** True while a line on the terminal waits to be replaced by the next. */
  #passing = false;

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

  /** Columns of stdout; `Infinity` without a terminal. */
  get width(): number {
    return process.stdout.isTTY ? Math.max(NARROWEST, process.stdout.columns || 80) : Number.POSITIVE_INFINITY;
  }

  /** One JSON document, on one line. */
  document(value: unknown): void {
    this.raw(`${JSON.stringify(value)}\n`);
  }

  /** One line of result. */
  line(text = ''): void {
    this.raw(`${text}\n`);
  }

  /** Result text as it is; on a terminal without anything that would act on it. */
  raw(text: string): void {
    this.settle();
    process.stdout.write(process.stdout.isTTY ? escapeControls(text) : text);
  }

  /** Text of the other side's stderr. */
  rawError(text: string): void {
    this.settle();
    process.stderr.write(process.stderr.isTTY ? escapeControls(text) : text);
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
      `\r\u001b[K${escapeControls(text)
        .replaceAll('\n', ' ')
        .slice(0, columns - 1)}`,
    );
    this.#passing = true;
  }

  /** Rows in columns, as {@link columns} lays them out. */
  table(headings: readonly string[], rows: readonly (readonly string[])[], dispensable: readonly string[] = []): void {
    for (const line of this.columns(headings, rows, dispensable)) this.line(line);
  }

  /**
   * The lines of a table. The last column gets the rest of the width and is cut there; before too little is left for
   * it, the columns of the `dispensable` headings are left out, the first one first.
   */
  columns(
    headings: readonly string[],
    rows: readonly (readonly string[])[],
    dispensable: readonly string[] = [],
  ): string[] {
    const all = [headings, ...rows].map((row) => row.map((cell) => escapeControls(cell).replaceAll(/\s+/g, ' ')));
    const widths = headings.map((_, column) => Math.max(...all.map((row) => lengthOf(row[column] ?? ''))));
    const columns = this.#fitting(headings, widths, dispensable);
    const last = columns.at(-1) as number;
    return all.map((row) => {
      const fixed = columns
        .slice(0, -1)
        .map((column) => row[column] + ' '.repeat(widths[column]! - lengthOf(row[column] ?? '') + GAP));
      return [...`${fixed.join('')}${row[last] ?? ''}`.trimEnd()].slice(0, this.width).join('');
    });
  }

  /** Numbers of the columns there is room for. */
  #fitting(headings: readonly string[], widths: readonly number[], dispensable: readonly string[]): number[] {
    let columns = headings.map((_, column) => column);
    for (const heading of dispensable) {
      const last = columns.at(-1) as number;
      const fixed = columns.slice(0, -1).reduce((sum, column) => sum + widths[column]! + GAP, 0);
      if (fixed + Math.min(widths[last]!, LEAST_LAST) <= this.width) break;
      columns = columns.filter((column) => headings[column] !== heading);
    }
    return columns;
  }

  /** Removes a temporary line before other output. */
  settle(): void {
    if (!this.#passing) return;
    this.#passing = false;
    process.stderr.write('\r\u001b[K');
  }
}

const lengthOf = (text: string): number => [...stripVTControlCharacters(text)].length;
