/**
 * Turns samples into rows, and rows into the printed tables. Rows have the form of the other benchmark, so that the
 * same people and programs can read both files.
 */
import type { Row } from '../report.ts';
import { compared, type Result, type Spread, spread } from './rounds.ts';
import type { TargetOutcome } from './targets.ts';

type SessionRow = Pick<
  Row,
  'workload' | 'transport' | 'contender' | 'value' | 'unit' | 'ratio_to_bare' | 'ratio_to_limit' | 'spread' | 'rounds'
>;

const range = ({ low, high }: Spread): readonly [number, number] => [low, high];

/** Returns a row for each contender and figure. Ratios are medians of the ratios within each round. */
export function rowsOf(results: readonly Result[]): readonly SessionRow[] {
  return results.flatMap((result) =>
    result.workload.figures.flatMap(({ name, unit }) =>
      result.workload.contenders.flatMap(({ name: contender }) => {
        const value = spread(result, contender, name);
        if (value === undefined) return [];
        const toBare = compared(result, contender, 'bare', name);
        const toLimit = compared(result, contender, 'limit', name);
        return {
          workload: name,
          transport: result.workload.transport,
          contender,
          value: value.median,
          unit,
          ratio_to_bare: toBare?.median,
          ratio_to_limit: toLimit?.median,
          spread: {
            value: range(value),
            ratio_to_bare: toBare && range(toBare),
            ratio_to_limit: toLimit && range(toLimit),
          },
          rounds: (result.samples.get(contender) ?? []).filter((sample) => sample !== undefined).length,
        };
      }),
    ),
  );
}

function shortNumber(value: number | undefined): string {
  if (value === undefined) return '';
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en-US');
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
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

/** Returns the measurements as text: one block a figure. */
export function rowsText(results: readonly Result[]): string {
  const rows = rowsOf(results);
  const header = ['', 'median', 'range', '÷ bare', 'range', '÷ limit', 'range', 'note'];
  const blocks = results.map((result) => {
    const { transport, figures, contenders, note } = result.workload;
    const tables = figures.map(({ name, unit, lowerIsBetter }) => {
      const body = contenders.flatMap(({ name: contender }) => {
        const row = rows.find(
          (each) => each.workload === name && each.transport === transport && each.contender === contender,
        );
        const failure = result.failures.get(contender)?.split('\n')[0];
        if (row === undefined) return failure ? [[contender, '', '', '', '', '', '', `failed: ${failure}`]] : [];
        const cells = [
          contender,
          shortNumber(row.value),
          rangeText(row.spread.value),
          shortNumber(row.ratio_to_bare),
          rangeText(row.spread.ratio_to_bare),
          shortNumber(row.ratio_to_limit),
          rangeText(row.spread.ratio_to_limit),
          failure ? `failed: ${failure}` : '',
        ];
        return [cells];
      });
      return `${name} · ${transport} · ${unit}${lowerIsBetter ? ' (less is better)' : ''}\n${table(header, body)}`;
    });
    return [...tables, ...(note === undefined ? [] : [note()])].join('\n\n');
  });
  return blocks.join('\n\n');
}

/** Returns the targets as text, and the number of reached ones. */
export function targetsText(outcomes: readonly TargetOutcome[]): string {
  const body = outcomes.map(({ target, measured, outcome }) => [
    target,
    shortNumber(measured?.median),
    measured === undefined ? '' : rangeText(range(measured)),
    outcome,
  ]);
  const reached = outcomes.filter(({ outcome }) => outcome === 'reached').length;
  return `${table(['target (median)', 'measured', 'range', ''], body)}\n\n${reached} of ${outcomes.length} targets reached`;
}
