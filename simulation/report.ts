/**
 * A simulation in numbers: what both contenders came to, as data and as text. Called by `scripts/simulate.ts`.
 */
import type { Histogram } from './histogram.ts';
import { type Measures, PRIORITY_ORDER, WASTE, type Waste } from './measures.ts';
import type { Setting } from './setting.ts';
import type { Outcome } from './simulation.ts';

export interface Spread {
  readonly count: number;
  readonly mean: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly most: number;
}

/** Numbers of one contender. Times are milliseconds unless they say otherwise. */
export interface Numbers {
  readonly tasks: number;
  readonly ends: Readonly<Record<string, number>>;
  readonly dispatches: number;
  /** To a worker that could not do the task: noticed with nothing spent, and by spending. */
  readonly dead_on_arrival: { readonly refused: number; readonly burnt: number };
  readonly tokens: {
    readonly useful: number;
    readonly wasted: number;
    readonly wasted_by: Readonly<Partial<Record<Waste, number>>>;
    /** Useful and wasted, weighed by the price of the tier. */
    readonly cost: number;
  };
  readonly first_token: Spread;
  readonly first_token_by_priority: Readonly<Record<string, Spread>>;
  readonly done_after: Spread;
  readonly deadlines: { readonly tasks: number; readonly in_time: number };
  readonly late_results: number;
  /** Microseconds of the real world. */
  readonly decision_us: Spread;
  readonly virtual_ms: number;
  readonly steps: number;
  readonly steps_checked: number;
  /** Runs that began beside another run of their task; only where that does no harm. */
  readonly overlaps: number;
}

export interface Report {
  readonly setting: Setting;
  readonly handshake: Numbers;
  readonly fire_and_forget: Numbers;
}

/** Numbers of a run. */
export function numbersOf({ measures, endedMs, steps, checked, overlaps }: Outcome): Numbers {
  const ends = Object.fromEntries([...measures.ends].sort(([, left], [, right]) => right - left));
  return {
    tasks: Object.values(ends).reduce((sum, count) => sum + count, 0),
    ends,
    dispatches: measures.dispatches,
    dead_on_arrival: { refused: measures.refused, burnt: measures.burnt },
    tokens: {
      useful: measures.tokensUseful,
      wasted: measures.wasted,
      wasted_by: Object.fromEntries(measures.tokensWasted),
      cost: measures.cost,
    },
    first_token: spreadOf(measures.firstToken),
    first_token_by_priority: Object.fromEntries(
      PRIORITY_ORDER.map((priority) => [priority, spreadOf(measures.firstTokenOf.get(priority)!)]),
    ),
    done_after: spreadOf(measures.doneAfter),
    deadlines: { tasks: measures.withDeadline, in_time: measures.inTime },
    late_results: measures.late,
    decision_us: spreadOf(measures.decision),
    virtual_ms: endedMs,
    steps,
    steps_checked: checked,
    overlaps,
  };
}

function spreadOf(histogram: Histogram): Spread {
  const { count, mean, most } = histogram;
  const [p50, p95, p99] = [0.5, 0.95, 0.99].map((share) => Math.round(histogram.at(share) * 10) / 10) as [
    number,
    number,
    number,
  ];
  return { count, mean: Math.round(mean * 10) / 10, p50, p95, p99, most: Math.round(most * 10) / 10 };
}

/** The report for a terminal. */
export function reportText({ setting, handshake, fire_and_forget: baseline }: Report): string {
  const { seed, workers, tasks } = setting;
  const lines = [
    `${number(tasks)} tasks, ${number(workers)} workers, seed ${seed}; ${minutes(handshake.virtual_ms)} of virtual time`,
    `${number(handshake.steps_checked)} steps, the rules held at each of them`,
    '',
  ];
  const rows: [string, string, string][] = [['', 'handshake', 'fire and forget']];
  const row = (name: string, of: (numbers: Numbers) => string): void => {
    rows.push([name, of(handshake), of(baseline)]);
  };
  row('tasks done', (one) => share(one.ends.done ?? 0, one.tasks));
  for (const end of new Set([...Object.keys(handshake.ends), ...Object.keys(baseline.ends)])) {
    if (end !== 'done') row(`  ${end}`, (one) => share(one.ends[end] ?? 0, one.tasks));
  }
  row('done before their deadline', (one) => share(one.deadlines.in_time, one.deadlines.tasks));
  row('dispatches', (one) => number(one.dispatches));
  row('dead on arrival, nothing spent', (one) => perThousand(one.dead_on_arrival.refused, one.dispatches));
  row('dead on arrival, tokens spent', (one) => perThousand(one.dead_on_arrival.burnt, one.dispatches));
  row('tokens useful', (one) => millions(one.tokens.useful));
  row(
    'tokens wasted',
    (one) => `${millions(one.tokens.wasted)} (${share(one.tokens.wasted, one.tokens.wasted + one.tokens.useful)})`,
  );
  for (const [waste, said] of Object.entries(WASTE)) {
    row(`  ${said}`, (one) => millions(one.tokens.wasted_by[waste as Waste] ?? 0));
  }
  row('price of all tokens', (one) => millions(one.tokens.cost));
  row('first useful token after, median', (one) => seconds(one.first_token.p50));
  row('  95 of 100 within', (one) => seconds(one.first_token.p95));
  row('  99 of 100 within', (one) => seconds(one.first_token.p99));
  for (const priority of PRIORITY_ORDER) {
    row(`  ${priority}: median, 95 of 100, longest`, (one) => {
      const { p50, p95, most } = one.first_token_by_priority[priority]!;
      return [p50, p95, most].map(seconds).join(' · ');
    });
  }
  row('results that came too late', (one) => number(one.late_results));
  rows.push(['a routing decision, µs: median', String(handshake.decision_us.p50), '–']);
  rows.push(['  mean, 99 of 100 within', `${handshake.decision_us.mean}, ${handshake.decision_us.p99}`, '–']);
  const widths = [0, 1, 2].map((column) => Math.max(...rows.map((cells) => cells[column]!.length)));
  for (const [name, left, right] of rows) {
    lines.push(`${name.padEnd(widths[0]!)}  ${left.padStart(widths[1]!)}  ${right.padStart(widths[2]!)}`.trimEnd());
  }
  return lines.join('\n');
}

/** What of the measures plots draw: distributions, lowest first. */
export interface Curves {
  readonly firstToken: Histogram;
  readonly decision: Histogram;
}

export function curvesOf({ firstToken, decision }: Measures): Curves {
  return { firstToken, decision };
}

const number = (value: number): string => value.toLocaleString('en-US');
const minutes = (ms: number): string => `${(ms / 60_000).toFixed(0)} min`;
/** A number of tokens for people. */
export function millions(value: number): string {
  const inMillions = value / 1e6;
  return `${inMillions < 100 ? inMillions.toFixed(1) : number(Math.round(inMillions))} M`;
}

const share = (part: number, whole: number): string => `${whole === 0 ? '0.0' : ((100 * part) / whole).toFixed(1)} %`;
const perThousand = (part: number, whole: number): string =>
  `${number(part)} (${whole === 0 ? '0.0' : ((1000 * part) / whole).toFixed(1)} ‰)`;

/** A duration for people. */
export function seconds(ms: number): string {
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${(ms / 60_000).toFixed(1)} min`;
}
