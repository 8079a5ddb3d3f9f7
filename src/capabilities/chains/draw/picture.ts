/**
 * The content of a chain drawing: boxes and the lines between them, with the states of a run where one is given. A large chain
 * is summarised, so that a drawing has a bounded number of boxes.
 *
 * Made from a graph.
 */
import { escapeControls } from '../../../base/escape-controls.ts';
import type { NodeState } from '../chains.schema.ts';
import type { ChainGraph, EdgeKind, GraphNode } from '../definition/graph.ts';
import type { NodeKind } from '../definition/kinds.ts';

export type StateName = NodeState['state'];

/** The known state of a node in a run. */
export type DrawnState = Pick<NodeState, 'node_id' | 'state'> &
  Partial<Pick<NodeState, 'attempts' | 'items' | 'items_done'>>;

export interface Box {
  /** The id of the node, or of the first and last of a group. */
  readonly title: string;
  /** Kind and name, or the content of a group. */
  readonly about: string;
  /** `group`: it stands for several nodes. */
  readonly kind: NodeKind | 'group';
  /** Undefined: the drawing is of a definition, not of a run. */
  readonly state: StateName | undefined;
  /** The number of nodes that it stands for, by state. */
  readonly states: ReadonlyMap<StateName | '', number>;
}

export interface Line {
  readonly from: number;
  readonly to: number;
  /** `true`, `false`, `error`, `each` (of a map), `undo`; `''`: none. */
  readonly label: string;
  /** `call`: the node runs for a map or to compensate. */
  readonly style: 'flow' | 'error' | 'call';
}

export interface Picture {
  readonly boxes: readonly Box[];
  /** Each leads from a box to another, never back. */
  readonly lines: readonly Line[];
  /** Nodes of the chain. */
  readonly nodes: number;
}

/** Returns the picture of a chain, with at most `maxBoxes` boxes. */
export function pictureOf(graph: ChainGraph, states: readonly DrawnState[] | undefined, maxBoxes: number): Picture {
  const found = states && new Map(states.map((each) => [each.node_id, each]));
  const boxes = graph.nodes.map((node) => boxOf(node, found?.get(node.node.node_id), found !== undefined));
  const lines = linesOf(graph);
  return summarised({ boxes, lines, nodes: boxes.length }, maxBoxes);
}

function boxOf({ node }: GraphNode, known: DrawnState | undefined, isRun: boolean): Box {
  const state = isRun ? (known?.state ?? 'pending') : undefined;
  const { items, items_done: ended, attempts = 0 } = known ?? {};
  const progress = items === undefined ? '' : ` ${ended ?? 0}/${items}`;
  const tries = attempts > 1 && items === undefined ? ` ×${attempts}` : '';
  const name = node.kind === 'branch' || node.kind === 'map' ? '' : (node.name ?? '');
  return {
    title: escapeControls(node.node_id),
    about: escapeControls([node.kind, name].filter((word) => word !== '').join(' ')) + progress + tries,
    kind: node.kind,
    state,
    states: new Map([[state ?? '', 1]]),
  };
}

const LABELS: Readonly<Record<EdgeKind, string>> = { ended: '', true: 'true', false: 'false', error: 'error' };

function linesOf(graph: ChainGraph): Line[] {
  const lines: Line[] = [];
  for (const { index, edges, mapNode, compensate } of graph.nodes) {
    const byTarget = new Map<number, Set<EdgeKind>>();
    for (const { to, when } of edges) byTarget.set(to, (byTarget.get(to) ?? new Set()).add(when));
    for (const [to, kinds] of byTarget) {
      const label = [...kinds].map((kind) => LABELS[kind]).filter((word) => word !== '');
      const style = kinds.size === 1 && kinds.has('error') ? 'error' : 'flow';
      lines.push({ from: index, to, label: label.join(', '), style });
    }
    if (mapNode !== undefined) lines.push({ from: index, to: mapNode, label: 'each', style: 'call' });
    if (compensate !== undefined && compensate !== mapNode) {
      lines.push({ from: index, to: compensate, label: 'undo', style: 'call' });
    }
  }
  return lines;
}

/** Number of rounds that merge similar boxes, before the rest is merged by layers. */
const ROUNDS = 3;

function summarised(picture: Picture, maxBoxes: number): Picture {
  let found = picture;
  for (let round = 0; round < ROUNDS && found.boxes.length > maxBoxes; round += 1) {
    found = merged(found, siblings(found));
    if (found.boxes.length > maxBoxes) found = merged(found, rows(found));
  }
  if (found.boxes.length <= maxBoxes) return found;
  const groups = bands(found, maxBoxes);
  const inBands = merged(
    found,
    groups.filter(({ length }) => length > 1),
  );
  // Such a picture shows only lines from each band to the next one.
  const levels = levelsOf(inBands.boxes.length, inBands.lines);
  const lines = inBands.lines.filter(({ from, to }) => (levels[to] as number) === (levels[from] as number) + 1);
  return { ...inBands, lines };
}

/** Minimum number of boxes that are merged. */
const LEAST = 4;

/** Groups boxes of one kind that have the same boxes before and behind them. */
function siblings({ boxes, lines }: Picture): number[][] {
  const before = boxes.map((): string[] => []);
  const behind = boxes.map((): string[] => []);
  for (const { from, to, label } of lines) {
    before[to]?.push(`${from}${label}`);
    behind[from]?.push(`${to}${label}`);
  }
  const groups = new Map<string, number[]>();
  for (const [at, { kind }] of boxes.entries()) {
    const key = [kind, before[at]?.join(' '), behind[at]?.join(' ')].join('|');
    groups.set(key, [...(groups.get(key) ?? []), at]);
  }
  return [...groups.values()].filter((group) => group.length >= LEAST);
}

