/**
 * The plots of a report: tokens, dead-on-arrival dispatches, waiting, and fairness. Blue is the handshake, orange and
 * brown the baselines; every bar carries its number, so that colour alone carries no information.
 */
import type { Histogram } from './histogram.ts';
import { PRIORITY_ORDER, WASTE, type Waste } from './measures.ts';
import { CONTENDERS, type Contender, millions, type Numbers, type Report, seconds } from './report.ts';
import { line, path, rect, svg, text } from './svg.ts';

const COLORS: Readonly<Record<Contender, string>> = { handshake: '#1f5fae', configured: '#c8641a', blind: '#7a4a2b' };
const GREY = '#9a9a9a';
const PALE = '#dddddd';
const WASTE_COLORS: Readonly<Record<Waste, string>> = {
  unmet: '#a11d33',
  server_died: '#d1495b',
  killed: '#8d6a9f',
  failed: '#b0a160',
  stopped: '#7c7c7c',
  not_accepted: '#3d3d3d',
};
const WIDTH = 720;
const LEFT = 150;
const RIGHT = 40;

/** Times from submission to the first useful token, for each contender. */
export type FirstTokens = Readonly<Record<Contender, Histogram>>;

/** Returns the pictures by file name. */
export function plotsOf({ contenders }: Report, firstTokens: FirstTokens): Map<string, string> {
  return new Map([
    ['tokens.svg', tokens(contenders)],
    ['dead-on-arrival.svg', deadOnArrival(contenders)],
    ['first-token.svg', firstToken(firstTokens)],
    ['fairness.svg', fairness(contenders)],
  ]);
}

type Contenders = Report['contenders'];

function tokens(contenders: Contenders): string {
  const all = Object.values(contenders);
  const most = Math.max(...all.map(({ tokens: { useful, wasted } }) => useful + wasted));
  const scale = (WIDTH - LEFT - RIGHT) / most;
  const parts: string[] = [];
  for (const [at, [name, { tokens: spent }, color]] of rowsOf(contenders).entries()) {
    const y = 50 + at * 56;
    parts.push(text(LEFT - 10, y + 20, name, { anchor: 'end' }));
    parts.push(rect(LEFT, y, spent.useful * scale, 30, color));
    let x = LEFT + spent.useful * scale;
    for (const [waste, shade] of Object.entries(WASTE_COLORS)) {
      const width = (spent.wasted_by[waste as Waste] ?? 0) * scale;
      parts.push(rect(x, y, width, 30, shade));
      x += width;
    }
    const wasted = ((100 * spent.wasted) / (spent.useful + spent.wasted)).toFixed(1);
    parts.push(text(LEFT + 8, y + 20, `${millions(spent.useful)} useful`, { color: '#ffffff' }));
    parts.push(
      text(LEFT, y + 45, `${millions(spent.wasted)} wasted: ${wasted} % of what was spent`, { color: '#555555' }),
    );
  }
  let y = 64 + all.length * 56;
  for (const [waste, said] of Object.entries(WASTE)) {
    parts.push(rect(LEFT, y - 10, 12, 12, WASTE_COLORS[waste as Waste]));
    const each = all.map((one) => millions(one.tokens.wasted_by[waste as Waste] ?? 0));
    parts.push(text(LEFT + 20, y, `wasted: ${said} (${each.join(' against ')})`));
    y += 20;
  }
  return svg(WIDTH, y + 4, 'Where tokens went', parts);
}

function deadOnArrival(contenders: Contenders): string {
  const rate = (count: number, { dispatches }: Numbers): number => (1000 * count) / Math.max(1, dispatches);
  const bars = rowsOf(contenders).flatMap(([name, one, color]) => [
    { name: `${name}: tokens spent`, value: rate(one.dead_on_arrival.burnt, one), color },
    { name: 'refused, nothing spent', value: rate(one.dead_on_arrival.refused, one), color: GREY },
  ]);
  const most = Math.max(1e-9, ...bars.map(({ value }) => value));
  const from = 220;
  const parts = bars.flatMap(({ name, value, color }, at) => {
    const y = 46 + at * 34;
    const width = ((WIDTH - from - 90) * value) / most;
    return [
      text(from - 10, y + 16, name, { anchor: 'end' }),
      rect(from, y, Math.max(1, width), 22, color),
      text(from + Math.max(1, width) + 8, y + 16, value.toFixed(1)),
    ];
  });
  return svg(WIDTH, 46 + bars.length * 34 + 10, 'Dispatches to a worker that could not do the task, of 1,000', parts);
}

