/**
 * `npm run bench:chains`: nodes a second of chains whose nodes do nothing, one after another and side by side, beside
 * Restate, DBOS, LangGraph and `p-graph`, and the least that SQLite can do; then 10,000 nodes: the cost of the last
 * against the first, the memory, and the time to continue after a kill.
 *
 *   npm run bench:chains -- [--rounds N] [--quick] [--only ours] [--json FILE]
 *
 * Contenders are installed into a cache (`chains/install.ts`), and have one process each. Rounds are interleaved, and
 * ratios are medians of those of the rounds. Everything durable is on disk before the next node starts; if `strace` is
 * installed, a last run counts the syncs of each.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { installContenders } from './chains/install.ts';
import { canTrace, MeasuredProcess, type Shape } from './chains/measure.ts';
import { load, thisMachine } from './report.ts';
import { Scratch } from './sessions/processes.ts';
import { targetsText } from './sessions/report.ts';
import { compared, type Result, runRounds, type Spread, spread, spreadOf } from './sessions/rounds.ts';
import { judged, type TargetOutcome } from './sessions/targets.ts';
import type { Contender, Workload } from './sessions/workload.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string' },
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    json: { type: 'string' },
  },
});
const rounds = Number(values.rounds ?? (values.quick ? 3 : 5));
const SCALE = 10_000;
/** Runs of each large chain; the median counts. */
const SCALE_RUNS = 3;
/** Nodes that a process runs before it is measured. */
const WARM_UP = 1_000;
const PARALLEL = 256;
const TRACED_NODES = 200;

const here = (file: string): string => join(import.meta.dirname, 'chains', file);
const node = (file: string, ...args: string[]): string[] => [
  process.execPath,
  '-C',
  'handfast-source',
  here(file),
  ...args,
];

interface Entrant {
  /** Returns the command line for a separate folder. */
  readonly argv: (folder: string) => readonly string[];
  /** The time at which a node's effect is on disk. */
  readonly syncing: string;
  readonly durable: boolean;
  readonly more?: object;
}

const entrants = new Map<string, Entrant>([
  [
    'bare',
    {
      argv: (folder) => node('bare.ts', folder),
      syncing: 'SQLite in WAL, `synchronous=FULL`: each commit',
      durable: true,
    },
  ],
  [
    'handfast',
    {
      argv: (folder) => node('handfast.ts', folder),
      syncing: 'SQLite in WAL, the log synced before a node that follows starts; what starts together shares a sync',
      durable: true,
    },
  ],
  [
    'handfast, not durable',
    { argv: (folder) => node('handfast.ts', folder), syncing: 'none', durable: false, more: { durable: false } },
  ],
]);
if (values.only !== 'ours') {
  const { npm, python } = installContenders();
  entrants.set('Restate', {
    argv: (folder) => node('restate.mjs', npm, folder),
    syncing: 'RocksDB, its log synced before a step is acknowledged (its default)',
    durable: true,
  });
  entrants.set('DBOS', {
    argv: (folder) => [python, here('dbos_steps.py'), folder, 'delete'],
    syncing: 'SQLite as it is by default, `synchronous=FULL` and a rollback journal: each commit, several times',
    durable: true,
  });
  entrants.set('DBOS, WAL', {
    argv: (folder) => [python, here('dbos_steps.py'), folder, 'wal'],
    syncing: 'SQLite, its file set to WAL beforehand, `synchronous=FULL`: each commit',
    durable: true,
  });
  entrants.set('LangGraph', {
    argv: (folder) => [python, here('langgraph_steps.py'), folder],
    syncing: 'SQLite in WAL, `synchronous=FULL`, `durability="sync"`: each commit',
    durable: true,
  });
  entrants.set('p-graph', { argv: () => node('p-graph.mjs', npm), syncing: 'none', durable: false });
}

/** Workload → shape, nodes, and its contenders; others would take minutes for the last. */
const CELLS: Readonly<Record<string, { readonly shape: Shape; readonly nodes: number; readonly only?: RegExp }>> = {
  row: { shape: 'row', nodes: 300 },
  fan: { shape: 'fan', nodes: 500 },
  'fan of 10,000': { shape: 'fan', nodes: SCALE, only: /^(?:bare|handfast|p-graph)/ },
};

interface Reply {
  readonly seconds: number;
}

function workloadsOf(processes: ReadonlyMap<string, MeasuredProcess>): Workload<undefined>[] {
  return Object.entries(CELLS).map(([name, { shape, nodes, only }]) => ({
    name,
    transport: 'none',
    figures: [{ name, unit: 'nodes/s', lowerIsBetter: false }],
    contenders: [...processes]
      .filter(([contender]) => only?.test(contender) ?? true)
      .map(([contender, process]): Contender<undefined> => {
        const request = { shape, nodes, parallel: PARALLEL, ...entrants.get(contender)?.more };
        const measure = async () => ({ [name]: nodes / (await process.ask<Reply>(request)).seconds });
        return { name: contender, measure };
      }),
    close: async () => {},
  }));
}

