/**
 * `npm run bench:growth`: whether the cost of a unit, the memory and the disk stay within their bounds while a process
 * handles ever more of them: tasks, sessions, connections, events, turns, approvals, lines of the audit, requests of
 * capabilities. Each edge runs in a separate process.
 *
 *   npm run bench:growth -- [--quick] [--edge NAME]… [--units N] [--samples N] [--seconds N] [--svg FILE] [--json FILE]
 *
 * `--quick` does a fiftieth of the units in about two minutes. An edge ends after `--seconds` with the samples it has
 * by then (default 1,800, quick 60). The written bytes and the processor time compare well on a machine with other
 * work; elapsed times do not.
 */
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { type Curve, chart } from './growth/chart.ts';
import type { EdgeKind, Sample } from './growth/edge.ts';
import { EDGES } from './growth/edges.ts';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    edge: { type: 'string', multiple: true },
    units: { type: 'string' },
    samples: { type: 'string' },
    seconds: { type: 'string' },
    svg: { type: 'string' },
    json: { type: 'string' },
  },
});
const SAMPLES = Number(values.samples ?? (values.quick ? 10 : 50));
const SECONDS = Number(values.seconds ?? (values.quick ? 60 : 1800));

interface Grown extends Curve {
  readonly figures: Readonly<Record<string, number>>;
}

async function grow(name: string, { unit, units, quickUnits, restSeconds = 0 }: EdgeKind): Promise<Grown> {
  const count = Number(values.units ?? (values.quick ? quickUnits : units));
  const script = new URL('growth/edge-process.ts', import.meta.url).pathname;
  const child = spawn(
    process.execPath,
    ['-C', 'handfast-source', '--expose-gc', script, name, String(count), String(SAMPLES)],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const timeout = setTimeout(() => child.kill('SIGTERM'), (SECONDS + 2 * restSeconds) * 1000);
  const samples: Sample[] = [];
  let figures: Grown['figures'] = {};
  for await (const line of createInterface({ input: child.stdout })) {
    const said = JSON.parse(line) as { sample?: Sample; figures?: Grown['figures'] };
    if (said.sample !== undefined) samples.push(said.sample);
    figures = said.figures ?? figures;
  }
  clearTimeout(timeout);
  return { edge: name, unit, samples, figures };
}

const mean = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0) / numbers.length;

/** Returns the last tenth ÷ the first tenth. */
function ratio(samples: readonly Sample[], of: (sample: Sample) => number): string {
  const tenth = Math.max(1, Math.floor(samples.length / 10));
  const first = mean(samples.slice(0, tenth).map(of));
  return first === 0 ? '–' : (mean(samples.slice(-tenth).map(of)) / first).toFixed(2);
}

/** Returns the bytes on disk that each further unit adds, over the second half. */
function diskPerUnit(samples: readonly Sample[]): string {
  const half = samples[Math.floor(samples.length / 2)];
  const last = samples.at(-1);
  if (half === undefined || last === undefined || last.units === half.units) return '–';
  return ((last.diskBytes - half.diskBytes) / (last.units - half.units)).toFixed(0);
}

const MIB = 1024 * 1024;
const names = values.edge ?? Object.keys(EDGES);
const grown: Grown[] = [];
console.log(
  'Last tenth ÷ first tenth: processor time, elapsed time, bytes written a unit, heap, resident memory. Disk: bytes a unit, second half.\n',
);
console.log(
  ['edge', 'units', 'µs a unit', 'cpu', 'elapsed', 'written', 'heap', 'MiB', 'resident', 'MiB', 'disk']
    .map((title, column) => (column === 0 ? title.padEnd(12) : title.padStart(10)))
    .join(''),
);
for (const name of names) {
  const kind = EDGES[name];
  if (kind === undefined) throw new Error(`no edge ${name}; known: ${Object.keys(EDGES).join(', ')}`);
  const curve = await grow(name, kind);
  const last = curve.samples.at(-1);
  if (last === undefined) {
    console.log(`${name.padEnd(12)}no sample`);
    process.exitCode = 1;
    continue;
  }
  grown.push(curve);
  const { samples } = curve;
  const cells = [
    last.units.toLocaleString('en-US'),
    last.cpuUs.toFixed(1),
    ratio(samples, ({ cpuUs }) => cpuUs),
    ratio(samples, ({ wallUs }) => wallUs),
    ratio(samples, ({ writtenBytes }) => writtenBytes),
    ratio(samples, ({ heapBytes }) => heapBytes),
    (last.heapBytes / MIB).toFixed(0),
    ratio(samples, ({ rssBytes }) => rssBytes),
    (last.rssBytes / MIB).toFixed(0),
    diskPerUnit(samples),
  ];
  console.log(name.padEnd(12) + cells.map((cell) => cell.padStart(10)).join(''));
  for (const [what, ms] of Object.entries(curve.figures)) {
    const unit = what.startsWith('KiB') ? '' : ' ms';
    console.log(`${''.padEnd(12)}${what}: ${ms.toFixed(1)}${unit}`);
  }
}
if (values.svg !== undefined) writeFileSync(values.svg, chart(grown));
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(grown, null, 1)}\n`);
