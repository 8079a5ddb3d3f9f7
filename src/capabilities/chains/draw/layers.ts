/**
 * Lays boxes out in layers, as Sugiyama and others draw graphs: each box is in a layer below all boxes that lead to it. A line
 * over several layers has a separate place in each of them, so that no line runs through a box. Places are ordered for few
 * crossings, and then moved so that lines are straight where possible.
 *
 * Pure and deterministic. Sizes are in the units of the caller.
 */
import { type Line, levelsOf } from './picture.ts';

/** A place in a layer: a box, or a passing line. */
export interface Place {
  /** The box; undefined: a line passes. */
  readonly box: number | undefined;
  readonly layer: number;
  readonly width: number;
  /** The horizontal middle. */
  x: number;
}

/** A piece of a line, from a place to one in the next layer. */
export interface Segment {
  readonly from: number;
  readonly to: number;
  /** The line it belongs to. */
  readonly line: number;
  readonly isFirst: boolean;
  readonly isLast: boolean;
}

export interface Layout {
  readonly places: readonly Place[];
  /** Places by layer, from left to right. */
  readonly layers: readonly (readonly number[])[];
  readonly segments: readonly Segment[];
  readonly width: number;
}

export interface LayoutSizes {
  /** Width of each box. */
  readonly widths: readonly number[];
  /** Returns the width of the place where a line passes. */
  lineWidth(line: Line): number;
  /** Least distance of two places. */
  readonly gap: number;
  /** True: positions are whole numbers. */
  readonly whole: boolean;
}

/** Number of sweeps over all layers for the order, and for the positions. */
const ORDER_SWEEPS = 12;
const POSITION_SWEEPS = 24;

/** Lays out boxes and lines. */
export function layOut(lines: readonly Line[], sizes: LayoutSizes): Layout {
  const levels = levelsOf(sizes.widths.length, lines);
  const places: Place[] = sizes.widths.map((width, box) => ({ box, layer: levels[box] as number, width, x: 0 }));
  const segments: Segment[] = [];
  for (const [number, line] of lines.entries()) {
    let from = line.from;
    const last = levels[line.to] as number;
    for (let layer = (levels[line.from] as number) + 1; layer <= last; layer += 1) {
      const to = layer === last ? line.to : places.length;
      if (to === places.length) places.push({ box: undefined, layer, width: sizes.lineWidth(line), x: 0 });
      segments.push({ from, to, line: number, isFirst: from === line.from, isLast: to === line.to });
      from = to;
    }
  }
  const ordered = orderedLayers(places, segments);
  position(places, ordered, segments, sizes);
  const width = places.reduce((most, place) => Math.max(most, place.x + place.width / 2), 0);
  return { places, layers: ordered, segments, width: sizes.whole ? Math.ceil(width) : width };
}

/** Neighbours of each place in the layer above and below. */
interface Neighbours {
  readonly above: readonly (readonly number[])[];
  readonly below: readonly (readonly number[])[];
}

function neighboursOf(count: number, segments: readonly Segment[]): Neighbours {
  const above = Array.from({ length: count }, (): number[] => []);
  const below = Array.from({ length: count }, (): number[] => []);
  for (const { from, to } of segments) {
    below[from]?.push(to);
    above[to]?.push(from);
  }
  return { above, below };
}

function orderedLayers(places: readonly Place[], segments: readonly Segment[]): number[][] {
  const deepest = places.reduce((most, { layer }) => Math.max(most, layer), 0);
  let layers = Array.from({ length: deepest + 1 }, (): number[] => []);
  const { above, below } = neighboursOf(places.length, segments);
  // The first order is that of a depth-first walk, which places connected boxes together.
  const seen = new Set<number>();
  const open = [...places.keys()].filter((at) => above[at]?.length === 0).reverse();
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (seen.has(at)) continue;
    seen.add(at);
    layers[(places[at] as Place).layer]?.push(at);
    for (const to of [...(below[at] ?? [])].reverse()) if (!seen.has(to)) open.push(to);
  }
  let best = layers.map((layer) => [...layer]);
  let fewest = crossings(best, below);
  for (let sweep = 0; sweep < ORDER_SWEEPS && fewest > 0; sweep += 1) {
    layers = sweep % 2 === 0 ? sweptDown(layers, above) : sweptDown(layers.toReversed(), below).toReversed();
    const count = crossings(layers, below);
    if (count < fewest) {
      fewest = count;
      best = layers.map((layer) => [...layer]);
    }
  }
  return best;
}

/** Orders each layer by the mean place of its neighbours in the layer before it; a place without neighbours stays. */
function sweptDown(layers: readonly (readonly number[])[], before: readonly (readonly number[])[]): number[][] {
  const swept: number[][] = [];
  let placeOf = new Map<number, number>();
  for (const layer of layers) {
    const means = new Map(
      layer.map((at, index) => {
        const found = (before[at] ?? []).map((each) => placeOf.get(each) ?? 0);
        return [at, found.length === 0 ? index : found.reduce((sum, each) => sum + each, 0) / found.length];
      }),
    );
    const sorted = [...layer].sort((one, other) => (means.get(one) as number) - (means.get(other) as number));
    placeOf = new Map(sorted.map((at, index) => [at, index]));
    swept.push(sorted);
  }
  return swept;
}

