/**
 * The part of the terminal that is drawn again and again, below text that is written once: finished text scrolls away into the
 * terminal's own history, where it can be searched and copied, and costs this process nothing.
 *
 * A frame is drawn at most every {@link FRAME_MS}, and only rows that changed are written.
 */
import { visibleWidth } from './widgets.ts';

/** Shortest time between two frames, in milliseconds. */
const FRAME_MS = 33;

/** Lines above the area that are written without waiting for the next frame. */
const MAX_PENDING_LINES = 500;

/** Terminals that know it show a frame at once; others ignore it. */
const SYNC_START = '\u001b[?2026h';
const SYNC_END = '\u001b[?2026l';
const CLEAR_ROW = '\r\u001b[2K';
const CLEAR_BELOW = '\u001b[J';

/** The shown rows, none wider than the terminal. */
export interface Frame {
  readonly lines: readonly string[];
  /** Position of the cursor; undefined hides it. */
  readonly cursor: { readonly row: number; readonly column: number } | undefined;
}

export interface LiveAreaDeps {
  write(text: string): void;
  columns(): number;
  /** Returns the area's rows for this width. */
  draw(columns: number): Frame;
}

export class LiveArea {
  readonly #deps: LiveAreaDeps;
  /** The rows on the terminal, and the row of them the cursor is in. */
  #shown: readonly string[] = [];
  #row = 0;
  #columns = 0;
  #pending: string[] = [];
  #timer: NodeJS.Timeout | undefined;
  #drawnAt = Number.NEGATIVE_INFINITY;
  #open = false;

  constructor(deps: LiveAreaDeps) {
    this.#deps = deps;
  }

  open(): void {
    this.#open = true;
    this.#columns = this.#deps.columns();
    this.render();
  }

  /** Writes lines above the area, for good. */
  print(lines: readonly string[]): void {
    for (const line of lines) this.#pending.push(line);
    if (this.#pending.length > MAX_PENDING_LINES) this.render();
    else this.request();
  }

  /** Asks for a frame soon. */
  request(): void {
    if (!this.#open || this.#timer !== undefined) return;
    const waitMs = Math.max(0, this.#drawnAt + FRAME_MS - performance.now());
    this.#timer = setTimeout(() => this.render(), waitMs);
  }

  /** Draws a frame now. */
  render(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#open) return;
    const columns = this.#deps.columns();
    const resized = columns !== this.#columns;
    if (resized) this.#reflow(columns);
    const frame = this.#deps.draw(columns);
    const fresh = this.#pending.length > 0 || resized;
    const text = fresh ? this.#above(frame) : this.#changes(frame);
    const cursor = this.#placeCursor(frame);
    this.#shown = frame.lines;
    this.#deps.write(`${SYNC_START}\u001b[?25l${text}${cursor}${SYNC_END}`);
    this.#drawnAt = performance.now();
  }

  /** Removes the area; printed text stays. */
  close(): void {
    if (!this.#open) return;
    this.render();
    this.#open = false;
    clearTimeout(this.#timer);
    this.#deps.write(`${this.#toRow(0)}\r${CLEAR_BELOW}\u001b[?25h`);
    this.#shown = [];
  }

  /** Writes the printed lines, and the whole area below them. */
  #above({ lines }: Frame): string {
    const printed = this.#pending.map((line) => `${CLEAR_ROW}${line}\r\n`).join('');
    this.#pending = [];
    const start = `${this.#toRow(0)}${printed}`;
    this.#row = Math.max(0, lines.length - 1);
    return `${start}${lines.map((line) => `${CLEAR_ROW}${line}`).join('\r\n')}${CLEAR_BELOW}`;
  }

  /** Writes the rows that are new. */
  #changes({ lines }: Frame): string {
    let text = '';
    for (const [row, line] of lines.entries()) {
      if (line === this.#shown[row] && row < this.#shown.length) continue;
      text += `${row < this.#shown.length ? this.#toRow(row) : this.#toNewRow(row)}${CLEAR_ROW}${line}`;
    }
    if (lines.length >= this.#shown.length) return text;
    const last = Math.max(0, lines.length - 1);
    return `${text}${this.#toRow(last)}${lines.length === 0 ? '\r' : '\r\n'}${CLEAR_BELOW}${lines.length === 0 ? '' : '\u001b[1A'}`;
  }

  /** Moves to a row that is on the terminal. */
  #toRow(row: number): string {
    const distance = row - this.#row;
    this.#row = row;
    return distance === 0 ? '' : `\u001b[${Math.abs(distance)}${distance > 0 ? 'B' : 'A'}`;
  }

  /** Moves to the row behind the last, which may scroll the terminal. */
  #toNewRow(row: number): string {
    if (row === 0) return '';
    return `${this.#toRow(row - 1)}${this.#toNext(row)}`;
  }

  #toNext(row: number): string {
    this.#row = row;
    return '\r\n';
  }

  #placeCursor({ cursor }: Frame): string {
    if (cursor === undefined) return '';
    return `${this.#toRow(cursor.row)}\r${cursor.column > 0 ? `\u001b[${cursor.column}C` : ''}\u001b[?25h`;
  }

  /** Corrects the row of the cursor: a terminal that got narrower has broken the rows, so more of them are above it now. */
  #reflow(columns: number): void {
    const rowsOf = (line: string): number => Math.max(1, Math.ceil(visibleWidth(line) / columns));
    this.#row = this.#shown.slice(0, this.#row).reduce((rows, line) => rows + rowsOf(line), 0);
    this.#columns = columns;
  }
}
