/**
 * `npm run bench:multi-agent`: the cost of a subagent beside a plain child of `fork` that does the same small task over
 * Node's channel: created, given a task, awaited and ended; tasks of those that stay; events from three levels below;
 * and siblings of one that is stuck.
 *
 *   npm run bench:multi-agent -- [--rounds N] [--quick] [--json FILE]
 *
 * Handfast is compiled. Plain children store nothing: ratios are those of a host with its state in memory, and rows
 * `on disk` have the cost of storing each task and each end before they are acknowledged. Rounds are interleaved, and
 * ratios are medians of those of the rounds.
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { build } from './build.ts';
import { timed } from './chains/lines.ts';
import { openSite } from './multi-agent/handfast.ts';
import { plainChildren, plainFunction } from './multi-agent/plain.ts';
import type { Team } from './multi-agent/team.ts';
import { load, thisMachine } from './report.ts';
import { Scratch } from './sessions/processes.ts';
import { rowsOf, rowsText, targetsText } from './sessions/report.ts';
import { compared, type Result, runRounds } from './sessions/rounds.ts';
import { judged, type TargetOutcome } from './sessions/targets.ts';
import type { Contender, Workload } from './sessions/workload.ts';

const MANY = 32;
const SIBLINGS = 8;
/** As many as one task may report. */
const EVENTS = 1_000;

const { values } = parseArgs({
  options: { rounds: { type: 'string' }, quick: { type: 'boolean', default: false }, json: { type: 'string' } },
});
const rounds = Number(values.rounds ?? (values.quick ? 3 : 7));

build();
const machine = thisMachine();
const { cpu, cores, system, node } = machine;
console.log(`${cpu}, ${cores} cores, ${system}, Node ${node}; ${rounds} rounds; ${load()}\n`);

/** Does the work `count` times, `atOnce` at a time; returns the times a second. */
async function rate(count: number, atOnce: number, work: (at: number) => Promise<void>): Promise<number> {
  let left = count;
  const worker = async (at: number): Promise<void> => {
    while (left-- > 0) await work(at);
  };
  return count / (await timed(() => Promise.all(Array.from({ length: atOnce }, (_, at) => worker(at)))));
}

/** Returns a workload that counts how often a second each contender does it, `atOnce` at a time. */
function workload(
  name: string,
  unit: string,
  atOnce: number,
  contenders: Readonly<Record<string, { readonly count: number; readonly work: (at: number) => Promise<void> }>>,
): Workload<undefined> {
  return {
    name,
    transport: 'none',
    figures: [{ name, unit, lowerIsBetter: false }],
    contenders: Object.entries(contenders).map(
      ([contender, { count, work }]): Contender<undefined> => ({
        name: contender,
        measure: async () => ({ [name]: await rate(count, atOnce, work) }),
      }),
    ),
    close: async () => {},
  };
}

using scratch = new Scratch();
const site = await openSite();
const onDisk = await openSite(scratch.make());
const plain: Team = plainChildren(MANY);
const functions = await site.team('function', MANY);
const stored = await onDisk.team('function', MANY);
const programs = await site.team('program', MANY);

const lifetimes = [1, MANY].flatMap((atOnce) => {
  const few = atOnce === 1 ? 12 : 2 * MANY;
  return [
    workload(`program${atOnce}`, 'subagents/s', atOnce, {
      bare: { count: few, work: () => plain.lifetime() },
      handfast: { count: few, work: () => programs.lifetime() },
    }),
    workload(`function${atOnce}`, 'subagents/s', atOnce, {
      bare: { count: 20_000, work: () => plainFunction.lifetime() },
      limit: { count: 4_000, work: () => site.fourRequests() },
      fork: { count: few, work: () => plain.lifetime() },
      handfast: { count: 25 * few, work: () => functions.lifetime() },
      'handfast, on disk': { count: 5 * few, work: () => stored.lifetime() },
    }),
    workload(`task${atOnce}`, 'tasks/s', atOnce, {
      bare: { count: 4_000, work: (at) => plain.task(at) },
      handfast: { count: 25 * few, work: (at) => programs.task(at) },
      'handfast, function': { count: 25 * few, work: (at) => functions.task(at) },
      'handfast, function, on disk': { count: 5 * few, work: (at) => stored.task(at) },
    }),
  ];
});

/** Events a second; one measurement is one task with all of them. */
const eventsOf = (team: Team) => async () => ({ events: EVENTS / (await timed(() => team.events(EVENTS))) });
const events: Workload<undefined> = {
  name: 'events',
  transport: 'none',
  figures: [{ name: 'events', unit: 'events/s', lowerIsBetter: false }],
  contenders: [
    { name: 'bare', measure: eventsOf(plain) },
    { name: 'handfast', measure: eventsOf(functions) },
  ],
  close: async () => {},
};

const siblingTasks = async (): Promise<number> => rate(1_500, SIBLINGS, (at) => programs.task(at));
const siblings: Workload<undefined> = {
  name: 'siblings',
  transport: 'none',
  figures: [{ name: 'siblings', unit: 'tasks/s', lowerIsBetter: false }],
  contenders: [
    { name: 'none stuck', measure: async () => ({ siblings: await siblingTasks() }) },
    {
      name: 'one stuck',
      async measure() {
        const end = await site.stick();
        const measured = await siblingTasks();
        await end();
        return { siblings: measured };
      },
    },
  ],
  close: async () => {},
};

function judgeTargets(results: readonly Result[]): TargetOutcome[] {
  const least = (name: string, against: string, bound: number, contender = 'handfast'): TargetOutcome => {
    const result = results.find((each) => each.workload.name === name) as Result;
    const who = contender === 'handfast' ? '' : ` ${contender}`;
    return judged(
      `${name}${who} ≥ ${bound} × ${against}`,
      compared(result, contender, against, name),
      (ratio) => ratio >= bound,
    );
  };
  return [
    // A child of Node without imports against one that loads the library and makes a handshake.
    least('program1', 'bare', 0.25),
    least(`program${MANY}`, 'bare', 0.25),
    // Each of the four requests is stored before its reply, and an ended subagent of long ago is deleted.
    least('function1', 'limit', 0.04),
    least(`function${MANY}`, 'limit', 0.04),
    least('function1', 'fork', 20),
    least(`function${MANY}`, 'fork', 20),
    // Three messages each way that are checked, and two stored states, against one message each way.
    least('task1', 'bare', 0.1),
    least(`task${MANY}`, 'bare', 0.08),
    // Three levels below, and to each agent above, against one level.
    least('events', 'bare', 0.5),
    least('siblings', 'none stuck', 0.9, 'one stuck'),
  ];
}

const progress = (line: string): void => void process.stderr.write(`${line}\n`);
let results: readonly Result[];
try {
  results = await runRounds([...lifetimes, events, siblings], rounds, undefined, progress);
} finally {
  await Promise.all([plain, functions, stored, programs].map((team) => team.close()));
  await Promise.all([site.close(), onDisk.close()]);
}
const targets = judgeTargets(results);
console.log(`${rowsText(results)}\n\n${targetsText(targets)}\n${load()}`);
if (values.json !== undefined) {
  const document = { machine, settings: { rounds }, rows: rowsOf(results), targets };
  writeFileSync(values.json, `${JSON.stringify(document, null, 2)}\n`);
}