/** Counts crossing segments: inversions, counted by a tree of sums for each gap between two layers. */
export function crossings(layers: readonly (readonly number[])[], below: readonly (readonly number[])[]): number {
  let count = 0;
  for (const [number, layer] of layers.entries()) {
    const next = layers[number + 1];
    if (next === undefined) break;
    const placeOf = new Map(next.map((at, index) => [at, index]));
    const sums = new Int32Array(next.length + 1);
    let seen = 0;
    for (const at of layer) {
      const targets = (below[at] ?? []).map((to) => placeOf.get(to) as number);
      for (const place of targets) {
        // Counts the segments seen so far that end to the right of this one.
        let left = 0;
        for (let sum = place + 1; sum > 0; sum -= sum & -sum) left += sums[sum] as number;
        count += seen - left;
      }
      for (const place of targets) {
        for (let sum = place + 1; sum < sums.length; sum += sum & -sum) sums[sum] = (sums[sum] as number) + 1;
      }
      seen += targets.length;
    }
  }
  return count;
}

function position(
  places: readonly Place[],
  layers: readonly (readonly number[])[],
  segments: readonly Segment[],
  { gap, whole }: LayoutSizes,
): void {
  const { above, below } = neighboursOf(places.length, segments);
  const place = (at: number): Place => places[at] as Place;
  for (const layer of layers) {
    let x = 0;
    for (const at of layer) {
      place(at).x = x + place(at).width / 2;
      x += place(at).width + gap;
    }
  }
  for (let sweep = 0; sweep < POSITION_SWEEPS; sweep += 1) {
    const isDown = sweep % 2 === 0;
    for (const layer of isDown ? layers : layers.toReversed()) {
      // The last sweeps look at both sides, so that a box is between the boxes it joins.
      const near = (at: number): readonly number[] => {
        const [first = [], second = []] = isDown ? [above[at], below[at]] : [below[at], above[at]];
        return sweep >= POSITION_SWEEPS - 8 ? [...first, ...second] : first.length > 0 ? first : second;
      };
      spread(
        layer.map(place),
        layer.map((at) => near(at).map(place)),
        gap,
      );
    }
  }
  const left = places.reduce((least, { x, width }) => Math.min(least, x - width / 2), Number.POSITIVE_INFINITY);
  for (const each of places) each.x -= left;
  if (!whole) return;
  for (const layer of layers) rounded(layer.map(place), gap);
  for (const layer of layers)
    aligned(
      layer.map(place),
      layer.map((at) => (above[at] ?? []).map(place)),
      gap,
    );
}

/**
 * Moves places of a layer as near to the mean of their neighbours as their order and distances allow: the least squares, by
 * pooling neighbours that would overlap.
 */
function spread(layer: readonly Place[], neighbours: readonly (readonly Place[])[], gap: number): void {
  interface Block {
    sum: number;
    weight: number;
    readonly members: number[];
  }
  const offsets: number[] = [];
  for (const [at, place] of layer.entries()) {
    const before = layer[at - 1];
    offsets.push(before === undefined ? 0 : (offsets[at - 1] as number) + (before.width + place.width) / 2 + gap);
  }
  const blocks: Block[] = [];
  const mean = ({ sum, weight }: Block): number => sum / weight;
  for (const [at, place] of layer.entries()) {
    const near = neighbours[at] ?? [];
    const total = near.reduce((sum, each) => sum + pull(place, each), 0);
    const wanted =
      near.length === 0 ? place.x : near.reduce((sum, each) => sum + each.x * pull(place, each), 0) / total;
    const weight = near.length === 0 ? 0.1 : total / near.length;
    blocks.push({ sum: (wanted - (offsets[at] as number)) * weight, weight, members: [at] });
    for (;;) {
      const [last, before] = [blocks.at(-1) as Block, blocks.at(-2)];
      if (before === undefined || mean(before) <= mean(last)) break;
      before.sum += last.sum;
      before.weight += last.weight;
      before.members.push(...last.members);
      blocks.pop();
    }
  }
  for (const block of blocks) {
    for (const at of block.members) (layer[at] as Place).x = mean(block) + (offsets[at] as number);
  }
}

/** Returns the weight with which two places attract each other vertically: passing lines are straightened before boxes. */
const pull = (one: Place, other: Place): number =>
  one.box === undefined && other.box === undefined ? 8 : one.box === undefined || other.box === undefined ? 2 : 1;

/** Rounds positions to whole numbers, in the same order and at the same least distance. */
function rounded(layer: readonly Place[], gap: number): void {
  let least = 0;
  for (const place of layer) {
    const left = Math.max(least, Math.round(place.x - place.width / 2));
    place.x = left + place.width / 2;
    least = left + place.width + gap;
  }
}

/** Moves places by one or two where their line from above becomes straight and the layer has space. */
function aligned(layer: readonly Place[], above: readonly (readonly Place[])[], gap: number): void {
  for (const [at, place] of layer.entries()) {
    const [only, ...others] = above[at] ?? [];
    if (only === undefined || others.length > 0) continue;
    const by = Math.floor(only.x) - Math.floor(place.x);
    const left = place.x + by - place.width / 2;
    const right = place.x + by + place.width / 2;
    const [before, behind] = [layer[at - 1], layer[at + 1]];
    const fits =
      left >= (before === undefined ? 0 : before.x + before.width / 2 + gap) &&
      (behind === undefined || right + gap <= behind.x - behind.width / 2);
    if (fits && Math.abs(by) <= 2) place.x += by;
  }
}
