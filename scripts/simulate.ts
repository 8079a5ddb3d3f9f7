/**
 * `npm run simulate -- [--seed N] [--workers W] [--tasks T] [--out folder]`: plays a fleet on virtual time, with the
 * shipped orchestrator and workers and as two baselines, and reports all three.
 *
 * Exits with 1 when a rule was broken; the seed, the step and the events before it are printed then.
 * @see docs/simulation.md
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { RuleBroken } from '../simulation/checks.ts';
import { plotsOf } from '../simulation/plots.ts';
import { numbersOf, type Report, reportText } from '../simulation/report.ts';
import { FULL } from '../simulation/setting.ts';
import { type Outcome, type SimulateOptions, simulateBaseline, simulateHandshake } from '../simulation/simulation.ts';

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

async function timed(name: string, play: (options: SimulateOptions) => Promise<Outcome>): Promise<Outcome> {
  const startedAt = performance.now();
  const seconds = (): string => `${((performance.now() - startedAt) / 1000).toFixed(0)} s`;
  const outcome = await play({
    progress: (submitted) => {
      if (submitted % 10_000 === 0) console.error(`${name}: ${submitted} tasks, ${seconds()}`);
    },
  });
  console.error(`${name}: ended after ${seconds()}, ${outcome.steps} steps`);
  return outcome;
}

try {
  const handshake = await timed('handshake', (options) => simulateHandshake(setting, options));
  const configured = await timed('configured', (options) => simulateBaseline('configured', setting, options));
  const blind = await timed('fire and forget', (options) => simulateBaseline('blind', setting, options));
  const contenders = {
    handshake: numbersOf(handshake),
    configured: numbersOf(configured),
    blind: numbersOf(blind),
  };
  const report: Report = { setting, contenders };
  console.log(reportText(report));
  if (values.out !== undefined) {
    mkdirSync(values.out, { recursive: true });
    writeFileSync(join(values.out, 'report.json'), `${JSON.stringify(report, null, 2)}\n`);
    writeFileSync(join(values.out, 'report.txt'), `${reportText(report)}\n`);
    const firstTokens = {
      handshake: handshake.measures.firstToken,
      configured: configured.measures.firstToken,
      blind: blind.measures.firstToken,
    };
    for (const [name, picture] of plotsOf(report, firstTokens)) writeFileSync(join(values.out, name), picture);
  }
} catch (thrown) {
  if (!(thrown instanceof RuleBroken)) throw thrown;
  console.error(`a rule was broken: ${thrown.message}`);
  process.exitCode = 1;
}
