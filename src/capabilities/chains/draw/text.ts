/**
 * Draws a chain as text: boxes in layers with lines of box characters, within a width. A chain that is wider, or longer than a
 * screen or two, becomes a list that names before each node the nodes it waits for.
 *
 * Pure; the same chain and states make the same text.
 */
import type { ChainGraph } from '../definition/graph.ts';
import { type Layout, layOut, type Place, type Segment } from './layers.ts';
import { type Box, columnsOf, type DrawnState, type Picture, pictureOf, type StateName, shortened } from './picture.ts';

/** Maximum number of drawn boxes, and of lines of a list; larger chains are summarised. */
const MAX_BOXES = 40;
const MAX_LISTED = 200;
/** Longest title in a box, in columns; shorter ones are tried where a drawing is too wide. */
const TITLE_COLUMNS = [28, 18, 12];
const GAP = 2;

const SIGNS: Readonly<Record<StateName, string>> = {
  pending: '○',
  running: '▸',
  waiting: '…',
  done: '✓',
  skipped: '-',
  failed: '✗',
  cancelled: '■',
  interrupted: '!',
  compensated: '↶',
};

export interface TextOptions {
  /** The states of a run. Without them the definition is drawn. */
  readonly states?: readonly DrawnState[] | undefined;
  /** Columns at most. */
  readonly width: number;
}

/** Draws a chain. Lines end without blanks; the last one has no line break. */
export function drawText(graph: ChainGraph, { states, width }: TextOptions): string {
  const picture = pictureOf(graph, states, MAX_BOXES);
  for (const columns of TITLE_COLUMNS) {
    const layout = layoutOf(picture, columns);
    if (layout.width <= width) return [...drawn(picture, layout, columns), ...legendOf(picture, width)].join('\n');
  }
  const listed = pictureOf(graph, states, MAX_LISTED);
  return [...list(listed, width), ...legendOf(listed, width)].join('\n');
}

/** Returns the two lines in a box. */
function linesOf(box: Box, columns: number): readonly [string, string] {
  const sign = box.state === undefined ? '' : `${SIGNS[box.state]} `;
  return [sign + shortened(box.title, columns), shortened(box.about, columns + 4)];
}

function layoutOf(picture: Picture, columns: number): Layout {
  const labels = new Map<number, number>();
  for (const { to, label } of picture.lines) labels.set(to, Math.max(labels.get(to) ?? 0, label.length));
  return layOut(picture.lines, {
    widths: picture.boxes.map((box, at) => {
      const text = Math.max(...linesOf(box, columns).map(columnsOf)) + 4;
      // The label of a line is beside its end, in the right half of the box below. An odd width has a middle.
      return Math.max(text, 2 * ((labels.get(at) ?? -1) + 2) + 1) | 1;
    }),
    lineWidth: ({ label }) => (label === '' ? 1 : 2 * (label.length + 2) + 1),
    gap: GAP,
    whole: true,
  });
}

/** Directions in which a cell has a line. */
const UP = 1;
const RIGHT = 2;
const DOWN = 4;
const LEFT = 8;
const CELLS = ' ╵╶└╷│┌├╴┘─┴┐┤┬┼';

/** Rows of a box: its two lines between two borders. */
const BOX_ROWS = 4;

class Grid {
  readonly #cells: string[][] = [];
  readonly #lines: number[][] = [];

  put(row: number, column: number, text: string): void {
    const cells = this.#cells[row] ?? [];
    this.#cells[row] = cells;
    let at = column;
    for (const char of text) {
      const columns = columnsOf(char);
      // A combining mark belongs to the letter before it.
      if (columns === 0) cells[at - 1] = `${cells[at - 1] ?? ''}${char}`;
      else cells[at] = char;
      if (columns === 2) cells[at + 1] = '';
      at += columns;
    }
  }

  line(row: number, column: number, directions: number): void {
    const lines = this.#lines[row] ?? [];
    this.#lines[row] = lines;
    lines[column] = (lines[column] ?? 0) | directions;
  }

