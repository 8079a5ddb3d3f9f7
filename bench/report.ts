/**
 * Turns the samples into rows, and rows into the printed table and the JSON file.
 */
import { arch, cpus, loadavg, platform, totalmem } from 'node:os';
import { BEFORE } from './contenders/registry.ts';
import { type HeatResult, ratio, type Spread, spread } from './rounds.ts';
import type { TargetOutcome } from './targets.ts';

/** One contender in one workload on one transport. Ratios are medians of the ratios within each round. */
export interface Row {
  readonly workload: string;
  readonly transport: string;
  readonly contender: string;
  /** Median over the rounds. */
  readonly value: number;
  readonly unit: string;
  readonly ratio_to_bare?: number;
  readonly ratio_to_limit?: number;
  /** Lowest and highest over the rounds, of the value and of each ratio. */
  readonly spread: {
    readonly value: readonly [number, number];
    readonly ratio_to_bare?: readonly [number, number];
    readonly ratio_to_limit?: readonly [number, number];
  };
  readonly rounds: number;
  readonly cpu_us_per_call?: number;
  readonly cpu_ratio_to_bare?: number;
  readonly p50_us?: number;
  readonly p50_ratio_to_bare?: number;
  /** Lowest share of events that arrived in order before the reply. */
  readonly delivered?: number;
}

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memory_gib: number;
  readonly system: string;
  readonly node: string;
}

export function thisMachine(): Machine {
  const cores = cpus();
  return {
    cpu: cores[0]?.model.trim() ?? 'unknown',
    cores: cores.length,
    memory_gib: Math.round(totalmem() / 1024 ** 3),
    system: `${platform()} ${arch()}`,
    node: process.version,
  };
}

/** Returns the load of the machine, from other work or from this benchmark. */
export const load = (): string =>
  `load ${loadavg()
    .map((average) => average.toFixed(2))
    .join(' ')}`;

const range = ({ low, high }: Spread): readonly [number, number] => [low, high];

function rowOf(result: HeatResult, contender: string): Row | undefined {
  const value = spread(result, contender, 'value');
  if (value === undefined) return undefined;
  const { workload, transport } = result.heat;
  const toBare = ratio(result, contender, 'bare');
  const toLimit = ratio(result, contender, 'limit');
  const delivered = (result.samples.get(contender) ?? []).flatMap((sample) => sample?.delivered ?? []);
  return {
    workload: workload.name,
    transport,
    contender,
    value: value.median,
    unit: workload.unit,
    ratio_to_bare: toBare?.median,
    ratio_to_limit: toLimit?.median,
    spread: {
      value: range(value),
      ratio_to_bare: toBare && range(toBare),
      ratio_to_limit: toLimit && range(toLimit),
    },
    rounds: (result.samples.get(contender) ?? []).filter((sample) => sample !== undefined).length,
    cpu_us_per_call: spread(result, contender, 'cpuUsPerCall')?.median,
    cpu_ratio_to_bare: ratio(result, contender, 'bare', 'cpuUsPerCall')?.median,
    p50_us: spread(result, contender, 'p50Us')?.median,
    p50_ratio_to_bare: ratio(result, contender, 'bare', 'p50Us')?.median,
    ...(delivered.length > 0 && { delivered: Math.min(...delivered) }),
  };
}

export function rowsOf(results: readonly HeatResult[]): readonly Row[] {
  return results.flatMap((result) => result.heat.contenders.flatMap((entry) => rowOf(result, entry.name) ?? []));
}

function shortNumber(value: number | undefined, digits = 2): string {
  if (value === undefined) return '';
  if (value >= 1000) return Math.round(value).toLocaleString('en-US');
  return value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : digits);
}

const rangeText = (bounds: readonly [number, number] | undefined): string =>
  bounds === undefined ? '' : `${shortNumber(bounds[0])}–${shortNumber(bounds[1])}`;

/** Lines up columns; the first one to the left, the others to the right. */
function table(header: readonly string[], body: readonly (readonly string[])[]): string {
  const widths = header.map((title, column) => Math.max(title.length, ...body.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join('  ')
      .trimEnd();
  return [line(header), line(widths.map((width) => '─'.repeat(width))), ...body.map(line)].join('\n');
}

/** Returns the measurements as text: one block a heat. */
export function rowsText(results: readonly HeatResult[]): string {
  const header = [
    '',
    'median',
    '÷ bare',
    '÷ limit',
    'range of the ratio',
    'CPU µs',
    '÷ bare',
    'p50 µs',
    '÷ bare',
    'note',
  ];
  const blocks = results.map((result) => {
    const { workload, transport, contenders } = result.heat;
    const body = contenders.map((entry) => {
      const row = rowOf(result, entry.name);
      const failure = result.failures.get(entry.name);
      const note = failure !== undefined ? `failed: ${failure.split('\n')[0]}` : '';
      if (row === undefined) return [entry.name, '', '', '', '', '', '', '', '', note || 'not measured'];
      const lost = row.delivered !== undefined && row.delivered < 1;
      return [
        entry.name,
        shortNumber(row.value),
        shortNumber(row.ratio_to_bare),
        shortNumber(row.ratio_to_limit),
        rangeText(row.spread.ratio_to_limit ?? row.spread.ratio_to_bare),
        shortNumber(row.cpu_us_per_call),
        shortNumber(row.cpu_ratio_to_bare),
        shortNumber(row.p50_us),
        shortNumber(row.p50_ratio_to_bare),
        lost ? `only ${((row.delivered ?? 0) * 100).toFixed(1)} % of events arrived` : note,
      ];
    });
    const title = `${workload.name} · ${transport} · ${workload.unit}${workload.lowerIsBetter ? ' (less is better)' : ''}`;
    return `${title}\n${table(header, body)}`;
  });
  return blocks.join('\n\n');
}

/** Returns the targets as text, and the number of reached ones. */
export function targetsText(outcomes: readonly TargetOutcome[]): string {
  const body = outcomes.map(({ target, ratio: measured, outcome }) => [
    target,
    shortNumber(measured?.median),
    measured === undefined ? '' : rangeText(range(measured)),
    outcome,
  ]);
  const reached = outcomes.filter(({ outcome }) => outcome === 'reached').length;
  return `${table(['target (median ratio of handfast)', 'measured', 'range', ''], body)}\n\n${reached} of ${outcomes.length} targets reached`;
}

/** Returns this build beside the other one, cell by cell: above 1 is better, in every unit. */
export function buildsText(results: readonly HeatResult[]): string {
  const body = results.flatMap((result) =>
    result.heat.contenders.flatMap(({ name }) => {
      const { workload, transport } = result.heat;
      const measured = workload.lowerIsBetter
        ? ratio(result, `${name}${BEFORE}`, name)
        : ratio(result, name, `${name}${BEFORE}`);
      if (measured === undefined) return [];
      return [[`${workload.name} ${transport} ${name}`, shortNumber(measured.median), rangeText(range(measured))]];
    }),
  );
  return table(['this build against the one before', 'ratio', 'range'], body);
}