interface Scaled {
  readonly seconds: number;
  readonly tenths: { readonly time: number; readonly cpu: number };
  readonly grownMib: number;
  readonly peakMib: number;
}

/** Runs 10,000 nodes of each shape in a separate process, which has run some before. */
async function scale(scratch: Scratch): Promise<Map<Shape, readonly Scaled[]>> {
  const found = new Map<Shape, readonly Scaled[]>();
  for (const shape of ['row', 'mesh', 'fan'] as const) {
    const own = await MeasuredProcess.start('handfast', node('handfast.ts', scratch.make()));
    try {
      const request = { shape, nodes: SCALE, parallel: PARALLEL };
      await own.ask({ ...request, nodes: WARM_UP });
      const runs: Scaled[] = [];
      for (let at = 0; at < SCALE_RUNS; at += 1) runs.push(await own.ask<Scaled>({ ...request, op: 'tenths' }));
      found.set(shape, runs);
    } finally {
      await own.close();
    }
  }
  return found;
}

interface Resumed {
  readonly ran: number;
  readonly hostSeconds: number;
  readonly seconds: number;
  /** Nodes that ran again. */
  readonly calls: number;
}

/** Kills a host with 10,000 finished nodes, and resumes in another. */
async function killed(scratch: Scratch): Promise<readonly Resumed[]> {
  const found: Resumed[] = [];
  for (let at = 0; at < SCALE_RUNS; at += 1) {
    const argv = node('handfast.ts', scratch.make());
    const request = { shape: 'mesh', nodes: SCALE, parallel: PARALLEL };
    const first = await MeasuredProcess.start('handfast', argv);
    const { seconds: ran } = await first.ask<Reply>({ ...request, op: 'hold' });
    await first.kill();
    const second = await MeasuredProcess.start('handfast, again', argv);
    try {
      found.push({ ran, ...(await second.ask<Omit<Resumed, 'ran'>>({ ...request, op: 'resume' })) });
    } finally {
      await second.close();
    }
  }
  return found;
}

/** Syncs a node of each durable contender. */
async function countSyncs(scratch: Scratch): Promise<Map<string, Partial<Record<Shape, number>>>> {
  const found = new Map<string, Partial<Record<Shape, number>>>();
  for (const [name, { argv, durable }] of entrants) {
    if (!durable) continue;
    const traced = await MeasuredProcess.start(name, argv(scratch.make()), scratch.make());
    try {
      const counts: Partial<Record<Shape, number>> = {};
      for (const shape of ['row', 'fan'] as const) {
        const before = traced.syncs;
        await traced.ask({ shape, nodes: TRACED_NODES, parallel: PARALLEL });
        counts[shape] = (traced.syncs - before) / TRACED_NODES;
      }
      found.set(name, counts);
    } finally {
      await traced.close();
    }
  }
  return found;
}

const resultOf = (results: readonly Result[], name: string): Result =>
  results.find(({ workload }) => workload.name === name) as Result;

/** Judges Handfast against each of the others. */
function judgeRatios(results: readonly Result[]): TargetOutcome[] {
  const least = (name: string, against: string, bound: number): TargetOutcome =>
    judged(
      `${name} ≥ ${bound} × ${against}`,
      compared(resultOf(results, name), 'handfast', against, name),
      (ratio) => ratio >= bound,
    );
  const others = [
    least('row', 'Restate', 1.1),
    least('row', 'DBOS', 2.9),
    // Each syncs once a node: the slower the disk, the nearer to 1.
    least('row', 'DBOS, WAL', 1.2),
    least('row', 'LangGraph', 2.2),
    least('fan', 'Restate', 4.7),
    least('fan', 'DBOS', 4.7),
    least('fan', 'LangGraph', 4.7),
  ];
  return [
    judged('row ≥ 800 nodes/s', spread(resultOf(results, 'row'), 'handfast', 'row'), (rate) => rate >= 800),
    judged(
      'fan of 10,000 ≥ 5,000 nodes/s',
      spread(resultOf(results, 'fan of 10,000'), 'handfast', 'fan of 10,000'),
      (rate) => rate >= 5_000,
    ),
    least('row', 'bare', 0.33),
    ...(values.only === 'ours' ? [] : others),
  ];
}