  isFree(row: number, from: number, to: number): boolean {
    for (let at = from; at <= to; at += 1) {
      if (this.#lines[row]?.[at] !== undefined || this.#cells[row]?.[at] !== undefined) return false;
    }
    return true;
  }

  rows(): string[] {
    const count = Math.max(this.#cells.length, this.#lines.length);
    return Array.from({ length: count }, (_, row) => {
      const [cells = [], lines = []] = [this.#cells[row], this.#lines[row]];
      const columns = Math.max(cells.length, lines.length);
      return Array.from({ length: columns }, (__, at) => cells[at] ?? CELLS[lines[at] ?? 0])
        .join('')
        .trimEnd();
    });
  }
}

function drawn(picture: Picture, layout: Layout, columns: number): string[] {
  const grid = new Grid();
  let top = 0;
  for (const [number, layer] of layout.layers.entries()) {
    const out = layout.segments.filter(({ from }) => (layout.places[from] as Place).layer === number);
    const leads = new Set(out.map(({ from }) => from));
    for (const at of layer) drawPlace(grid, picture, layout.places[at] as Place, top, leads.has(at), columns);
    top += BOX_ROWS;
    if (number < layout.layers.length - 1) top = drawGap(grid, picture, layout, out, top);
  }
  return grid.rows();
}

const middleOf = ({ x }: Place): number => Math.floor(x);

function drawPlace(grid: Grid, picture: Picture, place: Place, top: number, leads: boolean, columns: number): void {
  const middle = middleOf(place);
  if (place.box === undefined) {
    for (let row = top; row < top + BOX_ROWS; row += 1) grid.line(row, middle, UP | DOWN);
    return;
  }
  const box = picture.boxes[place.box] as Box;
  const left = Math.round(place.x - place.width / 2);
  const inner = place.width - 2;
  const isStack = box.kind === 'map' || box.kind === 'group';
  const corners = isStack ? '╒╕╘╛' : box.kind === 'branch' ? '╱╲╲╱' : box.kind === 'wait' ? '╭╮╰╯' : '┌┐└┘';
  const [open, close, openBelow, closeBelow] = corners;
  const edge = isStack ? '═' : '─';
  grid.put(top, left, `${open}${edge.repeat(inner)}${close}`);
  for (const [row, text] of linesOf(box, columns).entries()) {
    const before = Math.floor((inner - columnsOf(text)) / 2);
    grid.put(top + 1 + row, left, `│${' '.repeat(before)}${text}${' '.repeat(inner - before - columnsOf(text))}│`);
  }
  grid.put(top + 3, left, `${openBelow}${edge.repeat(inner)}${closeBelow}`);
  if (leads) grid.put(top + 3, middle, isStack ? '╤' : '┬');
}

/** The lines of one place to places in the next layer: down, along one row, and down. */
interface Bus {
  readonly from: number;
  readonly column: number;
  readonly segments: readonly Segment[];
  readonly targets: readonly number[];
  row: number;
}

/** Draws the lines between two layers; returns the row behind them. */
function drawGap(grid: Grid, picture: Picture, layout: Layout, segments: readonly Segment[], top: number): number {
  const column = (at: number): number => middleOf(layout.places[at] as Place);
  const bySource = new Map<number, Segment[]>();
  for (const segment of segments) bySource.set(segment.from, [...(bySource.get(segment.from) ?? []), segment]);
  const buses = [...bySource].map(
    ([from, own]): Bus => ({
      from,
      column: column(from),
      segments: own,
      targets: own.map(({ to }) => column(to)),
      row: 0,
    }),
  );
  const tracks = assignRows(buses);
  const label = segments.some(({ line, isFirst }) => isFirst && picture.lines[line]?.label !== '');
  const last = top + tracks + (label ? 1 : 0);
  for (const bus of buses) {
    const row = top + bus.row;
    for (let at = top; at <= row; at += 1) grid.line(at, bus.column, UP | (at < row ? DOWN : 0));
    const all = [bus.column, ...bus.targets];
    const [left, right] = [Math.min(...all), Math.max(...all)];
    for (let at = left; at <= right; at += 1) {
      if (left < right) grid.line(row, at, (at > left ? LEFT : 0) | (at < right ? RIGHT : 0));
    }
    for (const { to, line, isFirst, isLast } of bus.segments) {
      const at = column(to);
      for (let each = row; each <= last; each += 1) grid.line(each, at, DOWN | (each > row ? UP : 0));
      if (isLast) grid.put(last, at, '▼');
      const { label: text } = picture.lines[line] as Picture['lines'][number];
      // Beside the end of the line, if the row has space.
      if (isFirst && text !== '' && grid.isFree(last, at + 1, at + 1 + text.length)) grid.put(last, at + 2, text);
    }
  }
  return last + 1;
}

/**
 * Gives each bus a row, so that no two share a piece of one, and none ends in the column where another still comes down.
 * Returns the number of rows; straight lines need none.
 */
function assignRows(buses: readonly Bus[]): number {
  const bent = buses.filter(({ column, targets }) => targets.some((target) => target !== column));
  // Where a bus leads into the column in which another comes down, the other bus turns off first.
  const first = (bus: Bus): Bus[] =>
    bent.filter(
      (other) => other !== bus && bus.targets.includes(other.column) && !other.targets.includes(other.column),
    );
  const placed: Bus[] = [];
  const taken: { readonly left: number; readonly right: number }[][] = [];
  const open = new Set<Bus>();
  const place = (bus: Bus): void => {
    if (placed.includes(bus) || open.has(bus)) return;
    open.add(bus);
    let row = 0;
    for (const before of first(bus)) {
      place(before);
      row = Math.max(row, before.row + 1);
    }
    const all = [bus.column, ...bus.targets];
    const [left, right] = [Math.min(...all), Math.max(...all)];
    while (taken[row]?.some((other) => left <= other.right + 1 && other.left <= right + 1)) row += 1;
    taken[row] = [...(taken[row] ?? []), { left, right }];
    bus.row = row;
    placed.push(bus);
  };
  for (const bus of bent) place(bus);
  return taken.length;
}

/** Returns a line for each box, in the order of the layers, with the boxes that lead to it. */
function list({ boxes, lines }: Picture, width: number): string[] {
  const before = boxes.map((): string[] => []);
  const waits = new Int32Array(boxes.length);
  const behind = boxes.map((): number[] => []);
  for (const { from, to, label } of lines) {
    before[to]?.push((boxes[from] as Box).title + (label === '' ? '' : ` (${label})`));
    behind[from]?.push(to);
    waits[to] = (waits[to] as number) + 1;
  }
  const order = [...boxes.keys()].filter((at) => waits[at] === 0);
  for (const at of order) {
    for (const to of behind[at] ?? []) {
      waits[to] = (waits[to] as number) - 1;
      if (waits[to] === 0) order.push(to);
    }
  }
  const titles = Math.min(Math.max(...boxes.map(({ title }) => columnsOf(title))), Math.floor(width / 3));
  return order.map((at) => {
    const box = boxes[at] as Box;
    const [title] = linesOf(box, titles);
    const names = before[at] ?? [];
    const sources =
      names.length === 0
        ? ''
        : `  ← ${names.length > 4 ? `${names.slice(0, 3).join(', ')}, … ${names.length - 3} more` : names.join(', ')}`;
    const padding = ' '.repeat(Math.max(titles + (box.state === undefined ? 0 : 2) - columnsOf(title), 0));
    return shortened(`${title}${padding}  ${box.about}${sources}`, width);
  });
}

/** Returns the signs that occur, with their words, in as many lines as they need. */
function legendOf({ boxes }: Picture, width: number): string[] {
  const lines: string[] = [];
  for (const state of Object.keys(SIGNS) as StateName[]) {
    if (!boxes.some((box) => box.state === state)) continue;
    const entry = `${SIGNS[state]} ${state}`;
    const longer = `${lines.at(-1) ?? ''}   ${entry}`;
    if (lines.length > 0 && longer.length <= width) lines[lines.length - 1] = longer;
    else lines.push(entry);
  }
  return lines.length === 0 ? [] : ['', ...lines];
}
