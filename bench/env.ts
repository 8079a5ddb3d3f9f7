/**
 * `npm run bench:env`: steps a second of processor time of environments in this process, beside Gymnasium's own in
 * Python if it is installed: one environment, and vectors of several with autoreset; of the bare CartPole by the clock,
 * too. `bench:env-wire` measures the cost of the wire.
 *
 *   npm run bench:env -- [--seconds N] [--python PATH]
 *
 * `--python`: a Python with gymnasium. Without one, only Handfast's are measured.
 */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Environment, Step } from '../src/capabilities/env/environment.ts';
import { CartPole } from '../src/capabilities/env/environments/cart-pole.ts';
import { environmentKinds, makeEnvironment } from '../src/capabilities/env/registry.ts';
import { thisMachine } from './report.ts';
import { median } from './workloads/workload.ts';

const ROUNDS = 5;
const VECTORS = [1, 8, 64, 512];
/** Steps between two looks at the clock. */
const STRETCH = 8192;

/** Seconds of this process so far. */
type Clock = () => number;

/** A busy machine changes it less than a clock. */
const processorTime: Clock = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};
const wallTime: Clock = () => performance.now() / 1000;

/** Returns the median of some rounds, in steps a second. */
function measure(seconds: number, stretch: () => number, clock: Clock = processorTime): number {
  stretch();
  return median(
    Array.from({ length: ROUNDS }, () => {
      const start = clock();
      let steps = 0;
      let elapsed = 0;
      while (elapsed < seconds / ROUNDS) {
        steps += stretch();
        elapsed = clock() - start;
      }
      return steps / elapsed;
    }),
  );
}

/** Measures CartPole alone, as a caller in this process steps it: observation, reward and flags of each step are read. */
function bareCartPole(seconds: number, clock: Clock): number {
  const environment = new CartPole();
  environment.reset({ seed: 0 });
  let read = 0;
  return measure(
    seconds,
    () => {
      for (let at = 0; at < STRETCH; at += 1) {
        const { observation, reward, terminated } = environment.step(at & 1);
        read += observation[0] + reward;
        if (terminated) environment.reset();
      }
      return read === Infinity ? 0 : STRETCH;
    },
    clock,
  );
}

/** Environments with their wrappers, stepped in turn; one that has ended is reset by its next step. */
function vector(environments: readonly Environment[], seconds: number): number {
  const actions = environments.map(({ actionSpace }, at) => {
    const sample = actionSpace.sampler(at);
    return Array.from({ length: 64 }, () => sample());
  });
  const ended = environments.map(() => true);
  let round = 0;
  return measure(seconds, () => {
    for (let at = 0; at < STRETCH; at += 1) {
      const place = at % environments.length;
      if (place === 0) round += 1;
      const environment = environments[place]!;
      if (ended[place]) {
        environment.reset();
        ended[place] = false;
        continue;
      }
      const step = environment.step(actions[place]![round % 64]) as Step;
      ended[place] = step.terminated || step.truncated;
    }
    return STRETCH;
  });
}

const made = async (id: string, count: number): Promise<Environment[]> => {
  const kind = environmentKinds.find((each) => each.id === id)!;
  return Promise.all(Array.from({ length: count }, () => makeEnvironment(kind)));
};

/** Returns Gymnasium's rates on this machine, by the names of the script's lines; empty without it. */
function gymnasium(python: string | undefined, seconds: number): ReadonlyMap<string, number> {
  if (python === undefined) return new Map();
  const script = join(import.meta.dirname, 'children', 'gymnasium-steps.py');
  const lines = execFileSync(python, [script, String(seconds)], { encoding: 'utf8' })
    .trim()
    .split('\n');
  return new Map(lines.map((line) => JSON.parse(line) as [string, number]));
}

const shown = (figure: number | undefined): string =>
  figure === undefined ? '–' : Math.round(figure).toLocaleString('en-GB');

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { seconds: { type: 'string', default: '2' }, python: { type: 'string' } } });
  const seconds = Number(values.seconds);
  const theirs = gymnasium(values.python, seconds);
  const { cpu, cores, node } = thisMachine();
  console.log(`${cpu}, ${cores} cores, Node ${node}\n`);
  console.log(
    '| Steps a second of processor time | Handfast | Gymnasium | its vector class |\n| --- | ---: | ---: | ---: |',
  );
  const row = (name: string, ours: number, key = name): void => {
    const line = [name, shown(ours), shown(theirs.get(key)), shown(theirs.get(`${key} vector class`))];
    console.log(`| ${line.join(' | ')} |`);
  };
  const byClock = bareCartPole(seconds, wallTime);
  row('CartPole, bare', bareCartPole(seconds, processorTime));
  for (const { id } of environmentKinds.filter((kind) => !/-v0$/.test(kind.id) || kind.id === 'MountainCar-v0'))
    row(id, vector(await made(id, 1), seconds));
  for (const count of VECTORS.slice(1))
    row(`CartPole-v1 × ${count}`, vector(await made('CartPole-v1', count), seconds));
  console.log(`\nCartPole, bare, by the clock: ${shown(byClock)} steps a second`);
}

await main();