function judgeScale(scaled: ReadonlyMap<Shape, readonly Scaled[]>, resumed: readonly Resumed[]): TargetOutcome[] {
  const of = (shape: Shape, what: (run: Scaled) => number): Spread | undefined =>
    spreadOf((scaled.get(shape) ?? []).map(what));
  return [
    ...[...scaled.keys()].map((shape) =>
      judged(
        `${shape} of 10,000: a node of the last tenth ≤ 1.25 × one of the first, CPU`,
        of(shape, ({ tenths }) => tenths.cpu),
        (ratio) => ratio <= 1.25,
      ),
    ),
    ...[...scaled.keys()].map((shape) =>
      judged(
        `${shape} of 10,000: memory at its highest ≤ 400 MiB`,
        of(shape, ({ peakMib }) => peakMib),
        (mib) => mib <= 400,
      ),
    ),
    judged('resume: nodes that ran again = 0', spreadOf(resumed.map(({ calls }) => calls)), (calls) => calls === 0),
    judged(
      'resume of 10,000 ended nodes ≤ 0.5 × their run',
      spreadOf(resumed.map(({ seconds, ran }) => seconds / ran)),
      (ratio) => ratio <= 0.5,
    ),
  ];
}

const number = (value: number | undefined, digits = 0): string =>
  value === undefined
    ? '–'
    : value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
const withRange = (measured: Spread | undefined, digits = 2): string =>
  measured === undefined
    ? '–'
    : `${number(measured.median, digits)} (${number(measured.low, digits)}–${number(measured.high, digits)})`;

function print(
  results: readonly Result[],
  syncs: ReadonlyMap<string, Partial<Record<Shape, number>>>,
  scaled: ReadonlyMap<Shape, readonly Scaled[]>,
  resumed: readonly Resumed[],
): void {
  const names = Object.keys(CELLS);
  console.log(
    `| Nodes a second | ${names.map((name) => `${name} | handfast ÷ it`).join(' | ')} | syncs a node, row | fan |`,
  );
  console.log(`| --- | ${names.map(() => '---: | ---:').join(' | ')} | ---: | ---: |`);
  for (const entrant of entrants.keys()) {
    const cells = names.flatMap((name) => {
      const result = resultOf(results, name);
      const ratio = entrant === 'handfast' ? undefined : compared(result, 'handfast', entrant, name);
      return [number(spread(result, entrant, name)?.median), withRange(ratio)];
    });
    const counted = syncs.get(entrant);
    console.log(`| ${entrant} | ${cells.join(' | ')} | ${number(counted?.row, 2)} | ${number(counted?.fan, 2)} |`);
  }
  console.log('\n| 10,000 nodes | seconds | last tenth ÷ first, CPU | time | memory at its highest, MiB | of it new |');
  console.log('| --- | ---: | ---: | ---: | ---: | ---: |');
  for (const [shape, runs] of scaled) {
    const of = (what: (run: Scaled) => number) => spreadOf(runs.map(what));
    const cells = [
      withRange(of(({ seconds }) => seconds)),
      withRange(of(({ tenths }) => tenths.cpu)),
      withRange(of(({ tenths }) => tenths.time)),
      number(of(({ peakMib }) => peakMib)?.high),
      number(of(({ grownMib }) => grownMib)?.high),
    ];
    console.log(`| ${shape} | ${cells.join(' | ')} |`);
  }
  const seconds = (what: (one: Resumed) => number): string => withRange(spreadOf(resumed.map(what)));
  console.log(
    `\nKilled with ${number(SCALE)} ended nodes, which took ${seconds(({ ran }) => ran)} s: the host starts in ${seconds((one) => one.hostSeconds)} s, ` +
      `and the run waits where it was after ${seconds((one) => one.seconds)} s`,
  );
  console.log('\nWhat is on disk, and when:');
  for (const [name, { syncing }] of entrants) console.log(`- ${name}: ${syncing}`);
}

const machine = thisMachine();
const { cpu, cores, system, node: version } = machine;
console.log(`${cpu}, ${cores} cores, ${system}, Node ${version}; ${rounds} rounds; ${load()}\n`);
using scratch = new Scratch();
const processes = new Map<string, MeasuredProcess>();
let results: readonly Result[];
try {
  for (const [name, { argv }] of entrants) {
    processes.set(name, await MeasuredProcess.start(name, argv(scratch.make())));
  }
  const progress = (line: string): void => void process.stderr.write(`${line}\n`);
  results = await runRounds(workloadsOf(processes), rounds, undefined, progress);
} finally {
  await Promise.all([...processes.values()].map((each) => each.close()));
}
const scaled = await scale(scratch);
const resumed = await killed(scratch);
const syncs = canTrace() ? await countSyncs(scratch) : new Map<string, Partial<Record<Shape, number>>>();
const targets = [...judgeRatios(results), ...judgeScale(scaled, resumed)];
print(results, syncs, scaled, resumed);
console.log(`\n${targetsText(targets)}\n${load()}`);
if (values.json !== undefined) {
  const rows = results.map(({ workload, samples, failures }) => ({
    workload: workload.name,
    samples: Object.fromEntries(samples),
    failures: Object.fromEntries(failures),
  }));
  const document = {
    machine,
    rounds,
    rows,
    scaled: Object.fromEntries(scaled),
    resumed,
    syncs: Object.fromEntries(syncs),
    targets,
  };
  writeFileSync(values.json, `${JSON.stringify(document, null, 2)}\n`);
}
