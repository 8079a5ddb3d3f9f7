/**
 * Output of commands: results to stdout, everything about them to stderr; text for people or JSON for programs.
 *
 * One per command. The only place of the command line that knows about widths and pipes.
 */
import { styleText } from 'node:util';
import { escapeControls, escapedJson } from '../../base/escape-controls.ts';
import { Pager, pagerOf } from './pager.ts';
import { fitted, padded, widthOf, wrapped } from './text-width.ts';
import { leadOf, type Tone, toneOf } from './tones.ts';

/** Narrowest width text is fitted into. */
const NARROWEST = 20;
/**
 * Columns between two columns of a table, and the least width of the last column and of any other while others can be left out
 * or cut.
 */
const GAP = 2;
const LEAST_LAST = 20;
const LEAST_COLUMN = 4;

/** Columns and rows where the terminal does not report its own. */
const COLUMNS = 80;
const ROWS = 24;

/** Headings of columns whose words have a colour. */
const TONED = ['STATE', 'STATUS', 'GRANTED'];

/** Streams of a terminal, and the environment that decides about colour and the pager. */
export interface TerminalStreams {
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** One cell as it is printed. */
interface Cell {
  readonly text: string;
  readonly tone?: Tone;
}

/** Output of a view of a session: the terminal itself, or the screen of `handfast chat`. */
export type TerminalOutput = Pick<
  Terminal,
  'json' | 'watched' | 'document' | 'line' | 'note' | 'passing' | 'raw' | 'rawError' | 'settle'
>;

export class Terminal {
  /** True for `--json`: stdout gets JSON only, a document or one a line. */
  readonly json: boolean;
  readonly #stdout: NodeJS.WriteStream;
  readonly #stderr: NodeJS.WriteStream;
  readonly #env: TerminalStreams['env'];
  /** True while a line on the terminal waits to be replaced by the next. */
  #passing = false;
  #pager: Pager | undefined;

  constructor(json: boolean, { stdout, stderr, env }: TerminalStreams = process) {
    this.json = json;
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.#env = env;
  }

  /** True when people watch stderr. */
  get watched(): boolean {
    return this.#stderr.isTTY === true;
  }

  /** True when people watch stdout and a view may be drawn again and again. */
  get live(): boolean {
    return this.#stdout.isTTY === true && !this.json;
  }

  /** Columns of stdout; `Infinity` without a terminal. */
  get width(): number {
    return this.#stdout.isTTY ? Math.max(NARROWEST, this.#stdout.columns || COLUMNS) : Number.POSITIVE_INFINITY;
  }

