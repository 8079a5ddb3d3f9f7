/**
 * Draws a chain as an SVG picture. Boxes have explicit fills and lines a medium colour, so that the picture is readable on
 * light and on dark backgrounds; a colour, a sign and a word show a state.
 *
 * Pure; the same chain and states make the same text.
 */
import { counted } from '../../../base/counted.ts';
import type { ChainGraph } from '../definition/graph.ts';
import { type Layout, layOut, type Place, type Segment } from './layers.ts';
import {
  type Box,
  columnsOf,
  type DrawnState,
  type Line,
  type Picture,
  pictureOf,
  type StateName,
  shortened,
} from './picture.ts';

/** Most boxes of a picture; larger chains are summarised. */
const MAX_BOXES = 240;

/** Sizes in pixels. */
const LETTER = 7.8;
const TITLE_LETTER = 8.6;
const SMALL_LETTER = 6.6;
const BOX_HEIGHT = 46;
const MAX_LETTERS = 30;
const BOX_GAP = 28;
const LAYER_GAP = 54;
const MARGIN = 20;
const LEGEND_HEIGHT = 34;

interface Look {
  readonly fill: string;
  readonly stroke: string;
  /** A path within -6 to 6. */
  readonly sign: string;
  /** The sign is an outline. */
  readonly isOpen?: boolean;
}

const CHECK = 'M-4 0 L-1 3.4 L4.4 -3.6';
const CROSS = 'M-3.6 -3.6 L3.6 3.6 M3.6 -3.6 L-3.6 3.6';

/** Fills are light and texts on them dark, on every background. */
const looks: Readonly<Record<StateName | 'none', Look>> = {
  none: { fill: '#eef2f7', stroke: '#64748b', sign: '' },
  pending: {
    fill: '#f3f4f6',
    stroke: '#8a94a3',
    sign: 'M4.5 0 A4.5 4.5 0 1 1 -4.5 0 A4.5 4.5 0 1 1 4.5 0',
    isOpen: true,
  },
  running: { fill: '#dbeafe', stroke: '#2563eb', sign: 'M-3.5 -5 L5 0 L-3.5 5 Z' },
  waiting: {
    fill: '#fef3c7',
    stroke: '#b45309',
    sign: 'M-4.2 -5 V5 M4.2 -5 V5 M-4.2 -5 L4.2 5 M-4.2 5 L4.2 -5',
    isOpen: true,
  },
  done: { fill: '#dcfce7', stroke: '#15803d', sign: CHECK, isOpen: true },
  skipped: { fill: '#f1f5f9', stroke: '#94a3b8', sign: 'M-5 0 H5', isOpen: true },
  failed: { fill: '#fee2e2', stroke: '#b91c1c', sign: CROSS, isOpen: true },
  cancelled: { fill: '#f5e9e2', stroke: '#9a5b34', sign: 'M-4.4 -4.4 H4.4 V4.4 H-4.4 Z' },
  interrupted: { fill: '#fef3c7', stroke: '#b91c1c', sign: 'M0 -5.5 V1.5 M0 4.6 V5', isOpen: true },
  compensated: {
    fill: '#ede9fe',
    stroke: '#6d28d9',
    sign: 'M4 4.5 A5 5 0 1 0 -4.5 0 M-7 -2.5 L-4.5 1 L-1.5 -2',
    isOpen: true,
  },
};

const LINE = '#7b8794';
const ERROR_LINE = '#c2554d';
const CALL_LINE = '#7f74c9';

export interface SvgOptions {
  /** The states of a run. Without them the definition is drawn. */
  readonly states?: readonly DrawnState[] | undefined;
  /** A line above the drawing. */
  readonly title?: string;
}