/** Draws the share of all that stays below a value; the value on a logarithmic scale. */
function firstToken(histograms: FirstTokens): string {
  const [top, bottom, left, right] = [50, 300, 60, WIDTH - RIGHT];
  const x = logScale(left, right);
  const y = (share: number): number => bottom - share * (bottom - top);
  const parts: string[] = [];
  for (const share of [0, 0.25, 0.5, 0.75, 0.95, 1]) {
    parts.push(
      line(left, y(share), right, y(share), PALE),
      text(left - 8, y(share) + 4, `${share * 100} %`, { anchor: 'end' }),
    );
  }
  for (const tick of TICKS) {
    parts.push(line(x(tick), top, x(tick), bottom, PALE));
    parts.push(text(x(tick), bottom + 18, seconds(tick), { anchor: 'middle' }));
  }
  for (const [at, [contender, histogram]] of (Object.entries(histograms) as [Contender, Histogram][]).entries()) {
    let below = 0;
    const points: [number, number][] = [[left, y(0)]];
    for (const [value, count] of histogram.steps()) {
      below += count;
      const point: [number, number] = [x(value), y(below / histogram.count)];
      const last = points.at(-1)!;
      // Points that cannot be distinguished are not drawn.
      if (Math.abs(point[0] - last[0]) + Math.abs(point[1] - last[1]) > 0.7) points.push(point);
    }
    points.push([right, points.at(-1)![1]]);
    parts.push(path(points, COLORS[contender]), ...legend(left + at * 150, bottom + 34, contender));
  }
  return svg(WIDTH, bottom + 60, 'Time from submission to the first useful token', parts);
}

/** Draws, for each priority, the stretch from the median to the value that 95 of 100 stay below. */
function fairness(contenders: Contenders): string {
  const [left, right] = [90, WIDTH - RIGHT];
  const x = logScale(left, right);
  const rows = rowsOf(contenders);
  const height = rows.length * 22 + 12;
  const bottom = 50 + PRIORITY_ORDER.length * height;
  const parts: string[] = [];
  for (const tick of TICKS) {
    parts.push(line(x(tick), 40, x(tick), bottom, PALE));
    parts.push(text(x(tick), bottom + 16, seconds(tick), { anchor: 'middle' }));
  }
  for (const [at, priority] of PRIORITY_ORDER.entries()) {
    const y = 50 + at * height;
    parts.push(text(left - 10, y + 26, priority, { anchor: 'end' }));
    for (const [row, [, one, color]] of rows.entries()) {
      const { p50, p95 } = one.first_token_by_priority[priority]!;
      const top = y + row * 22;
      parts.push(rect(x(p50), top, Math.max(3, x(p95) - x(p50)), 16, color));
      const after = x(p95) + 90 > right;
      parts.push(
        text(after ? x(p50) - 6 : Math.max(x(p95), x(p50) + 3) + 6, top + 12, `${seconds(p50)} – ${seconds(p95)}`, {
          anchor: after ? 'end' : 'start',
          size: 11,
        }),
      );
    }
  }
  for (const [at, contender] of (Object.keys(CONTENDERS) as Contender[]).entries()) {
    parts.push(...legend(left + at * 150, bottom + 30, contender));
  }
  return svg(WIDTH, bottom + 54, 'Wait for the first useful token by priority: median to 95 of 100', parts);
}

const TICKS = [1000, 3000, 10_000, 30_000, 60_000, 180_000, 600_000, 1_800_000] as const;

function logScale(left: number, right: number): (value: number) => number {
  const [least, most] = [TICKS[0], TICKS.at(-1)!];
  return (value) =>
    left + (Math.log(Math.min(most, Math.max(least, value)) / least) / Math.log(most / least)) * (right - left);
}

const legend = (x: number, y: number, contender: Contender): string[] => [
  rect(x, y, 12, 12, COLORS[contender]),
  text(x + 18, y + 10, CONTENDERS[contender]),
];

function rowsOf(contenders: Contenders): readonly (readonly [string, Numbers, string])[] {
  return (Object.keys(CONTENDERS) as Contender[]).map((key) => [CONTENDERS[key], contenders[key], COLORS[key]]);
}
