/**
 * Draws lines with confidence bands as SVG. The names are at the right ends of the lines, moved apart if they would
 * overlap.
 */
import type { Band } from './play.ts';

export interface ChartTexts {
  readonly title: string;
  readonly x: string;
  readonly y: string;
  /** Value at the right end of the x axis. */
  readonly until: number;
  /** Upper end of the y axis. Default: above all bands. */
  readonly top?: number;
}

const WIDTH = 860;
const HEIGHT = 430;
const PLOT = { left: 70, top: 48, width: 560, height: 325 };
// Colours that stay apart for most readers with colour blindness (Okabe and Ito, and two greys).
const COLOURS = ['#8a8a8a', '#333333', '#56b4e9', '#e69f00', '#009e73', '#0072b2', '#d55e00', '#cc79a7', '#7a5195'];
const LABEL_HEIGHT = 17;

export function chart(bands: readonly Band[], { title, x, y, until, top }: ChartTexts): string {
  const highest = top ?? Math.max(...bands.flatMap(({ means, halves }) => means.map((mean, at) => mean + halves[at]!)));
  const step = niceStep(highest / 5);
  const limit = top ?? Math.ceil(highest / step) * step;
  const marks = bands[0]!.means.length - 1;
  const px = (mark: number) => PLOT.left + (mark / marks) * PLOT.width;
  const py = (value: number) => PLOT.top + PLOT.height - (value / limit) * PLOT.height;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="13">`,
    `<title>${escaped(title)}</title>`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
    `<text x="${PLOT.left}" y="26" font-size="16" font-weight="bold">${escaped(title)}</text>`,
  ];
  for (let value = 0; value <= limit + step / 1000; value += step) {
    const at = py(value).toFixed(1);
    parts.push(
      `<line x1="${PLOT.left}" x2="${PLOT.left + PLOT.width}" y1="${at}" y2="${at}" stroke="#e3e3e3"/>`,
      `<text x="${PLOT.left - 8}" y="${(py(value) + 4).toFixed(1)}" text-anchor="end">${Number(value.toFixed(3))}</text>`,
    );
  }
  for (let tick = 0; tick <= 4; tick++) {
    const at = PLOT.left + (tick / 4) * PLOT.width;
    const text = Math.round((until * tick) / 4).toLocaleString('en');
    parts.push(`<text x="${at}" y="${PLOT.top + PLOT.height + 20}" text-anchor="middle">${text}</text>`);
  }
  parts.push(
    `<text x="${PLOT.left + PLOT.width / 2}" y="${HEIGHT - 14}" text-anchor="middle">${escaped(x)}</text>`,
    `<text transform="translate(18 ${PLOT.top + PLOT.height / 2}) rotate(-90)" text-anchor="middle">${escaped(y)}</text>`,
  );
  const ends = bands
    .map(({ means }, at) => ({ at, y: Math.max(PLOT.top, py(means[marks]!)) }))
    .sort((left, right) => left.y - right.y);
  // The lowest label stays inside the picture: move the others up from there, then down from the top.
  for (let at = ends.length - 1, least = HEIGHT - 40; at >= 0; at--) {
    ends[at]!.y = Math.min(ends[at]!.y, least);
    least = ends[at]!.y - LABEL_HEIGHT;
  }
  ends[0]!.y = Math.max(ends[0]!.y, LABEL_HEIGHT);
  for (let at = 1; at < ends.length; at++) ends[at]!.y = Math.max(ends[at]!.y, ends[at - 1]!.y + LABEL_HEIGHT);
  for (const [index, { means, halves }] of bands.entries()) {
    const colour = COLOURS[index % COLOURS.length]!;
    const point = (value: number, at: number) => `${px(at).toFixed(1)},${py(Math.min(value, limit)).toFixed(1)}`;
    const upper = means.map((mean, at) => point(mean + halves[at]!, at));
    const lower = means.map((mean, at) => point(mean - halves[at]!, at)).reverse();
    parts.push(
      `<polygon points="${[...upper, ...lower].join(' ')}" fill="${colour}" opacity="0.22"/>`,
      `<polyline points="${means.map(point).join(' ')}" fill="none" stroke="${colour}" stroke-width="2"/>`,
    );
  }
  for (const { at, y: labelY } of ends) {
    const { label, means } = bands[at]!;
    const colour = COLOURS[at % COLOURS.length]!;
    const value = means[marks]!.toFixed(limit >= 10 ? 0 : 3);
    const from = py(Math.min(means[marks]!, limit)).toFixed(1);
    const edge = PLOT.left + PLOT.width;
    parts.push(
      `<line x1="${edge}" y1="${from}" x2="${edge + 14}" y2="${labelY.toFixed(1)}" stroke="${colour}"/>`,
      `<text x="${edge + 18}" y="${(labelY + 4).toFixed(1)}" fill="${colour}">${escaped(label)}: ${value}</text>`,
    );
  }
  parts.push('</svg>', '');
  return parts.join('\n');
}

/** Returns 1, 2 or 5 times a power of ten, at least this. */
function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least) ?? 10 * power;
}

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