/** Draws a chain. */
export function drawSvg(graph: ChainGraph, { states, title = '' }: SvgOptions = {}): string {
  const picture = pictureOf(graph, states, MAX_BOXES);
  const layout = layOut(picture.lines, {
    widths: picture.boxes.map(widthOf),
    lineWidth: ({ label }) => (label === '' ? 8 : label.length * SMALL_LETTER + 16),
    gap: BOX_GAP,
    whole: false,
  });
  const top = MARGIN + (title === '' ? 0 : 26);
  const legend = legendOf(picture);
  const width = Math.ceil(Math.max(layout.width, legend.width, columnsOf(title) * TITLE_LETTER) + 2 * MARGIN);
  const below = top + layout.layers.length * (BOX_HEIGHT + LAYER_GAP) - LAYER_GAP;
  const height = Math.ceil(below + MARGIN + (legend.text === '' ? 0 : LEGEND_HEIGHT));
  const at: Frame = { left: (width - layout.width) / 2, top };
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace">`,
    `<title>${escaped(title === '' ? `A chain of ${counted(picture.nodes, 'node')}` : title)}</title>`,
    `<defs>${[LINE, ERROR_LINE, CALL_LINE].map(arrow).join('')}</defs>`,
    title === ''
      ? ''
      : `<text x="${MARGIN}" y="${MARGIN + 10}" font-size="14" font-weight="600" fill="${LINE}">${escaped(title)}</text>`,
    ...picture.lines.map((line, number) => drawnLine(line, number, layout, at)),
    ...layout.places.flatMap((place) =>
      place.box === undefined ? [] : [drawnBox(picture.boxes[place.box] as Box, place, at)],
    ),
    ...picture.lines.map((line, number) => drawnLabel(line, number, layout, at)),
    legend.text === '' ? '' : `<g transform="translate(${MARGIN} ${below + MARGIN})">${legend.text}</g>`,
    '</svg>',
    '',
  ]
    .filter((part, index, all) => part !== '' || index === all.length - 1)
    .join('\n');
}

/** The origin of the drawing. */
interface Frame {
  readonly left: number;
  readonly top: number;
}

const titleOf = ({ title }: Box): string => shortened(title, MAX_LETTERS);
const aboutOf = ({ about }: Box): string => shortened(about, MAX_LETTERS + 8);

const widthOf = (box: Box): number => {
  const sign = box.state === undefined ? 0 : 20;
  const slant = box.kind === 'branch' ? 20 : 0;
  return Math.max(columnsOf(titleOf(box)) * LETTER + sign, columnsOf(aboutOf(box)) * SMALL_LETTER, 60) + 26 + slant;
};

const topOf = (layer: number, { top }: Frame): number => top + layer * (BOX_HEIGHT + LAYER_GAP);
const round = (value: number): string => String(Math.round(value * 10) / 10);

function drawnBox(box: Box, { x, width, layer }: Place, at: Frame): string {
  const look = looks[box.state ?? 'none'];
  const [left, y] = [at.left + x - width / 2, topOf(layer, at)];
  const middle = at.left + x;
  const dashed = box.state === 'skipped' || box.state === 'pending' ? ' stroke-dasharray="5 3"' : '';
  const style = `fill="${look.fill}" stroke="${look.stroke}" stroke-width="${box.state === 'running' || box.state === 'failed' ? 2.4 : 1.4}"${dashed}`;
  const title = titleOf(box);
  const hasSign = look.sign !== '';
  const textX = middle + (hasSign ? 10 : 0);
  const state = box.state === undefined ? '' : `, ${box.state}`;
  return [
    `<g><title>${escaped(`${box.title}: ${box.about}${state}`)}</title>`,
    shapeOf(box, left, y, width, style, look),
    hasSign
      ? `<path transform="translate(${round(textX - (columnsOf(title) * LETTER) / 2 - 14)} ${round(y + 17)})" d="${look.sign}" ${look.isOpen ? `fill="none" stroke="${look.stroke}" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"` : `fill="${look.stroke}"`}/>`
      : '',
    `<text x="${round(textX)}" y="${round(y + 21)}" text-anchor="middle" font-size="13" font-weight="600" fill="#111827">${escaped(title)}</text>`,
    `<text x="${round(middle)}" y="${round(y + 37)}" text-anchor="middle" font-size="11" fill="#4b5563">${escaped(aboutOf(box))}</text>`,
    '</g>',
  ].join('');
}

