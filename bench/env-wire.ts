/**
 * `npm run bench:env-wire`: steps of CartPole a second over the wire (TCP, host in a process of its own): one session in turn, one
 * session that does not wait, 32 sessions, and batches; beside OpenEnv's own server and client where a Python has them.
 *
 *   npm run bench:env-wire -- [--rounds N] [--seconds N] [--python PROGRAM]
 *
 * Rounds are interleaved, and what counts is the ratio of the medians. Each figure is steps that were replied to.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { connect } from '../src/connect.ts';
import { thisMachine } from './report.ts';
import { median } from './workloads/workload.ts';

const CHILDREN = join(import.meta.dirname, 'children');
const SESSIONS = 32;
const BATCH = 64;
const PIPELINE = 16;

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '2' },
    python: { type: 'string', default: '' },
  },
});
const seconds = Number(values.seconds);

/** Starts a child and resolves with the first line it prints. */
async function started(argv: readonly [string, ...string[]]): Promise<{ child: ChildProcess; line: string }> {
  const [program, ...args] = argv;
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  return { child, line };
}

/** Repeats `work`, which returns the steps it made, and counts steps a second. */
async function rate(work: () => Promise<number>, width = 1): Promise<number> {
  const begun = performance.now();
  let steps = 0;
  const worker = async (): Promise<void> => {
    while (performance.now() - begun < seconds * 1000) steps += await work();
  };
  await Promise.all(Array.from({ length: width }, worker));
  return steps / ((performance.now() - begun) / 1000);
}

const agentAt = (address: string) => connect(address, { capabilities: ['env'], maxParallel: 64 });

/** One session, one step after the other. */
async function sequential(address: string, width = 1): Promise<number> {
  await using agent = await agentAt(address);
  let count = 0;
  const players = Array.from({ length: width }, (_, at) => {
    let episode: Awaited<ReturnType<typeof agent.env.reset>> | undefined;
    return async () => {
      if (episode === undefined || episode.done) {
        await episode?.close();
        episode = await agent.env.reset('CartPole-v1', { instance: String(at) });
        return 0;
      }
      await episode.step(count++ % 2);
      return 1;
    };
  });
  const rates = await Promise.all(players.map((play) => rate(play)));
  return rates.reduce((sum, each) => sum + each, 0);
}

/** Many sessions, each one step after the other. */
async function manySessions(address: string): Promise<number> {
  const rates = await Promise.all(Array.from({ length: SESSIONS }, () => sequential(address)));
  return rates.reduce((sum, each) => sum + each, 0);
}

/** One session, batches of steps. */
async function batches(address: string): Promise<number> {
  await using agent = await agentAt(address);
  const vector = await agent.env.vector('CartPole-v1', BATCH, { autoreset: 'same_step' });
  const actions = Array.from({ length: BATCH }, (_, at) => at % 2);
  return await rate(async () => {
    await vector.step(actions);
    return BATCH;
  });
}

const host = await started([process.execPath, '-C', 'handfast-source', join(CHILDREN, 'env-host.ts')]);
const script = join(CHILDREN, 'openenv_cartpole.py');
const openEnv = values.python === '' ? undefined : await started([values.python, script, 'serve']);
const workloads: Record<string, () => Promise<number>> = {
  ...(openEnv && {
    'OpenEnv, one session, sequential': async () => {
      const { child, line } = await started([values.python, script, 'client', openEnv.line, values.seconds]);
      child.kill();
      return Number(line);
    },
  }),
  'one session, sequential': () => sequential(host.line),
  [`one session, ${PIPELINE} episodes at once`]: () => sequential(host.line, PIPELINE),
  [`${SESSIONS} sessions, sequential`]: () => manySessions(host.line),
  [`batch_step, ${BATCH} episodes`]: () => batches(host.line),
};

const rounds: Record<string, number[]> = {};
try {
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const [name, work] of Object.entries(workloads)) {
      rounds[name] ??= [];
      rounds[name].push(await work());
    }
  }
} finally {
  host.child.kill();
  openEnv?.child.kill();
}
const [base] = Object.values(rounds) as [number[]];
const { cpu, cores, node } = thisMachine();
console.log(
  `${cpu}, ${cores} cores, Node ${node}\n\n| CartPole-v1 over the wire | steps/s (median) | ratio to the first row |\n| --- | ---: | ---: |`,
);
for (const [name, figures] of Object.entries(rounds)) {
  const figure = median(figures);
  console.log(`| ${name} | ${Math.round(figure).toLocaleString('en')} | ${(figure / median(base)).toFixed(1)} |`);
}
