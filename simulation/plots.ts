/**
 * The plots of a report: tokens, dead-on-arrival dispatches, waiting, fairness, and what decisions cost. Blue is the
 * handshake, orange the baseline; every bar carries its number, so that nothing has to be told by its colour alone.
 */
import type { Histogram } from './histogram.ts';
import { PRIORITY_ORDER, WASTE, type Waste } from './measures.ts';
import { type Curves, millions, type Numbers, type Report, seconds } from './report.ts';
import { line, path, rect, svg, text } from './svg.ts';

const BLUE = '#1f5fae';
const ORANGE = '#c8641a';
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

/** File name → picture. */
export function plotsOf(
  report: Report,
  curves: { readonly handshake: Curves; readonly baseline: Curves },
): Map<string, string> {
  const { handshake, fire_and_forget: baseline } = report;
  return new Map([
    ['tokens.svg', tokens(handshake, baseline)],
    ['dead-on-arrival.svg', deadOnArrival(handshake, baseline)],
    ['first-token.svg', firstToken(curves.handshake.firstToken, curves.baseline.firstToken)],
    ['fairness.svg', fairness(handshake, baseline)],
    ['decision-cost.svg', decisionCost(curves.handshake.decision, report.setting.workers)],
  ]);
}

function tokens(handshake: Numbers, baseline: Numbers): string {
  const most = Math.max(...[handshake, baseline].map(({ tokens: { useful, wasted } }) => useful + wasted));
  const scale = (WIDTH - LEFT - RIGHT) / most;
  const parts: string[] = [];
  for (const [at, [name, { tokens: spent }, color]] of rowsOf(handshake, baseline).entries()) {
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
  let y = 176;
  for (const [waste, said] of Object.entries(WASTE)) {
    parts.push(rect(LEFT, y - 10, 12, 12, WASTE_COLORS[waste as Waste]));
    const each = [handshake, baseline].map((one) => millions(one.tokens.wasted_by[waste as Waste] ?? 0));
    parts.push(text(LEFT + 20, y, `wasted: ${said} (${each.join(' against ')})`));
    y += 20;
  }
  return svg(WIDTH, y + 4, 'Where tokens went', parts);
}

function deadOnArrival(handshake: Numbers, baseline: Numbers): string {
  const rate = (count: number, { dispatches }: Numbers): number => (1000 * count) / Math.max(1, dispatches);
  const bars = rowsOf(handshake, baseline).flatMap(([name, one, color]) => [
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

function firstToken(handshake: Histogram, baseline: Histogram): string {
  const ticks = [1000, 3000, 10_000, 30_000, 60_000, 180_000, 600_000, 1_800_000];
  const lines = [
    { name: 'handshake', color: BLUE, histogram: handshake },
    { name: 'fire and forget', color: ORANGE, histogram: baseline },
  ];
  return shares('Time from submission to the first useful token', lines, ticks, seconds, undefined);
}

function decisionCost(histogram: Histogram, workers: number): string {
  const ticks = [2, 5, 10, 20, 50, 100, 200, 500, 1000];
  const lines = [{ name: 'decisions', color: BLUE, histogram }];
  const title = `Cost of a routing decision among ${workers.toLocaleString('en-US')} workers`;
  return shares(title, lines, ticks, (us) => `${us} µs`, 50);
}

/** Which share of all stays below a value; the value on a logarithmic scale. */
function shares(
  title: string,
  lines: readonly { readonly name: string; readonly color: string; readonly histogram: Histogram }[],
  ticks: readonly number[],
  said: (value: number) => string,
  mark: number | undefined,
): string {
  const [top, bottom, left, right] = [50, 300, 60, WIDTH - RIGHT];
  const [least, most] = [ticks[0]!, ticks.at(-1)!];
  const x = (value: number): number => {
    const at = Math.log(Math.min(most, Math.max(least, value)) / least) / Math.log(most / least);
    return left + at * (right - left);
  };
  const y = (share: number): number => bottom - share * (bottom - top);
  const parts: string[] = [];
  for (const share of [0, 0.25, 0.5, 0.75, 0.95, 1]) {
    parts.push(
      line(left, y(share), right, y(share), PALE),
      text(left - 8, y(share) + 4, `${share * 100} %`, { anchor: 'end' }),
    );
  }
  for (const tick of ticks) {
    parts.push(line(x(tick), top, x(tick), bottom, PALE), text(x(tick), bottom + 18, said(tick), { anchor: 'middle' }));
  }
  if (mark !== undefined) parts.push(line(x(mark), top, x(mark), bottom, '#222222', true));
  for (const [at, { name, color, histogram }] of lines.entries()) {
    let below = 0;
    const points: [number, number][] = [[left, y(0)]];
    for (const [value, count] of histogram.steps()) {
      below += count;
      const point: [number, number] = [x(value), y(below / histogram.count)];
      const last = points.at(-1)!;
      // What cannot be told apart is not drawn.
      if (Math.abs(point[0] - last[0]) + Math.abs(point[1] - last[1]) > 0.7) points.push(point);
    }
    points.push([right, points.at(-1)![1]]);
    parts.push(path(points, color), rect(left + at * 150, bottom + 34, 12, 12, color));
    parts.push(text(left + 18 + at * 150, bottom + 44, name));
  }
  return svg(WIDTH, bottom + 60, title, parts);
}

/** For each priority the stretch from the median to what 95 of 100 stay below. */
function fairness(handshake: Numbers, baseline: Numbers): string {
  const ticks = [1000, 3000, 10_000, 30_000, 60_000, 180_000, 600_000, 1_800_000];
  const [least, most] = [ticks[0]!, ticks.at(-1)!];
  const [left, right] = [90, WIDTH - RIGHT];
  const x = (value: number): number => {
    const at = Math.log(Math.min(most, Math.max(least, value)) / least) / Math.log(most / least);
    return left + at * (right - left);
  };
  const bottom = 50 + PRIORITY_ORDER.length * 56;
  const parts: string[] = [];
  for (const tick of ticks) {
    parts.push(
      line(x(tick), 40, x(tick), bottom, PALE),
      text(x(tick), bottom + 16, seconds(tick), { anchor: 'middle' }),
    );
  }
  for (const [at, priority] of PRIORITY_ORDER.entries()) {
    const y = 50 + at * 56;
    parts.push(text(left - 10, y + 26, priority, { anchor: 'end' }));
    for (const [row, [, one, color]] of rowsOf(handshake, baseline).entries()) {
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
  for (const [at, [name, , color]] of rowsOf(handshake, baseline).entries()) {
    parts.push(rect(left + at * 150, bottom + 30, 12, 12, color), text(left + 18 + at * 150, bottom + 40, name));
  }
  return svg(WIDTH, bottom + 54, 'Wait for the first useful token by priority: median to 95 of 100', parts);
}

function rowsOf(handshake: Numbers, baseline: Numbers): readonly (readonly [string, Numbers, string])[] {
  return [
    ['handshake', handshake, BLUE],
    ['fire and forget', baseline, ORANGE],
  ];
}
