/**
 * A simulation in numbers: the results of each contender, as data and as text.
 */
import type { Histogram } from './histogram.ts';
import { PRIORITY_ORDER, WASTE, type Waste } from './measures.ts';
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

/** Numbers of one contender. Times are milliseconds. */
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
  readonly virtual_ms: number;
  readonly steps: number;
  /** Rules that were asked, and times that all open tasks and all workers were looked at. */
  readonly rules_asked: number;
  readonly sweeps: number;
  /** Runs that started beside another run of their task; only where that does no harm. */
  readonly overlaps: number;
}

/** The contenders, in the order in which they are shown: the handshake, then its baselines. */
export const CONTENDERS = { handshake: 'handshake', configured: 'configured', blind: 'fire and forget' } as const;
export type Contender = keyof typeof CONTENDERS;

export interface Report {
  readonly setting: Setting;
  readonly contenders: Readonly<Record<Contender, Numbers>>;
}

/** Numbers of a run. */
export function numbersOf({ measures, endedMs, steps, asked, sweeps, overlaps }: Outcome): Numbers {
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
    virtual_ms: endedMs,
    steps,
    rules_asked: asked,
    sweeps,
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

/** Returns the report for a terminal. */
export function reportText({ setting, contenders }: Report): string {
  const { seed, workers, tasks } = setting;
  const all = Object.values(contenders);
  const { virtual_ms, steps, rules_asked, sweeps } = contenders.handshake;
  const lines = [
    `${number(tasks)} tasks, ${number(workers)} workers, seed ${seed}; ${minutes(virtual_ms)} of virtual time`,
    `${number(steps)} steps; rules asked ${number(rules_asked)} times as things happened, everything looked at ${number(sweeps)} times; none broken`,
    '',
  ];
  const rows: string[][] = [['', ...Object.values(CONTENDERS)]];
  const row = (name: string, of: (numbers: Numbers) => string): void => {
    rows.push([name, ...all.map(of)]);
  };
  row('tasks done', (one) => share(one.ends.done ?? 0, one.tasks));
  for (const end of new Set(all.flatMap(({ ends }) => Object.keys(ends)))) {
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
    row(`  ${priority}: median, 95 of 100`, (one) => {
      const { p50, p95 } = one.first_token_by_priority[priority]!;
      return [p50, p95].map(seconds).join(' · ');
    });
  }
  row('results that came too late', (one) => number(one.late_results));
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((cells) => cells[column]!.length)));
  for (const [name, ...cells] of rows) {
    const columns = cells.map((cell, at) => cell.padStart(widths[at + 1]!));
    lines.push([name!.padEnd(widths[0]!), ...columns].join('  ').trimEnd());
  }
  return lines.join('\n');
}

const number = (value: number): string => value.toLocaleString('en-US');
const minutes = (ms: number): string => `${(ms / 60_000).toFixed(0)} min`;
/** Returns a number of tokens for people. */
export function millions(value: number): string {
  const inMillions = value / 1e6;
  return `${inMillions < 100 ? inMillions.toFixed(1) : number(Math.round(inMillions))} M`;
}

const share = (part: number, whole: number): string => `${whole === 0 ? '0.0' : ((100 * part) / whole).toFixed(1)} %`;
const perThousand = (part: number, whole: number): string =>
  `${number(part)} (${whole === 0 ? '0.0' : ((1000 * part) / whole).toFixed(1)} ‰)`;

/** Returns a duration for people. */
export function seconds(ms: number): string {
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${(ms / 60_000).toFixed(1)} min`;
}