  /** Sends further stdout to the user's pager once it is longer than the screen. Nothing happens without a terminal. */
  page(): void {
    const line = this.live ? pagerOf(this.#env) : undefined;
    const screen = { rows: this.#stdout.rows || ROWS, columns: this.width };
    if (line !== undefined && this.#pager === undefined) this.#pager = new Pager(line, this.#env, screen);
  }

  /** Ends the output of a command: waits until the user has left the pager. */
  async end(): Promise<void> {
    this.settle();
    const unseen = await this.#pager?.end();
    this.#pager = undefined;
    if (unseen) this.#stdout.write(unseen);
  }

  /** Prints one JSON document, on one line. */
  document(value: unknown): void {
    this.#write(`${escapedJson(value)}\n`);
  }

  /** Prints one line of result. */
  line(text = ''): void {
    this.raw(`${text}\n`);
  }

  /** Prints a label and its text, which stays to the right of the label: on a terminal it is cut between words. */
  labelled(label: string, text: string): void {
    const space = ' '.repeat(widthOf(label));
    const rows = text.split('\n').flatMap((row) => wrapped(row, Math.max(NARROWEST, this.width - space.length)));
    this.line(label + rows.join(`\n${space}`));
  }

  /** Prints result text, without anything that would act on a terminal: a file or a pipe is read at one later. */
  raw(text: string): void {
    this.#write(escapeControls(text));
  }

  /** Prints data byte for byte, except on a terminal: the output of a program, a script, a file that is written. */
  exact(text: string): void {
    this.#write(this.#stdout.isTTY ? escapeControls(text) : text);
  }

  /** Prints the standard error of a program: byte for byte, except on a terminal. */
  exactError(text: string): void {
    this.settle();
    this.#stderr.write(this.watched ? escapeControls(text) : text);
  }

  /** Prints text of the other side's stderr. */
  rawError(text: string): void {
    this.settle();
    this.#stderr.write(escapeControls(text));
  }

  /** Prints one line about the result, for people: to stderr. A mark at its start has its colour. */
  note(text: string): void {
    const lead = leadOf(text);
    if (lead === undefined) return this.rawError(`${text}\n`);
    this.settle();
    const [mark, tone] = lead;
    const rest = text.slice(mark.length);
    this.#stderr.write(`${this.#styled(tone, mark, this.#stderr)}${escapeControls(rest)}\n`);
  }

  /** Prints a line that the next one replaces; only where people watch. */
  passing(text: string): void {
    if (!this.watched) return;
    const columns = Math.max(NARROWEST, this.#stderr.columns || COLUMNS);
    this.#stderr.write(`\r\u001b[K${fitted(escapeControls(text).replaceAll('\n', ' '), columns - 1)}`);
    this.#passing = true;
  }

  /** Prints rows in columns, as {@link columns} lays them out; words of states in colour. */
  table(headings: readonly string[], rows: readonly (readonly string[])[], dispensable: readonly string[] = []): void {
    for (const [index, cells] of this.#layOut(headings, rows, dispensable).entries()) {
      const painted = cells.map(({ text, tone }) => {
        const style = index === 0 ? 'bold' : tone;
        // Spaces have no colour: they are the gap to the next column.
        const word = text.trimEnd();
        return style === undefined ? text : this.#styled(style, word) + text.slice(word.length);
      });
      this.#write(`${painted.join('').trimEnd()}\n`);
    }
  }

  /**
   * Returns the lines of a table, without colour. The last column gets the rest of the width and is cut there with `…`. Before
   * too little is left for it, the columns of the `dispensable` headings are left out, the first one first, and then the widest
   * others are cut.
   */
  columns(
    headings: readonly string[],
    rows: readonly (readonly string[])[],
    dispensable: readonly string[] = [],
  ): string[] {
    return this.#layOut(headings, rows, dispensable).map((cells) =>
      cells
        .map(({ text }) => text)
        .join('')
        .trimEnd(),
    );
  }

  /** Returns the rows as cells that are cut and padded to their columns, the headings first. */
  #layOut(headings: readonly string[], rows: readonly (readonly string[])[], dispensable: readonly string[]): Cell[][] {
    const all = [headings, ...rows].map((row) => row.map((cell) => escapeControls(cell).replaceAll(/\s+/g, ' ')));
    const natural = headings.map((_, column) => Math.max(...all.map((row) => widthOf(row[column] ?? ''))));
    const columns = this.#fitting(headings, natural, dispensable);
    const widths = this.#narrowed(columns, natural);
    return all.map((row, index) =>
      columns.map((column, at) => {
        const full = row[column] ?? '';
        const text = fitted(full, widths[at]!);
        const tone = index > 0 && TONED.includes(headings[column]!) ? toneOf(full) : undefined;
        const space = at === columns.length - 1 ? 0 : widths[at]! + GAP;
        return { text: padded(text, space), ...(tone && { tone }) };
      }),
    );
  }

  /** Returns the numbers of the columns that fit. */
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

  /** Widths of these columns: the widest ones give way until the last has its least, and the last takes the rest. */
  #narrowed(columns: readonly number[], natural: readonly number[]): number[] {
    const widths = columns.map((column) => natural[column]!);
    const last = widths.pop() ?? 0;
    const fixed = (): number => widths.reduce((sum, width) => sum + width + GAP, 0);
    const least = Math.min(last, LEAST_LAST, Math.floor(this.width / 2));
    while (fixed() + least > this.width) {
      const widest = widths.indexOf(Math.max(...widths));
      if ((widths[widest] ?? 0) <= LEAST_COLUMN) break;
      widths[widest]! -= 1;
    }
    return [...widths, Math.max(1, Math.min(last, this.width - fixed()))];
  }

  /** Returns text in a colour, where the stream shows colours: a terminal without `NO_COLOR`, or any with `FORCE_COLOR`. */
  #styled(tone: Tone, text: string, stream: NodeJS.WriteStream = this.#stdout): string {
    return this.json ? text : styleText(tone, text, { stream });
  }

  #write(text: string): void {
    this.settle();
    if (this.#pager === undefined) this.#stdout.write(text);
    else this.#pager.write(text);
  }

  /** Removes a temporary line before other output. */
  settle(): void {
    if (!this.#passing) return;
    this.#passing = false;
    this.#stderr.write('\r\u001b[K');
  }
}