/** Groups boxes of which each has one before and one behind it. */
function rows({ boxes, lines }: Picture): number[][] {
  const into = new Int32Array(boxes.length);
  const out = new Int32Array(boxes.length);
  const next = new Map<number, number>();
  for (const { from, to } of lines) {
    into[to] = (into[to] as number) + 1;
    out[from] = (out[from] as number) + 1;
    next.set(from, to);
  }
  const isInner = (at: number): boolean => into[at] === 1 && out[at] === 1;
  const before = new Map([...next].map(([from, to]) => [to, from]));
  const groups: number[][] = [];
  for (const at of boxes.keys()) {
    if (!isInner(at) || isInner(before.get(at) as number)) continue;
    const group: number[] = [];
    for (let each: number | undefined = at; each !== undefined && isInner(each); each = next.get(each))
      group.push(each);
    if (group.length >= LEAST) groups.push(group);
  }
  return groups;
}

/** Groups all boxes into bands by their distance from the first ones; bounds the number of bands by `maxBoxes`. */
function bands({ boxes, lines }: Picture, maxBoxes: number): number[][] {
  const levels = levelsOf(boxes.length, lines);
  const deepest = levels.reduce((most, each) => Math.max(most, each), 0);
  const count = Math.min(deepest + 1, Math.floor(maxBoxes / 2), 40);
  const groups = Array.from({ length: count }, (): number[] => []);
  for (const at of boxes.keys()) groups[Math.floor(((levels[at] as number) * count) / (deepest + 1))]?.push(at);
  return groups;
}

/** Returns the length of the longest path to each box. */
export function levelsOf(count: number, lines: readonly Pick<Line, 'from' | 'to'>[]): Int32Array {
  const levels = new Int32Array(count);
  const waits = new Int32Array(count);
  const behind = Array.from({ length: count }, (): number[] => []);
  for (const { from, to } of lines) {
    waits[to] = (waits[to] as number) + 1;
    behind[from]?.push(to);
  }
  const order = [...levels.keys()].filter((at) => waits[at] === 0);
  for (const at of order) {
    for (const to of behind[at] ?? []) {
      levels[to] = Math.max(levels[to] as number, (levels[at] as number) + 1);
      waits[to] = (waits[to] as number) - 1;
      if (waits[to] === 0) order.push(to);
    }
  }
  return levels;
}

/** Returns the picture with one box for each group. Leaves out lines inside a group, and duplicate lines. */
function merged({ boxes, lines, nodes }: Picture, groups: readonly (readonly number[])[]): Picture {
  const groupOf = new Map<number, number>();
  for (const [number, group] of groups.entries()) for (const at of group) groupOf.set(at, number);
  const placed: Box[] = [];
  const placeOf = new Int32Array(boxes.length);
  const placeOfGroup = new Map<number, number>();
  for (const [at, box] of boxes.entries()) {
    const group = groupOf.get(at);
    const known = group === undefined ? undefined : placeOfGroup.get(group);
    placeOf[at] = known ?? placed.length;
    if (known !== undefined) continue;
    if (group !== undefined) placeOfGroup.set(group, placed.length);
    placed.push(
      group === undefined ? box : groupBox((groups[group] as readonly number[]).map((each) => boxes[each] as Box)),
    );
  }
  const kept = new Map<string, Line>();
  for (const line of lines) {
    const [from, to] = [placeOf[line.from] as number, placeOf[line.to] as number];
    if (from !== to) kept.set(`${from} ${to}`, { ...line, from, to });
  }
  return { boxes: placed, lines: [...kept.values()], nodes };
}

/** The shown state of a group: the first of these that a member has. */
const SHOWN_FIRST: readonly StateName[] = [
  'failed',
  'interrupted',
  'running',
  'waiting',
  'cancelled',
  'pending',
  'compensated',
  'done',
  'skipped',
];

function groupBox(boxes: readonly Box[]): Box {
  const states = new Map<StateName | '', number>();
  for (const box of boxes) for (const [state, count] of box.states) states.set(state, (states.get(state) ?? 0) + count);
  const count = [...states.values()].reduce((sum, each) => sum + each, 0);
  const [first, last] = [boxes[0] as Box, boxes.at(-1) as Box];
  const kinds = new Set(boxes.map(({ kind }) => kind));
  const what = kinds.size === 1 && first.kind !== 'group' ? `${first.kind} nodes` : 'nodes';
  const shown = SHOWN_FIRST.filter((state) => states.has(state)).map((state) => `${states.get(state)} ${state}`);
  return {
    title: `${first.title.split(' … ')[0]} … ${last.title.split(' … ').at(-1)}`,
    about: [`${count} ${what}`, ...shown].join(', '),
    kind: 'group',
    state: SHOWN_FIRST.find((state) => states.has(state)),
    states,
  };
}

/** Returns the width of a text in columns of a terminal: East Asian letters and pictures take two. */
export function columnsOf(text: string): number {
  let columns = 0;
  for (const char of text) columns += WIDE.test(char) ? 2 : COMBINING.test(char) ? 0 : 1;
  return columns;
}

const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;
const COMBINING = /\p{Mark}|\u200d/u;

/** Cuts a text to at most `columns` columns; an ellipsis replaces the rest. */
export function shortened(text: string, columns: number): string {
  if (columnsOf(text) <= columns) return text;
  let cut = '';
  for (const char of text) {
    if (columnsOf(cut + char) >= columns) break;
    cut += char;
  }
  return `${cut}…`;
}
