/** The curves of `bench/growth.ts` as one SVG: a row for each edge, with cost, memory and disk over the units done. */
import type { Sample } from './edge.ts';

export interface Curve {
  readonly edge: string;
  readonly unit: string;
  readonly samples: readonly Sample[];
}

interface Panel {
  readonly title: string;
  of(sample: Sample): number;
  show(value: number): string;
}

const MIB = 1024 * 1024;
const megabytes = (bytes: number): string => `${(bytes / MIB).toFixed(bytes < 10 * MIB ? 1 : 0)} MiB`;

const PANELS: readonly Panel[] = [
  { title: 'processor time a unit', of: ({ cpuUs }) => cpuUs, show: (us) => `${us.toFixed(us < 10 ? 1 : 0)} µs` },
  { title: 'bytes written a unit', of: ({ writtenBytes }) => writtenBytes, show: (n) => `${Math.round(n)} B` },
  { title: 'heap', of: ({ heapBytes }) => heapBytes, show: megabytes },
  { title: 'on disk', of: ({ diskBytes }) => diskBytes, show: megabytes },
];

const WIDTH = 210;
const HEIGHT = 70;
const GAP_X = 20;
const GAP_Y = 44;
const LEFT = 12;
const TOP = 46;

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/**
 * Draws the curves. Every panel starts at zero, so that a flat curve looks flat and a linear one is a line through the
 * corner.
 */
export function chart(curves: readonly Curve[]): string {
  const width = LEFT + PANELS.length * (WIDTH + GAP_X);
  const height = TOP + curves.length * (HEIGHT + GAP_Y);
  const parts: string[] = [];
  for (const [row, { edge, unit, samples }] of curves.entries()) {
    const top = TOP + row * (HEIGHT + GAP_Y);
    const units = samples.at(-1)?.units ?? 0;
    const about = `${edge}: ${units.toLocaleString('en-US')} × ${unit}`;
    parts.push(`<text x="${LEFT}" y="${top - 8}" class="name">${escaped(about)}</text>`);
    for (const [column, panel] of PANELS.entries()) {
      parts.push(...drawn(panel, samples, LEFT + column * (WIDTH + GAP_X), top));
    }
  }
  const titles = PANELS.map(
    ({ title }, column) => `<text x="${LEFT + column * (WIDTH + GAP_X)}" y="18" class="title">${title}</text>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif">
<title>Cost, memory and disk of each edge over the units done</title>
<style>rect{fill:#fff}.box{fill:none;stroke:#ccc}path{fill:none;stroke:#0a5;stroke-width:1.5}text{font-size:10px;fill:#333}.title{font-weight:bold}.name{font-size:11px}</style>
<rect width="${width}" height="${height}"/>
${[...titles, ...parts].join('\n')}
</svg>
`;
}

function drawn(panel: Panel, samples: readonly Sample[], left: number, top: number): string[] {
  const values = samples.map((sample) => panel.of(sample));
  const most = Math.max(...values, Number.MIN_VALUE);
  const units = samples.at(-1)?.units ?? 1;
  const points = samples.map(({ units: at }, index) => {
    const x = left + (at / units) * WIDTH;
    const y = top + HEIGHT - ((values[index] as number) / most) * (HEIGHT - 14);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  const ends = `${panel.show(values[0] as number)} → ${panel.show(values.at(-1) as number)}`;
  return [
    `<rect x="${left}" y="${top}" width="${WIDTH}" height="${HEIGHT}" class="box"/>`,
    `<path d="M${points.join(' L')}"/>`,
    `<text x="${left + 4}" y="${top + HEIGHT - 4}">${escaped(ends)}</text>`,
  ];
}
