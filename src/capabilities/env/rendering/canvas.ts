/** A small rasteriser: filled polygons with smooth edges, and circles, lines and rectangles made of them. */
import type { Image } from './image.ts';

export type Colour = readonly [red: number, green: number, blue: number];
export type Point = readonly [x: number, y: number];

/** Scan lines in a row of pixels; across, coverage is exact. */
const SCANS = 4;
const CIRCLE_CORNERS = 48;

export class Canvas {
  readonly image: Image;
  readonly #coverage: Float64Array;

  constructor(width: number, height: number, background: Colour) {
    const pixels = new Uint8Array(width * height * 3);
    for (let at = 0; at < pixels.length; at += 3) pixels.set(background, at);
    this.image = { width, height, pixels };
    this.#coverage = new Float64Array(width);
  }

  /** Fills a polygon, by the even-odd rule. Points may lie outside of the picture. */
  polygon(points: readonly Point[], colour: Colour): void {
    const { width, height } = this.image;
    const ys = points.map(([, y]) => y);
    const first = Math.max(0, Math.floor(Math.min(...ys)));
    const last = Math.min(height - 1, Math.ceil(Math.max(...ys)));
    for (let row = first; row <= last; row += 1) {
      this.#coverage.fill(0);
      for (let scan = 0; scan < SCANS; scan += 1) {
        const crossings = crossingsOf(points, row + (scan + 0.5) / SCANS);
        for (let at = 0; at + 1 < crossings.length; at += 2) this.#cover(crossings[at]!, crossings[at + 1]!);
      }
      for (let x = 0; x < width; x += 1) if (this.#coverage[x]! > 0) this.#blend(x, row, colour);
    }
  }

  circle(x: number, y: number, radius: number, colour: Colour): void {
    const corner = (at: number): Point => {
      const angle = (2 * Math.PI * at) / CIRCLE_CORNERS;
      return [x + radius * Math.cos(angle), y + radius * Math.sin(angle)];
    };
    this.polygon(
      Array.from({ length: CIRCLE_CORNERS }, (_, at) => corner(at)),
      colour,
    );
  }

  /** Draws a line of `thickness` pixels. */
  line(fromX: number, fromY: number, toX: number, toY: number, colour: Colour, thickness = 1): void {
    const length = Math.hypot(toX - fromX, toY - fromY) || 1;
    const [sideX, sideY] = [((fromY - toY) / length) * (thickness / 2), ((toX - fromX) / length) * (thickness / 2)];
    this.polygon(
      [
        [fromX + sideX, fromY + sideY],
        [toX + sideX, toY + sideY],
        [toX - sideX, toY - sideY],
        [fromX - sideX, fromY - sideY],
      ],
      colour,
    );
  }

  rectangle(x: number, y: number, width: number, height: number, colour: Colour): void {
    this.polygon(
      [
        [x, y],
        [x + width, y],
        [x + width, y + height],
        [x, y + height],
      ],
      colour,
    );
  }

  #cover(from: number, to: number): void {
    const { width } = this.image;
    const [start, end] = [Math.max(0, from), Math.min(width, to)];
    for (let x = Math.floor(start); x < end; x += 1) {
      this.#coverage[x]! += (Math.min(end, x + 1) - Math.max(start, x)) / SCANS;
    }
  }

  #blend(x: number, y: number, colour: Colour): void {
    const { width, pixels } = this.image;
    const share = Math.min(1, this.#coverage[x]!);
    const at = (y * width + x) * 3;
    for (const [channel, value] of colour.entries()) {
      pixels[at + channel] = Math.round(pixels[at + channel]! * (1 - share) + value * share);
    }
  }
}

/** Returns the positions where a horizontal line crosses the sides of a polygon, from left to right. */
function crossingsOf(points: readonly Point[], y: number): number[] {
  const crossings: number[] = [];
  for (const [at, [x1, y1]] of points.entries()) {
    const [x2, y2] = points[(at + 1) % points.length]!;
    if (y1 <= y !== y2 <= y) crossings.push(x1 + ((y - y1) / (y2 - y1)) * (x2 - x1));
  }
  return crossings.sort((a, b) => a - b);
}