/** Returns the shape of a box: a branch is pointed, a map and a group are stacks, a wait is round. */
function shapeOf({ kind }: Box, left: number, y: number, width: number, style: string, { fill, stroke }: Look): string {
  const right = left + width;
  if (kind === 'branch') {
    const [middle, slant] = [y + BOX_HEIGHT / 2, 14];
    const points = [
      [left, middle],
      [left + slant, y],
      [right - slant, y],
      [right, middle],
      [right - slant, y + BOX_HEIGHT],
      [left + slant, y + BOX_HEIGHT],
    ];
    return `<polygon points="${points.map((point) => (point as number[]).map(round).join(',')).join(' ')}" ${style}/>`;
  }
  const rectangle = (dx: number, radius: number, look: string): string =>
    `<rect x="${round(left + dx)}" y="${round(y - dx)}" width="${round(width - dx)}" height="${BOX_HEIGHT}" rx="${radius}" ${look}/>`;
  if (kind === 'map' || kind === 'group') {
    const behind = `fill="${fill}" stroke="${stroke}" stroke-width="1"`;
    return `${rectangle(4, 6, behind)}<rect x="${round(left)}" y="${round(y)}" width="${round(width - 4)}" height="${BOX_HEIGHT}" rx="6" ${style}/>`;
  }
  return rectangle(0, kind === 'wait' ? BOX_HEIGHT / 2 : 6, style);
}

const colourOf = ({ style }: Line): string => (style === 'error' ? ERROR_LINE : style === 'call' ? CALL_LINE : LINE);

const arrow = (colour: string): string =>
  `<marker id="a${colour.slice(1)}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 1 L9 5 L0 9 Z" fill="${colour}"/></marker>`;

/** Returns the start and the end of a segment. Several lines at one side of a box have separate ends. */
function endsOf(
  { from, to, isFirst, isLast }: Segment,
  layout: Layout,
  at: Frame,
): readonly [number, number, number, number] {
  const [a, b] = [layout.places[from] as Place, layout.places[to] as Place];
  const startY = topOf(a.layer, at) + BOX_HEIGHT;
  return [
    at.left + a.x + (isFirst ? portOf(layout, from, to, 'from') : 0),
    startY,
    at.left + b.x + (isLast ? portOf(layout, to, from, 'to') : 0),
    topOf(b.layer, at),
  ];
}

/** Distance of two ends at one side of a box, at most. */
const PORT = 14;

function portOf(layout: Layout, place: number, other: number, side: 'from' | 'to'): number {
  const ends = portsOf(layout)[side].get(place) ?? [];
  const room = Math.min(PORT, ((layout.places[place] as Place).width - 40) / Math.max(ends.length - 1, 1));
  return (ends.indexOf(other) - (ends.length - 1) / 2) * room;
}

/** For each place the places at the other ends of its lines, from left to right. */
interface Ports {
  readonly from: ReadonlyMap<number, readonly number[]>;
  readonly to: ReadonlyMap<number, readonly number[]>;
}

const known = new WeakMap<Layout, Ports>();

function portsOf(layout: Layout): Ports {
  const before = known.get(layout);
  if (before !== undefined) return before;
  const x = (at: number): number => (layout.places[at] as Place).x;
  const grouped = (side: 'from' | 'to', other: 'from' | 'to') => {
    const ends = new Map<number, number[]>();
    for (const segment of layout.segments)
      ends.set(segment[side], [...(ends.get(segment[side]) ?? []), segment[other]]);
    for (const list of ends.values()) list.sort((one, two) => x(one) - x(two));
    return ends;
  };
  const ports = { from: grouped('from', 'to'), to: grouped('to', 'from') };
  known.set(layout, ports);
  return ports;
}

