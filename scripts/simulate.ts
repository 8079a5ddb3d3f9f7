/**
 * `npm run simulate -- [--seed N] [--workers W] [--tasks T] [--out folder]`: plays a fleet on virtual time, once with the
 * handshake and once as fire and forget, and reports both. Without numbers it is 10,000 workers and 1,000,000 tasks.
 *
 * Ends with 1 when a rule was broken; the seed, the step and what led to it are printed then.
 * @see docs/simulation.md
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { RuleBroken } from '../simulation/checks.ts';
import { plotsOf } from '../simulation/plots.ts';
import { curvesOf, numbersOf, type Report, reportText } from '../simulation/report.ts';
import { FULL } from '../simulation/setting.ts';
import {
  type Outcome,
  type SimulateOptions,
  simulateFireAndForget,
  simulateHandshake,
} from '../simulation/simulation.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(FULL.seed) },
    workers: { type: 'string', default: String(FULL.workers) },
    tasks: { type: 'string', default: String(FULL.tasks) },
    out: { type: 'string' },
  },
});

function wholeNumber(name: 'seed' | 'workers' | 'tasks', least: number): number {
  const value = Number(values[name]);
  if (Number.isSafeInteger(value) && value >= least) return value;
  console.error(`--${name}: a whole number from ${least} on`);
  process.exit(2);
}

const setting = {
  ...FULL,
  seed: wholeNumber('seed', 0),
  workers: wholeNumber('workers', 1),
  tasks: wholeNumber('tasks', 1),
};

function timed(name: string, play: (options: SimulateOptions) => Outcome): Outcome {
  const began = performance.now();
  const seconds = (): string => `${((performance.now() - began) / 1000).toFixed(0)} s`;
  const outcome = play({
    stopwatch: () => performance.now(),
    progress: (submitted) => {
      if (submitted % 100_000 === 0) console.error(`${name}: ${submitted} tasks, ${seconds()}`);
    },
  });
  console.error(`${name}: over after ${seconds()}, ${outcome.steps} steps`);
  return outcome;
}

try {
  const handshake = timed('handshake', (options) => simulateHandshake(setting, options));
  const baseline = timed('fire and forget', (options) => simulateFireAndForget(setting, options));
  const report: Report = { setting, handshake: numbersOf(handshake), fire_and_forget: numbersOf(baseline) };
  console.log(reportText(report));
  if (values.out !== undefined) {
    mkdirSync(values.out, { recursive: true });
    writeFileSync(join(values.out, 'report.json'), `${JSON.stringify(report, null, 2)}\n`);
    writeFileSync(join(values.out, 'report.txt'), `${reportText(report)}\n`);
    const curves = { handshake: curvesOf(handshake.measures), baseline: curvesOf(baseline.measures) };
    for (const [name, picture] of plotsOf(report, curves)) writeFileSync(join(values.out, name), picture);
  }
} catch (thrown) {
  if (!(thrown instanceof RuleBroken)) throw thrown;
  console.error(`a rule was broken: ${thrown.message}`);
  process.exitCode = 1;
}