const segmentsOf = (layout: Layout, number: number): readonly Segment[] => {
  const all = bySegment.get(layout) ?? new Map<number, Segment[]>();
  if (!bySegment.has(layout)) {
    for (const segment of layout.segments) all.set(segment.line, [...(all.get(segment.line) ?? []), segment]);
    bySegment.set(layout, all);
  }
  return all.get(number) ?? [];
};
const bySegment = new WeakMap<Layout, Map<number, Segment[]>>();

function drawnLine(line: Line, number: number, layout: Layout, at: Frame): string {
  const segments = segmentsOf(layout, number);
  const path = segments.map((segment) => {
    const [x1, y1, x2, y2] = endsOf(segment, layout, at);
    const bend = (y2 - y1) / 2;
    // Straight through the layers between, curved in the gaps: no box is in a gap.
    const start = segment.isFirst ? `M${round(x1)} ${round(y1)}` : `L${round(x1)} ${round(y1)}`;
    const end = segment.isLast ? y2 - 1 : y2;
    return `${start} C${round(x1)} ${round(y1 + bend)} ${round(x2)} ${round(y2 - bend)} ${round(x2)} ${round(end)}`;
  });
  const colour = colourOf(line);
  const dash = line.style === 'flow' ? '' : ` stroke-dasharray="${line.style === 'error' ? '6 4' : '2 4'}"`;
  return `<path d="${path.join(' ')}" fill="none" stroke="${colour}" stroke-width="1.6"${dash} marker-end="url(#a${colour.slice(1)})"/>`;
}

/** Returns the label of a line, in the first gap it passes, beside its lower end. */
function drawnLabel(line: Line, number: number, layout: Layout, at: Frame): string {
  const first = segmentsOf(layout, number)[0];
  if (line.label === '' || first === undefined) return '';
  const [x1, y1, x2, y2] = endsOf(first, layout, at);
  const part = 0.62;
  const [x, y] = [bezier(x1, x1, x2, x2, part), bezier(y1, (y1 + y2) / 2, (y1 + y2) / 2, y2, part)];
  const width = line.label.length * SMALL_LETTER + 8;
  const colour = colourOf(line);
  return `<g><rect x="${round(x - width / 2)}" y="${round(y - 8)}" width="${round(width)}" height="16" rx="8" fill="#ffffff" stroke="${colour}"/><text x="${round(x)}" y="${round(y + 3.8)}" text-anchor="middle" font-size="11" fill="#374151">${escaped(line.label)}</text></g>`;
}

const bezier = (a: number, b: number, c: number, d: number, t: number): number =>
  a * (1 - t) ** 3 + 3 * b * t * (1 - t) ** 2 + 3 * c * t ** 2 * (1 - t) + d * t ** 3;

/** Returns the signs of the states that occur, with their words. */
function legendOf({ boxes }: Picture): { readonly text: string; readonly width: number } {
  const states = Object.keys(looks).filter((state) => boxes.some((box) => box.state === state)) as StateName[];
  let x = 0;
  const parts = states.map((state) => {
    const { stroke, fill, sign, isOpen } = looks[state];
    const from = x;
    x += 34 + state.length * SMALL_LETTER + 16;
    const look = isOpen
      ? `fill="none" stroke="${stroke}" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"`
      : `fill="${stroke}"`;
    return `<rect x="${round(from)}" y="0" width="24" height="20" rx="4" fill="${fill}" stroke="${stroke}"/><path transform="translate(${round(from + 12)} 10)" d="${sign}" ${look}/><text x="${round(from + 31)}" y="14" font-size="11" fill="${LINE}">${state}</text>`;
  });
  return { text: parts.join(''), width: x };
}

/** Escapes a text for a document; replaces characters that XML does not allow. */
const escaped = (text: string): string =>
  text.replace(/[<>&"']/g, (char) => `&#${char.charCodeAt(0)};`).replace(/\p{Cc}|\p{Cs}|[\ufffe\uffff]/gu, '�');
